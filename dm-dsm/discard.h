/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Discards of blocks that a checkpoint has freed; discard.c has the rule and its proof.
 */
#ifndef DSM_DISCARD_H
#define DSM_DISCARD_H

#include <linux/blk_types.h>
#include <linux/types.h>

struct dsm;

/* What the status line shows. */
struct dsm_discard_status {
	u64 window;		/* the current one; 0: none was begun */
	u64 valid;		/* the oldest one that "discard" takes; 0: none */
	unsigned int queued;	/* ranges that wait, and runs in flight */
	u32 granularity;	/* bytes, of which a discard is a multiple */
	u32 alignment;		/* bytes, at a multiple of which it starts, */
	u32 offset;		/* first so many from the target's start */
	struct dsm_discard_counts {
		u64 discarded;	/* runs that the device has discarded */
		u64 sectors;	/* of these */
		u64 refused;	/* sectors that were written, or may have been */
		u64 too_short;	/* sectors that were not, and made no run */
		u64 failed;	/* runs */
		u64 held;	/* writes */
		u64 held_max_us;	/* the longest that one was held */
		u64 plug_max_us;	/* the longest that a plug of discards took */
	} counts;
};

/*
 * Tracks a bio that is not a read.  Returns whether discards are in flight; then
 * dsm_discard_hold() must be called before the bio goes to the device.
 */
bool dsm_discard_note(struct dsm *d, enum req_op op, u64 sector,
		      unsigned int sectors);

/*
 * What becomes of a bio that is ready for the device: DM_MAPIO_REMAPPED, or
 * DM_MAPIO_SUBMITTED if it waits for a discard that it overlaps.
 */
int dsm_discard_hold(struct dsm *d, struct bio *bio);

/*
 * Applies the feature after it was set: starts or stops tracking.  What waits is refused.
 * Windows stay valid from watch to on, and back.  Returns 0 or -ENOMEM.  Needs the
 * target's mutex.
 */
int dsm_discard_set(struct dsm *d);

/* Writes are tracked, and if the feature is on the device takes discards.  Needs the mutex. */
bool dsm_discard_is_on(const struct dsm *d);

/* Applies the granularity features after they were set.  Needs the mutex. */
void dsm_discard_set_granule(struct dsm *d);

/*
 * The messages "window", "discard", "written" and "forget".  They return 0, with the window,
 * the number of ranges or the reply, or what dsm_refuse() returned.  All need the mutex.
 */
int dsm_discard_window(struct dsm *d, u64 *window);
int dsm_discard_queue(struct dsm *d, unsigned int argc, char **argv,
		      unsigned int *queued);
int dsm_discard_written(struct dsm *d, unsigned int argc, char **argv, char *result,
			unsigned int maxlen);
int dsm_discard_forget(struct dsm *d);

/* Until the next "window" no window is valid, and what waits is refused. */
void dsm_discard_invalidate(struct dsm *d);

/*
 * After "forget", and after discards were switched off: returns when what was sent before is
 * not in flight any more; what was not sent is not sent.  -EINTR: a fatal signal came before.
 * -ETIMEDOUT: the device takes too long, or hangs.  Without the mutex, for that reason.
 */
int dsm_discard_barrier(struct dsm *d);
extern unsigned int dsm_discard_timeout;	/* milliseconds; a variable for the tests */

void dsm_discard_status(struct dsm *d, struct dsm_discard_status *status);
void dsm_discard_reset(struct dsm *d);

/* Target lifetime.  None of them takes the mutex. */
int dsm_discard_init(struct dsm *d);
void dsm_discard_exit(struct dsm *d);
void dsm_discard_stop(struct dsm *d);		/* starts no new discard */
void dsm_discard_drain(struct dsm *d);		/* none is in flight then */
void dsm_discard_resume(struct dsm *d);

#endif
