// SPDX-License-Identifier: GPL-2.0-only
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "bits.h"
#include "memory.h"

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

/* Clears the chunks that are wanted, and frees the others.  Returns how many are missing. */
static u64 dsm_bits_clear(struct dsm_bits *bits, const unsigned long *wanted)
{
	u64 missing = 0;

	for (u32 i = 0; i < bits->nr; i++) {
		if (!test_bit(i, wanted)) {
			kfree(bits->chunk[i]);
			bits->chunk[i] = NULL;
		} else if (bits->chunk[i]) {
			memset(bits->chunk[i], 0, SZ_4K);
		} else {
			missing++;
		}
		if (!(i % 64))
			cond_resched();
	}
	return missing;
}

static int dsm_bits_fill(struct dsm_bits *bits, const unsigned long *wanted, u64 missing)
{
	for (u32 i = 0; missing; i++) {
		if (!(i % 64)) {
			cond_resched();
			if (!dsm_may_take(missing * SZ_4K))
				return -ENOMEM;
		}
		if (!test_bit(i, wanted) || bits->chunk[i])
			continue;
		bits->chunk[i] = kzalloc(SZ_4K, DSM_GFP);
		if (!bits->chunk[i])
			return -ENOMEM;
		missing--;
	}
	return 0;
}

int dsm_bits_renew(struct dsm_bits *bits, const unsigned long *wanted)
{
	int r = dsm_bits_fill(bits, wanted, dsm_bits_clear(bits, wanted));

	if (r)
		dsm_bits_empty(bits);
	return r;
}

void dsm_bits_set_pages(const struct dsm_bits *bits, u64 sector, unsigned int sectors)
{
	u64 page = sector / DSM_PAGE_SECTORS;
	u64 end = (sector + sectors + DSM_PAGE_SECTORS - 1) / DSM_PAGE_SECTORS;
	u64 next;

	for (; page < end; page = next) {
		next = min(end, round_down(page, BITS_PER_LONG) + BITS_PER_LONG);
		dsm_bits_set_in_word(bits, page, next - 1);
	}
}
