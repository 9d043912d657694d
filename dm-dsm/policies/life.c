// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The policy life: whole files of all types, grouped by how soon they are rewritten.
 *
 * How hot a file is says how much of what it holds is written in a window.  The
 * hotnesses, each with the weight of what was written, are cut into groups so that the
 * sum of the squares of their distances from the groups' means is the least
 * (one-dimensional k-means), by dynamic programming over DSM_LIFE_BINS steps.
 */
#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "policies.h"

/* With weights of no more bits no moment overflows, and no quotient of moments. */
#define DSM_LIFE_WEIGHT_BITS 48

/* Minimum pages written before a file has a hotness of its own, not the mean */
#define DSM_LIFE_KNOWN	(64 << DSM_WRITTEN_SHIFT)

/* Decay per window: 7/8 */
static u64 dsm_life_decay(u64 written)
{
	return written - written / 8;
}

static bool dsm_life_known(const struct dsm_file_window *file)
{
	return dsm_class_has_groups(DSM_POLICY_LIFE, file->class) &&
	       file->written >= DSM_LIFE_KNOWN;
}

/*
 * WiredTiger's own files join the files that are as hot.  They are few pages, rewritten at
 * each checkpoint, and would otherwise take a group for themselves.
 */
static bool dsm_life_decides(const struct dsm_file_window *file)
{
	return dsm_life_known(file) && file->class != DSM_OTHER;
}

static s32 dsm_life_hotness(const struct dsm_file_window *file)
{
	return dsm_lg(file->written) - dsm_lg(max(file->mapped, 1ULL)) -
	       (DSM_WRITTEN_SHIFT << DSM_HOTNESS_SHIFT);
}

/* Counts the window.  From @low to @high is the hotness of the files that decide. */
static void dsm_life_measure(struct dsm_file_window *files, size_t nr_files,
			     s32 *low, s32 *high)
{
	*low = S32_MAX;
	*high = S32_MIN;

	for (size_t i = 0; i < nr_files; i++) {
		struct dsm_file_window *file = &files[i];
		u64 pages = file->region[DSM_BOTTOM].pages + file->region[DSM_TOP].pages;
		s32 hotness;

		cond_resched();
		if (!dsm_class_has_groups(DSM_POLICY_LIFE, file->class))
			continue;

		file->written = dsm_life_decay(file->written) + (pages << DSM_WRITTEN_SHIFT);
		if (!dsm_life_known(file))
			continue;
		hotness = dsm_life_hotness(file);
		file->region[DSM_BOTTOM].hotness = hotness;
		file->region[DSM_TOP].hotness = hotness;
		if (!dsm_life_decides(file))
			continue;
		*low = min(*low, hotness);
		*high = max(*high, hotness);
	}
}

static unsigned int dsm_life_bin(const struct dsm_file_window *file, s32 low, s32 high)
{
	u64 above = (s64)clamp(file->region[DSM_BOTTOM].hotness, low, high) - low;

	return div64_u64(above * (DSM_LIFE_BINS - 1), max((s64)high - low, 1LL));
}

/* The weights, and their first and second moments, of the bins below each. */
static void dsm_life_sum(struct dsm_life *life, const struct dsm_file_window *files,
			 size_t nr_files, s32 low, s32 high)
{
	u64 total = 0;
	int shift;

	memset(life->below, 0, sizeof(life->below));

	for (size_t i = 0; i < nr_files; i++) {
		cond_resched();
		if (!dsm_life_decides(&files[i]))
			continue;
		life->below[dsm_life_bin(&files[i], low, high) + 1].weight += files[i].written;
		total += files[i].written;
	}
	shift = max(fls64(total) - DSM_LIFE_WEIGHT_BITS, 0);
	for (u64 bin = 0; bin < DSM_LIFE_BINS; bin++) {
		struct dsm_life_moments *sum = &life->below[bin + 1];
		u64 weight = sum->weight >> shift;

		sum->weight = life->below[bin].weight + weight;
		sum->first = life->below[bin].first + weight * bin;
		sum->second = life->below[bin].second + weight * bin * bin;
	}
}

/* The sum of the squares of the distances from the mean, of the bins @from to @to - 1. */
static u64 dsm_life_cost(const struct dsm_life *life, unsigned int from, unsigned int to)
{
	const struct dsm_life_moments *a = &life->below[from], *b = &life->below[to];
	u64 weight = b->weight - a->weight, first = b->first - a->first;

	if (!weight)
		return 0;
	return b->second - a->second - mul_u64_u64_div_u64(first, first, weight);
}

/*
 * With @group + 1 groups for the bins below each: what that costs at least, and where
 * the last of them begins.
 */
static void dsm_life_add_group(struct dsm_life *life, unsigned int group)
{
	u64 *cost = life->cost[group % 2];
	const u64 *before = life->cost[!(group % 2)];

	for (unsigned int to = 0; to <= DSM_LIFE_BINS; to++) {
		cost[to] = dsm_life_cost(life, 0, to);
		life->begin[group][to] = 0;
		for (unsigned int from = 1; group && from <= to; from++) {
			u64 sum = before[from] + dsm_life_cost(life, from, to);

			if (sum < cost[to]) {
				cost[to] = sum;
				life->begin[group][to] = from;
			}
		}
	}
	cond_resched();
}

/* Cuts the bins into @groups groups. */
static void dsm_life_cut(struct dsm_life *life, unsigned int groups)
{
	unsigned int to = DSM_LIFE_BINS;

	for (unsigned int group = 0; group < groups; group++)
		dsm_life_add_group(life, group);

	for (unsigned int group = groups; group-- > 0; to = life->begin[group][to])
		memset(life->group + life->begin[group][to], group + 1,
		       to - life->begin[group][to]);
}

void dsm_life_checkpoint(const struct dsm_policy_params *params,
			 struct dsm_file_window *files, size_t nr_files,
			 struct dsm_life *life)
{
	const struct dsm_life_moments *all = &life->below[DSM_LIFE_BINS];
	u8 unknown = dsm_life_initial(params), group;
	s32 low, high;

	dsm_life_measure(files, nr_files, &low, &high);
	if (low < high) {
		dsm_life_sum(life, files, nr_files, low, high);
		dsm_life_cut(life, params->groups);
		unknown = life->group[div64_u64(all->first, all->weight)];
	}

	for (size_t i = 0; i < nr_files; i++) {
		struct dsm_file_window *file = &files[i];

		cond_resched();
		if (!dsm_class_has_groups(DSM_POLICY_LIFE, file->class))
			continue;
		group = low < high && dsm_life_known(file) ?
			life->group[dsm_life_bin(file, low, high)] : unknown;
		for (int side = 0; side < DSM_NR_SIDES; side++) {
			file->region[side].group = group;
			file->region[side].next = group;
		}
	}
}
