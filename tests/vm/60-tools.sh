#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmctl on real file systems: what is loaded is where the files' writes land.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
mnt=/tmp/mnt
mkdir -p $mnt /tmp/other

refused 'a device that is not there' 'dsmctl: /dev/nothing' dsmctl create t /dev/nothing
refused 'K out of range' 'groups must be a number from 2 to 16' dsmctl create t "$ssd" --groups 17
refused 'alpha out of range' 'alpha must be auto or a number from 2 to 64' dsmctl create t "$ssd" -f alpha=1
refused 'an unknown policy' 'none, file, boundary' dsmctl create t "$ssd" --policy best
refused 'more sectors than there are' 'dsmctl: ' dsmctl create t "$ssd" --size 99999999999
is 'no device was made' "$(dmsetup ls)" 'No devices found'

for fs in xfs ext4; do
	works "$fs: dsmctl create" dsmctl create t "$ssd" --policy dsm -f prediction=off -f primary_filter=off
	refused "$fs: a name twice" "dsmctl: " dsmctl create t "$plain"
	if [[ $fs = xfs ]]; then mkfs.xfs -q -f -K /dev/mapper/t; else mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/t; fi
	mount /dev/mapper/t $mnt
	refused "$fs: remove while mounted" 'in use' dsmctl remove t

	for file in collection-0-17 index-1-17; do
		dd if=/dev/zero of="$mnt/$file.wt" bs=1M count=4 conv=fsync status=none
	done
	works "$fs: a table is loaded" load-table t --boundary 2097152 $mnt/collection-0-17.wt $mnt/index-1-17.wt
	is "$fs: two files with their classes" "$(dsmctl status t -o json | jq -c '.devices[0].kernel.status | [.files, .regions]')" '[2,4]'
	id=$(stat -c %i $mnt/collection-0-17.wt)
	is "$fs: the id is the inode, the class is of the name" "$(region t "$id" bottom 2)" collection
	is "$fs: both sides are mapped whole" "$(region t "$id" bottom 5) $(region t "$id" top 5)" '2097152 2097152'

	put $mnt/collection-0-17.wt 0 10	# in place, in the file
	put $mnt/collection-0-17.wt 600 20
	put $mnt/index-1-17.wt 990 30
	id2=$(stat -c %i $mnt/index-1-17.wt)
	is "$fs: writes to the files are counted for their regions" \
		"$(region t "$id" bottom 13) $(region t "$id" top 13) $(region t "$id2" bottom 13) $(region t "$id2" top 13)" '10 20 0 30'
	message t checkpoint >/dev/null
	is "$fs: and the window shows them" "$(region t "$id" bottom 6) $(region t "$id" top 6)" '10 20'

	works "$fs: a file is added" load-table t --update --class journal $mnt/index-1-17.wt
	is "$fs: the class is what is said" "$(region t "$id2" bottom 2)" journal
	is "$fs: and its count stays" "$(region t "$id2" bottom 13)" 0
	begin t update
	record t drop "$id2"
	works "$fs: a file is dropped" commit t
	is "$fs: one file is left" "$(dsmctl status t -o json | jq '.devices[0].kernel.status.files')" 1
	works "$fs: a feature is set" dsmctl set t policy boundary
	refused "$fs: one that is not there, by those that are" 'there is no feature boil; there are policy, groups' dsmctl set t boil 1
	works "$fs: status for people" eval 'dsmctl status t --regions | grep -q boundary'
	fsfreeze -f $mnt	# or the file system writes for itself later
	works "$fs: the counters are reset" dsmctl debug reset t
	before=$(dsmctl status t --regions -o json | jq -c '.devices[0] | .regions, .kernel.table, (.kernel.status | del(.window_ms))')

	refused "$fs: a file that is not there" 'cannot open it' load-table t $mnt/nothing
	refused "$fs: a file that is not a file" 'not a regular file' load-table t $mnt
	echo x >/tmp/other/file
	refused "$fs: a file on tmpfs" 'tmpfs' load-table t /tmp/other/file
	mkfs.ext4 -q -F "$plain" && mount "$plain" /tmp/other
	echo x >/tmp/other/file
	refused "$fs: a file on another device" 'Error: ' load-table t /tmp/other/file
	refused "$fs: a dbpath on another device" 'dsmd' dsmctl boundary mark t
	umount /tmp/other
	refused "$fs: a dbpath that is not one" 'WiredTiger' dsmd t -o dbpath=$mnt -o wait=false
	refused "$fs: a dbpath that is not there" 'nowhere' dsmd t -o dbpath=$mnt/nowhere -o wait=false
	refused "$fs: a device that is not dsm's" 'nosuch' dsmctl status nosuch
	is "$fs: the running state is as it was" \
		"$(dsmctl status t --regions -o json | jq -c '.devices[0] | .regions, .kernel.table, (.kernel.status | del(.window_ms))')" "$before"
	fsfreeze -u $mnt
	umount $mnt
	works "$fs: dsmctl remove" dsmctl remove t
done

# A file system without FIEMAP on the device
dsmctl create t "$ssd" --policy dsm >/dev/null
if modprobe vfat 2>/dev/null && command -v mkfs.vfat >/dev/null; then
	mkfs.vfat /dev/mapper/t >/dev/null && mount -t vfat /dev/mapper/t $mnt
	echo x >$mnt/file
	refused 'a file system without FIEMAP' 'FIEMAP' load-table t $mnt/file
	umount $mnt
fi
mkfs.btrfs -q -f /dev/mapper/t && modprobe btrfs && mount /dev/mapper/t $mnt
echo x >$mnt/file
refused 'btrfs, whose extents are not places on the device' 'btrfs' load-table t $mnt/file
umount $mnt
dsmctl remove t

