// SPDX-License-Identifier: GPL-2.0-only
/* Backups, compaction, old checkpoints and other things beside the clients. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "beside.h"
#include "copies.h"
#include "random.h"
#include "util.h"

#define SCRATCH_FIRST 1000000	/* idents of tables that come and go */
#define SCRATCH_DOCS 400
#define SCRATCH_TABLES 4
#define SCRATCH_CONFIG \
	"key_format=q,value_format=u,block_compressor=snappy,leaf_page_max=4KB," \
	"memory_page_max=64KB,log=(enabled=true)"
#define SINGLE_DOCS 300
#define SINGLE_BYTES 1800	/* two in a page */
#define PATH_SIZE 4096
#define HELD_COLLECTIONS 4	/* of which old checkpoints are read */

struct task {
	const struct kind *kind;
	struct checkpointer *cp;
	struct catalog *catalog;
	WT_SESSION *session;
	struct rng rng;
	uint64_t rounds;
	pthread_t thread;
};

struct kind {
	const char *name;
	void (*round)(struct task *task);
	bool copies;		/* needs --copies */
	bool newer;		/* than WiredTiger 3.2.1 */
	bool alone;		/* holds the turtle, and asks for its checkpoints */
};

#define KINDS 11

struct beside {
	struct checkpointer *cp;
	unsigned int count;
	struct task task[KINDS];
};

/* Somebody else has the table, or makes a backup. */
static void give_way(void)
{
	usleep(20000);
}

/* ---- what is read ---- */

/* Of all that a cursor sees, in its order. */
static uint64_t digest(WT_CURSOR *cursor, const char *uri)
{
	uint64_t sum = 1;
	WT_ITEM value;
	int64_t key;
	int ret;

	while (!(ret = cursor->next(cursor)) &&
	       !(ret = cursor->get_key(cursor, &key)) &&
	       !(ret = cursor->get_value(cursor, &value))) {
		const uint8_t *byte = value.data;

		sum = hash64(sum ^ (uint64_t)key);
		for (size_t i = 0; i < value.size; i++)
			sum = (sum ^ byte[i]) * 0x100000001b3u;
	}
	/* The oldest snapshot has to give way when the cache is full. */
	if (ret == WT_ROLLBACK)
		return 0;
	if (ret != WT_NOTFOUND)
		must(ret, "reading", uri);
	must(cursor->reset(cursor), "resetting a cursor on", uri);
	return sum;
}

static size_t held_collections(const struct task *task)
{
	return task->catalog->count < HELD_COLLECTIONS ? task->catalog->count :
							  HELD_COLLECTIONS;
}

static WT_CURSOR *open_with(struct task *task, const char *uri,
			    const char *config)
{
	WT_CURSOR *cursor;
	int ret;

	/* A checkpoint that is being made keeps others from the table. */
	while ((ret = task->session->open_cursor(task->session, uri, NULL,
						 config, &cursor)) == EBUSY)
		give_way();
	must(ret, "opening", uri);
	return cursor;
}

static bool wait_for(struct task *task, unsigned int checkpoints)
{
	return checkpointer_wait(task->cp, checkpoints);
}

/* ---- checkpoints that are kept ---- */

/* Two looks at the checkpoint CONFIG names, with others made between. */
static void hold_checkpoint(struct task *task, const char *config,
			    unsigned int checkpoints)
{
	WT_CURSOR *cursor[HELD_COLLECTIONS];
	uint64_t sum[HELD_COLLECTIONS];
	size_t count = held_collections(task);
	struct collection **coll = task->catalog->collection;

	for (size_t i = 0; i < count; i++) {
		cursor[i] = open_with(task, coll[i]->uri, config);
		sum[i] = digest(cursor[i], coll[i]->uri);
	}
	wait_for(task, checkpoints);
	for (size_t i = 0; i < count; i++) {
		if (digest(cursor[i], coll[i]->uri) != sum[i])
			die("%s has changed in a checkpoint that was held (%s)",
			    coll[i]->ns, config);
		close_cursor(cursor[i]);
	}
}

