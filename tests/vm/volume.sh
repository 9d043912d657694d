# shellcheck shell=bash disable=SC2034,SC2154 # used where this is sourced; of lib.sh and atwork.sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A volume of LVM's, vg-db on two disks, with a database on XFS in $mnt/data. To be
# sourced behind lib.sh and atwork.sh, with the module loaded.

modprobe -a xfs dm-snapshot
ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
export DM_DISABLE_UDEV=1
lvm() {
	command lvm "$1" --config 'devices{use_devicesfile=0 allow_mixed_block_sizes=1 filter=["a|^'"$ssd"'$|", "a|^'"$plain"'$|", "r|.*|"]}
		activation{udev_sync=0 udev_rules=0}' -qq "${@:2}"
}
table() { dmsetup table "$1"; }
kind() { dmsetup table "$1" | cut -d' ' -f3; }
logged() { grep -q "$1" /tmp/dsmd.log; }
served() { dsmctl boundary show vg-db 2>/dev/null | grep -q collection; }
boundaries() { json vg-db '[.regions[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum; }

# stays WHAT REASON DEVICE COMMAND...: refused, with the table as it was and no other loaded
stays() {
	local what=$1 reason=$2 device=$3 before

	before=$(table "$device")
	refused "$what" "$reason" "${@:4}"
	is "$what: the table is as it was" "$(table "$device")" "$before"
}
not_loaded() { is "$1: and none is loaded" "$(dmsetup table --inactive "$2")" ''; }

lvm pvcreate -y -ff "$ssd" "$plain"
lvm vgcreate vg "$ssd" "$plain"
lvm lvcreate -y -Wn -Zn -L 1G -n db vg "$ssd"
make_xfs /dev/mapper/vg-db
mount /dev/mapper/vg-db $mnt
mkdir $mnt/data
works 'a database is made on a volume' "${load[@]}" --dbpath $mnt/data
