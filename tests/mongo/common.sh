# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the tests of this folder, in the guest: the root with SecantusDB, and a file
# system on a dsm device. To be sourced.

. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
root=/tmp/root mnt=/tmp/db

# The loopback interface is down: SIOCSIFFLAGS
python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14s", b"lo", 1, b""))'

# file_system TYPE: on the device t, at $mnt and at /data of the root
file_system() {
	dsmctl create t "$ssd" --policy dsm >/dev/null
	if [[ $1 = xfs ]]; then mkfs.xfs -q -f /dev/mapper/t; else mkfs.ext4 -q -F /dev/mapper/t; fi
	mkdir -p $mnt $root
	mount /dev/mapper/t $mnt
	mount -o ro "$(disk_by_serial mongo)" $root
	mount --bind $mnt $root/data
	mount --bind /run/job $root/job
	mount -t tmpfs none $root/tmp
	mount --bind /dev $root/dev
	mount -t proc none $root/proc
	sync
	dsmctl debug reset t
	left=$(blocks_left "$ssd")
}

in_root() { exec chroot $root env -i PATH=/usr/local/bin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8 "$@"; }

# What each placement identifier took since the file system was made, and what the
# target counted for each stream, in blocks; what is not stamped has the first.
taken() { blocks_taken "$left" "$(blocks_left "$ssd")"; }
counted() {
	json t '[range(1; 9) as $n | [.kernel.status.streams[] | select(.stream == $n or ($n == 1 and .stream == 0)) | .sectors] |
		(add // 0) / 8] | join(" ")'
}

# arrived FS: all of it is where it was meant to be. ext4 zeroes blocks by Write
# Zeroes, which carries no stream and is not counted: the first is not its own there.
arrived() {
	local from=1

	[[ $1 = xfs ]] || from=2
	umount $root/{data,job,tmp,dev,proc} $root $mnt
	sync
	is "$1: what was counted for each stream arrived in its handle" \
		"$(taken | cut -d' ' -f$from-)" "$(counted | cut -d' ' -f$from-)"
	dsmctl remove t
}
