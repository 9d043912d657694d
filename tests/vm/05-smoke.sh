#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The shortest way through everything: a database on XFS, dsmd, boundaries, checkpoints,
# discards; what the target has counted has arrived, and the data is right.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
mnt=/tmp/smoke
mkdir -p $mnt
counted() {
	local stream first

	first=$(($(stream_sectors t 0) + $(stream_sectors t 1)))
	printf '%d' $((first / 8))
	for stream in {2..8}; do
		printf ' %d' $(($(stream_sectors t "$stream") / 8))
	done
}

left=$(blocks_left "$ssd")
works 'a device is made' dsmctl create t "$ssd" --policy dsm
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is loaded' wtload linkbench --dbpath $mnt/data --phase load --nodes 500 --cache-mb 20 --journal-mb 4
dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/smoke-state -o boundary=manual -o discard -o audit-pages=0 2>>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true 'dsmctl boundary show t 2>/dev/null | grep -q collection'
works 'boundaries are marked' dsmctl boundary mark t
windows=$(field t windows)
wtload linkbench --dbpath $mnt/data --phase run --nodes 500 --seconds 86400 --checkpoint-seconds 1 \
	--mix mixed --cache-mb 20 --journal-mb 4 >/tmp/run.log 2>&1 &
run=$!
works 'checkpoints are seen' until_true "((\$(field t windows) > $windows + 1))"
works 'what they freed is discarded' until_true '(($(field t discarded_sectors) > 0))'
must kill -9 $run
wait $run 2>/dev/null
kill $agent
wait $agent
is 'dsmd ends when asked' $? 0
works 'the database was killed, and is right' wtload check --dbpath $mnt/data
umount $mnt
sync
is 'what was counted for each stream has arrived in it' "$(blocks_taken "$left" "$(blocks_left "$ssd")")" "$(counted)"
works 'more than one stream was used' eval '(($(counted | tr " " "\n" | grep -vc "^0$") > 3))'
works 'the device is removed' dsmctl remove t
works 'the module unloads' rmmod dm-dsm
done_testing
