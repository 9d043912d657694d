// SPDX-License-Identifier: GPL-2.0-only
/*
 * Table upload: records are gathered on the side, and take effect as a whole.
 */
#include <linux/atomic.h>
#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/jiffies.h>
#include <linux/kstrtox.h>
#include <linux/list.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "dsm.h"
#include "memory.h"

/* The extents of a table in two arrays of 512 MiB and 1 GiB. */
struct dsm_limits dsm_limits = { .files = 1 << 20, .extents = 1 << 26 };

unsigned int dsm_upload_timeout = 60000;
module_param_named(upload_timeout, dsm_upload_timeout, uint, 0644);
MODULE_PARM_DESC(upload_timeout,
		 "Milliseconds without a message after which an upload is dropped");

/* Shared by all targets, so that no two uploads have the same number. */
static atomic64_t dsm_upload_numbers = ATOMIC64_INIT(0);

struct dsm_upload {
	u64 number;
	unsigned long heard;		/* in jiffies, when its last message came */
	bool full;
	u32 nr_files;
	struct list_head files;		/* struct dsm_upload_file */
	struct dsm_upload_file *last;	/* whose extents come next, or NULL */
	u32 nr;				/* extents */
	struct list_head chunks;	/* struct dsm_chunk, the last one first */
};

/* Uploads grow by these, so that nothing is copied. */
#define DSM_CHUNK 1024

struct dsm_chunk {
	struct list_head list;
	u32 nr;
	struct dsm_upload_extent extent[DSM_CHUNK];
};

static const char * const dsm_classes[DSM_NR_CLASSES] = {
	[DSM_COLLECTION] = "collection",
	[DSM_INDEX] = "index",
	[DSM_PRIMARY] = "primary",
	[DSM_JOURNAL] = "journal",
	[DSM_OPLOG] = "oplog",
	[DSM_OTHER] = "other",
};

const char *dsm_class_name(enum dsm_class class)
{
	return dsm_classes[class];
}

/* Numbers and owners */

static void dsm_upload_end(struct dsm *d, enum dsm_upload_end how)
{
	struct dsm_upload *upload = d->upload;
	struct dsm_upload_file *staged, *next;
	struct dsm_chunk *chunk, *next_chunk;

	if (!upload)
		return;

	d->ended[d->nr_ended++ % DSM_NR_ENDED] = (struct dsm_ended) {
		.number = upload->number, .how = how,
	};
	list_for_each_entry_safe(staged, next, &upload->files, list) {
		if (staged->was)
			dsm_file_retire(staged->file, staged->was);
		if (staged->is_new)
			dsm_file_free(staged->file);
		kfree(staged);
		cond_resched();
	}
	list_for_each_entry_safe(chunk, next_chunk, &upload->chunks, list) {
		kvfree(chunk);
		cond_resched();
	}
	kfree(upload);
	d->upload = NULL;
	cancel_delayed_work(&d->upload_timer);
}

static const char * const dsm_upload_ends[] = {
	[DSM_UPLOAD_COMMITTED] = "was committed",
	[DSM_UPLOAD_ABORTED] = "was aborted",
	[DSM_UPLOAD_REFUSED] = "ended at an invalid record",
	[DSM_UPLOAD_REPLACED] = "was replaced by a later one",
	[DSM_UPLOAD_IDLE] = "timed out",
};

static int dsm_upload_not_there(struct dsm *d, u64 number)
{
	for (int i = 0; i < DSM_NR_ENDED; i++)
		if (d->ended[i].number == number)
			return dsm_refuse(d, -ESTALE, "Upload %llu %s", number,
					  dsm_upload_ends[d->ended[i].how]);
	return dsm_refuse(d, -ESTALE, "No upload %llu", number);
}

/* Whether the upload in progress is that with this number: its owner's message. */
static int dsm_upload_own(struct dsm *d, const char *word)
{
	u64 number;

	if (kstrtou64(word, 10, &number) || !number)
		return dsm_refuse(d, -EINVAL,
				  "Invalid upload number '%s', must be the one from begin", word);
	if (!d->upload || d->upload->number != number)
		return dsm_upload_not_there(d, number);
	d->upload->heard = jiffies;
	return 0;
}

