// SPDX-License-Identifier: GPL-2.0-only
/* 6.9 */
#line 1 "BDEV_FILE_OPEN.c"
#include <linux/blkdev.h>

static inline struct file *dsm_bdev_file_open(dev_t dev)
{
	return bdev_file_open_by_dev(dev, BLK_OPEN_READ, NULL, NULL);
}
