#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The module is exchanged for another build, and back, below a mounted file system,
# while a database and fio write to it: table, boundaries and data stay. What would
# not go is refused before anything is done, and after a failure the devices go on.
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
boundaries() { json t '[.region_list[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum; }
# stays WHAT REASON COMMAND...: refused, with module and table as they were
stays() {
	local before

	before=$(dmsetup table t; md5sum </sys/module/dm_dsm/notes/.note.gnu.build-id)
	refused "$1" "$2" "${@:3}"
	is "$1: all is as it was" "$(dmsetup table t; md5sum </sys/module/dm_dsm/notes/.note.gnu.build-id)" "$before"
}

dsmctl create t "$ssd" --groups 2 --discard on >/dev/null
dmsetup create piece --table "0 4096 linear $plain 0
4096 4096 linear $plain 8192"
pieces=$(dmsetup table piece)
dsmctl insert piece --policy file >/dev/null
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is made' "${load[@]}" --dbpath $mnt/data
dsmd --device t --dbpath $mnt/data --state-dir /tmp/upgrade --boundary manual 2>>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true served
works 'boundaries are marked' dsmctl boundary mark t
kept=$(boundaries)
tables=$(dmsetup table t; dmsetup table piece)
begin_work

# The last takes longer than dsmd waits for somebody who does not ask it again.
mkdir -p /tmp/slow
printf '#!/bin/sh\nsleep 15\nexec %s "$@"\n' "$(command -v insmod)" >/tmp/slow/insmod
chmod +x /tmp/slow/insmod
fast=$PATH
for round in next old slow; do
	file=$next build=next
	case $round in
	old)	file=$old build=old ;;
	slow)	PATH=/tmp/slow:$fast ;;
	esac
	works "$round: the module is exchanged under load" dsmctl upgrade --module "$file"
	PATH=$fast
	is "$round: it is there" "$(loaded)" $build
	is "$round: the tables are what they were" "$(dmsetup table t; dmsetup table piece)" "$tables"
	works "$round: dsmd has uploaded its table" until_true '(($(json t .files) > 12))'
	is "$round: the boundaries are what they were" "$(boundaries)" "$kept"
	works "$round: checkpoints are seen" until_true '(($(json t .windows) > 1))'
	finds_what_it_wrote "$round: fio finds what it wrote"
done
is 'dsmd was served all the time' "$(grep -c -e lost -e ended /tmp/dsmd.log)" 0
at_work

# Refused before anything is done
stays 'no such file' '/nowhere.ko: cannot stat it: No such file or directory' dsmctl upgrade --module /nowhere.ko
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
finds_what_it_wrote 'with all that they had'
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

end_work
kill $agent
wait $agent
umount $mnt
is 'the device of two segments has them still' "$(dmsetup table piece-dsm)" "$pieces"
works 'the file system is whole' xfs_repair -n /dev/mapper/t
dsmctl remove t
dmsetup remove piece
rmmod dm_dsm
insmod "$old"
done_testing
