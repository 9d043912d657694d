#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: guest.sh SEED SCENARIO AGENT FS IO LEAF GRAIN COUNT
#
# Runs in UML: a database on a file system (FS: xfs or ext4) on a dsm device, on a disk
# that poisons what is discarded. IO is cached or direct, LEAF the size of leaf pages
# in KiB, and GRAIN that of the pieces that the disk is sent, in KiB. AGENT discards:
# dsmd, or "naive", "window" or "nobits", rules that are wrong, or "none", which discards
# nothing. "newest" is dsmd beside a module that is wrong: only writes of the newest window
# count. "unsynced" is a rule that does
# not care that the database was started with checkpoint_sync=false, as here it is.
# "undurable" is one that does not wait until the turtle is durable, beside a database whose
# directory is synced late, and that has no journal, from which a recovery would take what
# the turtle does not have yet; "late" is dsmd beside the same database.
# "targets" is dsmd beside a database that checkpoints single files, as MongoDB 5.0 does: pages that
# the turtle shows in use are free, and used again, before another one is written. "whole" is dsmd
# beside the same database, which checkpoints all files.
# "slow" is dsmd on a disk that takes 30 ms for a discard, so that there is time for few: what
# is left must have been sent later.
#
# SCENARIO:
#   kills   the database is killed COUNT times at a random moment, recovered and checked
#   steps   the agent is killed, and stopped, at each step of its rule (0), or at COUNT
#           of them; then the database is killed, recovered and checked
#   beside  backups, compaction, old checkpoints and the like during COUNT checkpoints,
#           and until pages were discarded; all that was copied is checked, too
#   cuts    the power fails at COUNT of the flushes in each of three ways; or at all of
#           them (0), in one way after the other
#   shared  at COUNT moments pages that a checkpoint lists as free become another file's as
#           well, as by a tool that deduplicates; what that file has stays
#   third   a third of a file and more is free when dsmd comes: all that stays on the list must
#           be discarded, and again after dsmd was killed, each within COUNT rounds of
#           six checkpoints
#   churn   as kills, until it goes wrong or COUNT were survived: for rules that are wrong
#   audit   AGENT names what it would discard, and nothing is sent: the audit must report it
#           within COUNT checkpoints, and must not if it is dsmd, or "difference", the same without
#           dsmd and late: in so many checkpoints, with a kill after a quarter of them; for
#           "targets" and "whole" in COUNT tables, each time or never
#
# Leaves its counts in /out/counts. Nothing waits by the clock for something to happen.
seed=$1 scenario=$2 agent=$3 fs=$4 io=$5 leaf=$6 grain=$7 count=$8
what="$scenario, $fs, $io, $leaf KiB leaves, discards of $grain KiB"
[[ $agent == dsmd ]] || what="$agent: $what"
PATH=/job/bin:$PATH
RANDOM=$seed

mnt=/mnt/db copies=/mnt/copies log=/tmp/wtload.log agent_log=/tmp/agent.log reports=/tmp/reports mark=/var/lib/dm-dsm/t.switch
asked=/tmp/asked
sectors=$((640 * 2048))
# The copies are whole where the file system shares no blocks.
[[ $scenario != beside ]] || sectors=$((1536 * 2048))
# What is recovered at every flush is small.
nodes=2000
[[ $scenario != cuts && $agent != @(targets|whole) ]] || nodes=500
# Enough that much of what is free stays so
[[ $scenario != third ]] || nodes=8000
options=(linkbench --dbpath "$mnt" --nodes "$nodes" --leaf-kib "$leaf" --cache-mb 10)
[[ $io == cached ]] || options+=(--direct-io)
environment=() journal=4
case $agent in
unsynced) environment=(WIREDTIGER_CONFIG=checkpoint_sync=false) ;;
undurable|late) environment=(LD_PRELOAD=/job/bin/late.so) journal=0 ;;
targets|whole) environment=(LD_PRELOAD=/job/bin/hold.so) ;;
esac
options+=(--journal-mb "$journal")
moments=0 cuts=0 lost=0 alarms=0
database=0 agent_pid=0 pester_pid=0 dsmd_pid=0

