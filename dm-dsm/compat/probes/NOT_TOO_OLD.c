// SPDX-License-Identifier: GPL-2.0-only
/* 5.10, and what the module uses of 5.9 */
#line 1 "NOT_TOO_OLD.c"
#include <linux/blkdev.h>

static inline void dsm_not_too_old(struct block_device *bdev, struct bio *bio)
{
	if (!bdev_is_partition(bdev))
		submit_bio_noacct(bio);
}
