// SPDX-License-Identifier: GPL-2.0-only
/*
 * The messages: one function each, and a table of them at the end.
 */
#include <linux/ctype.h>
#include <linux/kstrtox.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/string.h>

#include "dsm.h"

#define DSM_REGIONS_FILES 100	/* that "regions" lists when no count is given */

/* Where a message leaves its reply, as DMEMIT() wants it. */
struct dsm_reply {
	char *result;
	unsigned int maxlen;
	bool barrier;		/* it ends when dsm_discard_barrier() does */
};

#define DSM_BEGIN_FORM "begin full <sectors>, or begin update <sectors> <generation>"

/* begin full <sectors> | begin update <sectors> <generation> */
static int dsm_message_begin(struct dsm *d, unsigned int argc, char **argv,
			     struct dsm_reply *reply)
{
	bool full = !strcasecmp(argv[1], "full");
	unsigned int maxlen = reply->maxlen;
	char *result = reply->result;
	u64 sectors, generation, number;
	size_t sz = 0;
	int r;

	if (!full && strcasecmp(argv[1], "update"))
		return dsm_refuse(d, -EINVAL, "begin: Invalid kind '%s', must be full or update",
				  argv[1]);
	if (argc != (full ? 3 : 4))
		return dsm_refuse(d, -EINVAL, "Usage: %s", DSM_BEGIN_FORM);
	if (kstrtou64(argv[2], 10, &sectors) || sectors != d->ti->len)
		return dsm_refuse(d, -EINVAL,
				  "begin: Invalid size '%s', device has %llu sectors",
				  argv[2], (u64)d->ti->len);
	if (!full && (kstrtou64(argv[3], 10, &generation) || generation != d->generation))
		return dsm_refuse(d, -ESTALE,
				  "begin: Generation '%s' does not match the table's %llu",
				  argv[3], d->generation);

	r = dsm_upload_begin(d, full, &number);
	if (r)
		return r;

	DMEMIT("upload %llu", number);
	return 1;
}

/* upload <n> <record>... */
static int dsm_message_upload(struct dsm *d, unsigned int argc, char **argv,
			      struct dsm_reply *reply)
{
	return dsm_upload_records(d, argv[1], argc - 2, argv + 2);
}

/* commit <n> */
static int dsm_message_commit(struct dsm *d, unsigned int argc, char **argv,
			      struct dsm_reply *reply)
{
	struct dsm_extent_map *map;
	unsigned int maxlen = reply->maxlen;
	char *result = reply->result;
	size_t sz = 0;
	int r;

	r = dsm_upload_commit(d, argv[1]);
	if (r)
		return r;

	map = dsm_locked_map(d);
	DMEMIT("generation %llu files %u extents %u", d->generation,
	       map ? map->nr_files : 0, map ? map->nr_extents : 0);
	return 1;
}

/* abort <n> */
static int dsm_message_abort(struct dsm *d, unsigned int argc, char **argv,
			     struct dsm_reply *reply)
{
	return dsm_upload_abort(d, argv[1]);
}

/* checkpoint */
static int dsm_message_checkpoint(struct dsm *d, unsigned int argc, char **argv,
				  struct dsm_reply *reply)
{
	unsigned int maxlen = reply->maxlen;
	char *result = reply->result;
	struct dsm_checkpoint done;
	size_t sz = 0;

	if (dsm_checkpoint(d, &done))
		return dsm_refuse(d, -ENOMEM, "Out of memory, checkpoint ignored");

	DMEMIT("window %llu ms %llu written %u moved %u",
	       done.window, done.ms, done.written, done.moved);
	return 1;
}

/* set <name> <value> */
static int dsm_message_set(struct dsm *d, unsigned int argc, char **argv,
			   struct dsm_reply *reply)
{
	struct dsm_params params = d->params, before = d->params;
	bool discard = !strcasecmp(argv[1], "discard");
	char *error;

	if (!strcasecmp(argv[1], "leaves"))
		return dsm_refuse(d, -EINVAL,
				  "set leaves: Cannot be changed by message; reload the table");
	if (dsm_params_set(&params, argv[1], argv[2], &error) < 0)
		return dsm_refuse(d, -EINVAL, "set %s %s: %s", argv[1], argv[2], error);

