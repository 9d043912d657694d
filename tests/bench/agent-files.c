// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: agent-files DIR FILES FROM TO [STEP]
 *
 * Gives every STEP-th of FILES files in DIR the extents FROM to TO, of a page each
 * with a page's hole behind it. They are allocated and not written, which is the
 * same to a reader of extents.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long files, from, to, step, n, page;
	char path[PATH_MAX];
	int fd;

	if (argc < 5)
		errx(2, "usage: agent-files DIR FILES FROM TO [STEP]");
	files = atol(argv[2]);
	from = atol(argv[3]);
	to = atol(argv[4]);
	step = argc > 5 ? atol(argv[5]) : 1;

	for (n = 0; n < files; n += step) {
		snprintf(path, sizeof(path), "%s/collection-%ld-1.wt", argv[1], n);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			err(1, "%s", path);
		for (page = from; page < to; page++)
			if (fallocate(fd, 0, page * 8192, 4096))
				err(1, "%s", path);
		close(fd);
	}
	return 0;
}
