#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: arrival.sh ENGINE RULES [VARIABLE=VALUE...]
#
# In the guest: a database of a real engine on XFS on a dsm device, placed by the
# rules that are shipped. What each object wrote must arrive in the handle that the
# rules intend: ENGINE.objects says which (streams on 8: short 8, medium 7, long 6,
# extreme 5, the rest 1). Seen three ways: in the NVMe commands, in the
# device's own statistics, and in the target's.
. "$(dirname "$0")/lib.sh"
engine=$1 rules=$2
shift 2
# shellcheck disable=SC2034 # lib.sh says it
about="engines-$engine: "
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
root=/tmp/root
data=$root/data
dbpath=$data/$engine
tracing=/sys/kernel/tracing

mkdir -p $root
mount -o ro "$(disk_by_serial engines)" $root
mount --rbind /dev $root/dev
mount -t proc proc $root/proc
mount -t tmpfs tmpfs $root/tmp
mount -t tmpfs tmpfs $root/run
mount --bind /run/job/engines $root/engines

in_engines() { chroot $root env -i PATH=/usr/sbin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8 "$@"; }

# Temporary files are not to be gone before they are written.
echo 1 >/proc/sys/vm/dirty_background_ratio
echo 300 >/proc/sys/vm/dirty_expire_centisecs

dsmctl create t "$ssd" --policy file >/dev/null
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $data
works 'a database is loaded' in_engines "$@" /engines/"$engine" load
sync -f $data

dsmd t -o dbpath=$dbpath -o wait=false -o rules="$(realpath "$rules")" -o write-hints 2>/tmp/dsmd.log &
agent=$!
works 'dsmd places its files by the rules' until_true 'dsmctl boundary show t >/dev/null 2>&1'

python3 engines/arrived.py keep $dbpath $data/kept &
keeper=$!
until_true '[[ -e $data/kept ]]' || exit 1

# Frozen, so that the file system's own log does not write between two looks.
fsfreeze -f $data
dsmctl debug reset t
left=$(blocks_left "$ssd")
fsfreeze -u $data
echo 65536 >$tracing/buffer_size_kb
echo 1 >$tracing/events/nvme/nvme_setup_cmd/enable

if in_engines "$@" /engines/"$engine" run >/tmp/written; then
	pass "the engine has run ($(paste -sd, /tmp/written))"
else
	fail 'the engine has run'
fi
sync -f $data
kill $keeper
wait $keeper
fsfreeze -f $data
echo 0 >$tracing/events/nvme/nvme_setup_cmd/enable
arrived=$(blocks_taken "$left" "$(blocks_left "$ssd")")
counted=$(for i in {1..8}; do s=$(stream_sectors t "$i"); echo $((${s:-0} / 8)); done | paste -sd' ')
fsfreeze -u $data
is 'the device has in each handle what the target counted' "$arrived" "$counted"
works 'no command was lost from the trace' test "$(cat $tracing/per_cpu/cpu*/stats | awk '/^(overrun|dropped events)/ { n += $NF } END { print n }')" = 0
cat $tracing/trace >/tmp/trace
python3 engines/arrived.py report $data/kept /tmp/trace "$(basename "$ssd")" "engines/$engine.objects" >/tmp/objects
while read -r name stream least kib there streams; do
	share=$((kib ? 1000 * there / kib : 1000))
	what="$name: $kib KiB, $((share / 10)).$((share % 10)) % in the handle of stream $stream ($streams)"
	if ((share >= 10 * least)); then pass "$what"; else fail "$what"; fi
done </tmp/objects
is 'every object was written' "$(awk '$4 == 0 && $3 && $1 != "other" { print $1 }' /tmp/objects)" ''
echo "# $(field t unmapped_sectors) of $(awk '{ n += 2 * $4 } END { print n }' /tmp/objects) sectors were unmapped"

# What the engine counted itself. MariaDB writes its doublewrite buffer by direct
# I/O; some pages are written there without being counted, up to 128 KiB were seen.
if [[ $engine == mariadb ]]; then
	said=$(awk '$1 == "doublewrite" { print int($2 / 1024) }' /tmp/written)
	seen=$(awk '$1 == "doublewrite" { print $4 }' /tmp/objects)
	works "MariaDB has counted $said KiB for its doublewrite buffer, the drive received $seen" \
		test "$said" -gt 1000 -a "$seen" -ge "$said" -a "$seen" -le $((said + 256))
fi

kill $agent
wait $agent
umount $data
dsmctl remove t
done_testing
