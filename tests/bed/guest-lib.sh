# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For scripts that tests/bed/vm runs in the guest. To be sourced, from
# /run/job/guest-lib.sh.

# disk_by_serial SERIAL: prints the /dev node of an NVMe disk, for which it
# waits: the kernel probes disks asynchronously.
disk_by_serial() {
	local start=$SECONDS

	until find_disk "$1"; do
		if ((SECONDS - start > 600)); then
			echo "no NVMe disk has the serial number $1" >&2
			return 1
		fi
		sleep 0.05
	done
}

# A namespace of several paths has a disk for each in sysfs, but one node.
find_disk() {
	local file disk serial

	for file in /sys/block/nvme*/device/serial; do
		disk=${file#/sys/block/}
		disk=/dev/${disk%%/*}
		{ read -r serial <"$file"; } 2>/dev/null || continue
		if [[ $serial == "$1" && -b $disk ]]; then
			echo "$disk"
			return
		fi
	done
	return 1
}

# fdp_blocks DEV: a line "PID RUH RUAMW" for each placement identifier. RUAMW,
# the blocks that the handle's reclaim unit can still take, falls by exactly
# what was written through the identifier.
fdp_blocks() {
	nvme fdp status "$1" -o json | jq -r '.ruhss[] | "\(.pid) \(.ruhid) \(.ruamw)"'
}

# tell_hang PID: each time PID has written nothing for ten minutes, says what runs and what
# each process waits for.
tell_hang() {
	local task before now=0 silent=0

	while sleep 60; do
		before=$now
		now=$(sed -n 's/^wchar: //p' "/proc/$1/io") || return 0
		((now == before)) || silent=0
		((++silent == 10)) || continue
		{
			echo 'bed: the script has said nothing for ten minutes'
			ps -eo pid,ppid,stat,wchan:24,etimes,args --forest | grep -v ' \[.*\]$'
			for task in /proc/[0-9]*/task/*; do
				grep -q '^State:.[DR]' "$task/status" 2>/dev/null || continue
				echo "$task $(cat "$task/comm")"
				cat "$task/stack"
			done
			dmesg | tail -n 40
		} >/dev/console 2>&1
	done
}
