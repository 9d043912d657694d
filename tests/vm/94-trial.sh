#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# dsmctl trial: discards are switched on and off below a database at work, the drive's own
# counters are read at each border, and the trial outlives its process. The emulated drive
# does no garbage collection, so that there is no effect to be seen.
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
# Kills the process of a trial in a period that is off.
kill_off() {
	until_true 'is_set watch && pkill -STOP -x dsmctl && { is_set watch || ! pkill -CONT -x dsmctl; }'
	pkill -KILL -x dsmctl
}

refused 'without dsmd' 'no dsmd serves this device' trial start
refused 'nothing to report' 'no trial was begun' trial report
refused 'nothing to go on with' 'no trial was begun' trial resume
refused 'an amount that is none' "'7w'" trial start --washout 7w
refused 'one pair' '1 is not in 2..=1000' trial start --pairs 1
refused 'streams that are off' 'the policy is none' bash -c 'dsmctl set t policy none && dsmctl trial start t --switch streams --state-dir /tmp/trials'
dsmctl set t policy dsm
dsmd --device t --dbpath $mnt/data --state-dir /tmp/state --discard --audit-pages 0 2>/tmp/dsmd.log &
agent=$!
works 'dsmd serves it' until_true 'is_set watch'
wtload linkbench --dbpath $mnt/data --phase run --nodes 500 --cache-mb 20 --journal-mb 4 --seconds 86400 \
	--checkpoint-seconds 1 --mix mixed --think-us 20000 >/tmp/run.log 2>&1 &
database=$!
works 'dsmd follows it, and discards' until_true 'is_set on'
refused 'a command that does not count' "printed 'x'" trial start --counters 'echo x'
# By what is written, which takes longer on a busy machine, as all of this does
periods=(--washout 4M --measure 8M --seed 7)
trial start "${periods[@]}" --pairs 1000 2>/tmp/trial.log >/tmp/report &
works 'it switches discards off' until_true 'is_set watch'
refused 'a trial started twice' 'at work already: a trial, process' trial start
works 'a period is measured' until_true '[[ $(of ".periods | length") -ge 1 ]]'

works 'its process is killed' kill_off
wait $! 2>/dev/null
refused 'one that is not over' 'there is a trial that is not over' trial start --washout 1s
refused 'a restart whose counters do not count' "printed 'x'" trial start --restart --counters 'echo x'
works 'that leaves the switch' is_set watch
works 'and what was measured' test "$(of '.periods | length')" -ge 1
works 'one that was killed is stopped' trial stop
works 'the device is as it was' is_set on
trial start --restart "${periods[@]}" --pairs 1000 2>/tmp/trial.log >/tmp/report &
works 'another one is killed' kill_off
wait $! 2>/dev/null
trial start --restart "${periods[@]}" --pairs 1000 2>/tmp/trial.log >/tmp/report &
runner=$!
works 'one that was killed is started over' until_true '[[ $(of ".periods | length") == 0 ]]'
works 'and switches' until_true 'is_set watch && [[ $(of .progress) != null ]]'
mount --bind /tmp/trials/trial /tmp/trials/trial
mount -o remount,bind,ro /tmp/trials/trial
wait $runner && fail 'it goes on' || matches 'a state that cannot be saved ends it' "$(</tmp/trial.log)" 'cannot write'
works 'the device is as it was' is_set on
umount /tmp/trials/trial
# shellcheck disable=SC2034 # what is waited for has it
lines=$(wc -l </tmp/trial.log)
trial resume 2>>/tmp/trial.log >/tmp/report &
works 'it goes on' until_true '(($(wc -l </tmp/trial.log) > lines))'
works 'it is stopped' trial stop
works 'the device is as it was' is_set on
refused 'nothing runs' 'no process runs a trial' trial stop

trial start --restart "${periods[@]}" --pairs 2 2>>/tmp/trial.log >/tmp/report &
works 'a shorter one is stopped' until_true '[[ $(of .pairs) == 2 ]] && trial stop'
wait $!
trial resume 2>>/tmp/trial.log >/tmp/report &
runner=$!
works 'somebody else switches' until_true 'is_set watch && dsmctl set t discard on'
works 'that period begins over' until_true '[[ $(of .again) == *"somebody else has switched it"* ]]'
wait $runner && pass 'it is over' || fail "it ended with $?"
works 'the device is as it was' is_set on
is 'half of the periods are on' "$(of '[.periods[] | select(.on)] | length')" 2
is 'flash is what the drive says' "$(of '[.periods[].waf] | map(. > 0.9 and . < 1.1) | all')" true
# The load of one period may be many times that of others.
is 'both pairs count, or it is said which does not' "$(of '.flash.pairs == 2 or (.left_out | length) > 0')" true
is 'nothing is left to do' "$(of .progress)" null
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
is "the counters are nvme-cli's" "$(dsmctl debug counters "$ssd" | jq -c '[.host, .media | tonumber]')" \
	"$(nvme fdp stats "$ssd" -e 1 -o json | jq -c '[.hbmw, .mbmw | tonumber]')"
cat /tmp/trial.log /tmp/report
done_testing
