#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Placement, by fio: jobs write hot and cold regions of files, over several checkpoints in
# which the heat moves. What each job says that it wrote, and read again, is what the SSD took
# by the handle of its region.
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
t=/dev/mapper/t
mnt=/tmp/files
mib=$((1 << 20))
mkdir -p $mnt
dmsetup create t --table "0 $(blockdev --getsz "$ssd") dsm $ssd 0"
make_xfs $t
mount -t xfs $t $mnt

# Files of 8 MiB, with a boundary at 3, in the middle of an extent; their extents of 2 MiB take
# turns on the disk.
files=(unmapped collection-1 collection-2 index-3 journal-4)
for at in 6 0 4 2; do
	for name in "${files[@]}"; do
		fallocate -o $((at * mib)) -l $((2 * mib)) "$mnt/$name"
	done
done
sync -f $mnt

# table [FILE FILE]: these two have each other's extents
table() {
	local name of

	begin t full
	for name in "${files[@]:1}"; do
		of=$name
		[[ $name != "${1:-}" ]] || of=$2
		[[ $name != "${2:-}" ]] || of=$1
		# shellcheck disable=SC2046 # words
		record t file "${name#*-}" "${name%-*}" $([[ $name = journal* ]] && echo - || echo $((3 * mib))) $(extents_of "$mnt/$of")
	done
	commit t >/dev/null
}

# job NAME OFFSET SIZE KIB [OPTION...]: a job's section, which writes so many KiB of a file
job() {
	local name=$1

	printf '[%s@%s]\nfilename=%s\noffset=%s\nsize=%s\nio_size=%sk\n' "$name" "$2" "$mnt/${name%%.*}" "$2" "$3" "$4"
	(($# < 5)) || printf '%s\n' "${@:5}"
}

# fio_jobs HEAT...: KIB for bottom and top of collection-1, of collection-2 and of index-3.
# Prints NAME@OFFSET and the 4 KiB blocks that were written, for each job.
fio_jobs() {
	local name

	{
		printf '[global]\nioengine=psync\ndirect=1\nrw=randwrite\nbsrange=4k-32k\nrandseed=%d\n' $((++seed))
		printf 'verify=crc32c\nverify_fatal=1\nverify_state_save=0\nthread\n'
		for name in collection-1 collection-2 index-3; do
			job $name 0 3m "$1"
			job $name 3m 5m "$2"
			shift 2
		done
		job journal-4 0 8m 512 rw=write
		job unmapped 0 8m 256
		# One write, half of which is in the region below the boundary
		job collection-2.both $((3 * mib - 65536)) 128k 128 rw=write bs=128k stonewall
	} >/tmp/jobs
	fio --output-format=json --output=/tmp/fio.json /tmp/jobs >/tmp/fio.said 2>&1 &&
		jq -r '.jobs[] | select(.error == 0 and .read.io_bytes == .write.io_bytes) |
			"\(.jobname) \(.write.io_bytes / 4096)"' /tmp/fio.json
}

# placed STREAM...: of the six regions in the order of fio_jobs; whether the blocks of the jobs
# in "wrote" were taken by these streams' identifiers and no others. The first one takes what the
# file system writes, too.
placed() {
	local -A stream=([collection-1@0]=$1 [collection-1@3m]=$2 [collection-2@0]=$3 [collection-2@3m]=$4
		[index-3@0]=$5 [index-3@3m]=$6 [journal-4@0]=2 [unmapped@0]=1)
	local want=(0 0 0 0 0 0 0 0) name blocks to

	while read -r name blocks; do
		if [[ $name == *.both@* ]]; then
			((want[$3 - 1] += blocks / 2, want[$4 - 1] += blocks / 2))
			continue
		fi
		to=${stream[$name]}
		((want[to - 1] += blocks))
	done <<<"$wrote"
	has_write_streams "$ssd" || want=($((${want[*]/%/+}0)) 0 0 0 0 0 0 0)
	((took[0] >= want[0])) && [[ ${took[*]:1} == "${want[*]:1}" ]] ||
		{ echo "the jobs wrote ${want[*]}, the SSD took ${took[*]}"; return 1; }
}

# write HEAT...: has fio write, and looks at what the SSD took meanwhile
write() {
	local left

	left=$(blocks_left "$ssd")
	wrote=$(fio_jobs "$@")
	read -ra took <<<"$(blocks_taken "$left" "$(blocks_left "$ssd")")"
}
jobs_done() { wc -l <<<"$wrote"; }
seed=0

# Streams: 1 other and unmapped, 2 journal, 3 to 5 collections, 6 to 8 indexes, the hottest last
table
message t set prediction off
message t set primary_filter off
write 2048 128 512 128 128 2048
is 'nine jobs wrote, and read what they had written' "$(jobs_done)" 9
works 'before the first checkpoint bottoms are cold' placed 3 4 3 4 6 7
message t checkpoint >/dev/null
write 128 2048 128 512 2048 128
works 'regions that were hot, warm and cold have a handle for each, also inside a file' placed 5 3 4 3 6 8
message t checkpoint >/dev/null
write 128 2048 2048 128 2048 128
works 'the heat has moved to the other sides, and at the next checkpoint the handles follow' placed 3 5 3 4 8 6
message t checkpoint >/dev/null
write 512 512 512 512 512 512
works 'and once more' placed 3 5 5 3 8 6

# As it comes: the streams that the target says
message t set primary_filter on
message t set prediction predicted
for heat in '2048 128 512 2048 128 2048' '2048 128 512 2048 128 2048' '128 2048 2048 128 2048 512'; do
	message t checkpoint >/dev/null
	said=$(for id in 1 2 3; do region t $id bottom 11; region t $id top 11; done)
	write $heat
	works "with prediction, where the target says: ${said//$'\n'/ }" placed $said
done
is 'all jobs verified all that they wrote' "$(jobs_done)" 9

# A table that is wrong is seen, where there are streams
message t set prediction off
message t checkpoint >/dev/null
said=$(for id in 1 2 3; do region t $id bottom 11; region t $id top 11; done)
table collection-1 index-3
write 512 512 512 512 512 512
has_write_streams "$ssd" && refused 'two files that have each other'"'"'s extents are noticed' 'the jobs wrote' placed $said
umount $mnt
dmsetup remove t
done_testing
