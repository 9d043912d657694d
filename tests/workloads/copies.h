/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_COPIES_H
#define WTLOAD_COPIES_H

#include "checkpoint.h"

/*
 * DIR/backup: a copy of the files of a backup cursor, which is held while
 * checkpoints are made. The one before it is there until the new one is complete.
 */
void copies_make(struct engine *engine, WT_SESSION *session, const char *dir,
		 struct checkpointer *cp);

/*
 * DIR/incremental: the same, but from the second round on only of what WiredTiger
 * says has changed. It is whole when the program ends by itself.
 */
void copies_update(struct engine *engine, WT_SESSION *session, const char *dir,
		   struct checkpointer *cp, uint64_t round);

#endif
