// SPDX-License-Identifier: GPL-2.0-only
/*
 * The messages "window", "discard", "written" and "forget", and what the status says of
 * discards.
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

#define DSM_QUEUE_RANGES	65536	/* that there is room for in all that is queued */

bool dsm_discard_is_on(const struct dsm *d)
{
	const struct dsm_discard *dd = dsm_locked_discard(d);

	return d->params.discard && dd && !dd->ending && (dd->watch || !dd->unsupported);
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

static unsigned int dsm_next_slot(const struct dsm_discard *dd)
{
	return (dd->current_slot + 1) % DSM_WINDOWS;
}

/* Publishes the next slot, which has been cleared. */
static int dsm_next_window(struct dsm *d, struct dsm_discard *dd)
{
	int r = -EBUSY;

	spin_lock_irq(&d->discard_lock);
	if (!d->stopped) {
		dd->window = dd->window ? dd->window + 1 : ktime_get_boottime_ns();
		dd->valid = dd->valid ?: dd->window;
		dd->current_slot = dsm_next_slot(dd);
		dsm_discard_publish(dd);
		r = 0;
	}
	spin_unlock_irq(&d->discard_lock);
	return r;
}

int dsm_discard_window(struct dsm *d, u64 *window)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	int r;

	lockdep_assert_held(&d->lock);

	r = dsm_refuse_unless_on(d, "window");
	if (r)
		return r;

	/* The oldest window needs the slot that is cleared. */
	spin_lock_irq(&d->discard_lock);
	if (dd->valid)
		dd->valid = max(dd->valid, dd->window + 2 - DSM_WINDOWS);
	spin_unlock_irq(&d->discard_lock);

	dsm_map_chunks(d, dd);
	r = dsm_bits_renew(dd->slot[dsm_next_slot(dd)], dd->mapped);
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

/* <start>:<length>, in sectors, of which @range gets the whole pages */
static int dsm_parse_range(struct dsm *d, const char *word, struct dsm_pages *range, u64 *slack)
{
	char copy[2 * sizeof("18446744073709551615")], *rest = copy;
	const char *first;
	u64 start, sectors;

	if (strscpy(copy, word, sizeof(copy)) < 0)
		return -EINVAL;
	first = strsep(&rest, ":");
	if (!rest || kstrtou64(first, 10, &start) || kstrtou64(rest, 10, &sectors) ||
	    !sectors || start >= d->ti->len || sectors > d->ti->len - start)
		return -EINVAL;

	range->first = DIV_ROUND_UP_ULL(start, DSM_PAGE_SECTORS);
	range->end = max((start + sectors) / DSM_PAGE_SECTORS, range->first);
	*slack += sectors - (range->end - range->first) * DSM_PAGE_SECTORS;
	return 0;
}

/* A window that is valid now, or an error.  If it is not later, that counts as a stop. */
static int dsm_parse_window(struct dsm *d, const struct dsm_discard *dd, const char *verb,
			    const char *word, u64 *since)
{
	bool valid;

	if (kstrtou64(word, 10, since))
		return dsm_refuse(d, -EINVAL, "%s: Invalid window number '%s'", verb, word);
	spin_lock_irq(&d->discard_lock);
	valid = dsm_window_is_valid(dd, *since);
	spin_unlock_irq(&d->discard_lock);
	if (!valid)
		return dsm_refuse(d, -ESTALE, "%s: Window %llu is not valid; none taken",
				  verb, *since);
	return 0;
}

static int dsm_parse_words(struct dsm *d, const struct dsm_discard *dd, const char *verb,
			   char **words, struct dsm_batch *batch, u64 *slack)
{
	u64 since = 0;
	int r;

	*slack = 0;
	for (u32 i = 0; i < batch->allocated; i++) {
		struct dsm_pages *range = &batch->range[batch->nr];

		if (!i || !strchr(words[i], ':')) {
			r = dsm_parse_window(d, dd, verb, words[i], &since);
			if (r)
				return r;
			continue;
		}
		if (dsm_parse_range(d, words[i], range, slack))
			return dsm_refuse(d, -EINVAL,
					  "%s: Invalid range '%s', must be <start>:<length> within %llu sectors; none taken",
					  verb, words[i], (u64)d->ti->len);
		range->since = since;
		batch->nr += range->first < range->end;
	}
	return 0;
}

static int dsm_compare_ranges(const void *a, const void *b)
{
	const struct dsm_pages *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

static int dsm_sort_ranges(struct dsm *d, const char *verb, struct dsm_batch *batch)
{
	struct dsm_pages *range = batch->range;
	bool sorted = true;

	for (u32 i = 1; i < batch->nr && sorted; i++)
		sorted = range[i - 1].first <= range[i].first;
	if (!sorted)
		sort_nonatomic(range, batch->nr, sizeof(*range), dsm_compare_ranges, NULL);

	for (u32 i = 1; i < batch->nr; i++)
		if (range[i].first < range[i - 1].end)
			return dsm_refuse(d, -EINVAL,
					  "%s: Ranges overlap at sector %llu; none taken",
					  verb, range[i].first * DSM_PAGE_SECTORS);
	return 0;
}

/* The ranges of a message, or an error.  @slack: sectors that are in no page of them. */
static struct dsm_batch *dsm_parse_batch(struct dsm *d, struct dsm_discard *dd,
					 unsigned int argc, char **argv, u64 *slack)
{
	unsigned int words = argc - 1;
	struct dsm_batch *batch;
	int r;

	if (words > DSM_QUEUE_RANGES)
		return ERR_PTR(dsm_refuse(d, -EINVAL,
					  "%s: Too many ranges (%u, at most %u); none taken",
					  argv[0], words, DSM_QUEUE_RANGES));
	batch = dsm_may_take(struct_size(batch, range, words)) ?
		kvmalloc(struct_size(batch, range, words), DSM_GFP) : NULL;
	if (!batch)
		return ERR_PTR(dsm_refuse(d, -ENOMEM, "Cannot allocate %u ranges; none taken",
					  words));

	*batch = (struct dsm_batch) { .allocated = words };
	spin_lock_irq(&d->discard_lock);
	batch->stops = dd->stops;
	spin_unlock_irq(&d->discard_lock);
	r = dsm_parse_words(d, dd, argv[0], argv + 1, batch, slack);
	if (!r)
		r = dsm_sort_ranges(d, argv[0], batch);
	if (r) {
		kvfree(batch);
		return ERR_PTR(r);
	}
	return batch;
}

/* Returns 0, -ESTALE or -EBUSY.  The batch is the caller's unless it is @queued. */
static int dsm_add_batch(struct dsm *d, struct dsm_discard *dd, struct dsm_batch *batch,
			 u64 slack, bool *queued)
{
	int r = 0;

	*queued = false;
	spin_lock_irq(&d->discard_lock);
	if (!dsm_batch_may_go(dd, batch)) {
		r = -ESTALE;
	} else if (batch->nr && batch->allocated > DSM_QUEUE_RANGES - dd->allocated) {
		r = -EBUSY;
	} else {
		dd->counts.too_short += slack;
		*queued = batch->nr;
	}
	if (*queued) {
		dd->queued += batch->nr;
		dd->allocated += batch->allocated;
		list_add_tail(&batch->list, &dd->queue);
		dsm_discard_wake(dd);
	}
	spin_unlock_irq(&d->discard_lock);
	return r;
}

static int dsm_refuse_stopped(struct dsm *d, const char *verb)
{
	return dsm_refuse(d, -ESTALE, "%s: Stopped meanwhile; none taken", verb);
}

int dsm_discard_queue(struct dsm *d, unsigned int argc, char **argv, unsigned int *nr)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	struct dsm_batch *batch;
	bool queued;
	u64 slack;
	int r;

	lockdep_assert_held(&d->lock);

	r = dsm_refuse_unless_on(d, argv[0]);
	if (r)
		return r;
	if (dd->watch)
		return dsm_refuse(d, -EINVAL, "discard: discard is only watched");
	batch = dsm_parse_batch(d, dd, argc, argv, &slack);
	if (IS_ERR(batch))
		return PTR_ERR(batch);

	*nr = batch->nr;
	r = dsm_add_batch(d, dd, batch, slack, &queued);
	if (!queued)
		kvfree(batch);
	if (r == -EBUSY)
		return dsm_refuse(d, r,
				  "discard: Queue full, cannot add %u ranges (queue holds %u); none taken",
				  *nr, DSM_QUEUE_RANGES);
	return r ? dsm_refuse_stopped(d, argv[0]) : 0;
}

int dsm_discard_forget(struct dsm *d)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	int r = dsm_refuse_unless_on(d, "forget");

	if (r)
		return r;
	/* Ranges that wait, and runs that are not sent yet, are refused from here on. */
	spin_lock_irq(&d->discard_lock);
	dd->stops++;
	spin_unlock_irq(&d->discard_lock);
	return 0;
}

