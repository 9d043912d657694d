// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owed pages: for devices that take discards in large pieces only.
 *
 * What a checkpoint frees are pieces of a few pages.  Where the device wants more, a
 * page that may be discarded is remembered: it is owed.  It is discarded when all of a
 * granule around it is owed, by the messages of several windows together.
 *
 * Why a page may be discarded later.  Userspace named page P with window R: nobody
 * needs what the device has at P, unless P was written since the beginning of R.
 * Whoever needs something at P later writes it first: the database writes a block
 * before it reads it, and so does any other file that the file system gives the sectors
 * to.  So until the first write to P since R nobody needs what the device has there,
 * however many windows that takes.  It must be shown that
 *
 *   A. a page that was written since its R is not discarded because it is owed, and
 *   B. nothing else ever gives the content of P a meaning.
 *
 * A.  Let W be such a write, in window V, which is R or later.  Its bit is in the bitmap
 * of V.  A discard of an owed page looks at the bitmaps of all windows that are valid,
 * in the critical section of discard.c, which also says why W cannot come in between.
 * So what is left is a V that is not valid any more:
 *
 *   - "window" made it invalid, since it needs the bitmap of V for the next window.
 *     Before that, while V is valid, it takes all bits of V from those of owed pages
 *     (dsm_owed_fold()).  They are complete: V ended a window ago, and every write that
 *     could find its bitmap has set its bits.  A page that becomes owed after its chunk
 *     was folded was either untouched in V, or its R is after V.
 *   - A chunk of the bitmap of V that is missing has not seen the writes of V: all pages
 *     there are taken back.
 *   - Something else made all windows invalid: a suspend, "set discard", a lack of
 *     memory, an operation of unknown extent.  @complete is false from then on, and no
 *     page is owed, until the next "window" has forgotten all.
 *
 * Writes do not touch the bits of owed pages.
 *
 * B is userspace's: it sends "forget" when it starts, and whenever something may have
 * happened that it has not seen.  When that returns no page is owed, and no discard is in
 * flight of what was named before, nor will one be sent: what waits in the queue or in the
 * plug is refused, so that it makes no page owed either, and what was sent is waited for.
 * Owed pages are sent by a later "discard" only: when userspace is gone nothing is.
 *
 * Bits stay set when a granule is discarded: they say that the pages are dead.  A granule
 * of which one page is written and freed again is discarded once more.
 */
#include <linux/bitops.h>
#include <linux/gfp.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bits.h"
#include "memory.h"
#include "owed.h"

static void dsm_owed_room(struct dsm_owed *owed, spinlock_t *lock, u32 chunk)
{
	unsigned long *new;

	if (owed->bits->chunk[chunk] || !dsm_may_take(SZ_4K))
		return;
	new = kzalloc(SZ_4K, DSM_GFP);
	spin_lock_irq(lock);
	owed->bits->chunk[chunk] = new;
	spin_unlock_irq(lock);
}

void dsm_owed_prepare(struct dsm_owed *owed, spinlock_t *lock, u32 chunks, u64 first, u64 end)
{
	if (!owed->bits) {
		struct dsm_bits *bits = dsm_bits_alloc(chunks);

		if (!bits)
			return;
		spin_lock_irq(lock);
		owed->bits = bits;
		spin_unlock_irq(lock);
	}
	for (u64 chunk = first / DSM_CHUNK_PAGES; chunk * DSM_CHUNK_PAGES < end; chunk++)
		dsm_owed_room(owed, lock, chunk);
}

static unsigned long *dsm_owed_at(const struct dsm_owed *owed, u64 page)
{
	if (!owed->complete || !owed->bits)
		return NULL;
	return dsm_bits_word(owed->bits, page);
}

unsigned long dsm_owed_word(const struct dsm_owed *owed, u64 page)
{
	const unsigned long *word = dsm_owed_at(owed, page);

	return word ? *word : 0;
}

void dsm_owed_add(struct dsm_owed *owed, u64 first, u64 end)
{
	u64 next;

	for (u64 page = first; page < end; page = next) {
		unsigned long *word = dsm_owed_at(owed, page), mask;

		next = min(end, round_down(page, BITS_PER_LONG) + BITS_PER_LONG);
		if (!word)
			continue;
		mask = GENMASK((next - 1) % BITS_PER_LONG, page % BITS_PER_LONG);
		owed->pages += hweight_long(mask & ~*word);
		*word |= mask;
	}
}

/* Returns how many pages are taken back.  @written: NULL, all.  @left: what is owed then. */
static unsigned int dsm_owed_fold_chunk(unsigned long *chunk, const unsigned long *written,
					unsigned long *left)
{
	unsigned int pages = 0;

	*left = 0;
	for (unsigned int i = 0; i < DSM_CHUNK_PAGES / BITS_PER_LONG; i++) {
		unsigned long gone = written ? chunk[i] & written[i] : chunk[i];

		pages += hweight_long(gone);
		chunk[i] &= ~gone;
		*left |= chunk[i];
	}
	return pages;
}

void dsm_owed_fold(struct dsm_owed *owed, spinlock_t *lock, const struct dsm_bits *written)
{
	for (u32 i = 0; owed->bits && i < owed->bits->nr; i++) {
		unsigned long *chunk = owed->bits->chunk[i], left;

		if (!chunk)
			continue;
		spin_lock_irq(lock);
		owed->pages -= dsm_owed_fold_chunk(chunk, written->chunk[i], &left);
		if (!left)
			owed->bits->chunk[i] = NULL;
		spin_unlock_irq(lock);
		if (!left)
			kfree(chunk);
		cond_resched();
	}
}

void dsm_owed_forget(struct dsm_owed *owed, spinlock_t *lock)
{
	struct dsm_bits *bits = owed->bits;

	spin_lock_irq(lock);
	owed->bits = NULL;
	owed->pages = 0;
	owed->complete = true;
	spin_unlock_irq(lock);
	dsm_bits_free(bits);
}

void dsm_owed_free(struct dsm_owed *owed)
{
	dsm_bits_free(owed->bits);
}
