#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A drive that takes discards of 128 KiB: ranges go by windows of their own, what nobody has
# written since is cut inwards to whole granules, and the target says what was written.
. "$(dirname "$0")/lib.sh"
load_module

disk=$(disk_by_serial plain)
sectors=65536

window() { w=$(message t window | cut -d' ' -f2); }
# discard RANGE...: is done when the target has nothing to do any more
discard() {
	message t discard "$w" "$@" >/dev/null
	until_true '[[ $(field t discard_queued) == 0 ]]'
}
# zeroes SECTOR SECTORS: how many of these pages of the drive read as zeroes
zeroes() {
	blockdev --flushbufs "$disk"
	perl -e '
		my ($disk, $at, $sectors) = @ARGV;
		my ($n, $page) = (0);
		open(my $file, "<", $disk) or die "$disk: $!";
		sysseek($file, 512 * $at, 0);
		for (1 .. $sectors / 8) {
			sysread($file, $page, 4096) == 4096 or die "$disk: $!";
			$n += $page !~ /[^\0]/;
		}
		print "$n of ", $sectors / 8' "$disk" "$1" "$2"
}
seen() { echo "$(field t discarded) $(field t discarded_sectors) $(field t discard_short_sectors)"; }

dmsetup create t --table "0 $sectors dsm $disk 0 4 discard on discard_granularity 131072"
is 'the status has what the feature says' "$(field t discard_granularity) $(field t discard_alignment) $(field t discard_offset)" '131072 131072 0'
yes 'not zero' | dd of=/dev/mapper/t bs=1M count=8 iflag=fullblock oflag=direct status=none
begin t full
record t file 1 collection - "0:0:$sectors"
commit t >/dev/null
window
first=$w
discard 0:128 520:248
is 'what is too short is not discarded' "$(seen)" '0 0 376'
is 'and still on the drive' "$(zeroes 0 1024)" '0 of 128'
yes 'written' | dd of=/dev/mapper/t bs=4K seek=67 count=1 iflag=fullblock oflag=direct status=none
window
is 'the target says what was written' "$(message t written "$first" 512:256 "$w" 0:16)" 'written -0:16 -512:24 -544:224 1'
is 'since which window' "$(message t written "$w" 512:256)" 'written -512:256 0'
message t discard "$w" 0:128 "$first" 128:128 512:256 >/dev/null
until_true '[[ $(field t discard_queued) == 0 ]]'
is 'ranges of two windows make a whole granule' "$(seen)" '1 256 624'
is 'which reads as zeroes' "$(zeroes 0 256), $(zeroes 256 768)" '32 of 32, 0 of 96'
is 'a page that was written stays' "$(dd if="$disk" bs=4K skip=67 count=1 iflag=direct status=none | head -c 7)" 'written'
refused 'ranges do not overlap' 'discard: Ranges overlap at sector 64; none taken' message t discard "$w" 0:128 64:128
window
window
window
refused 'a window is known until three more have begun' "discard: Window $first is not valid; none taken" message t discard "$first" 0:256
dmsetup suspend t
dmsetup resume t
refused 'nor after a suspend' "discard: Window $w is not valid; none taken" message t discard "$w" 512:256
window
discard 512:256
is 'but from the next window on' "$(zeroes 512 256)" '32 of 32'
works 'discards are only watched' message t set discard watch
refused 'and then there are none' 'discard: discard is only watched' message t discard "$w" 768:256
is 'but answers' "$(message t written "$w" 768:8)" 'written -768:8 0'
message t set discard on
before=$(field t discarded_sectors)

works 'a start within a granule can be allowed' message t set discard_alignment 4096
discard 1032:256
is 'then a piece is as long, and begins at any page' "$(($(field t discarded_sectors) - before)), $(zeroes 1032 256)" '256, 32 of 32'
refused 'a size is a power of two' 'discard_granularity must be auto or a power of two from 4096 to 67108864' \
	message t set discard_granularity 98304
message t set discard_granularity auto
message t set discard_alignment auto
is 'without a feature it is the drive that says' "$(field t discard_granularity)" "$(<"$(queue "$disk")/discard_granularity")"
dmsetup remove t
done_testing
