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
#define WAIT_AT 5		/* the file at which a checkpoint is waited for */

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

/* By reflink where the file system has them, if that is wanted. */
static void copy_file(const char *from_dir, const char *to_dir,
		      const char *name, bool reflink)
{
	char path[PATH_SIZE], copy[PATH_SIZE];
	int from, to;

	path_of(path, from_dir, name);
	path_of(copy, to_dir, name);
	make_parents(copy);
	from = open_path(path, O_RDONLY);
	to = open_path(copy, O_WRONLY | O_CREAT | O_TRUNC);
	if (!reflink || ioctl(to, FICLONE, from))
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

/* Adds the next file's name to the list; NULL: there is none. */
static const char *next_file(WT_CURSOR *backup, struct list *list)
{
	const char *name;
	int ret = backup->next(backup);

	if (ret == WT_NOTFOUND)
		return NULL;
	must(ret, "reading", "a backup cursor");
	must(backup->get_key(backup, &name), "reading", "a backup cursor");
	if (list->count == FILES_MAX)
		die("a backup has more than %d files", FILES_MAX);
	return list->name[list->count++] = copy_text(name);
}

static struct list *files_of(WT_CURSOR *backup)
{
	struct list *list = xalloc(1, sizeof(*list));

	while (next_file(backup, list))
		;
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
		copy_file(engine->opt->dbpath, new, list->name[i], true);
	}
	close_cursor(backup);
	pthread_mutex_unlock(&copies_lock);
	free_list(list);
	mark_unclean(new);
	remove_tree(old);
	if (rename(new, old))
		die("cannot rename '%s': %s", new, strerror(errno));
}

/* ---- by blocks ---- */

#ifdef WT_BACKUP_RANGE

bool copies_can_update(void)
{
	return true;
}

/* Those of a run before this one: there may be none. */
static void forget_sources(WT_SESSION *session)
{
	WT_CURSOR *backup;

	if (!session->open_cursor(session, "backup:", NULL,
				  "incremental=(force_stop=true)", &backup))
		close_cursor(backup);
}

/* What has changed of a file since the backup before, or all of it if it is new. */
static void copy_changes(struct engine *engine, WT_SESSION *session,
			 WT_CURSOR *backup, const char *dir, const char *name)
{
	char config[PATH_SIZE], path[PATH_SIZE], copy[PATH_SIZE];
	uint64_t offset, size, type;
	WT_CURSOR *changes;
	int ret, from, to;

	text(config, sizeof(config), "incremental=(file=%s)", name);
	must(session->open_cursor(session, NULL, backup, config, &changes),
	     "opening the changes of", name);
	path_of(path, engine->opt->dbpath, name);
	path_of(copy, dir, name);
	make_parents(copy);
	from = open_path(path, O_RDONLY);
	to = open_path(copy, O_WRONLY | O_CREAT);
	while (!(ret = changes->next(changes)) &&
	       !(ret = changes->get_key(changes, &offset, &size, &type))) {
		if (type == WT_BACKUP_RANGE)
			copy_range(from, to, name, offset, size);
		else
			copy_file(engine->opt->dbpath, dir, name, false);
	}
	if (ret != WT_NOTFOUND)
		must(ret, "reading the changes of", name);
	close_cursor(changes);
	close(from);
	close_written(to, copy);
}

static bool names(const struct list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->name[i], name))
			return true;
	return false;
}

static void remove_others(const char *dir, const struct list *before,
			  const struct list *now)
{
	char path[PATH_SIZE];

	for (size_t i = 0; i < before->count; i++) {
		path_of(path, dir, before->name[i]);
		if (!names(now, before->name[i]) && remove(path))
			die("cannot remove '%s': %s", path, strerror(errno));
	}
}

void copies_update(struct engine *engine, WT_SESSION *session, const char *dir,
		   struct checkpointer *cp)
{
	static unsigned int number;
	static struct list *before;
	char config[128], to[PATH_SIZE];
	WT_CURSOR *backup;
	struct list *list;
	const char *name;

	text(to, sizeof(to), "%s/incremental", dir);
	pthread_mutex_lock(&copies_lock);
	if (before) {
		text(config, sizeof(config),
		     "incremental=(src_id=n%u,this_id=n%u,consolidate=%s)",
		     number, number + 1, number % 2 ? "true" : "false");
	} else {
		forget_sources(session);
		remove_tree(to);
		text(config, sizeof(config),
		     "incremental=(enabled=true,granularity=16KB,this_id=n%u)",
		     number + 1);
	}
	number++;
	backup = open_backup(session, config);
	/* What has changed can be asked for while the cursor is at the file. */
	list = xalloc(1, sizeof(*list));
	while ((name = next_file(backup, list))) {
		if (list->count == WAIT_AT)
			checkpointer_wait(cp, 1);
		/* Of a file that is new, and has no checkpoint, nothing has changed. */
		if (before && names(before, name))
			copy_changes(engine, session, backup, to, name);
		else
			copy_file(engine->opt->dbpath, to, name, false);
	}
	close_cursor(backup);
	pthread_mutex_unlock(&copies_lock);
	if (before) {
		remove_others(to, before, list);
		free_list(before);
	}
	before = list;
	mark_unclean(to);
}

#else

bool copies_can_update(void)
{
	return false;
}

void copies_update(struct engine *engine, WT_SESSION *session, const char *dir,
		   struct checkpointer *cp)
{
	(void)engine;
	(void)session;
	(void)dir;
	(void)cp;
}

#endif
