#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmctl verify: proves that stamps arrive, or says why it cannot.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
mnt=/tmp/mnt
mkdir -p $mnt

# verify STATUS [OPTION...]: leaves what it says in /tmp/verified
verify() {
	local status=0

	dsmctl verify t -o json "${@:2}" >/tmp/verified 2>/tmp/said || status=$?
	((status == $1)) || { cat /tmp/verified /tmp/said; return 1; }
}
verified() { jq -r "$1" /tmp/verified; }

dsmctl create t "$ssd" --policy dsm >/dev/null
if has_write_streams "$ssd"; then
	refused 'without a file system there is nowhere to write' '--dir' dsmctl verify t
	refused 'a directory that is not on the device' 'it is on tmpfs' dsmctl verify t --dir /tmp
fi
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
dd if=/dev/zero of=$mnt/index-1-17.wt bs=1M count=1 conv=fsync status=none
load-table t $mnt/index-1-17.wt >/dev/null

if has_write_streams "$ssd"; then
	works 'FDP: verify ends with 0' verify 0
	is 'FDP: the stamps arrive' "$(verified .verdict)" arrive
	is 'FDP: every class and side was written' "$(verified '[.rows[] | .class + " " + .side] | sort | join(", ")')" \
		'collection bottom, collection top, index bottom, index top, journal bottom, oplog bottom, other bottom, primary bottom'
	is 'FDP: streams and their handles' "$(verified '[.rows[] | [.stream, .handle]] | unique | map(join(":")) | join(" ")')" \
		'1:3 2:5 3:1 4:7 6:2 7:6'
	is 'FDP: made here, counted by the target and by the SSD: all the same' \
		"$(verified '[.rows[] | .written == .target and .written == .device] | all')" true
	is 'FDP: the table is as it was' "$(dsmctl status t -o json | jq -c '.devices[0].kernel.status | [.files, .extents]')" '[1,1]'
	is 'FDP: and nothing is left in the directory' "$(ls -A $mnt)" index-1-17.wt
	works 'FDP: the text says so, too' eval 'dsmctl verify t; dsmctl verify t | grep -q "the stamps arrive"'
	# The same with writes of others to the same handles
	while :; do dd if=/dev/zero of=$mnt/index-1-17.wt bs=64k count=16 oflag=direct conv=notrunc status=none; done 2>/dev/null &
	busy=$!
	works 'FDP: with others writing' verify 0
	kill $busy
	wait $busy 2>/dev/null
	dsmctl set t policy none
	works 'policy none: verify ends with 3' verify 3
	matches 'policy none: there is nothing to verify' "$(verified '.verdict + ": " + .reason')" \
		'nothing: nothing to verify: no streams are in use, the policy is none'
else
	works 'a kernel without write streams: verify ends with 1' verify 1
	matches 'a kernel without write streams is named' "$(verified '.verdict + ": " + .reason')" 'not-stamped: .* this kernel has no write streams'
fi
umount $mnt
dsmctl remove t

dsmctl create t "$plain" --policy dsm >/dev/null
mkfs.ext4 -q -F /dev/mapper/t && mount /dev/mapper/t $mnt
works 'an SSD without FDP: verify ends with 1' verify 1
is 'an SSD without FDP ignores stamps' "$(verified .verdict)" ignored
umount $mnt
dsmctl remove t

modprobe sd_mod
modprobe scsi_debug dev_size_mb=64 delay=0
disk=
until_true 'disk=$(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/* 2>/dev/null) && [[ -b /dev/${disk##*/} ]]'
dsmctl create t "/dev/${disk##*/}" --policy dsm >/dev/null
mkfs.ext4 -q -F /dev/mapper/t && mount /dev/mapper/t $mnt
works 'SCSI: verify ends with 1' verify 1
matches 'SCSI: nothing can be proved of hints' "$(verified '.verdict + ": " + .reason')" \
	'unknown: a SCSI disk is sent the lifetime hint as a group number'
umount $mnt
dsmctl remove t
rmmod scsi_debug
done_testing
