#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What the kernel would not take is known while the module is loaded: upgrade.md's first
# step. A kernel that is locked down stays so, so this is the last script.
. "$(dirname "$0")/lib.sh"
load_module

module=$(module_file)
build() { md5sum </sys/module/dm_dsm/notes/.note.gnu.build-id; }
loaded=$(build)
sed 's/vermagic=[5-7]/vermagic=4/' "$module" >/tmp/other.ko
refused 'one that it would take' 'File exists' insmod "$module"
refused 'one for another kernel' 'Invalid module format' insmod /tmp/other.ko
mount -t securityfs none /sys/kernel/security 2>/dev/null
if ! grep -q integrity /sys/kernel/security/lockdown; then
	# shellcheck disable=SC2154 # of results.sh
	((failed)) || skip 'this kernel has no lockdown'
	done_testing
fi
echo integrity >/sys/kernel/security/lockdown
refused 'one that is not signed, locked down' 'Operation not permitted' insmod "$module"
is 'the module that was loaded is' "$(build)" "$loaded"
done_testing