static void hold_newest(struct task *task)
{
	hold_checkpoint(task, "checkpoint=WiredTigerCheckpoint", 2);
}

static void drop_named(struct task *task, const char *name)
{
	char config[64];
	int ret;

	text(config, sizeof(config), "drop=(\"%s\")", name);
	pthread_mutex_lock(&copies_lock);
	while ((ret = task->session->checkpoint(task->session, config)) == EBUSY)
		give_way();
	pthread_mutex_unlock(&copies_lock);
	must(ret, "dropping the checkpoint", name);
}

static void name_checkpoint(struct task *task)
{
	char config[64], name[32];

	text(name, sizeof(name), "held-%llu",
	     (unsigned long long)task->rounds % 2);
	text(config, sizeof(config), "name=%s", name);
	must(task->session->checkpoint(task->session, config), "making",
	     "a named checkpoint");
	text(config, sizeof(config), "checkpoint=%s", name);
	/* With cursors on it, and a while without. */
	hold_checkpoint(task, config, 1);
	wait_for(task, 1);
	hold_checkpoint(task, config, 1);
	drop_named(task, name);
}

/* ---- a snapshot that is kept: the history store has what was updated since ---- */

static void hold_snapshot(struct task *task)
{
	struct collection *coll = task->catalog->collection[0];
	WT_CURSOR *cursor;
	uint64_t before, after;

	must(task->session->begin_transaction(task->session,
					      "isolation=snapshot"),
	     "beginning a transaction on", coll->ns);
	cursor = open_cursor(task->session, coll->uri);
	before = digest(cursor, coll->uri);
	wait_for(task, 3);
	after = before ? digest(cursor, coll->uri) : 0;
	if (after && after != before)
		die("%s has changed in a snapshot", coll->ns);
	must(task->session->rollback_transaction(task->session, NULL),
	     "ending a transaction on", coll->ns);
	close_cursor(cursor);
}

/* ---- tables that come and go ---- */

static void scratch_uri(struct task *task, char *uri)
{
	static _Atomic uint64_t next = SCRATCH_FIRST;

	text(uri, URI_SIZE, "table:collection-%llu-%lld",
	     (unsigned long long)atomic_fetch_add(&next, 1),
	     (long long)(rng_next(&task->rng) >> 1));
}

static void make_document(struct task *task, uint8_t *doc, size_t size)
{
	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word = rng_next(&task->rng);

		memcpy(doc + i, &word, sizeof(word));
	}
}

/* CONFIG is that of the cursor: NULL or "bulk". */
static void fill(struct task *task, const char *uri, const char *config,
		 int64_t first, int64_t end)
{
	WT_CURSOR *cursor = open_with(task, uri, config);
	uint8_t doc[1024];
	WT_ITEM value = { .data = doc };

	for (int64_t key = first; key < end; key++) {
		value.size = 64 + 8 * rng_below(&task->rng, 100);
		make_document(task, doc, value.size);
		cursor->set_key(cursor, key);
		cursor->set_value(cursor, &value);
		must(cursor->insert(cursor), "filling", uri);
	}
	close_cursor(cursor);
}

static void create_scratch(struct task *task, char *uri)
{
	scratch_uri(task, uri);
	must(task->session->create(task->session, uri, SCRATCH_CONFIG),
	     "creating", uri);
}

static void drop(struct task *task, const char *uri)
{
	int ret;

	/*
	 * What was written since the last checkpoint keeps it, as does a page that was split
	 * when it was evicted: at the end no other comes.
	 */
	while ((ret = task->session->drop(task->session, uri, NULL)) == EBUSY)
		if (task->kind->alone || checkpointer_ended(task->cp))
			must(task->session->checkpoint(task->session, NULL),
			     "making", "a checkpoint");
		else
			give_way();
	must(ret, "dropping", uri);
}

