// SPDX-License-Identifier: GPL-2.0-only
/*
 * When the stream layout changes, and what writes get then.
 */
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/rw_hint.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "dsm.h"

struct dsm_policy_params dsm_policy_params(const struct dsm *d)
{
	const struct dsm_params *params = &d->params;
	unsigned int groups = d->layout.groups;

	return (struct dsm_policy_params) {
		.policy = d->layout.used ? d->layout.policy : params->policy,
		.prediction = params->prediction,
		.groups = groups,
		.alpha = params->alpha == DSM_AUTO ? max(groups, DSM_MIN_ALPHA) :
						     params->alpha,
		.threshold1 = params->threshold1,
		.threshold2 = params->threshold2,
		.primary_filter = params->primary_filter,
	};
}

static void dsm_restart_regions(struct dsm *d)
{
	struct dsm_extent_map *map = dsm_locked_map(d);
	struct dsm_policy_params params = dsm_policy_params(d);

	for (u32 i = 0; map && i < map->nr_files; i++) {
		dsm_file_initial(map->file[i], &params);
		dsm_file_restamp(map->file[i], &d->layout);
		cond_resched();
	}
}

/*
 * With "foreign class" dsmd has given each file the hint that it states, or that
 * names its class.
 */
static const enum dsm_class dsm_class_of_hint[DSM_NR_HINTS] = {
	[WRITE_LIFE_NOT_SET] = DSM_UNMAPPED,
	[WRITE_LIFE_NONE] = DSM_UNMAPPED,
	[WRITE_LIFE_SHORT] = DSM_JOURNAL,
	[WRITE_LIFE_MEDIUM] = DSM_INDEX,
	[WRITE_LIFE_LONG] = DSM_COLLECTION,
	[WRITE_LIFE_EXTREME] = DSM_OPLOG,
};

void dsm_stamp_unmapped(struct dsm *d, struct dsm_extent_map *map)
{
	bool named = d->params.foreign == DSM_FOREIGN_CLASS;
	union dsm_stamp stamp[DSM_NR_HINTS];

	for (int i = 0; i < DSM_NR_HINTS; i++)
		stamp[i] = dsm_layout_stamp(&d->layout,
					    named ? dsm_class_of_hint[i] : DSM_UNMAPPED, 1);
	if (!map)
		return;
	for (u32 i = 0; named && i < map->nr_files; i++) {
		if (map->file[i]->stated.hint)
			stamp[map->file[i]->stated.hint] = map->file[i]->region[DSM_BOTTOM].stamp;
		cond_resched();
	}

	for (int i = 0; i < DSM_NR_HINTS; i++)
		WRITE_ONCE(map->unmapped[i].both, stamp[i].both);
}

/* The bits that stay of the stamp that a write came with. */
static const union dsm_stamp dsm_kept_of[] = {
	[DSM_FOREIGN_KEEP] = { .stream = U8_MAX, .hint = U8_MAX },
	[DSM_FOREIGN_OVERRIDE] = {},
	[DSM_FOREIGN_CLASS] = { .stream = U8_MAX },
};

static union dsm_stamp dsm_kept(const struct dsm_params *params)
{
	/* A policy that stamps nothing replaces nothing. */
	if (params->policy == DSM_POLICY_NONE && params->foreign == DSM_FOREIGN_OVERRIDE)
		return dsm_kept_of[DSM_FOREIGN_KEEP];
	return dsm_kept_of[params->foreign];
}

/*
 * Writes widen the range of their region only where the policy reads it.  When it begins to,
 * the counts of the window begin again, so that the range covers what is counted.
 */
static void dsm_set_keep_range(struct dsm *d)
{
	struct dsm_extent_map *map = dsm_locked_map(d);
	u32 nr = map ? map->nr_files : 0;
	bool keep = d->params.range == DSM_RANGE_WRITTEN &&
		    dsm_policy_params(d).policy == DSM_POLICY_DSM;
	bool begins = keep && !d->keep_range;

	for (u32 i = 0; begins && i < nr; i++) {
		struct dsm_file_sums before;

		dsm_file_take_range(map->file[i], &before);
		cond_resched();
	}
	WRITE_ONCE(d->keep_range, keep);
	if (!begins || !nr)
		return;

	synchronize_rcu();	/* what is counted later widens the range */
	for (u32 i = 0; i < nr; i++) {
		dsm_file_restart_window(map->file[i]);
		cond_resched();
	}
}

void dsm_relayout(struct dsm *d, bool force)
{
	const struct dsm_params *params = &d->params;
	unsigned int base = params->stream_base;
	struct dsm_layout layout = {};
	unsigned int before = d->device_streams, device, last;

	lockdep_assert_held(&d->lock);

	device = dsm_device_streams(d->bdev, d->stacked, d->leaves, &d->source);
	last = params->streams == DSM_AUTO ? device :
					     min(device, base + params->streams - 1);
	dsm_layout_init(&layout, params->policy, params->groups, base, last,
			params->hints && DSM_HAVE_WRITE_HINT);
	if (params->policy != DSM_POLICY_NONE)
		layout.greatest = device;

	WRITE_ONCE(d->device_streams, device);
	d->most_streams = max(d->most_streams, device);
	WRITE_ONCE(d->kept.both, dsm_kept(params).both);
	if (force || memcmp(&layout, &d->layout, sizeof(layout))) {
		d->layout = layout;
		dsm_restart_regions(d);
	}
	dsm_set_keep_range(d);
	dsm_stamp_unmapped(d, dsm_locked_map(d));

	/* Writes being mapped may have read the old value. */
	if (device < before)
		synchronize_rcu();
}

void dsm_set_direct(struct dsm *d)
{
	bool careful = rcu_access_pointer(d->discard);

	spin_lock(&d->direct_lock);
	careful |= d->unsettled;
	rcu_assign_pointer(d->direct, careful ? NULL : dsm_locked_map(d));
	spin_unlock(&d->direct_lock);
}

void dsm_relayout_later(struct dsm *d)
{
	spin_lock(&d->direct_lock);
	WRITE_ONCE(d->unsettled, d->unsettled + 1);
	rcu_assign_pointer(d->direct, NULL);
	spin_unlock(&d->direct_lock);
	schedule_work(&d->relayout);
}

void dsm_relayout_work(struct work_struct *work)
{
	struct dsm *d = container_of(work, struct dsm, relayout);
	unsigned int unsettled = READ_ONCE(d->unsettled);

	mutex_lock(&d->lock);
	dsm_relayout(d, false);

	/* A resume in the meantime has queued another work. */
	spin_lock(&d->direct_lock);
	if (d->unsettled == unsettled)
		WRITE_ONCE(d->unsettled, 0);
	spin_unlock(&d->direct_lock);
	dsm_set_direct(d);
	mutex_unlock(&d->lock);
}

void dsm_relayout_fewer(struct dsm_watch *watch, unsigned int streams)
{
	struct dsm *d = container_of(watch, struct dsm, watch);

	mutex_lock(&d->lock);
	if (streams < d->device_streams)
		dsm_relayout(d, false);
	mutex_unlock(&d->lock);
}
