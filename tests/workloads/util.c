// SPDX-License-Identifier: GPL-2.0-only
/* Ends, memory, text and time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wiredtiger.h>

#include "util.h"

static void complain(const char *fmt, va_list args)
{
	fflush(stdout);
	fputs("wtload: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
}

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	complain(fmt, args);
	va_end(args);
	/* Not exit(): other threads still use what atexit handlers would free. */
	_Exit(EXIT_BROKEN);
}

void usage_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	complain(fmt, args);
	va_end(args);
	exit(EXIT_USAGE);
}

void must(int ret, const char *what, const char *object)
{
	if (ret)
		die("%s %s failed: %s", what, object, wiredtiger_strerror(ret));
}

void *xalloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		die("no memory for %zu bytes", count * size);
	return memory;
}

char *copy_text(const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		die("no memory for '%s'", value);
	return copy;
}

void text(char *out, size_t size, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(out, size, fmt, args);
	va_end(args);
	if (len < 0 || (size_t)len >= size)
		die("'%s...' is too long: at most %zu characters", out, size - 1);
}

FILE *open_output(const char *path)
{
	FILE *out = fopen(path, "w");

	if (!out)
		die("cannot write '%s': %s", path, strerror(errno));
	return out;
}

void close_output(FILE *out, const char *path)
{
	if (ferror(out) | fclose(out))
		die("cannot write '%s': %s", path, strerror(errno));
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

double seconds_since(uint64_t start_ns)
{
	return (double)(now_ns() - start_ns) / 1e9;
}
