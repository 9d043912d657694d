// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a database: a new turtle does not take the old one's place while there is
 * a file of its name and ".hold". So a checkpoint is kept at that step for as long as a test
 * needs.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void be_held(const char *path)
{
	static const char turtle[] = "/WiredTiger.turtle";
	size_t length = strlen(path), of_name = strlen(turtle);
	char hold[PATH_MAX];

	if (length < of_name || strcmp(path + length - of_name, turtle))
		return;
	snprintf(hold, sizeof(hold), "%s.hold", path);
	while (!access(hold, F_OK))
		usleep(1000);
}

int rename(const char *from, const char *to)
{
	be_held(to);
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
