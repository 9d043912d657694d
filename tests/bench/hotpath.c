// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: hotpath cost DEVICE read|write EXTENTS PAGES
 *        hotpath upload NAME SECTORS FILES EXTENTS PAGES
 *        hotpath touch DEVICE EXTENTS
 *        hotpath message NAME TEXT [TIMES]
 *        hotpath stats NAME REGIONS
 *        hotpath map NAME SECTORS
 *        hotpath discard NAME RANGES
 *        hotpath written NAME PAGES
 *
 * What a target costs, for tests/bench/hotpath. Under QEMU's icount the time
 * stamp counter counts instructions.
 *
 * cost: median and tenth and ninetieth percentile of the counter over direct I/Os
 * of so many pages to random extents of the table that upload makes.
 * upload: a table of EXTENTS extents of so many pages in FILES files, with gaps as long
 * between them, in an order that a file system could have left. Prints the counter and
 * the seconds of all messages, and of the commit.
 * touch: a write to each extent, whether the device takes it or not.
 * message: the counter and the seconds of one message, or the medians of so many.
 * stats: as many regions of the kernel's own dm-stats.
 * map: a table of one file that has it all.
 * discard: a window, and as many ranges of 16 pages with a gap between them, several
 * times. Prints the medians of the counter and the seconds of the message, of the
 * microseconds of the longest of the plugs of 256 that it becomes, and of the
 * microseconds of processor that message and plugs take in all (0: the kernel does not
 * tell).
 * written: asks which of every second page, so many, were written since a window in which none was,
 * as dsmd does. Prints the counter and the seconds of all messages.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE		4096
#define PAGE_SECTORS	8
#define SAMPLES		3000
#define MESSAGE		16384	/* bytes, of a reply too */
#define LONGEST		65536
#define ASKED		4096	/* ranges in a message that asks, as dsmd's */
#define TIMES		11	/* that a message is sent, for the median */

struct clock {
	uint64_t insns;
	struct timespec at;
};

static int control = -1;

static struct clock now(void)
{
	struct clock c;

	clock_gettime(CLOCK_MONOTONIC, &c.at);
	c.insns = __rdtsc();
	return c;
}

static double seconds_since(struct clock start)
{
	struct clock end = now();

	return (double)(end.at.tv_sec - start.at.tv_sec) +
	       (double)(end.at.tv_nsec - start.at.tv_nsec) / 1e9;
}

static void print_since(const char *what, struct clock start)
{
	uint64_t insns = now().insns - start.insns;

	printf("%s %llu %.6f\n", what, (unsigned long long)insns, seconds_since(start));
}

