#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A Debian 12 system with its own kernel 6.1, systemd and the packages: a database at work,
# and what its checkpoints free is discarded. tests/packages/boot starts this.
ln -sT /srv /run/job
cd /srv || exit
. ./lib.sh

name=mongo
dbpath=/var/lib/mongodb
# wtload is Debian 13's, with its libraries; a user of its own, as mongod has.
load() { setpriv --reuid=daemon --regid=daemon --clear-groups bin/ld-linux-x86-64.so.2 --library-path bin bin/wtload linkbench --dbpath $dbpath "$@" --nodes 1500 --cache-mb 20 --journal-mb 4; }
right() { bin/ld-linux-x86-64.so.2 --library-path bin bin/wtload check --dbpath $dbpath; }

ssd=$(disk_by_serial plain)
matches 'the kernel is 6.1' "$(uname -r)" '^6\.1\.'
works 'the installed module is that of this kernel' modprobe dm-dsm
works 'the device is made, and kept' dsmctl create $name "$ssd" --discard on --dbpath $dbpath --save
printf 'audit-pages = 0\nboundary = "manual"\n' >>/etc/dsm/$name.toml
systemctl daemon-reload
works 'it is its unit'\''s, too' systemctl start dsm@$name.service
works 'a file system' mkfs.xfs -q -K /dev/mapper/$name
mkdir -p $dbpath
works 'is mounted' mount -t xfs /dev/mapper/$name $dbpath
chown daemon: $dbpath
works 'a database is made' load --phase load
works 'the file is right' dsmctl check
works 'dsmd and dsm-exporter are started' systemctl start dsmd@$name dsm-exporter
is 'systemd knows that dsmd is ready' "$(systemctl show -P Type dsmd@$name) $(systemctl show -P ActiveState dsmd@$name)" 'notify active'
works 'its table has the files' until_true "((\$(json $name .kernel.status.files) > 10))"
is 'with four capabilities' "$(sed -n 's/^CapEff:\t*//p' "/proc/$(systemctl show -P MainPID dsmd@$name)/status")" 00000000002000c4
works 'it works for 12 checkpoints' load --phase run --ops 2400 --checkpoints 12 --think-us 5000
works 'which are counted' test "$(json $name .kernel.status.windows)" -ge 10
works 'what they have freed is discarded' test "$(field $name discarded_sectors)" -gt 0
echo "# $(dmsetup status $name)"
works 'dsm-exporter shows it' eval "bash -c 'exec 3<>/dev/tcp/127.0.0.1/19187; printf \"GET /metrics HTTP/1.0\\r\\n\\r\\n\" >&3; cat <&3' | grep -q '^dsm_.*discard'"
works 'dsmd is stopped' systemctl stop dsmd@$name dsm-exporter
umount $dbpath
works 'the device is mounted again' mount -t xfs /dev/mapper/$name $dbpath
works 'the database is right, read from the drive' right
umount $dbpath
works 'the device is removed by its unit' systemctl stop dsm@$name.service
works 'the module is unloaded' modprobe -r dm-dsm
rm /etc/dsm/$name.toml
is 'no unit has failed' "$(systemctl list-units --failed --plain --no-legend 'dsm*' | cut -d' ' -f1 | paste -sd' ')" ''
dsm-dmesg-clean || fail 'the kernel log has warnings or errors'
echo end
systemctl poweroff
