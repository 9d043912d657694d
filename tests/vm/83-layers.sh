#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A file system need not be on the dsm device itself: what lies between is followed,
# down to the sector, or rejected with an error message.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
other=/dev/mapper/other
mnt=/tmp/db
mkdir -p $mnt
export DM_DISABLE_UDEV=1
# What LVM writes to the device is on the disk below, too, where it must not look.
lvm() {
	command lvm "$1" --config 'devices{use_devicesfile=0 filter=["a|^/dev/mapper/t$|", "a|^'$other'$|", "r|.*|"]}
		activation{udev_sync=0 udev_rules=0}' -qq "${@:2}"
}

# followed WHAT DEVICE FS: of a file on it, which lies in several pieces, every
# write finds its extent and every extent its writes
followed() {
	local what=$1 before

	if [[ $3 = xfs ]]; then mkfs.xfs -q -f -K "$2"; else mkfs.ext4 -q -F "$2"; fi
	mount "$2" $mnt
	for piece in {0..9}; do
		fallocate -o $((piece * 8))M -l 2M $mnt/file
		fallocate -l 1M $mnt/between$piece
	done
	# Without unwritten extents, whose change is written to the log
	dd if=/dev/zero of=$mnt/file bs=1M count=80 conv=notrunc oflag=direct status=none
	sync
	works "$what: a file on it is loaded" load-table t --class collection $mnt/file
	before=$(field t unmapped_sectors)
	for piece in 1 5 9; do
		dd if=/dev/urandom of=$mnt/file bs=64k seek=$((piece * 128)) count=16 conv=notrunc oflag=direct,dsync status=none
	done
	is "$what: its writes are counted for it" "$(message t regions | awk '{ n += $NF } END { print n }')" 768
	works "$what: and few others are there" test $(($(field t unmapped_sectors) - before)) -lt 1024
	umount $mnt
}

half=$(($(blockdev --getsz "$ssd") / 4096 * 2048))
dmsetup create t --table "0 $half dsm $ssd 0"
dmsetup create other --table "0 $half linear $ssd $half"
# As kpartx makes partitions of a device-mapper device
dmsetup create t-part2 --table "0 $((half / 2)) linear /dev/mapper/t $((half / 2))"
followed 'a partition' /dev/mapper/t-part2 xfs
dmsetup remove t-part2

# A volume whose second half lies before its first
works 'LVM takes the device' lvm pvcreate -y /dev/mapper/t
lvm vgcreate vg /dev/mapper/t
lvm lvcreate -y -Wn -Zn -L 256M -n hole vg
lvm lvcreate -y -Wn -Zn -L 512M -n db vg
lvm lvremove -y vg/hole
lvm lvextend -l +64 vg/db /dev/mapper/t:0-63
is 'a volume of two pieces' "$(dmsetup table vg-db | awk '{ print $3 }' | paste -sd' ')" 'linear linear'
followed 'a volume of two pieces' /dev/mapper/vg-db ext4

works 'LVM takes another device, too' lvm vgextend -y vg $other
lvm lvextend -l +16 vg/db $other
mkfs.xfs -q -f -K /dev/mapper/vg-db
mount /dev/mapper/vg-db $mnt
echo x >$mnt/file
before=$(dmsetup status t | cut -d' ' -f4- | sed 's/ unmapped.*//; s/window_ms [0-9]*//')
refused 'a volume that is partly elsewhere' 'only a part of its device' load-table t $mnt/file
umount $mnt
lvm lvremove -y vg/db
lvm lvcreate -y -Wn -Zn -i 2 -L 512M -n striped vg
mkfs.xfs -q -f -K /dev/mapper/vg-striped
mount /dev/mapper/vg-striped $mnt
echo x >$mnt/file
refused 'a striped volume' 'not on the dsm device t' load-table t $mnt/file
umount $mnt
lvm lvremove -y vg/striped
is 'the table is as it was' "$(dmsetup status t | cut -d' ' -f4- | sed 's/ unmapped.*//; s/window_ms [0-9]*//')" "$before"
lvm vgremove -y vg
dmsetup remove other
dsmctl remove t
done_testing
