#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A system with the packages, as its administrator has it: the first boot sets
# everything up, the second finds it set up. tests/packages/boot starts this.
ln -sT /srv /run/job
cd /srv || exit
. ./lib.sh
. ./container.sh

# The kernel log is looked at in the end, and must not be cleared.
attempt() { "$@"; }

name=my-db
unit=dsm@$name.service
dbpath=/var/lib/mongodb
kept=/var/lib/boot-test

served() { dsmctl boundary show $name 2>/dev/null | grep -q collection; }
boundaries() { json $name '[.regions[] | select(.boundary != null) | {id, boundary}] | sort' | md5sum; }
load() { wtload linkbench --dbpath $dbpath "$@" --nodes 500 --cache-mb 20 --journal-mb 4; }
reported() { journalctl -b -q -t dsm-generator -o cat | grep -qF "/etc/dsm/worse.toml: line 1: unknown field"; }
failed_for() { journalctl -b -q -u "dsm@$1" -o cat | grep -qF "dsmctl: nothing was changed: /etc/dsm/$1.toml: $2"; }
of_dsmd() { systemctl show -P "$1" dsmd@$name; }
link_to() { find "/dev/disk/$1" -lname "*/${2##*/}" | sort | head -n 1; }

first() {
	ssd=$(disk_by_serial fdp)
	plain=$(disk_by_serial plain)
	works 'the installed module is that of this kernel' modprobe dm-dsm
	echo 'device = "x"' >/etc/dsm/worse.toml
	printf 'drive = "%s"\ngroups = "many"\n' "$ssd" >/etc/dsm/broken.toml
	printf 'drive = "%s"\npolicy = "dsm"\ngroups = 3\ndbpath = "%s"\nboundary = "manual"\n' "$(link_to by-id "$ssd")" $dbpath >/etc/dsm/$name.toml
	printf 'drive = "%s"\nboot = false\n' "$(link_to by-id "$plain")" >/etc/dsm/later.toml
	refused 'files are checked' '/etc/dsm/broken.toml: groups=many: it must be auto or a number' dsmctl check
	works 'also one of them' dsmctl check later
	systemctl daemon-reload
	works 'the generator reports an invalid file' until_true reported
	if systemctl start dsm@broken; then fail 'a unit with a wrong option has started'; fi
	works 'a wrong option is reported by the unit that fails for it' until_true \
		'failed_for broken "groups=many: it must be auto or a number"'
	systemctl reset-failed dsm@broken
	works 'the device is made by its unit' systemctl start "$unit"
	matches 'with its options' "$(dmsetup table $name)" ' policy dsm groups 3 '
	works 'again changes nothing' dsmctl attach $name
	refused 'a file that is wrong' 'groups=many' dsmctl attach broken
	refused 'a name without a file' '/etc/dsm/nobody.toml: cannot read it' dsmctl attach nobody

	works 'a file system' mkfs.xfs -q -K /dev/mapper/$name
	udevadm settle
	is 'its UUID leads to the dsm device' "$(readlink -f "/dev/disk/by-uuid/$(blkid -o value -s UUID /dev/mapper/$name)")" \
		"$(readlink -f /dev/mapper/$name)"
	mkdir -p $dbpath $kept
	echo "/dev/mapper/$name $dbpath xfs defaults,nofail 0 0" >>/etc/fstab
	systemctl daemon-reload
	works 'is mounted from fstab' systemctl start var-lib-mongodb.mount
	works 'stamps arrive at the drive' dsmctl verify $name
	works 'a database is made' load --phase load
	chown -R daemon $dbpath
	chmod 600 $dbpath/*.wt

	works 'dsmd is started' systemctl start dsmd@$name
	is 'systemd knows it is ready' "$(of_dsmd Type) $(of_dsmd ActiveState)" 'notify active'
	works 'it serves the database' until_true served
	is 'with four capabilities' "$(sed -n 's/^CapEff:\t*//p' "/proc/$(of_dsmd MainPID)/status")" 00000000002000c4
	is 'and a limit of memory' "$(of_dsmd MemoryMax)" $((1 << 30))
	is 'and a filter of system calls' "$(sed -n 's/^Seccomp:\t*//p' "/proc/$(of_dsmd MainPID)/status")" 2
	works 'boundaries are marked' dsmctl boundary mark $name
	windows=$(json $name .kernel.status.windows)
	works 'checkpoints' load --phase run --ops 200 --checkpoints 2
	works 'are seen' until_true "((\$(json $name .kernel.status.windows) > $windows))"

	mkdir -p /run/systemd/system/dsmd@.service.d
	printf '[Service]\nWatchdogSec=20\nRestartSec=1\n' >/run/systemd/system/dsmd@.service.d/fast.conf
	systemctl daemon-reload
	systemctl restart dsmd@$name
	works 'it serves with a short watchdog' until_true served
	fed=$(of_dsmd WatchdogTimestampMonotonic)
	works 'which is fed' until_true "((\$(of_dsmd WatchdogTimestampMonotonic) > $fed))"
	is 'and runs' "$(of_dsmd NRestarts) $(of_dsmd ActiveState)" '0 active'
	stuck=$(of_dsmd MainPID)
	kill -STOP "$stuck"
	works 'a dsmd that is stuck is restarted' until_true '(($(of_dsmd NRestarts) > 0)) && served'
	is 'by the watchdog' "$(journalctl -b -u dsmd@$name -o cat | grep -c 'Watchdog timeout')" 1
	boundaries >$kept/boundaries
	jq -S . /var/lib/dsmd/$name.json >$kept/state
	matches 'the state has the boundaries' "$(jq '.files | length' $kept/state)" '^[1-9]'
}

