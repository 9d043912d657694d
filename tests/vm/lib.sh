# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the tests that run in the guest: small tools. A test sources this first.

. /run/job/guest-lib.sh
PATH=/run/job/bin:$PATH
dmesg --console-level 1
# snooze leaves it a descriptor.
export LVM_SUPPRESS_FD_WARNINGS=1
. /run/job/results.sh "$(basename "$0" .sh)"

# The reason may be in the kernel log, or in what the device t says: the log is rate limited.
attempt() {
	dmesg --clear
	"$@" || {
		dmesg
		message t error
		return 1
	}
}

# Devices

has_write_streams() { [[ -e $(queue "$1")/max_write_streams ]]; }
block() { echo "/sys/block/$(lsblk -dno KNAME "$1")"; }
queue() { echo "$(block "$1")/queue"; }

message() { dmsetup message "$1" 0 "${@:2}"; }

# An upload to NAME: begin NAME full|update, then record NAME WORD..., then commit NAME
begin() {
	local sectors generation=

	sectors=$(blockdev --getsz "/dev/mapper/$1")
	[[ $2 = full ]] || generation=$(field "$1" generation)
	upload=$(message "$1" begin "$2" "$sectors" ${generation:+"$generation"}) || return
	upload=${upload#upload }
}
record() { message "$1" upload "$upload" "${@:2}"; }
commit() { message "$1" commit "$upload"; }

# extents_of FILE: its extents, as a record of an upload has them
extents_of() {
	filefrag -v -b4096 "$1" | awk -F '[ :.]+' '
		!$1 && $2 ~ /^[0-9]+$/ { printf "%s%d:%d:%d", n++ ? " " : "", $3 * 8, $5 * 8, $7 * 8 }'
}

# In the guest, whose processor is emulated, a process costs as much as a checkpoint: what
# follows does without.

# field NAME WORD: the value behind WORD in the status line of the dsm device
field() {
	local status

	status=$(dmsetup status "$1")
	[[ ! $status =~ \ $2\ ([^ ]+) ]] || echo "${BASH_REMATCH[1]}"
}

# park SERIAL: takes an NVMe disk out of the machine, if it is there
park() {
	local controller

	for controller in /sys/class/nvme/nvme*; do
		if [[ $(xargs <"$controller/serial") = "$1" ]]; then
			echo 1 >"$(readlink -f "$controller/device")/remove"
		fi
	done
}

# plug SERIAL: plugs it in again, and prints its node
plug() {
	echo 1 >/sys/bus/pci/rescan
	disk_by_serial "$1"
}

# stream_sectors NAME STREAM: what the target has counted for a stream
stream_sectors() {
	local status

	status=$(dmsetup status "$1")
	if [[ $status =~ \ stream\ $2\ [0-9]+\ ([0-9]+) ]]; then echo "${BASH_REMATCH[1]}"; else echo 0; fi
}

# region NAME ID SIDE COLUMN: a field of the regions listing, by its number
region() {
	local words

	while read -ra words; do
		[[ ${words[0]} != "$2" || ${words[3]} != "$3" ]] || echo "${words[$4 - 1]}"
	done <<<"$(message "$1" regions)"
}

# blocks_left DEVICE: the blocks that each placement identifier can still take,
# in the order of the identifiers (RUAMW of nvme fdp status)
blocks_left() { nvme fdp status "$1" -o json | jq -r '.ruhss[].ruamw'; }

# blocks_taken BEFORE AFTER: what two of those differ by, on one line
blocks_taken() {
	local had has i

	mapfile -t had <<<"$1"
	mapfile -t has <<<"$2"
	for i in "${!had[@]}"; do
		had[i]=$((had[i] - has[i]))
	done
	echo "${had[*]}"
}

# put DEVICE BLOCK COUNT [KIB]: COUNT direct writes of KIB each from 4 KiB block
# BLOCK on; each is one bio
put() {
	local kib=${4:-4}

	dd if=/dev/zero of="$1" bs="${kib}k" count="$3" seek="$(($2 * 4 * 1024))" \
		oflag=direct,seek_bytes conv=notrunc status=none
}

# until_true COMMAND: waits for it to succeed, however long that takes here; what it
# waits for has to go on meanwhile. 1800 times in vain are a hang: says what dsmd said
# last then.
until_true() {
	local tries=1800

	(($# == 1)) || { echo "until_true takes one command, not '$*'"; return 2; }
	while ! eval "$1"; do
		((--tries)) || { tail -n 20 /tmp/dsmd.log 2>/dev/null; return 1; }
		snooze 0.4
	done
}

# discard_ioctl COMMAND...: runs COMMAND, a probe, and prints the number of the ioctl that sends
# its first discard. There strace can stop or interrupt a later run, however fast it is.
discard_ioctl() {
	strace -v -o /tmp/trace -e trace=ioctl "$@" >/dev/null 2>&1
	grep -n 'message="discard ' /tmp/trace | head -n 1 | cut -d: -f1
}

# snooze SECONDS: sleeps without a process
exec {snoozer}<> <(:)
snooze() { read -rt "$1" -u "$snoozer" _ || true; }

# json NAME FILTER: of what dsmctl status says about the dsm device
json() { dsmctl status "$1" --regions -o json | jq -r ".devices[0] | $2"; }

# make_xfs DEVICE: of the features that mkfs.xfs takes by itself, one is younger than some
# of our kernels, which do not mount it then
make_xfs() {
	local folder

	folder=$(mktemp -d)
	mkfs.xfs -q -f -K "$1"
	if mount -t xfs "$1" "$folder" 2>/dev/null; then
		umount "$folder"
	else
		mkfs.xfs -q -f -K -i nrext64=0 "$1"
	fi
	rmdir "$folder"
}

module_file() { echo /run/job/dm-dsm.ko; }
load_module() {
	modprobe dm-mod
	[[ -e /sys/module/dm_dsm ]] || insmod "$(module_file)"
}

# shellcheck source=uml-lib.sh
[[ ! -e /run/job/streamdisk.ko ]] || . /run/job/uml-lib.sh
