#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The module is exchanged for another build, and back, below a mounted file system,
# while a database and fio write to it: table, boundaries and data stay. What would
# not go is refused before anything is done, and after a failure the devices go on.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
mnt=/tmp/db
stop=/tmp/stop
rm -f $stop /tmp/rounds
mkdir -p $mnt
old=$(module_file)
next=/run/job/next/dm-dsm.ko
version() { dmsetup targets | sed -n 's/^dsm *//p'; }
served() { dsmctl boundary show t 2>/dev/null | grep -q collection; }
boundaries() { json t '[.region_list[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum; }
# stays WHAT SENTENCE COMMAND...: refused, with module and table as they were
stays() {
	local before

	before=$(dmsetup table t; md5sum </sys/module/dm_dsm/notes/.note.gnu.build-id)
	refused "$1" "$2" "${@:3}"
	is "$1: all is as it was" "$(dmsetup table t; md5sum </sys/module/dm_dsm/notes/.note.gnu.build-id)" "$before"
}

dsmctl create t "$ssd" --groups 2 --discard on >/dev/null
dmsetup create piece --table "0 8192 linear $plain 0"
dsmctl insert piece --policy file >/dev/null
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is made' wtload linkbench --dbpath $mnt/data --phase load --nodes 500 --cache-mb 20 --journal-mb 4
dsmd --device t --dbpath $mnt/data --state-dir /tmp/upgrade --boundary manual 2>>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true served
works 'boundaries are marked' dsmctl boundary mark t
kept=$(boundaries)
tables=$(dmsetup table t; dmsetup table piece)
wtload linkbench --dbpath $mnt/data --phase run --nodes 500 --seconds 86400 --checkpoint-seconds 1 \
	--mix mixed --cache-mb 20 --journal-mb 4 --threads 2 >/tmp/run.log 2>&1 &
database=$!
fio_rounds() {
	local n=0

	while [[ ! -e $stop ]]; do
		fio --name=verify --filename=$mnt/fio --ioengine=libaio --direct=1 --size=16m --rw=randwrite \
			--bsrange=4k-64k --iodepth=8 --verify=crc32c --verify_fatal=1 --randseed=$n --minimal || return
		echo $((++n)) >/tmp/rounds
	done
}
fio_rounds >/tmp/fio.log 2>&1 &
fio=$!
until_true 'grep -q "checkpoint 1" /tmp/run.log && [[ -s /tmp/rounds ]]'

is 'the first build' "$(version)" v1.0.0
for wanted in 1.0.1 1.0.0 1.0.1; do
	[[ $wanted = 1.0.1 ]] && file=$next || file=$old
	before=$(cat /tmp/rounds)
	works "to $wanted: the module is exchanged under load" dsmctl upgrade --module $file
	is "to $wanted: it is there" "$(version)" v$wanted
	is "to $wanted: the tables are what they were" "$(dmsetup table t; dmsetup table piece)" "$tables"
	works "to $wanted: dsmd has uploaded its table" until_true '(($(json t .files) > 12))'
	is "to $wanted: the boundaries are what they were" "$(boundaries)" "$kept"
	works "to $wanted: checkpoints are seen" until_true '(($(json t .windows) > 1))'
	works "to $wanted: fio finds what it wrote" until_true "((\$(cat /tmp/rounds) > $before + 1)) || ! kill -0 $fio"
done
is 'dsmd was served all the time' "$(grep -c -e lost -e ended /tmp/dsmd.log)" 0
kill -0 $database && kill -0 $fio && pass 'database and fio go on' || fail "one has ended: $(tail -n 3 /tmp/run.log /tmp/fio.log)"

# Refused before anything is done
stays 'no such file' '/nowhere.ko: cannot look at it: No such file or directory' dsmctl upgrade --module /nowhere.ko
stays 'no module' '/etc/passwd: it cannot be read as a module; nothing was changed' dsmctl upgrade --module /etc/passwd
stays 'another module' 'it is the module xfs, not dm_dsm; nothing was changed' dsmctl upgrade --module "$(modinfo -n xfs)"
sed 's/vermagic=[67]/vermagic=5/' "$next" >/tmp/other.ko
stays 'a module for another kernel' "it was built for the kernel 5" dsmctl upgrade --module /tmp/other.ko
stays 'nothing installed' 'dm-dsm: it cannot be read as a module' dsmctl upgrade
dmsetup create holder --notable
dmsetup load holder --table "0 8192 dsm $plain 16384"
stays 'something else holds the module' 'the module has 3 users, of which only 2 are known (devices: ' dsmctl upgrade --module "$old"
dmsetup remove holder
dmsetup load piece --table "$(dmsetup table piece)"
stays 'a table that is loaded' 'piece: somebody has loaded another table' dsmctl upgrade --module "$old"
dmsetup clear piece

# A module that cannot be loaded: the devices go on
sed 's/dm_unregister_target/dm_unregistex_target/g' "$old" >/tmp/broken.ko
if dsmctl upgrade --module /tmp/broken.ko >/tmp/said 2>&1; then fail 'a module with an unknown symbol was loaded'; fi
matches 'a module that cannot be loaded' "$(cat /tmp/said)" 'the new module cannot be loaded: insmod /tmp/broken.ko: .*these devices go on as dm-linear'
is 'they are' "$(dmsetup table t | cut -d' ' -f3) $(dmsetup table piece | cut -d' ' -f3)" 'linear linear'
before=$(cat /tmp/rounds)
works 'with all that they had' until_true "((\$(cat /tmp/rounds) > $before + 1)) || ! kill -0 $fio"
works 'another module is loaded' insmod "$old"
grep '^dsmctl insert' /tmp/said >/tmp/commands
is 'there is a command for each device' "$(wc -l </tmp/commands)" 2
works 'they put dsm back' bash -e /tmp/commands
is 'with the tables that they had' "$(dmsetup table t; dmsetup table piece)" "$tables"
works 'dsmd has ended, having nothing to serve' until_true "! kill -0 $agent 2>/dev/null"
dsmd --device t --dbpath $mnt/data --state-dir /tmp/upgrade --boundary manual 2>>/tmp/dsmd.log &
agent=$!
works 'and serves the device when it is started again' until_true served
is 'with the boundaries' "$(boundaries)" "$kept"

# With one installed there is something to fall back to
cp "$old" "/lib/modules/$(uname -r)/" && depmod
works 'the installed module' dsmctl upgrade
if dsmctl upgrade --module /tmp/broken.ko >/tmp/said 2>&1; then fail 'a module with an unknown symbol was loaded'; fi
matches 'one that cannot be loaded' "$(cat /tmp/said)" 'the installed one was, and every device is on dsm again'
is 'the tables are what they were' "$(dmsetup table t; dmsetup table piece)" "$tables"
rm "/lib/modules/$(uname -r)/dm-dsm.ko" && depmod

touch $stop
wait $fio
is 'fio has found all that it wrote' $? 0
kill -9 $database
wait $database 2>/dev/null
works 'the database was killed, and is right' wtload check --dbpath $mnt/data
kill $agent
wait $agent
umount $mnt
works 'the file system is whole' xfs_repair -n /dev/mapper/t
dsmctl remove t
dmsetup remove piece
rmmod dm_dsm
insmod "$old"
done_testing
