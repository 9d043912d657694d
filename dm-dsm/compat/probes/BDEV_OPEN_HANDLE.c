// SPDX-License-Identifier: GPL-2.0-only
/* 6.7 and 6.8 */
#line 1 "BDEV_OPEN_HANDLE.c"
#include <linux/blkdev.h>

static inline struct bdev_handle *dsm_bdev_open_handle(dev_t dev)
{
	return bdev_open_by_dev(dev, BLK_OPEN_READ, NULL, NULL);
}
