/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_DRIVER_H
#define WTLOAD_DRIVER_H

#include "checkpoint.h"
#include "worker.h"

/* What a run came to. */
struct results {
	double load_seconds;		/* with the checkpoint; 0: no load */
	double load_checkpoint_seconds;
	double run_seconds;		/* 0: no run */
	uint64_t ops;
	struct latency latency;
	struct op_log log;		/* if it was asked for */
	uint64_t checkpoints;
	double checkpoint_seconds;
	double longest_checkpoint_seconds;
	/* With --rate: the latest that an operation began, and the whole run's delay */
	double longest_behind_seconds;
	double behind_seconds;
};

/*
 * Was --rate kept? What a checkpoint delays is made up for later: only the delay at the
 * end counts.
 */
bool rate_kept(const struct options *opt, const struct results *results);

/* False when a signal ended it before the database was complete. */
bool drive_load(const struct workload *workload, struct catalog *catalog,
		struct results *results);
void drive_run(const struct workload *workload, struct catalog *catalog,
	       struct results *results);

/* SIGINT and SIGTERM end the run early and cleanly, as they end mongod. */
void catch_signals(void);

#endif
