#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Three databases, with a dsmd for each. The device below one does not answer, and the dsmd of
# another is killed: each is that database's state, and the others have their discards all the
# time. The next dsmd of the first waits while the device still hangs. What systemd does with such
# ones is in tests/packages/boot-guest.sh.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

disk=$(disk_by_serial fdp)
size=(--nodes 300 --cache-mb 20 --journal-mb 4)
export DSM_CONFIG_DIR=/tmp/etc
mkdir $DSM_CONFIG_DIR
for n in 1 2 3; do
	dmsetup create base$n --table "0 1048576 linear $disk $(((n - 1) * 1048576))"
	dsmctl create t$n /dev/mapper/base$n --policy none >/dev/null
	make_xfs /dev/mapper/t$n
	mkdir -p /tmp/db$n
	mount -t xfs /dev/mapper/t$n /tmp/db$n
	mkdir /tmp/db$n/data
	wtload linkbench --dbpath /tmp/db$n/data --phase load "${size[@]}" >/dev/null 2>&1
	wtload linkbench --dbpath /tmp/db$n/data --phase run "${size[@]}" --seconds 86400 --checkpoint-seconds 2 \
		--mix mixed --threads 1 --think-us 20000 >/tmp/run$n.log 2>&1 &
	printf 'state-dir = "/tmp/state"\ndbpath = "/tmp/db%s/data"\ndiscard = true\naudit-pages = 0\n' $n >$DSM_CONFIG_DIR/t$n.toml
done
databases=$(jobs -p)

declare -A agent
# start NAME: as systemd starts it
start() {
	dsmd --config $DSM_CONFIG_DIR/$1.toml 2>>/tmp/dsmd.log &
	agent[$1]=$!
}
for n in 1 2 3; do start t$n; done
discarded() { echo $(($(field "$1" discarded_sectors) + 0)); }
# discards NAME: whether more is discarded from now on
discards() {
	local had

	had=$(discarded "$1")
	until_true "((\$(discarded $1) > $had))"
}
# runs PID: a zombie does not
runs() { [[ -e /proc/$1/exe ]]; }
service() { json "$1" ".service.$2"; }
finding() { dsmctl doctor "$1" -o json | jq -r '.findings[] | select(.check == "dsmd") | "\(.level) \(.text)"'; }
for n in 1 2 3; do
	works "t$n: what its checkpoints freed is discarded" discards t$n
done

dmsetup suspend --noflush --nolockfs base1
works 'a device that hangs is its database'\''s state' until_true '[[ $(service t1 state) == stuck ]]'
matches 'status says why' "$(dsmctl status t1 | grep agent)" 'agent .*stuck for [0-9]+ s: its .* waits in the kernel'
matches 'and the doctor' "$(finding t1)" '^wrong dsmd has not answered for '
matches 'who has the others'\'' to tell, too' "$(dsmctl doctor -o json | jq -r '[.findings[] | select(.check == "dsmd") | .level] | join(" ")')" '^wrong right right$'
for n in 2 3; do
	works "t$n has discards meanwhile" discards t$n
done

# What is in the data directory, and not in the table
mkdir /tmp/db2/data/other
mount -t tmpfs tmpfs /tmp/db2/data/other
ln -s /etc /tmp/db2/data/elsewhere
left_out() { dsmctl status t2 | grep 'left out'; }
works 'what is left out is said' until_true 'left_out | grep -qF "1 entries on another file system (other)"'
works 'all of it' until_true 'left_out | grep -qF "1 symbolic links, which are not followed (elsewhere)"'
rm /tmp/db2/data/elsewhere
umount /tmp/db2/data/other
rmdir /tmp/db2/data/other
works 'and what is gone no longer' until_true '[[ ! $(left_out) =~ symbolic|another.file.system ]]'

kill -9 "${agent[t2]}"
wait "${agent[t2]}" 2>/dev/null
works 'the third has discards meanwhile' discards t3
matches 'the doctor says that one was killed' "$(finding t2)" '^wrong dsmd has ended, .*there is no process'
start t2
works 'by the next, the second has discards again' discards t2
works 'which counts itself' until_true '[[ $(service t2 restarts) == 1 ]]'
is 'the third was left alone' "$(service t3 restarts) $(service t3 state)" '0 served'
matches 'the doctor says that it was started again' "$(finding t2)" 'restarts: 1'
kill -STOP "${agent[t2]}"
works 'one that is silent is said to be stuck' until_true '[[ $(service t2 state) == stuck ]]'
works 'the third has discards meanwhile' discards t3
kill -CONT "${agent[t2]}"
works 'it answers again' discards t2

left=${agent[t1]}
kill -9 "$left"
works 'one whose device hangs does not end' runs "$left"
start t1
works 'the next waits for it' until_true '[[ $(service t1 reason.text) == "another dsmd serves the device t1"* ]]'
for n in 2 3; do
	works "t$n has discards meanwhile" discards t$n
done

dmsetup resume base1
works 'the device answers, and all three have discards' discards t1
works 'the process that was left behind has gone' until_true "! runs $left"
for n in 1 2 3; do
	is "t$n is served" "$(service t$n state)" served
done

for n in 1 2 3; do
	is "t$n: no discard has failed" "$(field t$n discard_failed)" 0
	kill "${agent[t$n]}"
	wait "${agent[t$n]}"
	is "t$n: dsmd ends" $? 0
	is "t$n: and says so" "$(jq -r .service.state /run/dsm/t$n.json)" ended
done
must kill -9 $databases
wait
for n in 1 2 3; do
	works "t$n: the database was killed, and is right" wtload check --dbpath /tmp/db$n/data --cache-mb 20
	umount /tmp/db$n
	dsmctl remove t$n
	dmsetup remove base$n
done
done_testing