/* The reply to "written", and the run that its next word is for. */
struct dsm_answer {
	char *result;
	size_t sz;
	unsigned int maxlen;
	char kind;		/* '-' untouched, '?' unknown, 0 written */
	u64 first, end;
	u64 written;		/* pages so far */
};

static void dsm_end_answer(struct dsm_answer *a)
{
	unsigned int maxlen = a->maxlen;
	char *result = a->result;
	size_t sz = a->sz;

	if (!a->kind)
		a->written += a->end - a->first;
	else
		DMEMIT(" %c%llu:%llu", a->kind, a->first * DSM_PAGE_SECTORS,
		       (a->end - a->first) * DSM_PAGE_SECTORS);
	a->sz = sz;
}

static void dsm_add_answer(struct dsm_answer *a, char kind, u64 first, u64 end)
{
	if (kind != a->kind || first != a->end) {
		dsm_end_answer(a);
		a->kind = kind;
		a->first = first;
	}
	a->end = end;
}

/* Answers for the pages from @page on that have the same answer, in one word.  Returns the next. */
static u64 dsm_answer_some(const struct dsm_discard *dd, struct dsm_answer *a,
			   const struct dsm_pages *range, u64 page)
{
	u64 base = round_down(page, BITS_PER_LONG), next;
	unsigned long seen, other;
	bool missing, written;

	seen = dsm_seen(dd, range->since, page, &missing);
	written = seen & BIT(page % BITS_PER_LONG);
	other = (written ? ~seen : seen) & GENMASK(BITS_PER_LONG - 1, page % BITS_PER_LONG);
	next = min(range->end, base + (other ? __ffs(other) : BITS_PER_LONG));
	dsm_add_answer(a, written ? 0 : missing ? '?' : '-', page, next);
	return next;
}

