// SPDX-License-Identifier: GPL-2.0-only
/*
 * A whole userspace: the first process of a machine that has nothing else.  It loads the
 * modules in /modules/order, makes a device of the target above a disk in memory, writes,
 * discards, lets writes race discards, suspends, and says "ok" or "not ok" of each step.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dm.h"

#define PAGE 4096		/* the target's unit, whatever the kernel's page */
#define SECTORS(bytes) ((bytes) / 512)
#define MIB (1ULL << 20)
#define FILE_MIB 32		/* of each of the two files; as much is unmapped */
#define RACES 20
#define RACE_PAGES 256

static const char disk[] = "/dev/nullb0", device[] = "/dev/dsm";
static unsigned char *buffer;
static char reply[DM_REPLY];
static uint64_t size;
static int fd;

static bool check(bool good, const char *format, ...)
{
	va_list args;

	printf("%s - ", good ? "ok" : "not ok");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	return good;
}

/* Each page has contents of its own, in every @version. */
static void fill(unsigned char *page, uint64_t number, uint64_t version)
{
	for (size_t i = 0; i < PAGE; i += 8) {
		uint64_t word = (number << 32 ^ version << 16 ^ i) * 0x9e3779b97f4a7c15ULL | 1;

		memcpy(page + i, &word, 8);
	}
}

static bool write_page(uint64_t number, uint64_t version)
{
	fill(buffer, number, version);
	return pwrite(fd, buffer, PAGE, number * PAGE) == PAGE;
}

static bool has(const unsigned char *page, uint64_t number, uint64_t version)
{
	unsigned char wanted[PAGE];

	fill(wanted, number, version);
	return !memcmp(page, wanted, PAGE);
}

static bool is_zero(const unsigned char *page)
{
	return !page[0] && !memcmp(page, page + 1, PAGE - 1);
}

/* The number behind @key in the status; ~0 if there is none. */
static unsigned long long status(const char *key)
{
	const char *found;
	char word[64];

	if (dm_status("dsm", reply))
		return ~0ULL;
	snprintf(word, sizeof(word), " %s ", key);
	found = strstr(reply, word);
	return found ? strtoull(found + strlen(word), NULL, 10) : ~0ULL;
}

/* Discards that wait and those in flight: none is left. */
static bool drained(void)
{
	for (int i = 0; i < 6000; i++) {
		if (!status("discard_queued"))
			return true;
		usleep(10000);
	}
	return false;
}

static bool make_device(void)
{
	unsigned int minor_number;
	char line[64];
	FILE *numbers;

	numbers = fopen("/sys/block/nullb0/dev", "r");
	if (!check(numbers && fscanf(numbers, "%31s", line) == 1, "the disk is there"))
		return false;
	fclose(numbers);
	strcat(line, " 0 2 discard on");
	fd = open(disk, O_RDONLY);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size))
		return check(false, "the disk has a size");
	close(fd);
	if (!check(!dm_create("dsm", &minor_number) && !dm_load("dsm", SECTORS(size), line) &&
		   !dm_resume("dsm"), "a device is made: %s", line))
		return false;
	snprintf(line, sizeof(line), "/dev/dm-%u", minor_number);
	fd = open(line, O_RDWR | O_DIRECT);
	return check(fd >= 0 && !symlink(line, device), "it is opened");
}

static void upload(void)
{
	char begin[64], records[256];

	snprintf(begin, sizeof(begin), "begin full %llu", (unsigned long long)SECTORS(size));
	snprintf(records, sizeof(records),
		 "upload # file 17 collection %llu 0:0:%llu file 18 journal - 0:%llu:%llu",
		 FILE_MIB * MIB / 2, SECTORS(FILE_MIB * MIB), SECTORS(FILE_MIB * MIB),
		 SECTORS(FILE_MIB * MIB));
	check(!dm_message("dsm", begin, reply) && !dm_message("dsm", records, reply) &&
	      !dm_message("dsm", "commit #", reply), "a table of two files is uploaded");
	check(status("files") == 2 && status("extents") == 3,
	      "it has two files and, divided at the boundary, three extents");
}

static void discard(void)
{
	const uint64_t pages = 8 * MIB / PAGE, kept = pages / 2, last = 3 * FILE_MIB * MIB / PAGE;
	uint64_t zeroes = 0, wrong = 0;

	for (uint64_t i = 0; i < last; i++)
		wrong += !write_page(i, 1);
	check(!wrong && !fsync(fd), "%llu pages are written", (unsigned long long)last);
	check(!dm_message("dsm", "window", reply), "a window begins");
	check(write_page(kept, 2), "one page is written in it");
	check(!dm_message("dsm", "discard @ 0:16384", reply) && drained(),
	      "8 MiB with that page are to be discarded");
	check(status("discarded_sectors") == SECTORS((pages - 1) * PAGE),
	      "all of them but that page are: %llu sectors", status("discarded_sectors"));
	check(status("discard_failed") == 0, "none failed");
	for (uint64_t i = 0; i < last; i++) {
		if (pread(fd, buffer, PAGE, i * PAGE) != PAGE)
			wrong++;
		else if (i < pages && i != kept)
			zeroes += is_zero(buffer);
		else
			wrong += !has(buffer, i, i == kept ? 2 : 1);
	}
	check(zeroes == pages - 1, "%llu discarded pages read as zeroes, of %llu",
	      (unsigned long long)zeroes, (unsigned long long)pages - 1);
	check(!wrong, "every other page has what was written last: %llu have not",
	      (unsigned long long)wrong);
}

