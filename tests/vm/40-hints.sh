#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The lifetime hint arrives at a SCSI disk, exactly (group numbers of scsi_debug).
. "$(dirname "$0")/lib.sh"
load_module

# A hint that the writer has set, by F_SET_RW_HINT (1036)
put_hinted() {
	python3 - /dev/mapper/t <<-'P'
	import fcntl, mmap, os, struct, sys
	fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
	fcntl.fcntl(fd, 1036, struct.pack("Q", 4))
	os.pwrite(fd, mmap.mmap(-1, 4096), 0)
	P
}

# Whether the kernel's bios carry hints, which the target sees in those of others
disk=$(disk_by_serial plain)
sectors=$(blockdev --getsz "$disk")
dmsetup create t --table "0 $sectors dsm $disk 0"
begin t full
record t file 1 journal - 0:0:2048
commit t >/dev/null
put_hinted
carried=$(field t foreign)
if ((!carried)); then
	is 'this kernel carries no hints, and the status says so' "$(field t hints)" unsupported
	is 'nor does a region have one' "$(region t 1 bottom 12)" 0
	is 'dsmctl says it, too' "$(dsmctl status t | sed -n 's/.*(\(this kernel .*\))/\1/p')" \
		'this kernel has neither write streams nor lifetime hints'
	dmsetup remove t
	matches 'and when a device is made' "$(dsmctl create u "$disk" --policy dsm 2>&1 && dmsetup remove u)" \
		'has neither write streams nor lifetime hints: policy dsm stamps nothing'
	done_testing
fi
is 'this kernel carries hints, and the status says nothing else' "$carried $(field t hints)" '1 '
is 'a journal gets the hint for what is short' "$(region t 1 bottom 12)" 2
dmsetup remove t

modprobe sd_mod
modprobe scsi_debug dev_size_mb=64 delay=0
groups=/sys/bus/pseudo/drivers/scsi_debug/group_number_stats
if [[ ! -e $groups ]]; then
	rmmod scsi_debug
	done_testing	# it does not say what arrives
fi
disk=
until_true 'disk=$(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/* 2>/dev/null) && [[ -b /dev/${disk##*/} ]]'
disk=/dev/${disk##*/}
sectors=$(blockdev --getsz "$disk")

# arrived: writes by group number 0 to 5 since the last call
arrived() { awk '$1 < 6 { printf "%s%d", $1 ? " " : "", $2 } END { print "" }' "$groups"; echo 0 >"$groups"; }

dmsetup create t --table "0 $sectors dsm $disk 0"
begin t full
record t file 1 collection 524288 0:0:2048 file 2 index 524288 0:8192:2048 \
	file 3 primary 524288 0:16384:2048 file 4 journal - 0:24576:2048 file 6 other - 0:40960:2048
commit t >/dev/null
is 'a disk with hints alone keeps K' "$(field t layout) $(field t groups)" 'none 3'
echo 0 >"$groups"

writes() { # the regions of the four files, and other
	local at n

	for at in 0 128 1024 1152 2048 3072 5120; do
		n=$1
		shift
		((!n)) || put /dev/mapper/t "$at" "$n"
	done
}
writes 1 2 3 4 5 6 7
# 2 short: journal; 3 and 4 medium: top (group 2 of 3 rounds up); 4 long: primary; 5 extreme: bottom
is 'hints before the first checkpoint' "$(arrived)" "7 0 6 6 5 4"
message t set prediction off
message t set primary_filter off
for _ in 1 2 3 4; do writes 64 0 16 0 0 0 0; done
writes 0 64 0 16 0 0 0
message t checkpoint >/dev/null
arrived >/dev/null
writes 1 2 3 4 0 0 0
is 'hot is short and cold is extreme' "$(arrived)" "0 0 4 0 0 6"

message t set hints off
writes 1 2 3 4 5 6 7
is 'hints off: none' "$(arrived)" "28 0 0 0 0 0"
message t set hints on
message t set policy none
writes 1 2 3 4 5 6 7
is 'policy none: none' "$(arrived)" "28 0 0 0 0 0"
message t set policy dsm
message t checkpoint >/dev/null

put_hinted
is 'a hint of the writer is kept' "$(arrived) $(field t foreign)" "0 0 0 0 1 0 1"
message t set foreign override
put_hinted
is 'unless it is overridden' "$(arrived) $(field t foreign)" "0 0 0 0 0 1 1"
dmsetup remove t
rmmod scsi_debug
done_testing
