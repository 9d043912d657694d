#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Polled writes of 16 KiB and more that are divided, directly above a disk, above
# dm-linear and stripes. (A NULL pointer in dm ends the whole run.)
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
extents=()
for ((at = 0; at < 8192; at += 24)); do extents+=("$at:$at:16"); done

# polled WHAT DEVICE [FEATURE...]: writes that are divided at every second page
polled() {
	local what=$1 device=$2 at

	shift 2
	dmsetup create t --table "0 131072 dsm $device 0 $# $*"
	begin t full
	record t file 1 collection 1048576
	for ((at = 0; at < ${#extents[@]}; at += 100)); do
		record t extents "${extents[@]:at:100}"
	done
	commit t >/dev/null
	is "$what: the device polls" "$(<"$(queue /dev/mapper/t)/io_poll")" 1
	works "$what: polled writes, verified" fio --name=polled --filename=/dev/mapper/t --ioengine=io_uring \
		--hipri --direct=1 --rw=randwrite --bsrange=16k-64k --size=4m --number_ios=400 --iodepth=8 \
		--verify=crc32c --verify_fatal=1 --minimal
	works "$what: they were divided" test "$(field t split)" -gt 100
	dmsetup remove t
}

polled 'a disk' "$ssd"
dmsetup create low --table "0 131072 linear $ssd 0"
polled 'dm-linear' /dev/mapper/low
dmsetup remove low
dmsetup create low --table "0 131072 striped 2 32 $ssd 0 $ssd 131072"
polled 'stripes' /dev/mapper/low
dmsetup remove low
done_testing