	d->params = params;
	if (discard && dsm_discard_set(d)) {
		d->params = before;
		return dsm_refuse(d, -ENOMEM, "Cannot allocate write tracking");
	}
	dsm_discard_set_granule(d);
	dsm_relayout(d, false);
	reply->barrier = discard && params.discard != DSM_DISCARD_ON;
	return 0;
}

/* reset */
static int dsm_message_reset(struct dsm *d, unsigned int argc, char **argv,
			     struct dsm_reply *reply)
{
	dsm_counts_reset(d);
	dsm_discard_reset(d);
	return 0;
}

/* window */
static int dsm_message_window(struct dsm *d, unsigned int argc, char **argv,
			      struct dsm_reply *reply)
{
	unsigned int maxlen = reply->maxlen;
	char *result = reply->result;
	size_t sz = 0;
	u64 window;
	int r;

	r = dsm_discard_window(d, &window);
	if (r)
		return r;

	DMEMIT("window %llu", window);
	return 1;
}

/* discard <since> <start>:<length>... [<since> <start>:<length>...]... */
static int dsm_message_discard(struct dsm *d, unsigned int argc, char **argv,
			       struct dsm_reply *reply)
{
	unsigned int maxlen = reply->maxlen;
	char *result = reply->result;
	unsigned int queued;
	size_t sz = 0;
	int r;

	r = dsm_discard_queue(d, argc, argv, &queued);
	if (r)
		return r;

	DMEMIT("queued %u", queued);
	return 1;
}

/* forget */
static int dsm_message_forget(struct dsm *d, unsigned int argc, char **argv,
			      struct dsm_reply *reply)
{
	reply->barrier = true;
	return dsm_discard_forget(d);
}

/* written, as discard */
static int dsm_message_written(struct dsm *d, unsigned int argc, char **argv,
			       struct dsm_reply *reply)
{
	return dsm_discard_written(d, argc, argv, reply->result, reply->maxlen) ?: 1;
}

static size_t dsm_emit_group(u8 group, char *result, size_t sz, unsigned int maxlen)
{
	if (group == DSM_GROUP_NONE)
		DMEMIT(" -");
	else if (group == DSM_GROUP_PRIMARY)
		DMEMIT(" primary");
	else
		DMEMIT(" %u", group);
	return sz;
}

/* Three decimals, rounded to the nearest. */
static size_t dsm_emit_hotness(s32 hotness, char *result, size_t sz,
			       unsigned int maxlen)
{
	u64 magnitude = abs((s64)hotness) * 1000 + (1 << (DSM_HOTNESS_SHIFT - 1));
	u32 thousandths = magnitude >> DSM_HOTNESS_SHIFT;

	DMEMIT(" %s%u.%03u", hotness < 0 && thousandths ? "-" : "",
	       thousandths / 1000, thousandths % 1000);
	return sz;
}

static size_t dsm_emit_region(struct dsm *d, const struct dsm_file *file,
			      enum dsm_side side, char *result, size_t sz,
			      unsigned int maxlen)
{
	const struct dsm_region *region = &file->region[side];
	u64 range = (u64)region->range * DSM_PAGE_SIZE;

	DMEMIT("%llu %s ", file->id, dsm_class_name(file->class));
	if (file->boundary == DSM_NO_BOUNDARY)
		DMEMIT("-");
	else
		DMEMIT("%llu", (u64)file->boundary * DSM_PAGE_SIZE);
	DMEMIT(" %s %llu %u %llu", side == DSM_TOP ? "top" : "bottom",
	       (u64)region->mapped * DSM_PAGE_SIZE, region->pages, range);

	if (region->pages)
		sz = dsm_emit_hotness(dsm_hotness(region->pages, range, d->window_ms),
				      result, sz, maxlen);
	else
		DMEMIT(" -");
	sz = dsm_emit_group(region->group, result, sz, maxlen);
	sz = dsm_emit_group(region->next, result, sz, maxlen);
	DMEMIT(" %u %u %llu\n", region->stamp.stream, region->stamp.hint,
	       DIV_ROUND_UP_ULL(dsm_region_sectors(region), DSM_PAGE_SECTORS));
	return sz;
}

/* regions [<after> [<count>]] */
static int dsm_message_regions(struct dsm *d, unsigned int argc, char **argv,
			       struct dsm_reply *reply)
{
	struct dsm_extent_map *map = dsm_locked_map(d);
	unsigned int maxlen = reply->maxlen;
	char *result = reply->result;
	u32 count = DSM_REGIONS_FILES, first = 0;
	size_t sz = 0;
	u64 after;

