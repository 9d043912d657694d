# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Shared by the tests in this folder: what runs in the guest, and the way there.
# To be sourced.

uml_tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$uml_tests/../bed/uml/lib.sh"
job=$checkout/build/uml

# fresh TARGET SOURCE...: TARGET is newer than all files in the SOURCEs
fresh() { [[ -e $1 && -z $(find "${@:2}" -newer "$1" -type f -print -quit) ]]; }

# Builds the modules, for the debug kernel, and the programs.
build_job() {
	! fresh "$job/.built" "$checkout/Kbuild" "$checkout/dm-dsm" "$uml_tests/guest" "$bed/results.sh" \
		"$(uml_artefact uml-debug)/linux" || return 0
	work=$(scratch)
	trap 'rm -rf "$work"' EXIT
	uml_copy_module "$work/dsm"
	cp -r "$uml_tests/guest" "$work"
	uml_module debug "$work/dsm"
	uml_module debug "$work/guest/streamdisk"
	in_tools make -s -C "$work/guest" OUT="$job"
	cp "$work/dsm/dm-dsm/dm-dsm.ko" "$work/guest/streamdisk/streamdisk.ko" \
		"$uml_tests"/guest/*.sh "$bed/results.sh" "$job"
	touch "$job/.built"
}

# plain_modules DIR: dm-dsm.ko and streamdisk.ko for the plain kernel, into DIR
plain_modules() {
	local built=$checkout/build/uml-plain work

	mkdir -p "$built" "$1"
	(
		flock 9
		! fresh "$built/.built" "$checkout/Kbuild" "$checkout/dm-dsm" "$uml_tests/guest/streamdisk" \
			"$(uml_artefact uml-plain)/linux" || exit 0
		work=$(scratch)
		trap 'rm -rf "$work"' EXIT
		uml_copy_module "$work/dsm"
		cp -r "$uml_tests/guest/streamdisk" "$work"
		uml_module plain "$work/dsm"
		uml_module plain "$work/streamdisk"
		cp "$work/dsm/dm-dsm/dm-dsm.ko" "$work/streamdisk/streamdisk.ko" "$built"
		touch "$built/.built"
	) 9>"$built/.lock" >&2
	cp "$built"/{dm-dsm,streamdisk}.ko "$1"
}

# run_guest [BOOT-OPTION...] -- COMMAND [ARG...]: runs COMMAND in the guest with the
# modules loaded, see guest/guest.sh. The last line counts the others.
run_guest() {
	local options=() name out passed failed status=0

	while [[ $1 != -- ]]; do
		options+=("$1")
		shift
	done
	shift
	name=$*

	uml_prepare debug
	mkdir -p "$job"
	# A process of its own, and one at a time.
	(flock 9; build_job) 9>"$job/.lock" >&2
	out=$(mktemp)
	"$uml/boot" --kernel debug --job "$job" --mem 1G --timeout 7200 \
		"${options[@]}" guest.sh "$@" | tee "$out" || status=${PIPESTATUS[0]}
	if ((status)) && ! grep -q '^not ok' "$out"; then
		echo "not ok - uml: $name: the boot ended with status $status" | tee -a "$out"
	fi
	passed=$(grep -c '^ok' "$out") || true
	failed=$(grep -c '^not ok' "$out") || true
	rm -f "$out"
	echo "$passed passed, $failed failed"
	((!failed && passed))
}
