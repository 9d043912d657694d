#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The first process of a system with Secure Boot, into which DKMS has built the module.
# First the key that DKMS signs with is not known, and the kernel refuses; then it has
# been enrolled. tests/packages/secureboot starts this.
export PATH=/usr/sbin:/usr/bin LC_ALL=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs tmp /tmp
mount -t efivarfs efivarfs /sys/firmware/efi/efivars
exec >/dev/ttyS1 2>&1 </dev/null
echo		# behind what the firmware said

key=/var/lib/dkms/mok.pub
unsigned=/tmp/unsigned.ko

. /srv/results.sh secureboot
# says WHAT PATTERN COMMAND...: whatever its status
says() {
	local said

	said=$("${@:3}" 2>&1)
	if grep -qE "$2" <<<"$said"; then pass "$1"; else fail "$1: '$2' is not in '$(tail -n 3 <<<"$said")'"; fi
}
# As one types the password, twice
import() { printf '%s\n' "$(</srv/password)" "$(</srv/password)" | mokutil --import $key; }
leave() { # HOW
	echo "end $1"
	umount -a -t efivarfs
	sync
	mount -o remount,ro /
	echo "$1" >/proc/sysrq-trigger
	sleep 60
}

file=$(modinfo -F filename dm-dsm)
xz -dc "$file" >"$unsigned" 2>/dev/null || cp "$file" "$unsigned"
strip --strip-debug "$unsigned"		# what is behind the sections goes, too

works 'a module that Debian has signed is loaded' modprobe dm-mod
says 'Secure Boot is on' '^SecureBoot enabled' mokutil --sb-state
says 'and the kernel is locked down for it' 'locked down from EFI Secure Boot' dmesg
says 'DKMS has signed the module' '^sig_id: *PKCS#7' modinfo dm-dsm
refused 'without a signature it is refused' 'Key was rejected by service' insmod "$unsigned"
says 'which the log explains' 'Loading of unsigned module is rejected' dmesg
if [[ ! -e /srv/enrolled ]]; then
	says 'the key is not enrolled' 'is not enrolled' mokutil --test-key $key
	refused 'with a signature by a key that is not known, too' 'Key was rejected by service' modprobe dm-dsm
	says 'which the log explains as well' 'Loading of module with unavailable key is rejected' dmesg
	works 'the key is to be enrolled' import
	says 'at the next start' 'SHA1 Fingerprint' mokutil --list-new
	touch /srv/enrolled
	leave b
fi
says 'the key is enrolled' 'is already enrolled' mokutil --test-key $key
works 'the module is loaded' modprobe dm-dsm
says 'and is there' '^dsm +v[0-9]' dmsetup targets
leave o
