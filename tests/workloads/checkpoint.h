/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_CHECKPOINT_H
#define WTLOAD_CHECKPOINT_H

#include <pthread.h>
#include <stdatomic.h>

#include "catalog.h"

/*
 * Makes the checkpoints of one phase, in a thread of its own as mongod does, or,
 * when that thread is not started, in the thread that asks. The lock guards
 * requested, done and stopping; the rest belongs to who makes a checkpoint.
 */
struct checkpointer {
	struct catalog *catalog;
	WT_SESSION *session;
	const char *before, *command;	/* to run before and after each; or NULL */
	uint64_t expected;		/* 0: not known */
	double total_seconds;
	double longest_seconds;

	bool threaded;
	double interval;		/* seconds; 0: only on request */
	uint64_t limit;			/* of timed checkpoints; 0: none */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	_Atomic uint64_t requested;	/* changed with the lock held */
	uint64_t done;
	bool stopping;
	bool ended;			/* the clients are done */
};

void checkpointer_init(struct checkpointer *cp, struct catalog *catalog);
void checkpointer_start_thread(struct checkpointer *cp);

/*
 * To be called by every client before it works in the window after checkpoint
 * number: asks for that checkpoint if nobody did, once the one before is made.
 * So at most one window's work runs beside a checkpoint.
 */
void checkpointer_reach(struct checkpointer *cp, uint64_t number);
/*
 * Waits until so many more are made, which takes the thread, or the clients are done:
 * false then.
 */
bool checkpointer_wait(struct checkpointer *cp, uint64_t count);
bool checkpointer_ended(struct checkpointer *cp);
/* Asks the thread for one more, and returns its number. */
uint64_t checkpointer_ask(struct checkpointer *cp);
/* Whether the one of this number is made, and waits until it is. */
bool checkpointer_made(struct checkpointer *cp, uint64_t number);
void checkpointer_wait_for(struct checkpointer *cp, uint64_t number);
/* The clients are done: nobody waits any more. */
void checkpointer_end_waits(struct checkpointer *cp);
/* Ends the thread; what was asked for is made first. */
void checkpointer_stop(struct checkpointer *cp);

/* Sizes, then the checkpoint; returns how long that took. */
double checkpoint_now(struct catalog *catalog, WT_SESSION *session);
/* Runs a hook; ends the process when it fails. */
void run_hook(const char *option, const char *command);

#endif
