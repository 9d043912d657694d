// SPDX-License-Identifier: GPL-2.0-only
/*
 * Discards of blocks that a checkpoint has freed.
 *
 * Placement is a hint and may be wrong; a discard may not.  When in doubt, a page
 * is refused.
 *
 * The rule.  Userspace names pages that nobody needs the content of, unless it
 * was written since the beginning of a write window, which each range of them has
 * its own of.  The target discards those that no write has touched since then, and
 * keeps a write that comes later back until the discard is done.  So it must show
 * two things:
 *
 *   A. A page that a write has touched since the window began is not discarded.
 *   B. A write that comes later reaches the device after the discard is done.
 *
 * A write that was mapped before the window began may still be on its way to the
 * device: whether it lands before the discard or behind it, nobody needs it.
 *
 * What is kept.  A bit for each 4 KiB page, in a ring of four bitmaps: of this window
 * and of the three before.  A write sets its bits when it is mapped, whatever becomes of it
 * later; a page that is touched in part counts as a whole.  A bitmap consists of
 * chunks, which "window" makes or clears before writes can find the bitmap, so
 * that each of its chunks has seen the whole window; a page without a chunk is
 * refused.
 *
 * A holds between windows: "window" publishes the new bitmap and renumbers the
 * windows in one section under the lock, and waits for a grace period.  A write
 * that found the old bitmap has set its bits there by then; the old bitmap counts
 * for every window that began before.  It is cleared three windows later at the
 * earliest, and windows that need it are invalid before that.
 *
 * What is sent.  A page passes if no bitmap has its bit from its own window on.  Runs of
 * pages that pass, of one range or of neighbouring ones, are cut inwards to the pieces that
 * the device takes: no page is ever sent that was not named in this message.
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
 * Stops.  Each message has the number of stops at the time it came.  "forget", "set
 * discard", a suspend (also one that fails later), a discard that the device does not know,
 * and whatever makes all windows invalid count one more.  A range that waits and a run that
 * is not sent yet are refused if the number has changed: nothing that is on again later
 * brings them back.
 *
 * Invalid windows: after creation (a reload makes a new target), suspend, "set
 * discard" unless it is from watch to on or back, no memory for bits, an operation of
 * unknown extent, and an ioctl that is passed on, there is no valid window until the next
 * "window".  The target does not see what a passed ioctl writes after that: dsm.rst.
 * Numbers of windows begin with the time since boot in nanoseconds, so that no number of
 * an earlier target is ever taken for one of this.
 */
#include <linux/bio.h>
#include <linux/bitops.h>
#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "discard_priv.h"
#include "memory.h"
#include "trace.h"

/* Write path; dsm_tracked_map() has the rest */

void dsm_discard_invalidate(struct dsm *d)
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
			dsm_bits_set_pages(rcu_dereference_sched(dd->written), sector, sectors);
		break;
	default:		/* of zones: none comes here */
		unknown = op_is_write(op);
	}
	active = READ_ONCE(dd->active);
out:
	rcu_read_unlock_sched();
	if (unknown)
		dsm_discard_invalidate(d);
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
	u64 start = dsm_bio_sector(dd->d, bio);

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

	dd->counts.held_max_us = max_t(u64, dd->counts.held_max_us,
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

static void dsm_run_is_over(struct dsm_discard *dd, struct dsm_run *run)
{
	run->in_flight = false;
	dd->in_flight--;
	dsm_release(dd, run);
	if (dsm_runs_moved(dd))
		wake_up(&dd->d->discard_wait);
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
		if (bio->bi_status == BLK_STS_NOTSUPP) {
			dd->unsupported = true;
			dd->stops++;
		}
	}
	dsm_run_is_over(dd, run);
	spin_unlock_irqrestore(&d->discard_lock, flags);
}

/* A run that something has stopped before it was sent. */
static bool dsm_run_is_stopped(struct dsm_discard *dd, const struct dsm_batch *batch,
			       struct dsm_run *run)
{
	bool stopped;

	spin_lock_irq(&dd->d->discard_lock);
	stopped = !dsm_batch_may_go(dd, batch);
	if (stopped) {
		dd->counts.refused += run->end - run->start;
		dsm_run_is_over(dd, run);
	}
	spin_unlock_irq(&dd->d->discard_lock);
	return stopped;
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

static void dsm_send_runs(struct dsm_discard *dd, const struct dsm_batch *batch)
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
		if (!dsm_run_is_stopped(dd, batch, run))
			submit_bio(&run->bio);
		dsm_submit_released(dd);
	}
	blk_finish_plug(&plug);
}

/* Whether there is something to do: all discards are done, or have released some writes. */
static bool dsm_some_moved(struct dsm_discard *dd, struct bio_list *released, bool *done)
{
	bool moved;

	spin_lock_irq(&dd->d->discard_lock);
	moved = dsm_runs_moved(dd);
	bio_list_merge_init(released, &dd->released);
	*done = !dd->in_flight;
	spin_unlock_irq(&dd->d->discard_lock);
	return moved;
}

/* Idle: a plug may take longer than a task should hang. */
static void dsm_wait_for_runs(struct dsm_discard *dd)
{
	struct bio_list released = BIO_EMPTY_LIST;
	bool done;

	do {
		wait_event_idle(dd->d->discard_wait, dsm_some_moved(dd, &released, &done));
		dsm_submit_writes(&released);
	} while (!done);

	for (unsigned int i = 0; i < dd->nr_runs; i++)
		bio_uninit(&dd->run[i].bio);
}

/* The worker */

