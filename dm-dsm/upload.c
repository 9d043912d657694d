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
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "compat/compat.h"
#include "dsm.h"

#define DSM_MAX_FILE_SECTORS ((u64)DSM_NO_BOUNDARY * DSM_PAGE_SECTORS)

unsigned int dsm_upload_timeout = 60000;
module_param_named(upload_timeout, dsm_upload_timeout, uint, 0644);
MODULE_PARM_DESC(upload_timeout,
		 "Milliseconds without a message after which an upload is dropped");

/* Of all uploads to all targets: nobody takes one of another target for its own. */
static atomic64_t dsm_upload_numbers = ATOMIC64_INIT(0);

struct dsm_upload {
	u64 number;
	unsigned long heard;		/* in jiffies, when its last message came */
	bool full;
	u32 nr_files;
	struct list_head files;		/* struct dsm_upload_file */
	struct dsm_upload_file *last;	/* whose extents come next, or NULL */
	size_t nr, room;
	struct dsm_upload_extent *extent;
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

	if (!upload)
		return;

	d->ended[d->nr_ended++ % DSM_NR_ENDED] = (struct dsm_ended) {
		.number = upload->number, .how = how,
	};
	list_for_each_entry_safe(staged, next, &upload->files, list) {
		if (staged->is_new)
			dsm_file_free(staged->file);
		kfree(staged);
	}
	kvfree(upload->extent);
	kfree(upload);
	d->upload = NULL;
	cancel_delayed_work(&d->upload_timer);
}

static const char * const dsm_upload_ends[] = {
	[DSM_UPLOAD_COMMITTED] = "has been committed",
	[DSM_UPLOAD_ABORTED] = "has been abandoned",
	[DSM_UPLOAD_REFUSED] = "has ended, since something of it was refused",
	[DSM_UPLOAD_REPLACED] = "was replaced by a later one",
	[DSM_UPLOAD_IDLE] = "was dropped, since nothing came for too long",
};

static int dsm_upload_not_there(struct dsm *d, u64 number)
{
	for (int i = 0; i < DSM_NR_ENDED; i++)
		if (d->ended[i].number == number)
			return dsm_refuse(d, -ESTALE, "upload %llu %s", number,
					  dsm_upload_ends[d->ended[i].how]);
	return dsm_refuse(d, -ESTALE, "there is no upload %llu", number);
}

/* Whether the upload under way is that with this number: its owner's message. */
static int dsm_upload_own(struct dsm *d, const char *word)
{
	u64 number;

	if (kstrtou64(word, 10, &number) || !number)
		return dsm_refuse(d, -EINVAL, "upload '%s': it must be the number that begin gave",
				  word);
	if (!d->upload || d->upload->number != number)
		return dsm_upload_not_there(d, number);
	d->upload->heard = jiffies;
	return 0;
}

void dsm_upload_expire(struct work_struct *work)
{
	struct dsm *d = container_of(to_delayed_work(work), struct dsm, upload_timer);
	unsigned long patience = msecs_to_jiffies(READ_ONCE(dsm_upload_timeout)), idle;

	mutex_lock(&d->lock);
	if (d->upload) {
		idle = jiffies - d->upload->heard;
		if (idle >= patience)
			dsm_upload_end(d, DSM_UPLOAD_IDLE);
		else
			schedule_delayed_work(&d->upload_timer, patience - idle);
	}
	mutex_unlock(&d->lock);
}

int dsm_upload_begin(struct dsm *d, bool full, u64 *number)
{
	struct dsm_upload *upload = kzalloc_obj(*upload);

	if (!upload)
		return dsm_refuse(d, -ENOMEM, "no memory for an upload");

	upload->number = atomic64_inc_return(&dsm_upload_numbers);
	upload->heard = jiffies;
	upload->full = full;
	INIT_LIST_HEAD(&upload->files);

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
		DMEMIT(" upload %llu upload_files %u upload_extents %zu upload_idle_ms %u",
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

static struct dsm_upload_file *dsm_stage_file(struct dsm *d, const char *id)
{
	struct dsm_upload_file *staged;
	u64 number;

	if (kstrtou64(id, 10, &number))
		return ERR_PTR(dsm_refuse(d, -EINVAL,
					  "file id '%s' is not a number of 64 bits", id));

	staged = kzalloc_obj(*staged);
	if (!staged)
		return ERR_PTR(dsm_refuse(d, -ENOMEM, "no memory for file %s", id));

	staged->id = number;
	list_add_tail(&staged->list, &d->upload->files);
	d->upload->nr_files++;
	return staged;
}

/* A boundary is where a write may be divided: a block's edge, and a page's. */
static int dsm_parse_boundary(struct dsm *d, const char *word, u32 *boundary)
{
	u64 unit = max(DSM_PAGE_SIZE, dsm_block_sectors(d) << SECTOR_SHIFT);
	u64 bytes;

	if (!strcmp(word, "-")) {
		*boundary = DSM_NO_BOUNDARY;
		return 0;
	}
	if (kstrtou64(word, 10, &bytes) || bytes >> SECTOR_SHIFT >= DSM_MAX_FILE_SECTORS)
		return dsm_refuse(d, -EINVAL,
				  "boundary '%s' is neither - nor a number of bytes below 16 TiB",
				  word);
	*boundary = round_up(bytes, unit) / DSM_PAGE_SIZE;
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
				  "class '%s' of file %s is none of collection, index, primary, journal, oplog and other",
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
		return dsm_refuse(d, -EINVAL, "stamp %s %s comes before any file",
				  argv[1], argv[2]);
	if (kstrtou8(argv[1], 10, &stream) || stream > d->device_streams)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: stream '%s' is not a number from 0 to %u, the device's last",
				  staged->id, argv[1], d->device_streams);
	if (kstrtou8(argv[2], 10, &hint) || hint > WRITE_LIFE_EXTREME)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: lifetime hint '%s' is not a number from 0 to %u",
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
				  "drop %s: a full upload begins without files; use begin update",
				  argv[1]);

	staged = dsm_stage_file(d, argv[1]);
	if (IS_ERR(staged))
		return PTR_ERR(staged);

	staged->drop = true;
	d->upload->last = NULL;
	return 0;
}

