#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: tests/workloads/test.sh WTLOAD
#
# Tests the program WTLOAD (what "make -C tests/workloads OUT=DIR" leaves in
# DIR) in a temporary folder: the files it makes, that it goes on where it
# stopped or was killed, and that its check sees what is broken.
set -u

wtload=$(realpath -- "${1:?usage: test.sh WTLOAD}")
dir=$(mktemp -d)
trap 'rm -rf -- "$dir"' EXIT
cd "$dir" || exit 1

passed=0
failed=0

ok() { passed=$((passed + 1)); echo "ok - $1"; }
not_ok() { failed=$((failed + 1)); echo "not ok - $1"; tail -n 6 out err | sed 's/^/  # /'; }
verdict() { if [[ $? == 0 ]]; then ok "$1"; else not_ok "$1"; fi; }

# does NAME CMD...: CMD succeeds; its output stays in out and err.
does() { "${@:2}" >out 2>err; verdict "$1"; }
# holds NAME CMD...: so does CMD, which may look at out and err.
holds() { "${@:2}" >/dev/null 2>&1; verdict "$1"; }
# refused NAME STATUS REASON CMD...: CMD ends so and says so.
refused() {
	local status

	"${@:4}" >out 2>err
	status=$?
	[[ $status == "$2" ]] && grep -qF -- "$3" err
	verdict "$1"
}

fresh() { rm -rf db && mkdir db; }
load() { fresh; "$wtload" "$@" --dbpath db --phase load; }
run() { "$wtload" "$@" --dbpath db --phase run; }
all() { fresh; "$wtload" "$@" --dbpath db; }
check() { "$wtload" check --dbpath db; }
# The data files, without those that only WiredTiger uses.
files() { (cd db && find . -type f -name '*.wt' ! -name 'WiredTiger*' | sort); }

linkbench=(linkbench --nodes 3000 --ops 2000 --cache-mb 20)
ycsb=(ycsb --records 3000 --ops 2000 --cache-mb 20)
many=(many --collections 20 --records 30 --ops 1000 --checkpoints 3)

# ---- each workload -----------------------------------------------------------

for mix in original mixed update-only; do
	does "linkbench $mix" all "${linkbench[@]}" --mix $mix
	does "... checks" check
done
for mix in update-heavy update-only; do
	does "ycsb $mix" all "${ycsb[@]}" --mix $mix
	does "... checks" check
done
does "many mixed" all "${many[@]}" --mix mixed
does "... checks" check

# How the process PID has its data files open.
cat >how_open <<-'SCRIPT'
	for fd in "/proc/$1/fd"/*; do
		[[ $(readlink "$fd") =~ (collection|index)-.*\.wt$ ]] || continue
		grep -qE '^flags:\s*0[0-7]*[4-7][0-7]{4}$' "/proc/$1/fdinfo/${fd##*/}" && echo direct || echo cached
	done | sort -u
SCRIPT
hook='bash how_open $PPID >open'
does "linkbench buffered" all "${linkbench[@]}" --on-load-end "$hook"
holds "... has no file open with O_DIRECT" test "$(cat open)" = cached
does "linkbench direct I/O" all "${linkbench[@]}" --direct-io --on-load-end "$hook"
holds "... has its data files open so" test "$(cat open)" = direct
does "... checks" check
does "linkbench with 4 clients" all "${linkbench[@]}" --mix mixed --threads 4
does "... checks" check
does "4 KiB leaf pages" all "${linkbench[@]}" --leaf-kib 4
does "... check" check
does "8 KiB leaf pages of indexes, nothing compressed" \
	all "${linkbench[@]}" --index-leaf-kib 8 --block-compressor none --json json
holds "... are what the JSON has" grep -q '"block_compressor": "none"' json
holds "... with the pages" grep -q '"index_leaf_kib": 8,' json
holds "... are what WiredTiger was told" grep -aq leaf_page_max=8KB db/WiredTiger.wt
does "... check" check
small=$(du -s --apparent-size db | cut -f1)
if [[ $wtload == *3.2.1 ]]; then
	refused "zstd without its extension" 1 "cannot find libwiredtiger_zstd.so" \
		all "${linkbench[@]}" --block-compressor zstd
