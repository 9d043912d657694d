// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: hotpath cost DEVICE read|write EXTENTS
 *        hotpath upload NAME SECTORS FILES EXTENTS
 *        hotpath touch DEVICE EXTENTS
 *        hotpath message NAME TEXT
 *        hotpath stats NAME REGIONS
 *        hotpath map NAME SECTORS
 *        hotpath discard NAME RANGES
 *
 * What a target costs, for tests/bench/hotpath. Under QEMU's icount the time
 * stamp counter counts instructions.
 *
 * cost: median and tenth and ninetieth percentile of the counter over 4 KiB
 * direct I/Os to random places of the table that upload makes.
 * upload: a table of EXTENTS extents of 8 sectors in FILES files, so that every
 * other page of the device is mapped, in an order that a file system could have
 * left. Prints the counter and the seconds of all messages, and of the commit.
 * touch: a write to each extent, whether the device takes it or not.
 * message: the counter and the seconds of one message.
 * stats: as many regions of the kernel's own dm-stats.
 * map: a table of one file that has it all.
 * discard: a window, and as many ranges of 16 pages with a gap between them. Prints the
 * counter and the seconds from the message to when the last is done.
 */
#define _GNU_SOURCE
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

static void print_since(const char *what, struct clock start)
{
	struct clock end = now();

	printf("%s %llu %.6f\n", what, (unsigned long long)(end.insns - start.insns),
	       (double)(end.at.tv_sec - start.at.tv_sec) +
	       (double)(end.at.tv_nsec - start.at.tv_nsec) / 1e9);
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

static void cost(const char *path, bool write, uint64_t extents)
{
	static uint64_t samples[SAMPLES];
	int fd = open(path, O_RDWR | O_DIRECT);
	void *page;

	if (fd < 0 || posix_memalign(&page, PAGE, PAGE))
		err(1, "%s", path);
	memset(page, 1, PAGE);
	/* The first ones fill caches and pools. */
	for (int i = -SAMPLES / 10; i < SAMPLES; i++) {
		off_t at = (off_t)(next_random() % (extents ?: 1000000)) * 2 * PAGE;
		uint64_t start = __rdtsc();
		ssize_t n = write ? pwrite(fd, page, PAGE, at) : pread(fd, page, PAGE, at);
		uint64_t end = __rdtsc();

		if (n != PAGE)
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
static void upload(const char *name, const char *sectors, uint64_t files, uint64_t extents)
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
				   (unsigned long long)extents / files / 2 * PAGE);
		for (uint64_t i = 0; i * files + file < extents; i++) {
			if (length > MESSAGE - 200) {
				message(name, text);
				length = snprintf(text, 64, "upload %llu extents", number);
			}
			length += snprintf(text + length, 64, " %llu:%llu:%d",
					   (unsigned long long)i * PAGE_SECTORS,
					   (unsigned long long)(i * files + file) * 2 * PAGE_SECTORS,
					   PAGE_SECTORS);
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

static void discard(const char *name, unsigned int ranges)
{
	static char text[LONGEST - 64];
	unsigned long long window;
	struct clock start, end;
	size_t length;

	if (sscanf(message(name, "window"), "window %llu", &window) != 1)
		errx(1, "%s: no window", name);
	length = sprintf(text, "discard %llu", window);
	for (unsigned int i = 0; i < ranges && length < sizeof(text) - 32; i++)
		length += sprintf(text + length, " %u:%d", i * 17 * PAGE_SECTORS, 16 * PAGE_SECTORS);
	start = now();
	message(name, text);
	end = now();
	/* The grace period is no work; what else runs meanwhile is little. */
	while (field(name, " discard_queued "))
		usleep(1000);
	if (field(name, " discarded ") != ranges)
		errx(1, "%llu of %u ranges were discarded", field(name, " discarded "), ranges);
	printf("discard %llu %.6f %llu\n", (unsigned long long)(end.insns - start.insns),
	       (double)(end.at.tv_sec - start.at.tv_sec) +
	       (double)(end.at.tv_nsec - start.at.tv_nsec) / 1e9, field(name, " discard_us "));
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "cost")) {
		cost(argv[2], !strcmp(argv[3], "write"), strtoull(argv[4], NULL, 10));
	} else if (argc == 6 && !strcmp(argv[1], "upload")) {
		upload(argv[2], argv[3], strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "touch")) {
		touch(argv[2], strtoull(argv[3], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "message")) {
		struct clock start = now();

		message(argv[2], argv[3]);
		print_since(argv[3], start);
	} else if (argc == 4 && !strcmp(argv[1], "map")) {
		map(argv[2], argv[3]);
	} else if (argc == 4 && !strcmp(argv[1], "discard")) {
		discard(argv[2], strtoul(argv[3], NULL, 10));
	} else if (argc == 4 && !strcmp(argv[1], "stats")) {
		stats(argv[2], strtoull(argv[3], NULL, 10));
	} else {
		errx(2, "usage: see the head of hotpath.c");
	}
	return 0;
}
