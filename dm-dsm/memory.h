/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Memory for what messages do.
 *
 * A message may come while the device is suspended, or while it is about to be: then
 * device-mapper waits for the message, and a reclaim that waits for I/O to the device
 * would wait for ever.  So no allocation starts I/O or waits for a file system, also
 * inside of vmalloc() (see dsm_message()), and one that fails is refused instead of
 * retried for ever.
 */
#ifndef DSM_MEMORY_H
#define DSM_MEMORY_H

#include <linux/gfp.h>
#include <linux/types.h>

#define DSM_GFP (GFP_NOIO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/*
 * Limits of a table, such that no allocation exceeds what kvmalloc() takes.  Variables
 * for the tests.
 */
struct dsm_limits {
	u32 files;
	u32 extents;		/* of an upload, and of a table after division */
};

extern struct dsm_limits dsm_limits;

#endif
