// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: stress SECONDS [wrong]
 *
 * Lets fio write to a dsm device and verify what it has written, while several threads
 * do to the device all that can be done to it, as fast as it goes.  In rounds, each
 * with a new device, of three modes:
 *
 * steady   tables are uploaded (in full, in part, and aborted half-way), checkpoints
 *          and changes of parameters come, the device is suspended, the number of
 *          streams of the disk changes; every count must be exact
 * resets   as well as that the counters of the status line are reset; those of the
 *          regions must be exact
 * reloads  the table line is reloaded, two threads upload at the same time, and
 *          another device comes and goes while messages come for it; the counts are
 *          lost, as documented
 *
 * fio and two threads write to the first half of the device.  A few files that stay divide it among
 * them in ever other ways, others come and go in the third quarter.
 *
 * In the last quarter two threads play a database: they write pages, need them for a
 * while, and free them.  A third one begins windows and discards what is free, while the
 * disk fills what it discards with garbage, and takes its time.  What is needed
 * must never read as something else. With "wrong", what is needed is discarded as well,
 * which has to be found.
 *
 * With DISK=NAME in the environment the device lies on that disk, of Debian's kernels in a
 * VM. Its streams do not change then, it is sent what the block layer counts, and reads as
 * zeroes where it was discarded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dm.h"

#define NAME "stress"
#define SECTORS 65536UL
#define UNIT 128UL		/* of the division, in sectors */
#define NR_UNITS 256		/* in the first half */
#define NR_FILES 12
#define GAP (-1)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static enum mode { STEADY, RESETS, RELOADS } mode;
static const char * const mode_name[] = { "steady", "resets", "reloads" };
static int data_fd;
static volatile bool done;
static volatile int calm;	/* ms: what ends windows rests so long at most, so that discards come between */
static pid_t fio;		/* 0: it does not run */
/* Whoever suspends the device holds it: no process ends whose writes wait for a resume. */
static pthread_mutex_t suspended = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

