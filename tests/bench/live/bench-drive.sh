#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: bench-drive.sh DRIVE WARM MEASURE SEED...
#
# Runs in UML, in virtual time: what "make bench-drive" runs, on the drive that the options
# DRIVE of the module flashdrive make, with and without discards. Leaves its folder in
# /out/drive. Nothing is said on standard output, which is the host's.
exec >/out/said 2>&1
PATH=/job/bin:$PATH

# shellcheck disable=SC2086 # words
insmod flashdrive.ko $1 && insmod dm-dsm.ko || exit
export WARM=$2 MEASURE=$3 SEEDS="${*:4}" SERIAL=flashdrive IO=direct FILL=30 CHECKPOINT_SECONDS=10
export ARMS='none none+discard' WORKLOADS=ycsb:update-heavy
export COUNTERS="awk '/^host / { host = \$2 } /^copied / { printf \"%.0f %.0f\", 4096 * host, 4096 * (host + \$2) }' /sys/kernel/debug/flashdrive/counts"
# fio itself divides by zero where the time stamp counter stands still.
fio() {
	local at

	if [[ " $* " == *' --rw=write '* ]]; then
		dd if=/dev/zero of=/dev/flashdrive bs=1M count=64 oflag=direct status=none
		return
	fi
	while read -r at; do
		dd if=/dev/zero of=/dev/flashdrive bs=64k seek="$at" count=1 oflag=direct conv=notrunc status=none || return
	done < <(shuf -r -n 1024 -i 0-1023 --random-source=<(yes))
}
export -f fio
bash ./bench /dev/flashdrive /out/drive
