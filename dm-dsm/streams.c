// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blkdev.h>
#include <linux/device.h>
#include <linux/device-mapper.h>
#include <linux/err.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "streams.h"

/* Every disk of the machine */

#if DSM_HAVE_WRITE_STREAM

/* The limit of @bdev's queue; of a partition, that of its disk. */
static unsigned int dsm_own_streams(struct block_device *bdev)
{
	return READ_ONCE(bdev_get_queue(bdev)->limits.max_write_streams);
}

/* Streams of the disk behind a device of their class; of a partition, 0. */
static unsigned int dsm_disk_streams(struct device *dev)
{
	struct block_device *bdev = dev_to_bdev(dev);

	return bdev_is_partition(bdev) ? 0 : dsm_own_streams(bdev);
}

/*
 * The least number of streams of any disk that has streams, or UINT_MAX.  @bdev is
 * any block device; does not sleep for long, takes no lock that others hold long.
 */
static unsigned int dsm_disks_streams(const struct block_device *bdev)
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

static DEFINE_MUTEX(dsm_watched_lock);		/* of the list; disk_came() is called in it */
static LIST_HEAD(dsm_watched);

/* The disk is registered, but cannot be opened yet. */
static int dsm_disk_added(struct device *dev)
{
	unsigned int nr = dsm_disk_streams(dev);
	struct dsm_watch *watch;

	if (!nr)
		return 0;

	mutex_lock(&dsm_watched_lock);
	list_for_each_entry(watch, &dsm_watched, list)
		watch->disk_came(watch, nr);
	mutex_unlock(&dsm_watched_lock);
	return 0;
}

static DEFINE_MUTEX(dsm_interface_lock);	/* never held by dsm_disk_added() */
static struct class_interface dsm_interface = {
	.add_dev = dsm_disk_added,
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

int dsm_watch(struct dsm_watch *watch, struct block_device *bdev)
{
	int r = dsm_disks_register(disk_to_dev(bdev->bd_disk)->class);

	if (r)
		return r;
	mutex_lock(&dsm_watched_lock);
	list_add(&watch->list, &dsm_watched);
	mutex_unlock(&dsm_watched_lock);
	return 0;
}

void dsm_unwatch(struct dsm_watch *watch)
{
	mutex_lock(&dsm_watched_lock);
	list_del_init(&watch->list);
	mutex_unlock(&dsm_watched_lock);
}

void dsm_watch_exit(void)
{
	if (dsm_interface.class)
		class_interface_unregister(&dsm_interface);
}
#else	/* No disk has any, and none is waited for. */

static unsigned int dsm_own_streams(struct block_device *bdev)
{
	return 0;
}

static unsigned int dsm_disks_streams(const struct block_device *bdev)
{
	return UINT_MAX;
}

int dsm_watch(struct dsm_watch *watch, struct block_device *bdev)
{
	return 0;
}

void dsm_unwatch(struct dsm_watch *watch)
{
}

void dsm_watch_exit(void)
{
}

#endif

/* Leaves */

struct dsm_leaves {
	unsigned int nr;
	struct file *file[DSM_MAX_LEAVES];
};

static bool dsm_is_dm(struct block_device *bdev)
{
	struct mapped_device *md = dm_get_md(disk_devt(bdev->bd_disk));

	if (!md)
		return false;
	dm_put(md);
	return true;
}

bool dsm_is_stacked(struct block_device *bdev)
{
	return dsm_is_dm(bdev) || dsm_disk_has_slaves(bdev->bd_disk);
}

static int dsm_leaf_open(struct dsm_leaves *leaves, const char *path, char **error)
{
	struct block_device *bdev;
	struct file *file;
	dev_t dev;

	if (leaves->nr == DSM_MAX_LEAVES) {
		*error = "Too many leaves (at most 64)";
		return -EINVAL;
	}

	*error = "Cannot open leaf; leaves must be <dev>[,<dev>...]";
	if (dm_devt_from_path(path, &dev))
		return -ENODEV;
	file = bdev_file_open_by_dev(dev, BLK_OPEN_READ, NULL, NULL);
	if (IS_ERR(file))
		return PTR_ERR(file);
	leaves->file[leaves->nr++] = file;

	bdev = file_bdev(file);
	if (dsm_is_stacked(bdev) && !dsm_own_streams(bdev)) {
		*error = "Leaf is a stacked device; name the disks below it";
		return -EINVAL;
	}
	return 0;
}

struct dsm_leaves *dsm_leaves_open(const char *list, struct block_device *above,
				   char **error)
{
	struct dsm_leaves *leaves = NULL;
	char *copy, *rest, *path;
	int r = -EINVAL;

	/* A multipath device may be request-based; its requests change paths by themselves. */
	if (!dsm_is_dm(above) || queue_is_mq(bdev_get_queue(above))) {
		*error = "Leaves need a bio-based device-mapper device";
		return ERR_PTR(r);
	}

	*error = "Cannot allocate leaves";
	copy = kstrdup(list, GFP_KERNEL);
	if (!copy)
		return ERR_PTR(-ENOMEM);
	leaves = kzalloc_obj(*leaves);
	if (!leaves) {
		kfree(copy);
		return ERR_PTR(-ENOMEM);
	}

	rest = copy;
	while ((path = strsep(&rest, ","))) {
		r = dsm_leaf_open(leaves, path, error);
		if (r)
			break;
	}
	kfree(copy);
	if (r) {
		dsm_leaves_close(leaves);
		return ERR_PTR(r);
	}
	return leaves;
}

void dsm_leaves_close(struct dsm_leaves *leaves)
{
	if (!leaves)
		return;
	while (leaves->nr)
		bdev_fput(leaves->file[--leaves->nr]);
	kfree(leaves);
}

/* Streams that all leaves take: the minimum of their current queue limits. */
static unsigned int dsm_leaves_streams(const struct dsm_leaves *leaves)
{
	unsigned int least = UINT_MAX;

	for (unsigned int i = 0; i < leaves->nr; i++)
		least = min(least, dsm_own_streams(file_bdev(leaves->file[i])));
	return least;
}

size_t dsm_leaves_emit(const struct dsm_leaves *leaves, char before, char between, char within,
		       char *result, size_t sz, unsigned int maxlen)
{
	char name[16];	/* as struct dm_dev has it */

	for (unsigned int i = 0; leaves && i < leaves->nr; i++) {
		format_dev_t(name, file_bdev(leaves->file[i])->bd_dev);
		if (i)
			DMEMIT("%c%s", within, name);
		else
			DMEMIT("%cleaves%c%s", before, between, name);
	}
	return sz;
}

/* The underlying device */

unsigned int dsm_device_streams(struct block_device *bdev, bool stacked,
				const struct dsm_leaves *leaves,
				enum dsm_stream_source *source)
{
	unsigned int nr = dsm_own_streams(bdev), all;

	if (!DSM_HAVE_WRITE_STREAM) {
		*source = DSM_STREAMS_KERNEL;
		return 0;
	}

	*source = DSM_STREAMS_QUEUE;
	if (!nr && leaves) {
		*source = DSM_STREAMS_LEAVES;
		nr = dsm_leaves_streams(leaves);
	}
	if (!nr) {
		*source = stacked && !leaves ? DSM_STREAMS_STACKED : DSM_STREAMS_NONE;
		return 0;
	}
	if (stacked) {
		all = dsm_disks_streams(bdev);
		if (all < nr)
			*source = DSM_STREAMS_MACHINE;
		nr = min(nr, all);
	}
	return min(nr, DSM_NR_STREAMS - 1U);
}
