#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsm and dm-linear take each other's place below a mounted XFS, while a database and
# fio write to it; where that is not possible it is refused, and the table stays. What
# LVM does to such a volume is seen by dsmd.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/atwork.sh"
load_module
modprobe dm-thin-pool
. "$(dirname "$0")/volume.sh"

linear=$(table vg-db)
dsmd vg-db -o dbpath=$mnt/data -o state-dir=/tmp/state -o boundary=manual 2>>/tmp/dsmd.log &
agent=$!
works 'dsmd waits, and knows what is missing' until_true \
	'logged "target is linear, not dsm; .dsmctl insert vg-db. puts dsm in its place"'

# Under load
begin_work
would_be=$(dsmctl insert vg-db --groups 2 --dry-run | tail -n 1)
is 'a dry run inserts nothing' "$(table vg-db)" "$linear"
works 'dsm is inserted under load' dsmctl insert /dev/mapper/vg-db --groups 2
is 'on the same sectors' "$(table vg-db | cut -d' ' -f1,2,4,5)" "$(cut -d' ' -f1,2,4,5 <<<"$linear")"
is 'as the dry run has said' "$(table vg-db | cut -d' ' -f1-5)" "$(cut -d' ' -f1-5 <<<"$would_be")"
matches 'with the features that were asked for' "$(table vg-db)" ' groups 2 '
works 'dsmd serves it' until_true served
works 'boundaries are marked' dsmctl boundary mark vg-db
kept=$(boundaries)
dsm=$(table vg-db)
said=$(dsmctl insert vg-db --groups 3 2>&1) && pass 'once more is no error' || fail "once more: $said"
matches 'but it is reported' "$said" 'vg-db is on dsm already, and is left as it is'
is 'and changes nothing' "$(table vg-db)" "$dsm"
is 'a dry run says what the volume would be' "$(dsmctl withdraw vg-db --dry-run | tail -n 1)" "$linear"
is 'and withdraws nothing' "$(table vg-db)" "$dsm"
for ((round = 1; round <= 4; round++)); do
	lost=$(grep -c 'lost' /tmp/dsmd.log)
	works "round $round: dsm is withdrawn under load" eval 'dsmctl withdraw vg-db >/tmp/back'
	is "round $round: the volume is LVM's as it was" "$(table vg-db)" "$linear"
	works "round $round: dsmd says so" until_true \
		"((\$(grep -c 'lost.*its target is linear now, not dsm' /tmp/dsmd.log) > $lost))"
	works "round $round: the command that was printed puts it back" eval "$(tail -n 1 /tmp/back)"
	is "round $round: with the features that it had" "$(table vg-db)" "$dsm"
	works "round $round: dsmd serves it" until_true served
	is "round $round: the boundaries are what they were" "$(boundaries)" "$kept"
	finds_what_it_wrote "round $round: fio finds what it wrote"
done
# As fast as can be, so that dsmd does not see each
for ((round = 0; round < 20; round++)); do
	dsmctl withdraw vg-db >/dev/null && dsmctl insert vg-db --groups 2 >/dev/null || { fail "fast: round $round"; break; }
done
works 'after twenty fast rounds dsmd serves it' until_true 'served && (($(json vg-db .kernel.status.files) > 12))'
is 'with the boundaries' "$(boundaries)" "$kept"
windows=$(json vg-db .kernel.status.windows)
works 'checkpoints are seen' until_true "((\$(json vg-db .kernel.status.windows) > $windows + 1))"
at_work

# What LVM does to it
works 'LVM refreshes the volume' lvm lvchange --refresh vg/db
is 'dsm is gone' "$(table vg-db)" "$linear"
works 'dsmd says so' until_true '! served && tail -n 2 /tmp/dsmd.log | grep -q "dsmctl insert vg-db"'
dsmctl insert vg-db --policy dsm >/dev/null
works 'LVM takes a snapshot' lvm lvcreate -y -s -L 64M -n snap vg/db
is 'dsm is gone again' "$(kind vg-db)" snapshot-origin
stays 'a volume with a snapshot' 'not linear: it is a volume that has a snapshot, and dsm can only take the place of dm-linear' \
	vg-db dsmctl insert vg-db
