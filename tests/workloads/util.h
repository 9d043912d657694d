/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_UTIL_H
#define WTLOAD_UTIL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdnoreturn.h>

enum {
	EXIT_BROKEN = 1,	/* the work failed, or the database is wrong */
	EXIT_USAGE = 2,		/* the command line is wrong, nothing was touched */
};

/* Prints "wtload: <reason>" and ends the process. */
noreturn void die(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
noreturn void usage_error(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));

/* Ends the process with WiredTiger's own error message when ret is not 0. */
void must(int ret, const char *what, const char *object);

void *xalloc(size_t count, size_t size);
char *copy_text(const char *value);

/* snprintf that ends the process instead of cutting the text short. */
void text(char *out, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

FILE *open_output(const char *path);
void close_output(FILE *out, const char *path);

uint64_t now_ns(void);
double seconds_since(uint64_t start_ns);

#endif
