#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs every test in the guest, one after the other.
. ./lib.sh
failed=0
# The tests above stacked devices count on it that no disk takes fewer streams.
park few
for t in [0-9]*.sh; do
	start=$SECONDS
	bash "./$t" || failed=1
	echo "# $t: $((SECONDS - start)) s"
	dmsetup remove_all
done
exit $failed