. ./results.sh "discard: $what"
# A wait of A to A + B milliseconds, to be somewhere else each time
while_ms() {
	sleep "$(printf '0.%03d' $(($1 + RANDOM % $2)))" &
	wait $!
}
broken() { # WHY FILE...
	fail "$1"
	grep -v corrupt_dump "${@:2}" | head -n 12 | cut -c1-300 | sed 's/^/# /'
	dmesg | tail -n 5 | sed 's/^/# /'
	lost=$((lost + 1))
}

# ---- the disk, the file system, the database -----------------------------------------

device() {
	local below=/dev/streamdisk module=dm-dsm.ko
	local features="4 discard on discard_granularity $((grain * 1024))"

	[[ $agent != newest ]] || module=newest.ko
	insmod streamdisk.ko sectors=$sectors poison=1 && insmod $module || return
	if [[ $scenario == cuts ]]; then
		dmsetup create logged --table "0 $sectors log-writes $below /dev/ram0" || return
		below=/dev/mapper/logged
		features="6 streams 0 ${features#4 }"
	fi
	dmsetup create t --table "0 $sectors dsm $below 0 $features"
}

make_fs() {
	if [[ $fs == xfs ]]; then mkfs.xfs -q -f /dev/mapper/t; else mkfs.ext4 -q -F /dev/mapper/t; fi
	# A discard is in flight for a while, and lets later writes pass.
	if [[ $agent == slow ]]; then echo 30; else echo 2; fi >/sys/module/streamdisk/parameters/discard_ms
}

mounted() { mount -t "$fs" "${1:-/dev/mapper/t}" /mnt; }

discarded_pages() { awk '{ print int($2 / 8) }' /sys/kernel/debug/streamdisk/discards; }

# run OPTION...: the database at work, in the background
run() {
	env "${environment[@]}" wtload "${options[@]}" --phase run --mix mixed --threads 3 --seed $((RANDOM + 1)) "$@" >$log 2>&1 &
	database=$!
}

alive() { kill -0 "$1" 2>/dev/null; }
checkpoints() { grep -c '^checkpoint' $log; }

# until_checkpoints N [WHAT...]: the database has made so many, or has died, or WHAT is so
until_checkpoints() {
	while (($(checkpoints) < $1)); do
		alive $database || return
		(($# == 1)) || ! "${@:2}" || return 0
		sleep 0.02
	done
}

# Whether pages were discarded since there were N
more_pages() { (($(discarded_pages) > $1)); }

# end SIGNAL PID
end() {
	(($2)) || return 0
	kill "-$1" "$2" 2>/dev/null
	kill -CONT "$2" 2>/dev/null
	wait "$2" 2>/dev/null
	return 0
}

# right DBPATH: what wtload and wt say; both recover it if it was not closed.
right() { wtload check --dbpath "$1" --cache-mb 20 --journal-mb $journal >/tmp/check.log 2>&1; }
verifies() {
	local file

	for file in "$1"/collection-[0-9]-*.wt; do
		/usr/lib/wiredtiger/wt -h "$1" -C 'log=(enabled,path=journal,compressor=snappy,prealloc=false,file_max=4MB),extensions=[/usr/lib/wiredtiger/libwiredtiger_snappy.so]' \
			verify "table:$(basename "$file" .wt)" >/tmp/check.log 2>&1 || return
	done
}

# ---- who discards --------------------------------------------------------------------

start_agent() { # [STEP]
	local program=dsmd rule=$agent audit=()

	[[ ! ${1:-} ]] || program=discard-steps
	[[ $agent != un[sd]* ]] || rule=difference
	case $agent in
	none)	sleep infinity & ;;
	dsmd|newest|late|targets|whole|slow) DISCARD_STEP=${1:-} "$program" --config /tmp/t.toml 2>>$agent_log & ;;
	*)	# The target knows what was written only where the table has a file.
		if ((!dsmd_pid)); then
			dsmd t -o dbpath=$mnt -o state-dir=/tmp/state 2>>$agent_log &
			dsmd_pid=$!
		fi
		[[ $scenario != audit ]] || audit=(--audit)
		discard-rule "${audit[@]}" $rule t $mnt >>$reports 2>>$agent_log & ;;
	esac
	agent_pid=$!
}

