#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Every write arrives at the device in the placement handle of its region's
# stream: counted by the target, and by the SSD.
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
sectors=$(blockdev --getsz "$ssd")
t=/dev/mapper/t

# Six files of 1 MiB, one of each class, at block 0, 1024, 2048 and so on (the
# fourth with its second half first); all but the journal, oplog and other with
# a boundary in their middle.
table() {
	begin t full
	record t file 1 collection 524288 0:0:2048
	record t file 2 index 524288 0:8192:2048
	record t file 3 primary 524288 0:16384:2048
	record t file 4 journal - 1024:24576:1024 0:25600:1024
	record t file 5 oplog - 0:32768:2048 file 6 other - 0:40960:2048
	commit t
}

# writes N...: N writes of 4 KiB each into collection bottom and top, index bottom
# and top, primary, journal, oplog, other, and where nothing is mapped
writes() {
	local at n

	for at in 0 128 1024 1152 2048 3072 4096 5120 6144; do
		n=$1
		shift
		((!n)) || put $t "$at" "$n"
	done
}

# arrived: what the SSD took by placement identifier since the last call
left=$(mktemp)
arrived() {
	local now

	now=$(blocks_left "$ssd")
	blocks_taken "$(<"$left")" "$now"
	echo "$now" >"$left"
}
counted() { for i in {1..8}; do s=$(stream_sectors t "$i"); printf '%d%s' $((${s:-0} / 8)) "$([[ $i = 8 ]] || echo ' ')"; done; }

dmsetup create t --table "0 $sectors dsm $ssd 0"
arrived >/dev/null

if ! has_write_streams "$ssd"; then
	is 'this kernel has no write streams, and the status says so' "$(field t source) $(field t layout)" 'kernel none'
	table >/dev/null
	writes 1 2 3 4 5 6 7 8 9
	is 'every write arrives in the default handle' "$(arrived)" '45 0 0 0 0 0 0 0'
	for _ in 1 2 3; do writes 0 2 0 0 0 0 0 0 0; done
	message t checkpoint >/dev/null
	is 'regions are grouped all the same, for the hints' "$(region t 1 bottom 9) $(region t 1 top 9)" '1 3'
	dmsetup remove t
	done_testing
fi

is 'eight streams are seen in the queue, and used' "$(field t device_streams) $(field t source) $(field t streams_used)" '8 queue 8'
writes 1 2 3 4 5 6 7 8 9
is 'without a table every write is unstamped' "$(arrived)" '45 0 0 0 0 0 0 0'
is 'and counted as such' "$(stream_sectors t 0)" $((45 * 8))
message t reset

is 'the table is taken' "$(table)" 'generation 1 files 6 extents 10'
writes 1 2 3 4 5 6 7 8 9
# stream  1 other+unmapped, 2 journal+primary+oplog, 3 4 collection, 6 7 index
is 'before the first checkpoint: the layout of boundary' "$(arrived)" '17 18 1 2 0 3 4 0'
is 'the target has counted the same' "$(counted)" '17 18 1 2 0 3 4 0'
is 'unmapped writes are told apart' "$(field t unmapped_writes)" 9

# Bottom regions written four times over, top regions once
message t set prediction off
message t set primary_filter off
message t checkpoint >/dev/null
for _ in 1 2 3 4; do writes 64 0 16 0 0 0 0 0 0; done
writes 0 64 0 16 0 0 0 0 0
message t checkpoint >/dev/null
is 'hotness is lg(writes a page), so 4 to 1' \
	"$(message t regions | awk '$1 < 3 { h[$1 $4] = $8 } END { printf "%.3f %.3f", h["1bottom"] - h["1top"], h["2bottom"] - h["2top"] }')" '2.000 2.000'
is 'the groups are found' "$(region t 1 bottom 9) $(region t 1 top 9) $(region t 2 bottom 9) $(region t 2 top 9)" '3 1 3 1'
arrived >/dev/null
writes 1 2 3 4 0 0 0 0 0
is 'the writes that follow take the new streams' "$(arrived)" '0 0 2 0 1 4 0 3'

# A bio that straddles streams
message t reset
put $t 120 1 64		# 8 blocks bottom, 8 blocks top, one write
is 'a write across the boundary is split' "$(field t split)" 1
is 'and each part goes to its stream' "$(arrived)" '0 0 8 0 8 0 0 0'
put $t 248 1 64		# the end of the collection and the gap behind it
is 'so is one across the end of a file' "$(arrived)" '8 0 8 0 0 0 0 0'
message t set policy boundary
message t set policy file
is 'policy file has one stream for each type' "$(region t 1 bottom 11) $(region t 1 top 11) $(region t 2 top 11)" '3 3 4'
before=$(field t split)
put $t 120 1 64
is 'a write within a stream is not split' "$(field t split)" "$before"
is 'but counted for both regions' "$(arrived)" '0 0 16 0 0 0 0 0'

# Policies
writes 1 2 3 4 5 6 7 8 9
is 'policy file' "$(arrived)" '17 6 3 12 7 0 0 0'
message t set policy boundary
writes 1 2 3 4 5 6 7 8 9
is 'policy boundary' "$(arrived)" '17 6 1 2 8 4 7 0'
message t set policy none
writes 1 2 3 4 5 6 7 8 9
is 'policy none' "$(arrived)" '45 0 0 0 0 0 0 0'

