# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The packages' test environment: what tests/bed/lib.sh does, with a Debian 13 system to
# install them in. To be sourced.

. "$(dirname "${BASH_SOURCE[0]}")/../bed/lib.sh"
. "$bed/results.sh" packages
packages=$checkout/tests/packages
debs=$checkout/build/deb
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$checkout/dkms.conf")

more_recipes() {
	case $1 in
	system|bookworm|firmware|oldest|release) echo "recipes/$1 packages/$1" ;;
	esac
}

package_artefact() (bed=$packages; artefact "$1")
package_ensure() (bed=$packages; ensure "$1")

# in_release CMD...: runs CMD in the root that releases are built in
in_release() (bed=$packages; in_root release "$@")

# source_tree DIR: the packages' sources, for in_tree
source_tree() {
	package_ensure release
	# The repository of a worktree is elsewhere.
	tools_binds=(--ro-bind "$(git rev-parse --path-format=absolute --git-common-dir)"{,})
	# cargo vendor waits for every other cargo that uses the same home.
	in_release env CARGO_HOME="$cache/cargo-vendor" userspace/packaging/source "$1"
	tools_binds=(--bind "$1" /build)
	kept=$cache/crates-release-$({ cat "$1"/dm-dsm-*/userspace/Cargo.{lock,toml} "$1"/dm-dsm-*/userspace/{*,testing/programs}/Cargo.toml; basename "$(package_artefact release)"; } |
		sha256sum | cut -c1-16)
	mkdir -p "$checkout/build"
	if [[ ! -d $checkout/build/release && -d $kept ]]; then
		cp -a "$kept" "$checkout/build/release.part"
		mv -T "$checkout/build/release.part" "$checkout/build/release"
	fi
	mkdir -p "$checkout/build/release"
}

# keep_crates: what has been compiled, so that another checkout compiles the dependencies
# no more
keep_crates() {
	[[ ! -d $kept ]] || return 0
	cp -a "$checkout/build/release" "$kept.$$"
	mv -T "$kept.$$" "$kept" || rm -rf "$kept.$$"
}

# As dpkg-buildpackage has it: what is compiled for one package need not be for the next.
released() { date +%s -d "$(sed -n 's/^ -- .*>  //p' "$checkout/userspace/packaging/debian/changelog" | head -n 1)"; }

# in_tree CMD...: runs CMD in the tree of source_tree. It has the same path every time, by
# which cargo finds what it has built; the programs are linked with the oldest C library.
in_tree() {
	local target env=(TARGETDIR="$checkout/build/release" SOURCE_DATE_EPOCH="$(released)")

	for target in x86_64 aarch64; do
		env+=("CC_${target}_unknown_linux_gnu=oldest-$target-linux-gnu-gcc"
			"CARGO_TARGET_${target^^}_UNKNOWN_LINUX_GNU_LINKER=oldest-$target-linux-gnu-gcc")
	done
	in_release env -C "/build/dm-dsm-$version" "${env[@]}" "$@"
}

# in_system ROOT CMD...: runs CMD in a copy of the system, as on a machine of its own
# that is not connected.
in_system() {
	bwrap --unshare-pid --unshare-net --unshare-uts --die-with-parent --cap-add ALL \
		--bind "$1" / --proc /proc --dev /dev --tmpfs /run --tmpfs /tmp \
		--ro-bind "$debs" /mnt --chdir / --clearenv \
		--setenv PATH /usr/sbin:/usr/bin --setenv HOME /root --setenv LC_ALL C.UTF-8 \
		--setenv DEBIAN_FRONTEND noninteractive -- "${@:2}"
}

# ---- the copy $root of a system --------------------------------------------------------

kernels() { (cd "$root/usr/lib/modules" && ls); }
install_in_root() { in_system "$root" apt-get -q install -y --no-install-recommends "$@"; }

# snapshot: every path, less what keeps a record of the past, and DKMS's own key
snapshot() {
	(cd "$root" && find . -xdev \( -path ./var/log -o -path ./var/cache -o -path ./var/lib/dpkg \
		-o -path ./var/lib/apt -o -path "./var/lib/dkms/mok.*" -o -path ./var/lib/systemd/deb-systemd-helper-enabled \
		-o -path ./var/lib/systemd/deb-systemd-helper-masked \) -prune -o -printf '%p %l\n' | sort)
}

# dkms_has VERSION: for every kernel the module is there, and DKMS agrees
dkms_has() {
	local kernel

	for kernel in $(kernels); do
		compgen -G "$root/usr/lib/modules/$kernel/updates/dkms/dm-dsm.ko*" || return
		in_system "$root" dkms status -k "$kernel" | tee /dev/stderr |
			grep -qx "dm-dsm/$1, $kernel, x86_64: installed" || return
		in_system "$root" modinfo -k "$kernel" -F vermagic dm-dsm | grep -q "^$kernel " || return
	done
	[[ $(compgen -G "$root/var/lib/dkms/dm-dsm/[0-9]*") == */"$1" ]]
}

no_module() { ! compgen -G "$root/usr/lib/modules/*/updates/dkms/dm-dsm*" && [[ ! -e $root/var/lib/dkms/dm-dsm ]]; }
