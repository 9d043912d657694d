/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory for what messages do.
 *
 * A message may come while the device is suspended, or while it is about to be: then
 * device-mapper waits for the message, and a reclaim that waits for I/O to the device
 * would wait for ever.  So no allocation starts I/O or waits for a file system, also
 * inside of vmalloc() (see dsm_message()), and one that fails is refused instead of
 * retried for ever.  What may be large is not even begun when there is too little: the OOM
 * killer would take the database for it.
 */
#ifndef DSM_MEMORY_H
#define DSM_MEMORY_H

#include <linux/gfp.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/types.h>

#define DSM_GFP (GFP_NOIO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/*
 * Limits of a table, such that no allocation exceeds what kvmalloc() takes.  Variables
 * for the tests.
 */
struct dsm_limits {
	u32 files;
	u32 extents;		/* of an upload, and of a table after division */
	u64 memory;		/* bytes that a step of a message may take */
};

extern struct dsm_limits dsm_limits;

/*
 * Whether a message may take @bytes: if as much stays available, as /proc/meminfo has it,
 * and 1/64 of the machine's memory.
 */
static inline bool dsm_may_take(u64 bytes)
{
	long pages = DIV_ROUND_UP_ULL(bytes, PAGE_SIZE);

	return bytes <= dsm_limits.memory &&
	       si_mem_available() >= 2 * pages + (long)totalram_pages() / 64;
}

#endif
