// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The DSM algorithm (Figs. 4, 9 and A.1-A.5, Eqs. 1-5 of the paper).
 *
 * Where the paper contradicts itself,
 * Documentation/dsm.rst says what is done.
 */
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched.h>

#include "policies.h"

const char * const dsm_policy_names[DSM_NR_POLICIES + 1] = {
	[DSM_POLICY_NONE] = "none",
	[DSM_POLICY_FILE] = "file",
	[DSM_POLICY_BOUNDARY] = "boundary",
	[DSM_POLICY_DSM] = "dsm",
	[DSM_POLICY_LIFE] = "life",
};

/* Shares of a type's writes (globalpct) are in millionths of a percent. */
#define DSM_SHARE_ONE		100000000ULL
#define DSM_SHARE_THRESHOLD	10000	/* the unit of the thresholds, 0.01 % */

/* Fig. 9 groups collections and indexes separately. */
enum dsm_type { DSM_TYPE_COLLECTION, DSM_TYPE_INDEX, DSM_NR_TYPES };

static enum dsm_type dsm_type(const struct dsm_file_window *file)
{
	return file->class == DSM_COLLECTION ? DSM_TYPE_COLLECTION : DSM_TYPE_INDEX;
}

/* What all files of a type have in common in a window. */
struct dsm_type_window {
	u64 pages[DSM_NR_SIDES];
	s32 min, max;			/* hotness of the regions written */
	s32 pivot[DSM_MAX_GROUPS - 1];
};

s32 dsm_hotness(u64 pages, u64 range, u64 ms)
{
	range = max_t(u64, range, DSM_PAGE_SIZE);
	ms = max_t(u64, ms, 1);

	return dsm_lg(pages) + dsm_lg(DSM_PAGE_SIZE) - dsm_lg(range) +
	       dsm_lg(1000) - dsm_lg(ms);
}

/* Fig. A.1, phase 1, and Fig. A.2 */
static void dsm_measure(struct dsm_type_window *types,
			struct dsm_file_window *files, size_t nr_files, u64 ms)
{
	for (size_t i = 0; i < nr_files; i++) {
		struct dsm_file_window *file = &files[i];
		struct dsm_type_window *type = &types[dsm_type(file)];

		cond_resched();
		if (!dsm_class_has_groups(DSM_POLICY_DSM, file->class))
			continue;

		for (int side = 0; side < DSM_NR_SIDES; side++) {
			struct dsm_region_window *region = &file->region[side];

			if (!region->pages)
				continue;
			region->hotness = dsm_hotness(region->pages, region->range, ms);
			type->pages[side] += region->pages;
			type->min = min(type->min, region->hotness);
			type->max = max(type->max, region->hotness);
		}
	}
}

/* Fig. A.3, Eq. 3; with K = 2 the two formulas disagree, and the middle holds. */
static void dsm_pivots(const struct dsm_policy_params *params,
		       struct dsm_type_window *type)
{
	unsigned int last = params->groups - 2;
	s64 span = (s64)type->max - type->min;
	s64 low, high;

	if (type->min > type->max)
		return;		/* nothing was written */

	if (!last) {
		type->pivot[0] = type->min + div_s64(span, 2);
		return;
	}

	low = type->min + div_s64(span, params->alpha);
	high = type->min + div_s64(span * (params->alpha - 1), params->alpha);
	for (unsigned int i = 0; i <= last; i++)
		type->pivot[i] = low + div_s64((high - low) * i, last);
}

/* Fig. A.4, Eq. 4: the tests are made in the order of the figure. */
static u8 dsm_group(const struct dsm_policy_params *params,
		    const struct dsm_type_window *type,
		    const struct dsm_region_window *region)
{
	unsigned int last = params->groups - 2;
	unsigned int i;

	if (!region->pages || region->hotness <= type->pivot[0])
		return 1;
	if (region->hotness >= type->pivot[last])
		return params->groups;

	for (i = 1; region->hotness > type->pivot[i]; i++)
		;
	return i + 1;
}

/* globalpct of Fig. A.1, phase 2; rounded down */
static u64 dsm_share(const struct dsm_type_window *type,
		     const struct dsm_file_window *file, enum dsm_side side)
{
	u64 pages = file->region[side].pages, all = type->pages[side];

	if (!pages)
		return 0;
	return pages < all ? mul_u64_u64_div_u64(pages, DSM_SHARE_ONE, all) : DSM_SHARE_ONE;
}

