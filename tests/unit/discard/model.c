// SPDX-License-Identifier: GPL-2.0-only
/*
 * The world around the target, and any order of what can happen in it.
 */
#include <unistd.h>

#include "model.h"

struct world w;
struct counts counts;
char reply[2048];
int answer;

/* The transcript */

static char notes[48][256];
static unsigned int nr_notes;
char where[64];

void note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(notes[nr_notes++ % 48], sizeof(notes[0]), format, args);
	va_end(args);
}

void shim_bug(const char *format, ...)
{
	va_list args;

	for (unsigned int i = nr_notes > 48 ? nr_notes - 48 : 0; i < nr_notes; i++)
		printf("# %s\n", notes[i % 48]);
	printf("not ok - unit: discards: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("%s\n", where);
	fflush(stdout);
	_exit(1);
}

/* The device below */

static bool has_tags(void *arg)
{
	return !w.no_tags;
}

void submit_bio(struct bio *bio)
{
	struct flying *x = calloc(1, sizeof(*x));

	if (bio_op(bio) != REQ_OP_DISCARD)
		shim_bug("the worker submits %#x", bio->bi_opf);
	x->bio = bio;
	x->start = bio->bi_iter.bi_sector - w.start;
	x->end = x->start + bio_sectors(bio);
	note("discard %llu:%llu", x->start, x->end - x->start);
	oracle_send(x);
	x->next = w.flying;
	w.flying = x;
	w.sent++;
	counts.sent++;
	w.submitting++;
	shim_sleep();
	wait_until(has_tags, NULL);
	w.submitting--;
}

static void run_end(void *arg)
{
	struct flying *x = arg;
	blk_status_t status = x->bio->bi_status;
	bool unsupported = status == BLK_STS_NOTSUPP;
	u64 began = unsupported ? oracle_stop_begins() : 0;

	if (status) {
		oracle_failed(x);
		counts.failed++;
	}
	x->bio->bi_end_io(x->bio);
	if (unsupported)
		oracle_unsupported(began);
	free(x);
}

bool end_discard(unsigned int which, blk_status_t status)
{
	struct flying **at = &w.flying, *x;

	while (*at && which--)
		at = &(*at)->next;
	x = *at;
	if (!x)
		return false;
	note("discard %llu:%llu ends: %d", x->start, x->end - x->start, status);
	*at = x->next;
	x->bio->bi_status = status;
	spawn(run_end, x);
	return true;
}

/* Writes */

static void pass(struct write *write)
{
	note("write %llu:%llu passes", write->start, write->end - write->start);
	if (write->bio.bi_iter.bi_sector != w.start + write->start ||
	    bio_sectors(&write->bio) != write->end - write->start)
		shim_bug("a write goes elsewhere");
	if (write->passed)
		shim_bug("a write is sent twice");
	for (struct write *other = w.writes; other; other = other->next)
		if (other->held && !other->passed && other->start == write->start &&
		    other->end == write->end && other->mapped < write->began && write->held)
			shim_bug("a write of %llu:%llu overtakes another", write->start,
				 write->end - write->start);
	if (write->end > write->start)
		oracle_pass(write);
	write->passed = true;
}

void dm_submit_bio_remap(struct bio *bio, struct bio *target)
{
	pass(container_of(bio, struct write, bio));
	shim_sleep();
	wait_until(has_tags, NULL);
}

void bio_wouldblock_error(struct bio *bio)
{
	struct write *write = container_of(bio, struct write, bio);

	if (!(bio->bi_opf & REQ_NOWAIT))
		shim_bug("a write fails");
	write->refused = true;
}

void dm_accept_partial_bio(struct bio *bio, unsigned int sectors)
{
	struct write *write = container_of(bio, struct write, bio);

	write->end = write->start + sectors;
	bio->bi_iter.bi_size = sectors << SECTOR_SHIFT;
}

static bool may_map(void *arg)
{
	return !w.blocked;
}

static bool is_sent(void *arg)
{
	const struct write *write = arg;

	return write->passed || write->refused;
}

static void run_write(void *arg)
{
	struct write *write = arg, **at = &w.writes;
	blk_opf_t op = write->bio.bi_opf;
	int r;

	wait_until(may_map, NULL);
	w.in_flight++;
	oracle_map(write);
	r = dsm_target.map(&w.ti, &write->bio);
	oracle_mapped(write);
	if (r == DM_MAPIO_REMAPPED) {
		pass(write);
	} else {
		note("write %llu:%llu is held", write->start, write->end - write->start);
		write->held = true;
		counts.held++;
		wait_until(is_sent, write);
	}
	if (write->end < write->whole_end)
		write_sectors(write->end, write->whole_end - write->end, op);
	while (*at != write)
		at = &(*at)->next;
	*at = write->next;
	w.in_flight--;
	free(write);
}

void write_sectors(u64 start, u64 sectors, blk_opf_t op)
{
	struct write *write = calloc(1, sizeof(*write));

	note("write %llu:%llu (%#x)", start, sectors, op);
	write->start = start;
	write->end = write->whole_end = start + sectors;
	write->bio.bi_opf = op;
	write->bio.bi_iter.bi_sector = start;
	write->bio.bi_iter.bi_size = sectors << SECTOR_SHIFT;
	write->next = w.writes;
	w.writes = write;
	spawn(run_write, write);
}

/* Messages */

static void *waiting[MAX_TASKS];	/* ops in tasks of their own, which may wait */

void model_waits(void *arg)
{
	for (int i = 0; i < MAX_TASKS; i++)
		if (arg && waiting[i] == arg)
			oracle_op_waits(arg);
}

/* Sends a message, of which the oracle frees what it does not keep. */
static int send_op(struct op *op)
{
	char *words = strdup(op->text), *rest = words, **argv;
	unsigned int most = strlen(words) / 2 + 2, argc = 0;
	unsigned int suspends = w.suspends;
	u64 before = starved;
	int r;

	argv = calloc(most, sizeof(*argv));
	while (rest)
		argv[argc++] = strsep(&rest, " ");

	note("'%.160s'", op->text);
	w.messages++;
	oracle_op(op);
	r = dsm_target.message(&w.ti, argc, argv, op->reply, sizeof(op->reply));
	w.messages--;
	if (suspends != w.suspends && w.before)
		w.before--;
	free(words);
	free(argv);
	if (r <= 0)
		*op->reply = 0;
	note("'%.60s' answers %d '%.160s'", op->text, r, op->reply);
	op->r = answer = min(r, 0);
	op->starved = starved != before;
	strcpy(reply, op->reply);
	oracle_op_done(op);
	return min(r, 0);
}

static struct op *new_op(const char *text)
{
	struct op *op = calloc(1, sizeof(*op));

	op->text = strdup(text);
	return op;
}

/* Of these, and of commits, there is one at a time. */
static bool is_exclusive(const char *text)
{
	return !strcmp(text, "window") || !strncmp(text, "set discard_", 12);
}

static void run_op(void *arg)
{
	bool exclusive = is_exclusive(((struct op *)arg)->text);
	int slot = 0;

	while (waiting[slot])
		slot++;
	waiting[slot] = arg;
	send_op(arg);
	waiting[slot] = NULL;
	if (exclusive)
		w.exclusive = false;
}

static void vtell(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		abort();
	if (is_exclusive(text))
		w.exclusive = true;
	spawn(run_op, new_op(text));
	free(text);
}

void tell(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vtell(format, args);
	va_end(args);
}

int say(const char *format, ...)
{
	va_list args;

	answer = 1;	/* it waits */
	va_start(args, format);
	vtell(format, args);
	va_end(args);
	go_on();
	return answer;
}

/* A table that needs the bits of these chunks; a commit and a window do not overlap. */
static void run_commit(void *arg)
{
	char text[400] = "begin full", *end = text;
	unsigned int chunks = (uintptr_t)arg;
	unsigned long long number;

	snprintf(text, sizeof(text), "begin full %llu", w.ti.len);
	if (send_op(new_op(text)) || sscanf(reply, "upload %llu", &number) != 1)
		goto out;
	end += sprintf(text, "upload %llu", number);
	for (unsigned int i = 0; i < 16; i++)
		if (chunks & 1 << i && (i + 1) * CHUNK <= w.ti.len)
			end += sprintf(end, " file %u %s - 0:%u:%u", i + 1,
				       i % 2 ? "journal" : "collection", i * CHUNK + 8, 64);
	if (strstr(text, "file") && send_op(new_op(text)))
		goto out;
	snprintf(text, sizeof(text), "commit %llu", number);
	if (send_op(new_op(text)))
		goto out;
	for (unsigned int i = 0; i < 16; i++)
		w.chunk[i] = chunks & 1 << i && (i + 1) * CHUNK <= w.ti.len;
out:
	w.exclusive = false;
}

void map_chunks(unsigned int chunks)
{
	w.exclusive = true;
	spawn(run_commit, (void *)(uintptr_t)chunks);
}

static void run_status(void *arg)
{
	dsm_target.status(&w.ti, STATUSTYPE_INFO, 0, reply, sizeof(reply));
}

void status(void)
{
	spawn(run_status, NULL);
	go_on();
}

static void run_ioctl(void *arg)
{
	struct block_device *bdev;
	bool forward;
	u64 began = oracle_stop_begins();

	note("ioctl");
	counts.ioctls++;
	dsm_target.prepare_ioctl(&w.ti, &bdev, 0, 0, &forward);
	oracle_stop_done(began);
}

void passed_ioctl(void)
{
	spawn(run_ioctl, NULL);
}

/* As dm suspends */

static bool is_quiet(void *arg)
{
	return !w.in_flight && !w.before;
}

static void run_suspend(void *fails)
{
	u64 began = oracle_stop_begins();

	note("suspend");
	dsm_target.presuspend(&w.ti);
	oracle_stop_done(began);
	began = oracle_stop_begins();
	w.blocked = true;
	w.suspends++;
	w.before = w.messages;
	if (fails) {
		for (int i = rnd(20); i; i--)
			shim_sleep();
		note("suspend fails");
		counts.undone++;
		dsm_target.presuspend_undo(&w.ti);
	} else {
		wait_until(is_quiet, NULL);
		dsm_target.postsuspend(&w.ti);
		note("suspended");
		if (w.flying)
			shim_bug("a discard is in flight in suspend");
		w.suspended = true;
	}
	w.blocked = w.suspended;
	w.suspending = false;
	oracle_stop_done(began);
}

void suspend(bool fails)
{
	w.suspending = true;
	spawn(run_suspend, (void *)(uintptr_t)fails);
}

static void run_resume(void *arg)
{
	u64 began = oracle_stop_begins();

	note("resume");
	dsm_target.resume(&w.ti);
	w.suspended = w.blocked = w.suspending = false;
	oracle_stop_done(began);
}

void resume(void)
{
	w.suspending = true;
	spawn(run_resume, NULL);
}

/* Life */

static struct dm_dev dev = { &w.bdev, "model" };

const char *dm_shift_arg(struct dm_arg_set *as)
{
	as->argc--;
	return *as->argv++;
}

int dm_read_arg_group(const struct dm_arg *arg, struct dm_arg_set *as, unsigned int *nr,
		      char **error)
{
	*nr = atoi(dm_shift_arg(as));
	return 0;
}

int dm_get_device(struct dm_target *ti, const char *path, unsigned int mode, struct dm_dev **found)
{
	*found = &dev;
	return 0;
}

void dm_put_device(struct dm_target *ti, struct dm_dev *found)
{
}

void dm_table_event(struct dm_table *table)
{
}

static int made;

static void run_make(void *arg)
{
	char start[24], *argv[] = { "dev", start, "2", "discard", arg };

	snprintf(start, sizeof(start), "%llu", w.start);
	made = dsm_target.ctr(&w.ti, 5, argv);
	if (!made)
		dsm_target.resume(&w.ti);
}

void make(const struct geometry *g, const char *mode)
{
	memset(&w, 0, sizeof(w));
	w.ti.len = g->len;
	w.ti.type = &dsm_target;
	w.start = g->start;
	w.bdev = (struct block_device) {
		.queue.limits.discard_alignment = g->alignment, .block = g->block,
		.granularity = g->granularity, .max_discard = g->max, .first = g->first,
		.sectors = g->start + g->len,
	};
	note("target of %llu sectors from %llu, granularity %u, block %u, most %u, %s", g->len,
	     g->start, g->granularity, g->block, g->max, mode);
	spawn(run_make, (void *)mode);
	go_on();
	if (made) {	/* without memory */
		if (allocated)
			shim_bug("a target that cannot be made leaves %ld bytes", allocated);
		tuning.no_memory = 0;
		spawn(run_make, (void *)mode);
		go_on();
	}
	oracle_begin(!strcmp(mode, "on") ? ON : !strcmp(mode, "watch") ? WATCH : OFF);
}

static void run_destroy(void *arg)
{
	dsm_target.dtr(&w.ti);
}

void destroy(void)
{
	settle();
	suspend(false);
	settle();
	spawn(run_destroy, NULL);
	go_on();
	if (running() || works_wait())
		shim_bug("a target that goes away leaves work");
	if (allocated)
		shim_bug("a target that goes away leaves %ld bytes", allocated);
	oracle_end();
}

void go_on(void)
{
	while (run_some() || start_work())
		;
}

void settle(void)
{
	struct tuning before = tuning;

	tuning.no_memory = 0;
	w.no_tags = false;
	for (unsigned int i = 0; running() || w.flying || works_wait(); i++) {
		if (i == 1000000 || (!run_some() && !start_work() && !end_discard(0, BLK_STS_OK))) {
			if (!w.suspended || w.suspending)
				shim_bug("%d tasks wait for ever", running());
			resume();
		}
	}
	tuning = before;
}
