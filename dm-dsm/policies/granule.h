/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which discards the underlying device wants.  The simulator asks here, too.
 */
#ifndef DSM_GRANULE_H
#define DSM_GRANULE_H

#include <linux/blk_types.h>
#include <linux/sizes.h>
#include <linux/types.h>

#define DSM_MAX_RUN	(SZ_64M >> SECTOR_SHIFT)

/* In sectors. */
struct dsm_granule {
	u32 unit;		/* the length is a multiple of it */
	u32 align;		/* the start is a multiple of it, */
	u32 shift;		/* so many sectors further on */
	u32 max;		/* length */
};

/* What the device says, in bytes. */
struct dsm_discard_limits {
	u32 block;		/* the logical one */
	u32 granularity;
	u32 first;		/* where the disk's first granule begins */
	u32 max;		/* sectors of a discard */
	u64 start;		/* of a partition on the disk, in sectors */
};

/*
 * 0: @granularity is the device's, @alignment the same as the granularity; both in bytes.
 * An alignment that is greater than the granularity counts for both.
 */
struct dsm_granule dsm_granule(const struct dsm_discard_limits *limits, u32 granularity,
			       u32 alignment);

/*
 * Makes a discard of sectors @base + @start to @base + @end, or a part of it, one that
 * the device wants.  Then @end is not above @start if there is none.
 */
void dsm_granule_cut(const struct dsm_granule *g, u64 base, u64 *start, u64 *end);

/* Where the first granule may begin behind sector @base, in sectors from there. */
u32 dsm_granule_first(const struct dsm_granule *g, u64 base);

#endif
