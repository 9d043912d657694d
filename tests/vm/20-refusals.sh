#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Wrong arguments and messages: each is rejected with an error message, and changes nothing.
# What only the constructor says, and five messages; KUnit has the others.
. "$(dirname "$0")/lib.sh"
load_module

disk=$(disk_by_serial plain)
sectors=$(blockdev --getsz "$disk")

create() { dmsetup create bad --table "0 ${size:-$sectors} dsm $*"; }

refused 'no argument' 'Invalid argument count: device and start sector required' create
refused 'a start that is not a number' 'Invalid start sector' create "$disk" x
refused 'a device that is not there' 'Cannot open underlying device' create /dev/nothing 0
refused 'an odd number of feature words' 'must be even' create "$disk" 0 1 policy
refused 'too few feature words' 'all present' create "$disk" 0 4 policy dsm
refused 'more words than stated' 'Too many arguments (see <#feature words>)' create "$disk" 0 2 policy dsm groups 3
refused 'a feature twice' 'Duplicate feature' create "$disk" 0 4 groups 3 groups 4
refused 'a value out of range' 'groups must be a number from 2 to 16' create "$disk" 0 2 groups 17
size=$((sectors + 8)) refused 'a device that is too small' 'too small for target' create "$disk" 0
is 'no device was made' "$(dmsetup ls)" 'No devices found'

dmsetup create t --table "0 $sectors dsm $disk 0"
begin t full
record t file 17 collection 8192 0:2048:32 file 18 index - 0:4096:16
is 'a table is uploaded' "$(commit t)" 'generation 1 files 2 extents 3'

state() { dmsetup table t; dmsetup status t | sed 's/ window_ms [0-9]*//'; message t regions; }
before=$(state)
refused 'an unknown message' "Unknown message 'fly'" message t fly
refused 'a wrong parameter' 'alpha must be auto or a number from 2 to 64' message t set alpha 1
refused 'an update of another generation' "Generation '7' does not match the table's 1" message t begin update "$sectors" 7
begin t update
refused 'an extent out of range' "Invalid extent at $sectors of 8 sectors, target has" record t file 1 other - "0:$sectors:8"
begin t update
record t file 1 other - 0:4104:16
refused 'extents that overlap' 'file 1 at 4104 of 16 sectors overlaps an extent of file 18' commit t
is 'the reason can be asked for' "$(message t error)" 'Extent of file 1 at 4104 of 16 sectors overlaps an extent of file 18'
is 'the running state is as it was' "$(state)" "$before"
dmsetup remove t
done_testing
