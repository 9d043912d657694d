#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What happens to an agent: two databases on two devices, each of which comes,
# goes, and is swapped for something else, while dsmd goes on. It has only the
# capabilities that its systemd unit leaves it.
. "$(dirname "$0")/lib.sh"
load_module
modprobe xfs

one=/tmp/one two=/tmp/two
mkdir -p $one $two
for d in one two; do
	printf 'state-dir = "/tmp/state"\ndbpath = "%s/data"\nboundary = "manual"\n' "${!d}" >/tmp/$d.toml
done
agent() {
	agents=()
	for d in one two; do
		setpriv --bounding-set=-all,+sys_admin,+dac_read_search,+setuid,+setgid dsmd --config /tmp/$d.toml 2>>/tmp/dsmd.log &
		agents+=($!)
	done
}
boundaries() { json "$1" '[.regions[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum; }
served() { dsmctl boundary show "$1" 2>/dev/null | grep -q collection; }
logged() { grep -q "$1" /tmp/dsmd.log; }
load() { wtload linkbench --dbpath "$1" --phase load --nodes 500 --cache-mb 20 --journal-mb 4; }
run() {
	wtload linkbench --dbpath "$1" --phase run --nodes 500 --ops 200 --checkpoints "$2" \
		--cache-mb 20 --journal-mb 4
}
metric() {
	local web

	exec {web}<>/dev/tcp/127.0.0.1/19187
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$web"
	sed -n "s/^$1 //p" <&"$web"
	exec {web}>&-
}
ssd=$(disk_by_serial fdp)
plain=$(disk_by_serial plain)

# The loopback interface is down (there is no ip here): SIOCSIFFLAGS
python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14s", b"lo", 1, b""))'
setpriv --reuid 4343 --regid 4343 --clear-groups --bounding-set=-all --inh-caps=-all dsm-exporter 2>/tmp/exporter.log &
exporter=$!
agent
works 'dsmd waits for devices' until_true '[[ $(grep -c waiting /tmp/dsmd.log) -ge 2 ]]'
works 'the metrics say so' until_true '[[ $(metric "dsm_up{device=\"one\"}") == 0 ]]'
dsmctl create one "$ssd" --policy dsm >/dev/null
dsmctl create two "$plain" --policy dsm >/dev/null
mkfs.xfs -q -f -K /dev/mapper/one
mkfs.ext4 -q -F /dev/mapper/two
mount /dev/mapper/one $one
mount /dev/mapper/two $two
for d in $one $two; do
	mkdir -m 700 $d/data
	works "a database is made in $d" load $d/data
	chown -R daemon $d/data
	chmod 600 $d/data/*.wt
done
works 'both databases are served' until_true 'served one && served two'
works 'the metrics say so, too' until_true \
	'[[ "$(metric "dsm_agent_up{device=\"one\"}") $(metric "dsm_agent_up{device=\"two\"}")" = "1 1" ]]'
if has_write_streams "$ssd"; then
	works 'dsmd says that the drive does not afford so many streams' \
		logged 'warn more streams than the drive affords device=one policy=dsm streams=8 affords="no streams on a drive of 0'
else
	works 'dsmd says why there are no streams' logged 'info streams device=one policy=none streams=0 affords="no streams: this kernel'
fi
is 'dsmd may do no more than it must' "$(sed -n 's/^CapEff:\t*//p' /proc/${agents[0]}/status)" 00000000002000c4

windows=$(json two .kernel.status.windows)
before=$(json one .kernel.status.windows)
works 'checkpoints of one database' run $one/data 2
works 'are seen' until_true "((\$(json one .kernel.status.windows) > $before))"
is 'and the other is untouched' "$(json two .kernel.status.windows)" "$windows"
works 'boundaries are marked' eval 'dsmctl boundary mark one && dsmctl boundary mark two'
if has_write_streams "$ssd"; then
	works 'dsmctl verify gets along with dsmd' dsmctl verify one
	works 'which has its table again' until_true '(($(json one .kernel.status.files) > 12))'
	is 'and takes nobody for a stranger' "$(grep -c 'somebody else' /tmp/dsmd.log)" 0
fi

# The state file
kept=$(boundaries one)
is 'the state file has the boundaries' "$(jq '.files | length' /tmp/state/one.json)" \
	"$(json one '[.regions[] | select(.side == "top")] | length')"
kill -9 "${agents[@]}"
wait "${agents[@]}" 2>/dev/null
works 'that dsmd was killed is shown' until_true '[[ $(metric "dsm_agent_up{device=\"one\"}") == 0 ]]'
is 'and nothing that would not be true' "$(metric 'dsm_up{device="one"}')" ''
dmsetup load one --table "$(dmsetup table one)" && dmsetup suspend one && dmsetup resume one
is 'dsmd is killed and the table lost' "$(json one .kernel.status.files)" 0
agent
works 'dsmd is started again' until_true 'served one && served two'
is 'the boundaries are what they were' "$(boundaries one)" "$kept"
kill "${agents[@]}"
for pid in "${agents[@]}"; do
	wait $pid
	is 'dsmd ends when asked' $? 0
done
echo '{"version":1' >/tmp/state/one.json
agent
works 'a damaged state file is reported and put aside' until_true \
	"served one && logged 'the state file is not understood.*EOF' && [[ -e /tmp/state/one.bad ]]"
is 'the kernel has the boundaries' "$(boundaries one)" "$kept"
works 'and the state file is made again' until_true '[[ $(jq .marked /tmp/state/one.json 2>/dev/null) == true ]]'

# A full disk
mount -t tmpfs -o size=16k none /tmp/state
dd if=/dev/zero of=/tmp/state/full bs=4k status=none 2>/dev/null
dd if=/dev/zero of=$one/data/collection-900-900.wt bs=8k count=1 conv=fsync status=none
works 'a full disk' eval "dsmctl boundary mark one && until_true 'logged \"cannot write the state file\"'"
rm /tmp/state/full $one/data/collection-900-900.wt
works 'which has room again' eval "run $one/data 1 && until_true '[[ -s /tmp/state/one.json ]]'"

# A device that is taken away
works 'the file system can be unmounted' umount $two
works 'which is logged' until_true "logged 'lost device=two'"
works 'the device can be removed' dsmctl remove two
works 'the other database is served' dsmctl debug refresh one
umount /tmp/state
dsmctl create two "$plain" --policy dsm >/dev/null
mount /dev/mapper/two $two
works 'both come back' until_true 'served two'
is 'with boundaries' "$(json two '[.regions[] | select(.side == "top")] | length')" 10

# Things that are not what they were
mv $two/data/journal $two/away
ln -s $two/away $two/data/journal
mkfifo $two/data/collection-900-901.wt
ln -s /etc/passwd $two/data/index-900-902.wt
works 'links and FIFOs are skipped' dsmctl debug refresh two
is 'none is in the table' "$(json two '[.regions[] | select(.class == "journal")] | length')" 0
works 'and that is logged' eval \
	"[[ \$(grep -c 'skipped.*\(journal\|collection-900-901.wt\|index-900-902.wt\)' /tmp/dsmd.log) -ge 3 ]]"
rm $two/data/{journal,collection-900-901.wt,index-900-902.wt}
mv $two/away $two/data/journal
works 'the journal is back' until_true '[[ $(json two "[.regions[] | select(.class == \"journal\")] | length") -ge 1 ]]'
lost=$(grep -c 'lost device=two' /tmp/dsmd.log)
mv $two/data $two/old
works 'the directory is moved' until_true "((\$(grep -c 'lost device=two' /tmp/dsmd.log) > $lost))"
mkfifo $two/data
sleep 1
rm $two/data
mv $two/old $two/data
works 'and comes back after a FIFO had its name' until_true 'served two'

# The clock
before=$(json one .kernel.status.windows)
date -s '+3 days' >/dev/null
works 'the clock jumps' run $one/data 1
works 'and checkpoints are seen' until_true "((\$(json one .kernel.status.windows) > $before))"
date -s '-3 days' >/dev/null
works 'the database is right' wtload check --dbpath $one/data
kill "${agents[@]}"
for pid in "${agents[@]}"; do
	wait $pid
	is 'dsmd ends when asked' $? 0
done
kill $exporter
wait $exporter
# Extents that are read while files grow may overlap: that is tried again.
is 'nobody was surprised' "$(grep -e panicked -e 'the table stays as it was' /tmp/dsmd.log)" ''
umount $one $two
dsmctl remove one
dsmctl remove two
done_testing
