// SPDX-License-Identifier: GPL-2.0-only
/* 5.16 */
#line 1 "BDEV_NR_SECTORS.c"
#include <linux/blkdev.h>

static inline sector_t dsm_bdev_nr_sectors(struct block_device *bdev)
{
	return bdev_nr_sectors(bdev);
}
