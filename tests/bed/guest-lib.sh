# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For scripts that tests/bed/vm runs in the guest. To be sourced, from
# /run/job/guest-lib.sh.

# disk_by_serial SERIAL: prints the /dev node of an NVMe disk, for which it
# waits: the kernel probes disks asynchronously.
disk_by_serial() {
	local file serial node _

	for _ in {1..200}; do
		for file in /sys/block/nvme*/device/serial; do
			node=/dev/$(cut -d/ -f4 <<<"$file")
			read -r serial <"$file" && [[ $serial == "$1" && -b $node ]] || continue
			echo "$node"
			return
		done 2>/dev/null
		sleep 0.05
	done
	echo "no NVMe disk has the serial number $1" >&2
	return 1
}

# fdp_blocks DEV: a line "PID RUH RUAMW" for each placement identifier. RUAMW,
# the blocks that the handle's reclaim unit can still take, falls by exactly
# what was written through the identifier.
fdp_blocks() {
	nvme fdp status "$1" -o json | jq -r '.ruhss[] | "\(.pid) \(.ruhid) \(.ruamw)"'
}
