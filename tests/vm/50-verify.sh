#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# No write is lost or changed: fio verifies what it wrote, while tables are
# uploaded, checkpoints come, and the device is suspended and reloaded.
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
size=64	# MiB
sectors=$((size * 2048))
dmsetup create t --table "0 $sectors dsm $ssd 0"

fio_verify() { # NAME ENGINE OPTIONS...
	fio --name="$1" --filename=/dev/mapper/t --ioengine="$2" --direct=1 --size=${size}m \
		--verify=crc32c --verify_fatal=1 --randseed=7 --minimal "${@:3}"
}

# A table of 64 files; odd ones lie in reverse, all have an odd boundary. The
# argument shifts it, so that no two are alike.
table() {
	local i shift=$1

	for ((i = 0; i < 64; i++)); do
		echo file $((i + 1)) "$( ((i % 2)) && echo collection || echo index)" $((69632 + 4096 * i)) \
			0:$((i * 2048 + shift)):$((704 + 8 * i)) 2048:$((i * 2048 + 1504)):$((536 - shift))
	done
}
upload() {
	begin t full || return
	table "$1" | while read -r line; do record t $line || return 1; done || return
	commit t >/dev/null
}

works 'sequential writes, no table' fio_verify seq psync --rw=write --bs=64k
works 'a table is uploaded' upload 0
works 'random writes across extents' fio_verify rand libaio --rw=randwrite --bsrange=4k-256k --iodepth=16

rounds=6
disturb() {
	local n

	for ((n = 0; n < rounds; n++)); do
		upload $((n * 8)) || return 1
		message t checkpoint >/dev/null || return 1
		message t set policy "$(shuf -n 1 -e dsm boundary file none)" || return 1
		dmsetup status t >/dev/null && message t regions >/dev/null || return 1
		if ((n % 3 == 0)); then
			dmsetup suspend t && dmsetup resume t || return 1
		fi
		if ((n % 5 == 4)); then
			dmsetup load t --table "$(dmsetup table t)" && dmsetup suspend t && dmsetup resume t || return 1
		fi
	done
}
until_undisturbed() { # COMMAND...
	"$@" && while kill -0 $disturber 2>/dev/null; do
		"$@" || return 1
	done
}
disturb 2>/tmp/disturbed &
disturber=$!
works 'random writes while tables, checkpoints, policies and reloads come' \
	fio_verify busy io_uring --rw=randwrite --bsrange=4k-128k --iodepth=16 --time_based --runtime=8 --verify_backlog=256
works 'and on four jobs, until they have all come' until_undisturbed \
	fio_verify jobs psync --rw=randwrite --bs=4k --numjobs=4 --size=16m --offset_increment=16m --loops=2
wait $disturber && pass "no message failed in $rounds rounds" || fail "a message failed: $(cat /tmp/disturbed)"

# The sum of what is counted is what was written
dmsetup remove t
dmsetup create t --table "0 $sectors dsm $ssd 0"
upload 0
before=$(dmsetup status t | grep -o 'stream .*' | awk '{ for (i = 1; i <= NF; i += 4) s += $(i + 3) } END { print s + 0 }')
fio --name=sum --filename=/dev/mapper/t --ioengine=libaio --direct=1 --size=${size}m --rw=randwrite --bs=32k \
	--iodepth=8 --number_ios=1000 --randseed=3 --minimal >/dev/null
is 'the streams add up to what fio wrote' \
	"$(dmsetup status t | grep -o 'stream .*' | awk '{ for (i = 1; i <= NF; i += 4) s += $(i + 3) } END { print s }')" $((before + 1000 * 64))
is 'so do regions and unmapped writes' \
	"$(($(message t regions 0 1000 | awk '{ s += $13 } END { print s }') + $(field t unmapped_sectors) / 8))" 8000
dmsetup remove t
done_testing
