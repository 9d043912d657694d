/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bitmaps of a bit for each 4 KiB page of a target, in chunks of which each may be missing.
 */
#ifndef DSM_BITS_H
#define DSM_BITS_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/compiler.h>
#include <linux/sizes.h>
#include <linux/types.h>

#include "policies/policies.h"

#define DSM_CHUNK_PAGES	(SZ_4K * BITS_PER_BYTE)		/* 128 MiB */

struct dsm_bits {
	u32 nr;
	unsigned long *chunk[] __counted_by(nr);
};

/* Without chunks; NULL: no memory.  Free, or empty, only what no write can find. */
struct dsm_bits *dsm_bits_alloc(u32 nr);
void dsm_bits_empty(struct dsm_bits *bits);
void dsm_bits_free(struct dsm_bits *bits);

/*
 * Makes a bitmap that no write can find one of zeroes, with the chunks that have a bit in
 * @wanted.  Returns 0, or -ENOMEM, and then it has no chunk at all.
 */
int dsm_bits_renew(struct dsm_bits *bits, const unsigned long *wanted);

/* The word of @page, or NULL. */
static inline unsigned long *dsm_bits_word(const struct dsm_bits *bits, u64 page)
{
	unsigned long *chunk = bits->chunk[page / DSM_CHUNK_PAGES];

	return chunk ? &chunk[page % DSM_CHUNK_PAGES / BITS_PER_LONG] : NULL;
}

/* Sets the bits from @first to @last, of one word, if there is a chunk.  Needs no lock. */
static __always_inline void dsm_bits_set_in_word(const struct dsm_bits *bits, u64 first,
						 u64 last)
{
	unsigned long mask = GENMASK(last % BITS_PER_LONG, first % BITS_PER_LONG);
	unsigned long *chunk = bits->chunk[first / DSM_CHUNK_PAGES];
	unsigned long word = first % DSM_CHUNK_PAGES / BITS_PER_LONG;

	if (likely(chunk) && unlikely(mask & ~READ_ONCE(chunk[word])))
		atomic_long_or(mask, (atomic_long_t *)&chunk[word]);
}

/* Sets the bits of all pages in which these sectors lie. */
void dsm_bits_set_pages(const struct dsm_bits *bits, u64 sector, unsigned int sectors);

/* The same, inline for nearly all writes. */
static __always_inline void dsm_bits_set(const struct dsm_bits *bits, u64 sector,
					 unsigned int sectors)
{
	u64 first = sector / DSM_PAGE_SECTORS;
	u64 last = (sector + sectors - 1) / DSM_PAGE_SECTORS;

	if (likely((first ^ last) < BITS_PER_LONG))
		dsm_bits_set_in_word(bits, first, last);
	else
		dsm_bits_set_pages(bits, sector, sectors);
}

#endif
