// SPDX-License-Identifier: GPL-2.0-only
/*
 * Discards of blocks that a checkpoint has freed.
 *
 * Placement is a hint and may be wrong; a discard may not.  When in doubt, a page
 * is refused.
 *
 * The rule.  Userspace names pages that nobody needs the content of, unless it
 * was written since the beginning of a write window.  The target discards those
 * that no write has touched since then, and keeps a write that comes later back
 * until the discard is done.  So it must show two things:
 *
 *   A. A page that a write has touched since the window began is not discarded.
 *   B. A write that comes later reaches the device after the discard is done.
 *
 * A write that was mapped before the window began may still be on its way to the
 * device: whether it lands before the discard or behind it, nobody needs it.
 *
 * What is kept.  A bit for each 4 KiB page, in two bitmaps: of this window and of
 * the one before.  A write sets its bits when it is mapped, whatever becomes of it
 * later; a page that is touched in part counts as a whole.  A bitmap consists of
 * chunks, which "window" makes or clears before writes can find the bitmap, so
 * that each of its chunks has seen the whole window; a page without a chunk is
 * refused.
 *
 * A holds between windows: "window" publishes the new bitmap and renumbers the
 * windows in one section under the lock, and waits for a grace period.  A write
 * that found the old bitmap has set its bits there by then; the old bitmap counts
 * for every window that began before.  It is cleared one window later at the
 * earliest, and windows that need it are invalid before that.
 *
 * A and B against a race, for a write W and a run of pages R that overlap:
 *
 *   worker                                W, mapped
 *   ------                                ---------
 *   active = true                         rcu_read_lock_sched()
 *   synchronize_rcu()                     set bits
 *   take the lock                         read active
 *     R has no bit: R is in flight        rcu_read_unlock_sched()
 *   release it                            if it was active:
 *   discard R                               take the lock
 *   take the lock                             R in flight? W waits with it
 *     R is not in flight any more           release it
 *   release it, send what waited          send W
 *
 * If W reads active as false, its section began before the grace period ended, or
 * after "active = false", when no discard is in flight and the next needs another
 * grace period.  So W's bits, whether W set them or found them set, are visible
 * when R is checked: R does not contain the page.  If W reads true, it takes the
 * lock.  Before the worker's section: the bits are visible in it.  After it: W finds
 * R in flight and waits, or finds it done.  The grace period is what lets a write
 * do without a memory barrier; it is waited for once each time the worker wakes up.
 * Most writes read d->written instead of active: it is NULL while that is true.
 *
 * Invalid windows: after creation (a reload makes a new target), suspend, "set
 * discard", no memory for bits, and an operation of unknown extent, there is no
 * valid window until the next "window".  Numbers of windows begin with the time
 * since boot in nanoseconds, so that no number of an earlier target is ever taken
 * for one of this.
 */
#include <linux/bio.h>
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/kstrtox.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "discard.h"
#include "dsm.h"
#include "granule.h"
#include "owed.h"
#include "trace.h"

#define DSM_QUEUE_RANGES	65536	/* waiting for the worker */
#define DSM_PLUG_RUNS		256	/* ranges of an NVMe command */
#define DSM_SCAN_PAGES		(SZ_256M / DSM_PAGE_SIZE)	/* scanned with the lock held */

/* Pages that may be discarded; @first moves on as they are looked at. */
struct dsm_pages {
	u64 first;
	u64 end;
};

/* The ranges of a message, in ascending order and disjoint. */
struct dsm_batch {
	struct list_head list;
	u64 since;		/* no write may have come since this window */
	u64 forgets;		/* messages "forget" before it */
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

/*
 * Shared by all targets, one work each.  Allocated when the module is loaded: a message
 * must not wait for I/O.
 */
static struct workqueue_struct *dsm_discard_workqueue;

struct dsm_discard {
	struct dsm_bits __rcu *written;	/* of the current window */
	bool active;			/* discards may be in flight */