static int dsm_grow_extents(struct dsm_upload *upload)
{
	size_t room = upload->room ? 2 * upload->room : 64;
	struct dsm_upload_extent *extent;

	extent = kvmalloc_array(room, sizeof(*extent), GFP_KERNEL);
	if (!extent)
		return -ENOMEM;

	memcpy(extent, upload->extent, upload->nr * sizeof(*extent));
	kvfree(upload->extent);
	upload->extent = extent;
	upload->room = room;
	return 0;
}

/* <offset>:<start>:<length>, in sectors */
static bool dsm_parse_extent(const char *word, struct dsm_upload_extent *extent)
{
	char copy[3 * sizeof("18446744073709551615")], *rest = copy;
	const char *offset, *start;

	if (strscpy(copy, word) < 0)
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
	u64 id;

	if (!upload->last)
		return dsm_refuse(d, -EINVAL, "extent '%s' comes before any file", word);

	id = upload->last->id;
	if (!dsm_parse_extent(word, &extent))
		return dsm_refuse(d, -EINVAL,
				  "file %llu: an extent must be <offset>:<start>:<length> in sectors, and '%s' is not",
				  id, word);
	if (!extent.sectors || extent.start >= d->ti->len ||
	    extent.sectors > d->ti->len - extent.start)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: extent at %llu of %llu sectors is not within the target's %llu",
				  id, extent.start, extent.sectors, (u64)d->ti->len);
	/* A write is divided at the edges: the device must take both parts. */
	if ((extent.offset | extent.start | extent.sectors) & (dsm_block_sectors(d) - 1))
		return dsm_refuse(d, -EINVAL,
				  "file %llu: extent '%s' is not in whole blocks of the device, which are %u sectors",
				  id, word, dsm_block_sectors(d));
	if (extent.offset >= DSM_MAX_FILE_SECTORS ||
	    extent.sectors > DSM_MAX_FILE_SECTORS - extent.offset)
		return dsm_refuse(d, -EINVAL,
				  "file %llu: extent at file offset %llu reaches beyond 16 TiB",
				  id, extent.offset);

	if (upload->nr == upload->room && dsm_grow_extents(upload))
		return dsm_refuse(d, -ENOMEM, "no memory for %zu extents", upload->nr + 1);
	upload->extent[upload->nr++] = extent;
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
		return dsm_refuse(d, -EINVAL, "'%s' is neither file, extents, stamp nor drop",
				  argv[0]);
	if (argc < record->words)
		return dsm_refuse(d, -EINVAL, "the form is: %s", record->form);

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

	sorted = kvmalloc_array(upload->nr_files + 1, sizeof(*sorted), GFP_KERNEL);
	if (!sorted)
		return ERR_PTR(dsm_refuse(d, -ENOMEM, "no memory for %u files",
					  upload->nr_files));

	list_for_each_entry(staged, &upload->files, list)
		sorted[nr++] = staged;
	sort_nonatomic(sorted, nr, sizeof(*sorted), dsm_compare_ids, NULL);

	for (u32 i = 1; i < nr; i++) {
		if (sorted[i - 1]->id == sorted[i]->id) {
			u64 id = sorted[i]->id;

			kvfree(sorted);
			return ERR_PTR(dsm_refuse(d, -EINVAL,
						  "file %llu is uploaded twice", id));
		}
	}
	return sorted;
}

/* Finds the files that stay, makes those that are new. */
static int dsm_resolve_files(struct dsm *d, const struct dsm_extent_map *old)
{
	struct dsm_upload_file *staged;

	list_for_each_entry(staged, &d->upload->files, list) {
		staged->file = dsm_extent_map_file(old, staged->id);
		if (staged->file)
			continue;
		if (staged->drop)
			return dsm_refuse(d, -ENOENT, "drop %llu: no such file in the table",
					  staged->id);
		staged->file = dsm_file_alloc(staged->id);
		if (!staged->file)
			return dsm_refuse(d, -ENOMEM, "no memory for file %llu", staged->id);
		staged->is_new = true;
	}
	return 0;
}

