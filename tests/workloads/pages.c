// SPDX-License-Identifier: GPL-2.0-only
/*
 * What WiredTiger writes, by the types in the headers of its blocks. WiredTiger is a
 * shared library, whose calls of pwrite() reach the one here.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pages.h"
#include "util.h"

#define TYPE_OFFSET	24	/* of struct __wt_page_header */
#define MAX_FDS		4096

/* As WiredTiger numbers them */
enum { BLOCK_MANAGER = 1, ROW_INT = 6, ROW_LEAF = 7 };

enum { COLLECTION, INDEX, NR_CLASSES };
enum { ROOT, INTERNAL, LEAF, EXTENT, NR_TYPES };

/* Without --directory-for-indexes names of files begin so. */
static const char *const class_names[] = { "collection", "index" };
static const char *const type_names[] = { "root", "internal", "leaf", "extent" };

static _Atomic uint64_t counts[NR_CLASSES][NR_TYPES];
/* Whether the newest page of a file that is neither leaf nor extent list may be its root */
static _Atomic bool may_be_root[MAX_FDS];

static int class_of(int fd)
{
	char link[32], path[PATH_MAX];
	const char *name;
	ssize_t length;

	text(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length < 0)
		return -1;
	path[length] = '\0';
	name = strrchr(path, '/');
	for (int class = 0; name && class < NR_CLASSES; class++)
		if (!strncmp(name + 1, class_names[class], strlen(class_names[class])))
			return class;
	return -1;
}

static void count(int fd, uint8_t type)
{
	int class = class_of(fd);

	if (class < 0 || fd >= MAX_FDS)
		return;
	switch (type) {
	case ROW_LEAF:
		counts[class][LEAF]++;
		break;
	case ROW_INT:
		counts[class][INTERNAL]++;
		may_be_root[fd] = true;
		break;
	case BLOCK_MANAGER:
		counts[class][EXTENT]++;
		/* A file's checkpoint writes its root, and then its lists. */
		if (atomic_exchange(&may_be_root[fd], false)) {
			counts[class][INTERNAL]--;
			counts[class][ROOT]++;
		}
		break;
	}
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t offset)
{
	/* The first block describes the file. */
	if (offset && size > TYPE_OFFSET)
		count(fd, ((const uint8_t *)buffer)[TYPE_OFFSET]);
	return syscall(SYS_pwrite64, fd, buffer, size, offset);
}

void pages_print_json(FILE *out)
{
	const char *between = "";

	fputs("{", out);
	for (int class = 0; class < NR_CLASSES; class++)
		for (int type = 0; type < NR_TYPES; type++) {
			fprintf(out, "%s\"%s %s\": %llu", between,
				class_names[class], type_names[type],
				(unsigned long long)counts[class][type]);
			between = ", ";
		}
	fputs("}", out);
}
