#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What users of a block device rely on is as dm-linear has it: limits, polling,
# NOWAIT and protection information; md and dm-linear pass stamps on.
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
pi=$(disk_by_serial pi)

# described DEVICE: every limit and property that the kernel shows for it
described() { (cd "$(block "$1")" && grep -rs . queue integrity alignment_offset discard_alignment ro size); }

for disk in "$ssd" "$pi"; do
	name=$([[ $disk = "$ssd" ]] && echo FDP || echo PI)
	sectors=$(blockdev --getsz "$disk")
	dmsetup create linear --table "0 $sectors linear $disk 0"
	dmsetup create t --table "0 $sectors dsm $disk 0"
	described /dev/mapper/linear >/tmp/linear
	described /dev/mapper/t >/tmp/dsm
	works "$name: limits and properties are those of dm-linear, of which there are $(wc -l </tmp/linear)" \
		diff /tmp/linear /tmp/dsm
	dmsetup remove t
	dmsetup remove linear
done

# RWF_NOWAIT is refused where a device cannot do it, and polling where its queue does not:
# with old kernels that is dm-linear as well.
nowait() {
	fio --name=nowait --filename=/dev/mapper/$1 --ioengine=io_uring --direct=1 --rw=randwrite --bs=4k \
		--size=64m --number_ios=500 --iodepth=8 --nowait=1 --minimal
}
polled() {
	fio --name=polled --filename=/dev/mapper/$1 --ioengine=io_uring --hipri --direct=1 --rw=randwrite \
		--bs=4k --size=64m --number_ios=500 --iodepth=8 --verify=crc32c --minimal
}
does() { "$@" >/tmp/fio 2>&1 && echo works || { grep -o -m 1 'error=.*' /tmp/fio || echo fails; }; }
polls() { (($(<"$(queue "/dev/mapper/$1")/io_poll"))); }
# as_linear WHAT TEXT DEVICE: on t, what dm-linear does on DEVICE
as_linear() {
	dmsetup create linear --table "0 131072 linear $3 0"
	linear=$(does "$1" linear)
	dmsetup remove linear
	all+=("$linear")
	is "$2, as dm-linear: $linear" "$(does "$1" t)" "$linear"
}

table() { # DEVICE [FEATURE...]
	dmsetup create t --table "0 131072 dsm $1 0 $(($# - 1)) ${*:2}"
	begin t full
	record t file 1 collection 33554432 0:0:131072
	commit t >/dev/null
}
all=()
table "$ssd"
as_linear nowait 'writes that must not wait' "$ssd"
[[ $linear != works ]] || is 'are counted' "$(message t regions | awk '{ n += $13 } END { print n }')" 500
as_linear polls 'whether the device polls' "$ssd"
as_linear polled 'polled writes, verified' "$ssd"
dmsetup remove t

dmsetup create low --table "0 131072 linear $ssd 0"
table /dev/mapper/low leaves "$ssd"
as_linear polled 'polled writes above dm-linear' /dev/mapper/low
as_linear nowait 'and such as must not wait' /dev/mapper/low
! has_write_streams "$ssd" || is 'a kernel with write streams does it all' "${all[*]}" 'works works works works works'
dmsetup remove t
dmsetup remove low

# With protection information the block layer adds tags above us, and the disk
# checks them.
dmsetup create t --table "0 65536 dsm $pi 0"
begin t full
record t file 1 collection 16777216 0:0:65536
commit t >/dev/null
modprobe -q t10-pi
matches 'protection information is there' "$(<"$(block /dev/mapper/t)/integrity/format")" '^T10-DIF-TYPE1'
works 'writes with protection information, across a boundary too' fio --name=pi --filename=/dev/mapper/t \
	--ioengine=libaio --direct=1 --rw=randwrite --bsrange=4k-64k --size=32m --iodepth=8 --verify=crc32c --minimal
dmsetup remove t

# md, made through sysfs: it does not report its streams
if ! has_write_streams "$ssd"; then
	done_testing
fi
modprobe raid1
echo md_stack >/sys/module/md_mod/parameters/new_array
md=/sys/block/md_stack/md
dmsetup create low --table "0 65536 linear $ssd 0"
echo 1 >$md/raid_disks
echo none >$md/metadata_version
echo raid1 >$md/level
cat "$(block /dev/mapper/low)/dev" >$md/new_dev
echo 32768 >$md/component_size
echo 0 | tee $md/dev-dm-*/slot >/dev/null
echo active >$md/array_state
until_true '(($(</sys/block/md_stack/size)))'
dmsetup create t --table '0 65536 dsm /dev/md_stack 0'
is 'an md device does not report its streams' "$(field t device_streams) $(field t source)" '0 stacked'
message t set streams 8
is 'and the user is not believed' "$(field t device_streams) $(field t source)" '0 stacked'
refused 'leaves of an md device' 'Leaves need a bio-based device-mapper device' \
	dmsetup create u --table "0 65536 dsm /dev/md_stack 0 2 leaves $ssd"
begin t full
record t file 1 collection 1048576 0:0:4096
commit t >/dev/null
left=$(blocks_left "$ssd")
put /dev/mapper/t 0 7
put /dev/mapper/t 256 9
put /dev/mapper/t 1024 3
is 'nothing is stamped' "$(blocks_taken "$left" "$(blocks_left "$ssd")")" '19 0 0 0 0 0 0 0'
is 'those above see no streams' "$(<"$(queue /dev/mapper/t)/max_write_streams")" 0
dmsetup remove t
echo clear >$md/array_state
dmsetup remove low
done_testing