else
	does "zstd" all "${linkbench[@]}" --block-compressor zstd
	holds "... is smaller" test "$(du -s --apparent-size db | cut -f1)" -lt "$small"
	does "... check" check
fi

# ---- files -------------------------------------------------------------------

number='[0-9]+--?[0-9]+'
minor='^\./(_mdb_catalog|sizeStorer)\.wt$'

# all_named PATTERN: 100 files, 20 collections and 80 indexes, are named so.
all_named() {
	files | grep -vE "$minor" >data
	[[ $(wc -l <data) == 100 && $(grep -cE "^\./$1\.wt$" data) == 100 ]]
}
others_exist() {
	local name

	for name in WiredTiger{,.lock,.turtle,.wt} storage.bson mongod.lock; do
		[[ -f db/$name ]] || return 1
	done
	# What is pushed out of the cache: from WiredTiger 10 on, and before
	[[ -f db/WiredTigerHS.wt || -f db/WiredTigerLAS.wt ]]
}
journal_named() { ! find db/journal -type f -printf '%f\n' | grep -vE '^WiredTiger(Log|Preplog)\.[0-9]{10}$'; }
one_counter() { diff <(grep -oE '[-/][0-9]+-' data | tr -d /- | sort -n) <(seq 0 99); }
one_random() { [[ $(sed -E 's/.*[-/][0-9]+-(-?[0-9]+)\.wt/\1/' data | sort -u | wc -l) == 1 ]]; }
idents_match() { diff <(grep -oE '"ident":"[^"]*"' idents | cut -d'"' -f4 | sed 's/.*/.\/&.wt/' | sort) data; }
id_indexes() { [[ $(grep -c '"type":"index","index":"_id_"' idents) == 20 ]]; }

does "many, plain" all "${many[@]}" --idents idents
holds "idents" all_named "(collection|index)-$number"
holds "one counter for collections and indexes" one_counter
holds "one random number" one_random
holds "mongod's other files" others_exist
holds "the journal's names" journal_named
holds "an empty lock file after a clean stop" test ! -s db/mongod.lock
holds "--idents names every file" idents_match
holds "--idents lists _id indexes" id_indexes
does "many with --directory-per-db" all "${many[@]}" --directory-per-db --idents idents
holds "idents with it" all_named "[a-z0-9]+/(collection|index)-$number"
holds "--idents names every file" idents_match
holds "databases named index and collection" test -d db/index -a -d db/collection
does "... check" check
does "many with --directory-for-indexes" all "${many[@]}" --directory-for-indexes
holds "idents with it" all_named "(collection|index)/$number"
does "... check" check
does "many with both" all "${many[@]}" --directory-per-db --directory-for-indexes
holds "idents with both" all_named "[a-z0-9]+/(collection|index)/$number"
does "... check" check

# ---- phases, checkpoints, hooks ------------------------------------------------

lines() { [[ $(grep -cE "$2" "$3") == "$1" ]]; }
json_says() { grep -q '"ops": 2000,' json && grep -q '"checkpoints": 4,' json && grep -q '"p99.9": [0-9]' json; }
# 3 collections and 6 indexes, 2 to 4 checkpoints: each has a root and at least one extent list.
number_of() { sed -nE "s/.*\"$1\": ([0-9]+).*/\1/p" json; }
types_written() {
	[[ $wtload == *3.2.1 ]] && return
	local class roots

	for class in collection index; do
		roots=$(number_of "$class root")
		((roots > 3 && roots <= 24 && $(number_of "$class extent") >= roots)) || return
		(($(number_of "$class leaf") > roots)) || return
	done
}
json_parses() { ! command -v python3 || python3 -m json.tool json; }

# The numbers of a file of latencies, begin and length by line
latencies() { od -A n -t u8 -w16 -v latencies | sort -n; }
ordered() { latencies | awk '$2 <= 0 || $2 > 60e9 || $1 < last { bad = 1 } { last = $1 } END { exit bad || NR != 2000 }'; }
# awk's numbers are doubles: nanoseconds since the start of the machine fit.
apart() { latencies | awk 'NR > 1 && $1 - last < 5e6 { bad = 1 } { last = $1 + $2 } END { exit bad || NR != 200 }'; }

