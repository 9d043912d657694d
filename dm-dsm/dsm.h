/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The context of a dsm target, shared by the parts of the module.
 */
#ifndef DSM_DSM_H
#define DSM_DSM_H

#include <linux/device-mapper.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "discard.h"
#include "extent_map.h"
#include "params.h"
#include "streams.h"

#define DM_MSG_PREFIX "dsm"

/* Counted per CPU for the status line; see dsm_count(). */
struct dsm_counts {
	struct dsm_stream_count {
		u64 writes;
		u64 sectors;
	} stream[DSM_NR_STREAMS];
	u64 unmapped_writes;
	u64 unmapped_sectors;
	u64 split;		/* bios divided at a stream's edge */
	u64 foreign;		/* writes that kept a stream or hint of their own */
};

/* How an upload has ended, for the next message of its owner. */
enum dsm_upload_end {
	DSM_UPLOAD_COMMITTED,
	DSM_UPLOAD_ABORTED,
	DSM_UPLOAD_REFUSED,	/* a record, or the commit */
	DSM_UPLOAD_REPLACED,	/* by another begin */
	DSM_UPLOAD_IDLE,
};

struct dsm_ended {
	u64 number;		/* 0: none */
	enum dsm_upload_end how;
};

#define DSM_NR_ENDED 8

struct dsm_discard;
struct dsm_upload;

struct dsm {
	/* What a bio needs. */
	struct block_device *bdev;	/* dev's, and */
	u64 shift;			/* from ti->begin to start: each saves a load */
	sector_t start;			/* of the target on bdev */
	struct dsm_extent_map __rcu *direct;	/* map, or NULL: see dsm_set_direct() */
	struct dsm_counts __percpu *counts;
	union dsm_stamp kept;		/* mask: what stays of a write's own stamp */
	u8 device_streams;		/* no bio leaves with a greater stream */
	bool keep_range;		/* of a region's writes: see dsm_set_keep_range() */
	struct dsm_extent_map __rcu *map;	/* NULL: no table, nothing is stamped */
	struct dsm_bits __rcu *written;	/* NULL: discards are off, or may be in flight */
	unsigned int unsettled;		/* not 0: no write gets a stream */

	/* Control, under the lock; writes of the above too. */
	struct mutex lock;
	spinlock_t direct_lock;		/* of direct and unsettled; within the lock */
	struct work_struct relayout;	/* deferred by a resume */
	struct dm_target *ti;
	struct dm_dev *dev;
	bool stacked;			/* dev is */
	struct dsm_leaves *leaves;	/* below dev, or NULL; never change */
	struct dsm_watch watch;		/* if stacked */
	struct dsm_params params;
	struct dsm_layout layout;
	enum dsm_stream_source source;	/* of device_streams */
	unsigned int most_streams;	/* the greatest device_streams so far */
	struct dsm_upload *upload;	/* between begin and commit */
	struct delayed_work upload_timer;	/* drops an idle one */
	struct dsm_ended ended[DSM_NR_ENDED];	/* the last ones, in turn */
	unsigned int nr_ended;
	u64 generation;			/* commits */
	u64 windows;			/* checkpoints */
	ktime_t window_start;
	u64 window_ms;			/* length of the last window */
	struct dsm_counts reset;	/* what was counted at the last reset */
	char error[256];		/* why the last message was refused */

	/* Of discards; the lock is taken in the write path while it discards. */
	struct dsm_discard __rcu *discard;	/* NULL: discards are off */
	spinlock_t discard_lock;	/* of @discard too; changed with the mutex held */
	bool stopped;			/* suspended: no discard may be sent */
	u64 plugs;			/* that discards were sent in so far */
	wait_queue_head_t discard_wait;
	struct workqueue_struct *discard_workqueue;
	struct work_struct discard_end;
};

extern struct target_type dsm_target;

/*
 * The target's sector of a bio that is on its way to bdev.  To recover it costs a write less
 * than to keep it in a register.
 */
static inline u64 dsm_bio_sector(const struct dsm *d, const struct bio *bio)
{
	return bio->bi_iter.bi_sector - d->start;
}

/* The map, for those who hold the lock. */
static inline struct dsm_extent_map *dsm_locked_map(struct dsm *d)
{
	return rcu_dereference_protected(d->map, lockdep_is_held(&d->lock));
}

/*
 * dsm.c: keeps the error message, logs it (dmsetup shows only the error number), and
 * returns @error.  Needs the lock.
 */
__printf(3, 4)
int dsm_refuse(struct dsm *d, int error, const char *fmt, ...);

/* messages.c: dm's message hook; takes the lock. */
int dsm_message(struct dm_target *ti, unsigned int argc, char **argv,
		char *result, unsigned int maxlen);

/* status.c */

/* What was counted since the last reset; @member of struct dsm_counts. */
#define dsm_count(d, member) \
	__dsm_count(d, offsetof(struct dsm_counts, member))
u64 __dsm_count(const struct dsm *d, size_t offset);

/* Begins to count from zero, without losing a write.  Needs the lock. */
void dsm_counts_reset(struct dsm *d);

/* dm's status hook; takes the lock. */
void dsm_status(struct dm_target *ti, status_type_t type,
		unsigned int status_flags, char *result, unsigned int maxlen);

/*
 * upload.c, commit.c.  All need the lock, and return 0 or what dsm_refuse() returned.
 *
 * An upload has a number, which all its messages give: those of somebody else are
 * refused and do not touch it.  A record that is refused ends its upload, another
 * begin does, and so does a time without a message.
 */
int dsm_upload_begin(struct dsm *d, bool full, u64 *number);
int dsm_upload_records(struct dsm *d, const char *number, unsigned int argc,
		       char **argv);
int dsm_upload_commit(struct dsm *d, const char *number);
int dsm_upload_abort(struct dsm *d, const char *number);
void dsm_upload_exit(struct dsm *d);
size_t dsm_upload_emit(const struct dsm *d, char *result, size_t sz,
		       unsigned int maxlen);
void dsm_upload_expire(struct work_struct *work);	/* takes the lock */
extern unsigned int dsm_upload_timeout;	/* milliseconds; a parameter of the module */
void dsm_table_free(struct dsm *d);	/* no write may be in flight */
bool dsm_is_upload_record(const char *word);
const char *dsm_class_name(enum dsm_class class);

/* windows.c */

/* What a checkpoint has done. */
struct dsm_checkpoint {
	u64 window;		/* its number */
	u64 ms;			/* its length */
	u32 written;		/* regions written in it */
	u32 moved;		/* regions that have another stream now */
};

/*
 * Ends the window: the policy assigns the streams of the next one.  Returns
 * -ENOMEM, and then the window goes on, or 0.  Needs the lock.
 */
int dsm_checkpoint(struct dsm *d, struct dsm_checkpoint *done);

/* relayout.c */

/*
 * Redoes the stream layout after a change of parameters, or when the device
 * takes another number of streams.  With a layout that differs, or @force, every
 * region gets its initial stream.  On return no write is on its way through the
 * target with a stream that the device does not take any more.  Needs the lock.
 */
void dsm_relayout(struct dsm *d, bool force);

/*
 * For a resume, which must not wait for the lock.  Until the streams are laid out
 * again, soon, no write gets one: the underlying device may have fewer.
 */
void dsm_relayout_later(struct dsm *d);
void dsm_relayout_work(struct work_struct *work);

/*
 * Lets writes take the fast path, dsm_place_whole(), unless something else has to see
 * them or the stream layout is pending.  Needs the lock.
 */
void dsm_set_direct(struct dsm *d);

/* When a disk comes: redoes the stream layout if it takes fewer.  Takes the lock. */
void dsm_relayout_fewer(struct dsm_watch *watch, unsigned int streams);

/* Sets the stamp of unmapped writes; @map may be NULL.  Needs the lock. */
void dsm_stamp_unmapped(struct dsm *d, struct dsm_extent_map *map);

/* What the policy works with: @params as far as the layout can carry them. */
struct dsm_policy_params dsm_policy_params(const struct dsm *d);

#endif
