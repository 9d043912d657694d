#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmctl doctor on a database: says that all is right, then says what is not, one thing
# after the other, with the command that fixes it, which is run where it can be here.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
mnt=/tmp/doctor
mkdir -p $mnt
export DSM_CONFIG_DIR=/tmp/doctor-etc

configure() { # DISCARD
	mkdir -p /tmp/doctor-etc
	cat >/tmp/doctor-etc/t.toml <<CONFIG
state-dir = "/tmp/doctor-state"
dbpath = "$mnt/data"
boundary = "manual"
discard = $1
audit-pages = 0
CONFIG
}
agent() {
	dsmd --config /tmp/doctor-etc/t.toml 2>>/tmp/dsmd.log &
	agent=$!
	until_true 'dsmctl boundary show t >/dev/null 2>&1 && [[ -e /run/dsm/t.json ]]'
}
doctor() { dsmctl doctor "$@"; }
# finding CHECK FILTER [NAME]: of what is said about the device t, or NAME
finding() {
	doctor "${3:-t}" -o json | jq -r --arg check "$1" ".findings[] | select(.check == \$check) | $2"
}
level() { finding "$1" .level "${2:-t}"; }
fix() { finding "$1" '.fix | join("; ")' "${2:-t}"; }
status() { doctor "$@" >/dev/null; echo $?; }

is 'without a device, that is said' "$(doctor -o json | jq -r '.findings[] | select(.check == "devices") | .level')" wrong
matches 'and how to make one' "$(doctor)" 'fix: +dsmctl create dsm'
matches 'also where it is configured' "$(configure false; doctor -o json | jq -c '.findings[] | select(.check == "device") | [.device, .level]')" '"t","wrong"'
dsmctl create t "$ssd" --policy dsm >/dev/null
is 'a device without a file system' "$(level filesystem)" wrong
is 'is to be mounted' "$(fix filesystem)" "mount /dev/mapper/t $mnt/data"
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is made' wtload linkbench --dbpath $mnt/data --phase load --nodes 500 --cache-mb 20 --journal-mb 4
is 'without dsmd, that is wrong' "$(level dsmd)" wrong
matches 'and it is to be started' "$(fix dsmd)" 'systemctl (re)?start dsmd@t$'
agent
works 'boundaries are marked' dsmctl boundary mark t
sync -f $mnt
dsmctl debug reset t

if has_write_streams "$ssd"; then
	is 'the drive is right' "$(level drive)" right
	matches 'and its reclaim unit is known' "$(finding drive .values.placement.reclaim_unit)" '^[1-9][0-9]+$'
else
	is 'a kernel without streams is wrong' "$(level kernel)" wrong
	matches 'and a newer one is named' "$(fix kernel)" '^apt install .*linux-image'
	is 'the exit status says that' "$(status t)" 1
	works 'nobody wants streams any longer' dsmctl set t policy none
fi
is 'all is right' "$(status t)" 0
is 'the device lies on the drive itself' "$(finding below .text)" "it lies on $(basename "$ssd")"
matches 'which is said' "$(doctor t)" 'Nothing is wrong'
is 'the data directory is found' "$(level dbpath)" right
is 'and so is dsmd' "$(level dsmd)" right
nobody() {
	setpriv --reuid 4343 --regid 4343 --clear-groups --bounding-set=-all --inh-caps=-all \
		dsmctl doctor t
}
works 'who is not root sees nothing wrong, and not all' until_true '[[ $(nobody >/dev/null; echo $?) == 2 ]]'
matches 'and learns why' "$(nobody)" 'try again as root'
matches 'a report has figures' "$(doctor t --report)" 'files = [1-9]'
is 'and neither names nor paths' "$(doctor t --report | grep -e doctor -e "$(basename "$ssd")")" ''

# A drive without streams
dsmctl create u "$plain" --policy dsm >/dev/null
is 'a drive without FDP is wrong' "$(level drive u)" wrong
is 'and can be left without streams' "$(fix drive u)" 'dsmctl set u policy none'
works 'by this command' eval "$(fix drive u)"
is 'which fixes it' "$(level drive u)" right
dsmctl remove u

# dsmd is stopped, and data goes where no file was known
kill $agent
wait $agent
# More than the files have, whose blocks are all new once
for ((mib = $(du -sm $mnt/data | cut -f1) + 8; mib >= 0; mib -= 4)); do
	dd if=/dev/zero of=$mnt/data/collection-901-901.wt bs=1M count=4 conv=notrunc,fsync status=none
