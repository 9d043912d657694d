// SPDX-License-Identifier: GPL-2.0-only
/*
 * Opens WiredTiger as mongod 3.2 to 4.0 does (wiredtiger_kv_engine.cpp), except
 * for checkpoints, which checkpoint.c makes, as mongod does from 3.6 on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bson.h"
#include "engine.h"
#include "util.h"

#define EXTENSION_LIBRARY "libwiredtiger_%s.so"
#define JOURNAL_SYNC_NS 100000000	/* mongod's commitIntervalMs: 100 */
#define PATH_SIZE 4096

static int on_wt_error(WT_EVENT_HANDLER *handler, WT_SESSION *session, int error,
		       const char *message)
{
	(void)handler;
	(void)session;
	(void)error;
	fprintf(stderr, "wtload: WiredTiger: %s\n", message);
	return 0;
}

static WT_EVENT_HANDLER event_handler = { .handle_error = on_wt_error };

static void path_in(const struct options *opt, char *out, const char *name)
{
	text(out, PATH_SIZE, "%s/%s", opt->dbpath, name);
}

static bool exists_in(const struct options *opt, const char *name)
{
	char path[PATH_SIZE];

	path_in(opt, path, name);
	return !access(path, F_OK);
}

/* The file that a symbol was loaded from. */
static const char *file_of(void *handle, const char *symbol)
{
	void *address = handle ? dlsym(handle, symbol) : NULL;
	Dl_info info;

	return address && dladdr(address, &info) ? info.dli_fname : NULL;
}

static bool load_library(char *out, const char *path)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	const char *library = file_of(handle, "wiredtiger_extension_init");

	if (library)
		text(out, PATH_SIZE, "%s", library);
	if (handle)
		dlclose(handle);
	return library;
}

/*
 * WiredTiger has the compressors as extensions, in the library's own directory:
 * look there first, then let the loader search.
 */
static bool find_extension(char *out, const char *name)
{
	const char *library = file_of(RTLD_DEFAULT, "wiredtiger_open");
	const char *slash = library ? strrchr(library, '/') : NULL;
	char file[64], path[PATH_SIZE];

	text(file, sizeof(file), EXTENSION_LIBRARY, name);
	if (slash) {
		text(path, sizeof(path), "%.*s/%s", (int)(slash - library),
		     library, file);
		if (load_library(out, path))
			return true;
	}
	return load_library(out, file);
}

static void find_snappy(char *out)
{
	const char *given = getenv("WTLOAD_SNAPPY");

	if (given && access(given, R_OK))
		die("WTLOAD_SNAPPY names '%s', which cannot be read: %s",
		    given, strerror(errno));
	if (given)
		text(out, PATH_SIZE, "%s", given);
	else if (!find_extension(out, "snappy"))
		die("cannot find libwiredtiger_snappy.so: install the package libwiredtiger0, or name the file in WTLOAD_SNAPPY");
}

/* What is there is loaded, because a database says what it needs only later. */
static void find_zstd(char *out, const struct options *opt)
{
	if (find_extension(out, "zstd"))
		return;
	if (!strcmp(opt->block_compressor, "zstd"))
		die("cannot find libwiredtiger_zstd.so, which --block-compressor zstd needs: this WiredTiger was built without it");
	*out = 0;
}

static void check_dbpath(const struct options *opt, bool create)
{
	struct stat st;

	if (stat(opt->dbpath, &st))
		die("dbpath '%s' cannot be used: %s", opt->dbpath,
		    strerror(errno));
	if (!S_ISDIR(st.st_mode))
		die("dbpath '%s' is not a directory", opt->dbpath);
	if (create && exists_in(opt, "WiredTiger"))
		die("dbpath '%s' already holds a database: use --phase run, or an empty directory",
		    opt->dbpath);
	if (!create && !exists_in(opt, "WiredTiger"))
		die("dbpath '%s' holds no database: load one with --phase load",
		    opt->dbpath);
}

/* As mongod: the lock file holds the pid while it runs, and is empty after. */
static void take_lock(struct engine *engine)
{
	char path[PATH_SIZE], pid[32];
	struct stat st;
	int len;

	path_in(engine->opt, path, "mongod.lock");
	engine->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (engine->lock_fd < 0 || fstat(engine->lock_fd, &st))
		die("cannot open '%s': %s", path, strerror(errno));
	if (flock(engine->lock_fd, LOCK_EX | LOCK_NB))
		die("dbpath '%s' is in use by another process (mongod.lock is locked)",
		    engine->opt->dbpath);
	engine->unclean = st.st_size > 0;
	len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	if (ftruncate(engine->lock_fd, 0) ||
	    pwrite(engine->lock_fd, pid, (size_t)len, 0) != len ||
	    fsync(engine->lock_fd))
		die("cannot write '%s': %s", path, strerror(errno));
}

