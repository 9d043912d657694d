#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The volume below a dsm device grows under a mounted XFS, while a database writes to it: dsmctl
# sees it and follows, and so does a dsmd that does not wait. Then a volume on the dsm device.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/atwork.sh"
load_module
modprobe xfs

disk=$(disk_by_serial fdp)
half=$((512 * 2048)) whole=$((1024 * 2048))
length() { blockdev --getsz "/dev/mapper/$1"; }
finding() { dsmctl doctor t -o json | jq -r ".findings[] | select(.check == \"$1\") | \"\(.level) \(.text)\""; }
fixes() { dsmctl doctor t -o json | jq -r ".findings[] | select(.check == \"$1\").fix[]"; }
files() { json t '.agent.discard.files // 0'; }
# reload NAME TABLE: as LVM does
reload() { dmsetup suspend "$1" && dmsetup load "$1" --table "$2" && dmsetup resume "$1"; }

dmsetup create vol --table "0 $half linear $disk 0"
would_be=$(dsmctl create t /dev/mapper/vol --policy file --discard on --dry-run | tail -n 1)
is 'a dry run makes no device' "$(dmsetup info -c --noheadings -o name t 2>/dev/null)" ''
dsmctl create t /dev/mapper/vol --policy file --discard on >/dev/null
is 'and says which table it would have' "$(dmsetup table t | cut -d' ' -f1-5)" "$(cut -d' ' -f1-5 <<<"$would_be")"
dmsetup create spare --table "0 $half linear $disk 0"
refused 'nor does one of a name that is taken' 'of this name already; nothing was changed' dsmctl create t /dev/mapper/spare --dry-run
dmsetup remove spare
table=$(dmsetup table t)
make_xfs /dev/mapper/t
mount -t xfs /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is made' "${load[@]}" --dbpath $mnt/data
dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/state -o boundary=manual -o discard -o audit-pages=0 2>/tmp/dsmd.log &
agent=$!
begin_work
works 'dsmd discards below it' until_true '(($(files) > 0))'
said=$(dsmctl grow t 2>&1) && pass 'nothing has grown' || fail "nothing has grown: $said"
matches 'and it says so' "$said" 't has 512 MiB already, and is left as it is'
is 'the doctor has nothing to say' "$(finding size)" ''

reload vol "0 $whole linear $disk 0"
is 'the volume has grown, and the device has not' "$(length vol) $(length t)" "$whole $half"
is 'the doctor sees it' "$(finding size)" 'note it is 512 MiB long, and vol has 1 GiB for it'
is 'and names both commands' "$(fixes size)" "dsmctl grow t
xfs_growfs $mnt"
refused 'more than there is' "t: --size $((whole + 8)) is more than the $whole sectors that vol has for it; nothing was changed" \
	dsmctl grow t --size $((whole + 8))
refused 'less than it has' "t: 8 sectors are no more than the $half that it has; nothing was changed" dsmctl grow t --size 8
dmsetup create other --table "0 8 linear /dev/mapper/vol $half"
refused 'what somebody else lies on' 't: other lies on vol, too, so that it is not clear how much of vol is its own: --size says it; nothing was changed' \
	dsmctl grow t
dmsetup remove other
works 'a dry run' eval 'dsmctl grow t --dry-run >/tmp/said'
is 'says what it would be' "$(</tmp/said)" 't: nothing was changed; it would have 1 GiB, and has 512 MiB'
is 'and it is what it was' "$(length t)" $half
# As if killed behind its load
dmsetup load t --table "0 $whole ${table#0 "$half" }"
works 'it grows under load' eval 'dsmctl grow t >/tmp/said 2>/tmp/err'
matches 'what a killed one has left is taken away' "$(</tmp/err)" 'a command that was killed had loaded a table, which is taken away'
is 'the next command is printed' "$(</tmp/said)" "t: 512 MiB before, 1 GiB now; for the file system: xfs_growfs $mnt"
is 'it has all of the volume' "$(length t)" $whole
# After the suspend dsmd may let the target only watch, until it has looked.
is 'and its features' "$(dmsetup table t | sed 's/ discard watch / discard on /')" "0 $whole ${table#0 "$half" }"
works 'so does the file system' xfs_growfs $mnt
works 'dsmd follows' until_true 'grep -q "begins again" /tmp/dsmd.log'
discarded=$(field t discarded_sectors)
works 'and discards again' until_true "((\$(field t discarded_sectors) > $discarded))"
works 'dsmd is the same process' kill -0 $agent
is 'the doctor has nothing to say' "$(finding size)" ''
finds_what_it_wrote 'fio finds what it wrote'
at_work
end_work
kill $agent
wait $agent
is 'dsmd ends when asked' $? 0
umount $mnt
works 'the file system is whole' xfs_repair -n /dev/mapper/t

# What LVM does on the dsm device
wipefs -qa /dev/mapper/t
dmsetup create upper --table "0 $half linear /dev/mapper/t 0"
make_xfs /dev/mapper/upper
mount -t xfs /dev/mapper/upper $mnt
mkdir $mnt/data
works 'a database on a volume of the device' "${load[@]}" --dbpath $mnt/data
dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/upper -o refresh-seconds=0.5 2>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true '(($(json t .kernel.status.files) > 5))'
reload upper "0 $whole linear /dev/mapper/t 0"
works 'its volume and its file system grow' xfs_growfs $mnt
fallocate -l 700M $mnt/data/collection-9-9.wt
works 'dsmd finds what lies in the new part' until_true \
	'(($(json t "[.regions[] | select(.file == \"collection-9-9.wt\") | .bytes] | add // 0") == 700 << 20))'
kill $agent
wait $agent
umount $mnt
dmsetup remove upper
dmsetup remove t
refused 'no such device' 't: there is no device-mapper device of this name' dsmctl grow t
dmsetup create t --table "0 $half dsm /dev/mapper/vol 0"
refused 'a device of somebody else' 't: `dsmctl create` did not make it, so that it is not clear how much of vol is its own: --size says it; nothing was changed' \
	dsmctl grow t
works 'with a length it is clear' dsmctl grow t --size 600MiB
is 'it has that' "$(length t)" $((600 * 2048))
reload vol "0 $half linear $disk 0"
is 'the doctor sees what is missing' "$(finding size)" 'wrong it is 600 MiB long, but vol has only 512 MiB for it'
refused 'nothing is cut off' 't: `dsmctl create` did not make it' dsmctl grow t
dmsetup remove t
dmsetup remove vol
done_testing