done
is 'dsmd was stopped' "$(level dsmd)" wrong
is 'and writes are unmapped' "$(level unmapped)" wrong
is 'so that dsmd is to be started' "$(fix unmapped)" 'systemctl start dsmd@t; dsmctl debug reset t'
agent
is 'dsmd is back' "$(level dsmd)" right
is 'the count is not' "$(level unmapped)" wrong
works 'and is fixed by it' eval "$(fix unmapped)"
is 'as is seen' "$(level unmapped)" right

# A boundary that was outgrown. It matters to a policy that has boundaries.
dsmctl set t policy dsm
rm $mnt/data/collection-901-901.wt
dd if=/dev/zero of=$mnt/data/collection-902-902.wt bs=64k count=1 conv=fsync status=none
works 'a file has a boundary' eval 'dsmctl debug refresh t && dsmctl boundary mark t'
dd if=/dev/zero of=$mnt/data/collection-902-902.wt bs=1M count=4 seek=1 conv=fsync,notrunc status=none
dsmctl debug refresh t >/dev/null
is 'a boundary was outgrown' "$(level boundaries)" note
is 'and is to be moved' "$(fix boundaries)" 'dsmctl boundary move t'
works 'by this command' eval "$(fix boundaries)"
is 'which fixes it' "$(level boundaries)" right

# A checkpoint that does not come
put $mnt/data/collection-902-902.wt 0 4 1024
old() { dsmctl doctor t --checkpoint-seconds 0.1 -o json | jq -r ".findings[] | select(.check == \"checkpoints\") | $1"; }
is 'data is written and no checkpoint made' "$(old .level)" wrong
matches 'so that one is to be made' "$(old '.fix[0]')" 'fsync: 1'
rm $mnt/data/collection-902-902.wt
before=$(finding checkpoints .values.seen)
works 'the database makes some' wtload linkbench --dbpath $mnt/data --phase run --nodes 500 --ops 200 \
	--checkpoints 2 --cache-mb 20 --journal-mb 4
works 'which are seen' until_true "((\$(finding checkpoints .values.seen) > $before))"
is 'and right' "$(level checkpoints)" right

# Discards are switched off
kill $agent
wait $agent
configure true
agent
wtload linkbench --dbpath $mnt/data --phase run --nodes 500 --seconds 86400 --checkpoint-seconds 1 \
	--mix mixed --cache-mb 20 --journal-mb 4 >/tmp/run.log 2>&1 &
run=$!
works 'checkpoints are followed by discards' until_true '[[ $(level discard) == right ]]'
message t set discard off
works 'somebody switches them off' until_true '[[ $(level discard) == wrong ]]'
is 'and they are to be switched on' "$(fix discard)" 'dsmctl set t discard on'
works 'by this command' eval "$(fix discard)"
works 'which fixes it' until_true '[[ $(level discard) == right ]]'
ended() {
	must kill -9 $run
	wait $run 2>/dev/null
	kill $agent
	wait $agent
	umount $mnt
}
ended

# What an ext4 has as a default is not among the options of its mount
mkfs.ext4 -q -F -E nodiscard /dev/mapper/t
on_ext4() {
	mount /dev/mapper/t $mnt
	mkdir -p $mnt/data
	wtload linkbench --dbpath $mnt/data --phase "$1" --nodes 500 --seconds 86400 --checkpoint-seconds 1 \
		--mix mixed --cache-mb 20 --journal-mb 4 >/tmp/run.log 2>&1 &
	run=$!
	agent
}
on_ext4 all
works 'checkpoints are followed by discards on ext4' until_true '[[ $(level discard) == right ]]'
ended
tune2fs -o nobarrier /dev/mapper/t >/dev/null
on_ext4 run
works 'but not without barriers' until_true \
	'[[ $(finding discard .text) == *"the file system is mounted with nobarrier" ]]'
is 'of which its mount says nothing' "$(grep -c " $mnt ext4 .*barrier" /proc/mounts)" 0
ended
tune2fs -o ^nobarrier /dev/mapper/t >/dev/null
dulbe() { nvme set-feature "$ssd" --namespace-id=1 --feature-id=5 --value="$1"; }
works 'a drive can fail reads of what was discarded' dulbe 0x10000
on_ext4 run
works 'and then nothing is' until_true '[[ $(finding discard .text) == *"fails reads of discarded blocks (DULBE)"* ]]'
ended
must dulbe 0
dsmctl remove t
done_testing
