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

sources() {
	printf "deb [signed-by=$keyring] %s %s main\n" \
		"$DSM_MIRROR" "$suite" "$DSM_MIRROR" "$suite-backports"
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
