#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# F2FS gives its data streams of its own (Linux 7.2): what arrives on a drive without dsm,
# and above dsm, where it sees no streams and its lifetime hints are what is left of it.
# Debian's kernels for clouds have no F2FS: tests/bed/f2fs builds it.
. "$(dirname "$0")/lib.sh"
[[ -e /run/job/f2fs.ko ]] || skip 'tests/bed/f2fs has not made the module'
load_module
insmod /run/job/f2fs.ko

ssd=$(disk_by_serial fdp)
mnt=/tmp/f2fs
mkdir -p $mnt
cat >/tmp/set-hint <<'P'
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.fcntl(fd, 1036, struct.pack("Q", int(sys.argv[2])))
P
left=$(mktemp)
# Nothing is written by the clock
fresh_f2fs() { # DEVICE
	wipefs -qa "$1"
	mkfs.f2fs -q -f "$1" >/dev/null
	mount -t f2fs -o background_gc=off "$1" $mnt
	setting "$1" cp_interval 3600
}
# setting DEVICE NAME VALUE
setting() { echo "$3" >"/sys/fs/f2fs/$(basename "$(block "$1")")/$2"; }
# arrived COMMAND...: blocks by placement identifier, of what it writes and of no other
arrived() {
	sync -f $mnt
	blocks_left "$ssd" >"$left"
	"$@"
	blocks_taken "$(<"$left")" "$(blocks_left "$ssd")"
}
# into FILE [DIRECT]: 1 MiB (256 blocks), of which the fsync writes a node (a block more)
into() { dd if=/dev/urandom of="$mnt/$1" bs=64k count=16 conv=notrunc,fsync ${2:+oflag=$2} status=none; }
# named FILE HINT: a file whose inode has a hint, 1 none, 2 short, 3 medium, 4 long, 5 extreme
named() { python3 /tmp/set-hint "$mnt/$1" "$2"; }

# ---- without dsm ---------------------------------------------------------------------
# Stream 1 is the first identifier, and what has no stream arrives there, too.
fresh_f2fs "$ssd"
is "buffered: what a database writes is warm, all of it" \
	"$(arrived into collection-0.wt) / $(arrived into index-1.wt) / $(arrived into WiredTigerLog.0000000001)" \
	'1 256 0 0 0 0 0 0 / 1 256 0 0 0 0 0 0 / 1 256 0 0 0 0 0 0'
is 'hot by its extension: with the nodes' "$(arrived into a.db)" '257 0 0 0 0 0 0 0'
is 'cold by its extension' "$(arrived into a.mp4)" '1 0 256 0 0 0 0 0'
is 'direct: extensions do not count' "$(arrived into a.db direct) / $(arrived into a.mp4 direct)" \
	'1 256 0 0 0 0 0 0 / 1 256 0 0 0 0 0 0'
for hint in {1..5}; do
	named "hint$hint" $hint
done
by_hint() { for hint in {1..5}; do arrived into "hint$hint" $1; done | sort | uniq -c | xargs; }
three_warm='1 1 0 256 0 0 0 0 0 3 1 256 0 0 0 0 0 0 1 257 0 0 0 0 0 0 0'
is 'of the hints short is hot, extreme cold, and the others nothing' "$(by_hint)" "$three_warm"
is 'direct, too' "$(by_hint direct)" "$three_warm"
umount $mnt

# ---- above dsm -----------------------------------------------------------------------
dmsetup create t --table "0 $(blockdev --getsz "$ssd") dsm $ssd 0"
is 'above dsm there are no streams to be seen' "$(<"$(queue /dev/mapper/t)/max_write_streams")" 0
fresh_f2fs /dev/mapper/t
is 'so that F2FS stamps none' "$(arrived into collection-0.wt) / $(arrived into a.mp4)" \
	'257 0 0 0 0 0 0 0 / 257 0 0 0 0 0 0 0'

