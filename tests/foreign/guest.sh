#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The first process of a guest on arm64: the steps of steps.c, and a database of
# WiredTiger's at work on XFS on a dsm device, with dsmd, whose checkpoints free what is
# discarded; by buffered and by direct I/O. How much was is in the lines
# "discarded".
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root DM_DISABLE_UDEV=1
mnt=/mnt
. /results.sh ''
until_true() {
	for _ in {1..600}; do
		eval "$1" && return
		sleep 0.5
	done
	return 1
}

status() { dmsetup status t | mawk -v key="$1" '{ for (i = 1; i < NF; i++) if ($i == key) print $(i + 1) }'; }

start() {
	mount -t tmpfs tmp /tmp
	mount -t tmpfs run /run
	steps
	while read -r module options; do
		# shellcheck disable=SC2086 # words
		[[ $module == *null_blk* ]] || insmod "$module" $options 2>/dev/null
	done </modules/order
	until_true '[[ -b /dev/nvme0n1 ]]' || fail 'there is no drive'
}

database() { # IO OPTION...
	local options=(linkbench --dbpath "$mnt/db" --nodes 1500 --leaf-kib 4 --cache-mb 20 --journal-mb 4 "${@:2}") agent

	works "$1: a device is made" dsmctl create t /dev/nvme0n1
	works "$1: XFS is made on it" mkfs.xfs -q -f /dev/mapper/t
	works "$1: it is mounted" mount -t xfs /dev/mapper/t $mnt
	mkdir $mnt/db
	works "$1: a database is loaded" wtload "${options[@]}" --phase load
	dsmd t -o dbpath=$mnt/db -o wait=false -o discard -o audit-pages=0 -o boundary=attach -o state-dir=/tmp/state 2>/tmp/dsmd.log &
	agent=$!
	until_true '[[ $(status files) -gt 10 ]]' || fail "$1: dsmd has no table: $(tail -n 1 /tmp/dsmd.log)"
	works "$1: it works for 12 checkpoints" wtload "${options[@]}" --phase run --ops 2400 --checkpoints 12 --think-us 5000
	if (($(status discarded_sectors) > 0)); then
		pass "$1: what checkpoints have freed is discarded: $(status discarded_sectors) sectors"
	else
		fail "$1: nothing is discarded: $(tail -n 1 /tmp/dsmd.log)"
	fi
	[[ $(status discard_failed) == 0 ]] && pass "$1: no discard failed" || fail "$1: discards failed"
	echo "discarded $1 $(status discarded_sectors)"
	kill $agent
	wait $agent
	umount $mnt
	mount -t xfs /dev/mapper/t $mnt
	works "$1: the database is right, read from the drive" wtload check --dbpath $mnt/db
	works "$1: dsmctl free reads it" eval "dsmctl free $mnt/db | tee /tmp/free | grep -q '^collection-'"
	umount $mnt
	works "$1: the file system is whole" xfs_repair -n /dev/mapper/t
	works "$1: the device is removed" dsmctl remove t
}

start
database buffered
database direct --direct-io
pass 'the end was reached'
dmesg | grep -E 'WARNING|BUG:|Oops|Call trace' | sed 's/^/not ok - the kernel log: /'
echo 'end of the guest'
echo o >/proc/sysrq-trigger
sleep 60
