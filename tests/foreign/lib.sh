# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The test environment of other architectures: what tests/bed/lib.sh does, with a root
# that builds for arm64 and s390x, and emulates them. To be sourced.

. "$(dirname "${BASH_SOURCE[0]}")/../bed/lib.sh"
foreign=$checkout/tests/foreign

more_recipes() {
	case $1 in
	foreign) echo recipes/foreign packages/foreign packages/kernels ;;
	guest-arm64) echo recipes/guest-arm64 packages/guest ;;
	wiredtiger-arm64) more_recipes foreign
		more_recipes guest-arm64
		echo recipes/wiredtiger-arm64 ../bed/packages/wiredtiger.pip ;;
	esac
}

foreign_artefact() (bed=$foreign; artefact "$1")
foreign_ensure() (bed=$foreign; ensure "$1")
in_foreign() (bed=$foreign; in_root foreign "$@")