/* Until the reply is full, which device-mapper reports.  Windows stay with the mutex held. */
static int dsm_answer(const struct dsm_discard *dd, struct dsm_answer *a,
		      const struct dsm_batch *batch)
{
	for (u32 i = 0; i < batch->nr; i++) {
		const struct dsm_pages *range = &batch->range[i];

		for (u64 page = range->first; page < range->end && a->sz + 1 < a->maxlen;) {
			page = dsm_answer_some(dd, a, range, page);
			if (fatal_signal_pending(current))
				return -EINTR;
			cond_resched();
		}
	}
	dsm_end_answer(a);
	return 0;
}

int dsm_discard_written(struct dsm *d, unsigned int argc, char **argv, char *result,
			unsigned int maxlen)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	struct dsm_answer a = { .result = result, .maxlen = maxlen };
	struct dsm_batch *batch;
	size_t sz = 0;
	bool stopped;
	u64 slack;
	int r;

	lockdep_assert_held(&d->lock);

	r = dsm_refuse_unless_on(d, argv[0]);
	if (r)
		return r;
	batch = dsm_parse_batch(d, dd, argc, argv, &slack);
	if (IS_ERR(batch))
		return PTR_ERR(batch);

	DMEMIT("written");
	a.sz = sz;
	r = dsm_answer(dd, &a, batch);
	sz = a.sz;
	DMEMIT(" %llu", a.written);
	spin_lock_irq(&d->discard_lock);
	stopped = !dsm_batch_may_go(dd, batch);
	spin_unlock_irq(&d->discard_lock);
	kvfree(batch);
	if (r)
		return dsm_refuse(d, r, "written: Interrupted");
	return stopped ? dsm_refuse_stopped(d, argv[0]) : 0;
}

/* Whether a plug is over; another one begins after it. */
static bool dsm_plug_is_over(struct dsm *d, u64 plug)
{
	const struct dsm_discard *dd;
	bool over;

	spin_lock_irq(&d->discard_lock);
	dd = dsm_locked_discard(d);
	over = !dd || !dd->in_flight || d->plugs != plug;
	spin_unlock_irq(&d->discard_lock);
	return over;
}

unsigned int dsm_discard_timeout = 20000;

int dsm_discard_barrier(struct dsm *d)
{
	u64 plug;
	long left;

	spin_lock_irq(&d->discard_lock);
	plug = d->plugs;
	spin_unlock_irq(&d->discard_lock);
	left = wait_event_killable_timeout(d->discard_wait, dsm_plug_is_over(d, plug),
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
			.granularity = g.unit << SECTOR_SHIFT,
			.alignment = g.align << SECTOR_SHIFT,
			.offset = dsm_granule_first(&g, d->start) << SECTOR_SHIFT,
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