static void dsm_discard_plug(struct dsm_discard *dd, const struct dsm_batch *batch)
{
	ktime_t start = ktime_get();
	u64 us;

	dsm_send_runs(dd, batch);
	dsm_wait_for_runs(dd);

	us = ktime_us_delta(ktime_get(), start);
	spin_lock_irq(&dd->d->discard_lock);
	dd->counts.plug_max_us = max(dd->counts.plug_max_us, us);
	spin_unlock_irq(&dd->d->discard_lock);
}

/*
 * Lets writes find the current bitmap; while the worker is active only where they look
 * for discards as well.  A worker that runs once more before it is freed changes nothing.
 */
void dsm_discard_publish(struct dsm_discard *dd)
{
	struct dsm_bits *bits = dd->slot[dd->current_slot];

	rcu_assign_pointer(dd->written, bits);
	if (dsm_locked_discard(dd->d) == dd)
		rcu_assign_pointer(dd->d->written, dd->active ? NULL : bits);
}

static void dsm_set_active(struct dsm_discard *dd, bool active)
{
	WRITE_ONCE(dd->active, active);
	dsm_discard_publish(dd);
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
		dd->ending |= dd->unsupported && !dd->watch;
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
	bool any = false, more;

	spin_lock_irq(&dd->d->discard_lock);
	dsm_set_active(dd, true);
	spin_unlock_irq(&dd->d->discard_lock);
	synchronize_rcu();	/* see the head of this file */

	while ((batch = dsm_next_batch(dd))) {
		do {
			more = dsm_fill_plug(dd, batch);
			if (dd->nr_runs)
				dsm_discard_plug(dd, batch);
			cond_resched();
		} while (more);
		spin_lock_irq(&dd->d->discard_lock);
		dd->allocated -= batch->allocated;
		spin_unlock_irq(&dd->d->discard_lock);
		kvfree(batch);
		any = true;
	}
	if (any)	/* for whoever waits for the queue */
		dm_table_event(dd->d->ti->table);
}

void dsm_discard_wake(struct dsm_discard *dd)
{
	queue_work(dd->d->discard_workqueue, &dd->work);
}

/* On and off */

/* The worker sleeps, and no write can find it. */
static void dsm_discard_free(struct dsm_discard *dd)
{
	struct dsm_batch *batch, *next;

	flush_work(&dd->work);
	list_for_each_entry_safe(batch, next, &dd->queue, list)
		kvfree(batch);
	for (int i = 0; i < DSM_WINDOWS; i++)
		dsm_bits_free(dd->slot[i]);
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
	bool complete;

	if (chunks > INT_MAX / sizeof(unsigned long *) / 2 ||	/* 16 PiB */
	    !dsm_may_take(chunks * sizeof(unsigned long *) * DSM_WINDOWS))
		return -ENOMEM;
	dd = kzalloc_obj(*dd, DSM_GFP);
	if (!dd)
		return -ENOMEM;

	dd->d = d;
	dd->generation = U64_MAX;
	dd->watch = d->params.discard == DSM_DISCARD_WATCH;
	INIT_LIST_HEAD(&dd->queue);
	INIT_WORK(&dd->work, dsm_discard_work);
	bio_list_init(&dd->released);
	dd->run = kvcalloc(DSM_PLUG_RUNS, sizeof(*dd->run), DSM_GFP);
	dd->mapped = kvcalloc(BITS_TO_LONGS(chunks), sizeof(long), DSM_GFP);
	complete = dd->run && dd->mapped;
	for (int i = 0; i < DSM_WINDOWS && complete; i++) {
		dd->slot[i] = dsm_bits_alloc(chunks);
		complete = dd->slot[i];
	}
	if (!complete) {
		dsm_discard_free(dd);
		return -ENOMEM;
	}
	spin_lock_irq(&d->discard_lock);
	/* Before writes can find it, which set bits there. */
	RCU_INIT_POINTER(dd->written, dd->slot[dd->current_slot]);
	rcu_assign_pointer(d->discard, dd);
	dsm_discard_publish(dd);
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
	bool watch = d->params.discard == DSM_DISCARD_WATCH;
	bool on = watch || (d->params.discard && dsm_takes_discards(d));

	lockdep_assert_held(&d->lock);

	if (!dd)
		return on ? dsm_discard_begin(d) : 0;

	/* A discard may be in flight: it ends with the worker. */
	spin_lock_irq(&d->discard_lock);
	dd->stops++;
	if (!on || dd->ending || dd->watch == watch)	/* otherwise tracking goes on */
		dsm_lose_track(dd);
	dd->ending = !on;
	dd->watch = watch;
	if (on)
		dd->unsupported = false;
	else
		dsm_discard_wake(dd);
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
	wait_event_idle(d->discard_wait, dsm_discard_sleeps(d));
}

void dsm_discard_resume(struct dsm *d)
{
	dsm_set_stopped(d, false);
}

/*
 * Each target has a rescuer of its own, so that held writes of one go on without memory
 * while the device of another hangs.  It is there from the start: a message must not wait
 * for I/O.
 */
int dsm_discard_init(struct dsm *d)
{
	spin_lock_init(&d->discard_lock);
	init_waitqueue_head(&d->discard_wait);
	INIT_WORK(&d->discard_end, dsm_discard_end);
	d->stopped = true;	/* until it is resumed */
	d->discard_workqueue = alloc_workqueue("dm_dsm_discard/%s", WQ_MEM_RECLAIM | WQ_UNBOUND, 1,
					       dm_device_name(dm_table_get_md(d->ti->table)));
	return d->discard_workqueue ? 0 : -ENOMEM;
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
	if (d->discard_workqueue)
		destroy_workqueue(d->discard_workqueue);
}
