/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the kernels that dm-dsm builds on.  compat/probe.mk finds
 * out from the headers; nothing outside this folder names a kernel version.
 */
#ifndef DSM_COMPAT_H
#define DSM_COMPAT_H

#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/slab.h>

#ifdef DSM_PROBED_WRITE_STREAM
#define DSM_HAVE_WRITE_STREAM 1

static inline u8 dsm_bio_stream(const struct bio *bio)
{
	return bio->bi_write_stream;
}

static inline void dsm_bio_set_stream(struct bio *bio, u8 stream)
{
	bio->bi_write_stream = stream;
}

static inline unsigned int dsm_queue_write_streams(struct request_queue *q)
{
	return READ_ONCE(q->limits.max_write_streams);
}
#else
#define DSM_HAVE_WRITE_STREAM 0

static inline u8 dsm_bio_stream(const struct bio *bio)
{
	return 0;
}

static inline void dsm_bio_set_stream(struct bio *bio, u8 stream)
{
}

static inline unsigned int dsm_queue_write_streams(struct request_queue *q)
{
	return 0;
}
#endif

static inline void dsm_set_flush_bypasses_map(struct dm_target *ti)
{
#ifdef DSM_PROBED_FLUSH_BYPASSES_MAP
	ti->flush_bypasses_map = true;
#endif
}

#ifdef DSM_PROBED_PREPARE_IOCTL_CMD
#define DSM_PREPARE_IOCTL_ARGS \
	struct dm_target *ti, struct block_device **bdev, \
	unsigned int cmd, unsigned long arg, bool *forward
#else
#define DSM_PREPARE_IOCTL_ARGS \
	struct dm_target *ti, struct block_device **bdev
#endif

/* Each may be there without the others.  GFP_KERNEL when no flags are given. */
#define __dsm_second(first, second, ...) second
#define dsm_gfp(...) __dsm_second(, ##__VA_ARGS__, GFP_KERNEL)

#ifndef kmalloc_obj
#define kmalloc_obj(obj, ...) kmalloc(sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

#ifndef kzalloc_obj
#define kzalloc_obj(obj, ...) kzalloc(sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

#ifndef kvmalloc_obj
#define kvmalloc_obj(obj, ...) kvmalloc(sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

#ifndef kvmalloc_objs
#define kvmalloc_objs(obj, count, ...) \
	kvmalloc_array(count, sizeof(obj), dsm_gfp(__VA_ARGS__))
#endif

#ifndef DSM_PROBED_SORT_NONATOMIC
#define sort_nonatomic sort
#endif

#ifndef DM_TARGET_ATOMIC_WRITES
#define DM_TARGET_ATOMIC_WRITES 0
#endif

#ifdef DSM_PROBED_REQ_ATOMIC
#define DSM_REQ_ATOMIC REQ_ATOMIC
#else
#define DSM_REQ_ATOMIC 0
#endif

#endif
