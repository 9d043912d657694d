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
export WARM=$2 MEASURE=$3 SEEDS="${*:4}" SERIAL=flashdrive IO=direct FILL=36 CHECKPOINT_SECONDS=1 POLL=0.5
export ARMS='none none+discard' WORKLOADS=ycsb:update-heavy
export COUNTERS="awk '/^host / { host = \$2 } /^copied / { printf \"%.0f %.0f\", 4096 * host, 4096 * (host + \$2) }' /sys/kernel/debug/flashdrive/counts"
# fio itself divides by zero where the time stamp counter stands still.
fio() {
	if [[ " $* " == *' --rw=write '* ]]; then
		dd if=/dev/zero of=/dev/flashdrive bs=1M count=$mib oflag=direct status=none
	else
		queue /dev/flashdrive 1 $((16 * mib)) 65536 write
	fi
}
export -f fio
export mib=$(($(</sys/block/flashdrive/size) / 2048))
bash ./bench /dev/flashdrive /out/drive
