#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Wrong arguments and messages: each is rejected with an error message, and changes nothing.
. "$(dirname "$0")/lib.sh"
load_module

disk=$(disk_by_serial plain)
sectors=$(blockdev --getsz "$disk")

create() { dmsetup create bad --table "0 ${size:-$sectors} dsm $*"; }

refused 'no argument' 'Invalid argument count: device and start sector required' create
refused 'no start' 'Invalid argument count: device and start sector required' create "$disk"
refused 'a start that is not a number' 'Invalid start sector' create "$disk" x
refused 'a device that is not there' 'Cannot open underlying device' create /dev/nothing 0
refused 'an odd number of feature words' 'must be even' create "$disk" 0 1 policy
refused 'too few feature words' 'all present' create "$disk" 0 4 policy dsm
refused 'more words than stated' 'Too many arguments (see <#feature words>)' create "$disk" 0 2 policy dsm groups 3
refused 'an unknown feature' 'Unknown feature' create "$disk" 0 2 colour red
refused 'a feature twice' 'Duplicate feature' create "$disk" 0 4 groups 3 groups 4
refused 'an unknown policy' 'policy must be none, file, boundary, dsm or life' create "$disk" 0 2 policy best
for k in 0 1 17 -3 3x 99999999999; do
	refused "groups $k" 'groups must be a number from 2 to 16' create "$disk" 0 2 groups "$k"
done
for a in 0 1 65 nan; do
	refused "alpha $a" 'alpha must be auto or a number from 2 to 64' create "$disk" 0 2 alpha "$a"
done
refused 'threshold1 too great' 'threshold1 must be a number from 0 to 20000' create "$disk" 0 2 threshold1 20001
refused 'threshold2 negative' 'threshold2 must be a number from 0 to 10000' create "$disk" 0 2 threshold2 -1
refused 'streams 256' 'streams must be auto or a number from 0 to 255' create "$disk" 0 2 streams 256
refused 'stream_base 0' 'stream_base must be a number from 1 to 255' create "$disk" 0 2 stream_base 0
refused 'an unknown prediction' 'prediction must be off, predicted, computed or literal' create "$disk" 0 2 prediction maybe
refused 'an unknown range' 'range must be written or region' create "$disk" 0 2 range all
refused 'a switch that is neither on nor off' 'hints must be on or off' create "$disk" 0 2 hints 1
refused 'an unknown foreign' 'foreign must be keep, override or class' create "$disk" 0 2 foreign drop
size=$((sectors + 8)) refused 'a device that is too small' 'too small for target' create "$disk" 0
is 'no device was made' "$(dmsetup ls)" 'No devices found'

# Messages, on a device with a table

dmsetup create t --table "0 $sectors dsm $disk 0"
begin t full
record t file 17 collection 8192 0:2048:32 file 18 index - 0:4096:16
is 'a table is uploaded' "$(commit t)" 'generation 1 files 2 extents 3'

state() { dmsetup table t; dmsetup status t | sed 's/ window_ms [0-9]*//'; message t regions; }
before=$(state)

again() { begin t "${1:-update}"; }

refused 'an unknown message' "Unknown message 'fly'" message t fly
refused 'a message with too many words' 'Usage: checkpoint' message t checkpoint now
refused 'a wrong parameter' 'alpha must be auto or a number from 2 to 64' message t set alpha 1
refused 'an unknown parameter' 'set colour red: Unknown feature' message t set colour red
refused 'a commit without a number' 'Usage: commit <n>' message t commit
refused 'the number of an upload that is over' "Upload $upload was committed" commit t
refused 'a number that no upload has' 'No upload 18446744073709551615' message t commit 18446744073709551615
refused 'a number that is none' "Invalid upload number 'x', must be the one from begin" message t abort x
refused 'a record without a number' 'file: Record must follow upload <n>' message t file 1 other -
refused 'an update without a generation' 'Usage: begin full <sectors>, or begin update' message t begin update "$sectors"
refused 'an update of another generation' "Generation '7' does not match the table's 1" message t begin update "$sectors" 7
refused 'begin neither full nor update' "begin: Invalid kind 'some', must be full or update" message t begin some "$sectors"
refused 'a table for another device size' "Invalid size '4096', device has $sectors sectors" message t begin full 4096
again; refused 'an unknown class' "Invalid class 'diary' of file 1, must be" record t file 1 diary -
refused 'and the upload is over' 'ended at an invalid record' commit t
again; refused 'a file id that is not a number' "Invalid file id 'one'" record t file one other -
again; refused 'a boundary that is not a number' "Invalid boundary 'here'" record t file 1 other here
again; refused 'a file with too few words' 'Usage: file' record t file 1 other
again; refused 'extents before a file' "Extent '0:0:8' without a file" record t extents 0:0:8
for word in 0:8 : 0::8 0:0:8:9 a:0:8 0:-8:8 0:0:0x10 18446744073709551616:0:8; do
	again; refused "a malformed extent, $word" "Invalid extent '$word', must be <offset>:<start>:<length>" record t file 1 other - "$word"
done
again; refused 'an extent of no length' "Invalid extent at 0 of 0 sectors, target has" record t file 1 other - 0:0:0
again; refused 'an extent out of range' "Invalid extent at $sectors of 8 sectors, target has" record t file 1 other - "0:$sectors:8"
again; refused 'an extent across the end' "of 16 sectors, target has $sectors" record t file 1 other - "0:$((sectors - 8)):16"
again; refused 'an extent whose end overflows' 'of 18446744073709551615 sectors, target has' record t file 1 other - 0:8:18446744073709551615
again; record t file 1 other - 0:0:16 8:8:8; refused 'extents of a file that overlap' 'overlaps an extent of file 1' commit t
again; record t file 1 other - 0:4104:16; refused 'extents of two files that overlap' 'file 1 at 4104 of 16 sectors overlaps an extent of file 18' commit t
again; record t file 1 other - file 1 other -; refused 'a file twice' 'Duplicate file 1 in upload' commit t
again; record t drop 99; refused 'a drop of an unknown file' 'drop 99: No such file' commit t
again full; refused 'a drop in a full upload' 'Not in a full upload' record t drop 17
again; refused 'a word that is no record' "Unknown record 'pile', must be file, extents, stamp or drop" record t file 1 other - pile 3
again; theirs=$upload; again
refused 'records for an upload that another has replaced' "Upload $theirs was replaced by a later one" message t upload "$theirs" file 1 other -
refused 'regions after a word' "Invalid file id 'x'" message t regions x
is 'the reason can be asked for' "$(message t error)" "regions: Invalid file id 'x'"
matches 'an upload in progress is seen' "$(dmsetup status t)" " upload $upload upload_files 0 upload_extents 0 upload_idle_ms [0-9]+ "
works 'the other one is not disturbed' message t abort "$upload"
matches 'and ends' "$(dmsetup status t)" ' upload 0 '

is 'the running state is as it was' "$(state)" "$before"
dmsetup remove t
done_testing
