// SPDX-License-Identifier: GPL-2.0-only
/*
 * Commit: what an upload has gathered takes effect as a whole.
 */
#include <linux/err.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "dsm.h"
#include "memory.h"
#include "upload.h"

static int dsm_compare_ids(const void *a, const void *b)
{
	const struct dsm_upload_file *x = *(void **)a, *y = *(void **)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* The staged files by id, each of them once. */
static struct dsm_upload_file **dsm_sort_staged(struct dsm *d)
{
	struct dsm_upload *upload = d->upload;
	struct dsm_upload_file **sorted, *staged;
	u32 nr = 0;

	sorted = kvmalloc_objs(*sorted, upload->nr_files + 1, DSM_GFP);
	if (!sorted)
		return ERR_PTR(dsm_refuse(d, -ENOMEM, "Cannot allocate %u files",
					  upload->nr_files));

	list_for_each_entry(staged, &upload->files, list) {
		sorted[nr++] = staged;
		cond_resched();
	}
	sort_nonatomic(sorted, nr, sizeof(*sorted), dsm_compare_ids, NULL);

	for (u32 i = 1; i < nr; i++) {
		cond_resched();
		if (sorted[i - 1]->id == sorted[i]->id) {
			u64 id = sorted[i]->id;

			kvfree(sorted);
			return ERR_PTR(dsm_refuse(d, -EINVAL,
						  "Duplicate file %llu in upload", id));
		}
	}
	return sorted;
}

static bool dsm_has_other_stamps(const struct dsm_upload_file *staged)
{
	return staged->file->class != staged->class ||
	       staged->file->stated.both != staged->stated.both;
}

/* Finds the files that stay, makes those that are new or succeed one. */
static int dsm_resolve_files(struct dsm *d, const struct dsm_extent_map *old)
{
	struct dsm_upload_file *staged;

	list_for_each_entry(staged, &d->upload->files, list) {
		cond_resched();
		staged->file = dsm_extent_map_file(old, staged->id);
		if (!staged->file && staged->drop)
			return dsm_refuse(d, -ENOENT, "drop %llu: No such file in the table",
					  staged->id);
		if (staged->file && (staged->drop || !dsm_has_other_stamps(staged)))
			continue;

		staged->was = staged->file;
		staged->file = staged->was ? dsm_file_succeed(staged->was) :
					     dsm_file_alloc(staged->id);
		if (!staged->file) {
			staged->was = NULL;
			return dsm_refuse(d, -ENOMEM, "Cannot allocate file %llu", staged->id);
		}
		staged->is_new = true;
	}
	return 0;
}

static void dsm_mark_replaced(struct dsm *d, struct dsm_extent_map *old)
{
	struct dsm_upload_file *staged;

	for (u32 i = 0; d->upload->full && old && i < old->nr_files; i++) {
		old->file[i]->replaced = true;
		cond_resched();
	}
	list_for_each_entry(staged, &d->upload->files, list) {
		(staged->was ?: staged->file)->replaced = true;
		cond_resched();
	}
}

static void dsm_clear_replaced(struct dsm_extent_map *old)
{
	for (u32 i = 0; old && i < old->nr_files; i++) {
		old->file[i]->replaced = false;
		cond_resched();
	}
}

/* The files of the new table: those of the old one that stay, and the staged. */
static struct dsm_file **dsm_merge_files(struct dsm *d,
					 const struct dsm_extent_map *old,
					 struct dsm_upload_file **sorted, u32 *nr)
{
	u32 nr_old = old ? old->nr_files : 0, nr_new = d->upload->nr_files;
	struct dsm_file **files;
	u32 i = 0, j = 0;

	*nr = 0;
	files = kvmalloc_objs(*files, (size_t)nr_old + nr_new + 1, DSM_GFP);
	if (!files)
		return NULL;

	while (i < nr_old || j < nr_new) {
		cond_resched();
		if (j == nr_new || (i < nr_old && old->file[i]->id < sorted[j]->id)) {
			if (!old->file[i]->replaced)
				files[(*nr)++] = old->file[i];
			i++;
		} else {
			if (i < nr_old && old->file[i]->id == sorted[j]->id)
				i++;
			if (!sorted[j]->drop)
				files[(*nr)++] = sorted[j]->file;
			j++;
		}
	}
	return files;
}

/* What is uploaded, to be sorted. */
static struct dsm_upload_extent **dsm_list_extents(struct dsm_upload *upload)
{
	struct dsm_upload_extent **extents;
	struct dsm_chunk *chunk;
	u32 nr = 0;

	if (!dsm_may_take((upload->nr + 1ULL) * sizeof(*extents)))
		return NULL;
	extents = kvmalloc_objs(*extents, (size_t)upload->nr + 1, DSM_GFP);
	if (!extents)
		return NULL;

	list_for_each_entry_reverse(chunk, &upload->chunks, list) {
		for (u32 i = 0; i < chunk->nr; i++)
			extents[nr++] = &chunk->extent[i];
		cond_resched();
	}
	return extents;
}

static int dsm_refuse_map(struct dsm *d, int error,
			  const struct dsm_extent_conflict *conflict)
{
	switch (error) {
	case -EEXIST:
		return dsm_refuse(d, error,
				  "Extent of file %llu at %llu of %llu sectors overlaps an extent of file %llu",
				  conflict->id, conflict->start, conflict->sectors,
				  conflict->other_id);
	case -E2BIG:
		return dsm_refuse(d, -EINVAL, "Table too large (at most %u files and %u extents)",
				  dsm_limits.files, dsm_limits.extents);
	default:
		return dsm_refuse(d, -ENOMEM, "Cannot allocate table of %u extents",
				  d->upload->nr);
	}
}

static struct dsm_extent_map *dsm_build_map(struct dsm *d,
					    const struct dsm_extent_map *old,
					    struct dsm_upload_file **sorted)
{
	struct dsm_upload_extent **extents = dsm_list_extents(d->upload);
	struct dsm_extent_map *map = ERR_PTR(-ENOMEM);
	struct dsm_extent_conflict conflict;
	struct dsm_file **files;
	u32 nr_files;

	files = dsm_merge_files(d, old, sorted, &nr_files);
	if (files && nr_files > dsm_limits.files)
		map = ERR_PTR(-E2BIG);
	else if (files && extents)
		map = dsm_extent_map_build(old, extents, d->upload->nr, files, nr_files,
					   &conflict);
	kvfree(extents);
	if (!IS_ERR(map))
		return map;

	kvfree(files);
	return ERR_PTR(dsm_refuse_map(d, PTR_ERR(map), &conflict));
}

static void dsm_count_mapped_extent(const struct dsm_upload_extent *extent)
{
	struct dsm_upload_file *staged = extent->file;
	u64 boundary = (u64)staged->boundary * DSM_PAGE_SECTORS;
	u64 below = extent->sectors;

	if (staged->boundary != DSM_NO_BOUNDARY)
		below = extent->offset >= boundary ? 0 :
			min(below, boundary - extent->offset);
	staged->mapped[DSM_BOTTOM] += below;
	staged->mapped[DSM_TOP] += extent->sectors - below;
}

static void dsm_count_mapped(const struct dsm_upload *upload)
{
	const struct dsm_chunk *chunk;

	list_for_each_entry(chunk, &upload->chunks, list) {
		for (u32 i = 0; i < chunk->nr; i++)
			dsm_count_mapped_extent(&chunk->extent[i]);
		cond_resched();
	}
}

/*
 * From here on nothing can fail.  What a write reads of a file is changed in those that
 * no write can find yet.
 */
static void dsm_apply_files(struct dsm *d)
{
	struct dsm_policy_params params = dsm_policy_params(d);
	struct dsm_upload_file *staged;

	list_for_each_entry(staged, &d->upload->files, list) {
		struct dsm_file *file = staged->file;

		cond_resched();
		if (staged->drop)
			continue;

		file->replaced = false;
		file->boundary = staged->boundary;
		for (int side = 0; side < DSM_NR_SIDES; side++)
			file->region[side].mapped = DIV_ROUND_UP_ULL(staged->mapped[side],
								     DSM_PAGE_SECTORS);
		if (!dsm_has_other_stamps(staged))
			continue;
		file->stated = staged->stated;
		if (file->class != staged->class) {
			file->class = staged->class;
			dsm_file_initial(file, &params);
		}
		dsm_file_restamp(file, &d->layout);
	}
}

/* The files are the table's now, and no write finds those that they succeed. */
static void dsm_retire_files(struct dsm_upload *upload)
{
	struct dsm_upload_file *staged;

	list_for_each_entry(staged, &upload->files, list) {
		if (staged->was)
			dsm_file_retire(staged->was, staged->file);
		staged->was = NULL;
		staged->is_new = false;
		cond_resched();
	}
}

static void dsm_publish(struct dsm *d, struct dsm_extent_map *old,
			struct dsm_extent_map *map)
{
	if (!map->nr_files) {
		dsm_extent_map_free(map);
		map = NULL;
	}
	dsm_stamp_unmapped(d, map);
	rcu_assign_pointer(d->map, map);
	dsm_set_direct(d);
	synchronize_rcu();

	dsm_retire_files(d->upload);
	for (u32 i = 0; old && i < old->nr_files; i++) {
		if (old->file[i]->replaced)
			dsm_file_free(old->file[i]);
		cond_resched();
	}
	dsm_extent_map_free(old);
}

void dsm_table_free(struct dsm *d)
{
	struct dsm_extent_map *map = dsm_locked_map(d);

	for (u32 i = 0; map && i < map->nr_files; i++) {
		dsm_file_free(map->file[i]);
		cond_resched();
	}
	dsm_extent_map_free(map);
	RCU_INIT_POINTER(d->map, NULL);
}

/* A map of what the upload leaves, or an error; then the files are unmarked. */
static struct dsm_extent_map *dsm_prepare_commit(struct dsm *d,
						 struct dsm_extent_map *old)
{
	struct dsm_upload_file **sorted = dsm_sort_staged(d);
	struct dsm_extent_map *map;
	int r;

	if (IS_ERR(sorted))
		return ERR_CAST(sorted);

	r = dsm_resolve_files(d, old);
	if (r) {
		map = ERR_PTR(r);
	} else {
		dsm_mark_replaced(d, old);
		map = dsm_build_map(d, old, sorted);
		if (IS_ERR(map))
			dsm_clear_replaced(old);
	}
	kvfree(sorted);
	return map;
}

int dsm_upload_commit(struct dsm *d, const char *number)
{
	struct dsm_extent_map *old = dsm_locked_map(d), *map;
	int r = dsm_upload_own(d, number);

	if (r)
		return r;

	map = dsm_prepare_commit(d, old);
	if (IS_ERR(map)) {
		dsm_upload_end(d, DSM_UPLOAD_REFUSED);
		return PTR_ERR(map);
	}

	dsm_count_mapped(d->upload);
	dsm_apply_files(d);
	dsm_publish(d, old, map);
	dsm_upload_end(d, DSM_UPLOAD_COMMITTED);
	d->generation++;
	return 0;
}
