#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: guest.sh FS POLICY DISCARD DRIVE WTLOAD-ARG...
#
# Runs in UML, in virtual time: a database on a file system (FS: xfs or ext4) on a dsm
# device with POLICY, on the drive that the options DRIVE of the module flashdrive make.
# POLICY is one of dsm's, or "per-object": each collection and each index has a stream of
# its own, by rules; the kernel's own policy counts for the file system's writes only; or
# "filestream": the automatic mode of dsmd, which knows nothing of databases.
# DISCARD is on, off, audit, "late": off when the drive was written 20 times, or "trial:WASHOUT": from
# then on "dsmctl trial" switches it, with a washout of so many sizes of the drive, and the
# database is at work until that is over. "on:CENTISECONDS:OPERATIONS" and "off:..." are a server: first
# clients write the drive ten times as fast as they can, with so many operations between two
# checkpoints; then the run begins, with that vm.dirty_expire_centisecs; at the end the database is
# killed when its third checkpoint is about to begin, and recovered. What was measured is left in /out. Nothing is said
# on standard output, which is the host's.
fs=$1 policy=$2 discard=$3 drive=$4
shift 4
exec >/out/said 2>&1
PATH=/job/bin:$PATH

mnt=/mnt/db state=/tmp/state
drive_debug=/sys/kernel/debug/flashdrive
uuid=5eed5eed-5eed-5eed-5eed-5eed5eed5eed

fail() { echo "guest: $*"; exit 1; }

device() {
	local kernel_policy=$policy

	case $policy in
	per-object|filestream) kernel_policy='file' ;;
	esac
	# shellcheck disable=SC2086 # words
	insmod flashdrive.ko $drive && insmod dm-dsm.ko &&
		dsmctl create dsm /dev/flashdrive --policy "$kernel_policy"
}

# As on a new drive: mkfs discards all of it.
make_fs() {
	case $fs in
	xfs)	mkfs.xfs -q -f -m uuid=$uuid /dev/mapper/dsm ;;
	ext4)	mkfs.ext4 -q -F -m 0 -U $uuid -E discard,lazy_itable_init=0,lazy_journal_init=0,hash_seed=$uuid \
			-J size=4 /dev/mapper/dsm ;;
	esac && mount -t "$fs" /dev/mapper/dsm /mnt
}

# A stream for the journal and for each of what is written most; the rest has the first, as
# the file system.
rules() {
	local stream=2 ident

	printf 'engine = "wiredtiger"\n[[object]]\nname = "journal"\nstream = 2\nfiles = ["journal/*"]\n'
	tr '{' '\n' </tmp/idents | grep '"ident":' | grep -v '"index":"_id_"' |
		sed 's/.*"ident":"\([^"]*\)".*/\1/' >/tmp/names
	while read -r ident; do
		((stream == 8)) || stream=$((stream + 1))
		printf '[[object]]\nname = "object%d"\nstream = %d\nfiles = ["%s.wt"]\n' $stream $stream "$ident"
	done </tmp/names
	printf '[[object]]\nname = "rest"\nstream = 1\nfiles = ["**"]\n'
}

# without NAME WORD...: leaves the others in words; NAME is an option with a value.
without() {
	local name=$1

	words=()
	while shift && (($#)); do
		if [[ $1 == "$name" ]]; then shift; else words+=("$1"); fi
	done
}

# The journal of YCSB's load does not fit beside the data until a checkpoint lets it go;
# buffered I/O all is loaded before the first.
load() {
	without --checkpoints "$@"
	if [[ ${words[0]} == ycsb ]]; then
		words+=(--checkpoint-seconds 1)
		[[ " ${words[*]} " == *' --direct-io '* ]] || words+=(--direct-io)
	fi
	wtload "${words[@]}" --dbpath $mnt --phase load --idents /tmp/idents >/out/wtload-load
}

agent() {
	local discards=true

	case $discard in
	off)	discards=false ;;
	audit)	discards='"audit"' ;;
	esac
	mkdir -p $state
	if [[ $policy == filestream ]]; then
		dsmd dsm -o dbpath=$mnt -o wait=false -o auto -o period-seconds=1 -o state-dir=$state 2>/out/dsmd.log &
		return
	fi
	cat >/tmp/dsm.toml <<-END
		state-dir = "$state"
		dbpath = "$mnt"
		boundary = "manual"
		wait = true
		discard = $discards
	END
	# A server was audited long ago; here each run is another process.
	[[ ! ${server:-} ]] || echo 'audit-pages = 0' >>/tmp/dsm.toml
	if [[ $policy == per-object ]]; then
		echo 'rules = "/tmp/rules.toml"' >>/tmp/dsm.toml
		rules >/tmp/rules.toml
	fi
	dsmd --config /tmp/dsm.toml 2>/out/dsmd.log &
}

