// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/rw_hint.h>
#include <linux/string.h>

#include "layout.h"

/*
 * With K groups a layout takes 2K + 2 streams: other, journal, and K each for
 * collections and indexes.  file is K = 1, boundary is K = 2.
 */
static unsigned int dsm_fitting_groups(unsigned int groups, unsigned int nr)
{
	return nr >= 4 ? min(groups, (nr - 2) / 2) : 1;
}

/* life: unmapped, journal, and K for all other files. */
static void dsm_layout_life(struct dsm_layout *layout, unsigned int base, unsigned int nr)
{
	unsigned int next = base;

	layout->policy = DSM_POLICY_LIFE;
	layout->other = next;
	if (nr > 3)
		next++;
	layout->journal = next++;
	layout->groups = min(layout->groups, base + nr - next);
	layout->collection = next;
	layout->index = next;
	layout->used = next + layout->groups - base;
}

void dsm_layout_init(struct dsm_layout *layout, enum dsm_policy_id policy,
		     unsigned int groups, unsigned int base, unsigned int last,
		     bool hints)
{
	unsigned int nr = last < base ? 0 : last - base + 1;
	unsigned int next = base;

	memset(layout, 0, sizeof(*layout));	/* layouts are compared as memory */
	layout->policy = DSM_POLICY_NONE;
	layout->hints = hints && policy != DSM_POLICY_NONE;
	layout->by_life = policy == DSM_POLICY_LIFE;
	layout->groups = policy >= DSM_POLICY_DSM ? groups :
			 policy == DSM_POLICY_BOUNDARY ? 2 : 1;
	if (policy == DSM_POLICY_NONE || nr < 2)
		return;
	if (layout->by_life) {
		dsm_layout_life(layout, base, nr);
		return;
	}

	layout->groups = dsm_fitting_groups(layout->groups, nr);
	layout->policy = layout->groups > 1 ? policy : DSM_POLICY_FILE;

	layout->other = next;
	if (nr > 3)
		next++;
	layout->journal = next++;
	layout->oplog = layout->journal;
	layout->primary = layout->journal;
	layout->collection = next;
	if (nr > 2)
		next += layout->groups;
	layout->index = next;
	next += layout->groups;

	if (layout->policy == DSM_POLICY_DSM && next <= last)
		layout->primary = next++;
	if (next <= last)
		layout->oplog = next++;
	layout->used = next - base;
}

/* Monotone: SHORT for the hottest group, EXTREME for the coldest. */
static u8 dsm_group_hint(const struct dsm_layout *layout, u8 group)
{
	if (layout->groups < 2)
		return WRITE_LIFE_MEDIUM;
	return WRITE_LIFE_EXTREME -
	       DIV_ROUND_CLOSEST((group - 1) * (WRITE_LIFE_EXTREME - WRITE_LIFE_SHORT),
				 layout->groups - 1);
}

static union dsm_stamp dsm_group_stamp(const struct dsm_layout *layout,
				       u8 first, u8 group)
{
	return dsm_stamp(layout->used ? first + group - 1 : 0,
			 dsm_group_hint(layout, group));
}

union dsm_stamp dsm_layout_stamp(const struct dsm_layout *layout,
				 enum dsm_class class, u8 group)
{
	union dsm_stamp stamp = {};

	if (layout->by_life && (class == DSM_OPLOG || class == DSM_OTHER))
		class = DSM_COLLECTION;

	switch (class) {
	case DSM_COLLECTION:
		stamp = dsm_group_stamp(layout, layout->collection, group);
		break;
	case DSM_INDEX:
	case DSM_PRIMARY:
		if (group == DSM_GROUP_PRIMARY)
			stamp = dsm_stamp(layout->primary, WRITE_LIFE_LONG);
		else
			stamp = dsm_group_stamp(layout, layout->index, group);
		break;
	case DSM_JOURNAL:
		stamp = dsm_stamp(layout->journal, WRITE_LIFE_SHORT);
		break;
	case DSM_OPLOG:
		stamp = dsm_stamp(layout->oplog, WRITE_LIFE_SHORT);
		break;
	default:
		stamp.stream = layout->other;
	}

	if (!layout->hints)
		stamp.hint = WRITE_LIFE_NOT_SET;
	return stamp;
}
