/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which class and group gets which stream.  Userspace has it from here, too.
 */
#ifndef DSM_LAYOUT_H
#define DSM_LAYOUT_H

#include <linux/types.h>

#include "policies.h"

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

/*
 * Lays out @policy with @groups on the streams @base to @last (none if
 * @last < @base), lowering K and the policy to what fits.
 */
void dsm_layout_init(struct dsm_layout *layout, enum dsm_policy_id policy,
		     unsigned int groups, unsigned int base, unsigned int last,
		     bool hints);

/* The stamp for the writes to a region of @class, or DSM_UNMAPPED, in @group. */
union dsm_stamp dsm_layout_stamp(const struct dsm_layout *layout,
				 enum dsm_class class, u8 group);

#endif