static void from_above(void)
{
	uint64_t range[2] = { 80 * MIB, 8 * MIB }, zero[2] = { 72 * MIB, MIB }, left = 0;

	check(!ioctl(fd, BLKDISCARD, range), "a discard from above passes");
	check(!ioctl(fd, BLKZEROOUT, zero), "zeroes from above pass");
	for (uint64_t at = zero[0]; at < zero[0] + zero[1]; at += PAGE)
		left += pread(fd, buffer, PAGE, at) != PAGE || !is_zero(buffer);
	check(!left, "they are zeroes");
}

/*
 * What is written while it is discarded stays: the writes of the last round. The last quarter
 * is not written, so that something is discarded however fast the writes are.
 */
static bool race(unsigned int round, uint64_t first)
{
	const uint64_t written = RACE_PAGES / 4 * 3;
	uint64_t version = 100 + round, lost = 0;
	char line[64];
	int ended;
	pid_t child;

	if (dm_message("dsm", "window", reply))
		return false;
	child = fork();
	if (!child) {
		for (uint64_t i = 0; i < written; i++)
			if (!write_page(first + i * 37 % written, version))
				_exit(1);
		_exit(0);
	}
	snprintf(line, sizeof(line), "discard @ %llu:%u", (unsigned long long)SECTORS(first * PAGE),
		 SECTORS(RACE_PAGES * PAGE));
	for (int i = 0; i < 8; i++)
		dm_message("dsm", line, reply);
	if (waitpid(child, &ended, 0) != child || ended || !drained())
		return false;
	for (uint64_t i = 0; i < RACE_PAGES; i++)
		lost += pread(fd, buffer, PAGE, (first + i) * PAGE) != PAGE ||
			!(i < written ? has(buffer, first + i, version) : is_zero(buffer));
	return !lost;
}

static void races(void)
{
	unsigned long long before = status("discarded_sectors");
	unsigned int good = 0;

	for (unsigned int round = 0; round < RACES; round++)
		good += race(round, 8 * MIB / PAGE);
	check(good == RACES, "in %u of %u rounds of writes against discards nothing is lost", good,
	      RACES);
	check(status("discarded_sectors") > before,
	      "and %llu sectors were discarded, %llu writes held",
	      status("discarded_sectors") - before, status("discard_held"));
}

static void suspend(void)
{
	unsigned long long before = status("discarded_sectors");

	check(!dm_message("dsm", "window", reply) && !dm_suspend("dsm", 0) && !dm_resume("dsm"),
	      "the device is suspended and resumed");
	check(dm_message("dsm", "discard @ 0:16384", reply) == -ESTALE,
	      "a discard of the window before is refused as stale");
	check(status("discarded_sectors") == before, "and nothing is discarded");
	check(!dm_message("dsm", "checkpoint", reply) && !dm_message("dsm", "regions", reply),
	      "a checkpoint is reported, and regions are shown");
}

static void load_modules(void)
{
	FILE *order = fopen("/modules/order", "r");
	char line[128], *options;
	int module, r;

	while (order && fgets(line, sizeof(line), order)) {
		line[strcspn(line, "\n")] = '\0';
		options = line + strcspn(line, " ");
		if (*options)
			*options++ = '\0';
		module = open(line, O_RDONLY);
		r = syscall(SYS_finit_module, module, options, 0);
		check(!r || errno == EEXIST, "%s is loaded", line);
		close(module);
	}
}

int main(void)
{
	struct utsname system;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (mount("proc", "/proc", "proc", 0, NULL) || mount("sys", "/sys", "sysfs", 0, NULL) ||
	    (mount("dev", "/dev", "devtmpfs", 0, NULL) && errno != EBUSY))
		check(false, "file systems are mounted: %s", strerror(errno));
	uname(&system);
	check(true, "%s with pages of %ld bytes has booted", system.release, sysconf(_SC_PAGESIZE));
	load_modules();
	if (posix_memalign((void **)&buffer, 65536, 65536))
		return 1;
	dm_open();
	if (make_device()) {
		upload();
		discard();
		from_above();
		races();
		suspend();
		close(fd);
		check(!dm_remove("dsm"), "the device is removed");
		check(!syscall(SYS_delete_module, "dm_dsm", 0), "the module is unloaded");
	}
	puts("end of the steps");
	if (getpid() == 1)
		reboot(RB_POWER_OFF);
	return 0;
}
