#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Files of any application: streams for objects by rules, and by themselves. What
# the rules intend, and what the mapper and the remapper chose, is what the drive
# receives.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

ssd=$(disk_by_serial fdp)
has_write_streams "$ssd" || skip 'no write streams on this kernel'
mnt=/tmp/data
mkdir -p $mnt
logged() { grep -q "$1" /tmp/dsmd.log; }
serves() { dsmctl boundary show t >/dev/null 2>&1; }
stop() { kill "$agent"; wait "$agent"; }
# fill FILE MIB: in place, by direct I/O
fill() { dd if=/dev/urandom of="$1" bs=1M count="$2" oflag=direct conv=notrunc,fsync status=none; }
# stream_of PATH: what dsmctl shows for the only region of a file, or of a part
stream_of() { json t ".regions[] | select(.file == \"$1\") | .stream"; }

dsmctl create t "$ssd" --policy file >/dev/null
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt

# Two engines below two directories; a part of one's file is an object.
mkdir -p $mnt/my $mnt/other/deep
fill $mnt/my/ibdata1 4
fill $mnt/my/ib_logfile0 2
fill $mnt/other/deep/wal.1 1
sync
cat >/tmp/my.toml <<RULES
engine = "my"
[[object]]
name = "doublewrite"
lifetime = "short"
files = ["ibdata1"]
bytes = "1M-2M"
[[object]]
name = "redo"
stream = 3
files = ["ib_logfile*"]
[[object]]
name = "system"
lifetime = "long"
files = ["ibdata*"]
RULES
cat >/tmp/other.toml <<RULES
[[object]]
name = "wal"
stream = 5
files = ["**/wal.*"]
RULES
# shellcheck disable=SC2034 # refused shows what a failure said
agent=
sed 's/stream = 3/stream = 99/' /tmp/my.toml >/tmp/bad.toml
refused 'a stream that the device does not have' "/tmp/bad.toml: line 8: the object 'my.redo' has stream 99" \
	dsmd t -o dbpath=$mnt -o wait=false -o rules=my=/tmp/bad.toml
refused 'a directory that is not of MongoDB, without rules' 'it is not a data directory of MongoDB' \
	dsmd t -o dbpath=$mnt -o wait=false
dsmd t -o dbpath=$mnt -o wait=false -o 'rules=["my=/tmp/my.toml", "other=/tmp/other.toml"]' 2>/tmp/dsmd.log &
agent=$!
works 'dsmd serves two engines' until_true serves
streams=$(json t .kernel.status.device_streams)
is 'every object has its stream' \
	"$(stream_of my/ib_logfile0) $(stream_of other/deep/wal.1) $(stream_of my/ibdata1) $(stream_of 'my/ibdata1[my.doublewrite]')" \
	"3 5 $((streams - 1)) $streams"
before=$(blocks_left "$ssd")
dd if=/dev/urandom of=$mnt/my/ibdata1 bs=64k count=16 seek=16 oflag=direct conv=notrunc status=none
fill $mnt/my/ib_logfile0 2
taken=$(blocks_taken "$before" "$(blocks_left "$ssd")")
block=$(($(blockdev --getss "$ssd")))
is 'the part arrives in its handle' "$(cut -d' ' -f"$streams" <<<"$taken")" $(((1 << 20) / block))
is 'and the file beside it in its own' "$(cut -d' ' -f3 <<<"$taken")" $(((2 << 20) / block))
is 'dsmctl status says whose it is' \
	"$(json t ".kernel.uses[\"$streams\"][-1]")" my.doublewrite

cp /tmp/bad.toml /tmp/my.toml
kill -HUP "$agent"
works 'wrong rules are reported' until_true 'logged "the rules stay as they were.*line 8: the object"'
is 'and change nothing' "$(stream_of my/ib_logfile0)" 3
sed -i 's/stream = 99/stream = 4/' /tmp/my.toml
kill -HUP "$agent"
works 'rules that are right are followed' until_true '[[ $(stream_of my/ib_logfile0) == 4 ]]'
stop
umount $mnt

# Automatic mode
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/tables
for n in {1..4}; do fill $mnt/tables/$n.ibd 2; done
dsmd t -o dbpath=$mnt -o wait=false -o auto -o period-seconds=3 -o refresh-seconds=0.2 -o verbose 2>/tmp/dsmd.log &
agent=$!
works 'dsmd follows a directory' until_true serves
# Four files stay open and are updated in place, two of them much more often; a new
# one comes every tenth of a second, and stays for a second.
cat >/tmp/load.py <<'LOAD'
import mmap, os, sys, time
root = sys.argv[1]
page = mmap.mmap(-1, 16384)
tables = [os.open(f"{root}/tables/{n}.ibd", os.O_RDWR | os.O_DIRECT) for n in range(1, 5)]
n = 0
while os.path.exists("/tmp/run"):
    for t, count in zip(tables, (1, 1, 64, 64)):
        for at in range(count):
            os.pwrite(t, page, at * 16384)
    n += 1
    f = os.open(f"{root}/{n}.sst", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    for at in range(4):
        os.pwrite(f, page, at * 16384)
    os.close(f)
    if n > 10:
        os.remove(f"{root}/{n - 10}.sst")
    time.sleep(0.1)
LOAD
: >/tmp/run
python3 /tmp/load.py $mnt &
load=$!
grouped() {
	local of=()

	for n in {1..4}; do of[n]=$(stream_of tables/$n.ibd); done
	((of[1] > 0 && of[1] == of[2] && of[3] == of[4] && of[1] < of[3]))
}
works 'files that stay open are grouped by how often they are written' until_true grouped
works 'files that come get a stream' until_true \
	'[[ $(json t "[.regions[] | select(.file | tostring | endswith(\".sst\")) | .stream] | max") -gt 0 ]]'
mv $mnt/tables $mnt/moved
works 'a directory that is renamed is found' until_true '[[ -n $(stream_of moved/1.ibd) ]]'
rm /tmp/run
wait $load
is 'the load has run' $? 0
chmod 0 $mnt/moved
echo 16 >/proc/sys/fs/inotify/max_queued_events
stop
dsmd t -o dbpath=$mnt -o wait=false -o auto -o period-seconds=3 -o refresh-seconds=0.2 2>/tmp/dsmd.log &
agent=$!
works 'dsmd starts on a directory without permissions' until_true serves
kill -STOP "$agent"
for n in {1..100}; do : >$mnt/new$n; done
kill -CONT "$agent"
works 'lost events are logged' until_true 'logged "events were lost"'
works 'and every file is found' until_true \
	'[[ $(dsmctl boundary show t -o json | jq "[.files[].path | select(startswith(\"new\"))] | length") == 100 ]]'
stop
is 'the kernel refused no table' "$(grep -c refused /tmp/dsmd.log)" 0
umount $mnt
dsmctl remove t
done_testing
