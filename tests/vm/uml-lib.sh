# shellcheck shell=bash disable=SC2034 # used where this is sourced
# SPDX-License-Identifier: GPL-2.0-only
#
# What lib.sh has of a VM, for tests/uml/scripts: disks in memory that keep and count what
# they are sent in place of NVMe drives, and a kernel without modules but ours. To be
# sourced by lib.sh.

[[ -e /sys/module/streamdisk ]] ||
	insmod /run/job/streamdisk.ko disks=3 block=4096,512,4096 \
		sectors=$((2304 * 2048)),$((256 * 2048)),$((64 * 2048)) streams=8,0,3

disk_by_serial() {
	case $1 in
	fdp)	echo /dev/streamdisk ;;
	plain)	echo /dev/streamdiskb ;;
	few)	echo /dev/streamdiskc ;;
	*)	echo "no disk is called $1" >&2; return 1 ;;
	esac
}

modprobe() { :; }
park() { :; }
plug() { disk_by_serial "$1"; }

# What has no stream arrives where the first has it, as on a drive.
blocks_left() {
	local stream sectors _ left=()

	left=(4194304 4194304 4194304 4194304 4194304 4194304 4194304 4194304)
	while read -r stream _ sectors; do
		((stream = stream ? stream - 1 : 0, left[stream] -= sectors / 8))
	done <"/sys/kernel/debug/${1#/dev/}/counts"
	printf '%s\n' "${left[@]}"
}

# Where LVM keeps its records, on a root that is read-only
for folder in /etc/lvm /var/lib; do
	mountpoint -q $folder || mount -t tmpfs tmpfs $folder
done
