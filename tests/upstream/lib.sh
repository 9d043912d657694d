# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The bed of the upstream form: what tests/bed/lib.sh does, with a kernel tree. To
# be sourced.

. "$(dirname "${BASH_SOURCE[0]}")/../bed/lib.sh"
upstream=$checkout/tests/upstream

# As in tests/bed/lib.sh; these are relative to this folder.
eval "bed_$(declare -f recipe_of)"
recipe_of() {
	case $1 in
	tree)	echo recipes/tree ../../dm-dsm/upstream/kunitconfig ;;
	*)	bed_recipe_of "$1" ;;
	esac
}

tree_artefact() (bed=$upstream; artefact tree)
tree_ensure() (bed=$upstream; ensure tree)

# in_tree DIR CMD...: runs CMD in the tree DIR/src, with DIR/build beside it
in_tree() {
	local tools_binds=(--bind "$1/src" /src --bind "$1/build" /build)

	(cd "$1" && in_tools env -C /src "${@:2}")
}
