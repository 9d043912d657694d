// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "disks.h"
#include "leaves.h"

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

unsigned int dsm_leaves_streams(const struct dsm_leaves *leaves)
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
