#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Who has the switch: dsmd, also for a person and for a trial. "off" by anybody ends a trial for
# good, one that is over or was stopped changes nothing, one that measures nothing says so, and
# a drive whose discards change other data gets none any more.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

disk=$(disk_by_serial fdp)
mnt=/tmp/db
mkdir -p $mnt
rm -rf /var/lib/dm-dsm /var/lib/dsmd/trial
dsmctl create t "$disk" --policy dsm --size 512MiB >/dev/null
make_xfs /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
load=(--dbpath "$mnt/data" --nodes 500 --cache-mb 20 --journal-mb 4)
works 'a database is loaded' wtload linkbench "${load[@]}" --phase load

trial() { dsmctl trial "$1" t "${@:2}"; }
of() { trial report -o json | jq -c "$1"; }
off() { json t .agent.discard.off.text; }
is_on() { [[ $(json t .agent.discard.mode) == on ]]; }
held() { json t .agent.discard.audit.only.text; }
policy() { [[ $(dmsetup table t) =~ policy\ ([a-z]+) ]] && echo "${BASH_REMATCH[1]}"; }
is_set() { [[ $(dmsetup table t) == *" discard $1 "* ]]; }
counters="awk '{printf \"%.0f %.0f\\n\", \$1 * 1e9, \$1 * 2e9}' /proc/uptime"
start_dsmd() { # [OPTION...]
	dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/state "$@" 2>/tmp/dsmd.log &
	agent=$!
	until_true 'dsmctl boundary show t >/dev/null 2>&1'
}
stop_dsmd() {
	kill $agent
	wait $agent
}
finding() { dsmctl doctor t -o json | jq -r ".findings[] | select(.check == \"$1\") | \"\(.level) \(.text)\""; }

# begin on|off [OPTION...]: a trial whose first period is one
begin() {
	local seed on=false

	[[ $1 != on ]] || on=true
	for seed in {1..20}; do
		dsmctl trial stop t 2>/dev/null
		dsmctl trial start t --washout 1s --measure 10h --pairs 2 --counters "$counters" \
			--seed "$seed" "${@:2}" 2>/tmp/trial.log || return 1
		[[ $(of .progress.on) != "$on" ]] || return 0
	done
	return 1
}

begins() { # WHAT on|off [OPTION...]
	if begin "${@:2}"; then pass "$1"; else fail "$1: $(</tmp/trial.log)"; fi
}

ended() { # WHAT WHY
	works "$1: a step finds it" until_true 'trial step 2>/dev/null && [[ $(of .progress) == null ]]'
	matches "$1: why is said" "$(trial report)" "ENDED before it was over: period 1: $2"
	before=$(dmsetup table t)
	works "$1: it does not go on" trial step
	is "$1: nothing is changed" "$(dmsetup table t)" "$before"
}

# ---- nothing would be measured
mkdir -p /run/dsm
python3 -c '
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind("/run/dsm/t.sock"); s.listen(64); time.sleep(86400)' &
fake=$!
works 'somebody listens' until_true '[[ -S /run/dsm/t.sock ]]'
dsmctl set t discard on
refused 'who listens is not dsmd' 'nothing would be discarded: ' trial start
kill $fake
rm -f /run/dsm/t.sock
dsmctl set t discard off
refused 'there is no dsmd' 'no dsmd serves this device' trial start
start_dsmd
refused 'dsmd has none to make' 'set discard = true in its file in /etc/dsm' trial start
stop_dsmd
start_dsmd -o discard -o audit-pages=0
works 'off outlives dsmd' until_true '[[ $(off) == "discards were switched off on the device by"* ]]'
works 'and stays off' is_set off
works 'until somebody has them on' dsmctl set t discard on
works 'nobody has the database open' until_true '[[ $(off) == *"no process has"* ]]'
refused 'dsmd refuses' 'nothing is discarded: no process has the database open' trial start
wtload linkbench "${load[@]}" --phase run --seconds 86400 --checkpoint-seconds 2 --mix mixed --think-us 20000 \
	>/tmp/run.log 2>&1 &
database=$!
works 'somebody has' until_true is_on
dsmctl set t discard off
refused 'they are off' 'discards were switched off on the device by' trial start
dsmctl set t discard on
works 'they are on' until_true is_on
kill -STOP $database
works 'it begins' trial start --washout 0.2s --measure 1s --pairs 500 --counters "$counters"
ended_idle() { trial step 2>/dev/null; [[ $(of .ended) == *'nothing was discarded while'* ]]; }
works 'a period in which nothing was discarded ends it' until_true ended_idle
works 'the device is as it was' until_true is_on
kill -CONT $database

# ---- off by hand
begins 'a period is on' on
dsmctl set t discard off
ended 'off in a period that is on' 'discards were switched off on the device by'
works 'it stays off' is_set off
refused 'another one waits for on' 'discards were switched off on the device by' trial start
dsmctl set t discard on
works 'on by hand' until_true is_on
begins 'a period is on' on
message t set discard off
ended 'off by a message' 'discards were switched off on the device'
works 'it stays off' is_set off
dsmctl set t discard on
works 'on by hand' until_true is_on
begins 'a period is off' off
dsmctl set t discard off
ended 'off in a period that is off' 'discards were switched off on the device by'
works 'it stays off' is_set off
dsmctl set t discard on
works 'on by hand' until_true is_on

