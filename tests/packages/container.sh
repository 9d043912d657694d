# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: GPL-2.0-only
#
# The database in a container of systemd-nspawn, which has a root, mounts, processes and
# users of its own, and dsmd outside, as its unit runs it. For boot-guest.sh.

machine=/var/lib/machines/db
work_log=/run/container.log

# A root with the workload, a shell, mount, and what they are linked with.
make_machine() {
	local program file

	mkdir -p $machine/{dev,etc,proc,run,sys,tmp,data/db} $machine/usr/{bin,lib,lib64}
	ln -sr $machine/usr/{bin,lib,lib64} $machine
	cp /etc/os-release $machine/etc
	cp -L "$(dirname "$(command -v wtload)")"/libwiredtiger* $machine/usr/bin
	for program in wtload sh mount; do
		cp -L "$(command -v $program)" $machine/usr/bin
	done
	ldd $machine/usr/bin/* | grep -o '/[^ ]*[^ :]' | sort -u | while read -r file; do
		case $file in
		/lib*)	cp -L --parents "/usr$file" $machine ;;
		/usr/*)	cp -L --parents "$file" $machine ;;
		esac
	done
}

# contained OPTION... -- COMMAND...: until end_container, in the background
contained() {
	systemd-nspawn --quiet --pipe --as-pid2 --machine=db --directory=$machine --resolv-conf=off --timezone=off \
		--link-journal=no "$@" >$work_log 2>&1 </dev/null &
	container=$!
}
workload='wtload linkbench --dbpath /data/db --phase run --nodes 500 --cache-mb 20 --journal-mb 4 --seconds 86400 --checkpoint-seconds 2'
works_there() { # WHAT
	until_true "grep -q 'checkpoint 1' $work_log || ! kill -0 $container"
	if inside=$(pgrep -x wtload); then pass "$1"; else fail "$1: $(tail -n 3 $work_log)"; return 1; fi
}
# As podman kill does it
end_container() {
	kill -9 "$inside"
	wait $container
}

# shared WHAT: the namespaces that the database and dsmd both have
shared() {
	local kind

	for kind in mnt pid user; do
		[[ $(readlink "/proc/$inside/ns/$kind") != $(readlink "/proc/$(of_dsmd MainPID)/ns/$kind") ]] || echo $kind
	done
}
total() { json $name '[.regions[] | select(.class == "collection" or .class == "index") | .total] | add'; }
sees_it() { # WHERE
	local windows before

	windows=$(json $name .kernel.status.windows) before=$(total)
	works "$1: checkpoints are seen" until_true "((\$(json $name .kernel.status.windows) > $windows + 2))"
	works "$1: writes are stamped and counted for the files" until_true "((\$(total) > $before))"
	works "$1: the process is known: its discards are followed" until_true \
		"((\$(json $name .agent.discard.files) > 0))"
}

in_container() {
	local first=524288

	make_machine
	printf 'discard = true\naudit-pages = 0\n' >>/etc/dsm/$name.toml
	systemctl restart dsmd@$name
	works 'dsmd serves the database with discards' until_true served

	# The host's directory, as a volume; root of the container is nobody here.
	chown -R $first:$first $dbpath
	contained --private-users=$first:65536 --private-users-ownership=chown --bind=$dbpath:/data/db -- $workload
	works_there 'a database works in a container of systemd-nspawn' || return
	is 'a volume: it shares no namespace with dsmd' "$(shared)" ''
	is 'a volume: it is a user that the host does not know' "$(stat -c %u "/proc/$inside" $dbpath/WiredTiger.turtle | xargs)" "$first $first"
	is 'a volume: the host'\''s path is not there' "$(ls -d "/proc/$inside/root$dbpath" 2>/dev/null)" ''
	works 'a volume: dsmd serves it by the host'\''s path' until_true served
	sees_it 'a volume'
	end_container
	chown -R root:root $machine $dbpath
	works 'a volume: the container was killed, and the database is right' wtload check --dbpath $dbpath

	# A file system that only the container has mounted
	# Its root is root here, too, and may do more than dsmd.
	systemctl stop dsmd@$name
	mkdir -p /run/systemd/system/dsmd@$name.service.d
	printf '[Service]\nCapabilityBoundingSet=CAP_SYS_PTRACE\n' >/run/systemd/system/dsmd@$name.service.d/root.conf
	systemctl daemon-reload
	umount $dbpath
	contained --bind=/dev/mapper/$name --property="DeviceAllow=/dev/mapper/$name rw" -- \
		sh -c "mount -t xfs /dev/mapper/$name /data/db && exec $workload"
	works_there 'a database works on a file system that its container has mounted' || return
	is 'mounted inside: it is not mounted outside' "$(findmnt -n "/dev/mapper/$name")" ''
	refused 'mounted inside: dsmd cannot get to it' 'No such file or directory' \
		dsmd $name -o dbpath="/proc/$inside/root/data/db" -o wait=false -o state-dir=/run/elsewhere
	systemctl start dsmd@$name
	works 'mounted inside: dsmd says what it waits for' until_true \
		"journalctl -b -q -u dsmd@$name -o cat | grep -qF '$dbpath: it is not a data directory of MongoDB'"
	works 'mounted inside: the host mounts it, too' mount $dbpath
	works 'mounted inside: dsmd serves it' until_true served
	sees_it 'mounted inside, and outside'
	end_container
	works 'mounted inside: the container was killed, and the database is right' wtload check --dbpath $dbpath
	rm /run/systemd/system/dsmd@$name.service.d/root.conf
	systemctl daemon-reload
	sed -i '/^discard = /d' /etc/dsm/$name.toml
}
