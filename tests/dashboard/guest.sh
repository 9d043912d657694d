#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: guest.sh
#
# Two databases on two dsm devices, one of them on a drive with FDP statistics,
# and a dsm-exporter that other machines may ask. Both work until somebody connects to
# port 9188; the first dsmd ends then, at the next time dsm-exporter, and somebody connects
# again when he has seen that.
set -euo pipefail
. /run/job/guest-lib.sh
PATH=/run/job/bin:$PATH

modprobe dm-mod
insmod /run/job/dm-dsm.ko
modprobe -a xfs ext4 virtio_net
ip address add 10.0.2.15/24 dev eth0
ip link set lo up
ip link set eth0 up
called() { # waits until somebody connects
	python3 -c 'import socket
listener = socket.create_server(("0.0.0.0", 9188))
listener.accept()[0].send(b"!")'
}

database() { # DEVICE DISK MKFS...
	dsmctl create "$1" "$(disk_by_serial "$2")" --policy dsm >/dev/null
	"${@:3}" "/dev/mapper/$1"
	mkdir -p "/mnt/$1"
	mount "/dev/mapper/$1" "/mnt/$1"
	mkdir "/mnt/$1/data"
	cat >"/tmp/$1.toml" <<-CONFIG
		dbpath = "/mnt/$1/data"
		boundary = "manual"
		discard = $([[ $2 == fdp ]] && echo true || echo false)
		audit-pages = 0
	CONFIG
}

database rs0 fdp mkfs.xfs -q -K
database rs1 plain mkfs.ext4 -q -F
for device in rs0 rs1; do dsmd --config /tmp/$device.toml 2>>/tmp/dsmd.log & agents+=($!); done
setpriv --reuid 4343 --regid 4343 --clear-groups dsm-exporter --listen 0.0.0.0:19187 2>/tmp/exporter.log &
exporter=$!

work() { # DEVICE NODES
	wtload linkbench --dbpath "/mnt/$1/data" --phase load --nodes "$2" --cache-mb 50
	dsmctl debug refresh "$1" >/dev/null
	dsmctl boundary mark "$1"
	wtload linkbench --dbpath "/mnt/$1/data" --phase run --nodes "$2" --cache-mb 50 \
		--mix mixed --seconds 86400 --checkpoint-seconds 9
}

work rs1 1000 >/tmp/rs1.log 2>&1 &
work rs0 10000 >/tmp/rs0.log 2>&1 &
called
kill "${agents[0]}"
wait "${agents[0]}"
called
kill $exporter
called