# ---- dsmd has the switch
begins 'a period is off' off
works 'dsmd knows of the trial' until_true '[[ $(held) == "a trial is at work"* ]]'
works 'and has the switch' until_true 'is_set watch'
message t set discard on
works 'whatever others want' until_true 'is_set watch'
stop_dsmd
start_dsmd -o discard -o audit-pages=0
works 'dsmd that starts meanwhile hears of it' until_true 'trial step 2>/dev/null && [[ $(held) == "a trial is at work"* ]]'
works 'and has the switch' until_true 'is_set watch'
matches 'the doctor has no remedy' "$(finding discard)" '^note a trial is at work'
touch -d '2 hours ago' /var/lib/dsmd/trial/t.json
matches 'that nobody takes samples is in the report' "$(trial report)" 'NO SAMPLE FOR 2 h'
works 'it is stopped' trial stop
works 'the switch is as it was' until_true is_on
refused 'nothing is left to stop' 'the trial is over' trial stop

# ---- a process that serves and does not answer keeps nobody from off
pkill -STOP -x dsmd
works 'off waits for nobody' dsmctl set t discard off
works 'it is off' is_set off
pkill -CONT -x dsmd
works 'dsmd has heard of it' until_true '[[ $(off) == "discards were switched off on the device by"* ]]'
dsmctl set t discard on
works 'on by hand' until_true is_on

# ---- streams, and one that is over
works 'one of streams' trial start --switch streams --washout 0.2s --measure 0.2s --pairs 2 --counters "$counters"
works 'is over' until_true 'trial step && [[ $(of .progress) == null ]]'
is 'it has not ended before' "$(of .ended)" null
is 'the policy is as it was' "$(policy)" dsm
dsmctl set t policy file
works 'one that is over changes nothing' trial step
is 'the policy is as somebody has set it' "$(policy)" file
dsmctl set t policy dsm
begins 'a period has streams' on --switch streams
dsmctl set t policy none
ended 'none by hand' 'somebody else has set policy to another value'
is 'it stays none' "$(policy)" none

# ---- a drive that is broken
spills=/sys/module/streamdisk/parameters/spills
if [[ -e $spills ]]; then
	# Another device of the drive, with nothing of the database
	dmsetup create u --table "0 1048576 dsm $disk 2097152"
	mkfs.ext4 -q -F /dev/mapper/u
	mount /dev/mapper/u /mnt
	begins 'a period is on' on
	# dsmd makes no discard meanwhile.
	kill -STOP $database
	refused 'a probe leaves the switch to the trial' 'a trial is at work' dsmctl probe-discard t
	echo 1 >$spills
	dsmctl probe-discard u --filler 0 --wait 0 --limit 86400 >/tmp/said 2>&1
	is 'a probe finds it' $? 1
	echo 0 >$spills
	umount /mnt
	dmsetup remove u
	matches 'it is broken' "$(</tmp/said)" 'BROKEN'
	matches 'what to take out of the configuration is said' "$(</tmp/said)" 'take .discard = true. out of /etc/dsm/t\.toml'
	ended 'a broken drive' '[a-z]* is marked as a drive whose discards change other data: .*'
	works 'discards are off' is_set off
	refused 'nobody has them on' 'is marked as a drive' dsmctl set t discard on
	stop_dsmd
	start_dsmd -o discard -o audit-pages=0
	works 'nor has dsmd' until_true '[[ $(off) == *"is marked as a drive"* ]]'
	works 'they are off' is_set off
	message t set discard on
	works 'nor a message, for long' until_true 'is_set off'
	refused 'nor another probe' 'is marked as a drive' dsmctl probe-discard t
	refused 'nor a trial' 'is marked as a drive' trial start
	matches 'status says it' "$(dsmctl status t)" 'NONE: .* is marked as a drive'
	matches 'so does the doctor' "$(finding discard)" '^wrong none may be made: '
fi
must kill -KILL $database
stop_dsmd
umount $mnt
dsmctl remove t
if [[ -e $spills ]]; then
	refused 'nor a device that is made' 'is marked as a drive' dsmctl create t "$disk" --discard on
	mkdir /tmp/trial-etc
	export DSM_CONFIG_DIR=/tmp/trial-etc
	printf 'drive = "%s"\ndiscard = true\n' "$disk" >/tmp/trial-etc/t.toml
	works 'a machine that starts has the device' dsmctl attach t
	works 'without discards' is_set off
	works 'an operator takes the mark away' dsmctl set t discard allow
	refused 'once' 'neither it nor a drive below it is marked' dsmctl set t discard allow
	works 'discards are on again' dsmctl set t discard on
	dsmctl remove t
fi
cat /tmp/trial.log
done_testing
