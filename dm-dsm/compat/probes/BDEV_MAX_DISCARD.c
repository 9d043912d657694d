// SPDX-License-Identifier: GPL-2.0-only
/* 5.19 */
#line 1 "BDEV_MAX_DISCARD.c"
#include <linux/blkdev.h>

static inline unsigned int dsm_bdev_max_discard(struct block_device *bdev)
{
	return bdev_max_discard_sectors(bdev) + bdev_discard_granularity(bdev);
}
