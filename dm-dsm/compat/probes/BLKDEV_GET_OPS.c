// SPDX-License-Identifier: GPL-2.0-only
/* 6.5 and 6.6 */
#line 1 "BLKDEV_GET_OPS.c"
#include <linux/blkdev.h>

static inline struct block_device *dsm_blkdev_get_ops(dev_t dev)
{
	return blkdev_get_by_dev(dev, BLK_OPEN_READ, NULL, NULL);
}
