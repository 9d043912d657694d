#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmd discards what the checkpoints of a real WiredTiger have freed, over XFS and over
# ext4; the database is killed meanwhile, and right each time, without dsm as well. A
# wrong discard makes it wrong.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
mnt=/tmp/db
mkdir -p $mnt
size=(--nodes 500 --cache-mb 20 --journal-mb 4)
# The status does not have it while discards are off.
discarded() { echo $(($(field t discarded_sectors) + 0)); }
right() { wtload check --dbpath $mnt/data --cache-mb 20; }

# killed WHAT: a run that leaves the processors to dsmd most of the time, until some of what
# its checkpoints freed was discarded; then the database is killed, and read from the disk
killed() {
	local before

	before=$(discarded)
	wtload linkbench --dbpath $mnt/data --phase run "${size[@]}" --seconds 86400 --checkpoint-seconds 2 \
		--mix mixed --think-us 20000 >/tmp/run.log 2>&1 &
	database=$!
	until_true "((\$(discarded) > $before)) || ! kill -0 $database"
	works "$1: what checkpoints freed is discarded" test "$(discarded)" -gt "$before"
	must kill -9 $database
	wait $database 2>/dev/null
	is "$1: nothing has failed" "$(field t discard_failed)" 0
	sync
	echo 3 >/proc/sys/vm/drop_caches
	works "$1: the database was killed, and is right" right
}

for fs in xfs ext4; do
	if [[ $fs == xfs ]]; then make=(make_xfs) whole=(xfs_repair -n); else make=(mkfs.ext4 -q -F -E nodiscard) whole=(fsck.ext4 -fn); fi
	dmsetup create t --table "0 1048576 dsm $ssd 0"
	"${make[@]}" /dev/mapper/t
	mount -t $fs /dev/mapper/t $mnt
	mkdir $mnt/data
	works "$fs: a database is loaded" wtload linkbench --dbpath $mnt/data --phase load "${size[@]}"
	dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/state-$fs -o discard -o audit-pages=0 2>/tmp/dsmd.log &
	agent=$!
	for round in 1 2; do
		killed "$fs, round $round"
	done
	kill $agent
	wait $agent
	is "$fs: dsmd ends when asked" $? 0
	umount $mnt
	works "$fs: the file system is whole" "${whole[@]}" /dev/mapper/t
	dmsetup remove t
	works "$fs: it can be mounted without dsm" mount -t $fs "$ssd" $mnt
	works "$fs: and the database is right there, too" right
	[[ $fs == ext4 ]] || umount $mnt
done

# A control: the largest collection, all but its first block
sync
file=$(ls -S $mnt/data/collection-*.wt | head -n 1)
filefrag -b4096 -e "$file" | awk '$1 ~ /^[0-9]+:$/ { first = $1 == "0:"; if ($6 + 0 > first) print $4 + first, $6 - first }' >/tmp/pieces
umount $mnt
while read -r at pages; do
	blkdiscard -q -f -o $((at * 4096)) -l $((pages * 4096)) "$ssd"
done </tmp/pieces
works 'a control: the file system is mounted' mount "$ssd" $mnt
! right >/tmp/check.log 2>&1 && pass 'a control: a wrong discard makes it wrong' || fail "a wrong discard was not found: $(tail -n 1 /tmp/check.log)"
umount $mnt

# Inodes without room for a birth time, by which a file is known from a later one
finding() { dsmctl doctor t -o json | jq -r ".findings[] | select(.check == \"$1\") | \"\(.level) \(.text)\""; }
dmsetup create t --table "0 1048576 dsm $ssd 0"
mkfs.ext4 -q -F -E nodiscard -I 128 /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'no birth times: a database is loaded' wtload linkbench --dbpath $mnt/data --phase load "${size[@]}"
dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/state-none -o discard 2>/tmp/dsmd.log &
agent=$!
works 'no birth times: nothing is discarded, and the doctor says why' \
	until_true 'finding discard | grep -q "^wrong nothing is discarded: the file system keeps no birth times"'
kill $agent
wait $agent
umount $mnt
dmsetup remove t
done_testing
