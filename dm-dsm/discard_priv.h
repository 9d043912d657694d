/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of discards share: discard.c has the rule, its proof, both sides of the
 * race, and on and off; discard_messages.c windows and ranges; discard_runs.c what becomes
 * of these.
 */
#ifndef DSM_DISCARD_PRIV_H
#define DSM_DISCARD_PRIV_H

#include <linux/bio.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "bits.h"
#include "discard.h"
#include "dsm.h"
#include "policies/granule.h"

#define DSM_PLUG_RUNS		256	/* ranges of an NVMe command */
#define DSM_SCAN_PAGES		(SZ_256M / DSM_PAGE_SIZE)	/* scanned with the lock held */
#define DSM_RANGE_COST		64	/* pages: what a range takes beside its own */
#define DSM_WINDOWS		4	/* of which bits are kept */

/* Pages that no write may have touched since a window; @first moves on with the worker. */
struct dsm_pages {
	u64 first;
	u64 end;
	u64 since;
};

/* The ranges of a message, in ascending order and disjoint. */
struct dsm_batch {
	struct list_head list;
	u64 stops;		/* dsm_discard's, when it came */
	u32 allocated;		/* ranges that there is room for */
	u32 nr;
	u32 next;		/* index of the current range */
	struct dsm_pages range[];
};

/* A discard in flight, in sectors of the target. */
struct dsm_run {
	struct bio bio;
	struct dsm_discard *dd;
	u64 start;
	u64 end;
	bool in_flight;
	ktime_t held_at;	/* when the first in @held came */
	struct bio_list held;	/* writes waiting for it */
};

struct dsm_discard {
	struct dsm_bits __rcu *written;	/* of the current window */
	bool active;			/* discards may be in flight */

	/* Under d->discard_lock. */
	bool ending;			/* freed once the worker sleeps */
	bool unsupported;		/* by the device */
	u64 window, valid;		/* as in struct dsm_discard_status */
	u64 stops;			/* what was queued before is refused */
	bool watch;			/* "discard" is refused */
	u32 granularity, alignment;	/* bytes that the features say, or 0 */
	unsigned int current_slot;	/* the one before has the window before, and so on */
	unsigned int queued;		/* ranges that wait */
	unsigned int allocated;		/* ranges that there is room for, with the batch at work */
	struct list_head queue;		/* struct dsm_batch */
	struct dsm_discard_counts counts;
	unsigned int nr_runs;		/* of this plug */
	unsigned int in_flight;		/* runs of it */
	struct bio_list released;	/* writes whose discards are done */

	/* Under d->lock. */
	u64 generation;			/* of the table that @mapped is of */
	unsigned long *mapped;		/* a bit for each chunk that the table needs */

	struct dsm *d;
	struct dsm_bits *slot[DSM_WINDOWS];
	struct work_struct work;
	struct dsm_run *run;		/* DSM_PLUG_RUNS; ascending, disjoint */
};

static inline struct dsm_discard *dsm_locked_discard(const struct dsm *d)
{
	return rcu_dereference_protected(d->discard, lockdep_is_held(&d->lock) ||
					 lockdep_is_held(&d->discard_lock));
}

/* Writes may be missed from here on. */
static inline void dsm_lose_track(struct dsm_discard *dd)
{
	dd->valid = 0;
	dd->stops++;
}

/* Of the device, with what the features say: see dsm_granule() */
struct dsm_granule dsm_granule_of(struct block_device *bdev, u32 granularity, u32 alignment);

static inline struct dsm_granule dsm_granule_wanted(const struct dsm_discard *dd)
{
	return dsm_granule_of(dd->d->bdev, dd->granularity, dd->alignment);
}

/* Whether nothing has come that stops a batch. */
static inline bool dsm_batch_may_go(const struct dsm_discard *dd, const struct dsm_batch *batch)
{
	return batch->stops == dd->stops;
}

/* Whether the bits say all about the time since a window. */
static inline bool dsm_window_is_valid(const struct dsm_discard *dd, u64 since)
{
	return dd->valid && since >= dd->valid && since <= dd->window;
}

/* Lets writes find the current bitmap.  Needs the lock. */
void dsm_discard_publish(struct dsm_discard *dd);

/* Wakes the worker. */
void dsm_discard_wake(struct dsm_discard *dd);

/*
 * What was seen to be written since @since, which is valid, of the pages in the word of
 * @page.  @missing: whether one of its windows has no bits there.  Needs the mutex or the lock.
 */
unsigned long dsm_seen(const struct dsm_discard *dd, u64 since, u64 page, bool *missing);

/* Fills the plug from a batch.  Returns whether there is more in it.  Takes the lock. */
bool dsm_fill_plug(struct dsm_discard *dd, struct dsm_batch *batch);

#endif
