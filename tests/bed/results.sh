# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# How tests say what came of them: lines "ok - ...", "not ok - ..." and "skip - ...", which
# tests/check counts. To be sourced with what stands before each, or with ''.

about=${1:+$1: }
failed=0

pass() { echo "ok - $about$*"; }
fail() { echo "not ok - $about$*"; failed=1; }
skip() { echo "skip - $about$*"; exit 0; }
done_testing() { exit "$failed"; }

# is WHAT GOT WANTED
is() {
	if [[ $2 == "$3" ]]; then pass "$1"; else fail "$1: got '$2', not '$3'"; fi
}

# matches WHAT GOT REGEX
matches() {
	if [[ $2 =~ $3 ]]; then pass "$1"; else fail "$1: '$2' does not match '$3'"; fi
}

# works WHAT COMMAND...
works() {
	local said

	if said=$("${@:2}" 2>&1); then
		pass "$1"
	else
		fail "$1: '${*:2}' said: $(tail -n 1 <<<"$said")"
		sed 's/^/# /' <<<"$said"
	fi
}

# must COMMAND...: says so only when it does not work
must() {
	local said

	said=$("$@" 2>&1) || fail "'$*' said: $said"
}

# attempt COMMAND...: what a command that is refused says, for whom it is not all
attempt() { "$@"; }

# refused WHAT REASON COMMAND...: the command must fail, and say the reason
refused() {
	local said

	if said=$(attempt "${@:3}" 2>&1); then
		fail "$1: '${*:3}' was not refused"
	elif [[ $said == *"$2"* ]]; then
		pass "$1"
	else
		fail "$1: '$2' was not said, but: $said"
	fi
}
