// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>

#include "disks.h"
#include "dsm.h"

static DEFINE_MUTEX(dsm_watched_lock);		/* of the list; d->lock nests in it */
static LIST_HEAD(dsm_watched);

/* Streams of what a device of the class of disks and partitions stands for */
static unsigned int dsm_disk_streams(struct device *dev)
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

/* A disk is among the others already, and cannot be opened yet. */
static int dsm_disk_came(struct device *dev)
{
	unsigned int nr = dsm_disk_streams(dev);
	struct dsm *d;

	if (!nr)
		return 0;

	mutex_lock(&dsm_watched_lock);
	list_for_each_entry(d, &dsm_watched, watched) {
		mutex_lock(&d->lock);
		if (nr < d->device_streams)
			dsm_relayout(d, false);
		mutex_unlock(&d->lock);
	}
	mutex_unlock(&dsm_watched_lock);
	return 0;
}

static DEFINE_MUTEX(dsm_interface_lock);	/* never held by dsm_disk_came() */
static struct class_interface dsm_interface = {
	.add_dev = dsm_disk_came,
};

/* The class is not exported, but every disk knows its own. */
static int dsm_disks_register(const struct class *class)
{
	int r = 0;

	mutex_lock(&dsm_interface_lock);
	if (!dsm_interface.class) {
		dsm_interface.class = class;
		r = class_interface_register(&dsm_interface);
		if (r)
			dsm_interface.class = NULL;
	}
	mutex_unlock(&dsm_interface_lock);
	return r;
}

int dsm_disks_watch(struct dsm *d)
{
	int r = dsm_disks_register(disk_to_dev(d->bdev->bd_disk)->class);

	if (r)
		return r;
	mutex_lock(&dsm_watched_lock);
	list_add(&d->watched, &dsm_watched);
	mutex_unlock(&dsm_watched_lock);
	return 0;
}

void dsm_disks_unwatch(struct dsm *d)
{
	mutex_lock(&dsm_watched_lock);
	list_del_init(&d->watched);
	mutex_unlock(&dsm_watched_lock);
}

void dsm_disks_exit(void)
{
	if (dsm_interface.class)
		class_interface_unregister(&dsm_interface);
}