static void dsm_mark_replaced(struct dsm *d, struct dsm_extent_map *old)
{
	struct dsm_upload_file *staged;

	if (d->upload->full)
		for (u32 i = 0; old && i < old->nr_files; i++)
			old->file[i]->replaced = true;

	list_for_each_entry(staged, &d->upload->files, list)
		staged->file->replaced = true;
}

static void dsm_clear_replaced(struct dsm_extent_map *old)
{
	for (u32 i = 0; old && i < old->nr_files; i++)
		old->file[i]->replaced = false;
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
	files = kvmalloc_array((size_t)nr_old + nr_new + 1, sizeof(*files), GFP_KERNEL);
	if (!files)
		return NULL;

	while (i < nr_old || j < nr_new) {
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

static struct dsm_extent_map *dsm_build_map(struct dsm *d,
					    const struct dsm_extent_map *old,
					    struct dsm_upload_file **sorted)
{
	struct dsm_upload *upload = d->upload;
	struct dsm_extent_conflict conflict;
	struct dsm_extent_map *map;
	struct dsm_file **files;
	u32 nr_files;

	files = dsm_merge_files(d, old, sorted, &nr_files);
	if (!files)
		return ERR_PTR(dsm_refuse(d, -ENOMEM, "no memory for a table"));

	map = dsm_extent_map_build(old, upload->extent, upload->nr, files, nr_files,
				   &conflict);
	if (!IS_ERR(map))
		return map;

	kvfree(files);
	if (PTR_ERR(map) != -EEXIST)
		return ERR_PTR(dsm_refuse(d, -ENOMEM, "no memory for a table of %zu extents",
					  upload->nr));
	return ERR_PTR(dsm_refuse(d, -EEXIST,
				  "the extent of file %llu at %llu of %llu sectors overlaps with an extent of file %llu",
				  conflict.id, conflict.start, conflict.sectors,
				  conflict.other_id));
}

/* From here on nothing can fail. */
static void dsm_apply_files(struct dsm *d)
{
	struct dsm_policy_params params = dsm_policy_params(d);
	struct dsm_upload_file *staged;

	list_for_each_entry(staged, &d->upload->files, list) {
		struct dsm_file *file = staged->file;

		if (staged->drop)
			continue;

		file->replaced = false;
		file->boundary = staged->boundary;
		for (int side = 0; side < DSM_NR_SIDES; side++)
			file->region[side].mapped = 0;
		if (file->class == staged->class &&
		    file->stated.both == staged->stated.both)
			continue;
		file->stated = staged->stated;
		if (file->class != staged->class) {
			file->class = staged->class;
			dsm_file_initial(file, &params);
		}
		dsm_file_restamp(file, &d->layout);
	}
}

static void dsm_count_mapped(const struct dsm_upload *upload)
{
	for (size_t i = 0; i < upload->nr; i++) {
		const struct dsm_upload_extent *extent = &upload->extent[i];
		struct dsm_file *file = extent->file->file;
		u64 boundary = (u64)file->boundary * DSM_PAGE_SECTORS;
		u64 below = extent->sectors;

		if (file->boundary != DSM_NO_BOUNDARY)
			below = extent->offset >= boundary ? 0 :
				min(below, boundary - extent->offset);
		file->region[DSM_BOTTOM].mapped += DIV_ROUND_UP_ULL(below, DSM_PAGE_SECTORS);
		file->region[DSM_TOP].mapped +=
			DIV_ROUND_UP_ULL(extent->sectors - below, DSM_PAGE_SECTORS);
	}
}

static void dsm_publish(struct dsm *d, struct dsm_extent_map *old,
			struct dsm_extent_map *map)
{
	if (!map->nr_files) {
		dsm_extent_map_free(map);
		map = NULL;
	}
	rcu_assign_pointer(d->map, map);
	dsm_set_direct(d);
	synchronize_rcu();

	/* No write can find these any more. */
	for (u32 i = 0; old && i < old->nr_files; i++)
		if (old->file[i]->replaced)
			dsm_file_free(old->file[i]);
	dsm_extent_map_free(old);
}

void dsm_table_free(struct dsm *d)
{
	struct dsm_extent_map *map = dsm_locked_map(d);

	for (u32 i = 0; map && i < map->nr_files; i++)
		dsm_file_free(map->file[i]);
	dsm_extent_map_free(map);
	RCU_INIT_POINTER(d->map, NULL);
	RCU_INIT_POINTER(d->direct, NULL);
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
	struct dsm_upload_file *staged;
	int r = dsm_upload_own(d, number);

	if (r)
		return r;

	map = dsm_prepare_commit(d, old);
	if (IS_ERR(map)) {
		dsm_upload_end(d, DSM_UPLOAD_REFUSED);
		return PTR_ERR(map);
	}

	dsm_apply_files(d);
	dsm_count_mapped(d->upload);
	list_for_each_entry(staged, &d->upload->files, list)
		staged->is_new = false;		/* the table's now */
	dsm_upload_end(d, DSM_UPLOAD_COMMITTED);
	dsm_publish(d, old, map);
	dsm_stamp_unmapped(d);
	d->generation++;
	return 0;
}
