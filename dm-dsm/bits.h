/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bitmaps of a bit for each 4 KiB page of a target, in chunks of which each may be missing.
 */
#ifndef DSM_BITS_H
#define DSM_BITS_H

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

/*
 * Sets the bit of the page in which these sectors lie; false if they lie in several, and
 * then nothing has been done.  Needs no lock.
 */
static __always_inline bool dsm_bits_set_page(const struct dsm_bits *bits, u64 sector,
					      unsigned int sectors)
{
	unsigned long page = sector / DSM_PAGE_SECTORS % DSM_CHUNK_PAGES;
	unsigned long *chunk;

	if (unlikely(sector % DSM_PAGE_SECTORS + sectors > DSM_PAGE_SECTORS))
		return false;

	chunk = bits->chunk[sector / DSM_PAGE_SECTORS / DSM_CHUNK_PAGES];
	if (likely(chunk) && unlikely(!test_bit(page, chunk)))
		set_bit(page, chunk);
	return true;
}

/* The same for any number of pages. */
void dsm_bits_set_pages(const struct dsm_bits *bits, u64 sector, unsigned int sectors);

#endif
