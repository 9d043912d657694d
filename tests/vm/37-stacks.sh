#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Above stacks where a write that a disk refuses is not handed back: md's mirrors, with
# equal legs, unequal ones and one that comes later; dm-raid, LVM's mirrors, dm-mirror;
# multipath. Whatever number of streams is stated, what is acknowledged is on every
# leg, no leg or path fails, and the status says why there are no streams.
. "$(dirname "$0")/lib.sh"
load_module
modprobe -a raid1 raid10 dm-raid dm-mirror dm-multipath dm-round-robin 2>/dev/null
export DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1

ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)
size=$((4 << 20))		# bytes that are written and compared
data=/tmp/data
dd if=/dev/urandom of=$data.1 bs=1M count=$((size >> 20)) status=none
dd if=/dev/urandom of=$data.2 bs=1M count=$((size >> 20)) status=none
streams=$(if has_write_streams "$ssd"; then echo '0 stacked'; else echo '0 kernel'; fi)

# Legs: two on the drive with eight handles, one on a disk without streams, and where
# there is one, one on a drive with three.
dmsetup create leg1 --table "0 131072 linear $ssd 0"
dmsetup create leg2 --table "0 131072 linear $ssd 131072"
dmsetup create leg3 --table "0 131072 linear $ssd 262144"
dmsetup create other --table "0 131072 linear $plain 0"
legs=(/dev/mapper/leg1 /dev/mapper/leg2)
few=$(plug few 2>/dev/null) && dmsetup create few --table "0 131072 linear $few 0"

