# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Shared by the commands in this folder: the cache, what is kept in it, and
# the way into the tools root. To be sourced.

! declare -F in_tools >/dev/null || return 0
bed=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
checkout=$(cd "$bed/../.." && pwd -P)
cache=$(realpath -m "${DSM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/dm-dsm}")

say() { printf 'tests/bed: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# usage: the comment block below the SPDX line of the command is its manual.
usage() { sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# ---- the cache ------------------------------------------------------------

# Artefacts are folders "<name>-<key>": the key covers everything in this
# folder the artefact is made from, never the mirror or the time. The image has
# the tools root's kernels, whichever these came to be.
recipe_of() {
	case $1 in
	tools)	echo recipes/tools recipes/debian.sh recipes/add-kernels packages/tools packages/kernels ;;
	demo)	echo recipes/demo recipes/debian.sh recipes/add-kernels packages/demo packages/kernels ;;
	guest)	echo recipes/guest recipes/debian.sh packages/guest ;;
	dashboard) echo recipes/dashboard recipes/debian.sh packages/dashboard ;;
	mongo)	echo recipes/mongo recipes/debian.sh packages/mongo packages/mongo.pip packages/mongo.npm ;;
	wiredtiger) echo recipes/wiredtiger recipes/debian.sh packages/wiredtiger packages/wiredtiger.pip ;;
	image)	recipe_of guest
		recipe_of wiredtiger
		echo recipes/image guest-init guest-lib.sh dsm-dmesg-clean ;;
	engines) echo recipes/engines recipes/debian.sh packages/engines ;;
	*)	more_recipes "$1" ;;
	esac
}

# A test environment with recipes of its own defines this; they are relative to its folder.
more_recipes() { :; }

# The demo has a smaller root in the place of the tools root: DSM_TOOLS=demo.
artefact() {
	local files key kernels=/dev/null

	[[ $1 != tools ]] || set -- "${DSM_TOOLS:-tools}"
	read -ra files <<<"$(recipe_of "$1" | tr '\n' ' ')"
	[[ $1 != image ]] || kernels=$(artefact tools)/usr/lib/dsm-bed/kernels
	key=$(cd "$bed" && cat "${files[@]}" "$kernels" | sha256sum)
	echo "$cache/$1-${key:0:16}"
}

# An artefact nobody asked for in a month belongs to a recipe of the past.
forget_unused() {
	find "$cache" -mindepth 1 -maxdepth 1 -type d -name "$1-*" -mtime +30 \
		-exec rm -rf --one-file-system {} +
}

# build NAME DIR: runs recipes/NAME under a lock and gives its result the
# final name only when it is complete. The recipe has a PID namespace so that
# an interrupted build takes all its children along. The first process of that namespace
# inherits the processes that bwrap leaves behind, and waits for them, so their processor time
# is part of its own: nothing is written to DSM_TIMES, which would count it twice.
build() {
	local name=$1 dir=$2 partial=$2.partial log=$cache/$1.log start=$SECONDS lock child

	exec {lock}>"$cache/$name.lock"
	flock -n "$lock" || { say "$name: waiting for another build"; flock "$lock"; }
	[[ ! -d $dir ]] || { exec {lock}>&-; return 0; }
	say "$name: building, log in $log"
	forget_unused "$name"
	rm -rf --one-file-system "$partial"
	# shellcheck disable=SC2016
	env -u DSM_TIMES unshare --pid --fork --kill-child --mount-proc bash -c '
		status=0
		"$@" || status=$?
		for ((i = 0; i < 50; i++)); do
			read -r left </proc/1/task/1/children
			[[ $left ]] || break
			sleep 0.1
		done
		exit $status' recipe "$bed/recipes/$name" "$partial" >"$log" 2>&1 </dev/null &
	child=$!
	trap 'kill -KILL $child 2>/dev/null; exit 130' INT TERM
	wait "$child" || { tail -n 20 "$log" >&2; die "$name: failed after $((SECONDS - start)) s"; }
	trap - INT TERM
	mv -T "$partial" "$dir"
	exec {lock}>&-
	say "$name: built in $((SECONDS - start)) s, $(du -sh "$dir" | cut -f1)"
}

