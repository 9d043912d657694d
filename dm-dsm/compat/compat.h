/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gives what kernels from 5.10 on lack of the newest one.  All sources are compiled
 * with it, see probe.mk; nothing outside this folder names a kernel version.
 */
#ifndef DSM_COMPAT_H
#define DSM_COMPAT_H

/* Before anything of the block layer: an enum's name in old kernels */
#ifndef DSM_PROBED_REQ_OP
#define req_opf req_op
#endif

#include <linux/blk-crypto.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

/* Streams and hints, which cannot be made up for a kernel without */

#ifdef DSM_PROBED_WRITE_STREAM
#define DSM_HAVE_WRITE_STREAM 1
#else
#define DSM_HAVE_WRITE_STREAM 0
#endif

#ifdef DSM_PROBED_WRITE_HINT
#define DSM_HAVE_WRITE_HINT 1
#else
#define DSM_HAVE_WRITE_HINT 0
#endif

static inline u8 dsm_bio_stream(const struct bio *bio)
{
#ifdef DSM_PROBED_WRITE_STREAM
	return bio->bi_write_stream;
#else
	return 0;
#endif
}

static inline void dsm_bio_set_stream(struct bio *bio, u8 stream)
{
#ifdef DSM_PROBED_WRITE_STREAM
	bio->bi_write_stream = stream;
#endif
}

static inline u8 dsm_bio_hint(const struct bio *bio)
{
#ifdef DSM_PROBED_WRITE_HINT
	return bio->bi_write_hint;
#else
	return 0;
#endif
}

static inline void dsm_bio_set_hint(struct bio *bio, u8 hint)
{
#ifdef DSM_PROBED_WRITE_HINT
	bio->bi_write_hint = hint;
#endif
}

/* Members of a target, and what device-mapper calls */

static inline void dsm_set_flush_bypasses_map(struct dm_target *ti)
{
#ifdef DSM_PROBED_FLUSH_BYPASSES_MAP
	ti->flush_bypasses_map = true;
#endif
}

static inline void dsm_set_accounts_remapped_io(struct dm_target *ti)
{
#ifdef DSM_PROBED_DM_SUBMIT_BIO_REMAP
	ti->accounts_remapped_io = true;
#endif
}

/* Before, dm had accounted for each bio that it mapped. */
#ifndef DSM_PROBED_DM_SUBMIT_BIO_REMAP
static inline void dm_submit_bio_remap(struct bio *clone, struct bio *target)
{
	submit_bio_noacct(target ?: clone);
}
#endif

#ifdef DSM_PROBED_PREPARE_IOCTL_CMD
#define DSM_PREPARE_IOCTL_ARGS \
	struct dm_target *ti, struct block_device **bdev, \
	unsigned int cmd, unsigned long arg, bool *forward
#else
#define DSM_PREPARE_IOCTL_ARGS \
	struct dm_target *ti, struct block_device **bdev
#endif

#ifndef DSM_PROBED_DM_IMA
#define STATUSTYPE_IMA (STATUSTYPE_TABLE + 1)	/* never asked for */
#define DMEMIT_TARGET_NAME_VERSION(type) DMEMIT("%s", (type)->name)
#endif

#ifndef DM_TARGET_PASSES_CRYPTO
#define DM_TARGET_PASSES_CRYPTO 0
#endif

#ifndef DM_TARGET_ATOMIC_WRITES
#define DM_TARGET_ATOMIC_WRITES 0
#endif

#ifndef DSM_PROBED_DM_DEVT_FROM_PATH
static inline int dm_devt_from_path(const char *path, dev_t *dev)
{
	*dev = dm_get_dev_t(path);
	return *dev ? 0 : -ENODEV;
}
#endif

/* Bios */

#ifndef REQ_ATOMIC
#define REQ_ATOMIC 0
#endif

#ifndef REQ_POLLED
#define REQ_POLLED REQ_HIPRI
#endif

#ifndef DSM_PROBED_BIO_CRYPT_CTX
static inline struct bio_crypt_ctx *bio_crypt_ctx(struct bio *bio)
{
#ifdef CONFIG_BLK_INLINE_ENCRYPTION
	return bio->bi_crypt_context;
#else
	return NULL;
#endif
}
#endif

#ifndef DSM_PROBED_BIO_INIT_BDEV
static inline void dsm_bio_init(struct bio *bio, struct block_device *bdev,
				struct bio_vec *table, unsigned short max, unsigned int opf)
{
	bio_init(bio, table, max);
	bio_set_dev(bio, bdev);
	bio->bi_opf = opf;
}

#define bio_init dsm_bio_init
#endif

