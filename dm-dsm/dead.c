// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dead pages: a "discard" or a "defer" named them, and they were not written since the
 * beginning of its window.  Whether they were discarded makes no difference.
 *
 * The audit needs them.  The database must write a page before it uses it again, so that
 * no page in use is ever dead; the message "dead" says which pages are.  In audit mode
 * nothing is discarded, and a database that breaks the rule is found before it loses
 * anything.
 *
 * So do devices that take discards in large pieces only.  What a checkpoint frees are
 * pieces of a few pages.  A page is discarded when all of a granule around it is dead, by
 * the messages of several windows together.
 *
 * And so does a device that is too slow for all that a checkpoint frees: "defer" names the
 * rest, and "discard dead" sends what is still dead of it when there is time.
 *
 * Why a page may be discarded later.  Userspace named page P with window R: nobody
 * needs what the device has at P, unless P was written since the beginning of R.
 * Whoever needs something at P later writes it first: the database writes a block
 * before it reads it, and so does any other file that the file system gives the sectors
 * to.  So until the first write to P since R nobody needs what the device has there,
 * however many windows that takes.  It must be shown that
 *
 *   A. a page that was written since its R is not dead, and
 *   B. nothing else ever gives the content of P a meaning.
 *
 * A.  Let W be such a write, in window V, which is R or later.  Its bit is in the bitmap
 * of V.  Whoever looks for dead pages looks at the bitmaps of all windows that are valid,
 * in the critical section of discard.c, which also says why W cannot come in between.
 * So what is left is a V that is not valid any more:
 *
 *   - "window" made it invalid, since it needs the bitmap of V for the next window.
 *     Before that, while V is valid, it takes all bits of V from those of dead pages
 *     (dsm_dead_fold()).  They are complete: V ended a window ago, and every write that
 *     could find its bitmap has set its bits.  A page that is added after its chunk
 *     was folded was either untouched in V, or its R is after V.
 *   - A chunk of the bitmap of V that is missing has not seen the writes of V: all pages
 *     there are taken back.
 *   - Something else made all windows invalid: a suspend, "set discard", a lack of
 *     memory, an operation of unknown extent.  @complete is false from then on, and no
 *     page is dead, until the next "window" has forgotten all.
 *
 * The other way round, a page that is not dead may be one that nobody has written: the
 * audit misses it, when there was no memory for its bit, or all were forgotten.  A write
 * that was mapped, and has not reached the device, counts as one.
 *
 * Writes do not touch the bits of dead pages.
 *
 * B is userspace's: it sends "forget" when it starts, and whenever something may have
 * happened that it has not seen, of all pages or of some ranges.  When that returns these
 * are not dead, and no discard is in flight of what was named before, nor will one be sent:
 * what waits in the queue or in the plug is refused, so that it makes no page dead either,
 * and what was sent is waited for.  Dead pages are sent by a later "discard" only: when
 * userspace is gone nothing is.  It keeps an eye on the places of dead pages only where they
 * may be sent, so those that were named under another granularity are never sent with what
 * is around them: the next "window" forgets them.  What "discard dead" names is looked at
 * again before.
 *
 * Bits stay set when a granule is discarded.  A granule of which one page is written and
 * freed again is discarded once more.
 */
#include <linux/bitops.h>
#include <linux/gfp.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "bits.h"
#include "dead.h"
#include "memory.h"

static void dsm_dead_make_room(struct dsm_dead *dead, spinlock_t *lock, u32 chunk)
{
	unsigned long *new;

	if (dead->bits->chunk[chunk] || !dsm_may_take(SZ_4K))
		return;
	new = kzalloc(SZ_4K, DSM_GFP);
	spin_lock_irq(lock);
	dead->bits->chunk[chunk] = new;
	spin_unlock_irq(lock);
}

void dsm_dead_prepare(struct dsm_dead *dead, spinlock_t *lock, u32 chunks, u64 first, u64 end)
{
	if (!dead->bits) {
		struct dsm_bits *bits = dsm_bits_alloc(chunks);

		if (!bits)
			return;
		spin_lock_irq(lock);
		dead->bits = bits;
		spin_unlock_irq(lock);
	}
	for (u64 chunk = first / DSM_CHUNK_PAGES; chunk * DSM_CHUNK_PAGES < end; chunk++)
		dsm_dead_make_room(dead, lock, chunk);
}

static unsigned long *dsm_dead_at(const struct dsm_dead *dead, u64 page)
{
	if (!dead->complete || !dead->bits)
		return NULL;
	return dsm_bits_word(dead->bits, page);
}

unsigned long dsm_dead_word(const struct dsm_dead *dead, u64 page)
{
	const unsigned long *word = dsm_dead_at(dead, page);

	return word ? *word : 0;
}

static void dsm_dead_set(struct dsm_dead *dead, u64 first, u64 end, bool is_dead)
{
	u64 next;

	for (u64 page = first; page < end; page = next) {
		unsigned long *word = dsm_dead_at(dead, page), mask;

		next = min(end, round_down(page, BITS_PER_LONG) + BITS_PER_LONG);
		if (!word)
			continue;
		mask = GENMASK((next - 1) % BITS_PER_LONG, page % BITS_PER_LONG);
		dead->pages -= hweight_long(*word);
		*word = is_dead ? *word | mask : *word & ~mask;
		dead->pages += hweight_long(*word);
	}
}

void dsm_dead_add(struct dsm_dead *dead, u64 first, u64 end)
{
	dsm_dead_set(dead, first, end, true);
}

void dsm_dead_remove(struct dsm_dead *dead, u64 first, u64 end)
{
	dsm_dead_set(dead, first, end, false);
}

/* Returns how many pages are taken back.  @written: NULL, all.  @left: what is dead then. */
static unsigned int dsm_dead_fold_chunk(unsigned long *chunk, const unsigned long *written,
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

void dsm_dead_fold(struct dsm_dead *dead, spinlock_t *lock, const struct dsm_bits *written)
{
	for (u32 i = 0; dead->bits && i < dead->bits->nr; i++) {
		unsigned long *chunk = dead->bits->chunk[i], left;

		if (!chunk)
			continue;
		spin_lock_irq(lock);
		dead->pages -= dsm_dead_fold_chunk(chunk, written->chunk[i], &left);
		if (!left)
			dead->bits->chunk[i] = NULL;
		spin_unlock_irq(lock);
		if (!left)
			kfree(chunk);
		cond_resched();
	}
}

void dsm_dead_forget(struct dsm_dead *dead, spinlock_t *lock, u32 unit)
{
	struct dsm_bits *bits = dead->bits;

	spin_lock_irq(lock);
	dead->bits = NULL;
	dead->pages = 0;
	dead->complete = true;
	dead->unit = unit;
	spin_unlock_irq(lock);
	dsm_bits_free(bits);
}

void dsm_dead_free(struct dsm_dead *dead)
{
	dsm_bits_free(dead->bits);
}
