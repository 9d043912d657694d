#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What is written where no extent is known yet; a layout with directories, what is written meanwhile, and rules.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
mnt=/tmp/db
mkdir -p $mnt
grows() { # BYTES: dsmd knows that the file has so many
	dsmctl debug refresh t >/dev/null
	[[ $(dsmctl boundary show t -o json | jq '.files[] | select(.path == "collection-900-900.wt") | .size') == "$1" ]]
}
sectors_unmapped() { json t .kernel.status.unmapped_sectors; }

# A table that grows by 1 MiB, six times; dsmd looks after each. The file system's own
# writes are unmapped, too.
dsmctl create t "$ssd" --policy dsm >/dev/null
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
works 'a database is made' wtload ycsb --dbpath $mnt --phase load --records 100 --journal-mb 4
dsmd t -o dbpath=$mnt -o wait=false 2>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true 'dsmctl boundary show t >/dev/null 2>&1'
truncate -s 0 $mnt/collection-900-900.wt
for n in {1..6}; do
	((n == 3)) && before=$(sectors_unmapped)
	dd if=/dev/zero of=$mnt/collection-900-900.wt bs=1M count=1 oflag=direct,append conv=notrunc status=none
	until_true "grows $((n << 20))" || fail "dsmd does not see MiB $n"
done
unmapped=$(($(sectors_unmapped) - before))
works "what is appended has no place yet (unmapped sectors: $unmapped)" test $unmapped -ge $((4 * 2048))
kill $agent
wait $agent
umount $mnt

# With write hints it has the stream of its class before dsmd knows its place.
if has_write_streams "$ssd"; then
	mkfs.xfs -q -f -K /dev/mapper/t
	mount /dev/mapper/t $mnt
	works 'hints: a database is made' wtload ycsb --dbpath $mnt --phase load --records 100 --journal-mb 4
	truncate -s 0 $mnt/collection-900-900.wt $mnt/index-900-901.wt
	dsmd t -o dbpath=$mnt -o wait=false -o write-hints -o refresh-seconds=3600 2>/tmp/dsmd.log &
	agent=$!
	works 'hints: dsmd serves it' until_true 'dsmctl boundary show t >/dev/null 2>&1'
	read -r collection index < <(echo "$(stream_sectors t 3) $(stream_sectors t 6)")
	dd if=/dev/zero of=$mnt/collection-900-900.wt bs=256k count=1 oflag=direct conv=notrunc status=none
	dd if=/dev/zero of=$mnt/index-900-901.wt bs=128k count=1 conv=notrunc,fsync status=none
	is 'hints: what is appended to a collection has its stream' $(($(stream_sectors t 3) - collection)) 512
	is 'hints: and what is to an index, by writeback' $(($(stream_sectors t 6) - index)) 256
	kill $agent
	wait $agent
	umount $mnt
	message t set foreign keep
fi

# MongoDB's layout with directories for databases and for indexes
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
layout=(--nodes 1000 --cache-mb 30 --journal-mb 20 --directory-per-db --directory-for-indexes)
works 'a database is loaded' wtload linkbench --dbpath $mnt/data --phase load "${layout[@]}"
dsmd t -o dbpath=$mnt/data -o wait=false 2>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true 'dsmctl boundary show t >/dev/null 2>&1'
dsmctl boundary show t -o json | jq -r '.files[] | "\(.path) \(.class)"' >/tmp/classes
is 'every collection is known' "$(grep -c '^[^/]*/collection/.*\.wt collection$' /tmp/classes)" 3
is 'every index is known' "$(grep -c '^[^/]*/index/.*\.wt index$' /tmp/classes)" 7
# It goes on until all is seen that there is to be seen.
wtload linkbench --dbpath $mnt/data --phase run --seconds 86400 --checkpoint-seconds 1 "${layout[@]}" >/tmp/run.log 2>&1 &
run=$!
until_true 'grep -q "checkpoint 1" /tmp/run.log'
watched() { # how many frames, all with streams and named regions that were written
	dsmctl status t --watch --interval 2 --count 2 -o json |
		jq -s 'map(.rates | select(.bytes > 0 and ([.regions[]? | select(.file and .written_bytes > 0)] | length > 0))) | length'
}
works 'two frames are shown, with streams and named regions' until_true '(($(watched) == 2))'
works 'and a frame for people' eval 'dsmctl status t --watch --interval 0.2 --count 1 | grep -q "MiB/s in"'
works 'the load phase ends by itself' until_true 'grep -q "the load phase is over" /tmp/dsmd.log'
kill $run
wait $run 2>/dev/null
is 'and every table has its boundary' "$(dsmctl boundary show t -o json | jq '[.files[] | select(.boundary)] | length')" 10
kill $agent
wait $agent
umount $mnt

# Tables of another engine have the classes that rules give
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
works 'a database is made' wtload ycsb --dbpath $mnt --phase load --records 500 --journal-mb 4
cat >/tmp/rules <<RULES
# what is loaded is the oplog
**/collection-*.wt oplog
_mdb_*.wt          index
RULES
dsmd t -o dbpath=$mnt -o wait=false -o rules=/tmp/rules 2>/tmp/dsmd.log &
agent=$!
works 'rules are followed' until_true \
	'[[ $(json t "[.regions[].class] | group_by(.) | map(\"\(.[0]) \(length)\") | join(\", \")") == *"index 2, journal"*"oplog 1"* ]]'
echo 'index-*.wt indexes' >/tmp/rules
refused 'a rule that is wrong' "/tmp/rules: line 1: class 'indexes'" dsmd t -o dbpath=$mnt -o wait=false -o rules=/tmp/rules
kill $agent
wait $agent
umount $mnt
dsmctl remove t
done_testing
