#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: guest.sh POLICY DISCARD [WTLOAD-OPTION...]
#
# The main job, in the guest: a WiredTiger database on XFS on a dsm device on a
# stream SSD. With DISCARD on, what checkpoints free is discarded. Leaves run.json in
# /run/out.
set -euo pipefail
. /run/job/guest-lib.sh
PATH=/run/job/bin:$PATH
policy=$1 discard=$2
shift 2
db=/mnt/db

step() { printf '\n== %s\n' "$*"; }

# media_writes: what each placement identifier can still take, in blocks, and
# its reclaim unit handle
media_writes() { nvme fdp status "$ssd" -o json | jq '[.ruhss[] | {pid, ruhid, ruamw}]'; }

ssd=$(disk_by_serial fdp)
block=$(blockdev --getss "$ssd")
modprobe dm-mod
insmod /run/job/dm-dsm.ko
modprobe xfs

# discarded_sectors: of the drive, by the block layer
discarded_sectors() { awk '{ print $14 }' "/sys/block/$(basename "$ssd")/stat"; }

step "policy $policy, discard $discard: dsmctl create dsm $ssd --policy $policy"
dsmctl create dsm "$ssd" --policy "$policy"
# -K: the drive discards what checkpoints have freed, and nothing else.
mkfs.xfs -q -K /dev/mapper/dsm
mount /dev/mapper/dsm /mnt
mkdir $db
# mkfs has the SSD zero the log, which the SSD counts as media writes.
sync
dsmctl debug reset dsm
before=$(media_writes)

cat >/run/dsm.toml <<CONFIG
dbpath = "$db"
boundary = "manual"
wait = true
$([[ $discard == off ]] || printf 'discard = true\naudit-pages = 0\n')
CONFIG
discarded_before=$(discarded_sectors)
step "dsmd for $db on dsm, and the database starts"
dsmd --config /run/dsm.toml --show-regions &
agent=$!
status=0
wtload linkbench --dbpath $db --json /run/out/wtload.json \
	--on-load-end 'dsmctl boundary mark dsm && dsmctl status dsm -o json >/run/loaded.json' \
	"$@" || status=$?
# The last checkpoint's window is printed before the agent goes.
dsmctl debug refresh dsm >/dev/null
# So are discards counted, which are off without it.
until [[ $(dmsetup status dsm) != *" discard_queued "[1-9]* ]]; do sleep 0.1; done
dsmctl status dsm -o json >/run/discarded.json
kill $agent
wait $agent
((!status)) || exit $status

step 'the database is closed and right, the file system unmounted, and both count'
echo 3 >/proc/sys/vm/drop_caches
wtload check --dbpath $db
dsmctl free $db -o json >/run/out/free.json
umount /mnt
sync
dsmctl status dsm -o json >/run/status.json
after=$(media_writes)

jq -n --slurpfile status /run/status.json --slurpfile loaded /run/loaded.json \
	--slurpfile discarded /run/discarded.json \
	--argjson before "$before" --argjson after "$after" --argjson block "$block" \
	--argjson device_discarded $(($(discarded_sectors) - discarded_before)) '
	$status[0].devices[0].kernel as $kernel | $kernel.status as $d | $loaded[0].devices[0].kernel.status as $l |
	$discarded[0].devices[0].kernel.status.discard as $free |
	([$d.streams[] | select(.stream == 0) | .sectors] | add // 0) as $unstamped |
	{
		policy: $d.policy,
		checkpoints: $d.windows,
		unmapped_pages: (($d.unmapped_sectors + 7) / 8 | floor),
		unmapped_pages_since_load: (($d.unmapped_sectors - $l.unmapped_sectors + 7) / 8 | floor),
		pages: ([$d.streams[].sectors] | add / 8),
		pages_since_load: (([$d.streams[].sectors] | add) - ([$l.streams[].sectors] | add) | . / 8),
		split_bios: $d.split,
		discard: {
			target_bytes: ($free.discarded_sectors * 512),
			block_layer_bytes: ($device_discarded * 512),
			refused_bytes: ($free.refused_sectors * 512)
		},
		streams: [range($before | length) as $i | {
			stream: ($i + 1),
			handle: $before[$i].ruhid,
			used_for: ($kernel.uses["\($i + 1)"] // []),
			target_bytes: (([$d.streams[] | select(.stream == $i + 1) | .sectors] | add // 0)
				+ if $i == 0 then $unstamped else 0 end | . * 512),
			device_bytes: (($before[$i].ruamw - $after[$i].ruamw) * $block)
		} | select(.target_bytes + .device_bytes > 0)]
	}' >/run/out/run.json

step "policy $policy: MiB by stream (target) and by placement handle (SSD)"
echo
printf '%8s %8s %8s %8s  %-7s %s\n' stream handle target ssd '' 'used for'
jq -r 'def mib: . / 1048576 * 10 | round / 10;
	.streams[] | [.stream, .handle, (.target_bytes | mib), (.device_bytes | mib),
	if .target_bytes == .device_bytes then "equal" else "DIFFER" end,
	(.used_for + if .stream == 1 then ["writes without a stream"] else [] end | join(", "))] | @tsv' /run/out/run.json |
	while IFS=$'\t' read -r stream handle target device equal used; do
		printf '%8s %8s %8s %8s  %-7s %s\n' "$stream" "$handle" "$target" "$device" "$equal" "$used"
	done
echo
jq -r '"\(.checkpoints) checkpoints; \(.unmapped_pages_since_load) of \(.pages_since_load) pages written after the load were in no known extent (\(100 * .unmapped_pages_since_load / .pages_since_load * 100 | round / 100) %), \(.unmapped_pages) of \(.pages) in all; \(.split_bios) writes were split where two streams meet."' /run/out/run.json
dsmctl remove dsm
rmmod dm-dsm