	if (argc > 1) {
		if (kstrtou64(argv[1], 10, &after))
			return dsm_refuse(d, -EINVAL, "regions: Invalid file id '%s'", argv[1]);
		first = map ? dsm_extent_map_file_after(map, after) : 0;
	}
	if (argc > 2 && (kstrtou32(argv[2], 10, &count) || !count))
		return dsm_refuse(d, -EINVAL, "regions: Invalid file count '%s'", argv[2]);

	result[0] = '\0';
	/* Until the reply is full, which device-mapper reports. */
	for (u32 i = first; map && i < map->nr_files && i - first < count && sz + 1 < maxlen; i++) {
		for (int side = 0; side < dsm_file_regions(map->file[i]); side++)
			sz = dsm_emit_region(d, map->file[i], side, result, sz, maxlen);
		cond_resched();
	}
	return 1;
}

/* error */
static int dsm_message_error(struct dsm *d, unsigned int argc, char **argv,
			     struct dsm_reply *reply)
{
	unsigned int maxlen = reply->maxlen;
	char *result = reply->result;
	size_t sz = 0;

	DMEMIT("%s", d->error);
	return 1;
}

static const struct dsm_verb {
	const char *name;
	unsigned int min, max;		/* words, with the name */
	int (*run)(struct dsm *d, unsigned int argc, char **argv,
		   struct dsm_reply *reply);
	const char *form;
} dsm_verbs[] = {
	{ "begin", 3, 4, dsm_message_begin, DSM_BEGIN_FORM },
	{ "upload", 3, UINT_MAX, dsm_message_upload, "upload <n> <record>..." },
	{ "commit", 2, 2, dsm_message_commit, "commit <n>" },
	{ "abort", 2, 2, dsm_message_abort, "abort <n>" },
	{ "checkpoint", 1, 1, dsm_message_checkpoint, "checkpoint" },
	{ "set", 3, 3, dsm_message_set, "set <name> <value>" },
	{ "reset", 1, 1, dsm_message_reset, "reset" },
	{ "window", 1, 1, dsm_message_window, "window" },
	{ "discard", 3, UINT_MAX, dsm_message_discard,
	  "discard <since> <start>:<length>..." },
	{ "written", 3, UINT_MAX, dsm_message_written,
	  "written <since> <start>:<length>..." },
	{ "forget", 1, 1, dsm_message_forget, "forget" },
	{ "regions", 1, 3, dsm_message_regions, "regions [<after> [<count>]]" },
	{ "error", 1, 1, dsm_message_error, "error" },
};

static int dsm_run_verb(struct dsm *d, unsigned int argc, char **argv,
			struct dsm_reply *reply)
{
	if (dsm_is_upload_record(argv[0]))
		return dsm_refuse(d, -EINVAL, "%s: Record must follow upload <n>", argv[0]);

	for (int i = 0; i < ARRAY_SIZE(dsm_verbs); i++) {
		const struct dsm_verb *verb = &dsm_verbs[i];

		if (strcasecmp(argv[0], verb->name))
			continue;
		if (argc < verb->min || argc > verb->max)
			return dsm_refuse(d, -EINVAL, "Usage: %s", verb->form);
		return verb->run(d, argc, argv, reply);
	}
	return dsm_refuse(d, -EINVAL, "Unknown message '%s'", argv[0]);
}

/* The end of a message that stops discards, which has taken effect by now. */
static int dsm_wait_for_discards(struct dsm *d, const char *verb)
{
	int r = dsm_discard_barrier(d);

	if (r) {
		mutex_lock(&d->lock);
		r = dsm_refuse(d, r, "%s: Discards sent before are still in flight", verb);
		mutex_unlock(&d->lock);
	}
	return r;
}

int dsm_message(struct dm_target *ti, unsigned int argc, char **argv,
		char *result, unsigned int maxlen)
{
	struct dsm_reply reply = { .result = result, .maxlen = maxlen };
	struct dsm *d = ti->private;
	unsigned int noio;
	int r;

	mutex_lock(&d->lock);
	noio = memalloc_noio_save();	/* see memory.h */
	r = dsm_run_verb(d, argc, argv, &reply);
	memalloc_noio_restore(noio);
	mutex_unlock(&d->lock);
	return r < 0 || !reply.barrier ? r : dsm_wait_for_discards(d, argv[0]);
}
