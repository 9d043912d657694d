// SPDX-License-Identifier: GPL-2.0-only
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/slab.h>

#include "memory.h"
#include "regions.h"

#define DSM_COUNTER_TRIES 1000	/* of a millisecond or two */

/*
 * An allocation of per-CPU memory that may block takes a mutex under which others
 * allocate with GFP_KERNEL.  One that may not takes what is there; a worker of the
 * allocator sees to it that there is more soon.
 */
static u64 __percpu *dsm_counters_alloc(void)
{
	u64 __percpu *sectors;

	for (int tries = 0; tries < DSM_COUNTER_TRIES; tries++) {
		sectors = __alloc_percpu_gfp(DSM_NR_SIDES * sizeof(*sectors),
					     sizeof(*sectors), GFP_NOWAIT | __GFP_NOWARN);
		if (sectors)
			return sectors;
		usleep_range(1000, 2000);
	}
	return NULL;
}

struct dsm_file *dsm_file_alloc(u64 id)
{
	struct dsm_file *file = kzalloc_obj(*file, DSM_GFP);
	u64 __percpu *sectors;

	if (!file)
		return NULL;

	sectors = dsm_counters_alloc();
	if (!sectors) {
		kfree(file);
		return NULL;
	}

	file->id = id;
	file->class = DSM_NR_CLASSES;
	file->boundary = DSM_NO_BOUNDARY;
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		file->region[side].sectors = sectors + side;
		file->region[side].low = U32_MAX;
	}
	return file;
}

void dsm_file_free(struct dsm_file *file)
{
	if (!file)
		return;
	free_percpu(file->region[0].sectors);
	kfree(file);
}

struct dsm_file *dsm_file_succeed(const struct dsm_file *file)
{
	struct dsm_file *heir = kzalloc_obj(*heir, DSM_GFP);

	if (!heir)
		return NULL;
	*heir = *file;
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		heir->region[side].low = U32_MAX;
		heir->region[side].high = 0;
	}
	return heir;
}

void dsm_file_retire(struct dsm_file *file, struct dsm_file *heir)
{
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		dsm_region_widen(&heir->region[side], file->region[side].low,
				 file->region[side].high);
		file->region[side].sectors = NULL;
	}
}

u64 dsm_region_sectors(const struct dsm_region *region)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(region->sectors, cpu));
	return sum;
}

void dsm_file_take_range(struct dsm_file *file, struct dsm_file_sums *sums)
{
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		sums->low[side] = xchg(&file->region[side].low, U32_MAX);
		sums->high[side] = xchg(&file->region[side].high, 0);
	}
}

/* The counters are never set back: a write that comes meanwhile counts later. */
void dsm_file_read_window(struct dsm_file *file, bool range_written,
			  struct dsm_file_sums *sums,
			  struct dsm_file_window *window)
{
	window->class = file->class;
	window->mapped = (u64)file->region[DSM_BOTTOM].mapped + file->region[DSM_TOP].mapped;
	window->written = file->written;

	for (int side = 0; side < DSM_NR_SIDES; side++) {
		struct dsm_region *region = &file->region[side];
		u32 low, high, range;

		sums->sectors[side] = dsm_region_sectors(region);
		smp_rmb();	/* pairs with the order of dsm_region_count() */
		low = min(sums->low[side], READ_ONCE(region->low));
		high = max(sums->high[side], READ_ONCE(region->high));
		range = range_written ? high - min(low, high) : region->mapped;

		window->region[side] = (struct dsm_region_window) {
			.pages = DIV_ROUND_UP_ULL(sums->sectors[side] - region->base,
						  DSM_PAGE_SECTORS),
			.range = (u64)range * DSM_PAGE_SIZE,
			.group = region->group,
			.next = region->next,
		};
	}
}

void dsm_file_next_window(struct dsm_file *file, const struct dsm_file_sums *sums,
			  const struct dsm_file_window *window)
{
	file->written = window->written;
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		const struct dsm_region_window *seen = &window->region[side];
		struct dsm_region *region = &file->region[side];

		region->base = sums->sectors[side];
		region->pages = min_t(u64, seen->pages, U32_MAX);
		region->range = seen->pages ? seen->range / DSM_PAGE_SIZE : 0;
		region->group = seen->group;
		region->next = seen->next;
	}
}

void dsm_file_restart_window(struct dsm_file *file)
{
	for (int side = 0; side < DSM_NR_SIDES; side++)
		file->region[side].base = dsm_region_sectors(&file->region[side]);
}

static union dsm_stamp dsm_file_stamp(const struct dsm_file *file,
				      const struct dsm_layout *layout, u8 group)
{
	union dsm_stamp stamp = dsm_layout_stamp(layout, file->class, group);

	if (file->stated.stream && file->stated.stream <= layout->greatest)
		stamp.stream = file->stated.stream;
	if (file->stated.hint && layout->hints)
		stamp.hint = file->stated.hint;
	return stamp;
}

unsigned int dsm_file_restamp(struct dsm_file *file,
			      const struct dsm_layout *layout)
{
	unsigned int moved = 0;

	for (int side = 0; side < DSM_NR_SIDES; side++) {
		struct dsm_region *region = &file->region[side];
		union dsm_stamp stamp = dsm_file_stamp(file, layout, region->next);

		if (side < dsm_file_regions(file))
			moved += stamp.stream != region->stamp.stream;
		WRITE_ONCE(region->stamp.both, stamp.both);
	}
	return moved;
}

void dsm_file_initial(struct dsm_file *file,
		      const struct dsm_policy_params *params)
{
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		file->region[side].group = DSM_GROUP_NONE;
		file->region[side].next = dsm_policy_initial(params, file->class, side);
	}
}