does "a load alone" load "${linkbench[@]}" --on-load-end 'echo loaded >>hooks'
files >before
# shellcheck disable=SC2016 # for the hook's shell
does "a run alone" run "${linkbench[@]}" --checkpoints 4 --before-checkpoint 'echo before $CHECKPOINT >>hooks' \
	--on-checkpoint 'echo $CHECKPOINT >>hooks' --json json
holds "hooks in their order" diff <(printf '%s\n' loaded 'before 1' 1 'before 2' 2 'before 3' 3 'before 4' 4) hooks
holds "what was written, by type" types_written
holds "no new files" diff before <(files)
holds "a line for each checkpoint" lines 4 '^checkpoint [1-4]/4 took [0-9.]+ s$' out
holds "a line each 5 %" lines 19 '^run: [0-9]+ %' out
does "a run with its latencies" run "${linkbench[@]}" --threads 2 --latencies latencies --json json
holds "... 16 bytes of each operation" test "$(stat -c %s latencies)" = $((2000 * 16))
holds "... that took some time, and began after each other" ordered
does "a run of clients that think" run "${linkbench[@]}" --ops 200 --checkpoints 1 --think-us 5000 --latencies latencies
holds "... begins 5 ms apart" apart

# said NAME: of the JSON
said() { sed -nE "s/.*\"$1\": ([a-z0-9.-]+).*/\1/p" json; }
# each NS: each operation began so long after the one before, when it was due
each() { latencies | awk -v ns="$1" 'NR > 1 && $1 - last != ns { bad = 1 } { last = $1 } END { exit bad || NR != 300 }'; }
paced() { awk -v n="$(said ops_per_second)" 'BEGIN { exit n < 80 || n > 101 }'; }
does "a run at a stated pace" run "${linkbench[@]}" --ops 300 --rate 100 --checkpoints 2 --threads 2 \
	--latencies latencies --json json
holds "... keeps it" test "$(said rate) $(said rate_kept)" = "100 true"
holds "... is no faster" paced
holds "... is due each 10 ms" each 10000000
does "a pace that a checkpoint delays" run "${linkbench[@]}" --ops 400 --rate 200 --checkpoints 2 \
	--on-checkpoint 'sleep 0.6' --json json
holds "... is made up for" test "$(said rate_kept)" = true
holds "... and the delay said" awk -v n="$(said longest_behind_seconds)" 'BEGIN { exit n < 0.59 }'
does "a pace that cannot be kept" run "${linkbench[@]}" --ops 200 --rate 1000 --checkpoints 2 \
	--on-checkpoint 'sleep 1' --json json
holds "... is said in the JSON" test "$(said rate_kept)" = false
holds "... and in words" lines 1 '^run: could not keep 1000 operations/s: [0-9.]+ s behind at the end$' out
does "a run again" run "${linkbench[@]}" --checkpoints 4 --json json
holds "a last line" lines 1 '^linkbench: 2000 operations \(update-only\)' out
holds "JSON's values" json_says
holds "JSON's form" json_parses
does "a second run" run "${linkbench[@]}" --mix mixed --checkpoint-ops 500
holds "a checkpoint each 500 operations" lines 4 '^checkpoint [1-4]/4 took' out
does "a run by time" run linkbench --mix mixed --seconds 2 --checkpoints 2 --threads 2
holds "its checkpoints" lines 2 '^checkpoint [12]/2 took' out
does "... check" check
refused "a hook that fails" 1 "--on-checkpoint 'exit 3' failed with exit status 3" \
	run "${linkbench[@]}" --on-checkpoint 'exit 3'
does "... leaves what recovers" check

check_says() { check | cmp -s - first; }

all "${linkbench[@]}" --mix mixed --seed 7 >/dev/null && check >first
all "${linkbench[@]}" --mix mixed --seed 7 >/dev/null
holds "the same seed, the same documents" check_says
all "${linkbench[@]}" --mix mixed --seed 8 >/dev/null
holds "another seed, other documents" eval '! check_says'

# ---- beside the clients ---------------------------------------------------------

