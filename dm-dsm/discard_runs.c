// SPDX-License-Identifier: GPL-2.0-only
/*
 * From the ranges that userspace names to the runs of pages that are discarded.  All of it
 * is done with the lock held: a run is in flight as soon as it is there, see discard.c.
 */
#include <linux/bio.h>
#include <linux/bitops.h>
#include <linux/blkdev.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>

#include "discard_priv.h"

struct dsm_granule dsm_granule_of(struct block_device *bdev, u32 granularity, u32 alignment)
{
	const struct dsm_discard_limits limits = {
		.block = bdev_logical_block_size(bdev),
		.granularity = bdev_discard_granularity(bdev),
		.first = bdev_get_queue(bdev)->limits.discard_alignment,
		.max = bdev_max_discard_sectors(bdev),
		.start = get_start_sect(bdev),
	};

	return dsm_granule(&limits, granularity, alignment);
}

/* What was touched since @since, of the pages in the word of @page. */
static unsigned long dsm_touched(const struct dsm_discard *dd, u64 since, u64 page)
{
	unsigned int slot = dd->current_slot;
	unsigned long touched = 0;

	for (u64 window = dd->window; window >= since; window--, slot ^= 1) {
		const unsigned long *word = dsm_bits_word(dd->slot[slot], page);

		touched |= word ? READ_ONCE(*word) : ~0UL;
	}
	return touched;
}

/* The first page from @page on that was touched, or was not; at most @end. */
static u64 dsm_find_page(const struct dsm_discard *dd, u64 since, u64 page, u64 end,
			 bool touched)
{
	while (page < end) {
		unsigned long word = dsm_touched(dd, since, page);

		if (!touched)
			word = ~word;
		word &= GENMASK(BITS_PER_LONG - 1, page % BITS_PER_LONG);
		page = round_down(page, BITS_PER_LONG);
		if (word)
			return min(page + __ffs(word), end);
		page += BITS_PER_LONG;
	}
	return end;
}

/* Whether what is dead may be discarded with what is around it: see dead.c. */
static bool dsm_gathers(const struct dsm_discard *dd, const struct dsm_granule *g)
{
	return dsm_is_coarse(g) && g->unit == dd->dead.unit;
}

static void dsm_add_run(struct dsm_discard *dd, u64 start, u64 end)
{
	struct dsm_run *run = &dd->run[dd->nr_runs++];

	run->dd = dd;
	run->start = start;
	run->end = end;
	run->in_flight = true;
	bio_list_init(&run->held);
	dd->in_flight++;
}

/* Those pages in the word of @page that are dead: see dead.c. */
static unsigned long dsm_dead_pages(const struct dsm_discard *dd, u64 page)
{
	unsigned long dead = dsm_dead_word(&dd->dead, page);

	return dead ? dead & ~dsm_touched(dd, dd->valid, page) : 0;
}

/* Where the pages begin that lie before @page and are dead, at @least or later. */
static u64 dsm_dead_first(const struct dsm_discard *dd, u64 page, u64 least)
{
	while (page > least) {
		u64 last = page - 1;
		unsigned long gaps = ~dsm_dead_pages(dd, last) &
				     GENMASK(last % BITS_PER_LONG, 0);

		page = round_down(last, BITS_PER_LONG);
		if (gaps)
			return max(page + __fls(gaps) + 1, least);
	}
	return least;
}

u64 dsm_find_dead(const struct dsm_discard *dd, u64 page, u64 end, bool dead)
{
	while (page < end) {
		unsigned long word = dsm_dead_pages(dd, page);

		if (!dead)
			word = ~word;
		word &= GENMASK(BITS_PER_LONG - 1, page % BITS_PER_LONG);
		page = round_down(page, BITS_PER_LONG);
		if (word)
			return min(page + __ffs(word), end);
		page += BITS_PER_LONG;
	}
	return end;
}

/* Widens a discard of the pages @first to @last by what is dead at either end. */
static void dsm_widen(struct dsm_discard *dd, const struct dsm_granule *g, u64 first, u64 last,
		      u64 *start, u64 *end)
{
	u64 reach = DIV_ROUND_UP(g->unit, DSM_PAGE_SECTORS);
	u64 limit = dd->d->ti->len / DSM_PAGE_SECTORS;
	u64 low, high;

	low = dsm_dead_first(dd, first, first > reach ? first - reach : 0);
	high = dsm_find_dead(dd, last, min(last + reach, limit), false);
	low *= DSM_PAGE_SECTORS;
	if (dd->nr_runs)		/* runs are ascending and disjoint */
		low = max(low, dd->run[dd->nr_runs - 1].end);
	dsm_granule_cover(g, dd->d->start, low, high * DSM_PAGE_SECTORS, start, end);
}

