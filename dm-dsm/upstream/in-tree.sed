# SPDX-License-Identifier: GPL-2.0-only
# The sources as they are in a kernel that has what compat/ probes for.
/^#include "compat\/compat\.h"$/d
s/dsm_bio_set_stream(\([^,]*\), \(.*\));/\1->bi_write_stream = \2;/
s/dsm_bio_stream(\([a-z_>-]*\))/\1->bi_write_stream/g
s/dsm_queue_write_streams(\(.*\));/READ_ONCE(\1->limits.max_write_streams);/
s/dsm_set_flush_bypasses_map(\(.*\));/\1->flush_bypasses_map = true;/
s/DSM_REQ_ATOMIC/REQ_ATOMIC/
/if (!DSM_HAVE_WRITE_STREAM) {/,/^$/d
s/^static int \(.*\)(DSM_PREPARE_IOCTL_ARGS)/static int \1(struct dm_target *ti, struct block_device **bdev,\
			     unsigned int cmd, unsigned long arg,\
			     bool *forward)/
s:Documentation/dsm\.rst:Documentation/admin-guide/device-mapper/dm-dsm.rst:
