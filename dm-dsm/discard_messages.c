// SPDX-License-Identifier: GPL-2.0-only
/*
 * The messages "window", "discard" and "forget", and what the status says of discards.
 */
#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "discard_priv.h"
#include "memory.h"

#define DSM_QUEUE_RANGES	65536	/* waiting for the worker */

bool dsm_discard_is_on(const struct dsm *d)
{
	const struct dsm_discard *dd = dsm_locked_discard(d);

	return d->params.discard && dd && !dd->ending && !dd->unsupported;
}

static int dsm_refuse_unless_on(struct dsm *d, const char *verb)
{
	if (!d->params.discard)
		return dsm_refuse(d, -EINVAL, "%s: discard is off", verb);
	if (!dsm_discard_is_on(d))
		return dsm_refuse(d, -EOPNOTSUPP, "%s: underlying device does not support discard",
				  verb);
	return 0;
}

/* Which chunks the table needs. */
static void dsm_map_chunks(struct dsm *d, struct dsm_discard *dd)
{
	const struct dsm_extent_map *map = dsm_locked_map(d);

	if (dd->generation == d->generation)
		return;

	bitmap_zero(dd->mapped, dd->slot[0]->nr);
	for (u32 i = 1; map && i <= map->nr_extents; i++) {
		u64 last = map->start[i] + map->extent[i].sectors - 1;
		u64 chunk = map->start[i] / DSM_PAGE_SECTORS / DSM_CHUNK_PAGES;

		for (; chunk <= last / DSM_PAGE_SECTORS / DSM_CHUNK_PAGES; chunk++)
			__set_bit(chunk, dd->mapped);
		if (!(i % 4096))
			cond_resched();
	}
	dd->generation = d->generation;
}

/* Publishes the slot that is not in use. */
static int dsm_next_window(struct dsm *d, struct dsm_discard *dd)
{
	int r = -EBUSY;

	spin_lock_irq(&d->discard_lock);
	if (!d->stopped) {
		dd->window = dd->window ? dd->window + 1 : ktime_get_boottime_ns();
		dd->valid = dd->valid ?: dd->window;
		dd->current_slot ^= 1;
		dsm_discard_publish(dd);
		r = 0;
	}
	spin_unlock_irq(&d->discard_lock);
	return r;
}

/* Before a window: takes back what was written in the one whose slot it needs. */
static void dsm_refresh_owed(struct dsm *d, struct dsm_discard *dd)
{
	bool complete, has_older, owes;
	struct dsm_granule g;

	spin_lock_irq(&d->discard_lock);
	g = dsm_granule_wanted(dd);
	owes = dsm_owes(&g);
	complete = dd->owed.complete;
	has_older = dd->valid && dd->valid < dd->window;
	spin_unlock_irq(&d->discard_lock);

	if (!complete || !owes)
		dsm_owed_forget(&dd->owed, &d->discard_lock);
	else if (has_older)
		dsm_owed_fold(&dd->owed, &d->discard_lock, dd->slot[!dd->current_slot]);
}

int dsm_discard_window(struct dsm *d, u64 *window)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	int r;

	lockdep_assert_held(&d->lock);

	r = dsm_refuse_unless_on(d, "window");
	if (r)
		return r;

	dsm_refresh_owed(d, dd);
	/* The window before the current one needs the slot that is cleared. */
	spin_lock_irq(&d->discard_lock);
	if (dd->valid)
		dd->valid = dd->window;
	spin_unlock_irq(&d->discard_lock);

	dsm_map_chunks(d, dd);
	r = dsm_bits_renew(dd->slot[!dd->current_slot], dd->mapped);
	if (r) {
		dsm_discard_invalidate(d);
		return dsm_refuse(d, r, "Cannot allocate write bitmap; discard window invalidated");
	}
	r = dsm_next_window(d, dd);
	if (r)
		return dsm_refuse(d, r, "window: device is suspended");

	/* From here on every write finds the new slot. */
	synchronize_rcu();
	*window = dd->window;
	return 0;
}

