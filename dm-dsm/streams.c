// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blkdev.h>
#include <linux/minmax.h>

#include "disks.h"
#include "leaves.h"
#include "streams.h"

unsigned int dsm_device_streams(struct block_device *bdev, bool stacked,
				const struct dsm_leaves *leaves,
				enum dsm_stream_source *source)
{
	unsigned int nr = dsm_own_streams(bdev), all;

	if (!DSM_HAVE_WRITE_STREAM) {
		*source = DSM_STREAMS_KERNEL;
		return 0;
	}

	*source = DSM_STREAMS_QUEUE;
	if (!nr && leaves) {
		*source = DSM_STREAMS_LEAVES;
		nr = dsm_leaves_streams(leaves);
	}
	if (!nr) {
		*source = stacked && !leaves ? DSM_STREAMS_STACKED : DSM_STREAMS_NONE;
		return 0;
	}
	if (stacked) {
		all = dsm_disks_streams(bdev);
		if (all < nr)
			*source = DSM_STREAMS_MACHINE;
		nr = min(nr, all);
	}
	return min(nr, DSM_NR_STREAMS - 1U);
}
