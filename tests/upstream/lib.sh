# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The upstream form's test environment: what tests/bed/lib.sh does, with a kernel tree. To
# be sourced.

. "$(dirname "${BASH_SOURCE[0]}")/../bed/lib.sh"
upstream=$checkout/tests/upstream

more_recipes() {
	[[ $1 != tree ]] || echo recipes/tree ../../dm-dsm/upstream/kunitconfig
}

tree_artefact() (bed=$upstream; artefact tree)
tree_ensure() (bed=$upstream; ensure tree)

# in_tree DIR CMD...: runs CMD in the tree DIR/src, with DIR/build beside it
in_tree() {
	local tools_binds=(--bind "$1/src" /src --bind "$1/build" /build)

	(cd "$1" && in_tools env -C /src "${@:2}")
}
