#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A window for which there is no memory: the message says so, what it had got is free
# again, and the OOM killer takes nobody, above all not the database.
. "$(dirname "$0")/lib.sh"
load_module

available() { sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo; }

# map TIB: a table of so many files of 1 TiB each
map() {
	local tib=$((2 ** 31)) i

	begin t full
	for ((i = 0; i < $1; i++)); do
		record t file $((i + 1)) collection - "0:$((i * tib)):$tib"
	done
	commit t >/dev/null
}

# The bits of a TiB take 32 MiB: a device for which they take all that there is.
tib=$(($(available) / 32 / 1024 + 1))
modprobe sd_mod
modprobe scsi_debug dev_size_mb=8 virtual_gb=$((tib * 1024)) lbpu=1 delay=0
# shellcheck disable=SC2016 # until_true evaluates it
until_true 'disk=$(ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block/* 2>/dev/null) && [[ -b /dev/${disk##*/} ]]'
disk=/dev/${disk##*/}
dmsetup create t --table "0 $((tib * 2 ** 31)) dsm $disk 0 2 discard on"
map $tib

# Of all processes the likeliest to be killed
python3 -c '
import os, time
open("/proc/self/oom_score_adj", "w").write("500")
memory = bytearray(os.urandom(1 << 20) * 300)
open("/run/stand-in", "w").close()
time.sleep(1e9)' &
stand_in=$!
until_true '[[ -e /run/stand-in ]]'
rm /run/stand-in

# Nobody can be told from nobody killed later: what was counted stays counted.
killed() { sed -n 's/^oom_kill //p' /proc/vmstat; }
before=$(killed)
free_before=$(available)
refused "bits for $tib TiB are refused" 'Cannot allocate write bitmap; discard window invalidated' message t window
is 'nobody was killed for it' "$(killed)" "$before"
works 'the stand-in for a database lives' kill -0 $stand_in
is 'no window is valid' "$(field t discard_valid)" 0
free_now=$(available)
is 'what the message had got is free again' "$((free_before - free_now > 65536)) ($free_before and $free_now KiB)" "0 ($free_before and $free_now KiB)"

# A window of which half is there, and not twice that
map $((tib * 2 / 5))
works 'the first of two bitmaps fits' message t window
free_before=$(available)
refused 'the second does not' 'Cannot allocate write bitmap; discard window invalidated' message t window
is 'nobody was killed for that either' "$(killed)" "$before"
free_now=$(available)
is 'and it keeps nothing' "$((free_before - free_now > 65536)) ($free_before and $free_now KiB)" "0 ($free_before and $free_now KiB)"

map 1
works 'a table that is small enough has a window' message t window
works 'and another' message t window
works 'with discards' message t discard "$(field t discard_window)" 0:1024
until_true '[[ $(field t discard_queued) == 0 ]]'
is 'which arrive' "$(field t discarded_sectors)" 1024

kill $stand_in
wait $stand_in 2>/dev/null
dmsetup remove t
rmmod scsi_debug
done_testing