# life: files of all types, each whole; 40 windows leave nothing of what was written
message t set policy life
writes 1 2 3 4 5 6 7 8 9
is 'policy life: what is not known is in the middle' "$(arrived)" '9 6 0 30 0 0 0 0'
for _ in {1..40}; do message t checkpoint >/dev/null; done
writes 32 32 0 0 0 0 256 0 0
for _ in {1..4}; do writes 0 0 128 128 256 0 0 0 0; done
for _ in {1..4}; do writes 0 0 0 0 256 0 0 0 0; done
message t checkpoint >/dev/null
life_groups() { for id in 1 2 3 5; do region t $id bottom 9; done | xargs; }
is 'written a quarter and once over, four times, and eight times' "$(life_groups) $(region t 1 top 9)" '1 2 3 1 1'
arrived >/dev/null
writes 1 2 3 4 5 6 7 8 9
is 'policy life: the sides of a file are together' "$(arrived)" '9 6 10 7 13 0 0 0'
message t set policy dsm

# Not data
message t reset
blkdiscard -q -f -o 0 -l 1048576 $t
blkdiscard -q -f -z -o 0 -l 65536 $t
sync $t
dd if=$t of=/dev/null bs=64k count=4 iflag=direct status=none
is 'discard, write zeroes, flush and read are not counted' "$(counted) $(field t unmapped_writes)" '0 0 0 0 0 0 0 0 0'
arrived >/dev/null

# Fewer streams than asked for
lower() { # STREAMS: layout, K and highest stream
	message t set streams "$1"
	echo "$(field t layout) $(field t groups) $(field t streams_used) $(message t regions | awk '{ if ($11 > m) m = $11 } END { print m + 0 }')"
}
is 'eight streams: K = 3' "$(lower 8)" 'dsm 3 8 7'
is 'seven: K = 2, a stream for primary indexes' "$(lower 7)" 'dsm 2 7 7'
is 'six: K = 2' "$(lower 6)" 'dsm 2 6 6'
is 'five: file, and one for the oplog' "$(lower 5)" 'file 1 5 5'
is 'four: file' "$(lower 4)" 'file 1 4 4'
is 'three: journal with other' "$(lower 3)" 'file 1 3 3'
message t set policy life
is 'life on eight: five of them' "$(lower 8)" 'life 3 5 4'
is 'life on four: K = 2' "$(lower 4)" 'life 2 4 3'
is 'life on three: journal with unmapped' "$(lower 3)" 'life 2 3 2'
is 'life on two: K = 1' "$(lower 2)" 'life 1 2 2'
message t set policy dsm
is 'two: collections with indexes' "$(lower 2)" 'file 1 2 2'
is 'one: none' "$(lower 1)" 'none 3 0 0'
is 'none: none' "$(lower 0)" 'none 3 0 0'
is 'more than there are: what there are' "$(lower 100)" 'dsm 3 8 7'
message t set streams auto
message t set stream_base 3
is 'from stream 3 on there are six' "$(field t layout) $(field t groups) $(field t streams_used)" 'dsm 2 6'
message t set stream_base 9
is 'from stream 9 on there is none' "$(field t layout) $(field t streams_used)" 'none 0'
writes 1 1 1 1 1 1 1 1 1
is 'no stream is ever used that the device has not' "$(dmesg | grep -c 'I/O error')" 0
message t set stream_base 1

# The device's blocks are 4 KiB: a write must not be divided within one
begin t update
refused 'an extent in parts of a block' "Extent '0:49153:8' not aligned to blocks of 8 sectors" \
	record t file 9 other - 0:49153:8
dmsetup remove t

# A partition, which has no limit of its own: one entry of an MBR, in blocks
python3 - "$ssd" <<'P'
import struct, sys
mbr = bytearray(4096)
struct.pack_into("<B3sB3sII", mbr, 446, 0, b"", 0x83, b"", 256, 8192)
mbr[510:512] = b"\x55\xaa"
open(sys.argv[1], "r+b").write(mbr)
P
blockdev --rereadpt "$ssd"
until_true '[[ -b ${ssd}p1 ]]'
dmsetup create t --table "0 65536 dsm ${ssd}p1 0"
is 'a partition has the streams of its disk' "$(field t device_streams) $(field t source)" '8 queue'
dmsetup remove t

# An underlying device-mapper device
dmsetup create low --table "0 65536 linear $ssd 0"
dmsetup create t --table "0 65536 dsm /dev/mapper/low 0 2 streams 8"
is 'an underlying dm device does not report, nor is a number believed' "$(field t device_streams) $(field t source)" '0 stacked'
sectors=65536
table >/dev/null
arrived >/dev/null
writes 1 2 3 4 5 6 7 8 9
is 'nothing is stamped' "$(arrived)" '45 0 0 0 0 0 0 0'
dmsetup remove t
dmsetup create t --table "0 65536 dsm /dev/mapper/low 0 2 leaves $ssd"
is 'the disk at the bottom reports' "$(field t device_streams) $(field t source)" '8 leaves'
table >/dev/null
arrived >/dev/null
writes 1 2 3 4 5 6 7 8 9
is 'the stamps pass through' "$(arrived)" '17 18 1 2 0 3 4 0'
dmsetup remove t
dmsetup remove low
done_testing
