/* SPDX-License-Identifier: GPL-2.0-only */
/* How many streams the device can take. */
#ifndef DSM_STREAMS_H
#define DSM_STREAMS_H

#include <linux/blk_types.h>
#include <linux/types.h>

#include "policies/layout.h"

#define DSM_NR_STREAMS	256	/* ids that fit bi_write_stream, with 0 */
#define DSM_NR_HINTS	6	/* enum rw_hint */

/* How the number of streams is known. */
enum dsm_stream_source {
	DSM_STREAMS_NONE,	/* the device, or a leaf, has none */
	DSM_STREAMS_QUEUE,	/* from its queue limits */
	DSM_STREAMS_LEAVES,	/* from those of the disks below */
	DSM_STREAMS_MACHINE,	/* a disk that is not below takes fewer */
	DSM_STREAMS_STACKED,	/* a stacked device whose leaves are not named */
	DSM_STREAMS_KERNEL,	/* this kernel has no write streams */
};

struct dsm_leaves;

/*
 * The greatest stream that a write to @bdev may carry without being refused, whatever
 * happens below if it is @stacked.  @leaves are the disks below it, or NULL.
 */
unsigned int dsm_device_streams(struct block_device *bdev, bool stacked,
				const struct dsm_leaves *leaves,
				enum dsm_stream_source *source);

#endif