# Without a word about streams the drive decides, and it is said why.
small=$(disk_by_serial small)
decided() { dmsetup table t | grep -oE ' policy ((dsm|life) groups [0-9]+|[a-z]+)' || dmsetup table t; }
# The policy, and what was said
create() { { dsmctl create t "$@" >/dev/null; } 2>&1; decided; dmsetup table t | grep -o ' streams [0-9a-z]*'; }
affords() { dsmctl status t | sed -n 's/^  affords *//p'; }
again() { dsmctl remove t; }
if has_write_streams "$ssd"; then
	said=$(create "$ssd")
	matches 'large units: none' "$said" ' policy none'
	matches 'in plain words' "$said" 'note: t: no streams: on this drive they would cost more than they save\. .*`dsmctl status t` has the reason'
	matches 'status has it' "$(affords)" "^no streams on a drive of 0 erase units: .* erases 16 GiB"
	again
	said=$(create "$small" --groups auto)
	matches 'many units: K = 3' "$said" ' policy life groups 3.*streams 5$'
	matches 'and their number is said' "$said" 'note: t: 5 streams, as many as this drive affords'
	matches 'status has the reason' "$(affords)" 'whose 5 streams hold 7 of the 286 spare ones of a drive of 4096 erase units, less than a 25th'
	is 'status says it, too' "$(dsmctl status t -o json | jq -c '.devices[0].affords | [.policy, .groups, .streams, (.drive | .units, .spare, .handles, .copies)]')" \
		'["life",3,5,4096,286,8,"mixed"]'
	is 'and the target uses them' "$(field t layout) $(field t streams_used)" 'life 5'
	again
	said=$(create "$small" --streams 4 --groups auto)
	matches 'with four streams it is K = 2' "$said" ' policy life groups 2.*streams 4$'
	again
	said=$(create "$ssd" --policy dsm)
	matches 'who names a policy gets it' "$said" '^ policy dsm groups 3'
	matches 'and status says that it is too much' "$(affords)" 'no streams .*; the 8 in use hold 10$'
	is 'and so does the doctor' \
		"$(dsmctl doctor t -o json | jq -c '.findings[] | select(.check == "streams") | [.level, .fix]')" \
		'["note",["dsmctl set t policy none"]]'
	again
	said=$(create "$ssd" --groups 2)
	matches 'who names K, too' "$said" '^ policy dsm groups 2'
	again
	said=$(create "$ssd" --streams 4)
	matches 'and who names a number of streams' "$said" '^ policy dsm groups 3.*streams 4$'
	again
	said=$(create "$plain")
	matches 'a drive without FDP: none, and why' "$said" "no streams: ${plain#/dev/} has no write streams\\. .* policy none"
	again
else
	said=$(create "$small")
	matches 'a kernel without streams: none, and why' "$said" 'no streams: this kernel has no write streams .* policy none'
	matches 'status has it' "$(affords)" '^no streams: this kernel has no write streams'
	again
	said=$(create "$ssd" --policy dsm)
	matches 'who names a policy gets it' "$said" '^ policy dsm groups 3'
	again
	said=$(create "$plain")
	matches 'a drive without FDP: none, and why' "$said" "no streams: ${plain#/dev/} does not report how large .* policy none"
	again
fi
refused 'both at once' 'groups auto chooses the policy, too: it cannot be given with policy dsm; nothing was changed' \
	dsmctl create t "$ssd" --groups auto --policy dsm
# Files of devices
mkdir /tmp/tools-etc
export DSM_CONFIG_DIR=/tmp/tools-etc
printf 'drive = "%s"\ndiscard = true\n' "$small" >/tmp/tools-etc/t.toml
printf 'drive = "%s"\ngroups = "auto"\npolicy = "file"\n' "$plain" >/tmp/tools-etc/u.toml
refused 'a file that says both' 'u.toml: groups auto chooses the policy, too' dsmctl check
works 'a file without a policy' dsmctl attach t
has_write_streams "$ssd" && wanted=' policy life groups 3' || wanted=' policy none'
is 'gets what the drive affords' "$(decided)" "$wanted"
matches 'and its own options' "$(dmsetup table t)" ' discard on'
again
rm /tmp/tools-etc/*

works 'a device is made and kept' dsmctl create t "$small" --policy file -f prediction=off --discard on --dbpath /tmp/db --save
is 'in a file' "$(</tmp/tools-etc/t.toml)" "drive = \"$small\"
wwid = \"$(cat "/sys/block/${small#/dev/}/wwid")\"
dbpath = \"/tmp/db\"
policy = \"file\"
discard = true

[features]
prediction = \"off\""
made=$(dmsetup table t | sed 's/ discard on/ discard off/')
refused 'which is not written over' 'it is there already, and is left as it is' \
	dsmctl create t "$small" --save
again
works 'of which it is made' dsmctl attach t
is 'as it was, and dsmd switches discards on' "$(dmsetup table t)" "$made"
again

# A name that leads to another drive after a reboot
ln -s "$plain" /dev/by-a-name
sed -i 's|^drive.*|drive = "/dev/by-a-name"|; /^dbpath/d' /tmp/tools-etc/t.toml
another="it is $(cat "/sys/block/${plain#/dev/}/wwid"), and not $(cat "/sys/block/${small#/dev/}/wwid"), which wwid names; nothing was changed"
refused 'another drive' "$another" dsmctl attach t
refused 'and the check says it' "$another" dsmctl check t
refused 'nothing was made' t dmsetup info t
sed -i /wwid/d /tmp/tools-etc/t.toml
printf 'drive = "%s"\n' "$plain" >/tmp/tools-etc/u.toml
refused 'two files of one disk' "u: drive: t is of ${plain#/dev/}, too" dsmctl check
rm /dev/by-a-name
done_testing
