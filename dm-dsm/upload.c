// SPDX-License-Identifier: GPL-2.0-only
/*
 * Table upload: records are gathered on the side; commit.c has them take effect.
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
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "dsm.h"
#include "memory.h"
#include "upload.h"

unsigned int dsm_upload_timeout = 60000;
module_param_named(upload_timeout, dsm_upload_timeout, uint, 0644);
MODULE_PARM_DESC(upload_timeout,
		 "Milliseconds without a message after which an upload is dropped");

/* Shared by all targets, so that no two uploads have the same number. */
static atomic64_t dsm_upload_numbers = ATOMIC64_INIT(0);

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

void dsm_upload_end(struct dsm *d, enum dsm_upload_end how)
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

int dsm_upload_own(struct dsm *d, const char *word)
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

/* Records */

/* The device's logical block, a power of two. */
static unsigned int dsm_block_sectors(const struct dsm *d)
{
	return bdev_logical_block_size(d->bdev) >> SECTOR_SHIFT;
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
		chunk = dsm_may_take(sizeof(*chunk)) ? kvmalloc_obj(*chunk, DSM_GFP) : NULL;
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
