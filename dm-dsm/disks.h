/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every disk of the machine.
 *
 * What lies below a stacked device may be exchanged at any time (a table is reloaded,
 * a spare comes in), and nobody is told above.  NVMe fails a write whose stream is
 * greater than the namespace takes, and drivers that have no streams do not look.
 * Whatever is exchanged for whatever, a write ends on disks that exist: a stream that
 * all those take that have any is refused by none.  So that is the most that a write
 * to a stacked device carries.
 */
#ifndef DSM_DISKS_H
#define DSM_DISKS_H

#include <linux/blk_types.h>

struct dsm;

/*
 * The least number of streams of any disk that has streams, or UINT_MAX.  @bdev is
 * any block device; does not sleep for long, takes no lock that others hold long.
 */
unsigned int dsm_disks_streams(const struct block_device *bdev);

/*
 * From now on @d, which has a device, is laid out anew when a disk comes that takes
 * fewer streams than @d->device_streams, before anybody can open that disk.  The
 * driver core calls for it, with a lock of the class of disks held, and @d->lock is
 * taken below that: nothing that opens a disk (and may find partitions) may hold
 * @d->lock.  Returns 0 or an error.  Must not hold @d->lock, nor must unwatch.
 */
int dsm_disks_watch(struct dsm *d);
void dsm_disks_unwatch(struct dsm *d);	/* also of one that is not watched */

/* When the module goes. */
void dsm_disks_exit(void);

#endif
