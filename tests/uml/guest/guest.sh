#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: guest.sh [--volume] COMMAND [ARG...]
#
# Runs in UML: loads the modules, runs COMMAND, unloads the modules, and looks for
# what has been left behind. With --volume dsm lies on a volume as LVM makes them, of
# two pieces of the disk in the other order.
volume=
[[ $1 != --volume ]] || { volume=1; shift; }
. ./results.sh "uml: ${1%.sh}${volume:+ above a volume}"

per_cpu_allocations() { awk '$1 == "nr_cur_alloc" { print $3 }' /sys/kernel/debug/percpu_stats; }

# Some are freed by RCU, on a busy machine several seconds later.
check_per_cpu() {
	for _ in {1..600}; do
		(($(per_cpu_allocations) <= before)) &&
			{ pass "$before per-CPU allocations, as before"; return; }
		sleep 0.1
	done
	fail "$before per-CPU allocations before, and $(per_cpu_allocations) now"
}

# An object is a leak only when it is five seconds old and no scan has found it.
check_kmemleak() {
	local leaks

	sleep 5
	echo scan >/sys/kernel/debug/kmemleak || { fail 'kmemleak is off'; return; }
	echo scan >/sys/kernel/debug/kmemleak
	leaks=$(</sys/kernel/debug/kmemleak)
	if [[ ! $leaks ]]; then
		pass 'kmemleak finds nothing'
	else
		head -n 60 <<<"$leaks" >&2
		fail "kmemleak finds $(grep -c '^unreferenced' <<<"$leaks") objects that nothing refers to"
	fi
}

dmesg --console-level 1
echo 1 >/sys/kernel/rcu_expedited	# a reload waits for RCU several times
before=$(per_cpu_allocations)
insmod streamdisk.ko poison=1 discard_ms=2 && insmod dm-dsm.ko || exit
if [[ $volume ]]; then
	half=$(($(</sys/block/streamdisk/size) / 2))
	printf '%s linear /dev/streamdisk %s\n' "0 $half" $half "$half $half" 0 | dmsetup create volume
	VOLUME=dm-$(dmsetup info -c --noheadings -o minor volume)
	export VOLUME
fi
"./$1" "${@:2}" || failed=1
[[ ! $volume ]] || dmsetup remove volume
if rmmod dm_dsm && rmmod streamdisk; then
	check_per_cpu
	[[ ! $(</proc/cmdline) =~ kmemleak=on ]] || check_kmemleak
else
	fail 'a module is still in use'
fi
exit $failed