static void __attribute__((noreturn, format(printf, 1, 2))) stop(const char *why, ...)
{
	va_list args;

	pthread_mutex_lock(&suspended);	/* or it is ours */
	dm_resume(NAME);
	printf("not ok - uml: stress, %s: ", mode_name[mode]);
	va_start(args, why);
	vprintf(why, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	if (fio > 0)
		kill(fio, SIGKILL);
	_exit(1);
}

/* Each thread has its own numbers. */
static __thread unsigned int seed;

static unsigned int below(unsigned int limit)
{
	return rand_r(&seed) % limit;
}

static void rest(unsigned int least_ms, unsigned int most_ms)
{
	usleep(1000 * (least_ms + below(most_ms - least_ms + 1)));
}

/* What is refused in the midst of reloads may be so rightly. */
static bool send_message(const char *message, char *reply)
{
	static __thread char error[DM_REPLY];
	int r = dm_message(NAME, message, reply);

	if (!r)
		return true;
	if (mode == RELOADS && (r == -EINVAL || r == -ENOENT || r == -EEXIST || r == -ENXIO ||
				r == -ESTALE))
		return false;
	dm_message(NAME, "error", error);
	stop("'%.100s' was refused with %s: %s", message, strerror(-r), error);
}

/* Uploads */

static const char * const classes[] = {
	"collection", "collection", "index", "index", "primary", "journal", "oplog", "other",
};

/* Whose each unit is, and from where on in the file. */
struct division {
	int owner[NR_UNITS];
	unsigned int place[NR_UNITS];
	int class[NR_FILES];
	long boundary[NR_FILES];	/* in units; -1: none */
};

/* Without a boundary, "regions" would not list what was counted above it. */
static void divide(struct division *d, int file)
{
	d->class[file] = below(ARRAY_SIZE(classes));
	d->boundary[file] = file % 4 ? (long)below(NR_UNITS) : -1;
}

/* Neighbours often belong to one file, but its offsets are not in order. */
static void divide_all(struct division *d)
{
	for (int i = 0; i < NR_UNITS; i++) {
		d->place[i] = i * 7919 % NR_UNITS;
		if (i && below(2))
			d->owner[i] = d->owner[i - 1];
		else
			d->owner[i] = mode == STEADY && !below(5) ? GAP : (int)below(NR_FILES);
	}
	for (int file = 0; file < NR_FILES; file++)
		divide(d, file);
}

/* Two files exchange units, and get other classes and boundaries. */
static void divide_two(struct division *d, int one, int other)
{
	for (int i = 0; i < NR_UNITS; i++)
		if (d->owner[i] == one || d->owner[i] == other)
			d->owner[i] = below(2) ? one : other;
	divide(d, one);
	divide(d, other);
}

/* A file in one to three messages. */
static bool send_file(const struct division *d, int file)
{
	char message[8192];
	int length, last = -1;

	length = sprintf(message, "upload # file %d %s ", file + 1, classes[d->class[file]]);
	if (d->boundary[file] < 0)
		length += sprintf(message + length, "-");
	else
		length += sprintf(message + length, "%ld", d->boundary[file] * (long)UNIT * 512);

	for (int i = 0; i < NR_UNITS; i++) {
		if (d->owner[i] != file)
			continue;
		if (last >= 0 && !below(20)) {
			if (!send_message(message, NULL))
				return false;
			length = sprintf(message, "upload # extents");
		}
		length += sprintf(message + length, " %lu:%lu:%lu", d->place[i] * UNIT, i * UNIT,
				  UNIT);
		last = i;
	}
	return send_message(message, NULL);
}

/* Files that come and go where nobody writes. */
static bool send_visitors(bool full)
{
	static __thread unsigned int there;
	char message[256];

	if (!full && there) {
		snprintf(message, sizeof(message), "upload # drop %u", 1000 + there);
		if (mode != RELOADS && !send_message(message, NULL))
			return false;
	}
	there = 1 + (there + 1 + below(500)) % 1000;	/* not the same */
	snprintf(message, sizeof(message), "upload # file %u other 4096 0:%lu:%lu", 1000 + there,
		 SECTORS / 2 + UNIT * below(NR_UNITS / 2), UNIT);
	return send_message(message, NULL);
}

static bool send_upload(const struct division *d, bool full, int one, int other)
{
	char message[64], reply[DM_REPLY];

	snprintf(message, sizeof(message), "begin %s %lu%s", full ? "full" : "update", SECTORS,
		 full ? "" : " $");
	if (!send_message(message, NULL))
		return false;
	for (int file = 0; file < NR_FILES; file++)
		if ((full || file == one || file == other) && !send_file(d, file))
			return false;
	if (!send_visitors(full))
		return false;
	if (!send_message("commit #", reply))
		return false;
	if (strncmp(reply, "generation ", 11))
		stop("the reply to commit is '%s'", reply);
	return true;
}

/* An upload that ends in nothing, in one of the ways there are. */
static void send_half(void)
{
	struct division d;
	char message[64];

	divide_all(&d);
	snprintf(message, sizeof(message), "begin full %lu", SECTORS);
	if (!send_message(message, NULL) || !send_file(&d, 0))
		return;
	switch (below(3)) {
	case 0:
		send_message("abort #", NULL);
		break;
	case 1:
		dm_message(NAME, "upload # file 1 nonsense -", NULL);
		break;
	case 2:
		break;		/* the next begin ends it */
	}
}

static void upload(void)
{
	static __thread struct division d;
	static __thread bool sent;
	struct division next = d;
	int one = below(NR_FILES), other = below(NR_FILES);
	bool full = !sent || mode == RELOADS || !below(3);

	if (!below(4)) {
		send_half();
		return;
	}
	if (full)
		divide_all(&next);
	else
		divide_two(&next, one, other);
	if (send_upload(&next, full, one, other)) {
		d = next;
		sent = true;
	}
	if (calm)
		rest(0, calm);
}

/* Other things */

static void checkpoint(void)
{
	char reply[DM_REPLY];

	if (send_message("checkpoint", reply) && strncmp(reply, "window ", 7))
		stop("the reply to checkpoint is '%s'", reply);
	rest(0, 20);
}

static void set(void)
{
	static const char * const features[] = {
		"policy none", "policy file", "policy boundary", "policy dsm", "policy life",
		"groups 2", "groups 3", "groups 16", "alpha auto", "alpha 64", "prediction off",
		"prediction predicted", "prediction computed", "prediction literal", "range written", "range region",
		"primary_filter on", "primary_filter off", "threshold1 0", "threshold1 20000",
		"threshold2 0", "threshold2 10000", "streams auto", "streams 2", "streams 6",
		"streams 200", "stream_base 1", "stream_base 3", "stream_base 200", "hints on",
		"hints off", "foreign keep", "foreign override", "discard off", "discard on",
		"discard on", "discard on", "discard on", "discard_granularity 131072",
		"discard_granularity 65536", "discard_granularity auto",
		"discard_alignment 4096", "discard_alignment auto",
	};
	char message[64];

	/* Discards are on, and nothing ends their windows. */
	if (calm) {
		rest(0, 100);
		return;
	}
	snprintf(message, sizeof(message), "set %s",
		 features[below(sizeof(features) / sizeof(features[0]))]);
	send_message(message, NULL);
	rest(0, 20);
}

static void show(void)
{
	char line[DM_REPLY];

	if (dm_status(NAME, line) || strncmp(line, "version 1 ", 10))
		stop("the status is '%s'", line);
	if (dm_table(NAME, line))
		stop("there is no table line");
	send_message("regions", line);
	send_message("error", line);
	rest(0, 20);
}

static void reset(void)
{
	send_message("reset", NULL);
	rest(0, calm ? calm : 30);
}

/* What the disk below takes may change while no write is in flight. */
static void set_disk_streams(unsigned int streams)
{
	char number[16];
	int length = snprintf(number, sizeof(number), "%u", streams);
	int fd;

	if (getenv("DISK"))
		return;
	fd = open("/sys/module/streamdisk/parameters/streams", O_WRONLY);
	if (fd < 0 || write(fd, number, length) != length)
		stop("the disk does not take %u streams", streams);
	close(fd);
}

static void suspend(void)
{
	static const unsigned int streams[] = { 8, 8, 16, 255, 3, 1, 0 };

	pthread_mutex_lock(&suspended);
	if (dm_suspend(NAME, below(2) ? DM_NOFLUSH_FLAG : DM_SKIP_LOCKFS_FLAG))
		stop("the device cannot be suspended");
	if (below(2))
		set_disk_streams(streams[below(7)]);
	rest(0, 10);
	if (dm_resume(NAME))
		stop("the device cannot be resumed");
	pthread_mutex_unlock(&suspended);
	rest(20, calm ? calm : 200);
}

static void reload(void)
{
	static const char * const policies[] = { "file", "dsm", "life" };
	char line[160], features[96];

	snprintf(features, sizeof(features), "groups %u policy %s discard on discard_granularity %u",
		 2 + below(15), policies[below(ARRAY_SIZE(policies))], 4096 << below(5));
	dm_line(line, sizeof(line), 0, features);
	if (dm_load(NAME, SECTORS, line))
		stop("'%s' cannot be loaded", line);
	if (!below(4))
		dm_clear(NAME);
	if (dm_resume(NAME))
		stop("the device cannot be resumed");
	rest(20, calm ? calm : 200);
}

/* By us, in sectors. */
static unsigned long written, written_to_another;

#define WRITE_FROM 28672UL	/* fio writes up to here, we up to the middle */
#define WRITE_MOST 128UL

/*
 * fio spends its time on checksums.  This makes it likely that a write is in flight
 * when a table goes.
 */
static void write_much(void)
{
	static __thread void *data;
	unsigned long length = 8 * (1 + below(WRITE_MOST / 8));
	unsigned long at = WRITE_FROM + 8 * below((SECTORS / 2 - WRITE_FROM - WRITE_MOST) / 8);

	if (!data) {
		data = aligned_alloc(4096, WRITE_MOST * 512);
		memset(data, 0, WRITE_MOST * 512);
	}
	if (pwrite(data_fd, data, length * 512, at * 512) != (ssize_t)(length * 512))
		stop("a write failed: %s", strerror(errno));
	__atomic_add_fetch(&written, length, __ATOMIC_RELAXED);
}

/* A database that frees pages */

#define PAGES_FROM 49152UL	/* in sectors */
#define NR_PAGES 2048		/* one half for each thread */
#define MOST_PAGES 8		/* that are written at once */

static enum page_state { FREE, WRITTEN, NEEDED } page_state[NR_PAGES];
static unsigned int page_version[NR_PAGES];
static unsigned long written_pages;	/* in sectors */

static void fill_page(unsigned int *data, unsigned int page)
{
	for (int i = 0; i < 1024; i += 2) {
		data[i] = page;
		data[i + 1] = page_version[page];
	}
}

static void check_page(unsigned int page, unsigned int *data, unsigned int *wanted)
{
	if (pread(data_fd, data, 4096, (PAGES_FROM + 8 * page) * 512) != 4096)
		stop("a page cannot be read: %s", strerror(errno));
	fill_page(wanted, page);
	if (memcmp(data, wanted, 4096))
		stop("page %u is lost: it was written as version %u, and reads %.8s %u %u", page,
		     page_version[page], (char *)data, data[0], data[1]);
}

static void write_pages(unsigned int page, unsigned int nr, unsigned int *data)
{
	for (unsigned int i = 0; i < nr; i++) {
		__atomic_store_n(&page_state[page + i], WRITTEN, __ATOMIC_SEQ_CST);
		page_version[page + i]++;
		fill_page(data + 1024 * i, page + i);
	}
	if (pwrite(data_fd, data, 4096 * nr, (PAGES_FROM + 8 * page) * 512) != 4096 * nr)
		stop("pages cannot be written: %s", strerror(errno));
	__atomic_add_fetch(&written_pages, 8 * nr, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < nr; i++)
		page_state[page + i] = NEEDED;
}

static void play_database(void)
{
	static unsigned int threads;
	static __thread unsigned int *data, *wanted, first;
	unsigned int page, nr = 1 + below(MOST_PAGES);

	if (!data) {
		data = aligned_alloc(4096, 4096 * MOST_PAGES);
		wanted = aligned_alloc(4096, 4096);
		first = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % 2 * (NR_PAGES / 2);
	}
	page = first + below(NR_PAGES / 2 - MOST_PAGES);
	for (unsigned int i = page; i < page + nr; i++)
		if (page_state[i] == NEEDED)
			check_page(i, data, wanted);
	if (below(3)) {
		for (unsigned int i = page; i < page + 4 * nr && i < first + NR_PAGES / 2; i++)
			if (page_state[i] == NEEDED)
				__atomic_store_n(&page_state[i], FREE, __ATOMIC_SEQ_CST);
	} else {
		write_pages(page, nr, data);
	}
}

/* All that is free now, what is asked for in pieces among it. */
static void discard_free(void)
{
	static char message[65536], reply[DM_REPLY];
	unsigned long window;
	int r, length, nr = 0;

	if (!below(20))		/* it may be off */
		dm_message(NAME, "forget", reply);
	r = dm_message(NAME, "window", reply);
	if (!r && sscanf(reply, "window %lu", &window) != 1)
		stop("the reply to window is '%s'", reply);
	if (!r) {
		rest(0, 5);
		length = sprintf(message, "discard %lu", window);
		for (int i = 0, end; i < NR_PAGES; i = end + 1) {
			for (end = i; end < NR_PAGES && end < i + 64 &&
			     !__atomic_load_n(&page_state[end], __ATOMIC_SEQ_CST); end++)
				;
			if (end > i && ++nr)
				length += sprintf(message + length, " %lu:%d", PAGES_FROM + 8UL * i,
						  8 * (end - i));
		}
		r = nr ? dm_message(NAME, message, reply) : 0;
	}
	/* off, suspended, or suspended in between */
	if (r && r != -EINVAL && r != -EBUSY && r != -ESTALE && r != -ENXIO)
		stop("discards were refused with %s", strerror(-r));
	rest(0, 10);
}

/* A page that is needed, which is not the target's to prevent. */
static void discard_wrongly(void)
{
	unsigned int page = below(NR_PAGES);
	uint64_t range[2] = { (PAGES_FROM + 8 * page) * 512, 4096 };

	if (__atomic_load_n(&page_state[page], __ATOMIC_SEQ_CST) == NEEDED)
		ioctl(data_fd, BLKDISCARD, range);
	rest(0, 10);
}

/* Of the columns of a disk's "stat", by their number from 0 */
enum { SECTORS_WRITTEN = 6, SECTORS_DISCARDED = 13 };

static unsigned long disk_stat(int column)
{
	unsigned long n[SECTORS_DISCARDED + 1];
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", dm_disk());
	file = fopen(path, "r");
	for (int i = 0; i <= column; i++)
		if (!file || fscanf(file, "%lu", &n[i]) != 1)
			stop("%s has no column %d", path, i);
	fclose(file);
	return n[column];
}

static unsigned long discarded_by_disk(void)
{
	unsigned long sectors;
	FILE *file;

	if (getenv("DISK"))
		return disk_stat(SECTORS_DISCARDED);
	file = fopen("/sys/kernel/debug/streamdisk/discards", "r");
	if (!file || fscanf(file, "%*u %lu", &sectors) != 1)
		stop("the disk does not show its discards");
	fclose(file);
	return sectors;
}

/* Another device, on the same disk but not where the first one is. */
static void another(void)
{
	char line[128], path[32];
	unsigned int minor;
	void *page = aligned_alloc(4096, 4096);
	int fd, r;

	memset(page, 0, 4096);
	dm_line(line, sizeof(line), SECTORS, "");
	if (dm_create("another", &minor) || dm_load("another", SECTORS, line) ||
	    dm_resume("another"))
		stop("another device cannot be made");
	snprintf(line, sizeof(line), "begin full %lu", SECTORS);
	if (dm_message("another", line, NULL) ||
	    dm_message("another", "upload # file 1 index 4096 0:0:16", NULL) ||
	    (below(2) && dm_message("another", "commit #", NULL)))
		stop("another device does not take a table");

	snprintf(path, sizeof(path), "/dev/dm-%u", minor);
	fd = open(path, O_RDWR | O_DIRECT);
	if (fd < 0 || pwrite(fd, page, 4096, 4096) != 4096)
		stop("another device cannot be written to");
	written_to_another += 8;
	close(fd);
	free(page);
	for (int tries = 0; (r = dm_remove("another")) == -EBUSY && tries < 100; tries++)
		usleep(10000);
	if (r)
		stop("another device cannot be removed: %s", strerror(-r));
	rest(0, 100);
}

/* Messages for the other device, whether it is there, half there, or going. */
static void pester(void)
{
	static const char * const messages[] = {
		"checkpoint", "regions", "reset", "set policy boundary", "set policy dsm",
		"set streams 4", "set streams auto", "error",
	};
	static char reply[DM_REPLY];
	int r = dm_message("another", messages[below(ARRAY_SIZE(messages))], reply);

	if (r && r != -ENXIO && r != -EINVAL)	/* it has no table yet */
		stop("the other device answers a message with %s", strerror(-r));
	if (!below(4))
		dm_status("another", reply);
	rest(0, 2);
}

/* Threads */

static struct worker {
	const char *what;
	void (*act)(void);
	int modes;		/* in which it takes part */
	unsigned long times;
	pthread_t thread;
} workers[] = {
	{ .what = "uploads", .act = upload, .modes = 7 },
	{ .what = "uploads at the same time", .act = upload, .modes = 1 << RELOADS },
	{ .what = "checkpoints", .act = checkpoint, .modes = 7 },
	{ .what = "changes of parameters", .act = set, .modes = 7 },
	{ .what = "statuses", .act = show, .modes = 7 },
	{ .what = "resets", .act = reset, .modes = 1 << RESETS | 1 << RELOADS },
	{ .what = "suspensions", .act = suspend, .modes = 1 << STEADY | 1 << RESETS },
	{ .what = "reloads", .act = reload, .modes = 1 << RELOADS },
	{ .what = "writes", .act = write_much, .modes = 7 },
	{ .what = "writes at the same time", .act = write_much, .modes = 7 },
	{ .what = "pages of a database", .act = play_database, .modes = 7 },
	{ .what = "pages at the same time", .act = play_database, .modes = 7 },
	{ .what = "discards of what is free", .act = discard_free, .modes = 7 },
	{ .what = "wrong discards", .act = discard_wrongly, .modes = 0 },
	{ .what = "other devices", .act = another, .modes = 1 << RELOADS },
	{ .what = "messages for them", .act = pester, .modes = 1 << RELOADS },
};

#define NR_WORKERS ((int)ARRAY_SIZE(workers))

static void *work(void *data)
{
	struct worker *worker = data;

	static unsigned int round;

	seed = __atomic_add_fetch(&round, 1, __ATOMIC_RELAXED);
	while (!done) {
		worker->act();
		worker->times++;
	}
	return NULL;
}

static bool takes_part(const struct worker *worker)
{
	return worker->modes & 1 << mode;
}

static void start_workers(void)
{
	done = false;
	calm = 0;
	for (int i = 0; i < NR_WORKERS; i++) {
		workers[i].times = 0;
		if (takes_part(&workers[i]) &&
		    pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			stop("a thread cannot be made");
	}
}

static void stop_workers(void)
{
	done = true;
	for (int i = 0; i < NR_WORKERS; i++)
		if (takes_part(&workers[i]))
			pthread_join(workers[i].thread, NULL);
	set_disk_streams(8);
}

/* fio */

/* Four jobs of 3.5 MiB each.  What is written is read again and compared. */
static void run_fio(unsigned int minor, unsigned int seconds)
{
	char file[32], runtime[32], seed_of[32];
	static unsigned int round;
	int status;

	snprintf(file, sizeof(file), "--filename=/dev/dm-%u", minor);
	snprintf(runtime, sizeof(runtime), "--runtime=%u", seconds);
	snprintf(seed_of, sizeof(seed_of), "--randseed=%u", ++round);
	fio = fork();
	if (!fio) {
		execlp("fio", "fio", "--name=stress", file, runtime, seed_of, "--thread",
		       "--numjobs=4", "--size=3584k",
		       "--offset_increment=3584k", "--rw=randwrite",
		       "--bsrange=4k-64k", "--ioengine=libaio", "--iodepth=8", "--direct=1",
		       "--fsync=32", "--verify=crc32c", "--verify_fatal=1",
		       "--verify_state_save=0", "--time_based", "--eta=never", "--group_reporting", "--output-format=json", "--output=/tmp/fio.json",
		       (char *)NULL);
		_exit(127);
	}
	if (fio < 0 || waitpid(fio, &status, 0) != fio)
		stop("fio cannot be run");
	fio = 0;
	if (status) {
		system("head -n 20 /tmp/fio.json >&2");
		stop("fio ended with status %d: it has read other data than it wrote, or failed",
		     status);
	}
}

/* The 512-byte sectors that fio says it wrote. */
static unsigned long fio_sectors(void)
{
	static char json[256 * 1024];
	FILE *file = fopen("/tmp/fio.json", "r");
	size_t length = file ? fread(json, 1, sizeof(json) - 1, file) : 0;
	const char *at;

	if (file)
		fclose(file);
	json[length] = '\0';
	at = strstr(json, "\"write\" :");
	at = at ? strstr(at, "\"io_bytes\" :") : NULL;
	if (!at)
		stop("fio has left no figures");
	return strtoul(at + strlen("\"io_bytes\" :"), NULL, 10) / 512;
}

/* Counts */

struct counts {
	unsigned long stream[256];
	unsigned long unmapped, regions;
};

static unsigned long sum_of(const unsigned long stream[256])
{
	unsigned long sum = 0;

	for (int i = 0; i < 256; i++)
		sum += stream[i];
	return sum;
}

static void disk_counts(struct counts *counts)
{
	unsigned long n;
	FILE *file;
	int stream;

	memset(counts, 0, sizeof(*counts));
	if (getenv("DISK")) {
		counts->stream[0] = disk_stat(SECTORS_WRITTEN);
		return;
	}
	file = fopen("/sys/kernel/debug/streamdisk/counts", "r");
	if (!file)
		stop("the disk does not show its counts");
	while (fscanf(file, "%d %*u %lu", &stream, &n) == 2)
		counts->stream[stream] = n;
	fclose(file);
}

static void target_counts(struct counts *counts)
{
	char line[DM_REPLY], *at;
	unsigned long n;
	int stream;

	memset(counts, 0, sizeof(*counts));
	if (dm_status(NAME, line) || !(at = strstr(line, " unmapped_sectors ")))
		stop("the device does not show its counts");
	counts->unmapped = strtoul(at + strlen(" unmapped_sectors "), NULL, 10);
	for (at = strstr(line, " stream "); at; at = strstr(at + 1, " stream "))
		if (sscanf(at, " stream %d %*u %lu", &stream, &n) == 2)
			counts->stream[stream] = n;

	send_message("regions", line);
	for (at = line; *at; at = strchr(at, '\n') + 1) {
		char *end = strchr(at, '\n');

		while (end[-1] != ' ')
			end--;
		counts->regions += 8 * strtoul(end, NULL, 10);
	}
}

static void check_counts(unsigned long total, const struct counts *disk)
{
	struct counts target;

	if (sum_of(disk->stream) != total + written_to_another)
		stop("%lu sectors were written, %lu to another device, and %lu came to the disk",
		     total, written_to_another, sum_of(disk->stream));
	if (mode == RELOADS)
		return;

	target_counts(&target);
	if (mode != STEADY)
		total -= written_pages;	/* no file has them */
	if (target.regions + (mode == STEADY ? target.unmapped : 0) != total)
		stop("%lu sectors were written, the regions have %lu, %lu are unmapped", total,
		     target.regions, target.unmapped);
	for (int i = 0; mode == STEADY && i < 256; i++)
		if (target.stream[i] != disk->stream[i])
			stop("stream %d: %lu sectors were counted, and %lu came to the disk", i,
			     target.stream[i], disk->stream[i]);
}

/* Rounds */

static unsigned int make_device(void)
{
	char line[128], path[32];
	unsigned int minor;
	struct division d;

	dm_line(line, sizeof(line), 0, "discard on");
	if (dm_create(NAME, &minor) || dm_load(NAME, SECTORS, line) || dm_resume(NAME))
		stop("the device cannot be made");
	divide_all(&d);
	if (!send_upload(&d, true, 0, 0))
		stop("the first table was refused");

	snprintf(path, sizeof(path), "/dev/dm-%u", minor);
	data_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (data_fd < 0)
		stop("%s: %s", path, strerror(errno));
	return minor;
}

/* udev is not there, but what was opened may not be closed yet. */
static void remove_device(void)
{
	int r;

	close(data_fd);
	for (int tries = 0; (r = dm_remove(NAME)) == -EBUSY && tries < 100; tries++)
		usleep(10000);
	if (r)
		stop("the device cannot be removed: %s", strerror(-r));
}

#define TIMEOUT 300		/* seconds */

static void run_round(unsigned int seconds)
{
	struct counts before, disk;
	unsigned long by_fio, discarded = discarded_by_disk();
	unsigned int minor = make_device();
	const char *comma = "";

	written = written_to_another = written_pages = 0;
	memset(page_state, 0, sizeof(page_state));
	disk_counts(&before);
	start_workers();
	run_fio(minor, seconds);
	/* On a busy machine a discard may never have come between two reloads. */
	calm = 2000;
	for (int waited = 0; discarded_by_disk() == discarded && waited < TIMEOUT; waited++) {
		if (waited % 10 == 0)
			send_message("set discard on", NULL);
		calm = 2000 + 20 * waited;
		sleep(1);
	}
	stop_workers();
	disk_counts(&disk);
	for (int i = 0; i < 256; i++)
		disk.stream[i] -= before.stream[i];

	by_fio = fio_sectors();
	if (!by_fio)
		stop("fio has written nothing");
	check_counts(by_fio + written + written_pages, &disk);
	discarded = discarded_by_disk() - discarded;
	if (!discarded)
		stop("nothing was discarded");
	remove_device();

	printf("ok - uml: stress, %s: %lu MiB written and verified, %lu MiB discarded beside %lu that a database wrote and needed, during ",
	       mode_name[mode], by_fio / 2048, discarded / 2048, written_pages / 2048);
	for (int i = 0; i < NR_WORKERS; i++) {
		if (!takes_part(&workers[i]))
			continue;
		printf("%s%lu %s", comma, workers[i].times, workers[i].what);
		comma = ", ";
	}
	printf("\n");
}

#define ROUND 30		/* seconds, if there is the time for one of each mode */

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned int length = seconds / 3 < ROUND ? seconds / 3 : ROUND;

	if (!length || argc > 3 || (argc == 3 && strcmp(argv[2], "wrong"))) {
		fprintf(stderr, "usage: stress SECONDS [wrong], at least 3 seconds\n");
		return 2;
	}
	for (int i = 0; argc == 3 && i < NR_WORKERS; i++)
		if (workers[i].act == discard_wrongly)
			workers[i].modes = 7;

	setvbuf(stdout, NULL, _IOLBF, 0);
	dm_open();
	seed = 1;
	for (unsigned int spent = 0; spent + length <= seconds; spent += length) {
		run_round(length);
		mode = (mode + 1) % 3;
	}
	return 0;
}
