#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What drives take of discards is measured: one that says 128 KiB and takes 4 is told from
# those that take whole units of 64 and of 128 KiB.
. "$(dirname "$0")/lib.sh"
load_module

plug says128 >/dev/null
says128=$(disk_by_serial says128)
takes64=$(disk_by_serial takes64)
takes128=$(disk_by_serial takes128)

# QEMU's drives are never late, and have no write buffer; how slow they are is the machine's.
probe() { dsmctl probe-discard --filler 0 --wait 0 --limit 86400 "$@"; }
# what JSON: the measure, in one line
what() { jq -r '"\(.verdict) \(.proof) \(.granularity) \(.alignment) \(.changed_beside_bytes)"' <<<"$1"; }

# measured DISK: the measure in a file system that has all of it
measured() {
	dsmctl create t "$1" --policy none >/dev/null
	mkfs.ext4 -q -F /dev/mapper/t
	mount /dev/mapper/t /mnt
	probe t -o json
	umount /mnt
	dmsetup remove t
}

is 'one takes whole units of 128 KiB' "$(what "$(measured "$takes128")")" 'taken reads 131072 131072 0'

# dm-linear shifts the drive's units, as a partition that begins anywhere does. Newer
# kernels cut discards at multiples of what the queue says, and what is left of them at the
# drive has no rule any more.
dmsetup create shifted --table "0 800000 linear $takes64 $((257 * 8))"
said=$(measured /dev/mapper/shifted)
is 'for units that a partition shifts there is no granularity' \
	"$(jq -r '"\(.verdict) \(.granularity) \(.alignment) \(.changed_beside_bytes)"' <<<"$said")" 'not-decidable null null 0'
matches 'and why is said' "$(jq -r .reason <<<"$said")" 'units of 64 KiB are taken that begin 60 KiB behind|are taken in part, by no rule'
dmsetup remove shifted

# With others at work
dsmctl create t "$says128" --policy none >/dev/null
refused 'without a file system there is no scratch file' 'no file system is mounted from it' probe t
mkfs.ext4 -q -F /dev/mapper/t
mount /dev/mapper/t /mnt
fio --name=beside --filename=/mnt/beside --size=64m --rw=randwrite --bs=4k --direct=1 --time_based --runtime=3600 \
	--verify=crc32c --do_verify=0 --rate_iops=200 --minimal >/dev/null &
beside=$!
until_true '[[ -s /mnt/beside ]]'
head -c 16M /dev/urandom >/mnt/kept
sync
sum=$(sha256sum </mnt/kept)
features=$(dmsetup table t)
said=$(probe t -o json)
is 'a drive that says 128 KiB takes 4' "$(what "$said")" 'taken reads 4096 4096 0'
is 'the commands that set it are given' "$(jq -r '.commands[]' <<<"$said")" \
	"$(printf 'dsmctl set t %s\n' 'discard_granularity 4096' 'discard_alignment 4096')"
is 'the device is as it was' "$(dmsetup table t)" "$features"
is 'the table, too' "$(field t files)" 0
is 'and the file system' "$(find /mnt -type f | sort | xargs)" '/mnt/beside /mnt/kept'

# Interrupted, nothing is left.
used() { df -k --output=used /mnt | tail -n 1; }
late=$(discard_ioctl dsmctl probe-discard t --filler 0 --wait 0 --limit 86400)
matches 'the probe discards' "$late" '^[0-9]+$'
before=$(used)
strace -o /dev/null -e trace=ioctl -e "inject=ioctl:signal=INT:when=$late" \
	dsmctl probe-discard t --filler 0 --wait 0 --limit 86400 >/dev/null 2>/tmp/said
is 'an interrupted one ends' "$?" 1
matches 'and says so' "$(cat /tmp/said)" 'interrupted; the scratch file is gone, and the device is as it was'
# The other file's extents take some blocks more.
is 'its scratch file is gone' "$(($(used) - before < 1024))" 1
is 'the device is as it was, too' "$(dmsetup table t)" "$features"
kill $beside
wait $beside 2>/dev/null
echo 3 >/proc/sys/vm/drop_caches
is 'what was beside is as it was' "$(sha256sum </mnt/kept)" "$sum"
umount /mnt
dmsetup remove t

# What was measured, kept: the same drive in the target's own pieces.
dsmctl create t "$takes64" --policy none >/dev/null
mkfs.xfs -q -f /dev/mapper/t
mount /dev/mapper/t /mnt
is 'one takes whole units of 64 KiB, on XFS' "$(what "$(probe t -o json)")" 'taken reads 65536 65536 0'
while read -r command; do
	works "$command" $command
done < <(probe t -o json | jq -r '.commands[]')
is 'which is in the table then' "$(dmsetup table t | grep -o 'discard_granularity [0-9]* discard_alignment [0-9]*')" \
	'discard_granularity 65536 discard_alignment 65536'
umount /mnt
# Extents of its files look as if they lay on the data device.
mkfs.xfs -q -f -d rtinherit=1 -r rtdev="$takes128" /dev/mapper/t
mount -o rtdev="$takes128" /dev/mapper/t /mnt
refused 'an XFS with a realtime device is refused' 'the file system has a realtime device (rtdev=' probe t
umount /mnt
wipefs -qa "$takes128"
dmsetup remove t
for disk in few says128 takes64 takes128; do
	park $disk
done
done_testing
