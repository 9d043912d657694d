/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_ENGINE_H
#define WTLOAD_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <wiredtiger.h>

#include "options.h"

/* An open dbpath: what a running mongod holds. */
struct engine {
	const struct options *opt;
	WT_CONNECTION *conn;
	int lock_fd;		/* mongod.lock */
	bool unclean;		/* the last process did not stop cleanly */
	pthread_t journal_thread;
	_Atomic bool stopping;
};

/* create: make a new database; otherwise there must be one. */
void engine_open(struct engine *engine, const struct options *opt, bool create);
void engine_close(struct engine *engine);

WT_SESSION *engine_session(struct engine *engine);
void session_close(WT_SESSION *session);
WT_CURSOR *open_cursor(WT_SESSION *session, const char *uri);
void close_cursor(WT_CURSOR *cursor);

#endif