void dsm_upload_expire(struct work_struct *work)
{
	struct dsm *d = container_of(to_delayed_work(work), struct dsm, upload_timer);
	unsigned long timeout = msecs_to_jiffies(READ_ONCE(dsm_upload_timeout)), idle;

	mutex_lock(&d->lock);
	if (d->upload) {
		idle = jiffies - d->upload->heard;
		if (idle >= timeout)
			dsm_upload_end(d, DSM_UPLOAD_IDLE);
		else
			schedule_delayed_work(&d->upload_timer, timeout - idle);
	}
	mutex_unlock(&d->lock);
}

int dsm_upload_begin(struct dsm *d, bool full, u64 *number)
{
	struct dsm_upload *upload = kzalloc_obj(*upload, DSM_GFP);

	if (!upload)
		return dsm_refuse(d, -ENOMEM, "Cannot allocate upload");

	upload->number = atomic64_inc_return(&dsm_upload_numbers);
	upload->heard = jiffies;
	upload->full = full;
	INIT_LIST_HEAD(&upload->files);
	INIT_LIST_HEAD(&upload->chunks);

	dsm_upload_end(d, DSM_UPLOAD_REPLACED);
	d->upload = upload;
	*number = upload->number;
	schedule_delayed_work(&d->upload_timer,
			      msecs_to_jiffies(READ_ONCE(dsm_upload_timeout)));
	return 0;
}

int dsm_upload_abort(struct dsm *d, const char *number)
{
	int r = dsm_upload_own(d, number);

	if (!r)
		dsm_upload_end(d, DSM_UPLOAD_ABORTED);
	return r;
}

void dsm_upload_exit(struct dsm *d)
{
	dsm_upload_end(d, DSM_UPLOAD_ABORTED);
}

size_t dsm_upload_emit(const struct dsm *d, char *result, size_t sz, unsigned int maxlen)
{
	const struct dsm_upload *upload = d->upload;

	if (!upload)
		DMEMIT(" upload 0");
	else
		DMEMIT(" upload %llu upload_files %u upload_extents %u upload_idle_ms %u",
		       upload->number, upload->nr_files, upload->nr,
		       jiffies_to_msecs(jiffies - upload->heard));
	return sz;
}

/* records */

/* The device's logical block, a power of two. */
static unsigned int dsm_block_sectors(const struct dsm *d)
{
	return bdev_logical_block_size(d->dev->bdev) >> SECTOR_SHIFT;
}

/*
 * What of a file can be in the table: all but what lies beyond 16 TiB, and the last
 * page below, so that there is a boundary behind it.
 */
static u64 dsm_most_sectors(const struct dsm *d)
{
	return round_down((DSM_NO_BOUNDARY - 1ULL) * DSM_PAGE_SECTORS, dsm_block_sectors(d));
}

static struct dsm_upload_file *dsm_stage_file(struct dsm *d, const char *id)
{
	struct dsm_upload_file *staged;
	u64 number;

	if (kstrtou64(id, 10, &number))
		return ERR_PTR(dsm_refuse(d, -EINVAL,
					  "Invalid file id '%s', must be a 64-bit number", id));

	if (d->upload->nr_files >= dsm_limits.files)
		return ERR_PTR(dsm_refuse(d, -EINVAL,
					  "file %s: Too many files in upload (at most %u)", id,
					  dsm_limits.files));

	staged = kzalloc_obj(*staged, DSM_GFP);
	if (!staged)
		return ERR_PTR(dsm_refuse(d, -ENOMEM, "Cannot allocate file %s", id));

	staged->id = number;
	list_add_tail(&staged->list, &d->upload->files);
	d->upload->nr_files++;
	return staged;
}

