#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs every test in the guest, one after the other.
failed=0
for t in [0-9]*.sh; do
	start=$SECONDS
	bash "./$t" || failed=1
	echo "# $t: $((SECONDS - start)) s"
	dmsetup remove_all
done
exit $failed
