#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The database is in a container, with mounts, root and processes of its own, and dsmd
# outside: the data directory under another path, and under an overlay, which is refused.
# In a container of systemd-nspawn it is in tests/packages/container.sh.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/atwork.sh"
load_module
modprobe -a xfs overlay

ssd=$(disk_by_serial fdp)
root=/tmp/root
mkdir -p $root
served() { dsmctl boundary show t 2>/dev/null | grep -q collection; }

# contained COMMAND...: in a container whose /mnt is what the function data mounts on
# $root/mnt, and which does not see the host's /tmp
contained() {
	data=$(declare -f data) root=$root mnt=$mnt unshare -m -p -f --kill-child bash -ec '
		eval "$data"
		mount --rbind / "$root"
		data
		mount -t tmpfs none "$root/tmp"
		mount -t proc proc "$root/proc"
		exec chroot "$root" "$@"' contained "$@"
}
agent() { dsmd t -o dbpath="$1" -o wait=false -o state-dir=/tmp/contained "${@:2}" 2>>/tmp/dsmd.log & agent=$!; }
begin() {
	contained "${run[@]}" --dbpath /mnt >/tmp/run.log 2>&1 &
	container=$!
	until_true 'grep -q "checkpoint 1" /tmp/run.log'
}
# end: as podman kill does it
end() {
	kill -9 "$(pgrep -f -n 'wtload linkbench')"
	wait $container 2>/dev/null
}

dsmctl create t "$ssd" --policy dsm >/dev/null
mkfs.xfs -q -f -K /dev/mapper/t
mount /dev/mapper/t $mnt
mkdir $mnt/data
data() { mount --bind "$mnt/data" "$root/mnt"; }
works 'a database is made in a container' \
	contained "${load[@]}" --dbpath /mnt
is 'which is on the host, too' "$(ls $mnt/data/WiredTiger)" $mnt/data/WiredTiger
begin
agent $mnt/data -o discard -o audit-pages=0
works 'dsmd serves it by the path of the host' until_true served
windows=$(json t .kernel.status.windows)
works 'checkpoints are seen' until_true "((\$(json t .kernel.status.windows) > $windows + 3))"
works 'the process in the container is known: its discards are followed' until_true \
	'(($(json t .agent.discard.files) > 0))'
works 'writes are counted for its files' eval \
	'(($(json t "[.regions[] | select(.class == \"collection\") | .total] | add") > 0))'
end
kill $agent
wait $agent
is 'dsmd ends when asked' $? 0

# The container's own file system
mkdir -p $mnt/{upper,work} /tmp/merged
mount -t overlay overlay -o "lowerdir=$mnt/data,upperdir=$mnt/upper,workdir=$mnt/work" /tmp/merged
refused 'an overlay' 'it is on overlayfs, whose extents are not locations on a device; XFS or ext4 is needed' \
	dsmd t -o dbpath=/tmp/merged -o wait=false -o state-dir=/tmp/contained
umount /tmp/merged
works 'the database is right' wtload check --dbpath $mnt/data
umount $mnt
dsmctl remove t
done_testing
