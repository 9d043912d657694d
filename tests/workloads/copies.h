/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_COPIES_H
#define WTLOAD_COPIES_H

#include <pthread.h>

#include "checkpoint.h"

/* Held during a backup, in which no named checkpoint can be dropped. */
extern pthread_mutex_t copies_lock;

/*
 * DIR/backup: a copy of the files of a backup cursor, which is held while
 * checkpoints are made. The one before it is there until the new one is complete.
 */
void copies_make(struct engine *engine, WT_SESSION *session, const char *dir,
		 struct checkpointer *cp);

/*
 * DIR/incremental: a copy of all files by the first call, and of the blocks that have
 * changed by each other one. Needs WiredTiger 10; by one thread.
 */
bool copies_can_update(void);
void copies_update(struct engine *engine, WT_SESSION *session, const char *dir,
		   struct checkpointer *cp);

#endif
