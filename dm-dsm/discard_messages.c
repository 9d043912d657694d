// SPDX-License-Identifier: GPL-2.0-only
/*
 * The messages "window", "discard", "defer", "forget" and "dead", and what the status says
 * of discards.
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
static void dsm_refresh_dead(struct dsm *d, struct dsm_discard *dd)
{
	bool complete, has_older;
	struct dsm_granule g;

	spin_lock_irq(&d->discard_lock);
	g = dsm_granule_wanted(dd);
	complete = dd->dead.complete && dd->dead.unit == g.unit;
	has_older = dd->valid && dd->valid < dd->window;
	spin_unlock_irq(&d->discard_lock);

	if (!complete)
		dsm_dead_forget(&dd->dead, &d->discard_lock, g.unit);
	else if (has_older)
		dsm_dead_fold(&dd->dead, &d->discard_lock, dd->slot[!dd->current_slot]);
}

int dsm_discard_window(struct dsm *d, u64 *window)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	int r;

	lockdep_assert_held(&d->lock);

	r = dsm_refuse_unless_on(d, "window");
	if (r)
		return r;

	dsm_refresh_dead(d, dd);
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

/* <start>:<length>, in sectors; its whole pages, or all that it has part of, are @range. */
static int dsm_parse_range(struct dsm *d, const char *word, bool whole,
			   struct dsm_pages *range, u64 *sectors)
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

	if (whole) {
		range->first = DIV_ROUND_UP_ULL(start, DSM_PAGE_SECTORS);
		range->end = max((start + *sectors) / DSM_PAGE_SECTORS, range->first);
	} else {
		range->first = start / DSM_PAGE_SECTORS;
		range->end = DIV_ROUND_UP_ULL(start + *sectors, DSM_PAGE_SECTORS);
	}
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

/*
 * The ranges of the message @verb, or an error.  @whole: see dsm_parse_range().  @slack:
 * sectors that are in no page of them.
 */
static struct dsm_batch *dsm_parse_batch(struct dsm *d, const char *verb, unsigned int nr,
					 char **words, bool whole, u64 *slack)
{
	struct dsm_batch *batch;

	if (nr > DSM_QUEUE_RANGES)
		return ERR_PTR(dsm_refuse(d, -EINVAL,
					  "%s: Too many ranges (%u, at most %u); none taken",
					  verb, nr, DSM_QUEUE_RANGES));
	batch = kvmalloc(struct_size(batch, range, nr), DSM_GFP);
	if (!batch)
		return ERR_PTR(dsm_refuse(d, -ENOMEM,
					  "Cannot allocate %u ranges; none taken", nr));

	*batch = (struct dsm_batch) { .nr = nr };
	*slack = 0;
	for (u32 i = 0; i < nr; i++) {
		struct dsm_pages *range = &batch->range[i];
		u64 sectors;

		if (dsm_parse_range(d, words[i], whole, range, &sectors)) {
			kvfree(batch);
			return ERR_PTR(dsm_refuse(d, -EINVAL,
						  "%s: Invalid range '%s', must be <start>:<length> within %llu sectors; none taken",
						  verb, words[i], (u64)d->ti->len));
		}
		*slack += sectors - (range->end - range->first) * DSM_PAGE_SECTORS;
	}
	dsm_sort_ranges(batch);
	return batch;
}

