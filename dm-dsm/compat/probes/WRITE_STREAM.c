// SPDX-License-Identifier: GPL-2.0-only
/* 6.16, and what the module needs to watch for disks that have them */
#line 1 "WRITE_STREAM.c"
#include <linux/blkdev.h>
#include <linux/device.h>

static inline int dsm_write_stream_add(struct device *dev)
{
	return bdev_get_queue(dev_to_bdev(dev))->limits.max_write_streams;
}

static inline void dsm_write_stream(struct class_interface *interface, struct bio *bio)
{
	interface->add_dev = dsm_write_stream_add;
	bio->bi_write_stream = 1;
}