# Policy file: stream 1 other and unmapped, 2 journal, 3 collection, 4 index, 5 oplog
message t set policy file
# shellcheck disable=SC2046 # words
table() { begin t full && record t file 1 collection - $(extents_of $mnt/collection-0.wt) && commit t >/dev/null; }
table
is 'what the table has arrives in its stream' "$(arrived into collection-0.wt)" '1 0 256 0 0 0 0 0'
is 'direct, too' "$(arrived into collection-0.wt direct)" '1 0 256 0 0 0 0 0'
message t reset
is 'keep: hot and cold of F2FS are unmapped, and no more' "$(arrived into a.db) / $(arrived into a.mp4)" \
	'257 0 0 0 0 0 0 0 / 257 0 0 0 0 0 0 0'
matches 'though hints come, and are counted' "$(field t foreign)" '^[1-9]'
message t set foreign override
message t reset
is 'override: the same streams' "$(arrived into a.db) / $(arrived into a.mp4)" \
	'257 0 0 0 0 0 0 0 / 257 0 0 0 0 0 0 0'
is 'and no hint is kept' "$(field t foreign)" 0
message t set foreign class
is 'class takes its temperatures for names: hot is a journal, cold an oplog, and its nodes indexes' \
	"$(arrived into a.db) / $(arrived into a.mp4)" '0 256 0 1 0 0 0 0 / 0 0 0 1 256 0 0 0'
is 'the collection keeps its stream' "$(arrived into collection-0.wt)" '0 0 256 1 0 0 0 0'
named index-1.wt 3
named collection-2.wt 4
is 'and the names of an index and a collection do not come through' \
	"$(arrived into index-1.wt) / $(arrived into collection-2.wt direct)" '256 0 0 1 0 0 0 0 / 256 0 0 1 0 0 0 0'
message t set foreign keep

# Up to 16 GiB F2FS writes in place. As on a larger volume:
setting /dev/mapper/t ipu_policy 16
before=$(extents_of $mnt/collection-0.wt)
is 'a larger volume writes buffered data to new places, which no table has yet' \
	"$(arrived into collection-0.wt)" '257 0 0 0 0 0 0 0'
is 'it has moved' "$([[ $(extents_of $mnt/collection-0.wt) != "$before" ]] && echo yes)" yes
table
is 'with a new table direct writes arrive, in place' "$(arrived into collection-0.wt direct)" '1 0 256 0 0 0 0 0'
umount $mnt
dmsetup remove t

# ---- hints, at a disk that says what came --------------------------------------------
modprobe sd_mod
modprobe scsi_debug dev_size_mb=128 delay=0
groups=/sys/bus/pseudo/drivers/scsi_debug/group_number_stats
disk=
until_true 'disk=$(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/* 2>/dev/null) && [[ -b /dev/${disk##*/} ]]'
disk=/dev/${disk##*/}
# hints COMMAND...: those with which its writes arrive (direct, so 16 of 64 KiB, and a node)
hints() {
	sync -f $mnt
	echo 0 >$groups
	"$@"
	awk '$1 < 6 { printf "%s%d", $1 ? " " : "", $2 }' $groups
}
dmsetup create t --table "0 $(blockdev --getsz "$disk") dsm $disk 0"
fresh_f2fs /dev/mapper/t
into collection-0.wt
named hot.wt 2
is 'without a table: hot is short, warm has none, a node is medium' \
	"$(hints into hot.wt direct) / $(hints into collection-0.wt direct)" '0 0 16 1 0 0 / 16 0 0 1 0 0'
table
message t set policy dsm
is 'keep: F2FS gives warm data none, so that the collection has the hint of its region' \
	"$(hints into hot.wt direct) / $(hints into collection-0.wt direct)" '0 0 16 1 0 0 / 0 0 0 1 0 16'
message t set foreign override
is 'override: all by the table' "$(hints into hot.wt direct) / $(hints into collection-0.wt direct)" \
	'17 0 0 0 0 0 / 1 0 0 0 0 16'
message t set foreign class
is 'class: its hot data has the hint of a journal, and its nodes that of an index' \
	"$(hints into hot.wt direct) / $(hints into collection-0.wt direct)" '0 0 16 0 0 1 / 0 0 0 0 0 17'
umount $mnt
dmsetup remove t
rmmod scsi_debug
done_testing
