# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the tests of the patches to the block layer, dm and md, which run in UML. To be
# sourced.

. ./results.sh "upstream: $(basename "$0" .sh)"

# until_true COMMAND: for what comes to pass by itself; the boot has an end
until_true() { until "$@"; do sleep 0.05; done; }

# sys DEVICE: its folder in sysfs
sys() { stat -L -c '/sys/dev/block/%Hr:%Lr' "$1"; }

# limits DEVICE: its write streams, and their granularity
limits() (cd "$(sys "$1")/queue" && echo "$(<max_write_streams) $(<write_stream_granularity)")

# put DEVICE STREAM [KIB [AT]]: one direct write of KIB at AT KiB
put() { ./uring "$1" $((${4:-1024} * 1024)) $((${3:-16} * 1024)) "$2"; }
