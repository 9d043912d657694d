#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A drive that takes discards of 128 KiB: pages that are named are dead until they are written,
# and a granule is discarded when all of it is.
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
seen() { echo "$(field t discarded) $(field t discarded_sectors) $(field t discard_dead_sectors)"; }

dmsetup create t --table "0 $sectors dsm $disk 0 4 discard on discard_granularity 131072"
is 'the status has what the feature says' "$(field t discard_granularity) $(field t discard_alignment)" '131072 131072'
yes 'not zero' | dd of=/dev/mapper/t bs=1M count=8 iflag=fullblock oflag=direct status=none
begin t full
record t file 1 collection - "0:0:$sectors"
commit t >/dev/null
window
discard 0:128 520:248
is 'what is too short is dead' "$(seen)" '0 0 376'
is 'and still on the drive' "$(zeroes 0 1024)" '0 of 128'
window
window
discard 128:128
is 'a granule that was freed at three checkpoints is discarded' "$(seen)" '1 256 504'
is 'and reads as zeroes' "$(zeroes 0 256), $(zeroes 256 768)" '32 of 32, 0 of 96'

yes 'written' | dd of=/dev/mapper/t bs=4K seek=67 count=1 iflag=fullblock oflag=direct status=none
window
window
window
discard 512:8
is 'a page that was written is not dead any longer' "$(seen)" '1 256 504'
is 'nor discarded' "$(zeroes 512 256)" '0 of 32'
is 'it has what was written' "$(dd if="$disk" bs=4K skip=67 count=1 iflag=direct status=none | head -c 8)" 'written'
discard 536:8
is 'until it is free again' "$(seen), $(zeroes 512 256)" '2 512 512, 32 of 32'

works 'userspace has the target forget' message t forget
is 'and it does' "$(seen)" '2 512 0'
discard 768:128
dmsetup suspend t
dmsetup resume t
window
discard 896:128
is 'a suspend makes it forget as well' "$(seen), $(zeroes 768 256)" '2 512 128, 0 of 32'

works 'a start within a granule can be allowed' message t set discard_alignment 4096
discard 1032:200
discard 1232:56
is 'then a piece is as long, and begins at any page' "$(field t discarded_sectors), $(zeroes 1032 256)" '768, 32 of 32'
refused 'a size is a power of two' 'discard_granularity must be auto or a power of two from 4096 to 67108864' \
	message t set discard_granularity 98304
message t set discard_granularity auto
message t set discard_alignment auto
is 'without a feature it is the drive that says' "$(field t discard_granularity)" "$(<"$(queue "$disk")/discard_granularity")"
dmsetup remove t
done_testing