/* A boundary is where a write may be divided: a block's edge, and a page's. */
static int dsm_parse_boundary(struct dsm *d, const char *word, u32 *boundary)
{
	u64 unit = max(DSM_PAGE_SIZE, dsm_block_sectors(d) << SECTOR_SHIFT);
	u64 bytes, most;

	if (!strcmp(word, "-")) {
		*boundary = DSM_NO_BOUNDARY;
		return 0;
	}
	if (kstrtou64(word, 10, &bytes))
		return dsm_refuse(d, -EINVAL,
				  "Invalid boundary '%s', must be - or a number of bytes", word);
	most = dsm_most_sectors(d) << SECTOR_SHIFT;
	*boundary = (bytes < most ? round_up(bytes, unit) : most) / DSM_PAGE_SIZE;
	return 0;
}

/* file <id> <class> <boundary>|- */
static int dsm_record_file(struct dsm *d, char **argv)
{
	struct dsm_upload_file *staged;
	int class;

	class = match_string(dsm_classes, DSM_NR_CLASSES, argv[2]);
	if (class < 0)
		return dsm_refuse(d, -EINVAL,
				  "Invalid class '%s' of file %s, must be collection, index, primary, journal, oplog or other",
				  argv[2], argv[1]);

	staged = dsm_stage_file(d, argv[1]);
	if (IS_ERR(staged))
		return PTR_ERR(staged);

	staged->class = class;
	d->upload->last = staged;
	return dsm_parse_boundary(d, argv[3], &staged->boundary);
}

/* stamp <stream> <hint>, of the file named last */
static int dsm_record_stamp(struct dsm *d, char **argv)
{
	struct dsm_upload_file *staged = d->upload->last;
	u8 stream, hint;

	if (!staged)
		return dsm_refuse(d, -EINVAL, "Stamp %s %s without a file",
				  argv[1], argv[2]);
	if (kstrtou8(argv[1], 10, &stream) || stream > d->device_streams)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: Invalid stream '%s', must be 0 to %u",
				  staged->id, argv[1], d->device_streams);
	if (kstrtou8(argv[2], 10, &hint) || hint > WRITE_LIFE_EXTREME)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: Invalid lifetime hint '%s', must be 0 to %u",
				  staged->id, argv[2], WRITE_LIFE_EXTREME);

	staged->stated = dsm_stamp(stream, hint);
	return 0;
}

/* drop <id> */
static int dsm_record_drop(struct dsm *d, char **argv)
{
	struct dsm_upload_file *staged;

	if (d->upload->full)
		return dsm_refuse(d, -EINVAL,
				  "drop %s: Not in a full upload; use begin update",
				  argv[1]);

	staged = dsm_stage_file(d, argv[1]);
	if (IS_ERR(staged))
		return PTR_ERR(staged);

	staged->drop = true;
	d->upload->last = NULL;
	return 0;
}

static int dsm_stage_extent(struct dsm_upload *upload,
			    const struct dsm_upload_extent *extent)
{
	struct dsm_chunk *chunk =
		list_first_entry_or_null(&upload->chunks, struct dsm_chunk, list);

	if (!chunk || chunk->nr == DSM_CHUNK) {
		chunk = kvmalloc_obj(*chunk, DSM_GFP);
		if (!chunk)
			return -ENOMEM;
		chunk->nr = 0;
		list_add(&chunk->list, &upload->chunks);
	}
	chunk->extent[chunk->nr++] = *extent;
	upload->nr++;
	return 0;
}

/* <offset>:<start>:<length>, in sectors */
static bool dsm_parse_extent(const char *word, struct dsm_upload_extent *extent)
{
	char copy[3 * sizeof("18446744073709551615")], *rest = copy;
	const char *offset, *start;

	if (strscpy(copy, word, sizeof(copy)) < 0)
		return false;
	offset = strsep(&rest, ":");
	start = strsep(&rest, ":");

	return start && rest &&
	       !kstrtou64(offset, 10, &extent->offset) &&
	       !kstrtou64(start, 10, &extent->start) &&
	       !kstrtou64(rest, 10, &extent->sectors);
}

