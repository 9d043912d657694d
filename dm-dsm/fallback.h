/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Devices that cannot tell how many streams they take: the user states the number,
 * and a wrong one must not fail a write.  NVMe refuses a stream that it has not.
 */
#ifndef DSM_FALLBACK_H
#define DSM_FALLBACK_H

#include <linux/blk_types.h>

struct dsm;
struct dsm_fallback;

/*
 * For a d->bdev that cannot tell, gives @d its fallback; for others leaves it NULL.
 * Returns 0 or -ENOMEM.  The constructor's; may sleep.
 */
int dsm_fallback_init(struct dsm *d);

/* No write may be under way.  Must not hold d->lock. */
void dsm_fallback_exit(struct dsm *d);

/*
 * The end of dm's map hook for a write that is ready to go, where @d has a
 * fallback: a stamped write goes down as a copy, and if that fails, the write
 * itself goes, without a stream.  After the first such write whose stream the device
 * called invalid nothing is stamped.  Returns DM_MAPIO_REMAPPED or DM_MAPIO_SUBMITTED.
 */
int dsm_fallback_map(struct dsm *d, struct bio *bio);

/* True once a stream was refused. */
bool dsm_fallback_refused(const struct dsm *d);

/* The user has stated another number: believe it again.  Needs d->lock. */
void dsm_fallback_retry(struct dsm *d);

#endif
