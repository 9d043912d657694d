// SPDX-License-Identifier: GPL-2.0-only
/*
 * Discards are switched on and off, and live as long as the module and the target.
 */
#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "discard_priv.h"
#include "memory.h"

/* On and off */

void dsm_discard_wake(struct dsm_discard *dd)
{
	queue_work(dd->d->discard_workqueue, &dd->work);
}

struct dsm_bits *dsm_bits_alloc(u32 nr)
{
	struct dsm_bits *bits = kvzalloc(struct_size(bits, chunk, nr), DSM_GFP);

	if (bits)
		bits->nr = nr;
	return bits;
}

void dsm_bits_empty(struct dsm_bits *bits)
{
	for (u32 i = 0; i < bits->nr; i++) {
		kfree(bits->chunk[i]);
		bits->chunk[i] = NULL;
		if (!(i % 64))
			cond_resched();
	}
}

void dsm_bits_free(struct dsm_bits *bits)
{
	if (bits)
		dsm_bits_empty(bits);
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
	dd = kzalloc_obj(*dd, DSM_GFP);
	if (!dd)
		return -ENOMEM;

	dd->d = d;
	dd->generation = U64_MAX;
	INIT_LIST_HEAD(&dd->queue);
	INIT_WORK(&dd->work, dsm_discard_work);
	bio_list_init(&dd->released);
	dd->run = kvcalloc(DSM_PLUG_RUNS, sizeof(*dd->run), DSM_GFP);
	dd->mapped = kvcalloc(BITS_TO_LONGS(chunks), sizeof(long), DSM_GFP);
	dd->slot[0] = dsm_bits_alloc(chunks);
	dd->slot[1] = dsm_bits_alloc(chunks);
	if (!dd->run || !dd->mapped || !dd->slot[0] || !dd->slot[1]) {
		dsm_discard_free(dd);
		return -ENOMEM;
	}
	spin_lock_irq(&d->discard_lock);
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
	bool on = d->params.discard && dsm_takes_discards(d);

	lockdep_assert_held(&d->lock);

	dsm_discard_invalidate(d);
	if (!dd)
		return on ? dsm_discard_begin(d) : 0;

	/* A discard may be in flight: it ends with the worker. */
	spin_lock_irq(&d->discard_lock);
	dd->ending = !on;
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
	wait_event(d->discard_wait, dsm_discard_sleeps(d));
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
