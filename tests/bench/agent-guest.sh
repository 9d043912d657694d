#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: agent-guest.sh FILES EXTENTS IDLE
#
# dsmd on a real device with FILES files of EXTENTS extents each: how long it takes
# until the kernel has them, and until it has what 1 % of them got more; what it
# uses in IDLE seconds in which nothing happens. Leaves agent.json in /run/out.
set -euo pipefail
. /run/job/guest-lib.sh
PATH=/run/job/bin:$PATH
files=$1 extents=$2 idle=$3
db=/mnt/db log=/run/dsmd.log

until_logged() { # SECONDS PATTERN
	local end=$((SECONDS + $1))

	until grep -q "$2" $log; do
		((SECONDS < end)) || { cat $log >&2; exit 1; }
		sleep 0.5
	done
}
# value KEY PATTERN: of the last line of the log that matches
value() { grep "$2" $log | tail -n 1 | grep -o " $1=[0-9]*" | cut -d= -f2; }
ticks() { awk '{ print $14 + $15 }' "/proc/$agent/stat"; }

modprobe dm-mod
modprobe xfs
insmod /run/job/dm-dsm.ko
dsmctl create t "$(disk_by_serial plain)" --policy dsm >/dev/null
mkfs.xfs -q /dev/mapper/t
mount /dev/mapper/t /mnt
mkdir $db
echo WiredTiger >$db/WiredTiger
touch $db/WiredTiger.turtle
agent-files $db "$files" 0 "$extents"
sync
dsmd t -o dbpath=$db -o wait=false -o boundary=attach -o verbose 2>$log &
agent=$!
until_logged 300 attached
# All of it in one look
kill -STOP $agent
agent-files $db "$files" "$extents" $((extents + 10)) 100
sync
kill -CONT $agent
until_logged 60 "table updated.* changed=$((files / 100)) "
grep -e attached -e 'table updated' $log
sleep 5
before=$(ticks)
sleep "$idle"
after=$(ticks)
jq -n --argjson files "$files" --argjson extents "$(value extents attached)" \
	--argjson attach "$(value ms attached)" --argjson refresh "$(value refresh_ms 'table updated')" \
	--argjson ticks $((after - before)) --argjson idle "$idle" \
	--argjson rss "$(sed -n 's/^VmRSS:\t *\([0-9]*\) kB/\1/p' /proc/$agent/status)" \
	'{files: $files, extents: $extents, attach_seconds: ($attach / 1000), refresh_seconds: ($refresh / 1000),
	  idle_cpu_percent: ($ticks / $idle), rss_mib: ($rss / 1024)}' >/run/out/agent.json
kill $agent
wait $agent
umount /mnt
dsmctl remove t
