/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the device can take, and which class and group gets which stream.
 */
#ifndef DSM_STREAMS_H
#define DSM_STREAMS_H

#include <linux/blk_types.h>
#include <linux/types.h>

#include "policies.h"

#define DSM_NR_STREAMS	256	/* ids that fit bi_write_stream, with 0 */
#define DSM_NR_HINTS	6	/* enum rw_hint */

/* How the number of streams is known. */
enum dsm_stream_source {
	DSM_STREAMS_NONE,	/* the device, or a leaf, has none */
	DSM_STREAMS_QUEUE,	/* from its queue limits */
	DSM_STREAMS_LEAVES,	/* from those of the disks below */
	DSM_STREAMS_MACHINE,	/* a disk that is not below takes fewer */
	DSM_STREAMS_STACKED,	/* a stacked device whose leaves are not named */
	DSM_STREAMS_KERNEL,	/* this kernel has no write streams */
};

/* What a write is stamped with; read and written as a whole. */
union dsm_stamp {
	struct {
		u8 hint;	/* enum rw_hint */
		u8 stream;
	};
	u16 both;
};

static inline union dsm_stamp dsm_stamp(u8 stream, u8 hint)
{
	return (union dsm_stamp) { .stream = stream, .hint = hint };
}

/* Table 2 of the paper, made for n streams.  Stream ids, 0 = unstamped. */
struct dsm_layout {
	enum dsm_policy_id policy;	/* whose streams are in use */
	unsigned int groups;		/* K in use, also for hints alone */
	unsigned int used;		/* how many streams */
	u8 other, journal, oplog, primary;
	u8 collection, index;		/* the stream of group 1 */
	u8 greatest;			/* stream that a file may state */
	bool hints;
	bool by_life;			/* the groups are of all types of files */
};

struct dsm_leaves;

/*
 * The greatest stream that a write to @bdev may carry without being refused, whatever
 * happens below if it is @stacked.  @leaves are the disks below it, or NULL.
 */
unsigned int dsm_device_streams(struct block_device *bdev, bool stacked,
				const struct dsm_leaves *leaves,
				enum dsm_stream_source *source);

/*
 * Lays out @policy with @groups on the streams @base to @last (none if
 * @last < @base), lowering K and the policy to what fits.
 */
void dsm_layout_init(struct dsm_layout *layout, enum dsm_policy_id policy,
		     unsigned int groups, unsigned int base, unsigned int last,
		     bool hints);

/* The stamp for the writes to a region of @class in @group. */
union dsm_stamp dsm_layout_stamp(const struct dsm_layout *layout,
				 enum dsm_class class, u8 group);

#endif
