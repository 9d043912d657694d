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

unsigned long dsm_seen(const struct dsm_discard *dd, u64 since, u64 page, bool *missing)
{
	unsigned int slot = dd->current_slot;
	unsigned long seen = 0;

	*missing = false;
	for (u64 window = dd->window; window >= since; window--) {
		const unsigned long *word = dsm_bits_word(dd->slot[slot], page);

		if (word)
			seen |= READ_ONCE(*word);
		else
			*missing = true;
		slot = (slot + DSM_WINDOWS - 1) % DSM_WINDOWS;
	}
	return seen;
}

/* What was touched since @since, or may have been, of the pages in the word of @page. */
static unsigned long dsm_touched(const struct dsm_discard *dd, u64 since, u64 page)
{
	unsigned long seen;
	bool missing;

	if (!dsm_window_is_valid(dd, since))
		return ~0UL;
	seen = dsm_seen(dd, since, page, &missing);
	return missing ? ~0UL : seen;
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

/*
 * Up to which page ranges are looked at: so far that a granule is there as a whole if one is
 * at all, and no farther than may be done with the lock held.
 */
static u64 dsm_scan_end(const struct dsm_granule *g, const struct dsm_batch *batch)
{
	u64 stop = batch->range[batch->next].first + DSM_SCAN_PAGES + 2ULL * g->unit;
	u64 far = batch->next + DSM_SCAN_PAGES / DSM_RANGE_COST + 2ULL * g->unit;

	return far < batch->nr ? min(stop, batch->range[far].first) : stop;
}

/* Where the run that begins at @page ends, over neighbouring ranges; at most @stop. */
static u64 dsm_find_run_end(const struct dsm_discard *dd, const struct dsm_batch *batch,
			    u64 page, u64 stop)
{
	for (u32 i = batch->next; i < batch->nr && batch->range[i].first <= page; i++) {
		const struct dsm_pages *range = &batch->range[i];

		page = dsm_find_page(dd, range->since, page, min(range->end, stop), true);
		if (page < range->end)
			break;
	}
	return page;
}

/* Moves on to @page.  Returns how many ranges are done. */
static unsigned int dsm_move_on(struct dsm_discard *dd, struct dsm_batch *batch, u64 page)
{
	unsigned int done = 0;

	while (batch->next < batch->nr && batch->range[batch->next].end <= page) {
		batch->next++;
		dd->queued--;
		done++;
	}
	if (batch->next < batch->nr)
		batch->range[batch->next].first = max(batch->range[batch->next].first, page);
	return done;
}

/*
 * Looks at the next pages, and adds the run that they begin with, or none.  Returns the page
 * up to which all are dealt with.
 */
static u64 dsm_take_run(struct dsm_discard *dd, const struct dsm_granule *g,
			const struct dsm_batch *batch)
{
	const struct dsm_pages *range = &batch->range[batch->next];
	u64 stop = dsm_scan_end(g, batch);
	u64 first = dsm_find_page(dd, range->since, range->first, min(range->end, stop), false);
	u64 last = dsm_find_run_end(dd, batch, first, stop);
	u64 start = first * DSM_PAGE_SECTORS, end = last * DSM_PAGE_SECTORS;
	u64 sent = 0;

	dd->counts.refused += (first - range->first) * DSM_PAGE_SECTORS;
	dsm_granule_cut(g, dd->d->start, &start, &end);
	if (end > start) {
		end = min(end, start + g->max);
		dsm_add_run(dd, start, end);
		last = min(last, DIV_ROUND_UP(end, DSM_PAGE_SECTORS));
		sent = end - start;
	} else if (last == stop && first > range->first) {
		last = first;	/* it may go on behind that */
	}
	dd->counts.too_short += (last - first) * DSM_PAGE_SECTORS - sent;
	return last;
}

/* Deals with some pages of a batch.  Returns how many, and for each range some more. */
static u64 dsm_take_pages(struct dsm_discard *dd, const struct dsm_granule *g,
			  struct dsm_batch *batch)
{
	const struct dsm_pages *range = &batch->range[batch->next];
	u64 first = range->first, last = range->end;

	if (dsm_batch_may_go(dd, batch))
		last = dsm_take_run(dd, g, batch);
	else
		dd->counts.refused += (last - first) * DSM_PAGE_SECTORS;
	return last - first + (dsm_move_on(dd, batch, last) + 1) * DSM_RANGE_COST;
}

bool dsm_fill_plug(struct dsm_discard *dd, struct dsm_batch *batch)
{
	struct dsm_granule g;
	u64 cost = 0;

	spin_lock_irq(&dd->d->discard_lock);
	g = dsm_granule_wanted(dd);
	dd->nr_runs = 0;
	dd->d->plugs++;
	while (batch->next < batch->nr && dd->nr_runs < DSM_PLUG_RUNS && cost < DSM_SCAN_PAGES)
		cost += dsm_take_pages(dd, &g, batch);
	spin_unlock_irq(&dd->d->discard_lock);
	return batch->next < batch->nr;
}
