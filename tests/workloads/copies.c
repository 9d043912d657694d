// SPDX-License-Identifier: GPL-2.0-only
/* Backups through WiredTiger's backup cursors, as mongod's tools make them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copies.h"
#include "util.h"

#define PATH_SIZE 4096
#define CHUNK (256 * 1024)
#define FILES_MAX 4096

pthread_mutex_t copies_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- files ---- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_tree(const char *path)
{
	if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) &&
	    errno != ENOENT)
		die("cannot remove '%s': %s", path, strerror(errno));
}

static void make_parents(const char *path)
{
	char part[PATH_SIZE];

	for (const char *at = strchr(path + 1, '/'); at;
	     at = strchr(at + 1, '/')) {
		text(part, sizeof(part), "%.*s", (int)(at - path), path);
		if (mkdir(part, 0700) && errno != EEXIST)
			die("cannot make the directory '%s': %s", part,
			    strerror(errno));
	}
}

/* Logs are named without their directory. */
static void path_of(char *out, const char *dir, const char *name)
{
	bool log = !strncmp(name, "WiredTigerLog.", 14);

	text(out, PATH_SIZE, "%s/%s%s", dir, log ? "journal/" : "", name);
}

static void copy_range(int from, int to, const char *name, uint64_t offset,
		       uint64_t size)
{
	static uint8_t bytes[CHUNK];

	while (size) {
		size_t part = size < CHUNK ? size : CHUNK;
		ssize_t got = pread(from, bytes, part, (off_t)offset);

		/* It may be shorter by now, where nothing is needed. */
		if (!got)
			return;
		if (got < 0 ||
		    pwrite(to, bytes, (size_t)got, (off_t)offset) != got)
			die("cannot copy '%s': %s", name, strerror(errno));
		offset += (uint64_t)got;
		size -= (uint64_t)got;
	}
}

static int open_path(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		die("cannot open '%s': %s", path, strerror(errno));
	return fd;
}

static void close_written(int fd, const char *path)
{
	if (fsync(fd) || close(fd))
		die("cannot write '%s': %s", path, strerror(errno));
}

/* By reflink where the file system has them. */
static void copy_file(const char *from_dir, const char *to_dir,
		      const char *name)
{
	char path[PATH_SIZE], copy[PATH_SIZE];
	int from, to;

	path_of(path, from_dir, name);
	path_of(copy, to_dir, name);
	make_parents(copy);
	from = open_path(path, O_RDONLY);
	to = open_path(copy, O_WRONLY | O_CREAT | O_TRUNC);
	if (ioctl(to, FICLONE, from))
		copy_range(from, to, name, 0, UINT64_MAX);
	close(from);
	close_written(to, copy);
}

/* ---- backup cursors ---- */

static WT_CURSOR *open_backup(WT_SESSION *session, const char *config)
{
	WT_CURSOR *cursor;
	int ret;

	/* There can be one at a time. */
	while ((ret = session->open_cursor(session, "backup:", NULL, config,
					   &cursor)) == EBUSY || ret == EINVAL)
		usleep(20000);
	must(ret, "opening", "a backup cursor");
	return cursor;
}

struct list {
	size_t count;
	char *name[FILES_MAX];
};

static struct list *files_of(WT_CURSOR *backup)
{
	struct list *list = xalloc(1, sizeof(*list));
	const char *name;
	int ret;

	while (!(ret = backup->next(backup)) &&
	       !(ret = backup->get_key(backup, &name))) {
		if (list->count == FILES_MAX)
			die("a backup has more than %d files", FILES_MAX);
		list->name[list->count++] = copy_text(name);
	}
	if (ret != WT_NOTFOUND)
		must(ret, "reading", "a backup cursor");
	return list;
}

static void free_list(struct list *list)
{
	while (list->count)
		free(list->name[--list->count]);
	free(list);
}

/* As after a crash: what the journal has is newer than what was stored of sizes. */
static void mark_unclean(const char *dir)
{
	char path[PATH_SIZE];
	int fd;

	text(path, sizeof(path), "%s/mongod.lock", dir);
	fd = open_path(path, O_WRONLY | O_CREAT | O_TRUNC);
	if (write(fd, "0\n", 2) != 2)
		die("cannot write '%s': %s", path, strerror(errno));
	close_written(fd, path);
}

void copies_make(struct engine *engine, WT_SESSION *session, const char *dir,
		 struct checkpointer *cp)
{
	char old[PATH_SIZE], new[PATH_SIZE];
	WT_CURSOR *backup;
	struct list *list;

	text(old, sizeof(old), "%s/backup", dir);
	text(new, sizeof(new), "%s/backup.new", dir);
	remove_tree(new);
	pthread_mutex_lock(&copies_lock);
	backup = open_backup(session, NULL);
	list = files_of(backup);
	for (size_t i = 0; i < list->count; i++) {
		if (i == list->count / 2)
			checkpointer_wait(cp, 2);
		copy_file(engine->opt->dbpath, new, list->name[i]);
	}
	close_cursor(backup);
	pthread_mutex_unlock(&copies_lock);
	free_list(list);
	mark_unclean(new);
	remove_tree(old);
	if (rename(new, old))
		die("cannot rename '%s': %s", new, strerror(errno));
}
