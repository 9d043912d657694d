#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The module is exchanged for another build, and back, by the steps of upgrade.md, below a
# mounted file system, while a database and fio write to it: tables, boundaries and data
# stay, and so they do when the new module cannot be loaded.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/atwork.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
old=$(module_file)
next=/run/job/next/dm-dsm.ko
version() { dmsetup targets | sed -n 's/^dsm *//p'; }
first=$(version)
loaded() { [[ $(version) = "$first" ]] && echo old || echo next; }
served() { dsmctl boundary show t 2>/dev/null | grep -q collection; }
boundaries() { json t '[.regions[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum; }
install() { cp "$1" "/lib/modules/$(uname -r)/" && depmod; }
withdraw_all() {
	for name in $(dmsetup ls --target dsm | cut -f1); do dsmctl withdraw "$name"; done | grep '^dsmctl insert' >/run/dsm-back
}
serve() { dsmd t -o dbpath=$mnt/data -o state-dir=/tmp/upgrade -o boundary=manual 2>>/tmp/dsmd.log & }

dsmctl create t "$ssd" --groups 2 --discard on >/dev/null
dmsetup create piece --table "0 4096 linear $plain 0
4096 4096 linear $plain 8192"
pieces=$(dmsetup table piece)
dsmctl insert piece --policy file >/dev/null
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is made' "${load[@]}" --dbpath $mnt/data
serve
agent=$!
works 'dsmd serves it' until_true served
works 'boundaries are marked' dsmctl boundary mark t
kept=$(boundaries)
tables=$(dmsetup table t; dmsetup table piece)
begin_work

# exchange WHAT FILE BUILD
exchange() {
	install "$2"
	refused "$1: the kernel would take it" 'File exists' insmod "$(modinfo -n dm-dsm)"
	withdraw_all
	is "$1: there is a command for each device" "$(wc -l </run/dsm-back)" 2
	works "$1: the old one is unloaded" modprobe -r dm-dsm
	works "$1: the new one is loaded" modprobe dm-dsm
	works "$1: dsm is put back" sh -e /run/dsm-back
	is "$1: it is there" "$(loaded)" "$3"
	is "$1: the tables are what they were" "$(dmsetup table t; dmsetup table piece)" "$tables"
	works "$1: dsmd has uploaded its table" until_true '(($(json t .kernel.status.files) > 12))'
	is "$1: the boundaries are what they were" "$(boundaries)" "$kept"
	works "$1: checkpoints are seen" until_true '(($(json t .kernel.status.windows) > 1))'
	finds_what_it_wrote "$1: fio finds what it wrote"
}
exchange next "$next" next
exchange old "$old" old
at_work

# Something else holds the module: what was withdrawn is put back.
dmsetup create holder --notable
dmsetup load holder --table "0 8192 dsm $plain 16384"
withdraw_all
refused 'something else holds the module' 'is in use' modprobe -r dm-dsm
works 'dsm is put back on the old one' sh -e /run/dsm-back
is 'the tables are what they were, with it' "$(dmsetup table t; dmsetup table piece)" "$tables"
dmsetup remove holder

# A module that cannot be loaded all the same: the devices go on without dsm
mkdir /tmp/broken
sed 's/dm_unregister_target/dm_unregistex_target/g' "$old" >/tmp/broken/dm-dsm.ko
install /tmp/broken/dm-dsm.ko
withdraw_all
works 'the old one is unloaded' modprobe -r dm-dsm
refused 'one with an unknown symbol' 'Unknown symbol' modprobe dm-dsm
is 'the devices are linear' "$(dmsetup table t | cut -d' ' -f3) $(dmsetup table piece | cut -d' ' -f3 | uniq)" 'linear linear'
finds_what_it_wrote 'with all that they had'
install "$old"
works 'another module is loaded' modprobe dm-dsm
works 'dsm is put back on it' sh -e /run/dsm-back
is 'with the tables that the devices had' "$(dmsetup table t; dmsetup table piece)" "$tables"
works 'dsmd serves it again' until_true served
is 'with the boundaries' "$(boundaries)" "$kept"
rm "/lib/modules/$(uname -r)/dm-dsm.ko" && depmod

end_work
kill $agent
wait $agent
umount $mnt
is 'the device of two segments has them still' "$(dmsetup table piece-dsm)" "$pieces"
works 'the file system is whole' xfs_repair -n /dev/mapper/t
dsmctl remove t
dmsetup remove piece
done_testing
