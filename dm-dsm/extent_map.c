// SPDX-License-Identifier: GPL-2.0-only
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "extent_map.h"
#include "memory.h"

void dsm_extent_map_free(struct dsm_extent_map *map)
{
	if (!map)
		return;
	kvfree(map->file);
	kvfree(map->extent);
	kvfree(map->start);
	kvfree(map->index);
	kfree(map);
}

static struct dsm_extent_map *dsm_extent_map_alloc(u32 nr_extents)
{
	struct dsm_extent_map *map = kzalloc_obj(*map, DSM_GFP);

	if (!map)
		return NULL;

	map->nr_extents = nr_extents;
	if (dsm_may_take((nr_extents + 1ULL) * (sizeof(*map->index) + sizeof(*map->start) +
						sizeof(*map->extent))))
		map->index = kvmalloc_objs(*map->index, nr_extents + 1, DSM_GFP);
	if (map->index)
		map->start = kvmalloc_objs(*map->start, nr_extents + 1, DSM_GFP);
	if (map->start)
		map->extent = kvmalloc_objs(*map->extent, nr_extents + 1, DSM_GFP);
	if (!map->extent) {
		dsm_extent_map_free(map);
		return NULL;
	}
	map->start[0] = 0;
	map->extent[0] = (struct dsm_extent) {};
	return map;
}