/* xorshift64: the same places on each run */
static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Sends a message; returns the reply, which the next one replaces. */
static const char *message(const char *name, const char *text)
{
	static char buffer[sizeof(struct dm_ioctl) + LONGEST];
	struct dm_ioctl *dmi = (struct dm_ioctl *)buffer;
	struct dm_target_msg *msg = (struct dm_target_msg *)(dmi + 1);

	if (control < 0)
		control = open("/dev/mapper/control", O_RDWR);
	if (control < 0)
		err(1, "/dev/mapper/control");
	memset(dmi, 0, sizeof(*dmi));
	dmi->version[0] = DM_VERSION_MAJOR;
	dmi->data_size = sizeof(*dmi) + (strlen(text) + 64 > MESSAGE ? LONGEST : MESSAGE);
	dmi->data_start = sizeof(*dmi);
	snprintf(dmi->name, sizeof(dmi->name), "%s", name);
	msg->sector = 0;
	strcpy(msg->message, text);
	if (ioctl(control, DM_TARGET_MSG, dmi))
		err(1, "%s: %.60s", name, text);
	return dmi->flags & DM_DATA_OUT_FLAG ? (char *)dmi + dmi->data_start : "";
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Of what was measured so many times, which is sorted. */
static double median(double *measured, unsigned int times)
{
	qsort(measured, times, sizeof(*measured), compare_doubles);
	return measured[times / 2];
}

static void cost(const char *path, bool write, uint64_t extents, size_t pages)
{
	static uint64_t samples[SAMPLES];
	int fd = open(path, O_RDWR | O_DIRECT);
	size_t size = pages * PAGE;
	void *data;

	if (fd < 0 || posix_memalign(&data, PAGE, size))
		err(1, "%s", path);
	memset(data, 1, size);
	/* The first ones fill caches and pools. */
	for (int i = -SAMPLES / 10; i < SAMPLES; i++) {
		off_t at = (off_t)(next_random() % (extents ?: 1000000 / pages) * 2 * size);
		uint64_t start = __rdtsc();
		ssize_t n = write ? pwrite(fd, data, size, at) : pread(fd, data, size, at);
		uint64_t end = __rdtsc();

		if (n != (ssize_t)size)
			err(1, "%s at %lld", path, (long long)at);
		if (i >= 0)
			samples[i] = end - start;
	}
	qsort(samples, SAMPLES, sizeof(*samples), compare);
	printf("%llu %llu %llu\n", (unsigned long long)samples[SAMPLES / 2],
	       (unsigned long long)samples[SAMPLES / 10],
	       (unsigned long long)samples[SAMPLES - SAMPLES / 10]);
}

static void touch(const char *path, uint64_t extents)
{
	int fd = open(path, O_RDWR | O_DIRECT);
	void *page;

	if (fd < 0 || posix_memalign(&page, PAGE, PAGE))
		err(1, "%s", path);
	for (uint64_t i = 0; i < extents; i++)
		if (pwrite(fd, page, PAGE, (off_t)i * 2 * PAGE) < 0)
			continue;
}

/* Extents are dealt out to files in turn, a file's in the order of its pages. */
static void upload(const char *name, const char *sectors, uint64_t files, uint64_t extents,
		   unsigned int pages)
{
	char text[MESSAGE];
	unsigned long long number;
	size_t length = 0;
	struct clock start, commit;

	snprintf(text, sizeof(text), "begin full %s", sectors);
	start = now();
	if (sscanf(message(name, text), "upload %llu", &number) != 1)
		errx(1, "%s: begin has no number", name);
	for (uint64_t file = 0; file < files; file++) {
		if (!length)
			length = snprintf(text, 64, "upload %llu", number);
		length += snprintf(text + length, 64, " file %llu %s %llu",
				   (unsigned long long)file + 1,
				   file % 2 ? "index" : "collection",
				   (unsigned long long)extents / files / 2 * pages * PAGE);
		for (uint64_t i = 0; i * files + file < extents; i++) {
			if (length > MESSAGE - 200) {
				message(name, text);
				length = snprintf(text, 64, "upload %llu extents", number);
			}
			length += snprintf(text + length, 64, " %llu:%llu:%u",
					   (unsigned long long)i * pages * PAGE_SECTORS,
					   (unsigned long long)(i * files + file) * 2 * pages * PAGE_SECTORS,
					   pages * PAGE_SECTORS);
		}
		if (length > MESSAGE - 200 || file == files - 1) {
			message(name, text);
			length = 0;
		}
	}
	commit = now();
	snprintf(text, sizeof(text), "commit %llu", number);
	message(name, text);
	print_since("commit", commit);
	print_since("upload", start);
}

static void stats(const char *name, uint64_t regions)
{
	char text[64];

	for (uint64_t i = 0; i < regions; i++) {
		snprintf(text, sizeof(text), "@stats_create %llu+%d /1",
			 (unsigned long long)i * 2 * PAGE_SECTORS, PAGE_SECTORS);
		message(name, text);
	}
}

static void map(const char *name, const char *sectors)
{
	unsigned long long number;
	char text[256];

	snprintf(text, sizeof(text), "begin full %s", sectors);
	if (sscanf(message(name, text), "upload %llu", &number) != 1)
		errx(1, "%s: begin has no number", name);
	snprintf(text, sizeof(text), "upload %llu file 1 collection - 0:0:%s", number, sectors);
	message(name, text);
	snprintf(text, sizeof(text), "commit %llu", number);
	message(name, text);
}

/* What the status line says of @field. */
static unsigned long long field(const char *name, const char *field)
{
	char line[MESSAGE], *at;
	FILE *status;

	snprintf(line, sizeof(line), "dmsetup status %s", name);
	status = popen(line, "r");
	if (!status || !fgets(line, sizeof(line), status) || pclose(status))
		errx(1, "%s has no status", name);
	at = strstr(line, field);
	if (!at)
		errx(1, "%s is not in '%s'", field, line);
	return strtoull(at + strlen(field), NULL, 10);
}

/* Nanoseconds that the kernel's workers have run, if it reports that. */
static uint64_t workers_ns(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *process;
	uint64_t sum = 0;

	while (proc && (process = readdir(proc))) {
		char path[sizeof("/proc/schedstat") + sizeof(process->d_name)], comm[32] = "";
		unsigned long long ran = 0;
		FILE *f;

		if (!isdigit((unsigned char)process->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", process->d_name);
		f = fopen(path, "r");
		if (!f)		/* it has ended */
			continue;
		if (!fgets(comm, sizeof(comm), f))
			comm[0] = '\0';
		fclose(f);
		if (strncmp(comm, "kworker/", 8))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/schedstat", process->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fscanf(f, "%llu", &ran) == 1)
			sum += ran;
		fclose(f);
	}
	if (proc)
		closedir(proc);
	return sum;
}

/* Nanoseconds that this process has run. */
static uint64_t own_ns(void)
{
	struct timespec ran;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ran);
	return (uint64_t)ran.tv_sec * 1000000000 + (uint64_t)ran.tv_nsec;
}

static void wait_for_discards(const char *name, unsigned int ranges)
{
	unsigned long long done;

	while (field(name, " discard_queued "))
		usleep(1000);
	/* Some devices end them with an error, which takes them as long. */
	done = field(name, " discarded ") + field(name, " discard_failed ");
	if (done != ranges)
		errx(1, "%llu of %u ranges were discarded", done, ranges);
}

static void discard(const char *name, unsigned int ranges)
{
	double insns[TIMES], seconds[TIMES], plug_us[TIMES], worked_us[TIMES];
	static char text[LONGEST - 64];

	for (unsigned int n = 0; n < TIMES; n++) {
		unsigned long long window;
		uint64_t own, workers;
		struct clock start;
		size_t length;

		message(name, "reset");
		if (sscanf(message(name, "window"), "window %llu", &window) != 1)
			errx(1, "%s: no window", name);
		length = sprintf(text, "discard %llu", window);
		for (unsigned int i = 0; i < ranges && length < sizeof(text) - 32; i++)
			length += sprintf(text + length, " %u:%d", i * 17 * PAGE_SECTORS,
					  16 * PAGE_SECTORS);
		workers = workers_ns();
		own = own_ns();
		start = now();
		message(name, text);
		insns[n] = (double)(now().insns - start.insns);
		seconds[n] = seconds_since(start);
		own = own_ns() - own;
		wait_for_discards(name, ranges);
		workers = workers_ns() - workers;
		plug_us[n] = (double)field(name, " discard_plug_max_us ");
		worked_us[n] = workers ? (double)(own + workers) / 1e3 : 0;
	}
	printf("discard %.0f %.6f %.0f %.0f\n", median(insns, TIMES), median(seconds, TIMES),
	       median(plug_us, TIMES), median(worked_us, TIMES));
}

static void written(const char *name, unsigned int pages)
{
	static char text[LONGEST - 64];
	unsigned long long window;
	unsigned int untouched = 0;
	struct clock start;

	if (sscanf(message(name, "window"), "window %llu", &window) != 1)
		errx(1, "%s: no window", name);
	start = now();
	for (unsigned int page = 0; page < pages;) {
		size_t length = sprintf(text, "written %llu", window);
		const char *reply;

		for (unsigned int n = 0; n < ASKED && page < pages; n++, page++)
			length += sprintf(text + length, " %llu:%d", page * 2ULL * PAGE_SECTORS,
					  PAGE_SECTORS);
		for (reply = message(name, text); (reply = strstr(reply, " -")); reply += 2)
			untouched++;
	}
	print_since("written", start);
	if (untouched != pages)
		errx(1, "%u of %u pages were not written", untouched, pages);
}

static void many_messages(const char *name, const char *text, unsigned int times)
{
	double insns[TIMES], seconds[TIMES];

	if (!times || times > TIMES)
		errx(2, "a message is sent at most %d times", TIMES);
	for (unsigned int n = 0; n < times; n++) {
		struct clock start = now();

		message(name, text);
		insns[n] = (double)(now().insns - start.insns);
		seconds[n] = seconds_since(start);
	}
	printf("%s %.0f %.6f\n", text, median(insns, times), median(seconds, times));
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "cost")) {
		cost(argv[2], !strcmp(argv[3], "write"), strtoull(argv[4], NULL, 10),
		     strtoul(argv[5], NULL, 10));
	} else if (argc == 7 && !strcmp(argv[1], "upload")) {
		upload(argv[2], argv[3], strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10),
		       strtoul(argv[6], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "touch")) {
		touch(argv[2], strtoull(argv[3], NULL, 10));
	} else if ((argc == 4 || argc == 5) && !strcmp(argv[1], "message")) {
		many_messages(argv[2], argv[3], argc == 5 ? strtoul(argv[4], NULL, 10) : 1);
	} else if (argc == 4 && !strcmp(argv[1], "map")) {
		map(argv[2], argv[3]);
	} else if (argc == 4 && !strcmp(argv[1], "discard")) {
		discard(argv[2], strtoul(argv[3], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "written")) {
		written(argv[2], strtoul(argv[3], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "stats")) {
		stats(argv[2], strtoull(argv[3], NULL, 10));
	} else {
		errx(2, "usage: see the head of hotpath.c");
	}
	return 0;
}
