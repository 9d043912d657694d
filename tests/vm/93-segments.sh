#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A volume of several segments, as lvextend makes them, below a mounted XFS, while a
# database and fio write to it: dsm is put in the place of all of them, on an underlying device
# that has them and is there as long as it is needed; whoever takes dsm away, and whenever
# dsmctl is killed. Writes arrive in the streams that they are meant for in each segment.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/atwork.sh"
load_module
. "$(dirname "$0")/volume.sh"

gone() { ! dmsetup info "$1-dsm" >/dev/null 2>&1; }
segments() { if gone "$1"; then table "$1"; else table "$1-dsm"; fi; }

dsmd vg-db -o dbpath=$mnt/data -o state-dir=/tmp/segments -o boundary=manual 2>>/tmp/dsmd.log &
agent=$!
dsmctl insert vg-db --policy dsm --groups 2 >/dev/null
works 'dsmd serves it' until_true served
works 'boundaries are marked' dsmctl boundary mark vg-db
kept=$(boundaries)
begin_work

lvm lvcreate -y -Wn -Zn -L 64M -n wall1 vg "$ssd"
for n in 2 3; do
	works "$n segments: LVM extends the volume behind another one" lvm lvextend -L +128M vg/db "$ssd"
	lvm lvcreate -y -Wn -Zn -L 64M -n "wall$n" vg "$ssd"
	linear=$(table vg-db)
	is "$n segments: each is a line" "$(wc -l <<<"$linear") $(cut -d' ' -f3 <<<"$linear" | uniq)" "$n linear"
	works "$n segments: and nothing is below" until_true 'gone vg-db'
	works "$n segments: dsmd says how dsm is put back" until_true \
		'! served && tail -n 2 /tmp/dsmd.log | grep -q "linear, not dsm.*dsmctl insert vg-db"'
	works "$n segments: the file system grows" xfs_growfs $mnt
	works "$n segments: dsm is inserted under load" eval 'dsmctl insert vg-db --policy dsm --groups 2 >/tmp/said'
	matches "$n segments: it is said where they are" "$(cat /tmp/said)" "on vg-db-dsm, which has its $n segments"
	dsm=$(table vg-db)
	is "$n segments: in one line" "$(cut -d' ' -f1-4 <<<"$dsm")" \
		"0 $(((896 + n * 128) * 2048)) dsm $(dmsetup info -c --noheadings -o major,minor vg-db-dsm)"
	is "$n segments: on the lines that the volume had" "$(table vg-db-dsm)" "$linear"
	works "$n segments: dsmd serves it" until_true served
	works "$n segments: withdrawn under load" eval 'dsmctl withdraw vg-db >/tmp/back'
	is "$n segments: the volume is LVM's as it was" "$(table vg-db)" "$linear"
	works "$n segments: nothing is left below" gone vg-db
	works "$n segments: the command that was printed puts it back" eval "$(tail -n 1 /tmp/back)"
	is "$n segments: with the features that it had" "$(table vg-db | cut -d' ' -f5-)" "$(cut -d' ' -f5- <<<"$dsm")"
	works "$n segments: dsmd serves it again" until_true served
	is "$n segments: the boundaries are what they were" "$(boundaries)" "$kept"
	finds_what_it_wrote "$n segments: fio finds what it wrote"
done
# As fast as can be
for ((round = 0; round < 10; round++)); do
	dsmctl withdraw vg-db >/dev/null && dsmctl insert vg-db --groups 2 >/dev/null || { fail "fast: round $round"; break; }
done
at_work

# Killed at any moment, it can be done again
wrong=''
for ((round = 0; round < 16; round++)); do
	verb=insert
	[[ $(kind vg-db) = linear ]] || verb=withdraw
	dsmctl $verb vg-db >/dev/null 2>&1 &
	killed=$!
	sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
	kill -9 $killed 2>/dev/null
	wait $killed 2>/dev/null
	dmsetup clear vg-db
	[[ $(segments vg-db) = "$linear" || $(table vg-db) = "$linear" ]] || wrong+=" $verb: $(table vg-db; table vg-db-dsm)"
	[[ $(dmsetup info vg-db) != *SUSPENDED* ]] || wrong+=" $verb: suspended"