/* Reads a table, and again after CHECKPOINTS, from the disk if it can. */
static void must_stay(struct task *task, const char *uri,
		      unsigned int checkpoints)
{
	WT_CURSOR *cursor = open_cursor(task->session, uri);
	uint64_t before = digest(cursor, uri), after;

	close_cursor(cursor);
	wait_for(task, checkpoints);
	cursor = open_cursor(task->session, uri);
	after = digest(cursor, uri);
	close_cursor(cursor);
	if (before != after)
		die("%s has changed, and nobody has written to it", uri);
}

static void load_in_bulk(struct task *task)
{
	char uri[URI_SIZE];

	create_scratch(task, uri);
	fill(task, uri, "bulk", 1, 1 + 4 * SCRATCH_DOCS);
	must_stay(task, uri, 1);
	drop(task, uri);
}

static void create_and_drop(struct task *task)
{
	char uri[SCRATCH_TABLES][URI_SIZE];

	for (int i = 0; i < SCRATCH_TABLES; i++) {
		create_scratch(task, uri[i]);
		fill(task, uri[i], NULL, 1, 1 + SCRATCH_DOCS);
	}
	/* Half before a checkpoint, half after it. */
	drop(task, uri[0]);
	drop(task, uri[1]);
	must_stay(task, uri[2], 1);
	drop(task, uri[2]);
	drop(task, uri[3]);
}

static void truncate_part(struct task *task, const char *uri, int64_t first,
			  int64_t last)
{
	WT_CURSOR *start = open_cursor(task->session, uri);
	WT_CURSOR *stop = open_cursor(task->session, uri);
	int ret;

	do {
		start->set_key(start, first);
		stop->set_key(stop, last);
		ret = task->session->truncate(task->session, NULL, start, stop,
					      NULL);
	} while (ret == WT_ROLLBACK);
	must(ret, "truncating", uri);
	close_cursor(start);
	close_cursor(stop);
}

static void truncate_and_fill(struct task *task)
{
	char uri[URI_SIZE];

	create_scratch(task, uri);
	fill(task, uri, NULL, 1, 1 + 4 * SCRATCH_DOCS);
	for (int round = 0; round < 3; round++) {
		int64_t first = 1 + (int64_t)rng_below(&task->rng,
						       2 * SCRATCH_DOCS);

		if (!wait_for(task, 1))
			break;
		truncate_part(task, uri, first, first + 2 * SCRATCH_DOCS - 1);
		must_stay(task, uri, 1);
		fill(task, uri, NULL, first, first + 2 * SCRATCH_DOCS);
	}
	/* The end of a file, which gets shorter */
	truncate_part(task, uri, SCRATCH_DOCS, 4 * SCRATCH_DOCS);
	must_stay(task, uri, 1);
	drop(task, uri);
}

/* Those of a run that was killed */
static void drop_leftovers(struct task *task)
{
	WT_CURSOR *metadata = open_cursor(task->session, "metadata:");
	char uri[256][URI_SIZE];
	size_t count = 0;
	const char *key;
	int ret;

	while (!(ret = metadata->next(metadata)) &&
	       !(ret = metadata->get_key(metadata, &key))) {
		unsigned long long number;

		if (sscanf(key, "table:collection-%llu-", &number) == 1 &&
		    number >= SCRATCH_FIRST && count < 256)
			text(uri[count++], URI_SIZE, "%s", key);
	}
	if (ret != WT_NOTFOUND)
		must(ret, "reading", "WiredTiger.wt");
	close_cursor(metadata);
	while (count--)
		drop(task, uri[count]);
}

/* ---- compaction ---- */

static void compact(struct task *task)
{
	struct catalog *catalog = task->catalog;

	if (!wait_for(task, 2))
		return;
	for (size_t i = 0; i < catalog->count; i++) {
		const char *uri = catalog->collection[i]->uri;
		int ret = task->session->compact(task->session, uri,
						 "timeout=20");

		/* It gives way to what else is done with the table. */
		if (ret != EBUSY && ret != ETIMEDOUT && ret != WT_ROLLBACK &&
		    ret != WT_CACHE_FULL)
			must(ret, "compacting", uri);
	}
}

/* ---- checkpoints of single files ---- */

