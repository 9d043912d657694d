/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_BESIDE_H
#define WTLOAD_BESIDE_H

#include "checkpoint.h"

/*
 * What a database does beside its clients: backups, compaction, cursors on old
 * checkpoints and the like, each over and over in a thread of its own, paced by the
 * run's checkpoints. What is read is compared with what it has to be.
 */
struct beside;

/* Ends the process when a name is not one of them; names may be NULL. */
void beside_check(const char *names, const char *copies);

/* NULL when there is nothing to do. */
struct beside *beside_start(const char *names, struct checkpointer *cp);
/* Lets each finish what it is at, and says how often it was done. */
void beside_stop(struct beside *beside);

#endif
