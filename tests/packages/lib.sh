# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The bed of the packages: what tests/bed/lib.sh does, with a Debian 13 system to
# install them in. To be sourced.

. "$(dirname "${BASH_SOURCE[0]}")/../bed/lib.sh"
packages=$checkout/tests/packages
debs=$checkout/build/deb

more_recipes() {
	case $1 in
	system|firmware) echo "recipes/$1 packages/$1" ;;
	esac
}

system_artefact() (bed=$packages; artefact system)
system_ensure() (bed=$packages; ensure system)
firmware_artefact() (bed=$packages; artefact firmware)
firmware_ensure() (bed=$packages; ensure firmware)

# in_system ROOT CMD...: runs CMD in a copy of the system, as on a machine of its own
# that is not connected.
in_system() {
	bwrap --unshare-pid --unshare-net --unshare-uts --die-with-parent --cap-add ALL \
		--bind "$1" / --proc /proc --dev /dev --tmpfs /run --tmpfs /tmp \
		--ro-bind "$debs" /mnt --chdir / --clearenv \
		--setenv PATH /usr/sbin:/usr/bin --setenv HOME /root --setenv LC_ALL C.UTF-8 \
		--setenv DEBIAN_FRONTEND noninteractive -- "${@:2}"
}

failed=0
pass() { echo "ok - packages: $*"; }
# shellcheck disable=SC2034 # the exit status of who sources this
fail() { echo "not ok - packages: $*"; failed=1; }

# works WHAT COMMAND...
works() {
	local what=$1 said

	shift
	if said=$("$@" 2>&1); then
		pass "$what"
	else
		fail "$what: $(tail -n 1 <<<"$said")"
		sed 's/^/# /' <<<"$said"
	fi
}

# is WHAT GOT WANTED
is() {
	if [[ $2 == "$3" ]]; then pass "$1"; else fail "$1: got '$2', not '$3'"; fi
}
