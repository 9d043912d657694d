#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Every command that the README and the pages show, in their order. The two
# names that every reader puts in place, of the drive and of its namespace, are
# those of the guest.
. "$(dirname "$0")/lib.sh"

ssd_here=$(disk_by_serial fdp)
drive_here=/dev/$(basename "$(dirname "$(grep -l '^fdp *$' /sys/class/nvme/nvme*/serial)")")
modprobe -a dm-mod xfs
# As a package would: the module where modprobe finds it, and mongod's user.
cp "$(module_file)" "/lib/modules/$(uname -r)/"
depmod
ip link set lo up
echo 'mongodb:x:999:999::/var/lib/mongodb:/usr/sbin/nologin' >>/etc/passwd
echo 'mongodb:x:999:' >>/etc/group
cd /run || exit 1

# begin PAGE: from nothing
begin() {
	# shellcheck disable=SC2046 # numbers
	kill $(jobs -p) 2>/dev/null
	wait
	umount -qR /var/lib/mongodb /srv/dsm
	dmsetup remove_all
	wipefs -qa "$ssd_here"
	rm -rf /var/lib/mongodb /var/lib/dsmd /srv/dsm /etc/dsm-mongo /etc/dsm /etc/dsmd.rules
	mkdir /etc/dsm
}

here() {
	local command=$1

	[[ $command != ssd=* ]] || command=ssd=$ssd_here
	[[ $command != drive=* ]] || command=drive=$drive_here
	echo "$command"
}

step() { # WHERE COMMAND
	local status=0

	eval "$(here "$2")" >/tmp/said 2>&1 </dev/null || status=$?
	if ((!status)); then pass "$1: $2"; else fail "$1: $2: status $status: $(tail -n 3 /tmp/said)"; fi
}

refused() { # WHERE REASON WHY COMMAND
	if eval "$4" >/tmp/said 2>&1 </dev/null; then
		fail "$1: $4: it was not refused"
	elif grep -qF "$2" /tmp/said; then
		pass "$1: $4: refused here: $3"
	else
		fail "$1: $4: '$2' was not said, but: $(tail -n 3 /tmp/said)"
	fi
}

put() { # WHERE PATH TEXT
	if printf '%s\n' "$3" >"$2"; then pass "$1: $2 is written"; else fail "$1: $2 cannot be written"; fi
}

# For the record only.
elsewhere() { echo "# docs: not run here: $1: $3 ($2)"; }

commands=$(cd /run/job/docs && python3 commands.py README.md Documentation/*.md) || { fail 'the pages can be read'; done_testing; }
eval "$commands"
begin
done_testing