beside() {
	fresh
	rm -rf copies
	mkdir copies
	"$wtload" "${linkbench[@]}" --dbpath db --mix mixed --threads 2 --checkpoint-ops 200 --journal-mb 4 \
		--beside "$1" --copies copies
}
kinds=(bulk compact cursors drops history named truncate backup)
[[ $wtload == *3.2.1 ]] || kinds+=(targets whole incremental)
for name in "${kinds[@]}"; do
	does "beside: $name" beside $name
	holds "... is done" lines 1 "^beside: $name, [1-9][0-9]* times$" out
	cp out out.beside
	does "... check" check
	[[ $name != backup ]] || does "... the copy checks" "$wtload" check --dbpath copies/backup
done
if [[ $name == incremental ]]; then
	holds "... again and again" lines 1 '^beside: incremental, ([2-9]|[1-9][0-9]) times$' out.beside
	does "... the copy checks" "$wtload" check --dbpath copies/incremental
fi
# Two of them hold the turtle, which only one can.
mapfile -t kinds < <(printf '%s\n' "${kinds[@]}" | grep -v '^whole$')
all_kinds=$(IFS=,; echo "${kinds[*]}")
does "beside: all at once" beside "$all_kinds"
holds "... are done" lines ${#kinds[@]} '^beside: .* times$' out
does "... check" check
does "... the backup checks" "$wtload" check --dbpath copies/backup
[[ ! -d copies/incremental ]] ||
	does "... the one by blocks checks" "$wtload" check --dbpath copies/incremental
no_scratch() { [[ $(files | wc -l) == 12 ]]; }
holds "... leaves nothing behind" no_scratch

# ---- killed at any moment ------------------------------------------------------

# ended SIGNAL LINE SECONDS CMD...: when CMD has printed a line that starts
# with LINE and SECONDS more have gone, it gets the signal; its status.
ended() {
	local pid

	: >log
	"${@:4}" >>log &
	pid=$!
	until grep -q "^$2" log || ! kill -0 $pid; do
		sleep 0.1
	done
	sleep "$3"
	kill "-$1" $pid
	wait $pid
}
killed() { ended KILL "$@" 2>/dev/null; [[ $? == 137 ]]; }

long=("$wtload" linkbench --dbpath db --phase run --mix mixed --cache-mb 20
	--seconds 86400 --checkpoint-seconds 1 --threads 2)
load "${linkbench[@]}" >/dev/null
for seconds in 0.1 0.9 1.05 0.5 1.3; do
	does "killed $seconds s after a checkpoint" killed checkpoint $seconds "${long[@]}"
	holds "the lock file has content" test -s db/mongod.lock
	does "... recovers and checks" check
	holds "... says that it recovered" lines 1 'recovered from the journal$' out
done
does "... is clean now" check
holds "... says nothing more" lines 1 'digest [0-9a-f]{16}$' out
does "killed again" killed checkpoint 0.4 "${long[@]}"
does "a run without a check before" run "${linkbench[@]}"
holds "... says that it recovered" lines 1 'recovered from the journal$' out
does "... checks" check
fresh
does "killed while loading" killed load 0.4 "$wtload" linkbench --nodes 300000 --phase load --dbpath db
does "... checks" check
refused "... is not complete" 1 "did not come to its end" run "${linkbench[@]}"
load "${linkbench[@]}" >/dev/null
does "SIGTERM stops cleanly" ended TERM checkpoint 0.5 "${long[@]}"
holds "... says so" lines 1 '^run: stopped by signal 15$' log
holds "... empties the lock file" test ! -s db/mongod.lock
does "... checks" check

# ---- broken on purpose -----------------------------------------------------------

# flip FILE: changes one bit of each block, so that those in use are among them.
flip() {
	perl -e 'open F, "+<", $ARGV[0] or die;
		for (my $at = 4096; $at < -s F; $at += 4096) {
			sysseek F, $at, 0; sysread F, my $byte, 1;
			sysseek F, $at, 0; syswrite F, chr(ord($byte) ^ 1);
		}' "$1"
}
check_fails() {
	check >out 2>err
	[[ $? == 1 ]] && { grep -q '^check: FAILED' out || grep -q 'cannot open the database' err; }
}

load "${linkbench[@]}" >/dev/null
cp -a db good
for file in $(files | grep -E 'collection|index'); do
	rm -rf db && cp -a good db
	flip "db/$file"
	check_fails
	verdict "a flipped bit in ${file#./} fails the check"
done

# ---- bad arguments -----------------------------------------------------------------

rm -rf db && cp -a good db && mkdir empty
wt_linkbench=("$wtload" linkbench --dbpath db)
refused "no dbpath" 2 "--dbpath is missing" "$wtload" linkbench
refused "a dbpath that does not exist" 1 "dbpath '/nowhere' cannot be used: No such file or directory" \
	"$wtload" linkbench --dbpath /nowhere
refused "a dbpath that is a file" 1 "is not a directory" "$wtload" linkbench --dbpath first
refused "a load into a loaded dbpath" 1 "already holds a database" "${wt_linkbench[@]}"
refused "the wrong workload" 1 "holds a database of linkbench, not of ycsb" run ycsb
refused "a run on an empty dbpath" 1 "holds no database" "$wtload" linkbench --dbpath empty --phase run
refused "a check of an empty dbpath" 1 "holds no database" "$wtload" check --dbpath empty
refused "an unknown command" 2 "'mongod' is not a command" "$wtload" mongod --dbpath db
refused "an unknown mix" 2 "--mix 'reads' is not a mix of linkbench; it has original, mixed, update-only" \
	"${wt_linkbench[@]}" --mix reads
refused "another workload's mix" 2 "is not a mix of ycsb" "$wtload" ycsb --dbpath db --mix mixed
refused "an unknown phase" 2 "--phase 'start' is not a phase" "${wt_linkbench[@]}" --phase start
refused "a number with letters" 2 "--nodes '10x' is not a whole number from 100 to 1000000000" \
	"${wt_linkbench[@]}" --nodes 10x
refused "a negative number" 2 "--threads '-1' is not a whole number" "${wt_linkbench[@]}" --threads -1
refused "a number out of range" 2 "--cache-mb '1' is not" "${wt_linkbench[@]}" --cache-mb 1
refused "a page size between powers of two" 2 "not a power of two" "${wt_linkbench[@]}" --leaf-kib 12
refused "one for indexes" 2 "--index-leaf-kib 24 is not a power of two" "${wt_linkbench[@]}" --index-leaf-kib 24
refused "an unknown compressor" 2 "--block-compressor 'zlib' is not one; there are none, snappy and zstd" \
	"${wt_linkbench[@]}" --block-compressor zlib
refused "two paces" 2 "--rate and --think-us exclude each other" "${wt_linkbench[@]}" --rate 5 --think-us 5
refused "two lengths" 2 "--ops and --seconds exclude each other" "${wt_linkbench[@]}" --ops 5 --seconds 5
refused "two kinds of checkpoints" 2 "exclude each other" "${wt_linkbench[@]}" --checkpoints 5 --checkpoint-ops 5
refused "more checkpoints than operations" 2 "is more than one for each" "${wt_linkbench[@]}" --ops 5
refused "something else beside" 2 "--beside 'nothing' is none of backup, bulk" "${wt_linkbench[@]}" --beside drops,nothing
[[ $wtload != *3.2.1 ]] ||
	refused "blocks of an old WiredTiger" 2 "--beside incremental needs WiredTiger 10, and this is WiredTiger 3.2.1" \
		"${wt_linkbench[@]}" --beside incremental --copies copies
[[ $wtload == *3.2.1 ]] ||
	refused "two that hold the turtle" 2 "--beside targets and whole exclude each other" "${wt_linkbench[@]}" --beside targets,drops,whole
refused "nowhere to copy to" 2 "--beside backup needs --copies" "${wt_linkbench[@]}" --beside backup
refused "an unknown option" 2 "unrecognized option '--fast'" "${wt_linkbench[@]}" --fast
refused "a stray word" 2 "'fast' is not an option" "${wt_linkbench[@]}" fast
refused "an output that cannot be written" 1 "cannot write '/nowhere/j'" all "${ycsb[@]}" --json /nowhere/j
rm -rf db && cp -a good db
in_use() { ended TERM checkpoint 0 "${long[@]}" --on-checkpoint "'$wtload' check --dbpath db"; }
refused "a dbpath in use" 1 "is in use by another process" in_use

echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