/* <start>:<length>, in sectors; whole pages of it are left in @range. */
static int dsm_parse_range(struct dsm *d, const char *word, struct dsm_pages *range,
			   u64 *sectors)
{
	char copy[2 * sizeof("18446744073709551615")], *rest = copy;
	const char *first;
	u64 start;

	if (strscpy(copy, word, sizeof(copy)) < 0)
		return -EINVAL;
	first = strsep(&rest, ":");
	if (!rest || kstrtou64(first, 10, &start) || kstrtou64(rest, 10, sectors) ||
	    !*sectors || start >= d->ti->len || *sectors > d->ti->len - start)
		return -EINVAL;

	range->first = DIV_ROUND_UP_ULL(start, DSM_PAGE_SECTORS);
	range->end = max((start + *sectors) / DSM_PAGE_SECTORS, range->first);
	return 0;
}

static int dsm_compare_ranges(const void *a, const void *b)
{
	const struct dsm_pages *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts the ranges, and joins what overlaps or touches. */
static void dsm_sort_ranges(struct dsm_batch *batch)
{
	struct dsm_pages *range = batch->range;
	bool sorted = true;
	u32 nr = 0;

	for (u32 i = 1; i < batch->nr && sorted; i++)
		sorted = range[i - 1].first <= range[i].first;
	if (!sorted)
		sort_nonatomic(range, batch->nr, sizeof(*range), dsm_compare_ranges, NULL);

	for (u32 i = 0; i < batch->nr; i++) {
		if (range[i].first == range[i].end)
			continue;
		if (nr && range[i].first <= range[nr - 1].end)
			range[nr - 1].end = max(range[nr - 1].end, range[i].end);
		else
			range[nr++] = range[i];
	}
	batch->nr = nr;
}

/* The batch that a message describes, or an error.  @slack: sectors of no whole page. */
static struct dsm_batch *dsm_parse_batch(struct dsm *d, u64 since, unsigned int nr,
					 char **words, u64 *slack)
{
	struct dsm_batch *batch;

	batch = kvmalloc(struct_size(batch, range, nr), DSM_GFP);
	if (!batch)
		return ERR_PTR(dsm_refuse(d, -ENOMEM,
					  "Cannot allocate %u ranges; none taken", nr));

	*batch = (struct dsm_batch) { .since = since, .nr = nr };
	*slack = 0;
	for (u32 i = 0; i < nr; i++) {
		struct dsm_pages *range = &batch->range[i];
		u64 sectors;

		if (dsm_parse_range(d, words[i], range, &sectors)) {
			kvfree(batch);
			return ERR_PTR(dsm_refuse(d, -EINVAL,
						  "discard: Invalid range '%s', must be <start>:<length> within %llu sectors; none taken",
						  words[i], (u64)d->ti->len));
		}
		*slack += sectors - (range->end - range->first) * DSM_PAGE_SECTORS;
	}
	dsm_sort_ranges(batch);
	return batch;
}

static void dsm_prepare_owed(struct dsm *d, struct dsm_discard *dd,
			     const struct dsm_batch *batch)
{
	const struct dsm_granule g = dsm_granule_wanted(dd);

	for (u32 i = 0; dsm_owes(&g) && i < batch->nr; i++)
		dsm_owed_prepare(&dd->owed, &d->discard_lock, dd->slot[0]->nr,
				 batch->range[i].first, batch->range[i].end);
}

/* Returns 0, -ESTALE or -EBUSY; then the batch is still the caller's. */
static int dsm_add_batch(struct dsm *d, struct dsm_discard *dd,
			 struct dsm_batch *batch, u64 slack)
{
	int r = 0;

	spin_lock_irq(&d->discard_lock);
	batch->forgets = dd->forgets;
	if (!dsm_batch_is_valid(dd, batch)) {
		r = -ESTALE;
	} else if (batch->nr > DSM_QUEUE_RANGES - dd->queued) {
		r = -EBUSY;
	} else {
		dd->counts.too_short += slack;
		dd->queued += batch->nr;
		list_add_tail(&batch->list, &dd->queue);
		dsm_discard_wake(dd);
	}
	spin_unlock_irq(&d->discard_lock);
	return r;
}

int dsm_discard_queue(struct dsm *d, unsigned int argc, char **argv,
		      unsigned int *queued)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	unsigned int nr = argc - 2;
	struct dsm_batch *batch;
	u64 since, slack;
	int r;

	lockdep_assert_held(&d->lock);

	r = dsm_refuse_unless_on(d, "discard");
	if (r)
		return r;
	if (kstrtou64(argv[1], 10, &since))
		return dsm_refuse(d, -EINVAL, "discard: Invalid window number '%s'",
				  argv[1]);
	if (nr > DSM_QUEUE_RANGES)
		return dsm_refuse(d, -EINVAL,
				  "discard: Too many ranges (%u, at most %u); none taken",
				  nr, DSM_QUEUE_RANGES);

	batch = dsm_parse_batch(d, since, nr, argv + 2, &slack);
	if (IS_ERR(batch))
		return PTR_ERR(batch);

	*queued = batch->nr;
	dsm_prepare_owed(d, dd, batch);
	r = dsm_add_batch(d, dd, batch, slack);
	if (!r)
		return 0;

	kvfree(batch);
	if (r == -ESTALE)
		return dsm_refuse(d, r,
				  "discard: Window %llu is not valid; none taken",
				  since);
	return dsm_refuse(d, r,
			  "discard: Queue full, cannot add %u ranges (queue holds %u); none taken",
			  nr, DSM_QUEUE_RANGES);
}

