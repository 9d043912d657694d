#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# usage: steady-guest.sh DRIVE SECONDS WTLOAD-ARG...
#
# Runs in UML, in virtual time: a database at work, for so many seconds, on a dsm device on
# the drive that the options DRIVE of the module flashdrive make. What dsmd publishes
# meanwhile is kept in /out/snapshots, a file for each 5 seconds.
drive=$1 seconds=$2
shift 2
exec >/out/said 2>&1
PATH=/job/bin:$PATH
dbpath=/mnt/data

fail() { echo "guest: $*"; exit 1; }

# Every look in an order that the shell sorts
keep_snapshots() {
	local n=0

	while sleep 2.5; do
		cp /run/dsm/rs0.json "/out/snapshots/$((1000000 + n++)).json" 2>/dev/null
	done
}

mkdir -p /out/snapshots
# shellcheck disable=SC2086 # words
insmod flashdrive.ko $drive fdp=1 && insmod dm-dsm.ko && dsmctl create rs0 /dev/flashdrive --policy dsm || fail 'no device'
mkfs.ext4 -q -F -m 0 -E discard,lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/rs0 &&
	mount /dev/mapper/rs0 /mnt && mkdir $dbpath || fail 'no file system'
cat >/tmp/rs0.toml <<-END
	state-dir = "/tmp/state"
	dbpath = "$dbpath"
	discard = true
	audit-pages = 0
END
mkdir /tmp/state
dsmd --config /tmp/rs0.toml 2>/out/dsmd.log &
keep_snapshots &
wtload "$@" --dbpath $dbpath --phase load >/out/wtload-load || fail 'the load failed'
wtload "$@" --dbpath $dbpath --phase run --seconds "$seconds" >/out/wtload || fail 'the run failed'
cat /sys/kernel/debug/flashdrive/series >/out/series
dsmctl status rs0 -o json >/out/status.json
