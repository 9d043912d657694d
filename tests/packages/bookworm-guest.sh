#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A Debian 12 system with its own kernel 6.1, systemd and the packages. In the first boot
# README's installation is followed word by word, below a database at work; in the second
# device, agent and discards are there, and what README says undoes it. tests/packages/boot
# starts this.
ln -sT /srv /run/job
cd /srv || exit
. ./lib.sh

name=dsm
dbpath=/var/lib/mongodb
kept=/var/lib/boot-test
ssd=$(disk_by_serial plain)

# wtload is Debian 13's, with its libraries.
wt() { bin/ld-linux-x86-64.so.2 --library-path bin bin/wtload "$@"; }
linkbench() { wt linkbench --dbpath $dbpath --nodes 1500 --cache-mb 20 --journal-mb 4 "$@"; }
mongod() {
	local phase=all

	[[ ! -e $dbpath/WiredTiger.turtle ]] || phase=run
	linkbench --phase $phase --ops 1000000 --checkpoints 5000 --think-us 5000
}
[[ ${1:-} != mongod ]] || { mongod; exit; }

# What the package of mongod brings along: a user, a directory and a unit.
mongod_installed() {
	useradd --system --home-dir $dbpath --shell /usr/sbin/nologin mongodb
	install -d -o mongodb -g mongodb $dbpath
	cat >/etc/systemd/system/mongod.service <<-UNIT
		[Service]
		User=mongodb
		ExecStart=/bin/bash /srv/boot-guest.sh mongod
		[Install]
		WantedBy=multi-user.target
	UNIT
	systemctl daemon-reload
	systemctl -q enable mongod
}

# What readme.sh calls: the commands of the blocks that systemd and mongod are needed for.
begin() { :; }
step() { :; }
elsewhere() { # WHERE WHY COMMAND
	local command=${3//\/dev\/nvme0n1/$ssd}

	[[ $2 == *systemd* ]] || return 0
	[[ $command != *--watch ]] || command="timeout --preserve-status --signal INT 5 $command"
	works "README: $3" eval "$command"
}

discarded() { (($(field $name discarded_sectors) > 0)); }
of_dsmd() { systemctl show -P "$1" dsmd@$name; }
exported() {
	local web said

	exec {web}<>/dev/tcp/127.0.0.1/19187 || return
	printf 'GET /metrics HTTP/1.0\r\n\r\n' >&"$web"
	said=$(cat <&"$web")
	exec {web}>&-
	grep -q "^dsm_discarded_bytes_total{device=\"$name\"} [1-9]" <<<"$said"
}

at_work() {
	is 'systemd knows that dsmd is ready' "$(of_dsmd Type) $(of_dsmd ActiveState)" 'notify active'
	is 'with four capabilities' "$(sed -n 's/^CapEff:\t*//p' "/proc/$(of_dsmd MainPID)/status")" 00000000002000c4
	works 'its table has the files' until_true "((\$(json $name .kernel.status.files) > 10))"
	works 'checkpoints are counted' until_true "((\$(json $name .kernel.status.windows) >= 10))"
	works 'the audit passes, and what checkpoints have freed is discarded' until_true discarded
	works 'dsm-exporter shows it' until_true exported
	echo "# $(dmsetup status $name)"
	works 'nothing is wrong' dsmctl doctor
}

first() {
	matches 'the kernel is 6.1' "$(uname -r)" '^6\.1\.'
	mongod_installed
	. ./readme.sh
	at_work
	works 'all of the database is loaded' until_true "journalctl -b -u mongod -o cat | grep -q '^load: done'"
}

second() {
	works 'the file system is mounted' until_true "mountpoint -q $dbpath"
	is 'from the dsm device' "$(findmnt -n -o SOURCE,FSTYPE $dbpath | xargs)" "/dev/mapper/$name xfs"
	matches 'for which mongod has waited' "$(systemctl show -P Requires mongod) / $(systemctl show -P After mongod)" \
		'var-lib-mongodb.mount.* / .*var-lib-mongodb.mount'
	is 'all of it runs' "$(systemctl is-active mongod dsmd@$name dsm-exporter dsm@$name | uniq)" active
	at_work

	systemctl stop mongod dsmd@$name dsm-exporter
	works 'undone: unmounted' umount $dbpath
	works 'undone: removed' dsmctl remove $name
	rm /etc/dsm/$name.toml
	works 'the drive itself is mounted' mount -t xfs "$ssd" $dbpath
	works 'the database opens, and all of it is right' linkbench --phase run --ops 100 --checkpoints 2
	works 'and so it is to WiredTiger' wt check --dbpath $dbpath
	umount $dbpath
	works 'the module is unloaded' modprobe -r dm-dsm
}

next=poweroff
if [[ -e $kept ]]; then
	second
else
	first
	touch $kept
	next=reboot
fi
is 'no unit has failed' "$(systemctl list-units --failed --plain --no-legend | cut -d' ' -f1 | paste -sd' ')" ''
dsm-dmesg-clean || fail 'the kernel log has warnings or errors'
# shellcheck disable=SC2154 # of results.sh
((!failed)) || journalctl -b -u 'dsm*' -u mongod -o cat | tail -n 40 | sed 's/^/# /'
echo end
sync
systemctl $next
