/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Placement policies: pure functions on an array of window statistics.
 *
 * Nothing here knows of bios, devices or locks, and nothing allocates.  This folder
 * is compiled into the module and, unchanged, into userspace.  Figures and equations
 * are those of the DSM paper.
 */
#ifndef DSM_POLICIES_H
#define DSM_POLICIES_H

#include <linux/bitops.h>
#include <linux/int_log.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define DSM_MIN_GROUPS	2
#define DSM_MAX_GROUPS	16
#define DSM_MIN_ALPHA	2
#define DSM_MAX_ALPHA	64

#define DSM_PAGE_SIZE	4096
#define DSM_PAGE_SECTORS	(DSM_PAGE_SIZE / 512)

/* A hotness is a logarithm to base 2 with this many binary places. */
#define DSM_HOTNESS_SHIFT 24

/* So have the pages that a file was written. */
#define DSM_WRITTEN_SHIFT 8

enum dsm_class {
	DSM_COLLECTION,
	DSM_INDEX,
	DSM_PRIMARY,		/* an index declared to be an _id index */
	DSM_JOURNAL,
	DSM_OPLOG,
	DSM_OTHER,
	DSM_NR_CLASSES
};

/* Instead of a class: of writes to no file that is known, as to the file system's log. */
#define DSM_UNMAPPED	DSM_NR_CLASSES

enum dsm_side {
	DSM_BOTTOM,		/* offsets below the boundary: the paper's region 1 */
	DSM_TOP,		/* offsets at or above it: region 2 */
	DSM_NR_SIDES
};

/* Named in policies.c. */
enum dsm_policy_id {
	DSM_POLICY_NONE,
	DSM_POLICY_FILE,
	DSM_POLICY_BOUNDARY,
	DSM_POLICY_DSM,
	DSM_POLICY_LIFE,	/* not of the paper: see life.c */
	DSM_NR_POLICIES
};

#define DSM_POLICY_NAMES	"none, file, boundary, dsm or life"

extern const char * const dsm_policy_names[DSM_NR_POLICIES + 1];	/* up to NULL */

enum dsm_prediction {
	DSM_PREDICT_OFF,	/* the group just computed */
	DSM_PREDICT_PREDICTED,	/* Fig. A.5, where the other region was written */
	DSM_PREDICT_COMPUTED,	/* the same against the group computed the window before */
	DSM_PREDICT_LITERAL,	/* Fig. A.5 as it stands, whether there is another or not */
};

/*
 * A region's group: 1 (coldest) to K (hottest), or one of these.
 */
enum {
	DSM_GROUP_NONE = 0,	/* its class has no groups, or no window has ended yet */
	DSM_GROUP_PRIMARY = 255,
};

struct dsm_policy_params {
	enum dsm_policy_id policy;
	enum dsm_prediction prediction;
	unsigned int groups;		/* K; 1 means that nothing is grouped */
	unsigned int alpha;		/* the weight in Eq. 3 */
	unsigned int threshold1;	/* of the primary filter, in 0.01 % */
	unsigned int threshold2;
	bool primary_filter;
};

struct dsm_region_window {
	u64 pages;		/* in: numw, 4 KiB pages written in the window */
	u64 range;		/* in: bytes over which they were spread */
	s32 hotness;		/* out: valid if pages != 0 */
	u8 group;		/* in: of the window before, out: of this one */
	u8 next;		/* in/out: the group whose stream the region has */
};

struct dsm_file_window {
	struct dsm_region_window region[DSM_NR_SIDES];
	u64 mapped;		/* in: pages that its extents add up to */
	u64 written;		/* in/out: by life, of all windows, in 2^-DSM_WRITTEN_SHIFT pages */
	u8 class;		/* enum dsm_class */
};

/* What the policy life works with, too large for a stack.  Nothing is kept in it. */
#define DSM_LIFE_BINS	96

struct dsm_life {
	struct dsm_life_moments {
		u64 weight, first, second;
	} below[DSM_LIFE_BINS + 1];
	u64 cost[2][DSM_LIFE_BINS + 1];
	u8 begin[DSM_MAX_GROUPS][DSM_LIFE_BINS + 1];
	u8 group[DSM_LIFE_BINS];
};

static inline bool dsm_class_has_groups(enum dsm_policy_id policy, enum dsm_class class)
{
	return policy == DSM_POLICY_LIFE ? class != DSM_JOURNAL : class <= DSM_PRIMARY;
}

/* The group of files of which nothing is known: the middle. */
static inline u8 dsm_life_initial(const struct dsm_policy_params *params)
{
	return (params->groups + 1) / 2;
}

/*
 * The group whose stream a region has before its first window: the layout of
 * the boundary policy.
 */
u8 dsm_policy_initial(const struct dsm_policy_params *params,
		      enum dsm_class class, enum dsm_side side);

/*
 * lg(pages * 4096 / range / seconds) (Eqs. 1, 2), in units of
 * 2^-DSM_HOTNESS_SHIFT and off by less than 0.0001.  @pages must not be 0; a
 * @range below a page or an @ms of 0 count as one page and one millisecond.
 */
s32 dsm_hotness(u64 pages, u64 range, u64 ms);

/*
 * dsm_hotness()'s logarithm, of a @value that is not 0: intlog2() of 64 bits.  Those that
 * are dropped weigh less than 2^-31.
 */
static inline s32 dsm_lg(u64 value)
{
	int shift = max(fls64(value) - 32, 0);

	return intlog2(value >> shift) + (shift << DSM_HOTNESS_SHIFT);
}

/*
 * What happens at a checkpoint (Fig. 9): computes hotness and group of every
 * region and the group whose stream the writes of the next window take.  @ms is
 * the length of the window, @life scratch.
 */
void dsm_policy_checkpoint(const struct dsm_policy_params *params,
			   struct dsm_file_window *files, size_t nr_files,
			   u64 ms, struct dsm_life *life);

/* life.c: the same for the policy life, of which a window's length is not asked. */
void dsm_life_checkpoint(const struct dsm_policy_params *params,
			 struct dsm_file_window *files, size_t nr_files,
			 struct dsm_life *life);

#endif
