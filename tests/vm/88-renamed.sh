#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Two devices get each other's names while dsmd serves the database on one of them, as when a
# restore takes the place of what it was made from, with both in use. What dsmd sends goes on to
# the device that the database lies on, and nothing to the other.
. "$(dirname "$0")/lib.sh"
load_module

disk=$(disk_by_serial fdp)
sectors=$((512 * 2048))
mnt=/tmp/db
dsmctl create t "$disk" --size $sectors --policy dsm >/dev/null
dsmctl create other "$disk" --start $sectors --size $sectors --policy dsm >/dev/null
mkfs.ext4 -q -F /dev/mapper/t
mkdir -p $mnt
mount /dev/mapper/t $mnt
mkdir $mnt/data
load() { wtload linkbench --dbpath $mnt/data --nodes 2000 --cache-mb 20 --threads 2 "$@" >/tmp/run.log 2>&1; }
works 'a database is loaded' load --phase load
dsmd t -o dbpath=$mnt/data 2>/tmp/dsmd.log & agent=$!
works 'its files are in the table' until_true '(($(json t .kernel.status.files) > 15))'
seen='"\(.files) \(.windows) \(.generation)"'
untouched=$(json other "$seen")

dmsetup rename t old
dmsetup rename other t
dmsetup rename old other
works 'checkpoints are made' load --phase run --seconds 6 --checkpoint-seconds 2
works 'dsmd has seen them, on the device that it serves' until_true '(($(json other .kernel.status.windows) > windows))'
is 'nothing has reached the other' "$(json t "$seen")" "$untouched"

kill $agent
wait $agent
umount $mnt
dmsetup remove t
dmsetup remove other
done_testing
