#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Who owns what is on the way to --dir exchanges it for a link to another file system, when
# dsmctl has opened it and looks where it lies: dsmctl is stopped there. What is discarded
# afterwards must be the scratch file's own, and not what others have at those sectors.
. "$(dirname "$0")/lib.sh"
load_module

disk=$(disk_by_serial fdp)
sectors=$((512 * 2048))
dsmctl create t "$disk" --size $sectors --policy none --discard on >/dev/null
dmsetup create other --table "0 $sectors linear $disk $sectors"
for name in t other; do
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0,nodiscard /dev/mapper/$name
	mkdir -p /tmp/$name
	mount /dev/mapper/$name /tmp/$name
done
mkdir -p /tmp/t/theirs/dir
head -c 180M /dev/urandom >/tmp/t/kept
sync
sum=$(sha256sum </tmp/t/kept)

dir=/tmp/t/theirs/dir
# By itself strace would be the parent, and $! its number.
strace -D -q -o /tmp/trace -e trace=fstatfs -e inject=fstatfs:signal=STOP:when=1 \
	dsmctl probe-discard t --dir $dir --filler 0 --wait 0 --limit 86400 -o json >/tmp/said 2>/tmp/err &
probe=$!
until_true 'grep -qs "stopped by SIGSTOP" /tmp/trace || ! kill -0 $probe'
is 'it is stopped, with the directory open' "$(readlink /proc/$probe/fd/* | grep -cx $dir)" 1
mv $dir /tmp/t/theirs/moved
ln -s /tmp/other $dir
kill -CONT $probe
wait $probe
rc=$?
matches 'it comes to an end' "$rc $(jq -r .verdict /tmp/said) $(</tmp/err)" '^[01] (taken|not-taken|not-decidable) $'
works 'discards were sent' test "$(field t discarded_sectors)" -gt 0
echo 3 >/proc/sys/vm/drop_caches
is 'what others have on the device is as it was' "$(sha256sum </tmp/t/kept)" "$sum"
umount /tmp/t /tmp/other
dmsetup remove t
dmsetup remove other
done_testing
