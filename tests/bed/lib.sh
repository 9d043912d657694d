# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Shared by the commands in this folder: the cache, what is kept in it, and
# the way into the tools root. To be sourced.

bed=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
checkout=$(cd "$bed/../.." && pwd -P)
cache=${DSM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dm-dsm}

say() { printf 'bed: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# usage: the comment block below the SPDX line of the command is its manual.
usage() { sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# ---- the cache ------------------------------------------------------------

# Artefacts are folders "<name>-<key>": the key covers everything in this
# folder the artefact is made from, never the mirror or the time.
recipe_of() {
	case $1 in
	tools)	echo recipes/tools recipes/debian.sh recipes/add-kernels packages/tools ;;
	guest)	echo recipes/guest recipes/debian.sh packages/guest ;;
	image)	recipe_of tools; recipe_of guest
		echo recipes/image guest-init guest-lib.sh dsm-dmesg-clean ;;
	esac
}

artefact() {
	local files key

	read -ra files <<<"$(recipe_of "$1" | tr '\n' ' ')"
	key=$(cd "$bed" && cat "${files[@]}" | sha256sum)
	echo "$cache/$1-${key:0:16}"
}

# An artefact nobody asked for in a month belongs to a recipe of the past.
forget_unused() {
	find "$cache" -mindepth 1 -maxdepth 1 -type d -name "$1-*" -mtime +30 \
		-exec rm -rf --one-file-system {} +
}

# build NAME DIR: runs recipes/NAME under a lock and gives its result the
# final name only when it is complete. The recipe has a PID namespace so that
# an interrupted build takes all its children along.
build() {
	local name=$1 dir=$2 partial=$2.partial log=$cache/$1.log start=$SECONDS lock child

	exec {lock}>"$cache/$name.lock"
	flock -n "$lock" || { say "$name: waiting for another build"; flock "$lock"; }
	[[ ! -d $dir ]] || { exec {lock}>&-; return 0; }
	say "$name: building, log in $log"
	forget_unused "$name"
	rm -rf --one-file-system "$partial"
	unshare --pid --fork --kill-child --mount-proc \
		"$bed/recipes/$name" "$partial" >"$log" 2>&1 </dev/null &
	child=$!
	trap 'kill -KILL $child 2>/dev/null; exit 130' INT TERM
	wait "$child" || { tail -n 20 "$log" >&2; die "$name: failed after $((SECONDS - start)) s"; }
	trap - INT TERM
	mv -T "$partial" "$dir"
	exec {lock}>&-
	say "$name: built in $((SECONDS - start)) s, $(du -sh "$dir" | cut -f1)"
}

# ensure NAME: builds what is not there and marks it as used.
ensure() {
	local dir

	dir=$(artefact "$1")
	[[ -d $dir ]] || { need_host; mkdir -p "$cache"; build "$1" "$dir"; }
	touch "$dir"
}

# prepare: all artefacts. The roots have nothing to do with each other.
prepare() {
	local name builds=()

	if [[ ! -d $(artefact tools) || ! -d $(artefact guest) ]]; then
		need_host
		for name in tools guest; do
			ensure "$name" &
			builds+=($!)
		done
		trap 'kill "${builds[@]}" 2>/dev/null; exit 130' INT TERM
		wait "${builds[0]}" || { kill "${builds[1]}" 2>/dev/null; exit 1; }
		wait "${builds[1]}" || exit 1
		trap - INT TERM
	fi
	ensure image
}

# scratch: prints a new folder on the cache's disk (/tmp may be memory).
scratch() {
	mkdir -p "$cache/run"
	find "$cache/run" -mindepth 1 -maxdepth 1 -mtime +1 -exec rm -rf {} +
	mktemp -d "$cache/run/XXXXXXXX"
}

# ---- the host -------------------------------------------------------------

need_host() {
	local missing=()

	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
	command -v bwrap >/dev/null || missing+=(bubblewrap)
	compgen -G '/usr/share/keyrings/debian-archive-trixie-automatic.*' >/dev/null ||
		missing+=(debian-archive-keyring)
	((${#missing[@]})) || return 0
	mkdir -p "$cache"
	((EUID == 0)) || die "needs ${missing[*]}: install them, or run this once as root"
	say "host: installing ${missing[*]}"
	host_install "${missing[@]}" >"$cache/host.log" 2>&1 ||
		{ tail -n 20 "$cache/host.log" >&2; die "host: cannot install ${missing[*]}"; }
}

# Repositories of third parties may be out of reach; the installation decides.
host_install() {
	apt-get update || true
	DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
		install -y --no-install-recommends "$@"
}

# ---- the tools root -------------------------------------------------------

# in_tools CMD...: runs CMD in the tools root, which must be there. Only /tmp,
# the cache, the checkout and the current folder are the host's; the root
# itself is read-only because all users share it. The array tools_binds takes
# further options for bwrap.
tools_binds=()

in_tools() {
	local root dir args=()

	root=$(artefact tools)
	for dir in bin lib lib64 sbin; do
		args+=(--symlink "usr/$dir" "/$dir")
	done
	for dir in usr etc var; do
		args+=(--ro-bind "$root/$dir" "/$dir")
	done
	args+=(--proc /proc --dev /dev --dev-bind-try /dev/kvm /dev/kvm --ro-bind /sys /sys)
	args+=(--dir /run --dir /root --bind /tmp /tmp --tmpfs /var/tmp)
	for dir in resolv.conf hosts ssl/certs/ca-certificates.crt; do
		args+=(--ro-bind-try "/etc/$dir" "/etc/$dir")
	done
	for dir in "$cache" "$checkout" "$PWD"; do
		args+=(--bind "$dir" "$dir")
	done
	mkdir -p "$cache/cargo"
	bwrap --unshare-pid --die-with-parent "${args[@]}" \
		"${tools_binds[@]}" --chdir "$PWD" \
		--setenv PATH /usr/sbin:/usr/bin --setenv HOME /root \
		--setenv LC_ALL C.UTF-8 --setenv CARGO_HOME "$cache/cargo" \
		--unsetenv LD_LIBRARY_PATH --unsetenv LD_PRELOAD \
		--unsetenv RUSTUP_TOOLCHAIN --unsetenv RUSTC_WRAPPER -- "$@"
}