#ifndef DSM_PROBED_BIO_LIST_MERGE_INIT
static inline void bio_list_merge_init(struct bio_list *to, struct bio_list *from)
{
	bio_list_merge(to, from);
	bio_list_init(from);
}
#endif

/* Block devices */

#ifndef BLK_OPEN_READ
#define BLK_OPEN_READ FMODE_READ
#define BLK_OPEN_WRITE FMODE_WRITE
#endif

/* What stands for the file is known by file_bdev() and bdev_fput() only. */
#ifndef DSM_PROBED_BDEV_FILE_OPEN
struct blk_holder_ops;

static inline struct file *bdev_file_open_by_dev(dev_t dev, unsigned int mode, void *holder,
						 const struct blk_holder_ops *ops)
{
#if defined(DSM_PROBED_BDEV_OPEN_HANDLE)
	return (struct file *)bdev_open_by_dev(dev, mode, holder, ops);
#elif defined(DSM_PROBED_BLKDEV_GET_OPS)
	return (struct file *)blkdev_get_by_dev(dev, mode, holder, ops);
#else
	return (struct file *)blkdev_get_by_dev(dev, mode, holder);
#endif
}

static inline struct block_device *file_bdev(struct file *file)
{
#ifdef DSM_PROBED_BDEV_OPEN_HANDLE
	return ((struct bdev_handle *)file)->bdev;
#else
	return (struct block_device *)file;
#endif
}

static inline void bdev_fput(struct file *file)
{
#if defined(DSM_PROBED_BDEV_OPEN_HANDLE)
	bdev_release((struct bdev_handle *)file);
#elif defined(DSM_PROBED_BLKDEV_GET_OPS)
	blkdev_put(file_bdev(file), NULL);
#else
	blkdev_put(file_bdev(file), FMODE_READ);
#endif
}
#endif

#ifndef DSM_PROBED_BDEV_NR_SECTORS
#define bdev_nr_sectors(bdev) (i_size_read((bdev)->bd_inode) >> SECTOR_SHIFT)
#endif

#ifndef DSM_PROBED_BDEV_MAX_DISCARD
static inline unsigned int bdev_max_discard_sectors(struct block_device *bdev)
{
	struct request_queue *q = bdev_get_queue(bdev);

	return blk_queue_discard(q) ? q->limits.max_discard_sectors : 0;
}

static inline unsigned int bdev_discard_granularity(struct block_device *bdev)
{
	return bdev_get_queue(bdev)->limits.discard_granularity;
}
#endif

/* Whether it has others below it, which matters where there are streams. */
static inline bool dsm_disk_has_slaves(struct gendisk *disk)
{
#ifdef DSM_PROBED_SLAVE_BDEVS
	return !list_empty(&disk->slave_bdevs);
#else
	return false;
#endif
}

/*
 * Memory.  Of the kmalloc_obj family each may be there without the others; it takes
 * GFP_KERNEL when no flags are given.
 */
#define dsm_gfp(...) __take_second_arg(, ##__VA_ARGS__, GFP_KERNEL)

#ifndef kmalloc_obj
#define kmalloc_obj(obj, ...) kmalloc(sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(obj, ...) kzalloc(sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

/*
 * Before 5.17 kvmalloc() is kmalloc(), 4 MiB at most, for all but GFP_KERNEL: it is
 * given that where no I/O can be started.
 */
#ifndef kvmalloc_obj
static inline void *dsm_kvmalloc(size_t nr, size_t size, gfp_t gfp)
{
	unsigned int noio = memalloc_noio_save();
	void *p = kvmalloc_array(nr, size, gfp | GFP_KERNEL);

	memalloc_noio_restore(noio);
	return p;
}

#undef kvmalloc
#undef kvzalloc
#undef kvcalloc
#define kvmalloc(size, gfp) dsm_kvmalloc(1, size, gfp)
#define kvzalloc(size, gfp) dsm_kvmalloc(1, size, (gfp) | __GFP_ZERO)
#define kvcalloc(nr, size, gfp) dsm_kvmalloc(nr, size, (gfp) | __GFP_ZERO)
#define kvmalloc_obj(obj, ...) dsm_kvmalloc(1, sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

#ifndef kvmalloc_objs
#define kvmalloc_objs(obj, nr, ...) dsm_kvmalloc(nr, sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

#ifndef DSM_PROBED_SORT_NONATOMIC
#define sort_nonatomic sort
#endif

/*
 * min() and max() wanted operands of one type.  That those of different types can be
 * compared, the newest kernel sees to.
 */
#ifndef DSM_PROBED_MINMAX
#undef __typecheck
#define __typecheck(...) 1
#endif

#ifndef __counted_by
#define __counted_by(member)
#endif

#endif
