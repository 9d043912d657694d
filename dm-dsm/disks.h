/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every disk of the machine.
 *
 * What lies below a stacked device may be replaced at any time (a table is reloaded,
 * a hot spare comes in) without notice to those above.  NVMe fails a write whose stream
 * is greater than the namespace has; drivers without streams ignore it.  A write always
 * ends on some disk of the machine, so no disk rejects a stream that every disk with
 * streams has.  That is the greatest stream that a write to a stacked device carries.
 */
#ifndef DSM_DISKS_H
#define DSM_DISKS_H

#include <linux/blk_types.h>

struct device;

/* The limit of @bdev's queue; of a partition, that of its disk. */
unsigned int dsm_own_streams(struct block_device *bdev);

/* Streams of the disk or partition behind a device of their class. */
unsigned int dsm_disk_streams(struct device *dev);

/*
 * The least number of streams of any disk that has streams, or UINT_MAX.  @bdev is
 * any block device; does not sleep for long, takes no lock that others hold long.
 */
unsigned int dsm_disks_streams(const struct block_device *bdev);

#endif
