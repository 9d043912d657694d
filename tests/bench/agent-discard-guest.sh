#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: agent-discard-guest.sh FILES LOOKS
#
# Runs in UML: dsmd's memory beside the database of FILES files in /job/db at work, on XFS
# on a dsm device: without discards after as many checkpoints, and with them after LOOKS
# looks at lists of free blocks. Leaves agent-discard.json in /out.
set -euo pipefail
PATH=/job/bin:$PATH
files=$1 looks=$2
db=/mnt/db log=/tmp/wtload.log agent_log=/tmp/dsmd.log
options=(many --dbpath "$db" --collections $((files / 10)) --indexes 8 --records 10 --journal-mb 4)

fail() {
	echo "$*" >&2
	tail -n 5 $log $agent_log >&2
	exit 1
}
checkpoints() { grep -c '^checkpoint' $log || true; }
status() { dsmctl status t -o json | jq "$1"; }
# KiB
kib() { sed -n "s/^$1:[ \t]*\([0-9]*\) kB/\1/p" "/proc/$agent/$2"; }

looks() { status '.devices[0].agent.discard.looks // 0'; }

# until_there COUNT NUMBER: what COUNT prints has come to it
until_there() {
	while (($($1) < $2)); do
		kill -0 "$database" "$agent" || fail 'the database or dsmd has ended'
		sleep 0.2
	done
}

measure() { # COUNT [OPTION]
	dsmd t -o dbpath=$db -o wait=false -o boundary=attach -o state-dir=/tmp/state "${@:2}" 2>$agent_log &
	agent=$!
	until grep -q attached $agent_log; do
		kill -0 $agent || fail 'dsmd has ended'
		sleep 0.2
	done
	until_there "$1" $(($($1) + looks))
	status '.devices[0].agent.discard | {files: (.files // 0), looks: (.looks // 0), sent_ranges: (.sent_ranges // 0), look_ms: (.look_ms // 0)}' |
		jq -c --argjson rss "$(kib VmRSS status)" --argjson peak "$(kib VmHWM status)" \
			--argjson heap "$(kib Private_Dirty smaps_rollup)" \
			'. + {rss_mib: ($rss / 1024), peak_mib: ($peak / 1024), heap_mib: ($heap / 1024)}' >/tmp/row
	kill "$agent"
	wait "$agent" || fail 'dsmd has failed'
	cat /tmp/row >&2
	cat /tmp/row
}

insmod dm-dsm.ko
ulimit -n 65536
dmsetup create t --table "0 $(blockdev --getsz /dev/ram0) dsm /dev/ram0 0"
mkfs.xfs -q -f /dev/mapper/t
mount /dev/mapper/t /mnt
cp -r /job/db $db
wtload "${options[@]}" --phase run --mix mixed --seconds 100000 --checkpoint-seconds 3 --think-us 20000 --seed 2 >$log 2>&1 &
database=$!
measure checkpoints >/tmp/off
measure looks -o discard -o audit-pages=0 >/tmp/on
kill "$database"
wait "$database" || true
jq -n --argjson files "$(find $db -name '*.wt' | wc -l)" --slurpfile off /tmp/off --slurpfile on /tmp/on \
	'($on[0] | {files: $files, lists: .files, looks, sent_ranges, look_ms}) +
	 {off: ($off[0] | {rss_mib, peak_mib, heap_mib}), on: ($on[0] | {rss_mib, peak_mib, heap_mib}),
	  rss_mib_more: ($on[0].rss_mib - $off[0].rss_mib), peak_mib_more: ($on[0].peak_mib - $off[0].peak_mib),
	  heap_mib_more: ($on[0].heap_mib - $off[0].heap_mib)}' >/out/agent-discard.json
umount /mnt
dmsetup remove t
jq -e '.lists * 10 > .files * 9' /out/agent-discard.json >/dev/null || fail 'too few lists were known'
