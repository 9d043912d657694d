#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Above LVM: the number of streams is what the disks at the bottom take, and no write
# ever carries one that a disk refuses, wherever the volume is moved to. (The kernel's
# WARN about such a write fails the whole run.)
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
mnt=/tmp/leaves
mkdir -p $mnt
export DM_DISABLE_UDEV=1
lvm() {
	command lvm "$1" --config 'devices{use_devicesfile=0 filter=["a|^/dev/nvme|", "r|.*|"]
		allow_mixed_block_sizes=1}
		activation{udev_sync=0 udev_rules=0}' -qq "${@:2}"
}
streams() { echo "$(field t device_streams) $(field t source)"; }
number() { lsblk -dno MAJ:MIN "$1" | xargs; }

# Block 0 to 1023 are a collection, with its boundary in the middle; a journal follows.
sectors=131072
table() {
	begin t full
	record t file 1 collection 2097152 0:0:8192
	record t file 2 journal - 0:8192:2048
	commit t
}

lvm pvcreate -y -ff "$ssd"
lvm vgcreate vg "$ssd"
lvm lvcreate -y -Wn -Zn -L 64M -n db vg

if ! has_write_streams "$ssd"; then
	works 'a volume, on a kernel without write streams' dsmctl create t /dev/mapper/vg-db --policy dsm
	is 'there are none' "$(streams)" '0 kernel'
	dsmctl remove t
	lvm vgremove -y -ff vg
	done_testing
fi

# The right number, which nobody has to state
works 'a volume' dsmctl create t /dev/mapper/vg-db --policy dsm
is 'has the streams of its disk' "$(streams)" '8 leaves'
is 'which dsmctl has named' "$(dmsetup table t | grep -o 'leaves.*')" "leaves $(number "$ssd")"
table >/dev/null
left=$(blocks_left "$ssd")
put /dev/mapper/t 0 7
put /dev/mapper/t 512 9
put /dev/mapper/t 1024 3
is 'every write arrives where it was sent' "$(blocks_taken "$left" "$(blocks_left "$ssd")")" '0 3 7 9 0 0 0 0'
mkfs.ext4 -q -F /dev/mapper/t
mount /dev/mapper/t $mnt
works 'verify proves it' dsmctl verify t
matches 'status explains it' "$(dsmctl status t)" '8 used of 8 \(from the disks below\)'
umount $mnt

# Too great a number
begin t full
refused 'a file that states stream 9' "Invalid stream '9', must be 0 to 8" record t file 1 collection - stamp 9 0
message t set streams 12
is 'twelve stated streams are eight' "$(streams) $(field t streams_used)" '8 leaves 8'
message t set streams auto
dsmctl remove t
works 'also from the beginning' dsmctl create t /dev/mapper/vg-db --policy dsm --streams 12
is 'twelve are eight' "$(streams) $(field t streams_used)" '8 leaves 8'
table >/dev/null

# A disk that takes three is plugged in, and the volume moves there under load.
few=$(plug few)
is 'a disk with three handles' "$(<"$(queue "$few")/max_write_streams")" 3
is 'lowers what is stamped as it comes' "$(streams)" '3 machine'
dmsetup create direct --table "0 8 dsm $ssd 1000000"
is 'but not directly above a disk' "$(field direct device_streams) $(field direct source)" '8 queue'
dmsetup remove direct
lvm pvcreate -y -ff "$few"
lvm vgextend -y vg "$few"
fio --name=moved --filename=/dev/mapper/t --ioengine=libaio --direct=1 --rw=randwrite --bs=16k --iodepth=8 \
	--size=64m --verify=crc32c --verify_fatal=1 --time_based --runtime=3600 --verify_backlog=512 \
	--verify_state_save=0 --minimal >/tmp/fio 2>&1 &
fio=$!
moved() { lvm pvmove -y -i 1 "$1" "$2" && kill -0 $fio; }
works 'the volume moves to it while it is written' moved "$ssd" "$few"
is 'now it lies there' "$(lsblk -sdno NAME /dev/mapper/vg-db >/dev/null; dmsetup deps -o devname vg-db | grep -o 'nvme[0-9]*n[0-9]*')" "${few#/dev/}"
message t checkpoint >/dev/null
works 'and back' moved "$few" "$ssd"
# fio's status when it was interrupted, and of its own errors
kill -INT $fio
wait $fio
is 'no write failed, and none is lost' "$? $(grep '^3;' /tmp/fio | cut -d';' -f5)" '128 0'
dsmctl remove t

# Two unequal legs
lvm lvremove -y vg/db
lvm lvcreate -y -Wn -Zn -i 2 -L 64M -n db vg
works 'a striped volume' dsmctl create t /dev/mapper/vg-db --policy dsm
is 'the leg with fewer counts' "$(streams) $(field t layout)" '3 leaves file'
is 'both are named' "$(dmsetup table t | grep -o 'leaves.*' | tr -d a-z' ' | tr , '\n' | sort | xargs)" \
	"$({ number "$ssd"; number "$few"; } | sort | xargs)"
works 'writes to both, verified' fio --name=legs --filename=/dev/mapper/t --ioengine=libaio --direct=1 \
	--rw=randwrite --bsrange=4k-128k --iodepth=8 --size=64m --verify=crc32c --verify_fatal=1 --minimal
dsmctl remove t
lvm lvremove -y vg/db

# A leg without streams
lvm pvcreate -y -ff "$plain"
lvm vgextend -y vg "$plain"
lvm lvcreate -y -Wn -Zn -L 64M -n db vg "$ssd"
lvm lvextend -L +8M vg/db "$plain"
works 'a volume that is partly on a disk without streams' dsmctl create t /dev/mapper/vg-db --policy dsm
is 'gets none' "$(streams)" '0 stacked'
dsmctl remove t
dmsetup create t --table "0 $sectors dsm /dev/mapper/vg-db 0 2 leaves $(number "$ssd"),$(number "$plain")"
is 'nor if the leaves are named' "$(streams)" '0 none'
dmsetup remove t
lvm lvremove -y vg/db

# Where a refused write is not handed back: hints alone
lvm lvcreate -y -Wn -Zn --nosync --type raid1 -m 1 -L 64M -n db vg "$ssd" "$few"
dsmctl create t /dev/mapper/vg-db --policy dsm >/dev/null 2>/tmp/said
matches 'above raid1 dsmctl says that there are no streams' "$(</tmp/said)" 'dm-[0-9]+ \(raid\), above which only lifetime hints'
is 'and there are none' "$(streams)" '0 stacked'
mkfs.ext4 -q -F /dev/mapper/t
mount /dev/mapper/t $mnt
refused 'verify says why' 'only lifetime hints are above dm-' dsmctl verify t
umount $mnt
dsmctl remove t
lvm vgremove -y -ff vg
wipefs -qa "$plain"
park few
done_testing
