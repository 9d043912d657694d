#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# tests/bench/hotpath in a guest. Prints
#   kernel RELEASE
#   arm ARM EXTENTS PAGES WRITE READ   instructions of I/Os of so many pages, medians
#   in-flight WRITE WRITE QUEUED   the same with discards on: without one in flight, and with
#                                  QUEUED, which the write does not overlap
#   checkpoint FILES INSNS SECONDS
#   upload EXTENTS INSNS SECONDS
#   memory FILES EXTENTS BYTES      of the kernel in all
#   structure NAME EXTENTS INSNS BYTES
#   window MIB INSNS SECONDS        of a window of a table that maps so much
#   first-window MIB INSNS SECONDS  of the one that allocates a bitmap
#   bits MIB BYTES                  that windows have allocated
#   written PAGES INSNS SECONDS     of the messages that ask which of so many pages were written
#   discard ON RANGES INSNS SECONDS PLUG_US WORKED_US
#                                   of the message, of the longest of the plugs of 256 that
#                                   it becomes, and of all the work, on the second null_blk
#                                   ("memory"), and on a device that ends discards at once
#                                   ("nothing"); 0: not known
# The arms "memory" are on a null_blk that keeps data in memory, without which it takes no
# discards: "memory-dsm" and "dsm-discard" differ in the feature alone.
# With "arms" as its argument only the arms are measured.
# With "rates" as its argument IOPS and latencies, by fio, of 4 KiB I/Os so many at a time, on
# dm-linear and on dsm:
#   rate ARM EXTENTS READ|WRITE DEPTH IOPS MEAN_NS
# With "processors" as its argument a writer on each of them, by the clock:
#   contention PROCESSORS MS MS QUEUED   as in-flight, medians of five
# With "clock" as its argument only windows, discards, checkpoints and the upload, on
# devices that take no data: there instructions are not counted, but time is real.
set -euo pipefail

echo "kernel $(uname -r)"
insns=1
[[ ! ${1:-} || $1 = arms ]] || insns=
[[ ${1:-} = clock ]] || modprobe dm-mod
if [[ $insns || $1 = rates ]]; then
	modprobe null_blk gb=16 bs=4096 queue_mode=2 irqmode=0
	disk=/dev/nullb0
else
	dmsetup create disk --table '0 33554432 error'
	disk=/dev/mapper/disk
fi
insmod ./dm-dsm.ko
sectors=$(blockdev --getsz $disk)

# memory_disk NAME MIB [NANOSECONDS]: another null_blk, which takes discards, and so long for
# each I/O
memory_disk() {
	local dir=/sys/kernel/config/nullb/$1

	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	mkdir "$dir"
	echo "$2" >"$dir/size"
	echo 4096 >"$dir/blocksize"
	echo 2 >"$dir/queue_mode"
	echo $((${3:+2} + 0)) >"$dir/irqmode"
	[[ ! ${3:-} ]] || echo "$3" >"$dir/completion_nsec"
	echo 1 >"$dir/memory_backed"
	echo 1 >"$dir/discard"
	echo 1 >"$dir/power"
}

median() { ./hotpath cost "$1" "$2" "$3" "${4:-1}" | cut -d' ' -f1; }
# arm NAME EXTENTS DEVICE [PAGES]
arm() { echo "arm $1 $2 ${4:-1} $(median "$3" write "$2" "${4:-1}") $(median "$3" read "$2" "${4:-1}")"; }
discards() { echo "discard $1 $2 $(./hotpath discard t "$2" | cut -d' ' -f2-)"; }
upload() { ./hotpath upload t "$sectors" "$1" "$2" "${3:-1}"; }	# FILES EXTENTS [PAGES]
# What the kernel has allocated, for any purpose
allocated() {
	echo 3 >/proc/sys/vm/drop_caches
	sleep 0.2
	awk '/^(Slab|Percpu|VmallocUsed):/ { sum += $2 } END { print sum * 1024 }' /proc/meminfo
}

