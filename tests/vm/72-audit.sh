#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmd audits a database at work, while somebody switches the audit off and on, suspends and
# reloads the device, makes it larger, and exchanges the module: it goes on each time, reports no
# violation, and nothing reaches the disk.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
mnt=/tmp/db
mkdir -p $mnt
rm -rf /var/lib/dm-dsm
size=(--nodes 500 --cache-mb 20 --journal-mb 4)
written() { json t .agent.discard.audit.written_pages; }
off() { json t .agent.discard.off.text; }
mode() { json t .agent.discard.mode; }

# audits WHAT: pages are seen to be written that were not named before this call
audits() {
	local before seen

	before=$(json t .agent.discard.audit.named_pages)
	works "$1: pages are named" until_true "((\$(json t .agent.discard.audit.named_pages) > ${before:-0} + 100))"
	seen=$(written)
	works "$1: and seen to be written" eval "until_true '((\$(written) > $seen + 10)) || ! kill -0 $database' && kill -0 $database"
	is "$1: in audit, with no violation" "$(json t '.agent.discard | "\(.mode) \(.audit.violations) \(.audit.failed)"')" 'audit 0 false'
}

sectors=$((512 * 2048))
line() { echo "0 $1 dsm $ssd 0 2 discard watch"; }
dmsetup create t --table "$(line $sectors)"
make_xfs /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is loaded' wtload linkbench --dbpath $mnt/data --phase load "${size[@]}"
dsmd t -o dbpath=$mnt/data -o state-dir=/tmp/state -o discard=audit 2>/tmp/dsmd.log &
agent=$!
wtload linkbench --dbpath $mnt/data --phase run "${size[@]}" --seconds 86400 --checkpoint-seconds 1 --mix mixed \
	--threads 2 --think-us 10000 --beside named,drops,truncate,cursors >/tmp/run.log 2>&1 &
database=$!
audits 'at first'

message t set discard off
works 'who switches it off means it' until_true '[[ $(off) == "discards were switched off on the device" ]]'
works 'who switches it on' dsmctl set t discard audit
audits 'gets an audit again'
for _ in {1..20}; do
	message t set discard off
	message t set discard watch
	snooze 0.2
done
audits 'switched many times'

for _ in {1..10}; do
	dmsetup suspend t
	snooze 0.1
	dmsetup resume t
	snooze 0.3
done
audits 'suspended'
for _ in {1..5}; do
	dmsetup load t --table "$(line $sectors)"
	dmsetup suspend t
	dmsetup resume t
	snooze 0.5
done
audits 'reloaded'
sectors=$((768 * 2048))
dmsetup load t --table "$(line $sectors)"
dmsetup suspend t
dmsetup resume t
works 'larger: and so is the file system' xfs_growfs $mnt
audits 'larger'
dsmctl withdraw t | tail -n 1 >/tmp/back
works 'the module is exchanged' eval 'rmmod dm_dsm && insmod "$(module_file)" && sh -e /tmp/back'
audits 'with the module exchanged'

must kill -9 $database
wait $database 2>/dev/null
is 'nothing was discarded' "$(field t discarded) $(field t discard_failed)" '0 0'
works 'nothing is marked' test ! -e /var/lib/dm-dsm/t.switch
kill $agent
wait $agent
is 'dsmd ends when asked' $? 0
works 'dsmd was not surprised' bash -c '! grep -e panicked -e "AUDIT HAS FAILED" /tmp/dsmd.log'
echo 3 >/proc/sys/vm/drop_caches
works 'the database was killed, and is right' wtload check --dbpath $mnt/data --cache-mb 20
umount $mnt
dmsetup remove t
done_testing
