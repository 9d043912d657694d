// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: faults FILES DEVICES
 *
 * Makes every allocation of the constructor, of each message and of the status fail
 * in turn: /proc/self/fail-nth makes the n-th of this task fail, for n from 1 until
 * there is none left.  What was asked for must be refused with ENOMEM, or work all the
 * same; refused, it must leave the table, the status, the regions and the data as they
 * were.  The larger uploads are of FILES files, the constructor is tried for DEVICES
 * devices.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dm.h"

#define SECTORS 65536
#define NAME "faults"
#define MANY_EXTENTS 100		/* more than an upload has room for at first */

#define BASE "upload # file 1 collection 32768 0:0:128 file 2 index - 0:128:16 "	\
	     "file 3 oplog - 0:256:8"

/* After so many allocations of a load, what comes is device-mapper's own. */
#define LAST 400

#define ALL_FEATURES							\
	"policy dsm groups 16 alpha 64 prediction computed range region "	\
	"primary_filter off threshold1 1 threshold2 1 streams 255 stream_base 1 "	\
	"hints off foreign override discard on "				\
	"discard_granularity 131072 discard_alignment 4096"

/* No window is valid, and neither bitmap has a chunk: the table had nothing. */
#define NO_CHUNKS							\
	"set discard on", "begin full 65536", "commit #", "window", "window",	\
	"begin full 65536", BASE, "commit #", "set discard on"

static int fail_nth, data_fd;

static void __attribute__((noreturn, format(printf, 1, 2))) stop(const char *why, ...)
{
	va_list args;

	printf("not ok - uml: faults: ");
	va_start(args, why);
	vprintf(why, args);
	va_end(args);
	printf("\n");
	exit(1);
}

/* Injection */

static void inject(unsigned int nth)
{
	char number[16];
	int length = snprintf(number, sizeof(number), "%u", nth);

	if (pwrite(fail_nth, number, length, 0) != length)
		stop("fail-nth cannot be written: %s", strerror(errno));
}

/* Whether the allocation has come that was to fail. */
static bool injected(void)
{
	char number[16] = "";

	if (pread(fail_nth, number, sizeof(number) - 1, 0) <= 0)
		stop("fail-nth cannot be read: %s", strerror(errno));
	inject(0);
	return !strtoul(number, NULL, 10);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		stop("%s: %s", path, strerror(errno));
	close(fd);
}

/*
 * By default the kernel spares those who may wait, which is all of ours.  Pages do
 * not fail: the slab takes one now and then, and n would not count the same twice.
 */
