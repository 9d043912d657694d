#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The module's life: load, create, table and status lines, remove, unload.
. "$(dirname "$0")/lib.sh"

disk=$(disk_by_serial plain)
sectors=$(blockdev --getsz "$disk")
number=$(cat "$(dirname "$(queue "$disk")")/dev")

modprobe dm-mod
works 'the module loads' insmod "$(module_file)"
matches 'the target is registered' "$(dmsetup targets | grep '^dsm ')" 'v0\.1\.0'

works 'a device is made with two words' dmsetup create t --table "0 $sectors dsm $disk 0"
is 'the table line shows every feature' "$(dmsetup table t)" \
	"0 $sectors dsm $number 0 30 policy dsm groups 3 alpha auto prediction predicted range written primary_filter on threshold1 1000 threshold2 5 streams auto stream_base 1 hints on foreign keep discard off discard_granularity auto discard_alignment auto"
matches 'the status line is as documented' "$(dmsetup status t)" \
	"^0 $sectors dsm version 1 policy dsm layout none groups 3 device_streams 0 source (none|kernel) streams_used 0 files 0 regions 0 extents 0 generation 0 windows 0 window_ms [0-9]+ unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0 upload 0 discard off( hints unsupported)?$"
is 'without a table the regions are empty' "$(message t regions)" ''

line=$(dmsetup table t)
works 'the device is removed' dmsetup remove t
works 'the table line makes the same device' dmsetup create t --table "$line"
is 'and shows the same line' "$(dmsetup table t)" "$line"
refused 'a module in use stays' 'in use' rmmod dm-dsm
dmsetup remove t

features='30 policy boundary groups 5 alpha 8 prediction computed range region primary_filter off threshold1 20 threshold2 0 streams 7 stream_base 2 hints off foreign override discard on discard_granularity 131072 discard_alignment 4096'
dmsetup create t --table "0 $((sectors - 8)) dsm $disk 8 $features"
is 'every feature can be chosen' "$(dmsetup table t)" "0 $((sectors - 8)) dsm $number 8 $features"
works 'a feature can be set' message t set groups 4
is 'and the table line shows it' "$(dmsetup table t | grep -o 'groups [0-9]*')" 'groups 4'

put /dev/mapper/t 0 3
is 'a write lands behind the start sector' "$(cmp -n 4096 /dev/mapper/t "$disk" -i 0:4096 && echo same)" same
is 'writes are counted' "$(field t unmapped_writes) $(field t unmapped_sectors)" '3 24'
message t reset
is 'and set to zero' "$(field t unmapped_writes)" 0
works 'suspend and resume' eval 'dmsetup suspend t && dmsetup resume t'
dmsetup remove t

works 'the module unloads' rmmod dm-dsm
works 'and loads again' insmod "$(module_file)"
done_testing