# What the host has written and what the flash has, in bytes: for dsmctl trial
bytes_written="awk '/^host / { host = \$2 } /^copied / { printf \"%.0f %.0f\", 4096 * host, 4096 * (host + \$2) }' $drive_debug/counts"

# until_used DATABASE [TIMES]: the drive was written 20 times; until then files get their size and
# their holes.
until_used() {
	until (($(sh -c "$bytes_written" | cut -d' ' -f1) >= ${2:-20} * 4096 * pages)); do
		kill -0 "$1" && sleep 1 || return 1
	done
}

run_trial() {
	local database

	[[ " $* " =~ ' --seed '([0-9]+) ]] || return 1
	wtload "$@" --dbpath $mnt --phase run >/out/wtload &
	database=$!
	until_used $database || return 1
	dsmctl trial start dsm --state-dir $state --counters "$bytes_written" --seed "${BASH_REMATCH[1]}" \
		--washout "$((${discard#trial:} * pages * 4096))" 2>/out/trial.log || return 1
	until dsmctl trial report dsm --state-dir $state -o json | tee /out/trial.json | grep -q '"progress": null'; do
		sleep 1
		dsmctl trial step dsm --state-dir $state 2>>/out/trial.log || return 1
	done
	dsmctl trial report dsm --state-dir $state >/out/trial.txt
	kill -0 $database || return 1
	kill -9 $database
}

# fill OPERATIONS WORD...: what a server would need days for
fill() {
	local each=$1 option

	shift
	for option in --ops --checkpoint-seconds --think-us; do
		without $option "$@"
		set -- "${words[@]}"
	done
	wtload "$@" --dbpath $mnt --phase run --seconds 100000 --checkpoint-ops "$each" >/out/filled &
	until_used $! 10 && kill -TERM $! && wait $!
}

# Its log is as long as it can be, and nothing that it reads afterwards is in the page cache.
killed_and_recovered() {
	# shellcheck disable=SC2016 # the hook's
	wtload "$@" --dbpath $mnt --phase run --before-checkpoint '[ $CHECKPOINT != 3 ] || kill -9 $PPID' >/out/killed
	(($? == 137)) || return 1
	sync
	echo 3 >/proc/sys/vm/drop_caches
	du -sk $mnt/journal >/out/journal
	cut -d' ' -f1 /proc/uptime >/out/recovery
	wtload "$@" --dbpath $mnt --phase run --threads 1 --ops 1 --latencies /out/first >/out/recovered
}

server=()
[[ $discard != o[nf]*:* ]] || IFS=: read -ra server <<<"$discard"
discard=${server:-$discard}
device || fail 'no device'
make_fs || fail 'no file system'
pages=$(($(<"/sys/block/flashdrive/size") / 8))
mkdir $mnt
# The rules need the names of the files, which the load gives.
load "$@" || fail 'the load failed'
agent
if [[ $policy != filestream ]]; then
	until dsmctl status dsm 2>/dev/null | grep -q '^  table  *[1-9]'; do sleep 0.1; done
	dsmctl boundary mark dsm
fi
if [[ $discard == trial:* ]]; then
	run_trial "$@" || fail "the trial failed: $(tail -n 1 /out/trial.log)"
	exit
fi
if [[ ${server:-} ]]; then
	fill "${server[2]}" "$@" || fail 'the drive is not full'
	echo "${server[1]}" >/proc/sys/vm/dirty_expire_centisecs
fi
wtload "$@" --dbpath $mnt --phase run --json /out/wtload.json --latencies /out/latencies >/out/wtload &
database=$!
if [[ $discard == late ]]; then
	until_used $database && dmsetup message dsm 0 set discard off || fail 'discards are not off'
fi
wait $database || fail 'the run failed'
cat $drive_debug/counts >/out/counts
cat $drive_debug/series >/out/series
dsmctl status dsm -o json >/out/status.json
df -k /mnt >/out/df
if [[ ${server:-} ]]; then
	killed_and_recovered "$@" || fail "no recovery: $(tail -n 1 /out/killed)"
fi