static void path_of(const struct task *task, char *path, const char *name)
{
	text(path, PATH_SIZE, "%s/%s", task->catalog->engine->opt->dbpath,
	     name);
}

/* With the hook */
static void make_checkpoint(struct task *task)
{
	checkpointer_wait_for(task->cp, checkpointer_ask(task->cp));
}

static void checkpoint_by(struct task *task, const char *config)
{
	must(task->session->checkpoint(task->session, config), "making",
	     "a checkpoint");
}

/* The new turtle is beside the old one. */
static void wait_for_turtle(struct task *task, uint64_t checkpoint)
{
	char path[PATH_SIZE];

	path_of(task, path, "WiredTiger.turtle.set");
	while (access(path, F_OK) &&
	       !checkpointer_made(task->cp, checkpoint))
		usleep(1000);
}

/*
 * Changes documents, by a cursor that evicts their pages. A page that a checkpoint has written
 * in several blocks is split when it is evicted later, which changes the tree once more.
 */
static void change(struct task *task, const char *uri, WT_CURSOR *cursor,
		   int64_t count)
{
	uint8_t doc[SINGLE_BYTES];
	WT_ITEM value = { .data = doc, .size = sizeof(doc) };

	for (int64_t key = 1; key <= count; key++) {
		make_document(task, doc, sizeof(doc));
		cursor->set_key(cursor, key);
		cursor->set_value(cursor, &value);
		must(cursor->update(cursor), "changing", uri);
		must(cursor->reset(cursor), "evicting", uri);
	}
}

/*
 * Blocks that a turtle shows in use are freed by a checkpoint with CONFIG. The turtle of the
 * next one waits while the file "hold" is there (tests/discard/hold.c); what was freed
 * is written meanwhile. After the checkpoint of a single file these are the same blocks: the old
 * turtle has them in use, the new one has them free, and by then they are in use again. The hook
 * runs before the new turtle is there, too: whoever follows checkpoints sees the old one as late as
 * can be. That one has another table, and the list of this one's free blocks, which may be
 * gone by then, is known from the turtle before.
 */
static void take_before_turtle(struct task *task, const char *uri,
			       WT_CURSOR *cursor, const char *config)
{
	char hold[PATH_SIZE], other[URI_SIZE];
	uint64_t number;

	create_scratch(task, other);
	checkpoint_by(task, NULL);
	change(task, uri, cursor, SINGLE_DOCS);
	checkpoint_by(task, config);

	path_of(task, hold, "WiredTiger.turtle.hold");
	close_output(open_output(hold), hold);
	number = checkpointer_ask(task->cp);
	wait_for_turtle(task, number);
	change(task, uri, cursor, SINGLE_DOCS);
	run_hook("--on-checkpoint", task->cp->command);
	if (unlink(hold))
		die("cannot remove '%s': %s", hold, strerror(errno));
	checkpointer_wait_for(task->cp, number);
	drop(task, other);
}

static void checkpoint_with(struct task *task, bool single)
{
	char uri[URI_SIZE], config[URI_SIZE + 16];
	WT_CURSOR *cursor;

	create_scratch(task, uri);
	text(config, sizeof(config), "target=(\"%s\")", uri);
	cursor = open_with(task, uri, "debug=(release_evict=true)");
	for (int i = 0; i < 3; i++) {
		change(task, uri, cursor, SINGLE_DOCS);
		make_checkpoint(task);
	}
	take_before_turtle(task, uri, cursor, single ? config : NULL);
	/* Half of what was taken stays in use in two more. */
	for (int i = 0; i < 2; i++) {
		change(task, uri, cursor, SINGLE_DOCS / 2);
		make_checkpoint(task);
	}
	close_cursor(cursor);
	drop(task, uri);
}

static void checkpoint_single(struct task *task)
{
	checkpoint_with(task, true);
}

static void checkpoint_whole(struct task *task)
{
	checkpoint_with(task, false);
}

/* ---- copies ---- */

static void back_up(struct task *task)
{
	const char *copies = task->catalog->engine->opt->copies;

	copies_make(task->catalog->engine, task->session, copies, task->cp);
	wait_for(task, 1);
}

