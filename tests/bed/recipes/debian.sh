# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# How a Debian root is made, for the recipes. To be sourced.
#
# Only the release itself and its backports are used: both come from the one
# mirror that every machine has, so the choice of versions does not depend on
# which of Debian's other archives are within reach.

suites=(trixie trixie-backports)	# the first is the release
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

packages() { grep -v '^#' "$1" | paste -sd,; }

sources() { printf "deb [signed-by=$keyring] $DSM_MIRROR %s main\n" "$@"; } # SUITE...

# The machine's way to the network (proxy, certificates, dates).
apt_network() { apt-config dump | grep -E '^Acquire::(https?|Check-Date|Check-Valid-Until|Retries)\b' || true; }

# own_apt DIR ARCHITECTURE SUITE...: from here on apt has a configuration of its own, in DIR,
# with these suites, for amd64 and ARCHITECTURE. Of the machine's it has the network only:
# that of a container often keeps no index, without which each command reads all lists
# again. A suite that the mirror does not have is left out.
own_apt() {
	local dir=$1 architecture=$2

	shift 2
	mkdir -p "$dir"/{lists,archives}/partial
	touch "$dir/status"
	sources "$@" >"$dir/sources.list"
	apt_network >"$dir/apt.conf"
	cat >>"$dir/apt.conf" <<-EOF
		APT::Architecture "amd64";
		APT::Architectures { "amd64"; "$architecture"; };
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Dir::State "$dir";
		Dir::State::status "$dir/status";
		Dir::Cache "$dir";
		Dir::Etc::main "/dev/null";
		Dir::Etc::parts "/dev/null";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		Dir::Etc::sourcelist "$dir/sources.list";
		Dir::Etc::sourceparts "/dev/null";
	EOF
	export APT_CONFIG=$dir/apt.conf
	apt-get -q update || true
}

# download DIR PACKAGE...: into DIR
download() { (cd "$1" && apt-get -q download "${@:2}"); }

# unpack DIR ROOT: the packages that lie in DIR, which are not installed: no script of theirs runs
unpack() {
	printf '%s\0' "$1"/*.deb | xargs -0 -P "$(nproc)" -I{} bash -o pipefail -c \
		'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"' unpack {} "$2"
	rm "$1"/*.deb
}

# debian_root DEST VARIANT PACKAGES [MMDEBSTRAP-OPTION...]
debian_root() {
	local dest=$1 variant=$2 include=$3 line network=()

	shift 3
	while read -r line; do
		network+=(--aptopt="$line")
	done < <(apt_network)
	sources "${suites[@]}" | mmdebstrap --mode=root --format=directory --variant="$variant" \
		"${network[@]}" --aptopt='Acquire::Languages "none"' \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/info/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--include="$include" "$@" "${suites[0]}" "$dest" -
}
