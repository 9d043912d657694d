#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs in UML, on a kernel with the series write-streams: which write streams devices
# have that lie on others, and in which streams the disks get what is written.
. ./lib.sh
export MDADM_NO_UDEV=1

# Five disks: two that are alike, one with fewer streams and a larger granularity, one
# more of the first kind, and one without streams.
insmod ./streamdisk.ko disks=5 sectors=65536 streams=8,8,5,8,0 \
	granularity=65536,65536,98304,65536,65536 || exit
a=/dev/streamdisk b=/dev/streamdiskb c=/dev/streamdiskc d=/dev/streamdiskd e=/dev/streamdiske
t=/dev/mapper/t

# counts DISK: "STREAM:SECTORS" of each stream that has got something; 0 is also md's own
counts() { awk '$1 { printf "%s%d:%d", (n++ ? " " : ""), $1, $3 }' "/sys/kernel/debug/${1#/dev/}/counts"; }

# arrived DISK: the same since the last call for that disk
declare -A before
had() { grep -oP "(^| )$2:\K\d+" <<<"${before[$1]:-}" || echo 0; }
arrived() {
	local entry sectors new=()

	for entry in $(counts "$1"); do
		((sectors = ${entry#*:} - $(had "$1" "${entry%:*}"))) || continue
		new+=("${entry%:*}:$sectors")
	done
	echo "${new[*]}"
}
seen() { local disk; for disk; do before[$disk]=$(counts "$disk"); done; }

# lands WHAT WANTED DEVICE STREAM KIB DISK...: one write of KIB, and what has arrived in
# streams on each DISK, with commas in between
lands() {
	local what=$1 wanted=$2 disk got=() said

	seen "${@:6}"
	said=$(put "$3" "$4" "$5")
	for disk in "${@:6}"; do got+=("$(arrived "$disk")"); done
	is "$what" "$said, $(IFS=,; echo "${got[*]}")" "$wanted"
}

table() { must dmsetup create t; }
reload() {
	must dmsetup load t
	must dmsetup resume t
}
gone() { must dmsetup remove t; }

is 'a disk has the limits that it says' "$(limits $a), $(limits $c), $(limits $e)" '8 65536, 5 98304, 0 65536'
lands 'a write arrives in its stream' 'wrote 16384, 8:32' $a 8 16 $a
is 'a stream that the disk does not have is refused' "$(put $a 9)" EINVAL

# Partitions

# One of 32768 sectors at sector 2048, in a table as of old
add_partition() {
	printf '\0\0\0\0\x83\0\0\0\0\x8\0\0\0\x80\0\0' | dd of="$1" bs=1 seek=446 conv=notrunc status=none
	printf '\x55\xaa' | dd of="$1" bs=1 seek=510 conv=notrunc status=none
	must partx --add "$1"
}

add_partition $a
lands 'a partition has the streams of its disk' 'wrote 16384, 8:32' ${a}1 8 16 $a
is 'and no others' "$(put ${a}1 9)" EINVAL
add_partition $e
is 'on a disk without streams it has none' "$(put ${e}1 1)" EINVAL
must partx --delete $e

# Device-mapper

table <<<"0 8192 linear $a 0"
is 'linear has the limits of its disk' "$(limits $t)" '8 65536'
lands 'linear passes a stream on' 'wrote 16384, 8:32' $t 8 16 $a
is 'a stream that the disk does not have is refused above linear' "$(put $t 9)" EINVAL
reload <<<"0 8192 linear $c 0"
is 'reloaded to a disk with fewer streams' "$(limits $t)" '5 98304'
is 'a stream of before is refused then' "$(put $t 8)" EINVAL
reload <<<"0 8192 linear $e 0"
is 'reloaded to a disk without' "$(limits $t)" '0 0'
reload <<<"0 8192 linear $a 0"
is 'and back' "$(limits $t)" '8 65536'
gone
table <<<"0 8192 linear ${a}1 0"
is 'linear on a partition' "$(limits $t)" '8 65536'
lands 'a stream passes linear and the partition' 'wrote 16384, 7:32' $t 7 16 $a
gone
table <<<"0 2080 linear $a 0
2080 2048 linear $b 0"
is 'two segments on disks that are alike' "$(limits $t)" '8 65536'
lands 'a write across them is of its stream on both' 'wrote 32768, 6:32,6:32' $t 6 32 $a $b
gone
table <<<"0 2048 linear $a 0
2048 2048 linear $c 0"
is 'two segments, one of fewer streams' "$(limits $t)" '5 98304'
gone
table <<<"0 2048 linear $a 0
2048 2048 linear $e 0
4096 2048 linear $b 0"
is 'three segments, the second without streams' "$(limits $t)" '0 0'
gone
table <<<"0 8192 striped 2 32 $a 0 $b 0"
is 'striped on disks that are alike' "$(limits $t)" '8 65536'
lands 'each leg gets its part of a write in the stream' 'wrote 65536, 4:64,4:64' $t 4 64 $a $b
gone
table <<<"0 8192 striped 2 32 $a 0 $c 0"
is 'striped on disks that differ' "$(limits $t)" '5 98304'
gone
table <<<"0 8192 delay $a 0 0"
is 'a target that does not say that it passes streams on has none' "$(limits $t)" '0 0'
is 'and refuses them' "$(put $t 1)" EINVAL
lands 'a write without one goes through' 'wrote 16384, ' $t 0 16 $a
gone
table <<<"0 2048 linear $a 0
2048 2048 delay $a 8192 0"
is 'nor has a table with such a target' "$(limits $t)" '0 0'
gone
table <<<'0 2048 error'
is 'a target that has no device has none' "$(limits $t)" '0 0'
gone
table <<<"0 8192 raid raid1 3 0 region_size 1024 2 - $a - $b"
is 'dm-raid has none' "$(limits $t)" '0 0'
gone

# The limit falls while writes are in flight: one that was good when it was checked
# waits in the lower of two devices, which gets a table on a disk with fewer streams.

low=/dev/mapper/low
waiting() { (($(awk '{ print $2 }' "$(sys $t)/inflight") == 1)); }
must dmsetup create low --table "0 8192 linear $a 0"
table <<<"0 8192 linear $low 0"
is 'linear on linear' "$(limits $t)" '8 65536'
dmsetup suspend low
seen $c
put $t 8 >/tmp/put &
until_true waiting
dmsetup load low --table "0 8192 linear $c 0"
dmsetup resume low
wait
is 'a write that waits while its stream goes arrives without it' \
	"$(</tmp/put), $(arrived $c), $(limits $low)" 'wrote 16384, , 5 98304'
is 'who lies above does not learn of it' "$(limits $t)" '8 65536'
lands 'and what it sends loses its stream' 'wrote 16384, ' $t 7 16 $c
lands 'unless the disk has it' 'wrote 16384, 5:32' $t 5 16 $c
gone
must dmsetup remove low

# md

array() {
	must mdadm --create /dev/md0 --run --metadata=1.2 --homehost=none --assume-clean \
		--bitmap="${bitmap:-none}" "$@"
}
in_sync() { [[ $(</sys/block/md0/md/degraded) == 0 && $(</sys/block/md0/md/sync_action) == idle ]]; }
replaced() { [[ $(</sys/block/md0/md/dev-streamdiske/state) == *in_sync* && $(</sys/block/md0/md/sync_action) == idle ]]; }

# what is 1024 KiB behind the beginning of a leg's data, 16 KiB of it
at_1024k() {
	dd if="$1" iflag=direct bs=512 count=32 status=none \
		skip=$(($(<"/sys/block/md0/md/dev-${1#/dev/}/offset") + 2048)) | sha256sum
}
disarray() {
	must mdadm --stop /dev/md0
	must mdadm --zero-superblock "$@"
}

array --level=0 --chunk=16 -n 2 $a $b
is 'raid0 on disks that are alike' "$(limits /dev/md0)" '8 65536'
lands 'raid0: each leg gets its part' 'wrote 65536, 4:64,4:64' /dev/md0 4 64 $a $b
is 'raid0: a stream that the disks do not have is refused' "$(put /dev/md0 9)" EINVAL
disarray $a $b
array --level=0 --chunk=16 -n 2 $a $c
is 'raid0 on disks that differ' "$(limits /dev/md0)" '5 98304'
disarray $a $c

array --level=1 -n 2 $a $b
is 'raid1 on disks that are alike' "$(limits /dev/md0)" '8 65536'
lands 'raid1: each leg gets all' 'wrote 65536, 8:128,8:128' /dev/md0 8 64 $a $b
disarray $a $b
array --level=1 -n 2 $a $e
is 'raid1 with a leg without streams' "$(limits /dev/md0)" '0 0'
disarray $a $e
bitmap=internal array --level=1 -n 2 --write-behind=256 $a --write-mostly $b
lands 'raid1: write-behind keeps the stream' 'wrote 65536, 3:128,3:128' /dev/md0 3 64 $a $b
disarray $a $b

array --level=1 -n 2 $a $b
must mdadm /dev/md0 --fail $b
must mdadm /dev/md0 --remove $b
must mdadm /dev/md0 --add $c
until_true in_sync
is 'raid1: a spare with fewer streams lowers the limit' "$(limits /dev/md0)" '5 98304'
lands 'raid1: what both have arrives on both' 'wrote 16384, 5:32,5:32' /dev/md0 5 16 $a $c
must mdadm /dev/md0 --add $e
must mdadm /dev/md0 --replace $a --with $e
until_true replaced
seen $c $e
is 'raid1: with a replacement without streams a write is done' "$(put /dev/md0 4)" 'wrote 16384'
is 'raid1: in its stream on the other leg, without one on the replacement' "$(arrived $c), $(arrived $e)" '4:32, '
is 'raid1: where it has arrived nevertheless' "$(at_1024k $e)" "$(printf 'E%.0s' {1..16384} | sha256sum)"
is 'raid1: and no leg has failed' "$(grep -o '\[U*\]' /proc/mdstat)" '[UU]'
disarray $b $c $e
must mdadm --zero-superblock $a

array --level=10 --chunk=16 -n 4 $a $b $c $d
is 'raid10: the least of its disks' "$(limits /dev/md0)" '5 98304'
lands 'raid10: two legs each get their part' 'wrote 32768, 5:32,5:32,5:32,5:32' /dev/md0 5 32 $a $b $c $d
disarray $a $b $c $d
array --level=5 --chunk=16 -n 3 $a $b $d
is 'raid5 has none' "$(limits /dev/md0)" '0 0'
disarray $a $b $d

must rmmod streamdisk

# A stack as it is used: dsm on a logical volume on an array. It has nothing to do but
# to ask the underlying device.

insmod ./streamdisk.ko disks=2 sectors=65536 || fail 'streamdisk.ko cannot be loaded again'
array --level=1 -n 2 $a $b
must dmsetup create low --table "0 8192 linear /dev/md0 0"
is 'linear on raid1' "$(limits $low)" '8 0'
insmod ./dm-dsm.ko || fail 'dm-dsm.ko cannot be loaded'
table <<<"0 8192 dsm $low 0"
is 'dsm on both knows the streams by itself' \
	"$(dmsetup status t | grep -oP ' (device_streams|source) \K\w+' | xargs)" '8 queue'
upload=$(dmsetup message t 0 begin full 8192)
must dmsetup message t 0 "$upload" file 1 journal - 0:2048:128
must dmsetup message t 0 commit "${upload#upload }"
lands 'what it stamps arrives in its stream on both legs' 'wrote 16384, 2:32,2:32' $t 0 16 $a $b
gone
must dmsetup remove low
disarray $a $b
must rmmod dm-dsm
must rmmod streamdisk
done_testing
