// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bio.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "compat/compat.h"
#include "dsm.h"
#include "fallback.h"

#define DSM_FALLBACK_COPIES	64	/* that always can be had, one after the other */

struct dsm_fallback {
	struct dsm *d;
	struct bio_set copies;
	struct workqueue_struct *workqueue;	/* for writes, so it has a rescuer */
	struct work_struct relayout;
	bool refused;
};

/* Lies in front of each copy. */
struct dsm_copy {
	struct dsm_fallback *fallback;
	struct bio *write;
	struct work_struct again;
	struct bio bio;
};

static void dsm_fallback_relayout(struct work_struct *work)
{
	struct dsm_fallback *fallback =
		container_of(work, struct dsm_fallback, relayout);
	struct dsm *d = fallback->d;

	mutex_lock(&d->lock);
	dsm_relayout(d, false);
	mutex_unlock(&d->lock);
}

/* Nothing here may wait for d->lock: its holder may be waiting for a write. */
static void dsm_write_again(struct work_struct *work)
{
	struct dsm_copy *copy = container_of(work, struct dsm_copy, again);
	struct bio *write = copy->write;

	bio_put(&copy->bio);
	dsm_bio_set_stream(write, 0);
	dm_submit_bio_remap(write, NULL);
}

static void dsm_copy_end(struct bio *bio)
{
	struct dsm_copy *copy = container_of(bio, struct dsm_copy, bio);
	struct dsm_fallback *fallback = copy->fallback;
	struct bio *write = copy->write;
	blk_status_t status = bio->bi_status;

	/* Who must not wait is told so, and comes again. */
	if (likely(!status) || status == BLK_STS_AGAIN) {
		bio_put(bio);
		write->bi_status = status;
		bio_endio(write);
		return;
	}

	if (status == BLK_STS_INVAL && !READ_ONCE(fallback->refused)) {
		WRITE_ONCE(fallback->refused, true);
		DMWARN("%pg: stream %u was refused; writes are not stamped any more",
		       fallback->d->bdev, dsm_bio_stream(write));
		schedule_work(&fallback->relayout);
	}
	INIT_WORK(&copy->again, dsm_write_again);
	queue_work(fallback->workqueue, &copy->again);
}

int dsm_fallback_map(struct dsm *d, struct bio *bio)
{
	struct dsm_fallback *fallback = d->fallback;
	gfp_t gfp = bio->bi_opf & REQ_NOWAIT ? GFP_NOWAIT : GFP_NOIO;
	struct dsm_copy *copy;
	struct bio *clone;

	if (!dsm_bio_stream(bio))
		return DM_MAPIO_REMAPPED;

	clone = READ_ONCE(fallback->refused) ? NULL :
		bio_alloc_clone(d->bdev, bio, gfp, &fallback->copies);
	if (!clone) {
		dsm_bio_set_stream(bio, 0);
		return DM_MAPIO_REMAPPED;
	}

	copy = container_of(clone, struct dsm_copy, bio);
	copy->fallback = fallback;
	copy->write = bio;
	clone->bi_opf &= ~REQ_POLLED;	/* dm polls for its own bio only */
	clone->bi_end_io = dsm_copy_end;
	dm_submit_bio_remap(bio, clone);
	return DM_MAPIO_SUBMITTED;
}

bool dsm_fallback_refused(const struct dsm *d)
{
	return d->fallback && READ_ONCE(d->fallback->refused);
}

void dsm_fallback_retry(struct dsm *d)
{
	lockdep_assert_held(&d->lock);
	if (d->fallback)
		WRITE_ONCE(d->fallback->refused, false);
}

int dsm_fallback_init(struct dsm *d)
{
	struct dsm_fallback *fallback;

	if (!dsm_hides_streams(d->bdev))
		return 0;

	fallback = kzalloc_obj(*fallback, GFP_KERNEL);
	if (!fallback)
		return -ENOMEM;
	fallback->d = d;
	INIT_WORK(&fallback->relayout, dsm_fallback_relayout);
	fallback->workqueue = alloc_workqueue("dsm_fallback", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!fallback->workqueue)
		goto no_workqueue;
	if (bioset_init(&fallback->copies, DSM_FALLBACK_COPIES,
			offsetof(struct dsm_copy, bio), 0))
		goto no_copies;
	d->fallback = fallback;
	return 0;

no_copies:
	destroy_workqueue(fallback->workqueue);
no_workqueue:
	kfree(fallback);
	return -ENOMEM;
}

void dsm_fallback_exit(struct dsm *d)
{
	struct dsm_fallback *fallback = d->fallback;

	if (!fallback)
		return;
	destroy_workqueue(fallback->workqueue);
	cancel_work_sync(&fallback->relayout);
	bioset_exit(&fallback->copies);
	kfree(fallback);
	d->fallback = NULL;
}