int dsm_discard_forget(struct dsm *d)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	int r = dsm_refuse_unless_on(d, "forget");

	if (r)
		return r;

	/* Ranges that wait, and runs that are not sent yet, are refused from here on. */
	spin_lock_irq(&d->discard_lock);
	dd->forgets++;
	spin_unlock_irq(&d->discard_lock);
	dsm_owed_forget(&dd->owed, &d->discard_lock);
	return 0;
}

static bool dsm_none_in_flight(struct dsm *d)
{
	const struct dsm_discard *dd;
	bool none;

	spin_lock_irq(&d->discard_lock);
	dd = dsm_locked_discard(d);
	none = !dd || !dd->in_flight;
	spin_unlock_irq(&d->discard_lock);
	return none;
}

unsigned int dsm_discard_timeout = 20000;

int dsm_discard_barrier(struct dsm *d)
{
	long left = wait_event_killable_timeout(d->discard_wait, dsm_none_in_flight(d),
						msecs_to_jiffies(dsm_discard_timeout));

	if (left < 0)
		return -EINTR;
	return left ? 0 : -ETIMEDOUT;
}

void dsm_discard_status(struct dsm *d, struct dsm_discard_status *status)
{
	const struct dsm_discard *dd;
	struct dsm_granule g;

	*status = (struct dsm_discard_status) {};
	spin_lock_irq(&d->discard_lock);
	dd = dsm_locked_discard(d);
	if (dd) {
		g = dsm_granule_wanted(dd);
		*status = (struct dsm_discard_status) {
			.window = dd->window,
			.valid = d->stopped ? 0 : dd->valid,
			.queued = dd->queued + dd->in_flight,
			.owed = dd->owed.complete ? dd->owed.pages : 0,
			.granularity = g.unit << SECTOR_SHIFT,
			.alignment = g.align << SECTOR_SHIFT,
			.counts = dd->counts,
		};
	}
	spin_unlock_irq(&d->discard_lock);
}

void dsm_discard_reset(struct dsm *d)
{
	struct dsm_discard *dd;

	spin_lock_irq(&d->discard_lock);
	dd = dsm_locked_discard(d);
	if (dd)
		dd->counts = (struct dsm_discard_counts) {};
	spin_unlock_irq(&d->discard_lock);
}