memory() {
	upload 1 1 >/dev/null
	upload "$1" "$2" >/dev/null
	echo "memory $1 $2 $(allocated)"
}

if [[ $insns ]]; then
	dmsetup create t --table "0 $sectors linear $disk 0"
	for pages in 1 7; do
		arm raw 0 $disk $pages
		arm linear 0 /dev/mapper/t $pages
	done
	./hotpath stats t 1000
	arm dmstats 1000 /dev/mapper/t
	./hotpath stats t 9000
	arm dmstats 10000 /dev/mapper/t
	dmsetup remove t
fi

if [[ $insns ]]; then
	for policy in dsm life; do
		dmsetup create t --table "0 $sectors dsm $disk 0 4 streams 8 policy $policy"
		arm $policy 0 /dev/mapper/t
		for extents in 1000 100000 1000000; do
			upload 10 $extents >/dev/null
			arm $policy $extents /dev/mapper/t
		done
		upload 10 1000 7 >/dev/null
		arm $policy 1000 /dev/mapper/t 7
		dmsetup remove t
	done
fi

# As above LVM
if [[ $insns ]]; then
	dmsetup create low --table "0 $sectors linear $disk 0"
	dmsetup create t --table "0 $sectors linear /dev/mapper/low 0"
	arm linear-linear 0 /dev/mapper/t
	dmsetup remove t
	dmsetup create t --table "0 $sectors dsm /dev/mapper/low 0 2 leaves $disk"
	for extents in 1000 1000000; do
		upload 10 $extents >/dev/null
		arm dsm-linear $extents /dev/mapper/t
	done
	dmsetup remove t
	dmsetup remove low
fi

# What discards cost a write, where they are off and where they are on
if [[ $insns ]]; then
	memory_disk memory 16384
	dmsetup create t --table "0 $sectors dsm /dev/memory 0"
	while read -r extents pages; do
		upload 10 $extents $pages >/dev/null
		./hotpath message t 'set discard off' >/dev/null
		arm memory-dsm $extents /dev/mapper/t $pages >/dev/null	# pages are allocated
		arm memory-dsm $extents /dev/mapper/t $pages
		./hotpath message t 'set discard on' >/dev/null
		./hotpath message t window >/dev/null
		arm dsm-discard $extents /dev/mapper/t $pages
	done <<-END
		1000 1
		1000000 1
		1000 7
	END
	[[ ! ${1:-} ]] || exit 0
	./hotpath map t "$sectors"
	discards memory 2000
	dmsetup remove t
fi