static void dsm_prepare_dead(struct dsm *d, struct dsm_discard *dd,
			     const struct dsm_batch *batch)
{
	for (u32 i = 0; i < batch->nr; i++)
		dsm_dead_prepare(&dd->dead, &d->discard_lock, dd->slot[0]->nr,
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
	bool defer = !strcasecmp(argv[0], "defer");
	bool dead = !defer && !strcasecmp(argv[1], "dead");
	const char *verb = defer ? "defer" : "discard";
	unsigned int nr = argc - 2;
	struct dsm_batch *batch;
	u64 since = 0, slack;
	int r;

	lockdep_assert_held(&d->lock);

	r = dsm_refuse_unless_on(d, verb);
	if (r)
		return r;
	if (!dead && kstrtou64(argv[1], 10, &since))
		return dsm_refuse(d, -EINVAL, "%s: Invalid window number '%s'", verb, argv[1]);

	batch = dsm_parse_batch(d, verb, nr, argv + 2, true, &slack);
	if (IS_ERR(batch))
		return PTR_ERR(batch);
	batch->since = since;
	batch->dead = dead;
	batch->defer = defer;

	*queued = batch->nr;
	if (!dead)
		dsm_prepare_dead(d, dd, batch);
	r = dsm_add_batch(d, dd, batch, slack);
	if (!r)
		return 0;

	kvfree(batch);
	if (r == -ESTALE)
		return dead ? dsm_refuse(d, r, "discard dead: No window is valid; none taken") :
			      dsm_refuse(d, r, "%s: Window %llu is not valid; none taken",
					 verb, since);
	return dsm_refuse(d, r,
			  "%s: Queue full, cannot add %u ranges (queue holds %u); none taken",
			  verb, nr, DSM_QUEUE_RANGES);
}

static void dsm_forget_ranges(struct dsm *d, struct dsm_discard *dd,
			      const struct dsm_batch *batch)
{
	for (u32 i = 0; i < batch->nr; i++) {
		u64 page = batch->range[i].first, next;

		for (; page < batch->range[i].end; page = next) {
			next = min(batch->range[i].end, page + DSM_SCAN_PAGES);
			spin_lock_irq(&d->discard_lock);
			dsm_dead_remove(&dd->dead, page, next);
			spin_unlock_irq(&d->discard_lock);
			cond_resched();
		}
	}
}

int dsm_discard_forget(struct dsm *d, unsigned int argc, char **argv)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	struct dsm_batch *batch = NULL;
	int r = dsm_refuse_unless_on(d, "forget");
	u64 slack;

	if (r)
		return r;
	if (argc > 1)
		batch = dsm_parse_batch(d, "forget", argc - 1, argv + 1, false, &slack);
	if (IS_ERR(batch))
		return PTR_ERR(batch);

	/* Ranges that wait, and runs that are not sent yet, are refused from here on. */
	spin_lock_irq(&d->discard_lock);
	dd->forgets++;
	spin_unlock_irq(&d->discard_lock);
	if (batch)
		dsm_forget_ranges(d, dd, batch);
	else
		dsm_dead_forget(&dd->dead, &d->discard_lock, dd->dead.unit);
	kvfree(batch);
	return 0;
}

/* The dead pages that come first in @range, of which they are cut off; or none. */
static struct dsm_pages dsm_next_dead(struct dsm_discard *dd, struct dsm_pages *range)
{
	u64 stop = min(range->end, range->first + DSM_SCAN_PAGES);
	struct dsm_pages found;

	spin_lock_irq(&dd->d->discard_lock);
	found.first = dsm_find_dead(dd, range->first, stop, true);
	found.end = dsm_find_dead(dd, found.first, stop, false);
	spin_unlock_irq(&dd->d->discard_lock);
	range->first = found.end;
	cond_resched();
	return found;
}

/* Returns how many pages of @batch are dead; and where, as far as @result has room. */
static u64 dsm_dead_in(struct dsm_discard *dd, const struct dsm_batch *batch, char *result,
		       size_t sz, unsigned int maxlen)
{
	u64 pages = 0;

	for (u32 i = 0; i < batch->nr; i++) {
		struct dsm_pages range = batch->range[i];

		while (range.first < range.end) {
			struct dsm_pages dead = dsm_next_dead(dd, &range);

			if (dead.first == dead.end)
				continue;
			pages += dead.end - dead.first;
			if (result)
				DMEMIT(" %llu:%llu", dead.first * DSM_PAGE_SECTORS,
				       (dead.end - dead.first) * DSM_PAGE_SECTORS);
		}
	}
	return pages;
}

int dsm_discard_dead(struct dsm *d, unsigned int argc, char **argv, char *result,
		     unsigned int maxlen)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	int r = dsm_refuse_unless_on(d, "dead");
	struct dsm_batch *batch;
	size_t sz = 0;
	u64 slack;

	if (r)
		return r;
	batch = dsm_parse_batch(d, "dead", argc - 1, argv + 1, true, &slack);
	if (IS_ERR(batch))
		return PTR_ERR(batch);

	DMEMIT("%llu", dsm_dead_in(dd, batch, NULL, 0, 0));
	dsm_dead_in(dd, batch, result, sz, maxlen);
	kvfree(batch);
	if (!READ_ONCE(dd->valid))
		return dsm_refuse(d, -ESTALE, "dead: No window is valid");
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
			.dead = dd->dead.complete ? dd->dead.pages : 0,
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