static int dsm_record_extent(struct dsm *d, const char *word)
{
	struct dsm_upload *upload = d->upload;
	struct dsm_upload_extent extent = { .file = upload->last };
	u64 most = dsm_most_sectors(d), id;

	if (!upload->last)
		return dsm_refuse(d, -EINVAL, "Extent '%s' without a file", word);

	id = upload->last->id;
	if (!dsm_parse_extent(word, &extent))
		return dsm_refuse(d, -EINVAL,
				  "file %llu: Invalid extent '%s', must be <offset>:<start>:<length> in sectors",
				  id, word);
	if (!extent.sectors || extent.start >= d->ti->len ||
	    extent.sectors > d->ti->len - extent.start)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: Invalid extent at %llu of %llu sectors, target has %llu",
				  id, extent.start, extent.sectors, (u64)d->ti->len);
	/* A write is divided at the edges: the device must take both parts. */
	if ((extent.offset | extent.start | extent.sectors) & (dsm_block_sectors(d) - 1))
		return dsm_refuse(d, -EINVAL,
				  "file %llu: Extent '%s' not aligned to blocks of %u sectors",
				  id, word, dsm_block_sectors(d));
	if (extent.offset >= most)
		return 0;
	extent.sectors = min(extent.sectors, most - extent.offset);

	if (upload->nr >= dsm_limits.extents)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: Too many extents in upload (at most %u)", id,
				  dsm_limits.extents);
	if (dsm_stage_extent(upload, &extent))
		return dsm_refuse(d, -ENOMEM, "Cannot allocate %u extents", upload->nr + 1);
	return 0;
}

/* The words of a record before its extents. */
static const struct dsm_record {
	const char *name;
	unsigned int words;
	bool has_extents;
	int (*add)(struct dsm *d, char **argv);
	const char *form;
} dsm_records[] = {
	{ "file", 4, true, dsm_record_file,
	  "file <id> <class> <boundary>|- [<offset>:<start>:<length>...]" },
	{ "extents", 1, true, NULL, "extents <offset>:<start>:<length>..." },
	{ "stamp", 3, true, dsm_record_stamp, "stamp <stream> <hint>" },
	{ "drop", 2, false, dsm_record_drop, "drop <id>" },
};

static const struct dsm_record *dsm_find_record(const char *word)
{
	for (int i = 0; i < ARRAY_SIZE(dsm_records); i++)
		if (!strcasecmp(word, dsm_records[i].name))
			return &dsm_records[i];
	return NULL;
}

bool dsm_is_upload_record(const char *word)
{
	return dsm_find_record(word);
}

/* One record, and as many extents as follow it.  Returns the words used. */
static int dsm_add_record(struct dsm *d, unsigned int argc, char **argv)
{
	const struct dsm_record *record = dsm_find_record(argv[0]);
	unsigned int used;
	int r;

	if (!record)
		return dsm_refuse(d, -EINVAL,
				  "Unknown record '%s', must be file, extents, stamp or drop",
				  argv[0]);
	if (argc < record->words)
		return dsm_refuse(d, -EINVAL, "Usage: %s", record->form);

	r = record->add ? record->add(d, argv) : 0;
	if (r)
		return r;

	for (used = record->words; used < argc; used++) {
		if (!record->has_extents || !strchr(argv[used], ':'))
			break;
		r = dsm_record_extent(d, argv[used]);
		if (r)
			return r;
	}
	return used;
}

int dsm_upload_records(struct dsm *d, const char *number, unsigned int argc,
		       char **argv)
{
	int used = dsm_upload_own(d, number);

	if (used)
		return used;

	while (argc) {
		used = dsm_add_record(d, argc, argv);
		if (used < 0) {
			dsm_upload_end(d, DSM_UPLOAD_REFUSED);
			return used;
		}
		argc -= used;
		argv += used;
		cond_resched();
	}
	return 0;
}

/* commit */

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
