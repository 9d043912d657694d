#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Runs in UML: polled I/O that dm divides, above dm. On a kernel without the patch of
# the series poll, the kernel dies.
. ./lib.sh

is 'the disk can be polled' "$(</sys/block/nullb0/queue/io_poll)" 1
must dmsetup create low --table '0 8192 linear /dev/nullb0 0'
must dmsetup create t --table $'0 8 linear /dev/mapper/low 0\n8 8 linear /dev/mapper/low 64'
is 'so can dm above dm' "$(cat /sys/block/dm-[01]/queue/io_poll | paste -sd' ')" '1 1'
is 'a polled write that is not divided' "$(./uring --polled /dev/mapper/t 0 4096 0)" 'wrote 4096'
echo "# the divided one"
is 'a polled write that is divided' "$(./uring --polled /dev/mapper/t 0 8192 0)" 'wrote 8192'
is 'a hundred of them' "$(for _ in {1..100}; do ./uring --polled /dev/mapper/t 0 8192 0; done | sort | uniq -c | xargs)" '100 wrote 8192'
must dmsetup remove t
must dmsetup remove low
done_testing
