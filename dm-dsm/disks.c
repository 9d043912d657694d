// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/minmax.h>

#include "disks.h"

unsigned int dsm_own_streams(struct block_device *bdev)
{
	return READ_ONCE(bdev_get_queue(bdev)->limits.max_write_streams);
}

unsigned int dsm_disk_streams(struct device *dev)
{
	struct block_device *bdev = dev_to_bdev(dev);

	return bdev_is_partition(bdev) ? 0 : dsm_own_streams(bdev);
}

unsigned int dsm_disks_streams(const struct block_device *bdev)
{
	unsigned int least = UINT_MAX, nr;
	struct class_dev_iter iter;
	struct device *dev;

	class_dev_iter_init(&iter, disk_to_dev(bdev->bd_disk)->class, NULL, NULL);
	while ((dev = class_dev_iter_next(&iter))) {
		nr = dsm_disk_streams(dev);
		if (nr)
			least = min(least, nr);
	}
	class_dev_iter_exit(&iter);
	return least;
}
