#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A volume group on a dsm device, whose label LVM finds on the disk below, too: what keeps it from
# the disk before the dsm device is there, with a devices file and without, as dsmd.rst says.
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
mountpoint -q /etc/lvm || mount -t tmpfs tmpfs /etc/lvm
mkdir -p /etc/lvm/devices
filter='filter = [ "a|^/dev/mapper/t$|", "r|.*|" ]'
export DM_DISABLE_UDEV=1

# conf DEVICES: the part of lvm.conf
conf() { printf 'devices { %s }\nactivation { udev_sync=0 udev_rules=0 }\n' "$1" >/etc/lvm/lvm.conf; }
on() { dmsetup deps -o devname vg-db 2>/dev/null | sed -n 's/.*(\(.*\))$/\1/p'; }
up() { vgchange -q -aay vg >/dev/null 2>&1; }

# make DEVICES [COMMAND]: a group on t, then COMMAND, and then the machine as it is when it starts
make() {
	conf "$1"
	rm -rf /etc/lvm/devices/*
	wipefs -qa "$ssd"
	dsmctl create t "$ssd" --policy none >/dev/null &&
		pvcreate -q -y /dev/mapper/t >/dev/null &&
		vgcreate -q vg /dev/mapper/t >/dev/null &&
		lvcreate -q -y -Wn -Zn -an -L 64M -n db vg >/dev/null || return
	${2:-true} || return
	dsmctl remove t
	rm -rf /run/lvm
}

# boots: LVM looks before dsm does, and again after it
boots() {
	up
	before=$(on)
	said=$(dsmctl create t "$ssd" --policy none 2>&1 >/dev/null)
	up
	after=$(on)
	vgchange -q -an vg >/dev/null 2>&1
	[[ ! -e /dev/mapper/t ]] || dsmctl remove t
}
ends_on_dsm() {
	boots
	is "$1: LVM leaves the disk alone" "$before" ''
	is "$1: and finds the volume on the dsm device" "$after" t
}
bypasses() {
	boots
	is "$1: LVM takes the disk" "$before" "${ssd#/dev/}"
	matches "$1: dsmctl says who has it" "$said" "$ssd: it is in use: it is held by vg-db; nothing was changed"
}

matches 'without a word the devices file is off here' "$(lvmconfig --type default devices/use_devicesfile)" '=0'
# Without one it would see the label twice already here.
take_filter_away() { conf 'use_devicesfile=0'; }
make "use_devicesfile=0 $filter" take_filter_away || fail 'a group without a filter'
bypasses 'no devices file, no filter'
make "use_devicesfile=0 $filter" || fail 'a group with a filter'
ends_on_dsm 'no devices file, a filter'
make "use_devicesfile=1 $filter" || fail 'a group with a devices file and a filter'
bypasses 'a devices file, in vain a filter'
make 'use_devicesfile=1 search_for_devnames="none"' || fail 'a group with a devices file'
ends_on_dsm 'a devices file without search'
is 'and the devices file has only that' "$(grep -o 'DEVNAME=[^ ]*' /etc/lvm/devices/system.devices)" DEVNAME=/dev/mapper/t
# One that was set up without dsm before
forget_disk() { lvm lvmdevices -y --adddev "$ssd" && lvm lvmdevices -y --deldev "$ssd"; }
make 'use_devicesfile=1 search_for_devnames="none"' forget_disk || fail 'the disk in the devices file'
ends_on_dsm 'the disk was in the devices file'
wipefs -qa "$ssd"
done_testing
