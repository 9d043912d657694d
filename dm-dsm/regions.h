/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files, their regions, and what is counted of them.
 *
 * A write touches only dsm_region_count() and dsm_region_stamp(), without a lock.
 * Everything else is called with the target's mutex held.
 */
#ifndef DSM_REGIONS_H
#define DSM_REGIONS_H

#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include "policies/policies.h"
#include "streams.h"

#define DSM_NO_BOUNDARY U32_MAX

/* Another processor's counters are read while it counts. */
static_assert(BITS_PER_LONG == 64);

/* File offsets are in 4 KiB pages: 32 bits reach to 16 TiB. */
struct dsm_region {
	u64 __percpu *sectors;	/* written since the file was created */
	u64 base;		/* their sum when the window began */
	u32 low;		/* first page written in the window; U32_MAX: none */
	u32 high;		/* the page after the last */
	u32 mapped;		/* pages that the extents add up to */
	u32 pages;		/* numw of the last window */
	u32 range;		/* range of the last window, in pages */
	union dsm_stamp stamp;	/* what writes get */
	u8 group;		/* found in the last window */
	u8 next;		/* whose stream the region has: see dsm_region_window */
};

struct dsm_file {
	u64 id;
	struct dsm_region region[DSM_NR_SIDES];
	u64 written;		/* see dsm_file_window */
	u32 boundary;		/* in pages, or DSM_NO_BOUNDARY */
	u8 class;		/* enum dsm_class */
	bool replaced;		/* only while an upload is committed */
	union dsm_stamp stated;	/* in place of the group's; 0: that is taken */
};

/* Returns a file without extents, or NULL; may sleep.  Free it with dsm_file_free(). */
struct dsm_file *dsm_file_alloc(u64 id);
void dsm_file_free(struct dsm_file *file);

/*
 * A file that a commit gives other stamps is replaced by one that counts on for it, so
 * that a write has the stamps of the table that it sees.  dsm_file_succeed() returns the
 * other one or NULL; they have the counters together.  When no write finds the first one
 * any more dsm_file_retire() leaves them to its successor; when it comes to nothing, to
 * the first one.  The one left without is to be freed.
 */
struct dsm_file *dsm_file_succeed(const struct dsm_file *file);
void dsm_file_retire(struct dsm_file *file, struct dsm_file *heir);

/* A file has a top region once it has a boundary. */
static inline unsigned int dsm_file_regions(const struct dsm_file *file)
{
	return file->boundary == DSM_NO_BOUNDARY ? 1 : 2;
}

/* Sectors written to a region since its file was created. */
u64 dsm_region_sectors(const struct dsm_region *region);

/* A file's window while it ends. */
struct dsm_file_sums {
	u64 sectors[DSM_NR_SIDES];
	u32 low[DSM_NR_SIDES];
	u32 high[DSM_NR_SIDES];
};

/*
 * Ends a window in two steps, between which there must be an RCU grace period, and
 * leaves in @window what it has seen, for the policy.
 *
 * A write widens the range if it must, and counts (if the range is read at all, see
 * dsm_set_keep_range()).  Writes that have found the range
 * wide enough before it is taken count within the grace period, before the sum is
 * taken.  Those that come later widen the next window's range before they count, and
 * are in the sum or not; if they are, that range is seen after it.  So a window's range
 * covers every write that is counted in it.  It may also cover writes of the window
 * before, as many as came while that one ended.
 */
void dsm_file_take_range(struct dsm_file *file, struct dsm_file_sums *sums);
void dsm_file_read_window(struct dsm_file *file, bool range_written,
			  struct dsm_file_sums *sums,
			  struct dsm_file_window *window);

/* Begins the next one, with what the policy has said.  Never fails. */
void dsm_file_next_window(struct dsm_file *file, const struct dsm_file_sums *sums,
			  const struct dsm_file_window *window);

/* Begins the window again, with what has been counted by now as nothing. */
void dsm_file_restart_window(struct dsm_file *file);

/*
 * Gives both regions the stamp that the file states, or that of their group.
 * Returns how many regions have another stream now.
 */
unsigned int dsm_file_restamp(struct dsm_file *file,
			      const struct dsm_layout *layout);

/* Puts both regions where @params puts new ones. */
void dsm_file_initial(struct dsm_file *file,
		      const struct dsm_policy_params *params);

static inline void dsm_region_widen(struct dsm_region *region, u32 low, u32 high)
{
	u32 old;

	old = READ_ONCE(region->low);
	while (unlikely(low < old) && !try_cmpxchg(&region->low, &old, low))
		;
	old = READ_ONCE(region->high);
	while (unlikely(high > old) && !try_cmpxchg(&region->high, &old, high))
		;
}

/*
 * Fig. 7, lines 7 to 10 (13 to 16), for @sectors from the file's @offset on; in an RCU
 * read-side section.
 */
static inline void dsm_region_count(struct dsm_region *region, u64 offset, u64 sectors,
				    bool keep_range)
{
	u32 low = offset / DSM_PAGE_SECTORS;
	u32 high = (offset + sectors + DSM_PAGE_SECTORS - 1) / DSM_PAGE_SECTORS;

	if (unlikely(keep_range))
		dsm_region_widen(region, low, high);
	this_cpu_add(*region->sectors, sectors);
}

static inline union dsm_stamp dsm_region_stamp(const struct dsm_region *region)
{
	return (union dsm_stamp) { .both = READ_ONCE(region->stamp.both) };
}

#endif