stays 'the snapshot' 'not linear: it is a snapshot' vg-snap dsmctl insert vg-snap
works 'the snapshot is removed' lvm lvremove -y vg/snap
works 'dsm can be inserted again' dsmctl insert vg-db --policy dsm
works 'LVM extends the volume' lvm lvextend -L +256M vg/db "$ssd"
is 'dsm is gone once more' "$(kind vg-db)" linear
works 'the file system grows' xfs_growfs $mnt
works 'dsm is inserted on the longer volume' dsmctl insert /dev/mapper/vg-db --policy dsm
is 'all of it' "$(json vg-db .kernel.sectors)" $((1280 * 2048))
works 'dsmd serves it' until_true served

end_work
kill $agent
wait $agent
umount $mnt
stays 'dsmctl remove' 'vg-db: the device is LVM'"'"'s; `dsmctl withdraw vg-db` takes dsm away and leaves the volume' \
	vg-db dsmctl remove vg-db
works 'dsm is withdrawn from a device that is not in use' dsmctl withdraw vg-db
works 'the file system is whole' xfs_repair -n /dev/mapper/vg-db

# Refusals
refused 'no such name' 'nobody: there is no device-mapper device of this name; nothing was changed' dsmctl insert nobody
refused 'not of device-mapper' 'it is not a device-mapper device' dsmctl insert "$plain"
refused 'no device' '/etc/passwd: it is not a block device; nothing was changed' dsmctl insert /etc/passwd
lvm lvcreate -y -Wn -Zn -i 2 -L 64M -n wide vg
stays 'striped' 'is striped, not linear' vg-wide dsmctl insert vg-wide
not_loaded 'striped' vg-wide
stays 'withdraw from what is not dsm' "the device's target is striped, not dsm" vg-wide dsmctl withdraw vg-wide
lvm lvcreate -y -Wn -Zn -L 64M -n meta vg "$ssd"
dd if=/dev/zero of=/dev/mapper/vg-meta bs=1M count=4 oflag=direct status=none
dmsetup create pool --table "0 131072 thin-pool /dev/mapper/vg-meta /dev/mapper/vg-db 128 0"
message pool create_thin 0
dmsetup create thin --table '0 65536 thin /dev/mapper/pool 0'
stays 'thin' 'is thin, not linear: it is thinly provisioned' thin dsmctl insert thin
dmsetup remove thin
dmsetup remove pool
dmsetup load vg-meta --table "$(table vg-meta)"
stays 'a table that is loaded' 'somebody has loaded another table for the device, which has not taken effect yet' \
	vg-meta dsmctl insert vg-meta
dmsetup clear vg-meta
dmsetup suspend vg-meta
stays 'suspended' 'the device is suspended' vg-meta dsmctl insert vg-meta
matches 'suspended: it still is' "$(dmsetup info vg-meta)" SUSPENDED
dmsetup resume vg-meta
dmsetup create ro --readonly --table "0 8192 linear $plain 0"
stays 'read-only' 'the device is read-only' ro dsmctl insert ro
dmsetup remove ro
dmsetup create empty --notable
refused 'no table' 'empty: the device has no table; nothing was changed' dsmctl insert empty
dmsetup remove empty
mkdir -p /run/lock/lvm
flock /run/lock/lvm/V_vg sleep 86400 &
locker=$!
until_true '! flock -n /run/lock/lvm/V_vg true'
stays 'LVM is at work' 'vg-meta: LVM is working on the volume group vg' vg-meta dsmctl insert vg-meta
stays 'LVM is at work: withdraw' 'LVM is working' vg-meta dsmctl withdraw vg-meta
pkill -P $locker
wait $locker 2>/dev/null
until_true 'flock -n /run/lock/lvm/V_vg true'
works 'then it goes' dsmctl insert vg-meta --policy dsm
works 'and back' dsmctl withdraw vg-meta

# Any dm-linear device will do
dmsetup create piece --table "0 8192 linear $plain 4096"
works 'a device without LVM' eval 'dsmctl insert piece --policy dsm >/dev/null && [[ $(kind piece) = dsm ]]'
is 'has what dm-linear had' "$(table piece | cut -d' ' -f4,5)" "$(lsblk -dno MAJ:MIN "$plain" | xargs) 4096"
dmsetup remove piece
lvm vgremove -y -ff vg
lvm pvremove -y -ff "$ssd" "$plain"
done_testing