metric() {
	local web

	exec {web}<>/dev/tcp/127.0.0.1/19187 || return
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$web"
	grep -F "$1 " <&"$web" | cut -d' ' -f2
	exec {web}>&-
}
up() { [[ $(metric "dsm_agent_up{device=\"$1\"}") = 1 ]]; }
caps_of() { sed -n 's/^CapBnd:\t*//p' "/proc/$(systemctl show -P MainPID "$1")/status"; }
# is_dynamic UNIT: its user is one of those that systemd makes while a unit runs
is_dynamic() {
	local user

	user=$(stat -c %u "/proc/$(systemctl show -P MainPID "$1")")
	((user >= 61184 && user <= 65519))
}

pids() { systemctl show -P MainPID dsmd@$name dsmd@later dsm-exporter | grep . | sort; }
# As by an upgrade, while both run
installed_again() {
	local before

	before=$(pids)
	is 'three programs run' "$(grep -c '[1-9]' <<<"$before")" 3
	works 'their package is installed once more' dpkg -i --force-confold /srv/dsm-tools.deb
	is 'three other processes run' "$(comm -13 <(echo "$before") <(pids) | grep -c '[1-9]')" 3
	works 'both databases are served as before' until_true 'up later && up $name'
	works 'and the server is asked' until_true '[[ $(metric "dsm_server_up{device=\"later\"}") = 1 ]]'
}

# What becomes of one dsmd is nothing to the other.
apart() {
	local before

	other() { systemctl show -P "$1" dsmd@later; }
	before=$(of_dsmd MainPID)
	dmsetup suspend --noflush --nolockfs later
	touch /var/lib/secantus/db/unanswered &
	kill -STOP "$(other MainPID)"
	works 'one that is silent is restarted by the watchdog' until_true '(($(other NRestarts) > 0))'
	works 'the other is there meanwhile' dsmctl debug refresh $name
	dmsetup resume later
	works 'the drive answers, and the first is served' until_true 'up later'
	works 'the kernel has nothing to report of this' dsm-dmesg-clean
	systemctl set-property --runtime dsmd@later MemoryMax=1M
	works 'one that needs too much memory is killed' until_true \
		"journalctl -b -q -u dsmd@later -o cat | grep -q \"Failed with result 'oom-kill'\""
	works 'and not the other' up $name
	systemctl set-property --runtime dsmd@later MemoryMax=1G
	works 'the next serves it' until_true 'up later'
	# The kernel has said whom it killed, with a trace.
	dmesg --clear
	is 'the other was left alone' "$(of_dsmd MainPID)" "$before"
}