/* The first page from @page on that the batch lets go, or does not; at most @end. */
static u64 dsm_find_free(const struct dsm_discard *dd, const struct dsm_batch *batch,
			 u64 page, u64 end, bool free)
{
	if (batch->dead)
		return dsm_find_dead(dd, page, end, free);
	return dsm_find_page(dd, batch->since, page, end, !free);
}

/* What is deferred is counted when it is sent. */
static void dsm_count_refused(struct dsm_discard *dd, const struct dsm_batch *batch, u64 pages)
{
	if (!batch->defer)
		dd->counts.refused += pages * DSM_PAGE_SECTORS;
}

/* How many of the pages @first to @last the last run has got already. */
static u64 dsm_pages_in_run(const struct dsm_discard *dd, u64 first, u64 last)
{
	u64 end = dd->nr_runs ? dd->run[dd->nr_runs - 1].end / DSM_PAGE_SECTORS : 0;

	return end > first ? min(end, last) - first : 0;
}

/*
 * Looks at the next pages of a range, @limit at most, and adds the run that they
 * begin with, or none.  Returns how many pages are dealt with.
 */
static u64 dsm_take_run(struct dsm_discard *dd, const struct dsm_granule *g,
			const struct dsm_batch *batch, u64 limit)
{
	const struct dsm_pages *range = &batch->range[batch->next];
	u64 stop = min(range->end, range->first + limit);
	u64 first = dsm_find_free(dd, batch, range->first, stop, true);
	u64 last = dsm_find_free(dd, batch, first, stop, false);
	u64 start = first * DSM_PAGE_SECTORS, end = last * DSM_PAGE_SECTORS;
	u64 sent = 0;

	if (first < last)
		dsm_dead_add(&dd->dead, first, last);
	dsm_count_refused(dd, batch, first - range->first);
	if (dd->audit || batch->defer)
		return last - range->first;

	if (first < last && dsm_gathers(dd, g))
		dsm_widen(dd, g, first, last, &start, &end);
	else
		dsm_granule_cut(g, dd->d->start, &start, &end);
	if (end > start) {
		end = min(end, start + g->max);
		dsm_add_run(dd, start, end);
		last = min(last, DIV_ROUND_UP(end, DSM_PAGE_SECTORS));
		sent = min(end, last * DSM_PAGE_SECTORS) - max(start, first * DSM_PAGE_SECTORS);
	} else if (last == stop && last < range->end && first > range->first) {
		last = first;	/* it may go on behind the limit */
	}
	dd->counts.too_short += (last - first) * DSM_PAGE_SECTORS - sent;
	return last - range->first;
}

/* Deals with the next pages of the range that is looked at.  Returns how many. */
static u64 dsm_take_pages(struct dsm_discard *dd, const struct dsm_granule *g,
			  struct dsm_batch *batch)
{
	struct dsm_pages *range = &batch->range[batch->next];
	u64 pages = range->end - range->first;

	if (!dsm_batch_is_valid(dd, batch)) {
		dsm_count_refused(dd, batch, pages);
	} else {
		u64 done = dsm_pages_in_run(dd, range->first, range->end);

		pages = done ?: dsm_take_run(dd, g, batch, DSM_SCAN_PAGES + 2ULL * g->unit);
	}
	range->first += pages;
	if (range->first >= range->end) {
		batch->next++;
		dd->queued--;
	}
	return pages;
}

bool dsm_fill_plug(struct dsm_discard *dd, struct dsm_batch *batch)
{
	u64 looked_at = 0, beside;
	struct dsm_granule g;

	spin_lock_irq(&dd->d->discard_lock);
	g = dsm_granule_wanted(dd);
	beside = dsm_is_coarse(&g) ? 2 * g.unit / DSM_PAGE_SECTORS : 0;
	dd->nr_runs = 0;
	while (batch->next < batch->nr && dd->nr_runs < DSM_PLUG_RUNS &&
	       looked_at < DSM_SCAN_PAGES)
		looked_at += dsm_take_pages(dd, &g, batch) + beside;
	spin_unlock_irq(&dd->d->discard_lock);
	return batch->next < batch->nr;
}
