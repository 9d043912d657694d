# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What runs on the live drive, for the scripts here. To be sourced.

. "$(dirname "${BASH_SOURCE[0]}")/../../bed/uml/lib.sh"
live=$checkout/tests/bench/live
job=$checkout/build/live/job

# Two drives of 64 MiB on four dies. Blocks are smaller than real ones, and so is the time
# of an erase, so that its share of a die's time is the real one.
#
# tlc: of 3D TLC as its makers publish it in these years: pages of 16 KiB, 60 us to read,
# 700 us to program, 5 ms to erase a block of some 2300 pages; suspended for reads; with a
# protected cache of 1 MiB.
# slc: the Samsung K9F8G08U0M of the papers' simulator: pages of 4 KiB, 25 us, 200 us,
# 1.5 ms for a block of 64 pages; without a cache.
# shellcheck disable=SC2034 # by their names
drive_tlc='program_pages=4 read_ns=60000 program_ns=700000 erase_ns=9000 suspend_ns=20000 cache_pages=256'
# shellcheck disable=SC2034
drive_slc='program_pages=1 read_ns=25000 program_ns=200000 erase_ns=375000 suspend_ns=0 cache_pages=0'
# Of tlc, with a discard that takes 0, 0.1, 1 or 10 ms, in which it does nothing else for the host
# shellcheck disable=SC2034
drive_tlc0us="$drive_tlc" drive_tlc100us="$drive_tlc discard_ns=100000" drive_tlc1ms="$drive_tlc discard_ns=1000000" \
	drive_tlc10ms="$drive_tlc discard_ns=10000000"
drive_mib=64 drive_dies=4

# drive_options KIND OP-PERMILLE
drive_options() {
	local kind=drive_$1

	echo "mib=$drive_mib dies=$drive_dies unit=64 op_permille=$2 reserve=4 urgent=3 ${!kind}"
}

# fresh TARGET SOURCE...: TARGET is newer than all files in the SOURCEs
fresh() { [[ -e $1 && -z $(find "${@:2}" -newer "$1" -type f -print -quit) ]]; }

build_modules() { # WORK
	! fresh "$job/.built" "$checkout/Kbuild" "$checkout/dm-dsm" "$live" "$(uml_artefact uml-live)/linux" || return 0
	uml_copy_module "$1/dsm"
	cp -r "$live/drive" "$1"
	uml_module live "$1/dsm"
	uml_module live "$1/drive"
	cp "$1/dsm/dm-dsm/dm-dsm.ko" "$1/drive/flashdrive.ko" "$live"/{guest,arithmetic}.sh "$job"
	in_tools gcc -O2 -Wall -Wextra -Werror -o "$job/bin/queue" "$live/queue.c" -lpthread
	touch "$job/.built"
}

# build_job WORK: everything that runs in the guest
build_job() {
	mkdir -p "$job/bin"
	uml_prepare live
	(
		flock 9
		build_modules "$1"
		"$checkout/tests/build"
		cp -u "$checkout"/build/workloads/wtload "$checkout"/build/userspace/release/{dsmctl,dsmd,drive-counters} "$job/bin"
	) 9>"$job/.lock" >&2
}

# run_live OUT SCRIPT ARG...: in a boot of its own
run_live() {
	rm -rf "$1"
	mkdir -p "$1"
	"$uml/boot" --kernel live --job "$job" --out "$1" --mem 2G --timeout 3600 "${@:2}" </dev/null >"$1/host" 2>&1
}

# for_each COMMAND...: runs COMMAND with the words of each line of standard input, as many
# at once as there are processors
for_each() {
	local words running=0 failed=0

	while read -ra words; do
		((running < $(nproc))) || { wait -n || failed=1; running=$((running - 1)); }
		"$@" "${words[@]}" &
		running=$((running + 1))
	done
	while ((running)); do
		wait -n || failed=1
		running=$((running - 1))
	done
	return $failed
}
