#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The trace events: what leaves the target, and checkpoints.
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
sectors=$(blockdev --getsz "$ssd")
tracing=/sys/kernel/tracing

dmsetup create t --table "0 $sectors dsm $ssd 0"
begin t full
record t file 1 collection 32768 0:0:128
commit t >/dev/null
dev=$(dmsetup info -c --noheadings --separator , -o major,minor t)
stream() { if has_write_streams "$ssd"; then echo "$1"; else echo 0; fi; }

echo 1 >$tracing/events/dsm/enable
put /dev/mapper/t 2 1
put /dev/mapper/t 9 1
put /dev/mapper/t 7 1 8
message t checkpoint >/dev/null
echo 0 >$tracing/events/dsm/enable
put /dev/mapper/t 2 1

sed -n 's/.*: dsm_place: //p' $tracing/trace >/tmp/placed
is 'every write that leaves is traced, with its parts' "$(paste -sd/ /tmp/placed)" \
	"$dev 16 + 8 stream $(stream 3) hint 5/$dev 72 + 8 stream $(stream 4) hint 3/$dev 56 + 8 stream $(stream 3) hint 5/$dev 64 + 8 stream $(stream 4) hint 3"
matches 'a checkpoint is traced' "$(sed -n 's/.*: dsm_checkpoint: //p' $tracing/trace)" \
	"^$dev window 1 ms [0-9]+ written 2 moved [0-2]\$"
# What is recorded has the stamps that were given.
modprobe xfs
mnt=/tmp/db
mkdir -p $mnt
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
dd if=/dev/zero of=$mnt/collection-0-17.wt bs=1M count=2 conv=fsync status=none
works 'a file is loaded' load-table t --boundary 1048576 $mnt/collection-0-17.wt
sync -f $mnt
message t reset
dsmctl record $mnt --window 2 /tmp/recorded.rec 2>/tmp/recorded &
recorder=$!
until_true 'ls -d $tracing/instances/dsmctl-* >/dev/null 2>&1'
until_true '[[ $(cat $tracing/instances/dsmctl-*/events/dsm/dsm_place/enable) = 1 ]]'
put $mnt/collection-0-17.wt 0 5
put $mnt/collection-0-17.wt 300 7
kill -INT $recorder
wait $recorder && pass 'a recording ends' || fail "a recording ends: $(cat /tmp/recorded)"
if has_write_streams "$ssd"; then
	is 'it has the streams that were given' "$(sed -n 's/^stream \([34]\): /\1 /p' /tmp/recorded | paste -sd/)" '3 20 KiB/4 28 KiB'
fi
policy=none
! has_write_streams "$ssd" || policy=recorded
works 'it can be played' dsmctl simulate /tmp/recorded.rec --policy $policy --discard off --op 9 --dump /tmp/pages
matches 'with what was written where' "$(cat /tmp/pages)" "W,300,7,$(stream 4)"
umount $mnt
dmsetup remove t
done_testing