# A server that says what it knows, by the units of the packages alone.
asked() {
	local server=/run/server db=/var/lib/secantus pid

	mkfs.ext4 -q -F /dev/mapper/later
	mkdir -p $server $db
	mount /dev/mapper/later $db
	mount -o ro "$(disk_by_serial mongo)" $server
	mount --bind $db $server/data
	mount -t tmpfs none $server/tmp
	mount --bind /dev $server/dev
	mount -t proc none $server/proc
	chroot $server env -i PATH=/usr/local/bin:/usr/bin HOME=/tmp LC_ALL=C.UTF-8 secantusd-py --host 127.0.0.1 \
		--port 27017 --storage-path /data/db --cache-size 32M --log-level WARNING >/run/server.log 2>&1 &
	pid=$!
	printf 'dbpath = "%s"\nrules = "/usr/share/dm-dsm/rules/secantusdb.toml"\n' "$db/db" >>/etc/dsm/later.toml
	# mongosh takes its time here.
	mkdir /run/systemd/system/dsm-mongo@.service.d
	printf '[Service]\nTimeoutStartSec=2h\n' >/run/systemd/system/dsm-mongo@.service.d/slow.conf
	systemctl daemon-reload
	systemctl start dsmd@later
	works 'a second database is served' until_true '(($(json later .kernel.status.files) > 5))'
	is 'the folder of addresses is for root only' "$(stat -c '%U %a' /etc/dsm-mongo)" 'root 700'
	install -m 600 /dev/null /etc/dsm-mongo/later.uri
	echo mongodb://127.0.0.1 >/etc/dsm-mongo/later.uri
	# mongosh of the server's root, with the libraries there, and what node has outside of itself
	mkdir /usr/share/nodejs
	mount --bind $server/usr/share/nodejs /usr/share/nodejs
	cat >/usr/bin/mongosh <<-MONGOSH
		#!/bin/sh
		exec $server/lib64/ld-linux-x86-64.so.2 --library-path $server/usr/lib/x86_64-linux-gnu \
			$server/usr/bin/node $server/usr/local/bin/mongosh "\$@"
	MONGOSH
	chmod 755 /usr/bin/mongosh
	works 'its server is asked by a timer' systemctl start dsm-mongo@later.timer
	works 'and answers' until_true 'dsmctl status later | grep -qE "^ *server +127.0.0.1:27017 [0-9]"'
	works 'dsm-exporter is started' systemctl start dsm-exporter
	works 'and shows what the server says' until_true '[[ $(metric "dsm_server_up{device=\"later\"}") = 1 ]]'
	works 'and that both databases are served' until_true 'up later && up $name'
	is 'it may do nothing' "$(caps_of dsm-exporter)" 0000000000000000
	works 'and is not root' is_dynamic dsm-exporter
	is 'who asks is a user of its own, and tells nobody else' \
		"$(stat -Lc %a /run/dsm-mongo/later /run/dsm-mongo/later/catalog.json | xargs) $(($(stat -Lc %u /run/dsm-mongo/later) >= 61184))" '700 600 1'
	# SecantusDB names no files.
	works 'it says what it found' eval 'journalctl -u dsm-mongo@later -o cat | grep -q "does not report which file is whose: it does not name"'
	systemctl reset-failed dsm-mongo@later
	is 'dsmd has no network' "$(sed 1,2d "/proc/$(of_dsmd MainPID)/net/dev" | cut -d: -f1 | xargs)" lo
	installed_again
	apart
	systemctl stop dsmd@later
	works 'that dsmd has ended is shown' until_true '[[ $(metric "dsm_agent_up{device=\"later\"}") = 0 ]]'
	works 'and that the other goes on' up $name
	sed -i '/^dbpath\|^rules/d' /etc/dsm/later.toml
	is 'nothing has failed of this' "$(systemctl --failed --plain --no-legend | grep -v dsm-mongo@later)" ''
	systemctl stop dsm-mongo@later.timer dsm-mongo@later dsm-exporter
	rm /usr/bin/mongosh
	umount /usr/share/nodejs
	rmdir /usr/share/nodejs
	kill $pid
	wait $pid
	umount -R $server
	umount $db
}

second() {
	works 'a wrong option fails its unit' until_true 'failed_for broken "groups=many: it must be auto or a number"'
	is 'nothing else has failed' "$(systemctl --failed --plain --no-legend | cut -d' ' -f1)" dsm@broken.service
	systemctl reset-failed dsm@broken
	works 'the bad line was reported' reported
	works 'the file system is mounted' until_true "mountpoint -q $dbpath"
	# All that follows would wait for it in vain.
	# shellcheck disable=SC2154 # of results.sh
	((!failed)) || return
	is 'from the dsm device' "$(findmnt -n -o SOURCE,FSTYPE $dbpath | xargs)" "/dev/mapper/$name xfs"
	works 'after its unit had made the device' systemctl is-active "$unit"
	is 'it was unmounted before the device was removed' "$(dmesg | grep -c 'Starting recovery')" 0
	is 'dsmd runs' "$(of_dsmd ActiveState)" active
	works 'and serves the database' until_true served
	is 'the boundaries are what they were' "$(boundaries)" "$(<$kept/boundaries)"
	is 'and so are those of the state file' "$(jq -Sc .files /var/lib/dsmd/$name.json)" "$(jq -Sc .files $kept/state)"
	works 'the database is right' wtload check --dbpath $dbpath
	windows=$(json $name .kernel.status.windows)
	works 'checkpoints' load --phase run --ops 200 --checkpoints 2
	works 'are seen' until_true "((\$(json $name .kernel.status.windows) > $windows))"
	is 'a noauto device is not made' "$(dmsetup info later 2>/dev/null)" ''
	works 'until it is asked for' systemctl start dsm@later
	asked
	works 'and goes' systemctl stop dsm@later
	in_container

	# To undo it all
	systemctl stop dsmd@$name
	works 'dsmd ends, and lets go of the file system' umount $dbpath
	works 'the unit removes the device' systemctl stop "$unit"
	is 'it is gone' "$(dmsetup ls)" 'No devices found'
	works 'the module unloads' modprobe -r dm-dsm
	works 'the file system is on the underlying device' mount "$(disk_by_serial fdp)" $dbpath
	works 'and so is the database' wtload check --dbpath $dbpath
	umount $dbpath
	systemctl start dsmd@$name
	systemctl start dsm-trial@$name.timer
	is "a trial's timer runs" "$(systemctl is-active dsm-trial@$name.timer)" active
	works 'the package is removed' dpkg --remove dsm-tools
	is 'and dsmd with it' "$(pgrep -x dsmd)" ''
	is 'and the timer' "$(systemctl is-active dsm-trial@$name.timer)" inactive
}

if [[ -e $kept/boundaries ]]; then
	second
	next=poweroff
else
	first
	next=reboot
fi
works 'the kernel has nothing to report' dsm-dmesg-clean
((!failed)) || journalctl -b -u 'dsmd@*' -u dsm-exporter -u 'dsm-mongo@*' -o cat | tail -n 30 | sed 's/^/# /'
echo end
sync
systemctl $next
