#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmctl trial: discards are switched on and off below a database at work, the drive's own
# counters are read again and again, and a step that is killed is taken up by the next. The
# emulated drive does no garbage collection, so that there is no effect to be seen.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
mnt=/tmp/db
mkdir -p $mnt
dmsetup create t --table "0 1048576 dsm $ssd 0"
make_xfs /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
works 'a database is loaded' wtload linkbench --dbpath $mnt/data --phase load --nodes 500 --cache-mb 20 --journal-mb 4
trial() { dsmctl trial "$1" t "${@:2}" --state-dir /tmp/trials; }
of() { trial report -o json | jq -c "$1"; }
is_set() { [[ $(dmsetup table t) == *" discard $1 "* ]]; }
# steps CONDITION: as a timer takes them, until it is so
steps() {
	local condition=$1

	# shellcheck disable=SC2317 # until_true calls it
	step() {
		trial step 2>>/tmp/trial.log
		eval "$condition"
	}
	until_true step
}

refused 'without dsmd' 'no dsmd serves this device' trial start
refused 'nothing to report' 'no trial was begun' trial report
refused 'nothing to go on with' 'no trial was begun' trial step
refused 'an amount that is none' "'7w'" trial start --washout 7w
refused 'one pair' '1 is not in 2..=1000' trial start --pairs 1
refused 'streams that are off' 'the policy is none' bash -c 'dsmctl set t policy none && dsmctl trial start t --switch streams --state-dir /tmp/trials'
dsmctl set t policy dsm
dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/state -o discard -o audit-pages=0 2>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true 'is_set watch'
wtload linkbench --dbpath $mnt/data --phase run --nodes 500 --cache-mb 20 --journal-mb 4 --seconds 86400 \
	--checkpoint-seconds 1 --mix mixed --think-us 20000 >/tmp/run.log 2>&1 &
database=$!
works 'dsmd follows it, and discards' until_true 'is_set on'
refused 'a command that does not count' "printed 'x'" trial start --counters 'echo x'
# By what is written, which takes longer on a busy machine, as all of this does
periods=(--washout 4M --measure 8M --seed 7)
works 'it begins' trial start "${periods[@]}" --pairs 1000
refused 'a trial started twice' 'there is a trial that is not over' trial start
works 'it switches discards off' steps 'is_set watch'
works 'a period is measured' steps '[[ $(of ".periods | length") -ge 1 ]]'
works 'it is in a period that is off' steps '[[ $(of .progress.on) == false ]] && is_set watch'

# At each of its system calls it may end; the next one goes on.
works 'steps are killed' bash -c 'for n in {1..40}; do
	timeout -s KILL "$(printf 0.%03d "$n")" dsmctl trial step t --state-dir /tmp/trials 2>/dev/null
	dsmctl trial report t --state-dir /tmp/trials >/dev/null || exit 1
done'
before=$(of '.periods | length')
works 'and it goes on' steps "((\$(of '.periods | length') > $before))"
mount --bind /tmp/trials/trial /tmp/trials/trial
mount -o remount,bind,ro /tmp/trials/trial
refused 'a state that cannot be saved is an error' 'Read-only file system' trial step
umount /tmp/trials/trial
works 'it is in a period that is off' steps '[[ $(of .progress.on) == false ]] && is_set watch'
kill $agent
wait $agent
refused 'without dsmd it waits' 'no dsmd serves this device' trial step
dsmd t -o dbpath=$mnt/data -o wait=false -o state-dir=/tmp/state -o discard -o audit-pages=0 2>/tmp/dsmd.log &
agent=$!
works 'and goes on with the next one' steps '[[ $(of .progress.on) == false ]] && is_set watch'
works 'it is stopped' trial stop
works 'the device is as it was' until_true 'is_set on'
refused 'nothing is left to stop' 'the trial is over' trial stop
works 'a step does nothing then' trial step
is 'the report says so' "$(of .ended | cut -d: -f2)" ' it was stopped"'

works 'a shorter one' trial start "${periods[@]}" --pairs 2
works 'it is in a period that is off' steps 'is_set watch'
message t set discard on
works 'dsmd leaves the switch to nobody else' until_true 'is_set watch'
works 'it is over' steps '[[ $(of .progress) == null ]]'
works 'the device is as it was' until_true 'is_set on'
is 'it has not ended before' "$(of .ended)" null
is 'half of the periods are on' "$(of '[.periods[] | select(.on)] | length')" 2
is 'flash is what the drive says' "$(of '[.periods[].waf] | map(. > 0.9 and . < 1.1) | all')" true
# The load of one period may be many times that of others.
is 'both pairs count, or it is said which does not' "$(of '.flash.pairs == 2 or (.left_out | length) > 0')" true
trial report >/tmp/report
matches 'the report is for people' "$(</tmp/report)" 'discard on and watch in random order, 2 pairs of periods'
[[ $(</tmp/report) != *data* ]] && pass 'and names no files' || fail "the report: $(</tmp/report)"
works 'a picture is drawn' trial report --picture /tmp/trial.svg
works 'it is whole' python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("/tmp/trial.svg")'

must kill -9 $database
# Of LinkBench's documents most are of some hundred bytes.
is 'mean sizes of documents are shown' \
	"$(dsmctl free $mnt/data -o json | jq '[.files[].document | select(. > 20 and . < 2000)] | length')" 3
kill $agent
wait $agent
umount $mnt
dmsetup remove t
is "the counters are nvme-cli's" "$(drive-counters "$ssd" | jq -c '[.host, .media | tonumber]')" \
	"$(nvme fdp stats "$ssd" -e 1 -o json | jq -c '[.hbmw, .mbmw | tonumber]')"
cat /tmp/trial.log /tmp/report
done_testing
