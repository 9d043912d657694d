#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Commands that exchange tables or borrow features are killed before each system call that
# changes something: the same command, or one that is named, finishes or undoes it, and
# tables, features, devices and data are what they were. Of calls of one kind in a row the
# first, the last and each 60th in between are taken; all with the file "long" in the job.
. "$(dirname "$0")/lib.sh"
load_module

fdp=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
mnt=/tmp/steps
run=/run/dm-dsm
mkdir -p $mnt
every=60
[[ ! -e /run/job/long ]] || every=1

calls=ioctl,write,pwrite64,openat,mkdir,mkdirat,mknodat,rename,renameat,renameat2,unlink,unlinkat,fallocate
calls+=,ftruncate,fsync,flock,sendto,clone,clone3,vfork,wait4

# steps COMMAND...: a line "CALL N" for each call that changes something: it is the Nth of its
# name. The command has to be done with.
steps() {
	strace -o /tmp/trace -e "trace=$calls" "$@" >/tmp/said 2>&1 || return
	awk -v every=$every '
		{ call = $1; sub(/\(.*/, "", call); n[call]++; kind = call }
		call == "ioctl" && !match($0, /DM_(DEV_CREATE|DEV_REMOVE|DEV_SUSPEND|TABLE_LOAD|TABLE_CLEAR|TARGET_MSG)/) { next }
		call == "ioctl" { kind = substr($0, RSTART, RLENGTH) }
		call == "openat" && !/O_CREAT|O_TMPFILE/ { next }
		call !~ /^[a-z0-9]+$/ { next }
		kind == last && ++row % every { held = call " " n[call]; next }
		{ if (held) print held; held = ""; if (kind != last) row = 0; last = kind; print call, n[call] }
		END { if (held) print held }' /tmp/trace
}

# killed CALL N COMMAND...: before its Nth CALL; not, if it ends before.
killed() {
	local status=0

	# The exit keeps the shell from saying so.
	(strace -o /dev/null -e "trace=$1" -e "inject=$1:signal=KILL:when=$2" "${@:3}"; exit) >/dev/null 2>&1 ||
		status=$?
	((status == 137))
}

devices() { dmsetup ls | cut -f1 | sort; }
# The number of the device with the segments of w is not always the same.
tables() { dmsetup table | sed '/^w: /s/dsm [0-9:]*/dsm -/' | sort; }
table() { tables | grep "^$1: "; }
sum() {
	echo 3 >/proc/sys/vm/drop_caches
	md5sum <$mnt/kept
}
left() { find $run -name '*.json' -printf '%f ' -o -name '*.new' -printf '%f '; }

# each WHAT PREPARE CHECK COMMAND...: kills COMMAND at each of its steps, from what the function
# PREPARE makes; what CHECK prints then must be nothing.
each() {
	local what=$1 prepare=$2 check=$3 call n step wrong='' kills=0 all=()

	shift 3
	$prepare
	mapfile -t all < <(steps "$@")
	$check >/dev/null
	for step in "${all[@]}"; do
		read -r call n <<<"$step"
		$prepare
		! killed "$call" "$n" "$@" || ((++kills))
		wrong=$($check)
		[[ ! $wrong ]] || { fail "$what: killed before $call $n: $wrong"; return; }
	done
	# A loop may have had fewer rounds.
	if ((${#all[@]} > 3 && kills > ${#all[@]} * 8 / 10)); then
		pass "$what: killed at $kills steps"
	else
		fail "$what: killed at $kills steps of ${#all[@]}: $(</tmp/said)"
	fi
}

# differs WHAT GOT WANTED
differs() { [[ $2 == "$3" ]] || echo "$1: '$2', not '$3'; "; }
nothing() { :; }

# dsm and dm-linear in each other's place: on one segment, and on two below which is a device
dmsetup create v --table "0 2097152 linear $fdp 0"
dmsetup create w --table "0 32768 linear $plain 0
32768 32768 linear $plain 65536"
mkfs.ext4 -q -F /dev/mapper/v
mount /dev/mapper/v $mnt
head -c 20M /dev/urandom >$mnt/kept
sync
sum=$(sum)
features=(--policy file --discard-granularity 65536)
linear=$(tables) names=$(devices)
for d in v w; do
	dsmctl insert $d "${features[@]}" >/dev/null
	dsm=$(table $d)
	back=$(dsmctl withdraw $d | tail -n 1)
	is "$d: the tables are those of before" "$(tables)" "$linear"

	inserted() {
		differs insert "$(dsmctl insert $d "${features[@]}" 2>&1 >/dev/null | grep -v ': note: ')" ''
		differs inserted "$(table $d)" "$dsm"
		dsmctl withdraw $d >/dev/null 2>&1
		differs tables "$(tables)" "$linear"
		differs devices "$(devices)" "$names"
		differs records "$(left)" ''
	}
	each "insert $d, and again" nothing inserted dsmctl insert $d "${features[@]}"

	undone() {
		differs withdraw "$(dsmctl withdraw $d 2>&1 >/dev/null | grep -v ': note: ')" ''
		differs tables "$(tables)" "$linear"
		differs devices "$(devices)" "$names"
		differs records "$(left)" ''
	}
	each "insert $d, and withdraw" nothing undone dsmctl insert $d "${features[@]}"

	insert() { dsmctl insert $d "${features[@]}" >/dev/null 2>&1; }
	withdrawn() {
		local said

		said=$(dsmctl withdraw $d 2>&1)
		differs withdraw "$(grep -o 'dsmctl insert.*' <<<"$said")" "$back"
		differs tables "$(tables)" "$linear"
		differs devices "$(devices)" "$names"
		differs records "$(left)" ''
	}
	each "withdraw $d, and again" insert withdrawn dsmctl withdraw $d

	# The next insert needs no features.
	reinserted() {
		dsmctl insert $d >/dev/null 2>&1
		differs inserted "$(table $d)" "$dsm"
		dsmctl withdraw $d >/dev/null 2>&1
		differs records "$(left)" ''
	}
	each "withdraw $d, and insert" insert reinserted dsmctl withdraw $d
done
is 'the data is what it was' "$(sum)" "$sum"

# What somebody else has loaded is not taken away.
dmsetup load v --table "0 2097152 linear $fdp 8"
refused 'a table that leads elsewhere' 'which `dmsetup clear v` takes away; nothing was changed' dsmctl insert v
dmsetup clear v

# Features and files that are borrowed
dsmctl insert v "${features[@]}" >/dev/null
before=$(dmsetup table v)
back=$(dsmctl withdraw v | tail -n 1)
$back >/dev/null
probe=(dsmctl probe-discard v --filler 0 --wait 0 --limit 86400)
probed() {
	# It restores that before it looks where the file is to be.
	! dsmctl probe-discard v --dir / >/dev/null 2>&1 || echo 'a probe of / was not refused; '
	differs table "$(dmsetup table v)" "$before"
	differs files "$(field v files)" 0
	differs records "$(left)" ''
}
each 'probe-discard, and again' nothing probed "${probe[@]}"

# What doctor names
find_out() {
	dsmctl doctor v -o json | jq -r '.findings[] | select(.check == "left") | .fix[]'
}
dsmctl set v discard on
dsmctl set v discard_granularity 65536
before=$(dmsetup table v)
# It stops where it is about to discard. Without -D strace would be the parent, and $! its number.
late=$(discard_ioctl "${probe[@]}")
matches 'the probe discards' "$late" '^[0-9]+$'
killed_late() {
	strace -D -q -o /dev/null -e trace=ioctl -e "inject=ioctl:signal=STOP:when=$late" "${probe[@]}" >/dev/null 2>&1 &
	until_true '[[ $(field v files) == 1 && $(dmsetup table v) == *discard_alignment\ 4096* ]]'
	refused 'one at a time' 'another dsmctl is at work on the device' dsmctl withdraw v
	is 'while it runs, doctor says nothing' "$(find_out)" ''
	kill -KILL $!
	wait $! 2>/dev/null
}
killed_late
is 'doctor names what undoes it' "$(find_out)" 'dsmctl debug restore v'
works 'which does it' dsmctl debug restore v
is 'the table is what it was' "$(dmsetup table v)" "$before"
is 'no file is left' "$(field v files)" 0
is 'and doctor says nothing' "$(find_out)" ''
killed_late
is 'the way back has the features of before' "$(dsmctl withdraw v 2>/dev/null | tail -n 1)" "${back/discard off/discard on}"
${back/discard off/discard on} >/dev/null
is 'and gives them back' "$(dmsetup table v)" "$before"
killed_late
dsmctl set v discard_granularity 131072
matches 'the next whole one' "$("${probe[@]}" -o json | jq -r .verdict)" '^(taken|not-taken|not-decidable)$'
is 'leaves what somebody has set meanwhile' "$(dmsetup table v | grep -o 'discard_gran.*' | xargs)" \
	'discard_granularity 131072 discard_alignment auto'
is 'the data is what it was after all' "$(sum)" "$sum"
umount $mnt
dsmctl withdraw v >/dev/null
works 'the file system is whole' e2fsck -fn /dev/mapper/v
dmsetup remove v
dmsetup remove w

# A device that follows what it lies on
reload() { dmsetup suspend gv && dmsetup load gv --table "0 $1 linear $plain 0" && dmsetup resume gv; }
dmsetup create gv --table "0 8192 linear $plain 0"
grow=(dsmctl grow g)
ungrown() {
	[[ ! -e /dev/mapper/g ]] || dsmctl remove g
	reload 8192
	dsmctl create g /dev/mapper/gv --policy file >/dev/null
	reload 16384
}
grown() {
	differs grow "$("${grow[@]}" 2>&1 >/dev/null | grep -v ': note: ')" ''
	differs length "$(blockdev --getsz /dev/mapper/g)" 16384
	differs loaded "$(dmsetup table --inactive g)" ''
	differs records "$(left)" ''
}
each 'grow, and again' ungrown grown "${grow[@]}"
dsmctl remove g
dmsetup remove gv

# A device that has a file
mkdir /tmp/steps-etc
export DSM_CONFIG_DIR=/tmp/steps-etc
printf 'drive = "%s"\npolicy = "file"\n' "$plain" >/tmp/steps-etc/c.toml
attach=(dsmctl attach c)
"${attach[@]}" >/dev/null
made=$(tables)
dsmctl remove c
attached() {
	differs attach "$("${attach[@]}" 2>&1 >/dev/null | grep -v ': note: ')" ''
	differs tables "$(tables)" "$made"
	differs node "$(stat -L -c %t:%T /dev/mapper/c)" "$(dmsetup info -c --noheadings -o major,minor c | awk -F: '{ printf "%x:%x", $1, $2 }')"
	dsmctl remove c
}
each 'attach, and again' nothing attached "${attach[@]}"
done_testing