# What a write costs while a discard is in flight that it does not overlap: of the end of a
# device of which the rest is the FAST one
behind() { # FAST
	memory_disk slow 256 60000000000
	dmsetup create low <<-END
		0 $sectors linear $1 0
		$sectors 524288 linear /dev/slow 0
	END
	dmsetup create t --table "0 $((sectors + 524288)) dsm /dev/mapper/low 0 2 discard on"
	./hotpath map t $((sectors + 524288)) >/dev/null
}
window_begins() { window=$(dmsetup message t 0 window) && window=${window#window }; }
discard_begins() { dmsetup message t 0 discard "$window" "$sectors:128" >/dev/null; }
queued() { dmsetup status t | sed 's/.* discard_queued \([0-9]*\) .*/\1/'; }

if [[ $insns ]]; then
	behind /dev/memory
	window_begins
	median /dev/mapper/t write 0 >/dev/null		# sets the bits
	calm=$(median /dev/mapper/t write 0)
	discard_begins
	echo "in-flight $calm $(median /dev/mapper/t write 0) $(queued)"
	dmsetup remove t
	dmsetup remove low
fi

# fio_rate DEVICE EXTENTS READ|WRITE DEPTH: to the pages that upload maps
fio_rate() {
	fio --name=rate --filename="$1" --rw="rand$3" --bs=4k --blockalign=8k --size=$(($2 * 8192)) --direct=1 \
		--ioengine=libaio --iodepth="$4" --io_size=160m --norandommap --thread \
		--invalidate=0 --output-format=json | jq -r ".jobs[0].$3 | \"\(.iops) \(.lat_ns.mean)\""
}
if [[ ${1:-} = rates ]]; then
	dmsetup create linear --table "0 $sectors linear $disk 0"
	dmsetup create t --table "0 $sectors dsm $disk 0 2 streams 8"
	for extents in 1000 1000000; do
		upload 10 $extents >/dev/null
		for rw in write read; do
			for depth in 1 32; do
				echo "rate linear $extents $rw $depth $(fio_rate /dev/mapper/linear $extents $rw $depth)"
				echo "rate dsm $extents $rw $depth $(fio_rate /dev/mapper/t $extents $rw $depth)"
			done
		done
	done
	exit
fi

seconds_of_all() {
	local from=$EPOCHREALTIME cpu

	for ((cpu = 0; cpu < $(nproc); cpu++)); do
		taskset -c $cpu ./hotpath cost /dev/mapper/t write 0 1 >/dev/null &
	done
	wait
	echo "$(((${EPOCHREALTIME/./} - ${from/./}) / 1000))"
}

if [[ ${1:-} = processors ]]; then
	modprobe null_blk nr_devices=0
	modprobe brd rd_nr=1 rd_size=$((sectors / 2))
	behind /dev/ram0
	calm=() busy=()
	window_begins
	seconds_of_all >/dev/null
	for _ in 1 2 3 4 5; do
		calm+=("$(seconds_of_all)")
		discard_begins
		busy+=("$(seconds_of_all)")
		in_flight=$(queued)
		until (($(queued) == 0)); do sleep 1; done
	done
	middle() { printf '%s\n' "$@" | sort -n | sed -n 3p; }
	echo "contention $(nproc) $(middle "${calm[@]}") $(middle "${busy[@]}") $in_flight"
	exit
fi

# Windows of 1 TiB, on a device that does nothing
window() { echo "$1 $((1 << 20)) $(./hotpath message t window "$2" | cut -d' ' -f2-)"; }
dmsetup create nothing --table "0 $((1 << 31)) error"
above_nothing() {
	dmsetup create t --table "0 $((1 << 31)) dsm /dev/mapper/nothing 0"
	./hotpath map t $((1 << 31)) >/dev/null
	./hotpath message t 'set discard on' >/dev/null
}
# In UML the host gives memory when it is used for the first time.
above_nothing
./hotpath message t window 2 >/dev/null
dmsetup remove t
before=$(allocated)
above_nothing
window first-window 1
./hotpath message t window 3 >/dev/null
echo "bits $((1 << 20)) $(($(allocated) - before))"
window window 11
discards nothing 256
discards nothing 2000
echo "written 1000000 $(./hotpath written t 1000000 | cut -d' ' -f2-)"
dmsetup remove t
dmsetup remove nothing

dmsetup create t --table "0 $sectors dsm $disk 0 2 streams 8"
for files in 10 1000 10000; do
	upload $files $files >/dev/null
	./hotpath message t checkpoint >/dev/null
	./hotpath touch /dev/mapper/t $files
	echo "checkpoint $files $(./hotpath message t checkpoint | cut -d' ' -f2-)"
done
echo "upload 1000000 $(upload 10000 1000000 | sed -n 's/^upload //p')"
[[ $insns ]] || exit 0
# Arrays that fill their huge pages
memory 10 $(((1 << 19) - 1))
memory 10 $(((1 << 20) - 1))
memory 50000 50000
memory 100000 100000
dmsetup remove t

for extents in 1000 1000000; do
	for what in indexed sorted eytzinger eytzinger5 rbtree maple; do
		before=$(allocated)
		insmod ./structures.ko what=$what extents=$extents
		echo "structure $what $extents $(</sys/module/structures/parameters/insns) $(($(allocated) - before))"
		rmmod structures
	done
done