static void prepare_injection(void)
{
	write_file("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	write_file("/sys/kernel/debug/failslab/verbose", "0");
	write_file("/sys/kernel/debug/fail_page_alloc/min-order", "100");
	fail_nth = open("/proc/self/fail-nth", O_RDWR);
	if (fail_nth < 0)
		stop("/proc/self/fail-nth: %s", strerror(errno));
}

/* What a device shows of itself */

struct view {
	char status[DM_REPLY], regions[DM_REPLY], table[DM_REPLY];
};

static void look(struct view *view)
{
	char *age;

	if (dm_status(NAME, view->status) || dm_table(NAME, view->table) ||
	    dm_message(NAME, "regions", view->regions))
		stop("the device does not show its state");
	age = strstr(view->status, "window_ms ");
	if (!age)
		stop("the status '%s' has no window_ms", view->status);
	for (age += strlen("window_ms "); *age && *age != ' '; age++)
		*age = '-';
	/* The age may have another digit the next time. */
	age = strstr(view->status, "window_ms ") + strlen("window_ms ");
	memmove(age, age + strspn(age, "-"), strlen(age + strspn(age, "-")) + 1);
	/* An upload of which something is refused has ended. */
	age = strstr(view->status, " upload ");
	if (!age)
		stop("the status '%s' has no upload", view->status);
	*age = '\0';
}

static unsigned long total(const char *regions, const char *region)
{
	const char *at = strstr(regions, region), *end;

	if (!at)
		stop("there is no region '%s'", region);
	end = strchr(at, '\n');
	while (end[-1] != ' ')
		end--;
	return strtoul(end, NULL, 10);
}

/* A write still goes where it should, is read again, and counted. */
static void check_write(const char *what, unsigned int nth)
{
	static uint64_t number;
	static uint64_t *block, *got;
	static struct view before, after;

	if (!block) {
		block = aligned_alloc(4096, 4096);
		got = aligned_alloc(4096, 4096);
	}
	for (int i = 0; i < 512; i++)
		block[i] = number++;

	look(&before);
	if (pwrite(data_fd, block, 4096, 4096) != 4096 ||
	    pread(data_fd, got, 4096, 4096) != 4096 || memcmp(block, got, 4096))
		stop("%s, allocation %u: a page does not read as it was written", what, nth);
	look(&after);
	if (total(after.regions, "1 collection 32768 bottom") !=
	    total(before.regions, "1 collection 32768 bottom") + 1)
		stop("%s, allocation %u: a page written is not counted", what, nth);
}

/* Each message, and the state in which it is sent */

static char many_files[64 * 1024], many_extents[8 * 1024];

static const struct attempt {
	const char *what;
	const char *before[10];	/* sent without a fault */
	const char *message;
} attempts[] = {
	{ "begin full", { NULL }, "begin full 65536" },
	{ "begin update, in an upload", { "begin full 65536", BASE }, "begin update 65536 $" },
	{ "file", { "begin full 65536" }, "upload # file 9 collection 4096" },
	{ "file with its first extents", { "begin full 65536" },
	  "upload # file 9 other - 0:0:8 8:8:8" },
	{ "many files", { "begin full 65536" }, many_files },
	{ "extents", { "begin full 65536", "upload # file 9 other -" },
	  "upload # extents 0:0:8 8:8:8" },
	{ "many extents", { "begin full 65536", "upload # file 9 other -" }, many_extents },
	{ "drop", { "begin update 65536 $" }, "upload # drop 1" },
	{ "abort", { "begin full 65536", many_files }, "abort #" },
	{ "commit of the same files", { "begin full 65536", BASE }, "commit #" },
	{ "commit of other files", { "begin full 65536", many_files }, "commit #" },
	{ "commit of many extents",
	  { "begin full 65536", "upload # file 9 other -", many_extents }, "commit #" },
	{ "commit of an update",
	  { "begin update 65536 $", "upload # file 1 index 4096 0:512:64 drop 2", many_files },
	  "commit #" },
	{ "commit of nothing", { "begin full 65536" }, "commit #" },
	{ "commit that is refused",
	  { "begin update 65536 $", "upload # file 9 other - 0:0:8", many_files }, "commit #" },
	{ "checkpoint", { NULL }, "checkpoint" },
	{ "checkpoint of many files",
	  { "begin update 65536 $", many_files, "commit #" }, "checkpoint" },
	{ "set policy", { "set policy none" }, "set policy dsm" },
	{ "set groups", { "set groups 2" }, "set groups 3" },
	{ "set, refused", { NULL }, "set groups 17" },
	{ "first window", { NO_CHUNKS }, "window" },
	{ "discard", { "set discard on", "window" }, "discard @ 0:64 256:8 512:64 64:32" },
	{ "discard that is gathered", { "set discard_granularity 131072", "set discard on", "window" },
	  "discard @ 0:64 512:64" },
	{ "forget", { "set discard_granularity 131072", "set discard on", "window", "discard @ 0:64" },
	  "forget" },
	{ "written", { "set discard watch", "window" }, "written @ 0:128 512:64" },
	{ "discard, refused", { "set discard on", "window" }, "discard @ 65536:8" },
	{ "reset", { NULL }, "reset" },
	{ "regions", { NULL }, "regions" },
	{ "error", { NULL }, "error" },
	{ "unknown", { NULL }, "foo" },
	{ "status and table", { NULL }, "status" },
};

static void fill_many(unsigned int files)
{
	char *file = many_files, *extent = many_extents;

	file += sprintf(file, "upload # ");
	for (unsigned int i = 0; i < files; i++)
		file += sprintf(file, "file %u other %s %u:%u:8 ", 1000 + i, i % 2 ? "-" : "4096",
				8 * (i % 2), 4096 + 16 * i);
	extent += sprintf(extent, "upload # extents");
	for (unsigned int i = 0; i < MANY_EXTENTS; i++)
		extent += sprintf(extent, " %u:%u:8", 16 * i, 32768 + 16 * i);
}

/* Discards are counted when they are done. */
static void wait_for_discards(void)
{
	static char status[DM_REPLY];

	do {
		if (dm_status(NAME, status))
			stop("the device does not show its state");
	} while (strstr(status, " discard_queued ") && !strstr(status, " discard_queued 0 "));
}

/* Brings about the state, and an error that no later refusal repeats. */
static void prepare(const struct attempt *attempt)
{
	if (dm_message(NAME, "begin full 65536", NULL) || dm_message(NAME, BASE, NULL) ||
	    dm_message(NAME, "commit #", NULL))
		stop("%s: the first table cannot be uploaded", attempt->what);
	for (int i = 0; i < 10 && attempt->before[i]; i++)
		if (dm_message(NAME, attempt->before[i], NULL))
			stop("%s: '%.60s' was refused", attempt->what, attempt->before[i]);
	wait_for_discards();
	if (dm_message(NAME, "another", NULL) != -EINVAL)
		stop("%s: 'another' was not refused", attempt->what);
}

static int perform(const struct attempt *attempt)
{
	static char line[DM_REPLY];

	if (!strcmp(attempt->message, "status"))
		return dm_status(NAME, line) ?: dm_table(NAME, line);
	return dm_message(NAME, attempt->message, NULL);
}

static bool is_out_of_memory(const char *error)
{
	return !strncmp(error, "Cannot allocate ", 16) || !strncmp(error, "Out of memory", 13);
}

/* A refusal for want of memory changes nothing, and is explained if it was ours. */
static void check_refused(const struct attempt *attempt, unsigned int nth,
			  const struct view *before)
{
	static struct view after;
	static char text[DM_REPLY];

	if (dm_message(NAME, "error", text))
		stop("%s, allocation %u: the message error is refused", attempt->what, nth);
	if (strcmp(text, "Unknown message 'another'") && !is_out_of_memory(text))
		stop("%s, allocation %u: refused with '%s'", attempt->what, nth, text);

	look(&after);
	if (strcmp(before->status, after.status))
		stop("%s, allocation %u: the status was\n%s\nand is\n%s", attempt->what, nth,
		     before->status, after.status);
	if (strcmp(before->table, after.table))
		stop("%s, allocation %u: the table line was\n%s\nand is\n%s", attempt->what, nth,
		     before->table, after.table);
	if (strcmp(before->regions, after.regions))
		stop("%s, allocation %u: the regions were\n%s\nand are\n%s", attempt->what, nth,
		     before->regions, after.regions);
	check_write(attempt->what, nth);
}

static void try_message(const struct attempt *attempt)
{
	static struct view before;
	unsigned int nth, refused = 0;
	int wanted, r;

	prepare(attempt);
	wanted = perform(attempt);

	for (nth = 1; ; nth++) {
		prepare(attempt);
		look(&before);

		inject(nth);
		r = perform(attempt);
		if (!injected())
			break;
		if (r == -ENOMEM) {
			check_refused(attempt, nth, &before);
			refused++;
		} else if (r != wanted) {
			stop("%s, allocation %u: ended with %d, and with %d without a fault",
			     attempt->what, nth, r, wanted);
		}
	}
	if (r != wanted)
		stop("%s: ended with %d, and before with %d", attempt->what, r, wanted);
	if (nth == 1)
		stop("%s: no allocation has failed", attempt->what);
	printf("ok - uml: faults: %s: %u allocations failed, %u refusals\n", attempt->what,
	       nth - 1, refused);
}

/* The constructor */

/* How often the kernel log says @text, from the last call on. */
static unsigned int kernel_said(int kmsg, const char *text)
{
	char record[2048];
	unsigned int times = 0;
	ssize_t length;

	while ((length = read(kmsg, record, sizeof(record) - 1)) >= 0 || errno == EPIPE) {
		record[length < 0 ? 0 : length] = '\0';
		times += strstr(record, text) != NULL;
	}
	return times;
}

/*
 * A few devices, each with a table already: what device-mapper allocates for the first
 * is not ours.
 */
static void try_constructor(const char *features, unsigned int devices)
{
	static struct view before, after;
	int kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	unsigned int nth, failed = 0, refused = 0, by_us;
	char name[32], line[320];
	int r;

	if (kmsg < 0 || lseek(kmsg, 0, SEEK_END) < 0)
		stop("/dev/kmsg cannot be read");
	look(&before);
	dm_line(line, sizeof(line), 0, features);
	for (unsigned int i = 0; i < devices; i++) {
		snprintf(name, sizeof(name), NAME "-%u", i);
		if (dm_create(name, NULL) || dm_load(name, SECTORS, line))
			stop("%s cannot be created", name);
		for (nth = 1; nth <= LAST; nth++) {
			inject(nth);
			r = dm_load(name, SECTORS, line);
			if (!injected())
				break;
			failed++;
			if (r && r != -ENOMEM)
				stop("constructor, allocation %u: ended with %d", nth, r);
			refused += r == -ENOMEM;
		}
		if (nth > LAST)
			stop("constructor: allocations do not end");
		r = dm_load(name, SECTORS, line);
		if (r)
			stop("constructor: ended with %d without a fault", r);
	}
	check_write("constructor", 0);
	for (unsigned int i = 0; i < devices; i++) {
		snprintf(name, sizeof(name), NAME "-%u", i);
		if (dm_remove(name))
			stop("%s cannot be removed", name);
	}

	look(&after);
	if (strcmp(before.table, after.table))
		stop("constructor: the table line of another device has changed");
	by_us = kernel_said(kmsg, ": dsm: Cannot allocate ");
	if (!by_us)
		stop("constructor: it has never said what there was no memory for");
	close(kmsg);
	printf("ok - uml: faults: constructor '%s': %u allocations failed, %u refusals, %u of them by the target\n",
	       features, failed, refused, by_us);
}

int main(int argc, char **argv)
{
	unsigned int files = argc > 2 ? strtoul(argv[1], NULL, 10) : 0, minor;
	unsigned int devices = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	char path[32], line[128];

	if (!files || files > 1000 || !devices) {
		fprintf(stderr, "usage: faults FILES DEVICES, at most 1000 files\n");
		return 2;
	}

	setvbuf(stdout, NULL, _IOLBF, 0);
	fill_many(files);
	dm_open();
	prepare_injection();
	dm_line(line, sizeof(line), 0, "");
	if (dm_create(NAME, &minor) || dm_load(NAME, SECTORS, line) || dm_resume(NAME))
		stop("the device cannot be made");
	snprintf(path, sizeof(path), "/dev/dm-%u", minor);
	data_fd = open(path, O_RDWR | O_DIRECT);
	if (data_fd < 0)
		stop("%s: %s", path, strerror(errno));

	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
		try_message(&attempts[i]);
	try_constructor("", devices);
	try_constructor(ALL_FEATURES, 1);

	close(data_fd);
	if (dm_remove(NAME))
		stop("the device cannot be removed");
	return 0;
}