/* Fig. 9, line 16 */
static bool dsm_is_primary(const struct dsm_policy_params *params,
			   const struct dsm_type_window *type,
			   const struct dsm_file_window *file)
{
	u64 threshold1 = (u64)params->threshold1 * DSM_SHARE_THRESHOLD;
	u64 threshold2 = (u64)params->threshold2 * DSM_SHARE_THRESHOLD;
	u64 share1, share2;

	if (file->class == DSM_PRIMARY)
		return true;
	if (file->class != DSM_INDEX || !params->primary_filter)
		return false;

	share1 = dsm_share(type, file, DSM_BOTTOM);
	share2 = dsm_share(type, file, DSM_TOP);

	return share1 + share2 <= threshold1 ||
	       share1 <= threshold2 || share2 <= threshold2;
}

/*
 * Fig. A.5: @predicted is what a prediction is held against, region by region;
 * @current_group is what the window has shown.  (Eq. 5 as printed holds the prediction
 * of region 2, too, against the group of region 1.)
 *
 * The figure is about two regions that take turns.  A region that was not written,
 * or is not there, has no turn, and always group 1: a file that took it would never be
 * predicted rightly, and stay with the coldest for ever.
 */
static void dsm_predict(struct dsm_file_window *file, enum dsm_prediction prediction,
			const u8 *predicted, const u8 *current_group)
{
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		int other = !side;
		bool turns = file->region[other].pages || prediction == DSM_PREDICT_LITERAL;

		file->region[side].next = turns && predicted[side] != current_group[side] ?
					  current_group[other] : current_group[side];
	}
}

/* Fig. 9, lines 11 to 21, for one file */
static void dsm_assign(const struct dsm_policy_params *params,
		       const struct dsm_type_window *type,
		       struct dsm_file_window *file)
{
	bool primary = dsm_is_primary(params, type, file);
	u8 predicted[DSM_NR_SIDES], current_group[DSM_NR_SIDES];

	for (int side = 0; side < DSM_NR_SIDES; side++) {
		struct dsm_region_window *region = &file->region[side];

		current_group[side] = primary ? DSM_GROUP_PRIMARY :
						dsm_group(params, type, region);
		predicted[side] = region->next;
		if (params->prediction == DSM_PREDICT_OFF)
			predicted[side] = current_group[side];
		if (params->prediction == DSM_PREDICT_COMPUTED &&
		    region->group != DSM_GROUP_NONE)
			predicted[side] = region->group;
		region->group = current_group[side];
	}

	dsm_predict(file, params->prediction, predicted, current_group);
}

u8 dsm_policy_initial(const struct dsm_policy_params *params,
		      enum dsm_class class, enum dsm_side side)
{
	if (!dsm_class_has_groups(params->policy, class))
		return DSM_GROUP_NONE;
	if (params->policy == DSM_POLICY_LIFE)
		return dsm_life_initial(params);
	if (params->policy == DSM_POLICY_DSM && class == DSM_PRIMARY)
		return DSM_GROUP_PRIMARY;
	if (params->groups < 2 || params->policy < DSM_POLICY_BOUNDARY)
		return 1;
	return side == DSM_BOTTOM ? 1 : 2;
}

void dsm_policy_checkpoint(const struct dsm_policy_params *params,
			   struct dsm_file_window *files, size_t nr_files,
			   u64 ms, struct dsm_life *life)
{
	struct dsm_type_window types[DSM_NR_TYPES] = {
		{ .min = S32_MAX, .max = S32_MIN },
		{ .min = S32_MAX, .max = S32_MIN },
	};

	if (params->policy == DSM_POLICY_LIFE) {
		dsm_life_checkpoint(params, files, nr_files, life);
		return;
	}
	dsm_measure(types, files, nr_files, ms);

	if (params->policy != DSM_POLICY_DSM || params->groups < DSM_MIN_GROUPS)
		return;		/* the streams of the other policies are fixed */

	for (int i = 0; i < DSM_NR_TYPES; i++)
		dsm_pivots(params, &types[i]);

	for (size_t i = 0; i < nr_files; i++) {
		cond_resched();
		if (dsm_class_has_groups(params->policy, files[i].class))
			dsm_assign(params, &types[dsm_type(&files[i])], &files[i]);
	}
}