done
is 'after kills the lines are where they were' "$wrong" ''
[[ $(kind vg-db) = linear ]] || works 'after kills: withdrawn' dsmctl withdraw vg-db
is 'after kills: the volume is as it was' "$(table vg-db)" "$linear"
works 'after kills: inserted' dsmctl insert vg-db --policy dsm --groups 2
works 'after kills: dsmd serves it' until_true served
finds_what_it_wrote 'after kills: fio finds what it wrote'

end_work
kill $agent
wait $agent
umount $mnt
is 'the underlying device is one of ours' "$(dmsetup info -c --noheadings -o uuid vg-db-dsm | cut -c-11)" DSMSEG-LVM-
works 'the file system is whole' xfs_repair -n /dev/mapper/vg-db

# What is refused, and where writes arrive
lvm lvcreate -y -Wn -Zn -L 64M -n two vg "$ssd"
lvm lvextend -L +64M vg/two "$plain"
if has_write_streams "$ssd"; then
	stays 'segments on devices that differ' \
		"its segments lie on devices that differ in write streams (${ssd#/dev/} has 8, ${plain#/dev/} has none)" \
		vg-two dsmctl insert vg-two
	not_loaded 'segments on devices that differ' vg-two
	works 'segments on devices that differ: nothing is below' gone vg-two
else
	works 'segments on two devices, on a kernel without write streams' dsmctl insert vg-two
	works 'and back' dsmctl withdraw vg-two
fi
lvm lvreduce -y -f -L 64M vg/two
lvm lvcreate -y -Wn -Zn -L 4M -n wall4 vg "$ssd"
lvm lvextend -L +64M vg/two "$ssd"
linear=$(table vg-two)
limits() {
	local of

	for of in /sys/dev/block/"$(dmsetup info -c --noheadings -o major,minor vg-two)"/queue/{discard,write_zeroes}_max_bytes; do
		cat "$of"
	done
	lsblk -dno MIN-IO,OPT-IO,PHY-SEC,LOG-SEC,RA,WSAME,DISC-GRAN /dev/mapper/vg-two
}
before=$(limits)
mapped() {
	begin vg-two full
	record vg-two file 1 collection 524288 0:0:2048 file 2 index 524288 0:196608:2048
	commit vg-two
}
# two_arrive WHAT WANTED: writes below and above both boundaries, the index's in the second segment
two_arrive() {
	local left

	mapped >/dev/null
	left=$(blocks_left "$ssd")
	put /dev/mapper/vg-two 0 3
	put /dev/mapper/vg-two 128 5
	put /dev/mapper/vg-two 24576 7
	put /dev/mapper/vg-two 24704 9
	is "$1" "$(blocks_taken "$left" "$(blocks_left "$ssd")")" "$2"
}
works 'segments on one device' dsmctl insert vg-two --policy dsm
is 'two of them' "$(wc -l <<<"$linear") $(table vg-two-dsm)" "2 $linear"
is 'the limits are what they were' "$(limits)" "$before"
works 'a discard arrives' blkdiscard /dev/mapper/vg-two
if has_write_streams "$ssd"; then
	is 'the streams are those of the disk' "$(field vg-two device_streams) $(field vg-two source)" '8 leaves'
	two_arrive 'every write arrives in the stream of its region, in both segments' '0 0 3 5 0 7 9 0'
	matches 'dsmctl status knows its drive' "$(dsmctl status vg-two)" '8 used of 8 \(from the disks below\)'
else
	two_arrive 'every write arrives' '24 0 0 0 0 0 0 0'