# kept NAME OUT COMMAND...: leaves in OUT what COMMAND, with a new folder behind it, makes there; or
# what it made when standard input was the same, which says all that this depends on. What
# fails is not kept. With DSM_AGAIN nothing that was kept is used.
kept() {
	local name=$1 out=$2 key made

	key=$(sha256sum)
	made=$cache/$name-${key:0:16}
	if [[ ! -d $made || ${DSM_AGAIN:-} ]]; then
		rm -rf "$made.$BASHPID"
		mkdir -p "$made.$BASHPID"
		"${@:3}" "$made.$BASHPID" || { rm -rf "$made.$BASHPID"; return 1; }
		rm -rf "$made"
		mv -T "$made.$BASHPID" "$made" 2>/dev/null || rm -rf "$made.$BASHPID"
		forget_unused "$name"
	fi
	touch "$made"
	mkdir -p "$out"
	cp -a "$made/." "$out"
}

# contents FOLDER: of all files in it, for kept
contents() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

# ensure NAME: builds what is not there and marks it as used.
ensure() {
	local dir name

	dir=$(artefact "$1")
	name=${dir##*/}
	[[ -d $dir ]] || { need_host; mkdir -p "$cache"; build "${name%-*}" "$dir"; }
	touch "$dir"
}

# prepare: all artefacts. The roots have nothing to do with each other.
prepare() {
	local name builds=()

	if [[ ! -d $(artefact tools) || ! -d $(artefact guest) || ! -d $(artefact wiredtiger) ]]; then
		need_host
		for name in tools guest wiredtiger; do
			ensure "$name" &
			builds+=($!)
		done
		trap 'kill "${builds[@]}" 2>/dev/null; exit 130' INT TERM
		for name in "${builds[@]}"; do
			wait "$name" || { kill "${builds[@]}" 2>/dev/null; exit 1; }
		done
		trap - INT TERM
	fi
	ensure image
}

# own_job LABEL NAME: makes build/job-NAME, which is as build/job-LABEL but for what is
# put there. Whoever puts a file there removes the one of that name first.
own_job() {
	rm -rf "$checkout/build/job-$2"
	cp -al "$checkout/build/job-$1" "$checkout/build/job-$2"
}

# scratch: prints a new folder on the cache's disk (/tmp may be memory).
scratch() {
	mkdir -p "$cache/run"
	find "$cache/run" -mindepth 1 -maxdepth 1 -mtime +1 -exec rm -rf {} +
	mktemp -d "$cache/run/XXXXXXXX"
}

# ---- what hangs -----------------------------------------------------------

# guarded SECONDS FILE COMMAND...: runs COMMAND, whose output grows FILE, until it ends or
# hangs. It hangs when it has used SECONDS of processor time without a word, or when for
# ten minutes it has neither used nor waited for a processor a tenth of the time. How busy the machine is
# does not matter. Exit status: COMMAND's; 124 when it hung, and FILE.hung says how.
idle=600
guarded() {
	local child watcher status=0

	rm -f "$2.hung"
	"${@:3}" &
	child=$!
	watch_progress "$child" "$1" "$2" </dev/null >/dev/null 2>&1 &
	watcher=$!
	wait "$child" 2>/dev/null || status=$?
	kill "$watcher" 2>/dev/null || true
	wait "$watcher" 2>/dev/null || true
	[[ ! -e $2.hung ]] || status=124
	return "$status"
}

watch_progress() { # PID SECONDS FILE
	local size=0 mark=0 calm=0 since=$SECONDS used waited now

	while sleep 5; do
		read -r used waited < <(processor_time "$1")
		now=$(stat -c %s "$3" 2>/dev/null) || now=0
		((now == size && used >= mark)) || size=$now mark=$used
		if ((used + waited < calm || used + waited > calm + 10 * idle)); then
			calm=$((used + waited)) since=$SECONDS
		fi
		if ((used - mark > $2 * 100)); then
			echo "it has used $2 s of processor time without a word" >"$3.hung"
		elif ((SECONDS - since > idle)); then
			echo "for $idle s it has hardly used a processor, nor waited for one" >"$3.hung"
		else
			continue
		fi
		kill "$1"
		return
	done
}

# For the kernel's command line: its own clocks, by which a guest hangs that is only slow
# because the machine is busy.
# shellcheck disable=SC2034 # the commands that boot have it
patient='sysctl.kernel.hung_task_timeout_secs=1800 workqueue.watchdog_thresh=1800'

# processor_time PID: what it and its descendants have used of processors, and how long
# they have waited for one, in hundredths of a second
processor_time() {
	local pid stat file used=0 waited=0 wait level=("$1") pids=()

	while ((${#level[@]})); do
		pids+=("${level[@]}")
		read -ra level < <(for pid in "${level[@]}"; do cat /proc/"$pid"/task/*/children; done 2>/dev/null | paste -sd' ') || level=()
	done
	for pid in "${pids[@]}"; do
		{ read -r stat <"/proc/$pid/stat"; } 2>/dev/null || continue
		read -ra stat <<<"${stat##*) }"
		used=$((used + stat[11] + stat[12] + stat[13] + stat[14]))
		for file in /proc/"$pid"/task/*/schedstat; do
			{ read -r _ wait _ <"$file"; } 2>/dev/null && waited=$((waited + wait / 10000000))
		done
	done
	echo "$used $waited"
}

# accelerator: QEMU's, $DSM_ACCEL or KVM where it runs a kernel of ours: there are machines
# that have /dev/kvm and run none. What was found holds until the machine boots again.
accelerator() {
	local known

	known=$cache/run/accelerator-$(</proc/sys/kernel/random/boot_id)
	if [[ ${DSM_ACCEL:-} ]]; then
		echo "$DSM_ACCEL"
	elif [[ ! -w /dev/kvm ]]; then
		echo tcg,thread=multi
	else
		mkdir -p "$cache/run"
		(flock 9; [[ -s $known ]] || probe_kvm >"$known") 9>"$cache/run/accelerator.lock"
		cat "$known"
	fi
}

# A kernel without a root says so and ends; where it does not come to that, there is no KVM
# for us. A minute decides here: what it decides on is how fast the tests are.
probe_kvm() {
	local known kernel said

	known=$(artefact tools)/usr/lib/dsm-bed
	kernel=$(tail -n 1 "$known/kernels")
	said=$(in_tools timeout -s KILL 60 qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
		-machine q35 -accel kvm -cpu host -smp 2 -m 512M -serial stdio -kernel "$known/vmlinuz-${kernel%% *}" \
		-append 'console=ttyS0 panic=-1 mitigations=off' </dev/null 2>&1) || true
	if [[ $said == *'Unable to mount root fs'* ]]; then
		say 'KVM runs our kernels'
		echo kvm
	else
		say "KVM does not run our kernels: $(tail -n 1 <<<"$said" | cut -c1-100)"
		echo tcg,thread=multi
	fi
}

# ---- the host -------------------------------------------------------------

# need_host: what building takes. Sets DSM_MIRROR for the recipes.
need_host() {
	local missing=()

	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
	command -v bwrap >/dev/null || missing+=(bubblewrap)
	compgen -G '/usr/share/keyrings/debian-archive-trixie-automatic.*' >/dev/null ||
		missing+=(debian-archive-keyring)
	((EUID == 0)) || die 'the cache is not complete: run tests/bed/prepare as root first'
	mkdir -p "$cache"
	if ((${#missing[@]})); then
		say "host: installing ${missing[*]}"
		on_host apt_update
		on_host apt_install "${missing[@]}"
	fi
	[[ ${DSM_MIRROR:-} ]] || find_mirror
}

on_host() {
	"$@" >"$cache/host.log" 2>&1 ||
		{ tail -n 20 "$cache/host.log" >&2; die "host: $* failed"; }
}

# Repositories of third parties may be out of reach: what matters is whether
# the next step finds what it looks for.
apt_update() { apt-get update || true; }

apt_install() {
	DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
		install -y --no-install-recommends "$@"
}

# Mirrors in the order of the machine's own sources. apt knows a repository's
# origin only after an update.
apt_mirrors() {
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Identifier: Packages' |
		sed -n 's/^Debian|Debian|//p' | grep -E '^(https?|mirror\+file):'
}

find_mirror() {
	local uris

	uris=$(apt_mirrors) || { on_host apt_update; uris=$(apt_mirrors); } ||
		die 'apt has no Debian mirror configured; name one in DSM_MIRROR'
	DSM_MIRROR=${uris%%$'\n'*}
	DSM_MIRROR=${DSM_MIRROR%/}
	# Cloud images name a file of mirrors.
	[[ $DSM_MIRROR != mirror+file:* ]] ||
		DSM_MIRROR=$(awk '/^[^#]/ { print $1; exit }' "${DSM_MIRROR#mirror+file:}")
	export DSM_MIRROR
}

# ---- the tools root -------------------------------------------------------

# host_folders: the folders that look the same in the tools root. The current
# one may be a part of the system, of which the tools root has its own.
host_folders() {
	printf '%s\n' /tmp "$cache" "$checkout"
	case $PWD/ in
	/usr/local/*) echo "$PWD" ;;
	//|/bin/*|/dev/*|/etc/*|/lib*|/proc/*|/sbin/*|/sys/*|/usr/*) ;;
	*)	echo "$PWD" ;;
	esac
}

# Who waits for bwrap does not learn what processor time was used within. With DSM_TIMES, a
# file, that is written there by what set_timed has put before a command.
set_timed() {
	timed=()
	[[ ${DSM_TIMES:-} ]] || return 0
	[[ ${times:-} ]] || exec {times}>>"$DSM_TIMES"
	timed=(bash -c "\"\$@\"; status=\$?; times >&$times; exit \$status" timed)
}

# in_tools CMD...: runs CMD in the tools root, which must be there. It is
# read-only because all users share it. The array tools_binds takes further
# options for bwrap. Every first process has the same number there, after which
# make names its fifo: that goes to a folder which is not shared.
tools_binds=()

in_tools() { in_root tools "$@"; }

# in_root NAME CMD...: the same in another artefact that is a root.
in_root() {
	local root entry args=()

	root=$(artefact "$1")
	shift
	for entry in bin lib lib64 sbin; do
		args+=(--symlink "usr/$entry" "/$entry")
	done
	args+=(--ro-bind "$root/usr" /usr --tmpfs /usr/local --ro-bind "$root/etc" /etc)
	args+=(--proc /proc --dev /dev --dev-bind-try /dev/kvm /dev/kvm --ro-bind /sys /sys)
	args+=(--dir /root --dir /run --dir /var/tmp)
	for entry in resolv.conf hosts ssl/certs/ca-certificates.crt; do
		args+=(--ro-bind-try "/etc/$entry" "/etc/$entry")
	done
	while read -r entry; do
		args+=(--bind "$entry" "$entry")
	done < <(host_folders)
	mkdir -p "$cache/cargo"
	set_timed
	bwrap --unshare-pid --die-with-parent "${args[@]}" \
		"${tools_binds[@]}" --chdir "$PWD" \
		--setenv PATH /usr/sbin:/usr/bin --setenv HOME /root \
		--setenv LC_ALL C.UTF-8 --setenv CARGO_HOME "$cache/cargo" \
		--setenv MAKE_TMPDIR /run \
		--unsetenv LD_LIBRARY_PATH --unsetenv LD_PRELOAD \
		--unsetenv RUSTUP_TOOLCHAIN --unsetenv RUSTC_WRAPPER -- "${timed[@]}" "$@"
}

# A function of the same name in a script would be called here, too.
# shellcheck disable=SC2046 # words
readonly -f $(sed -n 's/^\([a-z_]*\)() .*/\1/p' "${BASH_SOURCE[0]}" | grep -vx more_recipes)