	/* Under d->discard_lock. */
	bool ending;			/* freed once the worker sleeps */
	bool unsupported;		/* by the device */
	u64 window, valid;		/* as in struct dsm_discard_status */
	u64 forgets;			/* number of messages "forget" */
	u32 granularity, alignment;	/* bytes that the features say, or 0 */
	struct dsm_owed owed;
	unsigned int current_slot;
	unsigned int queued;
	struct list_head queue;		/* struct dsm_batch */
	struct dsm_discard_counts counts;
	unsigned int nr_runs;		/* of this plug */
	unsigned int in_flight;		/* runs of it */
	struct bio_list released;	/* writes whose discards are done */

	/* Under d->lock. */
	u64 generation;			/* of the table that @mapped is of */
	unsigned long *mapped;		/* a bit for each chunk that the table needs */

	struct dsm *d;
	struct dsm_bits *slot[2];
	struct work_struct work;
	struct dsm_run *run;		/* DSM_PLUG_RUNS; ascending, disjoint */
};

static struct dsm_discard *dsm_locked_discard(const struct dsm *d)
{
	return rcu_dereference_protected(d->discard, lockdep_is_held(&d->lock) ||
					 lockdep_is_held(&d->discard_lock));
}

/* Write path; see dsm_discard_track() for the rest */

void dsm_discard_track_pages(const struct dsm_bits *bits, u64 sector, unsigned int sectors)
{
	u64 page = sector / DSM_PAGE_SECTORS;
	u64 end = (sector + sectors - 1) / DSM_PAGE_SECTORS + 1;
	u64 next;

	for (; page < end; page = next) {
		unsigned long *chunk = bits->chunk[page / DSM_CHUNK_PAGES];
		unsigned long *word, mask;

		if (!chunk) {
			next = round_down(page, DSM_CHUNK_PAGES) + DSM_CHUNK_PAGES;
			continue;
		}
		next = min(end, round_down(page, BITS_PER_LONG) + BITS_PER_LONG);
		word = &chunk[page % DSM_CHUNK_PAGES / BITS_PER_LONG];
		mask = GENMASK((next - 1) % BITS_PER_LONG, page % BITS_PER_LONG);
		if (mask & ~READ_ONCE(*word))
			atomic_long_or(mask, (atomic_long_t *)word);
	}
}

/* Writes may be missed from here on. */
static void dsm_lose_track(struct dsm_discard *dd)
{
	dd->valid = 0;
	dd->owed.complete = false;
}

static void dsm_invalidate(struct dsm *d)
{
	struct dsm_discard *dd;
	unsigned long flags;

	spin_lock_irqsave(&d->discard_lock, flags);
	dd = dsm_locked_discard(d);
	if (dd)
		dsm_lose_track(dd);
	spin_unlock_irqrestore(&d->discard_lock, flags);
}

bool dsm_discard_note(struct dsm *d, enum req_op op, u64 sector, unsigned int sectors)
{
	bool active = false, unknown = false;
	const struct dsm_discard *dd;

	rcu_read_lock_sched();
	dd = rcu_dereference_sched(d->discard);
	if (!dd)
		goto out;

	switch (op) {
	case REQ_OP_WRITE:
	case REQ_OP_WRITE_ZEROES:
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		if (sectors)
			dsm_discard_track_pages(rcu_dereference_sched(dd->written),
						sector, sectors);
		break;
	default:		/* of zones: none comes here */
		unknown = op_is_write(op);
	}
	active = READ_ONCE(dd->active);
out:
	rcu_read_unlock_sched();
	if (unknown)
		dsm_invalidate(d);
	return active;
}

/* Held writes */

/* Returns a run in flight that overlaps @start to @end, or NULL. */
static struct dsm_run *dsm_find_run(struct dsm_discard *dd, u64 start, u64 end)
{
	unsigned int low = 0, high = dd->nr_runs;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (dd->run[middle].end <= start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < dd->nr_runs && dd->run[low].start < end; low++)
		if (dd->run[low].in_flight)
			return &dd->run[low];
	return NULL;
}

static struct dsm_run *dsm_bio_run(struct dsm_discard *dd, const struct bio *bio)
{
	u64 start = bio->bi_iter.bi_sector - dd->d->start;

