/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages that were named, and not written since; dead.c has the proof.
 */
#ifndef DSM_DEAD_H
#define DSM_DEAD_H

#include <linux/spinlock.h>
#include <linux/types.h>

struct dsm_bits;

struct dsm_dead {
	/* Changed with the target's mutex and the lock held; a chunk that is NULL has none. */
	struct dsm_bits *bits;

	/* Under the lock. */
	u64 pages;		/* set bits */
	bool complete;		/* no write to a page was missed; false: none is dead */
	u32 unit;		/* sectors; the granule of the device since all were forgotten */
};

/*
 * These need the target's mutex, and take @lock.
 *
 * Allocates the bits of the pages @first to @end, of @chunks chunks in all.  Without
 * memory, pages are not dead.
 */
void dsm_dead_prepare(struct dsm_dead *dead, spinlock_t *lock, u32 chunks, u64 first, u64 end);

/* Takes back what was written in a window whose bitmap no write can find any more. */
void dsm_dead_fold(struct dsm_dead *dead, spinlock_t *lock, const struct dsm_bits *written);

/* Takes back all.  @unit: the device's granule from now on, in sectors. */
void dsm_dead_forget(struct dsm_dead *dead, spinlock_t *lock, u32 unit);

/* These need the lock. */
void dsm_dead_add(struct dsm_dead *dead, u64 first, u64 end);
void dsm_dead_remove(struct dsm_dead *dead, u64 first, u64 end);

/* The bits of the word of @page. */
unsigned long dsm_dead_word(const struct dsm_dead *dead, u64 page);

/* No user may be left. */
void dsm_dead_free(struct dsm_dead *dead);

#endif
