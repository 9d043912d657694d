/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Targets on stacked devices, which are laid out again when a disk comes; see disks.h.
 */
#ifndef DSM_WATCH_H
#define DSM_WATCH_H

struct dsm;

/*
 * From now on @d, which has a device, is laid out again when a disk comes that takes
 * fewer streams than @d->device_streams, before anybody can open that disk.  The
 * driver core calls for it, with a lock of the class of disks held, and @d->lock is
 * taken below that: nothing that opens a disk (and may find partitions) may hold
 * @d->lock.  Returns 0 or an error.  Must not hold @d->lock, nor must unwatch.
 */
int dsm_watch(struct dsm *d);
void dsm_unwatch(struct dsm *d);	/* also of one that is not watched */

/* When the module goes. */
void dsm_watch_exit(void);

#endif