/* What mongod keeps there, so that a wrong option is refused at the next start. */
static void write_storage_bson(const struct options *opt)
{
	struct bson_out out;
	uint8_t doc[256];
	char path[PATH_SIZE];
	size_t storage, options;
	FILE *file;

	bson_begin(&out, doc, sizeof(doc));
	storage = bson_open(&out, BSON_OBJECT, "storage");
	bson_string(&out, "engine", "wiredTiger");
	options = bson_open(&out, BSON_OBJECT, "options");
	bson_bool(&out, "directoryPerDB", opt->directory_per_db);
	bson_bool(&out, "directoryForIndexes", opt->directory_for_indexes);
	bson_bool(&out, "groupCollections", false);
	bson_close(&out, options);
	bson_close(&out, storage);
	bson_end(&out);
	path_in(opt, path, "storage.bson");
	file = open_output(path);
	fwrite(doc, 1, out.len, file);
	close_output(file, path);
}

static void make_directories(const struct options *opt)
{
	static const char *const names[] = { "journal", "diagnostic.data" };
	char path[PATH_SIZE];

	for (int i = 0; i < 2; i++) {
		path_in(opt, path, names[i]);
		if (mkdir(path, 0700) && errno != EEXIST)
			die("cannot make the directory '%s': %s", path,
			    strerror(errno));
	}
}

static void sleep_ns(long ns)
{
	struct timespec ts = { .tv_nsec = ns };

	nanosleep(&ts, NULL);
}

static void *journal_main(void *arg)
{
	struct engine *engine = arg;
	WT_SESSION *session = engine_session(engine);

	while (engine->opt->journal_mb && !atomic_load(&engine->stopping)) {
		sleep_ns(JOURNAL_SYNC_NS);
		must(session->log_flush(session, "sync=on"), "syncing",
		     "the journal");
	}
	session_close(session);
	return NULL;
}

void engine_open(struct engine *engine, const struct options *opt, bool create)
{
	char config[3 * PATH_SIZE], snappy[PATH_SIZE], zstd[PATH_SIZE];
	struct rlimit files;
	int ret;

	memset(engine, 0, sizeof(*engine));
	engine->opt = opt;
	check_dbpath(opt, create);
	find_snappy(snappy);
	find_zstd(zstd, opt);
	take_lock(engine);
	if (create) {
		make_directories(opt);
		write_storage_bson(opt);
	}
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	text(config, sizeof(config),
	     "%s,cache_size=%lluM,session_max=1000,eviction=(threads_max=4),"
	     "config_base=false,statistics=(none),"
	     "log=(enabled=%s,archive=true,path=journal,compressor=snappy,file_max=%lluM),"
	     "file_manager=(close_idle_time=100000),extensions=[%s%s%s]%s",
	     create ? "create" : "create=false",
	     (unsigned long long)opt->cache_mb,
	     opt->journal_mb ? "true" : "false",
	     (unsigned long long)(opt->journal_mb ?: 1), snappy,
	     *zstd ? "," : "", zstd,
	     opt->direct_io ? ",direct_io=[data]" : "");
	ret = wiredtiger_open(opt->dbpath, &event_handler, config,
			      &engine->conn);
	if (ret)
		die("cannot open the database in '%s': %s", opt->dbpath,
		    wiredtiger_strerror(ret));
	if (pthread_create(&engine->journal_thread, NULL, journal_main, engine))
		die("cannot start the journal thread");
}

void engine_close(struct engine *engine)
{
	atomic_store(&engine->stopping, true);
	pthread_join(engine->journal_thread, NULL);
	must(engine->conn->close(engine->conn, "leak_memory=true"), "closing",
	     engine->opt->dbpath);
	if (ftruncate(engine->lock_fd, 0))
		die("cannot empty mongod.lock: %s", strerror(errno));
	close(engine->lock_fd);
}

WT_SESSION *engine_session(struct engine *engine)
{
	WT_SESSION *session;

	must(engine->conn->open_session(engine->conn, NULL, NULL, &session),
	     "opening", "a session");
	return session;
}

void session_close(WT_SESSION *session)
{
	must(session->close(session, NULL), "closing", "a session");
}

WT_CURSOR *open_cursor(WT_SESSION *session, const char *uri)
{
	WT_CURSOR *cursor;

	must(session->open_cursor(session, uri, NULL, NULL, &cursor),
	     "opening", uri);
	return cursor;
}

void close_cursor(WT_CURSOR *cursor)
{
	must(cursor->close(cursor), "closing", "a cursor");
}
