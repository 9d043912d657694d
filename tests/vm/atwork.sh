# shellcheck shell=bash disable=SC2034 # used where this is sourced
# SPDX-License-Identifier: GPL-2.0-only
#
# A database in $mnt/data, and fio on $mnt, at work while something is done below them;
# dsmd writes to /tmp/dsmd.log. Both leave the processors to the test most of the time. To
# be sourced.

size=(--nodes 500 --cache-mb 20 --journal-mb 4)
load=(wtload linkbench --phase load "${size[@]}")
run=(wtload linkbench --phase run "${size[@]}" --seconds 86400 --checkpoint-seconds 1 --mix mixed --threads 2 --think-us 20000)
mnt=/tmp/db
mkdir -p $mnt
stop=/tmp/stop
rm -f $stop /tmp/{rounds,run.log,dsmd.log}

rounds_done() { [[ -s /tmp/rounds ]] && echo "$(</tmp/rounds)" || echo 0; }

fio_rounds() {
	local n=0

	while [[ ! -e $stop ]]; do
		fio --name=verify --filename=$mnt/fio --ioengine=libaio --direct=1 --size=4m --rw=randwrite \
			--bsrange=4k-64k --iodepth=8 --rate_iops=100,100 --verify=crc32c --verify_fatal=1 --randseed=$n --minimal || return
		echo $((++n)) >/tmp/rounds
	done
}

# begin_work: until both have written
begin_work() {
	"${run[@]}" --dbpath $mnt/data >/tmp/run.log 2>&1 &
	database=$!
	fio_rounds >/tmp/fio.log 2>&1 &
	fio=$!
	until_true 'grep -q "checkpoint 1" /tmp/run.log && (($(rounds_done) > 0))'
}

# finds_what_it_wrote WHAT: fio does, in a round that began after this call
finds_what_it_wrote() {
	local before

	before=$(rounds_done)
	works "$1" eval "until_true '((\$(rounds_done) > $before + 1)) || ! kill -0 $fio' && kill -0 $fio"
}

at_work() {
	kill -0 $database && kill -0 $fio && pass 'database and fio go on' ||
		fail "one has ended: $(tail -n 3 /tmp/run.log /tmp/fio.log)"
}

end_work() {
	touch $stop
	wait $fio
	is 'fio has found all that it wrote' $? 0
	must kill -9 $database
	wait $database 2>/dev/null
	works 'the database was killed, and is right' wtload check --dbpath $mnt/data
}
