#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The workload of tests/vm/70-wiredtiger.sh on WiredTiger 11, with the share of
# unmapped writes.
. "$(dirname "$0")/common.sh"

load() { wtload "$@"; }
# share BEFORE AFTER: the percentage of the first stream in what was counted: the
# metadata of WiredTiger and of the file system, and what is unmapped without a hint
share() { paste <(tr ' ' '\n' <<<"$1") <(tr ' ' '\n' <<<"$2") | awk '{ d = $2 - $1; sum += d } NR == 1 { first = d } END { printf "%d", 100 * first / sum }'; }

for fs in xfs ext4; do
	file_system $fs
	mkdir $mnt/data
	dsmd t -o dbpath=$mnt/data -o boundary=manual -o write-hints 2>>/tmp/dsmd.log &
	agent=$!
	works "$fs: a database is loaded" load linkbench --dbpath $mnt/data --phase load --nodes 5000 --cache-mb 50
	matches "$fs: by WiredTiger 11" "$(head -n 2 $mnt/data/WiredTiger)" 'WiredTiger 11\.'
	works "$fs: every file has its class" until_true \
		'[[ $(json t "[.regions[] | select(.class == \"collection\")] | length") = 3 &&
		    $(json t "[.regions[] | select(.class == \"index\")] | length") = 7 &&
		    $(json t "[.regions[] | select(.class == \"journal\")] | length") -ge 1 ]]'
	works "$fs: boundaries are marked" dsmctl boundary mark t
	sync
	before=$(json t .kernel.status.windows) written=$(counted)
	made=0 runs=0
	until ((made >= 3)); do
		works "$fs: a run with checkpoints" eval 'load linkbench --dbpath $mnt/data --phase run --nodes 5000 \
			--seconds 20 --checkpoint-seconds 4 --cache-mb 20 --threads 2 >/tmp/run.log 2>&1'
		# shellcheck disable=SC2154 # the library's
		((!failed)) || break
		((runs++, made += $(grep -c '^checkpoint .* took' /tmp/run.log)))
	done
	share=$(share "$written" "$(counted)")
	works "$fs: $share % of its writes, the file system's own among them, have no class" test "$share" -lt 20
	works "$fs: dsmd has seen each, and no others" until_true \
		"((\$(json t .kernel.status.windows) >= $before + $made && \$(json t .kernel.status.windows) <= $before + $made + 3 * $runs))"
	works "$fs: both sides of collections were written" eval \
		'[[ $(json t "[.regions[] | select(.class == \"collection\" and .side == \"bottom\") | .total] | add") -gt 0 &&
		    $(json t "[.regions[] | select(.class == \"collection\" and .side == \"top\") | .total] | add") -gt 0 ]]'
	works "$fs: all is right" load check --dbpath $mnt/data
	kill $agent
	wait $agent
	is "$fs: dsmd ends when asked" $? 0
	arrived $fs
done
done_testing