	return dsm_find_run(dd, start, start + bio_sectors(bio));
}

static void dsm_hold(struct dsm_run *run, struct bio *bio, ktime_t at)
{
	if (bio_list_empty(&run->held) || ktime_before(at, run->held_at))
		run->held_at = at;
	bio_list_add(&run->held, bio);
}

int dsm_discard_hold(struct dsm *d, struct bio *bio)
{
	struct dsm_discard *dd;
	bool nowait = bio->bi_opf & REQ_NOWAIT;
	struct dsm_run *run = NULL;
	unsigned long flags;

	spin_lock_irqsave(&d->discard_lock, flags);
	dd = dsm_locked_discard(d);
	if (dd)
		run = dsm_bio_run(dd, bio);
	if (run && !nowait) {
		bio->bi_opf &= ~REQ_POLLED;	/* the worker will submit it */
		dsm_hold(run, bio, ktime_get());
		dd->counts.held++;
	}
	spin_unlock_irqrestore(&d->discard_lock, flags);

	if (!run)
		return DM_MAPIO_REMAPPED;
	if (nowait)		/* otherwise it may be gone by now */
		bio_wouldblock_error(bio);
	return DM_MAPIO_SUBMITTED;
}

/* Moves writes held by @run to another run that they overlap, or releases them. */
static void dsm_release(struct dsm_discard *dd, struct dsm_run *run)
{
	struct bio_list held = run->held;
	ktime_t at = run->held_at;
	struct bio *bio;

	if (bio_list_empty(&held))
		return;

	dd->counts.held_us = max_t(u64, dd->counts.held_us,
				   ktime_us_delta(ktime_get(), at));
	bio_list_init(&run->held);
	while ((bio = bio_list_pop(&held))) {
		struct dsm_run *other = dsm_bio_run(dd, bio);

		if (other)
			dsm_hold(other, bio, at);
		else
			bio_list_add(&dd->released, bio);
	}
}

/* Sending discards */

/* Whether whoever waits for the plug has something to do. */
static bool dsm_runs_moved(const struct dsm_discard *dd)
{
	return !dd->in_flight || !bio_list_empty(&dd->released);
}

static void dsm_run_end(struct bio *bio)
{
	struct dsm_run *run = container_of(bio, struct dsm_run, bio);
	struct dsm_discard *dd = run->dd;
	struct dsm *d = dd->d;
	unsigned long flags;

	trace_dsm_discard(d, run->start, run->end - run->start, bio->bi_status);

	spin_lock_irqsave(&d->discard_lock, flags);
	if (!bio->bi_status) {
		dd->counts.discarded++;
		dd->counts.sectors += run->end - run->start;
	} else {
		dd->counts.failed++;
		if (bio->bi_status == BLK_STS_NOTSUPP)
			dd->unsupported = true;
	}
	run->in_flight = false;
	dd->in_flight--;
	dsm_release(dd, run);
	if (dsm_runs_moved(dd))
		wake_up(&d->discard_wait);
	spin_unlock_irqrestore(&d->discard_lock, flags);
}

static void dsm_submit_writes(struct bio_list *released)
{
	struct bio *bio;

	while ((bio = bio_list_pop(released)))
		dm_submit_bio_remap(bio, NULL);
}

/* A submission may sleep while discards that were sent before it end. */
static void dsm_submit_released(struct dsm_discard *dd)
{
	struct bio_list released = BIO_EMPTY_LIST;

	if (!READ_ONCE(dd->released.head))
		return;
	spin_lock_irq(&dd->d->discard_lock);
	bio_list_merge_init(&released, &dd->released);
	spin_unlock_irq(&dd->d->discard_lock);
	dsm_submit_writes(&released);
}

static void dsm_send_runs(struct dsm_discard *dd)
{
	struct dsm *d = dd->d;
	struct blk_plug plug;

	blk_start_plug(&plug);
	for (unsigned int i = 0; i < dd->nr_runs; i++) {
		struct dsm_run *run = &dd->run[i];

		bio_init(&run->bio, d->bdev, NULL, 0, REQ_OP_DISCARD);
		run->bio.bi_iter.bi_sector = d->start + run->start;
		run->bio.bi_iter.bi_size = (run->end - run->start) << SECTOR_SHIFT;
		run->bio.bi_end_io = dsm_run_end;
		submit_bio(&run->bio);
		dsm_submit_released(dd);
	}
	blk_finish_plug(&plug);
}

/*
 * Waits for something to do.  Returns whether the plug's discards are all done, and
 * what they have released.
 */
static bool dsm_wait_for_some(struct dsm_discard *dd, struct bio_list *released)
{
	struct dsm *d = dd->d;
	bool done;

	bio_list_init(released);
	spin_lock_irq(&d->discard_lock);
	wait_event_lock_irq(d->discard_wait, dsm_runs_moved(dd), d->discard_lock);
	bio_list_merge_init(released, &dd->released);
	done = !dd->in_flight;
	spin_unlock_irq(&d->discard_lock);
	return done;
}

static void dsm_wait_for_runs(struct dsm_discard *dd)
{
	struct bio_list released;
	bool done;

	do {
		done = dsm_wait_for_some(dd, &released);
		dsm_submit_writes(&released);
	} while (!done);

	for (unsigned int i = 0; i < dd->nr_runs; i++)
		bio_uninit(&dd->run[i].bio);
}

/* From ranges to runs */

/* What was touched since @since, of the pages in the word of @page. */
static unsigned long dsm_touched(const struct dsm_discard *dd, u64 since, u64 page)
{
	u64 chunk = page / DSM_CHUNK_PAGES;
	unsigned int word = page % DSM_CHUNK_PAGES / BITS_PER_LONG;
	unsigned int slot = dd->current_slot;
	unsigned long touched = 0;

	for (u64 window = dd->window; window >= since; window--, slot ^= 1) {
		const unsigned long *bits = dd->slot[slot]->chunk[chunk];

		touched |= bits ? READ_ONCE(bits[word]) : ~0UL;
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

static struct dsm_granule dsm_granule_wanted(const struct dsm_discard *dd)
{
	return dsm_granule(dd->d->bdev, dd->granularity, dd->alignment);
}

/* Whether pages are remembered until what is around them may be discarded as well. */
static bool dsm_owes(const struct dsm_granule *g)
{
	return g->unit > DSM_MIN_RUN && g->unit <= DSM_MAX_RUN;
}

/* Those pages in the word of @page that nobody needs: see owed.c. */
static unsigned long dsm_owed_pages(const struct dsm_discard *dd, u64 page)
{
	unsigned long owed = dsm_owed_word(&dd->owed, page);

	return owed ? owed & ~dsm_touched(dd, dd->valid, page) : 0;
}

/* Where the pages begin that lie before @page and are owed, at @least or later. */
static u64 dsm_owed_first(const struct dsm_discard *dd, u64 page, u64 least)
{
	while (page > least) {
		u64 last = page - 1;
		unsigned long gaps = ~dsm_owed_pages(dd, last) &
				     GENMASK(last % BITS_PER_LONG, 0);

		page = round_down(last, BITS_PER_LONG);
		if (gaps)
			return max(page + __fls(gaps) + 1, least);
	}
	return least;
}

/* Where those end that lie from @page on, at @end or before. */
static u64 dsm_owed_end(const struct dsm_discard *dd, u64 page, u64 end)
{
	while (page < end) {
		unsigned long gaps = ~dsm_owed_pages(dd, page) &
				     GENMASK(BITS_PER_LONG - 1, page % BITS_PER_LONG);

		page = round_down(page, BITS_PER_LONG);
		if (gaps)
			return min(page + __ffs(gaps), end);
		page += BITS_PER_LONG;
	}
	return end;
}

/* Widens a discard of the pages @first to @last by what is owed at either end. */
static void dsm_widen(struct dsm_discard *dd, const struct dsm_granule *g, u64 first, u64 last,
		      u64 *start, u64 *end)
{
	u64 reach = DIV_ROUND_UP(g->unit, DSM_PAGE_SECTORS);
	u64 limit = dd->d->ti->len / DSM_PAGE_SECTORS;
	u64 low, high;

	dsm_owed_add(&dd->owed, first, last);
	low = dsm_owed_first(dd, first, first > reach ? first - reach : 0);
	high = dsm_owed_end(dd, last, min(last + reach, limit));
	low *= DSM_PAGE_SECTORS;
	if (dd->nr_runs)		/* runs are ascending and disjoint */
		low = max(low, dd->run[dd->nr_runs - 1].end);
	dsm_granule_cover(g, dd->d->start, low, high * DSM_PAGE_SECTORS, start, end);
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
			u64 since, const struct dsm_pages *range, u64 limit)
{
	u64 stop = min(range->end, range->first + limit);
	u64 first = dsm_find_page(dd, since, range->first, stop, false);
	u64 last = dsm_find_page(dd, since, first, stop, true);
	u64 start = first * DSM_PAGE_SECTORS, end = last * DSM_PAGE_SECTORS;
	u64 sent = 0;

	if (first < last && dsm_owes(g))
		dsm_widen(dd, g, first, last, &start, &end);
	else
		dsm_granule_cut(g, dd->d->start, &start, &end);
	if (end > start && end - start >= g->min) {
		end = min(end, start + g->max);
		dsm_add_run(dd, start, end);
		last = min(last, DIV_ROUND_UP(end, DSM_PAGE_SECTORS));
		sent = min(end, last * DSM_PAGE_SECTORS) - max(start, first * DSM_PAGE_SECTORS);
	} else if (last == stop && last < range->end && first > range->first) {
		last = first;	/* it may go on behind the limit */
	}
	dd->counts.refused += (first - range->first) * DSM_PAGE_SECTORS;
	dd->counts.too_short += (last - first) * DSM_PAGE_SECTORS - sent;
	return last - range->first;
}

/* Whether the bits say all about the time since a batch's window. */
static bool dsm_is_valid(const struct dsm_discard *dd, const struct dsm_batch *batch)
{
	return !dd->ending && !dd->unsupported && !dd->d->stopped && dd->valid &&
	       batch->since >= dd->valid && batch->since <= dd->window &&
	       batch->forgets == dd->forgets;
}

/* Deals with the next pages of the range that is looked at.  Returns how many. */
static u64 dsm_take_pages(struct dsm_discard *dd, const struct dsm_granule *g,
			  struct dsm_batch *batch)
{
	struct dsm_pages *range = &batch->range[batch->next];
	u64 pages = range->end - range->first;

	if (!dsm_is_valid(dd, batch)) {
		dd->counts.refused += pages * DSM_PAGE_SECTORS;
	} else {
		u64 done = dsm_pages_in_run(dd, range->first, range->end);

		pages = done ?: dsm_take_run(dd, g, batch->since, range,
					     DSM_SCAN_PAGES + 2ULL * g->unit);
	}
	range->first += pages;
	if (range->first >= range->end) {
		batch->next++;
		dd->queued--;
	}
	return pages;
}

/* Fills the plug from a batch.  Returns whether there is more in it. */
static bool dsm_fill_plug(struct dsm_discard *dd, struct dsm_batch *batch)
{
	u64 looked_at = 0, beside;
	struct dsm_granule g;

	spin_lock_irq(&dd->d->discard_lock);
	g = dsm_granule_wanted(dd);
	beside = dsm_owes(&g) ? 2 * g.unit / DSM_PAGE_SECTORS : 0;
	dd->nr_runs = 0;
	while (batch->next < batch->nr && dd->nr_runs < DSM_PLUG_RUNS &&
	       looked_at < DSM_SCAN_PAGES)
		looked_at += dsm_take_pages(dd, &g, batch) + beside;
	spin_unlock_irq(&dd->d->discard_lock);
	return batch->next < batch->nr;
}

/* The worker */

static void dsm_discard_plug(struct dsm_discard *dd)
{
	ktime_t start = ktime_get();
	u64 us;

	dsm_send_runs(dd);
	dsm_wait_for_runs(dd);

	us = ktime_us_delta(ktime_get(), start);
	spin_lock_irq(&dd->d->discard_lock);
	dd->counts.plug_us = max(dd->counts.plug_us, us);
	spin_unlock_irq(&dd->d->discard_lock);
}

/*
 * Lets writes find the current bitmap; while the worker is active only where they look
 * for discards as well.  A worker that runs once more before it is freed changes nothing.
 */
static void dsm_publish_bits(struct dsm_discard *dd)
{
	struct dsm_bits *bits = dd->slot[dd->current_slot];

	rcu_assign_pointer(dd->written, bits);
	if (dsm_locked_discard(dd->d) == dd)
		rcu_assign_pointer(dd->d->written, dd->active ? NULL : bits);
}

static void dsm_set_active(struct dsm_discard *dd, bool active)
{
	WRITE_ONCE(dd->active, active);
	dsm_publish_bits(dd);
}

/* The next batch, which the caller frees.  Without one the worker is inactive. */
static struct dsm_batch *dsm_next_batch(struct dsm_discard *dd)
{
	struct dsm *d = dd->d;
	struct dsm_batch *batch;

	spin_lock_irq(&d->discard_lock);
	batch = list_first_entry_or_null(&dd->queue, struct dsm_batch, list);
	if (batch) {
		list_del(&batch->list);
	} else {
		dsm_set_active(dd, false);
		dd->ending |= dd->unsupported;
		if (dd->ending)
			schedule_work(&d->discard_end);
		wake_up(&d->discard_wait);
	}
	spin_unlock_irq(&d->discard_lock);
	return batch;
}

static void dsm_discard_work(struct work_struct *work)
{
	struct dsm_discard *dd = container_of(work, struct dsm_discard, work);
	struct dsm_batch *batch;
	bool more;

	spin_lock_irq(&dd->d->discard_lock);
	dsm_set_active(dd, true);
	spin_unlock_irq(&dd->d->discard_lock);
	synchronize_rcu();	/* see the head of this file */

	while ((batch = dsm_next_batch(dd))) {
		do {
			more = dsm_fill_plug(dd, batch);
			if (dd->nr_runs)
				dsm_discard_plug(dd);
			cond_resched();
		} while (more);
		kvfree(batch);
	}
}

/* Messages */

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

/* Makes a bitmap that no write can find fit for a new window. */
static int dsm_bits_clear(struct dsm_bits *bits, const unsigned long *mapped)
{
	for (u32 i = 0; i < bits->nr; i++) {
		if (!test_bit(i, mapped)) {
			kfree(bits->chunk[i]);
			bits->chunk[i] = NULL;
		} else if (bits->chunk[i]) {
			memset(bits->chunk[i], 0, SZ_4K);
		} else {
			bits->chunk[i] = kzalloc(SZ_4K, GFP_NOIO | __GFP_NOWARN);
			if (!bits->chunk[i])
				return -ENOMEM;
		}
		if (!(i % 64))
			cond_resched();
	}
	return 0;
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
		dsm_publish_bits(dd);
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
	r = dsm_bits_clear(dd->slot[!dd->current_slot], dd->mapped);
	if (r) {
		dsm_invalidate(d);
		return dsm_refuse(d, r, "Cannot allocate write bitmap; discard window invalidated");
	}
	r = dsm_next_window(d, dd);
	if (r)
		return dsm_refuse(d, r, "window: device is suspended");

	/* From here on every write finds the new slot. */
	synchronize_rcu_expedited();
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

	batch = kvmalloc(struct_size(batch, range, nr), GFP_NOIO | __GFP_NOWARN);
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
	if (!dsm_is_valid(dd, batch)) {
		r = -ESTALE;
	} else if (batch->nr > DSM_QUEUE_RANGES - dd->queued) {
		r = -EBUSY;
	} else {
		dd->counts.too_short += slack;
		dd->queued += batch->nr;
		list_add_tail(&batch->list, &dd->queue);
		queue_work(dsm_discard_workqueue, &dd->work);
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

	/* Ranges that wait are refused from here on. */
	spin_lock_irq(&d->discard_lock);
	dd->forgets++;
	spin_unlock_irq(&d->discard_lock);
	dsm_owed_forget(&dd->owed, &d->discard_lock);
	return 0;
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

/* On and off */

struct dsm_bits *dsm_bits_alloc(u32 nr)
{
	struct dsm_bits *bits = kvzalloc(struct_size(bits, chunk, nr), GFP_NOIO | __GFP_NOWARN);

	if (bits)
		bits->nr = nr;
	return bits;
}

void dsm_bits_free(struct dsm_bits *bits)
{
	for (u32 i = 0; bits && i < bits->nr; i++)
		kfree(bits->chunk[i]);
	kvfree(bits);
}

/* The worker sleeps, and no write can find it. */
static void dsm_discard_free(struct dsm_discard *dd)
{
	struct dsm_batch *batch, *next;

	flush_work(&dd->work);
	list_for_each_entry_safe(batch, next, &dd->queue, list)
		kvfree(batch);
	dsm_bits_free(dd->slot[0]);
	dsm_bits_free(dd->slot[1]);
	dsm_owed_free(&dd->owed);
	kvfree(dd->mapped);
	kvfree(dd->run);
	kfree(dd);
}

void dsm_discard_set_granule(struct dsm *d)
{
	struct dsm_discard *dd = dsm_locked_discard(d);

	lockdep_assert_held(&d->lock);

	if (!dd)
		return;
	spin_lock_irq(&d->discard_lock);
	dd->granularity = dsm_pages_bytes(d->params.discard_granularity);
	dd->alignment = dsm_pages_bytes(d->params.discard_alignment);
	spin_unlock_irq(&d->discard_lock);
}

static int dsm_discard_begin(struct dsm *d)
{
	u64 pages = DIV_ROUND_UP_ULL(d->ti->len, DSM_PAGE_SECTORS);
	u64 chunks = DIV_ROUND_UP_ULL(pages, DSM_CHUNK_PAGES);
	struct dsm_discard *dd;

	if (chunks > INT_MAX / sizeof(unsigned long *) / 2)	/* 16 PiB */
		return -ENOMEM;
	dd = kzalloc_obj(*dd, GFP_NOIO);
	if (!dd)
		return -ENOMEM;

	dd->d = d;
	dd->generation = U64_MAX;
	INIT_LIST_HEAD(&dd->queue);
	INIT_WORK(&dd->work, dsm_discard_work);
	bio_list_init(&dd->released);
	dd->run = kvcalloc(DSM_PLUG_RUNS, sizeof(*dd->run), GFP_NOIO);
	dd->mapped = kvcalloc(BITS_TO_LONGS(chunks), sizeof(long), GFP_NOIO | __GFP_NOWARN);
	dd->slot[0] = dsm_bits_alloc(chunks);
	dd->slot[1] = dsm_bits_alloc(chunks);
	if (!dd->run || !dd->mapped || !dd->slot[0] || !dd->slot[1]) {
		dsm_discard_free(dd);
		return -ENOMEM;
	}
	spin_lock_irq(&d->discard_lock);
	rcu_assign_pointer(d->discard, dd);
	dsm_publish_bits(dd);
	spin_unlock_irq(&d->discard_lock);
	dsm_set_direct(d);
	dsm_discard_set_granule(d);
	return 0;
}

static bool dsm_takes_discards(const struct dsm *d)
{
	return bdev_max_discard_sectors(d->bdev) &&
	       dm_table_get_mode(d->ti->table) & BLK_OPEN_WRITE;
}

int dsm_discard_set(struct dsm *d)
{
	struct dsm_discard *dd = dsm_locked_discard(d);
	bool on = d->params.discard && dsm_takes_discards(d);

	lockdep_assert_held(&d->lock);

	dsm_invalidate(d);
	if (!dd)
		return on ? dsm_discard_begin(d) : 0;

	/* A discard may be in flight: it ends with the worker. */
	spin_lock_irq(&d->discard_lock);
	dd->ending = !on;
	if (on)
		dd->unsupported = false;
	else
		queue_work(dsm_discard_workqueue, &dd->work);
	spin_unlock_irq(&d->discard_lock);
	return 0;
}

static void dsm_discard_end(struct work_struct *work)
{
	struct dsm *d = container_of(work, struct dsm, discard_end);
	struct dsm_discard *dd;

	mutex_lock(&d->lock);
	spin_lock_irq(&d->discard_lock);
	dd = dsm_locked_discard(d);
	if (dd && dd->ending && !dd->active && list_empty(&dd->queue)) {
		rcu_assign_pointer(d->discard, NULL);
		rcu_assign_pointer(d->written, NULL);
	} else {
		dd = NULL;
	}
	spin_unlock_irq(&d->discard_lock);
	if (dd) {
		dsm_set_direct(d);
		synchronize_rcu();
		dsm_discard_free(dd);
	}
	mutex_unlock(&d->lock);
}

/* The target's life */

static bool dsm_discard_sleeps(struct dsm *d)
{
	const struct dsm_discard *dd;
	bool sleeps;

	spin_lock_irq(&d->discard_lock);
	dd = dsm_locked_discard(d);
	sleeps = !dd || !dd->active;
	spin_unlock_irq(&d->discard_lock);
	return sleeps;
}

static void dsm_set_stopped(struct dsm *d, bool stopped)
{
	struct dsm_discard *dd;

	spin_lock_irq(&d->discard_lock);
	d->stopped = stopped;
	dd = dsm_locked_discard(d);
	if (dd)
		dsm_lose_track(dd);
	spin_unlock_irq(&d->discard_lock);
}

void dsm_discard_stop(struct dsm *d)
{
	dsm_set_stopped(d, true);
}

void dsm_discard_drain(struct dsm *d)
{
	wait_event(d->discard_wait, dsm_discard_sleeps(d));
}

void dsm_discard_resume(struct dsm *d)
{
	dsm_set_stopped(d, false);
}

void dsm_discard_init(struct dsm *d)
{
	spin_lock_init(&d->discard_lock);
	init_waitqueue_head(&d->discard_wait);
	INIT_WORK(&d->discard_end, dsm_discard_end);
	d->stopped = true;	/* until it is resumed */
}

/* No bio or message is in flight, and the worker has been drained. */
void dsm_discard_exit(struct dsm *d)
{
	struct dsm_discard *dd;

	spin_lock_irq(&d->discard_lock);
	dd = dsm_locked_discard(d);
	RCU_INIT_POINTER(d->discard, NULL);
	RCU_INIT_POINTER(d->written, NULL);
	spin_unlock_irq(&d->discard_lock);
	if (dd)
		flush_work(&dd->work);
	cancel_work_sync(&d->discard_end);
	if (dd)
		dsm_discard_free(dd);
}

int dsm_discard_module_init(void)
{
	dsm_discard_workqueue = alloc_workqueue("dm_dsm_discard",
						WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	return dsm_discard_workqueue ? 0 : -ENOMEM;
}

void dsm_discard_module_exit(void)
{
	destroy_workqueue(dsm_discard_workqueue);
}
