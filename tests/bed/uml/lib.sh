# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The UML test environment: what tests/bed/lib.sh does, for kernels that run as a process. To
# be sourced.

. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
uml=$bed/uml

# A kernel is not rebuilt for each change of the tools root: the compiler is
# trixie's.
more_recipes() {
	case $1 in
	uml-source) echo recipes/uml-source ;;
	uml-*)	more_recipes uml-source
		echo recipes/uml-kernel config/base "config/${1#uml-}"
		(cd "$uml" && patches_of "${1#uml-}") ;;
	esac
}

patches_of() {
	case $1 in
	stacked) echo smp/*.patch ../../../dm-dsm/upstream/{write-streams,poll}/*.patch ;;
	live)	echo time-travel/*.patch ;;
	*)	echo smp/*.patch ;;
	esac
}

uml_artefact() (bed=$uml; artefact "$1")
uml_ensure() (bed=$uml; ensure "$1")

# uml_prepare KERNEL: everything that a boot of KERNEL needs.
uml_prepare() {
	ensure tools
	ensure guest
	ensure wiredtiger
	uml_ensure uml-source
	uml_ensure "uml-$1"
}

# uml_module KERNEL DIR [MAKE-ARG...]: builds the module's sources in DIR, which
# must be in the checkout or the cache, for KERNEL.
uml_module() {
	local kernel

	kernel=$(uml_artefact "uml-$1")
	in_tools make -s -C "$kernel/source" ARCH=um O="$kernel" M="$2" W=1 "${@:3}" modules
}

# uml_copy_module DIR: what the module is built from, without what was built.
uml_copy_module() {
	mkdir -p "$1"
	tar -c -C "$checkout" --exclude='*.o' --exclude='*.ko' --exclude='*.mod*' \
		--exclude='.*.cmd' Kbuild dm-dsm | tar -x -C "$1"
}
