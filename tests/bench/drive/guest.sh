#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# bench-drive on QEMU's drive with FDP, small: refusals, a run that is stopped and started again.
# The drive does no garbage collection, so that nothing can be saved. Leaves what was
# measured in /run/out.
. "$(dirname "$0")/lib.sh"
load_module

ssd=$(disk_by_serial fdp)
export SEEDS='1 2' ARMS='none none+discard' WORKLOADS=linkbench:update-only SIZE=64M FILL=5 WARM=10 MEASURE=10 CHECKPOINT_SECONDS=1
SIZE=$(numfmt --from=iec $SIZE)
out=/run/out/drive
bench() { bash ./bench "$@"; }

SERIAL=another refused 'another serial number' 'not another: nothing was written' bench "$ssd" $out
export SERIAL=fdp
refused 'a file' 'is no block device' bench /etc/passwd $out
mkfs.ext4 -q -F "$(disk_by_serial plain)" && mount "$(disk_by_serial plain)" /mnt
SIZE=64M refused 'a size that is no number' 'SIZE=64M: it must be a whole number' bench "$ssd" $out
POLL=x refused 'seconds that are no number' 'POLL=x: it must be a number of seconds' bench "$(disk_by_serial plain)" $out
SERIAL=plain refused 'a drive in use' 'in use, or has partitions' bench "$(disk_by_serial plain)" $out
umount /mnt
COUNTERS='echo x' refused 'counters that are none' 'does not report' bench "$ssd" $out

bash ./bench "$ssd" $out >/tmp/said 2>&1 &
run=$!
cells() { find $out/cells -name '*.json' 2>/dev/null | wc -l; }
until_true '(($(cells) >= 2)) || ! kill -0 $run'
is 'two cells are measured' "$(cells)" 2
tail -n 5 /tmp/said
kill $run
wait $run
is 'it is stopped' $? 130
is 'and leaves no device' "$(dmsetup ls --target dsm | grep -c bench-drive)" 0
before=$(stat -c %Y $out/cells/*-1.json) || fail 'there is nothing'
MEASURE=30 refused 'another plan' 'of another drive or plan' bench "$ssd" $out
works 'it goes on' bench "$ssd" $out
is 'what was there is not measured again' "$(stat -c %Y $out/cells/*-1.json)" "$before"
is 'all cells are there' "$(cells)" 4
is 'nothing is copied by this drive' "$(jq -s 'length == 4 and (map(.waf > 0.99 and .waf < 1.01) | all)' $out/cells/*.json)" true
rm -rf "${out:?}/mnt" "$out/state"
done_testing
