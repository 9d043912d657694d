// SPDX-License-Identifier: GPL-2.0-only
/* 5.17 */
#line 1 "SLAVE_BDEVS.c"
#include <linux/blkdev.h>

static inline bool dsm_slave_bdevs(struct gendisk *disk)
{
	return list_empty(&disk->slave_bdevs);
}