fi
works 'LVM takes a snapshot of it' lvm lvcreate -y -s -L 16M -n snap vg/two
is 'dsm is gone' "$(kind vg-two)" snapshot-origin
works 'and what was below' until_true 'gone vg-two'
lvm lvremove -y vg/snap
dsmctl insert vg-two --policy dsm >/dev/null
works 'LVM renames it' lvm lvrename vg two deux
works 'nothing is left of it' until_true 'gone vg-two && gone vg-deux'
is 'but the volume' "$(table vg-deux)" "$linear"
lvm lvrename vg deux two
dmsetup create vg-two-dsm --notable
stays 'a name that is taken' 'its segments need a device vg-two-dsm, and there is another one of this name' vg-two dsmctl insert vg-two
dmsetup remove vg-two-dsm
dsmctl insert vg-two --policy dsm >/dev/null
dmsetup load vg-two-dsm --table "$linear"
stays 'an underlying device that somebody changes' 'vg-two-dsm: somebody has loaded another table' vg-two dsmctl withdraw vg-two
dmsetup clear vg-two-dsm
works 'LVM deactivates it' lvm lvchange -an vg/two
works 'and nothing is left below' until_true 'gone vg-two'
lvm lvchange -ay vg/two
if few=$(plug few 2>/dev/null) && has_write_streams "$few"; then
	dmsetup create both --table "0 4096 linear $ssd 4096
4096 4096 linear $few 4096"
	stays 'a disk of eight and one of three streams' "(${ssd#/dev/} has 8, ${few#/dev/} has 3)" both dsmctl insert both
	dmsetup remove both
fi
park few

# Any dm-linear device will do
dmsetup create pieces --table "0 4096 linear $plain 4096
4096 4096 linear $plain 16384"
works 'one of two lines' dsmctl insert pieces --policy dsm
is 'has an underlying device' "$(dmsetup info -c --noheadings -o uuid pieces-dsm)" DSMSEG-pieces
works 'dsmctl remove' dsmctl remove pieces
works 'takes both away' until_true 'gone pieces'

# udev has a node for the underlying device, and nothing else
unset DM_DISABLE_UDEV
works 'udev' /usr/lib/systemd/systemd-udevd --daemon
dmsetup create pieces --table "0 4096 linear $plain 4096
4096 4096 linear $plain 16384"
mkfs.ext4 -q -F /dev/mapper/pieces
udevadm trigger --settle "$(readlink -f /dev/mapper/pieces)"
uuid=$(blkid -p -o value -s UUID /dev/mapper/pieces)
leads() { readlink -f "/dev/disk/by-uuid/$uuid"; }
is 'the UUID of its file system leads to it' "$(leads)" "$(readlink -f /dev/mapper/pieces)"
works 'with udev: inserted' dsmctl insert pieces --policy dsm
lower=$(readlink -f /dev/mapper/pieces-dsm)
works 'with udev: there is a node' test -b "$lower"
udevadm settle
is 'with udev: the UUID leads where it led' "$(leads)" "$(readlink -f /dev/mapper/pieces)"
udevadm trigger --settle "$lower"
is 'with udev: nothing but its name leads to the underlying device' \
	"$(udevadm info -q symlink "$lower" | tr ' ' '\n' | grep -v ^mapper/)" ''
matches 'with udev: systemd takes it for no device' "$(udevadm info -q property "$lower")" 'SYSTEMD_READY=0'
works 'with udev: withdrawn' dsmctl withdraw pieces
udevadm settle
works 'with udev: the node is gone' test ! -e /dev/mapper/pieces-dsm
is 'with udev: the UUID leads where it led all the time' "$(leads)" "$(readlink -f /dev/mapper/pieces)"
dsmctl insert pieces --policy dsm >/dev/null
works 'with udev: removed by dmsetup' dmsetup remove pieces
works 'with udev: the underlying device goes as well' until_true 'gone pieces && [[ ! -e /dev/mapper/pieces-dsm ]]'
udevadm control --exit
until_true '! pgrep -x systemd-udevd >/dev/null'
rm -rf /run/udev
export DM_DISABLE_UDEV=1

# LVM's devices are free as soon as its volumes are gone
works 'inserted once more' dsmctl insert vg-two --policy dsm
works 'the group is removed' lvm vgremove -y -ff vg
works 'and its devices' lvm pvremove -y -ff "$ssd" "$plain"
works 'nothing is left' eval '[[ $(dmsetup ls) = "No devices found" ]]'
done_testing
