// SPDX-License-Identifier: GPL-2.0-only
/*
 * The control edge: what happens at a checkpoint, and when the streams are laid
 * out anew.
 */
#include <linux/minmax.h>
#include <linux/rw_hint.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "dsm.h"
#include "fallback.h"
#include "trace.h"

/* A file's window while the checkpoint is under way. */
struct dsm_sums {
	u64 sectors[DSM_NR_SIDES];
};

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

static void dsm_read_windows(struct dsm *d, struct dsm_extent_map *map,
			     struct dsm_sums *sums, struct dsm_file_window *windows)
{
	for (u32 i = 0; i < map->nr_files; i++)
		dsm_file_read_window(map->file[i],
				     d->params.range == DSM_RANGE_WRITTEN,
				     sums[i].sectors, &windows[i]);
}

static void dsm_next_windows(struct dsm *d, struct dsm_extent_map *map,
			     const struct dsm_sums *sums,
			     const struct dsm_file_window *windows,
			     struct dsm_checkpoint *done)
{
	for (u32 i = 0; i < map->nr_files; i++) {
		dsm_file_next_window(map->file[i], sums[i].sectors, &windows[i]);
		done->moved += dsm_file_restamp(map->file[i], &d->layout);
		for (int side = 0; side < DSM_NR_SIDES; side++)
			done->written += windows[i].region[side].pages != 0;
	}
}

int dsm_checkpoint(struct dsm *d, struct dsm_checkpoint *done)
{
	struct dsm_extent_map *map;
	struct dsm_policy_params params;
	struct dsm_file_window *windows;
	struct dsm_sums *sums;
	ktime_t now;
	u32 nr;

	lockdep_assert_held(&d->lock);

	dsm_relayout(d, false);
	map = dsm_locked_map(d);
	nr = map ? map->nr_files : 0;
	windows = kvmalloc_array(nr, sizeof(*windows), GFP_KERNEL);
	sums = kvmalloc_array(nr, sizeof(*sums), GFP_KERNEL);
	if (nr && (!windows || !sums)) {
		kvfree(windows);
		kvfree(sums);
		return -ENOMEM;
	}

	now = ktime_get();
	*done = (struct dsm_checkpoint) {
		.window = ++d->windows,
		.ms = ktime_ms_delta(now, d->window_start),
	};
	if (nr) {
		params = dsm_policy_params(d);
		dsm_read_windows(d, map, sums, windows);
		dsm_policy_checkpoint(&params, windows, nr, done->ms);
		dsm_next_windows(d, map, sums, windows, done);
	}
	d->window_ms = done->ms;
	d->window_start = now;
	trace_dsm_checkpoint(d, done);

	kvfree(windows);
	kvfree(sums);
	return 0;
}

static void dsm_restart_regions(struct dsm *d)
{
	struct dsm_extent_map *map = dsm_locked_map(d);
	struct dsm_policy_params params = dsm_policy_params(d);

	for (u32 i = 0; map && i < map->nr_files; i++) {
		dsm_file_initial(map->file[i], &params);
		dsm_file_restamp(map->file[i], &d->layout);
	}
}

/*
 * With "foreign class" dsmd has given each file the hint that it states, or that
 * names its class.
 */
static const enum dsm_class dsm_class_of_hint[DSM_NR_HINTS] = {
	[WRITE_LIFE_NOT_SET] = DSM_OTHER,
	[WRITE_LIFE_NONE] = DSM_OTHER,
	[WRITE_LIFE_SHORT] = DSM_JOURNAL,
	[WRITE_LIFE_MEDIUM] = DSM_INDEX,
	[WRITE_LIFE_LONG] = DSM_COLLECTION,
	[WRITE_LIFE_EXTREME] = DSM_OPLOG,
};

void dsm_stamp_unmapped(struct dsm *d)
{
	bool named = d->params.foreign == DSM_FOREIGN_CLASS;
	const struct dsm_extent_map *map = dsm_locked_map(d);
	union dsm_stamp stamp[DSM_NR_HINTS];

	for (int i = 0; i < DSM_NR_HINTS; i++)
		stamp[i] = dsm_layout_stamp(&d->layout,
					    named ? dsm_class_of_hint[i] : DSM_OTHER, 1);
	for (u32 i = 0; named && map && i < map->nr_files; i++)
		if (map->file[i]->stated.hint)
			stamp[map->file[i]->stated.hint] = map->file[i]->region[DSM_BOTTOM].stamp;

	for (int i = 0; i < DSM_NR_HINTS; i++)
		WRITE_ONCE(d->unmapped[i].both, stamp[i].both);
}

/* The bits that stay of the stamp that a write came with. */
static const union dsm_stamp dsm_kept_of[] = {
	[DSM_FOREIGN_KEEP] = { .stream = U8_MAX, .hint = U8_MAX },
	[DSM_FOREIGN_OVERRIDE] = {},
	[DSM_FOREIGN_CLASS] = { .stream = U8_MAX },
};

void dsm_relayout(struct dsm *d, bool force)
{
	const struct dsm_params *params = &d->params;
	unsigned int base = params->stream_base;
	int count = params->streams == DSM_AUTO ? -1 : params->streams;
	struct dsm_layout layout = {};
	unsigned int device, last;

	lockdep_assert_held(&d->lock);

	device = dsm_device_streams(d->dev->bdev, base, count, &d->source);
	if (dsm_fallback_refused(d)) {
		device = 0;
		d->source = DSM_STREAMS_REFUSED;
	}
	last = count < 0 ? device : min(device, base + count - 1);
	dsm_layout_init(&layout, params->policy, params->groups, base, last,
			params->hints);
	if (params->policy != DSM_POLICY_NONE)
		layout.greatest = device;

	/* In this order a stamp never exceeds what the device takes. */
	WRITE_ONCE(d->device_streams, device);
	WRITE_ONCE(d->kept.both, dsm_kept_of[params->foreign].both);
	if (force || memcmp(&layout, &d->layout, sizeof(layout))) {
		d->layout = layout;
		dsm_restart_regions(d);
	}
	dsm_stamp_unmapped(d);
}
