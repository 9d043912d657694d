#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: all.sh [TEST...]
#
# Runs every test in the guest, or those named, one after the other.
. ./lib.sh
failed=0
# The tests above stacked devices count on it that no disk takes fewer streams, and
# those of discards are for 55-probe-discard.sh only.
for disk in few says128 takes64 takes128; do
	park $disk
done
(($#)) || set -- [0-9]*.sh
for t; do
	start=$SECONDS
	bash "./$t" || failed=1
	echo "# $t: $((SECONDS - start)) s"
	dmsetup remove_all
done
exit $failed
