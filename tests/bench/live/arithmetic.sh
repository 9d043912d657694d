#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs in UML: what the drive makes of single operations and of clients in closed loops,
# into /out/arithmetic, "THREADS COUNT BYTES KIND: RESULT".
exec >/out/said 2>&1
PATH=/job/bin:$PATH

insmod flashdrive.ko mib=512 timing_only=1 dies=8 read_ns=25000 program_ns=200000 link_ns=0 command_ns=0 || exit
for words in '1 2000 4096 write' '1 2000 4096 read' '1 500 131072 write' '8 2000 4096 write' \
	'32 1000 4096 write' '32 1000 4096 read'; do
	# shellcheck disable=SC2086 # words
	echo "$words: $(queue /dev/flashdrive $words)" || exit
done >/out/arithmetic
rmmod flashdrive
# The link and the firmware: 32 pages of 2 us each, and 5 us
insmod flashdrive.ko mib=512 timing_only=1 dies=8 read_ns=25000 program_ns=200000 link_ns=2000 command_ns=5000 || exit
echo "1 500 131072 link: $(queue /dev/flashdrive 1 500 131072 read)" >>/out/arithmetic
rmmod flashdrive
# Three drive writes at random, and then the same again: garbage collection runs, and the data is right.
insmod flashdrive.ko mib=32 dies=4 program_pages=4 cache_pages=128 read_ns=60000 program_ns=700000 suspend_ns=20000 reserve=4 || exit
for _ in 1 2 3; do
	queue /dev/flashdrive 4 8192 4096 write >/dev/null || exit
done
cat /sys/kernel/debug/flashdrive/counts >/out/counts
head -c 32M /dev/urandom >/tmp/data
dd if=/tmp/data of=/dev/flashdrive bs=64k oflag=direct status=none &&
	dd if=/dev/flashdrive bs=64k iflag=direct status=none | cmp - /tmp/data && echo right >/out/data
cat /sys/kernel/debug/flashdrive/counts >/out/counts-after
blkdiscard -o 4M -l 8M /dev/flashdrive && dd if=/dev/flashdrive bs=1M skip=4 count=8 status=none | tr -d '\0' | wc -c >/out/discarded
cat /sys/kernel/debug/flashdrive/counts >/out/counts-discarded
