/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages that may be discarded until they are written; owed.c has the proof.
 */
#ifndef DSM_OWED_H
#define DSM_OWED_H

#include <linux/spinlock.h>
#include <linux/types.h>

struct dsm_bits;

struct dsm_owed {
	/* Changed with the target's mutex and the lock held; a chunk that is NULL has none. */
	struct dsm_bits *bits;

	/* Under the lock. */
	u64 pages;		/* set bits */
	bool complete;		/* no write to a page was missed; false: none is owed */
};

/*
 * These need the target's mutex, and take @lock.
 *
 * Allocates the bits of the pages @first to @end, of @chunks chunks in all.  Without
 * memory, pages are not owed.
 */
void dsm_owed_prepare(struct dsm_owed *owed, spinlock_t *lock, u32 chunks, u64 first, u64 end);

/* Takes back what was written in a window whose bitmap no write can find any more. */
void dsm_owed_fold(struct dsm_owed *owed, spinlock_t *lock, const struct dsm_bits *written);

/* Takes back all. */
void dsm_owed_forget(struct dsm_owed *owed, spinlock_t *lock);

/* These need the lock. */
void dsm_owed_add(struct dsm_owed *owed, u64 first, u64 end);

/* The bits of the word of @page. */
unsigned long dsm_owed_word(const struct dsm_owed *owed, u64 page);

/* No user may be left. */
void dsm_owed_free(struct dsm_owed *owed);

#endif
