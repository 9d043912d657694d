# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the scripts here that record: a file system on a loop device, and the cache
# of what was recorded. To be sourced, with bed/lib.sh; the scripts set name.

# shellcheck disable=SC2154
tracing=/sys/kernel/tracing

# This machine lacks something.
cannot() { say "$name: $*"; exit 77; }

# recorded KEY...: where the recording made from KEY is kept; prints it and ends
# the script if it is there.
recorded() {
	local key

	key=$(echo "$*" | sha256sum)
	dir=$cache/recordings/$name-${key:0:16}
	[[ ! -e $dir/$name.rec ]] || { echo "$dir/$name.rec"; exit; }
}

# make_fs FS SIZE: mounts a new one on $work/mnt. /tmp is the same in all roots.
make_fs() {
	# Another recording may mount it at the same time.
	[[ -d $tracing/events ]] || mount -t tracefs none $tracing 2>/dev/null || [[ -d $tracing/events ]] ||
		cannot 'no tracefs'
	[[ -d $tracing/events/block ]] || cannot 'this kernel has no block tracepoints'
	work=$(mktemp -d /tmp/waf-record.XXXXXX)
	mounted=
	trap cleanup EXIT
	ensure tools
	truncate -s "$2" "$work/image"
	case $1 in
	ext4)	in_tools mkfs.ext4 -q -F "$work/image" ;;
	xfs)	ensure guest
		bwrap --ro-bind "$(artefact guest)" / --dev /dev --bind /tmp /tmp mkfs.xfs -q -f "$work/image" ;;
	*)	die "there is no file system $1 here: ext4 or xfs" ;;
	esac
	mkdir "$work/mnt"
	mount -o loop "$work/image" "$work/mnt" || cannot 'no loop device can be mounted'
	mounted=1
}

cleanup() {
	[[ -z $mounted ]] || umount "$work/mnt"
	rm -rf --one-file-system "$work"
}

# keep SUFFIX...: puts name.rec, and name.SUFFIX, from $work into the cache, and
# prints the recording's path; $work/log is the recorder's.
keep() {
	local suffix

	! grep -q 'events were lost' "$work/log" || die "$name: $(grep 'events were lost' "$work/log")"
	mkdir -p "$cache/recordings"
	rm -rf "$dir.partial"
	mkdir "$dir.partial"
	for suffix in rec "$@"; do
		mv "$work/$name.$suffix" "$dir.partial"
	done
	mv -T "$dir.partial" "$dir"
	say "$name: $(grep 'writes and discards' "$work/log" | sed 's/.*: //')"
	echo "$dir/$name.rec"
}
