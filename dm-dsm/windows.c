// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens at a checkpoint.
 */
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "dsm.h"
#include "memory.h"
#include "trace.h"

static void dsm_read_windows(struct dsm *d, struct dsm_extent_map *map,
			     struct dsm_file_sums *sums, struct dsm_file_window *windows)
{
	for (u32 i = 0; i < map->nr_files; i++) {
		dsm_file_take_range(map->file[i], &sums[i]);
		cond_resched();
	}
	synchronize_rcu();	/* see dsm_file_take_range() */
	for (u32 i = 0; i < map->nr_files; i++) {
		dsm_file_read_window(map->file[i], d->keep_range, &sums[i], &windows[i]);
		cond_resched();
	}
}

static void dsm_next_windows(struct dsm *d, struct dsm_extent_map *map,
			     const struct dsm_file_sums *sums,
			     const struct dsm_file_window *windows,
			     struct dsm_checkpoint *done)
{
	for (u32 i = 0; i < map->nr_files; i++) {
		dsm_file_next_window(map->file[i], &sums[i], &windows[i]);
		done->moved += dsm_file_restamp(map->file[i], &d->layout);
		for (int side = 0; side < DSM_NR_SIDES; side++)
			done->written += windows[i].region[side].pages != 0;
		cond_resched();
	}
}

int dsm_checkpoint(struct dsm *d, struct dsm_checkpoint *done)
{
	struct dsm_extent_map *map;
	struct dsm_policy_params params;
	struct dsm_file_window *windows;
	struct dsm_file_sums *sums;
	struct dsm_life *life;
	ktime_t now;
	u32 nr;

	lockdep_assert_held(&d->lock);

	map = dsm_locked_map(d);
	nr = map ? map->nr_files : 0;
	if (!dsm_may_take(nr * (u64)(sizeof(*windows) + sizeof(*sums))))
		return -ENOMEM;
	windows = kvmalloc_objs(*windows, nr, DSM_GFP);
	sums = kvmalloc_objs(*sums, nr, DSM_GFP);
	life = kmalloc_obj(*life, DSM_GFP);
	if (nr && (!windows || !sums || !life)) {
		kvfree(windows);
		kvfree(sums);
		kfree(life);
		return -ENOMEM;
	}

	/* From here on nothing can fail. */
	dsm_relayout(d, false);
	now = ktime_get();
	*done = (struct dsm_checkpoint) {
		.window = ++d->windows,
		.ms = ktime_ms_delta(now, d->window_start),
	};
	if (nr) {
		params = dsm_policy_params(d);
		dsm_read_windows(d, map, sums, windows);
		dsm_policy_checkpoint(&params, windows, nr, done->ms, life);
		dsm_next_windows(d, map, sums, windows, done);
		dsm_stamp_unmapped(d, map);
	}
	d->window_ms = done->ms;
	d->window_start = now;
	trace_dsm_checkpoint(d, done);

	kvfree(windows);
	kvfree(sums);
	kfree(life);
	return 0;
}