static int dsm_compare_starts(const void *a, const void *b)
{
	const struct dsm_upload_extent *x = *(void **)a, *y = *(void **)b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * Cuts the next piece off the front of @rest: on one side of the boundary, not longer
 * than an extent can be, and, since an extent knows its offset in pages, not from the
 * midst of a page into the next.
 */
static struct dsm_upload_extent dsm_cut_piece(struct dsm_upload_extent *rest,
					      enum dsm_side *side)
{
	struct dsm_upload_extent piece = *rest;
	u64 boundary = (u64)rest->file->boundary * DSM_PAGE_SECTORS;

	*side = DSM_BOTTOM;
	piece.sectors = min_t(u64, piece.sectors, DSM_EXTENT_MAX_SECTORS);
	if (piece.offset % DSM_PAGE_SECTORS)
		piece.sectors = min(piece.sectors,
				    DSM_PAGE_SECTORS - piece.offset % DSM_PAGE_SECTORS);
	if (rest->file->boundary != DSM_NO_BOUNDARY) {
		if (piece.offset >= boundary)
			*side = DSM_TOP;
		else
			piece.sectors = min(piece.sectors, boundary - piece.offset);
	}

	rest->start += piece.sectors;
	rest->offset += piece.sectors;
	rest->sectors -= piece.sectors;
	return piece;
}

/* Stops counting once there are too many. */
static u64 dsm_count_pieces(struct dsm_upload_extent **uploaded, size_t nr)
{
	u64 pieces = 0;

	for (size_t i = 0; i < nr; i++) {
		struct dsm_upload_extent rest = *uploaded[i];
		enum dsm_side side;

		for (; rest.sectors && pieces <= dsm_limits.extents; pieces++)
			dsm_cut_piece(&rest, &side);
		cond_resched();
	}
	return pieces;
}

static u32 dsm_count_kept(const struct dsm_extent_map *old)
{
	u32 kept = 0;

	for (u32 slot = 1; old && slot <= old->nr_extents; slot++) {
		kept += !dsm_extent_file(&old->extent[slot])->replaced;
		cond_resched();
	}
	return kept;
}

/* The map under construction: filled in ascending order of start. */
struct dsm_map_filler {
	struct dsm_extent_map *map;
	struct dsm_extent_conflict *conflict;
	u32 slot;			/* of the extent before */
	u64 end;			/* where it ends */
	u64 id;				/* whose it is */
};

static bool dsm_fill(struct dsm_map_filler *filler, u64 start,
		     const struct dsm_extent *extent)
{
	if (start < filler->end) {
		*filler->conflict = (struct dsm_extent_conflict) {
			.id = dsm_extent_file(extent)->id,
			.other_id = filler->id,
			.start = start,
			.sectors = extent->sectors,
		};
		return false;
	}

	filler->slot++;
	filler->map->start[filler->slot] = start;
	filler->map->extent[filler->slot] = *extent;
	filler->end = start + extent->sectors;
	filler->id = dsm_extent_file(extent)->id;
	return true;
}

static bool dsm_fill_uploaded(struct dsm_map_filler *filler,
			      struct dsm_upload_extent rest)
{
	while (rest.sectors) {
		enum dsm_side side;
		struct dsm_upload_extent piece = dsm_cut_piece(&rest, &side);
		struct dsm_extent extent = {
			.region = &piece.file->file->region[side],
			.page = piece.offset / DSM_PAGE_SECTORS,
			.sectors = piece.sectors,
			.side = side,
		};

		if (!dsm_fill(filler, piece.start, &extent))
			return false;
	}
	return true;
}

/* Merges what is kept of the old map, which is sorted, with the upload. */
static bool dsm_merge(struct dsm_map_filler *filler,
		      const struct dsm_extent_map *old,
		      struct dsm_upload_extent **uploaded, size_t nr)
{
	u32 slot = 1, last = old ? old->nr_extents : 0;

	for (size_t i = 0; slot <= last || i < nr; ) {
		if (slot <= last && dsm_extent_file(&old->extent[slot])->replaced) {
			slot++;
		} else if (slot <= last && (i == nr || old->start[slot] < uploaded[i]->start)) {
			if (!dsm_fill(filler, old->start[slot], &old->extent[slot]))
				return false;
			slot++;
		} else {
			if (!dsm_fill_uploaded(filler, *uploaded[i++]))
				return false;
		}
		cond_resched();
	}
	return true;
}

static void dsm_build_index(struct dsm_extent_map *map)
{
	u64 span = map->start[map->nr_extents] - map->start[1];
	u32 slot = 0, bucket = 0;

	map->first = map->start[1];
	while (span >> map->shift >= map->nr_extents)
		map->shift++;
	map->nr_buckets = (span >> map->shift) + 1;

	while (bucket <= map->nr_buckets) {
		if (slot < map->nr_extents &&
		    (map->start[slot + 1] - map->first) >> map->shift < bucket)
			slot++;
		else
			map->index[bucket++] = slot;
		cond_resched();
	}
}

struct dsm_extent_map *
dsm_extent_map_build(const struct dsm_extent_map *old,
		     struct dsm_upload_extent **uploaded, size_t nr,
		     struct dsm_file **files, u32 nr_files,
		     struct dsm_extent_conflict *conflict)
{
	struct dsm_map_filler filler = { .conflict = conflict };
	u64 nr_extents = dsm_count_kept(old) + dsm_count_pieces(uploaded, nr);

	if (nr_extents > dsm_limits.extents)
		return ERR_PTR(-E2BIG);

	filler.map = dsm_extent_map_alloc(nr_extents);
	if (!filler.map)
		return ERR_PTR(-ENOMEM);

	sort_nonatomic(uploaded, nr, sizeof(*uploaded), dsm_compare_starts, NULL);
	if (!dsm_merge(&filler, old, uploaded, nr)) {
		dsm_extent_map_free(filler.map);
		return ERR_PTR(-EEXIST);
	}
	if (nr_extents)
		dsm_build_index(filler.map);

	filler.map->file = files;
	filler.map->nr_files = nr_files;
	return filler.map;
}

u32 dsm_extent_map_file_after(const struct dsm_extent_map *map, u64 id)
{
	u32 low = 0, high = map->nr_files;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (map->file[middle]->id <= id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct dsm_file *dsm_extent_map_file(const struct dsm_extent_map *map, u64 id)
{
	u32 after = map ? dsm_extent_map_file_after(map, id) : 0;

	return after && map->file[after - 1]->id == id ? map->file[after - 1] : NULL;
}