# on DEVICE: a dsm device above it, with more streams stated than any disk has, and
# none that it has; every write of 16 KiB and more is divided
on() {
	local at extents=()

	for ((at = 0; at < 32768; at += 48)); do extents+=("$at:$at:24"); done
	dmsetup create t --table "0 65536 dsm $1 0 4 streams 12 stream_base 9"
	begin t full
	record t file 1 collection 1048576 "${extents[@]:0:200}"
	for ((at = 200; at < ${#extents[@]}; at += 200)); do record t extents "${extents[@]:at:200}"; done
	record t file 2 index - 0:40960:8192
	commit t >/dev/null
}

# put_data FILE: all of it, by direct writes of three sizes, on the device t
put_data() {
	local part=$((size / 4))

	dd if="$1" of=/dev/mapper/t bs=4k count=$((part >> 12)) oflag=direct conv=notrunc status=none &&
		dd if="$1" of=/dev/mapper/t bs=16k skip=$((part >> 14)) seek=$((part >> 14)) \
			count=$((part >> 14)) oflag=direct conv=notrunc status=none &&
		dd if="$1" of=/dev/mapper/t bs=256k skip=$((part >> 17)) seek=$((part >> 17)) \
			oflag=direct conv=notrunc,fsync status=none
}

# has FILE DEVICE: what is on it, by direct I/O
has() { dd if="$2" bs=1M count=$((size >> 20)) iflag=direct status=none | cmp - "$1"; }

# intact WHAT DEVICE LEG...: data that is written to dsm above DEVICE is on each LEG
intact() {
	local what=$1 device=$2 leg

	shift 2
	on "$device"
	is "$what: there are no streams, and why" "$(field t device_streams) $(field t source)" "$streams"
	works "$what: writes are acknowledged" put_data $data.1
	works "$what: the data is read" has $data.1 /dev/mapper/t
	for leg; do
		works "$what: and is on $(basename "$leg")" has $data.1 "$leg"
	done
	works "$what: and can be replaced" put_data $data.2
	for leg; do
		works "$what: on $(basename "$leg"), too" has $data.2 "$leg"
	done
	dmsetup remove t
}

# md, whose superblocks are at the end
md() { # LEVEL COUNT LEG...
	mdadm --create /dev/md0 --run --quiet --metadata=1.0 --bitmap=none --assume-clean \
		--level="$1" --raid-devices="$2" "${@:3}"
}
md_ends() {
	mdadm --stop --quiet /dev/md0
	mdadm --zero-superblock --quiet "$@"
}
members() { cat /sys/block/md0/md/dev-*/state | sort | uniq -c | xargs; }

md raid1 2 "${legs[@]}"
intact 'md RAID1' /dev/md0 "${legs[@]}"
is 'md RAID1: both legs are in sync' "$(members)" '2 in_sync'
md_ends "${legs[@]}"

md raid10 2 "${legs[@]}"
intact 'md RAID10' /dev/md0 "${legs[@]}"
is 'md RAID10: both legs are in sync' "$(members)" '2 in_sync'
md_ends "${legs[@]}"

for leg in other few; do
	[[ -b /dev/mapper/$leg ]] || continue
	md raid1 2 /dev/mapper/leg1 /dev/mapper/$leg
	intact "md RAID1 on unequal legs ($leg)" /dev/md0 /dev/mapper/leg1 /dev/mapper/$leg
	is "md RAID1 on unequal legs ($leg): both are in sync" "$(members)" '2 in_sync'
	md_ends /dev/mapper/leg1 /dev/mapper/$leg
done

# A leg that comes while the device is there, and is written to
md raid1 2 /dev/mapper/leg1 missing
on /dev/md0
works 'md RAID1 with one leg: writes are acknowledged' put_data $data.1
in_sync() { [[ $(members) == '2 in_sync' ]]; }
! mdadm --manage --quiet /dev/md0 --add /dev/mapper/other || until in_sync || ! put_data $data.2; do :; done
works 'a leg comes and is in sync' in_sync
works 'writes go on' put_data $data.1
works 'they are on the old leg' has $data.1 /dev/mapper/leg1
works 'and on the new one' has $data.1 /dev/mapper/other
is 'no leg has failed' "$(members)" '2 in_sync'
dmsetup remove t
md_ends /dev/mapper/leg1 /dev/mapper/other

# dm-raid and dm-mirror
dmsetup create low --table "0 131072 raid raid1 2 0 nosync 2 - ${legs[0]} - ${legs[1]}"
intact 'dm-raid' /dev/mapper/low "${legs[@]}"
matches 'dm-raid: both legs are alive' "$(dmsetup status low)" ' 2 AA '
dmsetup remove low
dmsetup create low --table "0 131072 mirror core 2 1024 nosync 2 ${legs[0]} 0 ${legs[1]} 0 1 handle_errors"
intact 'dm-mirror' /dev/mapper/low "${legs[@]}"
matches 'dm-mirror: both legs are alive' "$(dmsetup status low)" ' AA '
dmsetup remove low

# LVM's mirror, and a leg more
lvm() {
	command lvm "$1" --config 'devices{use_devicesfile=0 filter=["a|^/dev/mapper/leg|", "r|.*|"]}
		activation{udev_sync=0 udev_rules=0}' -qq "${@:2}"
}
lvm pvcreate -y -ff "${legs[@]}" /dev/mapper/leg3
lvm vgcreate vg "${legs[@]}" /dev/mapper/leg3
lvm lvcreate -y -Wn -Zn --type raid1 -m 1 -L 32M -n db vg
until_true '[[ $(dmsetup status vg-db) == *" 2 AA "*" idle "* ]]'
intact 'LVM RAID1' /dev/mapper/vg-db /dev/mapper/vg-db_rimage_{0,1}
on /dev/mapper/vg-db
works 'LVM RAID1: writes are acknowledged' put_data $data.1
all_alive() { [[ $(dmsetup status vg-db) == *' 3 AAA '*' idle '* ]]; }
! lvm lvconvert -y -m 2 vg/db || until all_alive || ! put_data $data.2; do :; done
works 'LVM RAID1: a third leg comes and is in sync' all_alive
works 'LVM RAID1: writes go on' put_data $data.1
for leg in 0 1 2; do
	works "LVM RAID1: they are on leg $leg" has $data.1 /dev/mapper/vg-db_rimage_$leg
done
dmsetup remove t
lvm vgremove -y -ff vg
lvm pvremove -y -ff "${legs[@]}" /dev/mapper/leg3

# Multipath. A write that takes the paths down hangs until it is set to fail.
paths_failed() { [[ $(dmsetup status low) =~ ' F ' ]]; }
for features in '3 queue_if_no_path queue_mode bio' '2 queue_mode bio'; do
	what="multipath ($features)"
	dmsetup create low --table "0 131072 multipath $features 0 1 1 round-robin 0 1 1 $ssd 1000"
	on /dev/mapper/low
	is "$what: there are no streams, and why" "$(field t device_streams) $(field t source)" "$streams"
	put_data $data.1 &
	writer=$!
	while kill -0 $writer 2>/dev/null && ! paths_failed; do sleep 0.1; done
	if paths_failed; then
		fail "$what: a path has failed: $(dmsetup status low)"
		message low fail_if_no_path
		wait $writer
	else
		wait $writer
		is "$what: writes are acknowledged" $? 0
		works "$what: the data is read" has $data.1 /dev/mapper/t
		works "$what: and is on the disk" has $data.1 "$ssd"
		matches "$what: the path is alive" "$(dmsetup status low)" ' A 0'
	fi
	dmsetup remove t
	dmsetup remove low
done

dmsetup remove leg1
dmsetup remove leg2
dmsetup remove leg3
dmsetup remove other
[[ ! -b /dev/mapper/few ]] || { dmsetup remove few; park few; }
done_testing
