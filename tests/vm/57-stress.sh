#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Writes that are verified, and a database that frees pages, while tables are uploaded,
# the device is suspended and its table line is loaded again, and what is free is
# discarded: tests/uml/guest/stress.c on a drive, which zeroes what it discards. A wrong
# discard is found.
. "$(dirname "$0")/lib.sh"
load_module

DISK=$(basename "$(disk_by_serial plain)")
export DISK

said=$(stress 12)
sed 's/ok - uml: stress/ok - 57-stress/' <<<"$said"
[[ $said != *'not ok'* ]] || fail 'a mode has failed'
is 'each of three modes has passed' "$(grep -c '^ok - ' <<<"$said")" 3
is 'no device is left behind' "$(dmsetup info -c --noheadings -o name | grep -cx -e stress -e another)" 0

stress 60 wrong >/tmp/wrong
matches 'a control: wrong discards are found' "$(</tmp/wrong)" \
	'^not ok - uml: stress, steady: page [0-9]+ is lost: it was written as version [0-9]+, and reads  0 0'
works 'what it left is removed' until_true 'dmsetup remove stress'
works 'the module unloads' rmmod dm-dsm
done_testing
