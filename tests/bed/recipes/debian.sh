# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# How a Debian root is made, for the recipes. To be sourced.
#
# Only the release itself and its backports are used: both come from the one
# mirror that every machine has, so the choice of versions does not depend on
# which of Debian's other archives are within reach.

suite=trixie
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

packages() { grep -v '^#' "$1" | paste -sd,; }

# Mirrors in the order of the machine's own sources. apt knows a repository's
# origin only after an update.
apt_mirrors() {
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Identifier: Packages' |
		sed -n 's/^Debian|Debian|//p' | grep -E '^(https?|mirror\+file):'
}

# Cloud images name a file of mirrors instead of a mirror.
first_of_mirror_file() {
	case $1 in
	mirror+file:*) awk '/^[^#]/ { print $1; exit }' "${1#mirror+file:}" ;;
	*) echo "$1" ;;
	esac
}

mirror() {
	local uris=${DSM_MIRROR:-}

	[[ $uris ]] || uris=$(apt_mirrors) || { apt-get update >&2 || true; uris=$(apt_mirrors); } || {
		echo 'apt has no Debian mirror configured; name one in DSM_MIRROR' >&2
		return 1
	}
	first_of_mirror_file "${uris%%$'\n'*}"
}

sources() {
	local uri

	uri=$(mirror)
	printf "deb [signed-by=$keyring] %s %s main\n" "$uri" "$suite" "$uri" "$suite-backports"
}

# The machine's way to the network (proxy, certificates, dates).
apt_network() { apt-config dump | grep -E '^Acquire::(https?|Check-Date|Check-Valid-Until|Retries)\b' || true; }

# debian_root DEST VARIANT PACKAGES [MMDEBSTRAP-OPTION...]
debian_root() {
	local dest=$1 variant=$2 include=$3 line network=()

	shift 3
	while read -r line; do
		network+=(--aptopt="$line")
	done < <(apt_network)
	sources | mmdebstrap --mode=root --format=directory --variant="$variant" \
		"${network[@]}" --aptopt='Acquire::Languages "none"' \
		--dpkgopt=force-unsafe-io \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/info/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--include="$include" "$@" "$suite" "$dest" -
}
