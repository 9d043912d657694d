#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs every test in the guest, one after the other.
failed=0
for t in [0-9]*.sh; do
	bash "./$t" || failed=1
	dmsetup remove_all
done
exit $failed