end_agent() {
	end KILL $agent_pid
	end KILL $dsmd_pid
	dsmd_pid=0
}

# As it is on a busy machine, and worse: it is stopped for up to 5 s, and killed at
# any step and started again; or only stopped.
pester() { # [only-stopped]
	RANDOM=$((seed + 1))
	trap 'end_agent; exit' TERM
	start_agent
	while :; do
		while_ms 100 900
		if [[ ${1:-} ]] || ((RANDOM % 6)); then
			stopped=$agent_pid
			kill -STOP "$stopped"
			sleep "$((RANDOM % 5)).$((RANDOM % 10))" &
			wait $!
			kill -CONT "$stopped" 2>/dev/null
		else
			end KILL $agent_pid
			start_agent
		fi
	done
}

start_pestering() { # [only-stopped]
	pester "$@" &
	pester_pid=$!
}

end_pestering() {
	end TERM $pester_pid
	pester_pid=0
}

# What is in the page cache is not on the disk.
remount() {
	umount /mnt || { fail 'the file system is in use'; return 1; }
	mounted
}

# ---- scenarios -----------------------------------------------------------------------

begin() {
	local how=true

	device && make_fs && mounted && mkdir $mnt $copies &&
		wtload "${options[@]}" --phase load >$log 2>&1 || { fail "there is no database: $(tail -n 1 $log)"; return 1; }
	sync
	before=$(discarded_pages)
	[[ $scenario != audit ]] || how=\"audit\"
	printf 'verbose = true\nstate-dir = "/tmp/state"\ndbpath = "%s"\nboundary = "attach"\nwait = true\ndiscard = %s\naudit-pages = 0\n' \
		$mnt "$how" >/tmp/t.toml
}

finish() {
	umount /mnt
	dmsetup remove t
	[[ $scenario != cuts ]] || dmsetup remove logged
}

# What goes on when a database dies: one of these. Not "incremental": WiredTiger 11.3.1
# aborts at a checkpoint of a database that has died in one ("blkmods are not
# compatible"), also where nobody discards. No named checkpoint is replaced during a backup.
besides=("drops,truncate" "backup,drops" "cursors,named,history,compact" "bulk,truncate")