static void update_backup(struct task *task)
{
	const char *copies = task->catalog->engine->opt->copies;

	copies_update(task->catalog->engine, task->session, copies, task->cp);
	wait_for(task, 1);
}

/* ---- all of them ---- */

static const struct kind kinds[KINDS] = {
	{ .name = "backup", .round = back_up, .copies = true },
	{ .name = "bulk", .round = load_in_bulk },
	{ .name = "compact", .round = compact },
	{ .name = "cursors", .round = hold_newest },
	{ .name = "drops", .round = create_and_drop },
	{ .name = "history", .round = hold_snapshot },
	{ .name = "incremental", .round = update_backup, .copies = true,
	  .newer = true },
	{ .name = "named", .round = name_checkpoint },
	{ .name = "targets", .round = checkpoint_single, .newer = true,
	  .alone = true },
	{ .name = "truncate", .round = truncate_and_fill },
	{ .name = "whole", .round = checkpoint_whole, .newer = true,
	  .alone = true },
};

static const struct kind *find_kind(const char *name, size_t len)
{
	for (int i = 0; i < KINDS; i++)
		if (strlen(kinds[i].name) == len &&
		    !memcmp(kinds[i].name, name, len))
			return &kinds[i];
	return NULL;
}

/* The next of a list of names with commas between; NULL at its end. */
static const struct kind *next_kind(const char **names)
{
	size_t len = strcspn(*names, ",");
	const struct kind *kind = find_kind(*names, len);

	*names += len;
	*names += **names == ',';
	return kind;
}

void beside_check(const char *names, const char *copies)
{
	const struct kind *alone = NULL;

	for (const char *at = names; at && *at;) {
		const char *name = at;
		const struct kind *kind = next_kind(&at);

		if (!kind)
			usage_error("--beside '%.*s' is none of backup, bulk, compact, cursors, drops, history, incremental, named, targets, truncate, whole",
				    (int)strcspn(name, ","), name);
		if (kind->newer && !copies_can_update())
			usage_error("--beside %s needs WiredTiger 10, and this is %s",
				    kind->name, WIREDTIGER_VERSION_STRING);
		if (kind->copies && !copies)
			usage_error("--beside %s needs --copies, the directory for what it copies",
				    kind->name);
		if (alone && kind->alone)
			usage_error("--beside %s and %s exclude each other: both hold the turtle",
				    alone->name, kind->name);
		if (kind->alone)
			alone = kind;
	}
}

static void *task_main(void *arg)
{
	struct task *task = arg;

	do {
		task->kind->round(task);
		task->rounds++;
	} while (!checkpointer_ended(task->cp));
	return NULL;
}

struct beside *beside_start(const char *names, struct checkpointer *cp)
{
	struct beside *beside;
	const struct kind *kind;

	if (!names || !*names)
		return NULL;
	beside = xalloc(1, sizeof(*beside));
	beside->cp = cp;
	while (*names && beside->count < KINDS &&
	       (kind = next_kind(&names))) {
		struct task *task = &beside->task[beside->count++];

		task->kind = kind;
		task->cp = cp;
		task->catalog = cp->catalog;
		task->session = engine_session(cp->catalog->engine);
		rng_seed(&task->rng, cp->catalog->engine->opt->seed ^ now_ns());
	}
	drop_leftovers(&beside->task[0]);
	for (unsigned int i = 0; i < beside->count; i++)
		if (pthread_create(&beside->task[i].thread, NULL, task_main,
				   &beside->task[i]))
			die("cannot start what is done beside the clients");
	return beside;
}

void beside_stop(struct beside *beside)
{
	if (!beside)
		return;
	checkpointer_end_waits(beside->cp);
	for (unsigned int i = 0; i < beside->count; i++) {
		struct task *task = &beside->task[i];

		pthread_join(task->thread, NULL);
		session_close(task->session);
		printf("beside: %s, %llu times\n", task->kind->name,
		       (unsigned long long)task->rounds);
	}
	free(beside);
}
