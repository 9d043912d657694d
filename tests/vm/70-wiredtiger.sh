#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A real WiredTiger database with dsmd attached: checkpoints are seen, boundaries
# are kept, and what was written is whole after a kill.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
mnt=/tmp/db
mkdir -p $mnt

agent() { dsmd t -o dbpath=$mnt/data 2>>/tmp/dsmd.log & agent=$!; }
load() { "$wtload" "$@"; }
# WiredTiger's own tool, on the collections: it reopens the database for each
# table. The check of wtload has verified every file before.
wt_verify() {
	local file

	for file in "$mnt"/data/collection-*.wt; do
		file=$(basename "$file" .wt)
		"$wt/wt" -h $mnt/data -C "log=(enabled,path=journal,compressor=snappy,prealloc=false,file_max=1MB),extensions=[$(find "$libraries" -name libwiredtiger_snappy.so)]" \
			verify "table:$file" || return 1
	done
}

# One file system and one WiredTiger for each kernel: this is what takes longest.
if has_write_streams "$ssd"; then
	fs=xfs make=(mkfs.xfs -q -f) whole=(xfs_repair -n)
	wtload=wtload wt=/usr/lib/wiredtiger libraries=$wt
	version=11.3.1
else
	fs=ext4 make=(mkfs.ext4 -q -F) whole=(fsck.ext4 -fn)
	wtload=wtload-3.2.1 wt=/usr/bin libraries=/usr/lib/x86_64-linux-gnu
	version=3.2.1
fi

dsmctl create t "$ssd" --policy dsm >/dev/null
"${make[@]}" /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
agent
works "$fs: a database is loaded" load linkbench --dbpath $mnt/data --phase load --nodes 5000 --cache-mb 50
matches "$fs: by the right WiredTiger" "$(head -n 1 $mnt/data/WiredTiger.turtle; cat $mnt/data/WiredTiger)" "WiredTiger $version"
works "$fs: its files are in the table" until_true '(($(json t .kernel.status.files) > 15))'
works "$fs: every file has its class" eval \
	'[[ $(json t "[.regions[] | select(.class == \"collection\")] | length") = 3 &&
	    $(json t "[.regions[] | select(.class == \"index\")] | length") = 7 &&
	    $(json t "[.regions[] | select(.class == \"journal\")] | length") -ge 1 ]]'
works "$fs: boundaries are marked" dsmctl boundary mark t
is "$fs: ten files have one" "$(json t '[.regions[] | select(.boundary != null) | .id] | unique | length')" 10
before=$(json t .kernel.status.windows)
# In seconds: dsmd makes one window of checkpoints that are closer than 100 ms.
made=0 runs=0
until ((made >= 3)); do
	works "$fs: a run with checkpoints" eval 'load linkbench --dbpath $mnt/data --phase run --nodes 5000 \
		--seconds 11 --checkpoint-seconds 2 --cache-mb 20 --threads 2 >/tmp/run.log 2>&1'
	# shellcheck disable=SC2154 # results.sh has it
	((!failed)) || break
	((runs++, made += $(grep -c '^checkpoint .* took' /tmp/run.log)))
done
# Opening, the one after the last operation, and closing make checkpoints, too.
works "$fs: dsmd has seen each, and no others" until_true \
	"((\$(json t .kernel.status.windows) >= $before + $made && \$(json t .kernel.status.windows) <= $before + $made + 3 * $runs))"
works "$fs: both sides of a collection were written" eval \
	'[[ $(json t "[.regions[] | select(.class == \"collection\" and .side == \"bottom\") | .total] | add") -gt 0 &&
	    $(json t "[.regions[] | select(.class == \"collection\" and .side == \"top\") | .total] | add") -gt 0 ]]'

boundaries=$(json t '[.regions[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum)
kill -9 $agent
wait $agent 2>/dev/null
agent
works "$fs: dsmd is killed and started again" until_true 'dsmctl boundary show t >/dev/null 2>&1'
is "$fs: the boundaries are what they were" "$(json t '[.regions[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum)" "$boundaries"

# The database is killed in the middle of its work
"$wtload" linkbench --dbpath $mnt/data --phase run --nodes 5000 --seconds 86400 \
	--checkpoint-seconds 1 --mix mixed --cache-mb 20 --threads 2 >/tmp/run.log 2>&1 &
until_true "grep -q 'checkpoint 2' /tmp/run.log"
must kill -9 $!
wait $! 2>/dev/null
works "$fs: killed: wtload check recovers and finds all right" load check --dbpath $mnt/data
works "$fs: wt verify finds the collections right" wt_verify

kill $agent
wait $agent
is "$fs: dsmd ends when asked" $? 0
umount $mnt
works "$fs: the file system is whole" "${whole[@]}" /dev/mapper/t
dsmctl remove t
# What is on the SSD is an ordinary file system
works "$fs: it can be mounted without dsm" mount "$ssd" $mnt
works "$fs: and the database is right there, too" load check --dbpath $mnt/data
umount $mnt
done_testing
