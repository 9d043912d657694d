/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The extent map: sector of the target -> file, side and file offset.
 *
 * A map is immutable.  Readers find it under RCU; a commit builds a new one from
 * the old one and an upload, and publishes it whole.
 */
#ifndef DSM_EXTENT_MAP_H
#define DSM_EXTENT_MAP_H

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/container_of.h>
#include <linux/list.h>
#include <linux/types.h>

#include "regions.h"

/* What lies in one piece on the target and on one side of a file's boundary. */
struct dsm_extent {
	struct dsm_region *region;
	u32 page;		/* file offset, in pages */
	u32 sectors : 31;	/* length */
	u32 side : 1;		/* which of its file's regions that is */
};

#define DSM_EXTENT_MAX_SECTORS	BIT(30)	/* a multiple of any block */

/*
 * The extents are sorted, and their starts kept apart.  The index divides what they span
 * into buckets of equal length, at most one for each extent, and says how many extents
 * start before each; the rest of a search halves what starts in one bucket.  Slot 0 has
 * an extent of no sectors, for what lies before all others.
 */
struct dsm_extent_map {
	u64 first;			/* where the first bucket starts */
	u32 shift;			/* a bucket has 1 << shift sectors */
	u32 nr_buckets;
	u32 nr_extents;
	u32 nr_files;
	u32 *index;			/* [0 .. nr_buckets] */
	u64 *start;			/* [0 .. nr_extents] */
	struct dsm_extent *extent;	/* [0 .. nr_extents] */
	struct dsm_file **file;		/* [0 .. nr_files - 1], by id */
	union dsm_stamp unmapped[DSM_NR_HINTS];	/* by hint; no extent covers the write */
};

static inline struct dsm_file *dsm_extent_file(const struct dsm_extent *extent)
{
	return container_of(extent->region - extent->side, struct dsm_file, region[0]);
}

/* What lies at a sector; @region is NULL in a gap. */
struct dsm_hit {
	struct dsm_region *region;
	s64 left;		/* sectors to the end of the extent, or of the gap */
	u64 offset;		/* in the file, in sectors */
};

/*
 * The slot of the last extent that starts at or before @sector, or 0.  Every write takes
 * this; the search within a bucket has no branch to mispredict but its end.
 */
static inline unsigned long dsm_extent_map_slot(const struct dsm_extent_map *map, u64 sector)
{
	u64 bucket = (sector - map->first) >> map->shift % BITS_PER_LONG;
	unsigned long slot = 0, more = map->nr_extents;
	const u64 *start = map->start;

	if (likely(bucket < map->nr_buckets)) {
		slot = map->index[bucket];
		more = map->index[bucket + 1] - slot;
	}
	for (; more; more /= 2) {
		unsigned long half = more - more / 2;

		slot += start[slot + half] <= sector ? half : 0;
	}
	return slot;
}

/*
 * The extent in a slot that starts at or before @sector.  If it ends before that, @left is
 * not positive.  To be called where the map cannot go away: in an RCU read-side section or
 * under the target's mutex.
 */
static inline struct dsm_hit
dsm_extent_map_at(const struct dsm_extent_map *map, unsigned long slot, u64 sector)
{
	const struct dsm_extent *extent = &map->extent[slot];
	u64 into = sector - map->start[slot];

	return (struct dsm_hit) {
		.region = extent->region,
		.left = (s64)extent->sectors - (s64)into,
		.offset = (u64)extent->page * DSM_PAGE_SECTORS + into,
	};
}

/* What lies at @sector; to be called as dsm_extent_map_at(). */
static inline struct dsm_hit
dsm_extent_map_find(const struct dsm_extent_map *map, u64 sector)
{
	unsigned long slot = dsm_extent_map_slot(map, sector);
	struct dsm_hit hit = dsm_extent_map_at(map, slot, sector);

	if (hit.left <= 0) {
		hit.region = NULL;
		hit.left = slot < map->nr_extents ? map->start[slot + 1] - sector : S64_MAX;
	}
	return hit;
}

static inline union dsm_stamp
dsm_unmapped_stamp(const struct dsm_extent_map *map, unsigned int hint)
{
	return (union dsm_stamp) { .both = READ_ONCE(map->unmapped[hint].both) };
}

/* A file as it is uploaded: what it will be once the upload is committed. */
struct dsm_upload_file {
	struct list_head list;
	u64 id;
	struct dsm_file *file;	/* the one in the table, or a new one */
	struct dsm_file *was;	/* which that succeeds */
	u64 mapped[DSM_NR_SIDES];	/* sectors */
	u32 boundary;
	union dsm_stamp stated;
	u8 class;
	bool drop;
	bool is_new;
};

/* An extent as it is uploaded; in sectors. */
struct dsm_upload_extent {
	u64 start;
	u64 offset;		/* in the file */
	u64 sectors;
	struct dsm_upload_file *file;
};

/* A place where an extent overlaps with one of another file, or of its own. */
struct dsm_extent_conflict {
	u64 id, other_id;
	u64 start, sectors;
};

/*
 * Builds a map of @files (sorted by id; the map owns the array, not the files).
 * Its extents are the @nr that @uploaded points to, which is sorted in place, and
 * those of @old whose file is not marked as replaced.  @old may be NULL.
 *
 * Returns the map, ERR_PTR(-ENOMEM), ERR_PTR(-E2BIG) for more extents than a map can
 * have, or ERR_PTR(-EEXIST) for an overlap, which @conflict then describes.  On an
 * error the caller still owns @files.
 */
struct dsm_extent_map *
dsm_extent_map_build(const struct dsm_extent_map *old,
		     struct dsm_upload_extent **uploaded, size_t nr,
		     struct dsm_file **files, u32 nr_files,
		     struct dsm_extent_conflict *conflict);

/* Frees the map and its arrays, not the files. */
void dsm_extent_map_free(struct dsm_extent_map *map);

/* The file with @id, or NULL.  @map may be NULL. */
struct dsm_file *dsm_extent_map_file(const struct dsm_extent_map *map, u64 id);

/* The index of the first file whose id is greater than @id. */
u32 dsm_extent_map_file_after(const struct dsm_extent_map *map, u64 id);

#endif