# Checkpoints one after the other without a pause, or with one
begin_run() { # [OPERATIONS BETWEEN CHECKPOINTS [WHAT GOES ON [OPTION...]]]
	local ops=${1:-$((RANDOM % 3 ? 100 + RANDOM % 300 : 1 + RANDOM % 20))}
	local beside=${2:-${besides[RANDOM % ${#besides[@]}]}}

	run --seconds 100000 --checkpoint-ops $ops --beside $beside --copies $copies "${@:3}"
}

kill_database() {
	if ! alive $database; then
		broken "moment $moments: the database ended by itself" $log
		return 1
	fi
	end KILL $database
	moments=$((moments + 1))
}

# A run that is killed between two checkpoints, or in one; mostly while pages are discarded
one_kill() {
	local had

	had=$(discarded_pages)
	begin_run
	if ((RANDOM % 4)); then until_checkpoints 100 more_pages "$had"; else until_checkpoints $((2 + RANDOM % 4)); fi
	while_ms 0 400
	kill_database
}

# What there was no time for was sent after a later checkpoint
rest_was_sent() { grep -q 'what was free before is discarded' $agent_log; }

# One more, after pages were discarded, or WHAT is so: with few moments and steps there may be none
# so far.
one_quiet_kill() { # [WHAT...]
	local had

	had=$(discarded_pages)
	(($#)) || set -- more_pages "$had"
	begin_run 150
	start_agent
	# A busy machine has an agent that sees few of them.
	until_checkpoints 2000 "$@"
	kill_database
	end KILL $agent_pid
	right $mnt || broken "moment $moments, in peace: the database is not right" /tmp/check.log
}

kills() {
	while ((moments < count)); do
		start_pestering
		one_kill || break
		end_pestering
		remount || break
		# It recovers with an agent beside it.
		start_pestering
		right $mnt || broken "moment $moments: the database is not right" /tmp/check.log
		end_pestering
		# shellcheck disable=SC2154 # of results.sh
		((!failed)) || break
	done
	end_pestering
	((failed || $(discarded_pages) > before)) || one_quiet_kill
	if [[ $agent == slow ]]; then
		((failed)) || rest_was_sent || one_quiet_kill rest_was_sent
		rest_was_sent || fail "$moments random moments: nothing of what had no time was sent"
	fi
	is_whole && pass "$moments random moments, $(($(discarded_pages) - before)) pages discarded, lost 0"
}

# Nothing has failed so far, and every file is as it should be
is_whole() {
	((failed)) && return 1
	remount || return
	verifies $mnt && right $mnt && return
	broken 'the files do not verify' /tmp/check.log
	return 1
}

# came_to SIGNAL PID: whether the process has killed or stopped itself
came_to() {
	if [[ $1 == kill ]]; then ! alive "$2"; else [[ $(sed 's/.*) //' "/proc/$2/stat") == T* ]]; fi
}

# One that is killed takes another's place; one that is stopped goes on, late.
one_step() { # SIGNAL STEP
	local n=1

	case $2 in
	*-on)	dmsetup message t 0 set discard off ;;
	*-lists) n=$((1 + RANDOM % 40)) ;;
	*-owner) n=$((1 + RANDOM % 20)) ;;
	*-written) ;;	# the audit may ask once, and pass
	*)	n=$((1 + RANDOM % 6)) ;;
	esac
	begin_run
	start_agent "$1:$2:$n"
	until_checkpoints 2000 came_to "$1" $agent_pid
	if ! came_to "$1" $agent_pid; then
		fail "$1 $2 $n: the agent did not come to it"
		return 1
	fi
	until_checkpoints $(($(checkpoints) + 1 + RANDOM % 3))
	if [[ $1 == kill ]]; then
		wait $agent_pid 2>/dev/null
		start_agent
	elif ((RANDOM % 2)); then
		kill -CONT $agent_pid
	fi
	until_checkpoints $(($(checkpoints) + 1 + RANDOM % 4))
	kill_database || return
	# The agent may have a file open, so that it cannot be unmounted.
	sync
	echo 3 >/proc/sys/vm/drop_caches
	kill -CONT $agent_pid
	right $mnt || { broken "$1 $2 $n: the database is not right" /tmp/check.log; return 1; }
	end KILL $agent_pid
}

steps() {
	local named each n signal

	mapfile -t named <<<"$(discard-steps --steps | grep -v -e -mark -e -rest)"
	each=$((count && count < 2 * ${#named[@]} ? 2 * ${#named[@]} / count | 1 : 1))
	for ((n = RANDOM % each; n < 2 * ${#named[@]}; n += each)); do
		if ((n % 2)); then signal="kill"; else signal="stop"; fi
		one_step $signal "${named[n / 2]}" || break
	done
	((failed || n >= 2 * ${#named[@]})) || fail "the steps ended at ${named[n / 2]}"
	((failed)) || one_quiet_kill
	is_whole && pass "$((moments - 1)) of ${#named[@]} steps with two signals, $(($(discarded_pages) - before)) pages discarded, lost 0"
}

# By dsmd, whose audit has failed
is_marked() { [[ -e $mark ]]; }

churn() {
	start_agent
	while ((moments < count)); do
		one_kill || return
		! is_marked || { broken "moment $moments: the audit has failed" $mark; return; }
		end_agent
		remount || return
		start_agent
		right $mnt || { broken "moment $moments: the database is not right" /tmp/check.log; return; }
	done
	pass "$moments random moments"
}

is_reported() { grep -q '^violation' $reports; }

# Pages in use again, and of them those that were written first
seen_pages() {
	if [[ $agent == @(dsmd|whole) ]]; then
		dsmctl status t -o json | jq -r '.devices[0].agent.discard.audit | "\(.taken_pages) \(.written_pages)"'
	else
		awk '/^seen/ { taken += $2; written += $3 } END { print taken + 0, written + 0 }' $reports
	fi
}

# A quarter of the checkpoints, with other work beside each, then a kill
audit_all() {
	local beside

	for beside in "${besides[@]}"; do
		begin_run 100 "$beside"
		until_checkpoints $((count / ${#besides[@]}))
		kill_database || return
		right $mnt || { broken "moment $moments: the database is not right" /tmp/check.log; return; }
	done
}

# Sets taken and written.
has_seen() { read -r taken written <<<"$(seen_pages)"; ((written)); }

# On a slow machine dsmd has slept through all of it: one more, in peace
audit_in_peace() {
	end_pestering
	start_agent
	begin_run 100 truncate
	until_checkpoints 400 has_seen
	kill_database || return
	right $mnt || broken 'the database is not right' /tmp/check.log
}

sent_nothing() { (($(discarded_pages) == before)) || fail "$(($(discarded_pages) - before)) pages were discarded in audit"; }

is_off() { [[ $(dmsetup status t) == *" discard off"* ]]; }

current_window() { dmsetup status t | grep -o 'discard_window [0-9]*'; }

# What stops itself whenever it has nothing to do: until it has
until_at_rest() {
	local states

	# A thread may have ended before it is read.
	until states=$(cat "/proc/$1/task/"*/stat 2>/dev/null) && ! grep -qv ') T' <<<"$states"; do
		alive "$1" || { fail 'dsmd has ended by itself'; return 1; }
		sleep 0.01
	done
}

# dsmd looks at the turtle while the database waits: one that begins a window has seen it.
look_once() {
	local had n

	# What the page cache has so far is written before that window.
	sync
	if ((!agent_pid)); then
		start_agent stop:after-rest:0
		until_at_rest $agent_pid || return
	fi
	had=$(current_window)
	# It waits for a moment after a change of the turtle, at rest.
	for ((n = 0; n < 100; n++)); do
		kill -CONT $agent_pid
		until_at_rest $agent_pid || return
		[[ $(current_window) == "$had" ]] || return 0
		sleep 0.05
	done
	fail "dsmd does not look, with $had"
	tail -n 5 $agent_log | sed 's/^/# /'
	return 1
}

# Seven looks: at three checkpoints, at a turtle when the next checkpoint is about to rename its
# own, at that one, and at two more
look_at_table() {
	local n

	for ((n = 0; n < 7; n++)); do
		until [[ -e $asked ]]; do
			alive $database || { broken 'the database ended by itself' $log; return 1; }
			sleep 0.01
		done
		look_once || return
		rm $asked
	done
}

# COMMAND is answered by a dsmd that stops itself.
awake() {
	local nudges

	while kill -CONT $agent_pid; do sleep 0.1; done &
	nudges=$!
	"$@"
	kill $nudges
	wait $nudges
} 2>/dev/null

is_caught() {
	if ! is_marked || ! is_off || ! grep -q 'collection-1[0-9]\{6\}-.*nothing had been discarded' $mark; then
		fail "the audit has not reported table $1: $(cat $mark; awake dsmctl status t -o json | jq -c '.devices[0].agent.discard')"
		tail -n 5 $agent_log | sed 's/^/# /'
		return 1
	fi
	mv $mark /tmp/reported
	end_agent
	agent_pid=0
}

# Beside COUNT tables, whose blocks are used before a turtle can show that they are free
audit_tables() {
	local n taken written

	run --seconds 100000 --mix read-only --threads 1 --think-us 999999 --beside $agent \
		--on-checkpoint "touch $asked; while [ -e $asked ]; do sleep 0.01; done"
	for ((n = 1; n <= count; n++)); do
		look_at_table || return
		[[ $agent == whole ]] || is_caught $n || return
	done
	if [[ $agent == whole ]]; then
		read -r taken written <<<"$(awake seen_pages)"
		((written)) || fail 'the audit has seen nothing'
	fi
	kill_database || return
	rm -f $asked
	end_agent
	right $mnt || broken 'the database is not right' /tmp/check.log
	sent_nothing
	is_whole || return
	if [[ $agent == whole ]]; then
		pass "$count tables, $taken pages in use again, $written seen to be written first, 0 pages sent"
	else
		pass "reported by the audit, 0 pages sent: at each of $count tables, the last: $(jq -r .why /tmp/reported)"
	fi
}

audit() {
	local taken written

	if [[ $agent == @(targets|whole) ]]; then
		audit_tables
		return
	fi
	if [[ $agent == @(dsmd|difference) ]]; then
		# The other one is late by itself.
		if [[ $agent == dsmd ]]; then start_pestering only-stopped; else start_agent; fi
		audit_all
		has_seen || ((failed)) || [[ $agent != dsmd ]] || audit_in_peace
		end_pestering
		end_agent
		((failed || written)) || fail 'the audit has seen nothing'
		sent_nothing
		is_whole && pass "$taken pages in use again, $written seen to be written first, 0 pages sent"
		return
	fi
	start_agent
	# Not beside a backup: while one runs, nothing is named.
	begin_run 100 drops,truncate
	until_checkpoints "$count" is_reported
	kill_database || return
	end_agent
	if ! is_reported; then
		fail "the audit has not reported the rule \"$agent\" in $(checkpoints) checkpoints and $(grep -c ^seen $reports) looks"
		tail -qn 5 $reports $agent_log | sed 's/^/# /'
	fi
	right $mnt || broken 'the database is not right' /tmp/check.log
	sent_nothing
	is_whole && pass "reported by the audit, 0 pages sent: $(sed -n 's/^violation: //p' $reports)"
}

# There are checkpoints between its looks.
stutter() {
	while :; do
		kill -STOP "$1"
		sleep "1.$((RANDOM % 10))"
		kill -CONT "$1"
		sleep 1
	done 2>/dev/null
}

# While it stands still: what a crash would leave, in blocks that both share
reflink() {
	kill -STOP $database
	cp -r --reflink=always $mnt "$copies/reflink-$1" || fail 'there is no reflink'
	kill -CONT $database
}

beside() {
	local all=backup,bulk,compact,cursors,drops,history,incremental,named,truncate status copy n=0

	start_pestering
	run --seconds 100000 --checkpoint-ops 150 --beside $all --copies $copies
	if [[ $fs == xfs ]]; then
		for n in 1 2; do
			until_checkpoints $((n * 6))
			reflink $n
		done
	fi
	until_checkpoints "$count"
	[[ $agent == none ]] || until_checkpoints $((count + 300)) more_pages "$before"
	# Dead pages are forgotten with each agent: in peace there are more.
	if [[ $agent != none ]] && ! more_pages "$before"; then
		end_pestering
		start_agent
		until_checkpoints $(($(checkpoints) + 400)) more_pages "$before"
	fi
	alive $database && kill -TERM $database
	wait $database
	status=$?
	end_pestering
	end_agent
	if ((status)); then
		broken "the run ended with status $status" $log
		return
	fi
	n=$(grep -c '^beside: .*, [1-9][0-9]* times$' $log)
	if ((n == 9)); then pass "$(sed -n 's/^beside: //p' $log | paste -sd';')"; else fail "not all was done: $(grep '^beside' $log)"; fi
	remount || return
	for copy in $mnt $copies/*; do
		if right "$copy"; then
			pass "$(basename "$copy"): $(sed -n 's/^check: \(ok, .*\), digest.*/\1/p' /tmp/check.log)"
			moments=$((moments + 1))
		else
			broken "$copy is not right" /tmp/check.log
		fi
	done
	((failed)) || pass "$(($(discarded_pages) - before)) pages discarded, lost 0"
}

# Nothing of what was found is on its way to the target or the drive: what there is no time for
# waits until the next look.
idle() {
	local had

	had=$(on_its_way)
	sleep 2
	[[ $had == *" 0" && $(on_its_way) == "$had" ]]
}
on_its_way() { dsmctl status t -o json | jq -r '.devices[0] | "\(.agent.discard.waiting_bytes) \(.kernel.status.discard.queued)"'; }

# listed COMMAND...: what the newest checkpoint lists, to COMMAND, while the database stands
# still and the agent has nothing to send
listed() {
	local status=0

	kill -STOP $database
	until idle; do :; done
	sync
	echo 3 >/proc/sys/vm/drop_caches
	dsmctl free --ranges -o json $mnt | "$@" || status=$?
	kill -CONT $database
	return $status
}

# A page of each free range becomes one of the other file. Appends what that has to /tmp/shared.
deduplicate() {
	listed python3 "$(dirname "$0")/dedupe.py" $mnt /mnt/other || fail 'nothing was deduplicated'
}

shared() {
	local n had

	start_agent
	run --seconds 100000 --checkpoint-ops 150
	until_checkpoints 6
	for ((n = 1; n <= count; n++)); do
		deduplicate
		cp /mnt/other /tmp/other
		had=$(discarded_pages)
		until_checkpoints $(($(checkpoints) + 30))
		until_checkpoints $(($(checkpoints) + 300)) more_pages "$had"
		moments=$((moments + 1))
		echo 3 >/proc/sys/vm/drop_caches
		cmp /tmp/other /mnt/other >/tmp/check.log || { broken "moment $n: another file has lost its pages" /tmp/check.log; return; }
	done
	kill_database
	remount || return
	right $mnt || broken 'the database is not right' /tmp/check.log
	((failed)) || pass "$(($(stat -c %s /mnt/other) / 4096)) pages shared, $(($(discarded_pages) - before)) pages discarded, lost 0"
}

standing() { python3 "$(dirname "$0")/standing.py" $mnt /tmp/standing; }

third_is_free() {
	dsmctl free -o json $mnt | jq -e '[.files[] | select((.size // 0) > 1000000 and .share >= 1 / 3)] != []' >/dev/null
}

# Sets kept, discarded and stuck; whether all that stays on the list was discarded, but for what is
# always in use again
all_is_discarded() {
	local n which

	for ((n = 0; n < count; n++)); do
		until_checkpoints $(($(checkpoints) + 6))
		read -r kept discarded stuck which <<<"$(listed standing)"
		((stuck || !kept || discarded * 10 < kept * 9)) || return 0
	done
	fail "$count rounds: of $kept pages $discarded were discarded, $stuck were not and nobody has written them: $which"
	return 1
}

third() {
	local kept discarded stuck first had

	run --seconds 100000 --checkpoint-ops 300
	until_checkpoints 200 third_is_free
	third_is_free || fail "no third is free: $(dsmctl free $mnt)"
	alive $database && end TERM $database
	# So that there is time for all
	run --seconds 100000 --checkpoint-ops 30 --think-us 100000
	until_checkpoints 3
	listed standing >/dev/null
	start_agent
	all_is_discarded || return
	first="$discarded of $kept"
	end KILL $agent_pid
	had=$(discarded_pages)
	start_agent
	until_checkpoints $(($(checkpoints) + 6 * count)) more_pages $((had + kept - 1))
	more_pages $((had + kept - 1)) || fail "after its restart $(($(discarded_pages) - had)) of $kept pages were discarded"
	kill_database || return
	end_agent
	right $mnt || broken 'the database is not right' /tmp/check.log
	is_whole && pass "$first pages of the list that dsmd found were discarded, $(($(discarded_pages) - had)) after its restart, lost 0"
}

# The disk as it may be when the power fails, at /dev/mapper/cut: changes go elsewhere.
one_cut() { # FLUSH HOW
	local said=''

	powercut replay /dev/ram0 /dev/ram1 /tmp/replayed "$1" || return
	dmsetup create cut --table "0 $sectors snapshot /dev/ram1 /dev/ram2 N 8" || return
	[[ $2 == flushed ]] || said=", $(powercut lose /dev/ram0 /dev/mapper/cut /tmp/replayed "$([[ $2 == most ]] && echo 0 || echo "$RANDOM")")"
	if ! mounted /dev/mapper/cut 2>/tmp/check.log || ! right $mnt; then
		broken "flush $1, $2$said: the database is not right" /tmp/check.log
	fi
	umount /mnt
	dmsetup remove cut
	cuts=$((cuts + 1))
}

cuts() {
	local flushes discards flush how each

	start_agent
	run --seconds 100000 --checkpoint-ops 150 --beside truncate
	# Before anything was discarded a cut shows nothing new.
	until_checkpoints 60 more_pages "$before"
	dmsetup message logged 0 mark run
	before=$(discarded_pages)
	until_checkpoints $(($(checkpoints) + 3))
	until_checkpoints $(($(checkpoints) + 40)) more_pages "$before"
	alive $database || { broken 'the database ended by itself' $log; return; }
	end TERM $database
	end_agent
	umount /mnt
	dmsetup remove t
	dmsetup message logged 0 mark end
	dmsetup remove logged
	read -r flushes discards <<<"$(powercut flushes /dev/ram0)"
	((flushes)) || { fail 'there is no flush in the log'; return; }
	[[ $agent == none ]] || ((discards)) || fail 'nothing was discarded before the power failed'
	each=$((count && flushes > count ? flushes / count : 1))
	for ((flush = 1 + RANDOM % each; flush <= flushes; flush += each)); do
		# What else is on the disk: nothing, or the discards before any write
		how=(flushed most some)
		((count)) || how=("${how[flush % 3]}")
		for how in "${how[@]}"; do
			one_cut $flush "$how" || { fail "flush $flush cannot be replayed"; return; }
			((!failed)) || return
		done
	done
	pass "$cuts power cuts at $(((flushes + each - 1) / each)) of $flushes flushes with $discards discards, $(($(discarded_pages) - before)) pages discarded, lost 0"
}

dmesg --console-level 1
echo 1 >/sys/kernel/rcu_expedited
# Marks are kept there, and the root is read-only.
mount -t tmpfs tmpfs /var/lib
if begin; then
	$scenario
	pages=$(($(discarded_pages) - before))
	[[ $agent == none || $scenario == audit ]] || ((failed || pages)) || fail 'nothing was discarded'
	# A false alarm would switch a good server off.
	case $agent in
	dsmd|late|whole) ! is_marked || alarms=1 ;;
	difference) ! is_reported || alarms=1 ;;
	esac
	((!alarms)) || fail "a false alarm: $(cat $mark $reports 2>/dev/null | grep -v '^seen')"
fi
end KILL $database
end_pestering
end_agent
finish 2>/dev/null
cp $agent_log $log $reports /out 2>/dev/null
echo "moments $moments cuts $cuts pages ${pages:-0} lost $lost alarms $alarms" >/out/counts
exit $failed
