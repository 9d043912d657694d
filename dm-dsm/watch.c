// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/list.h>
#include <linux/mutex.h>

#include "disks.h"
#include "dsm.h"
#include "watch.h"

static DEFINE_MUTEX(dsm_watched_lock);		/* of the list; d->lock nests in it */
static LIST_HEAD(dsm_watched);

/* The disk is registered, but cannot be opened yet. */
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

int dsm_watch(struct dsm *d)
{
	int r = dsm_disks_register(disk_to_dev(d->bdev->bd_disk)->class);

	if (r)
		return r;
	mutex_lock(&dsm_watched_lock);
	list_add(&d->watched, &dsm_watched);
	mutex_unlock(&dsm_watched_lock);
	return 0;
}

void dsm_unwatch(struct dsm *d)
{
	mutex_lock(&dsm_watched_lock);
	list_del_init(&d->watched);
	mutex_unlock(&dsm_watched_lock);
}

void dsm_watch_exit(void)
{
	if (dsm_interface.class)
		class_interface_unregister(&dsm_interface);
}
