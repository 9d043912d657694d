/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_WORKER_H
#define WTLOAD_WORKER_H

#include "catalog.h"
#include "document.h"
#include "latency.h"
#include "random.h"

/* mongod inserts so many documents in one transaction. */
#define BATCH_DOCS 64
#define BATCH_SIZE (BATCH_DOCS * 1024 + DOC_MAX_SIZE)

/* Documents of one collection that wait to be inserted together. */
struct batch {
	struct table *table;
	unsigned int docs;
	size_t used;
	struct {
		int64_t rid;
		size_t len;
	} doc[BATCH_DOCS];
	uint8_t bytes[BATCH_SIZE];
};

/* One client. Nothing in it is shared. */
struct worker {
	unsigned int number;
	struct catalog *catalog;
	WT_SESSION *session;
	struct table **table;		/* by place in the catalog; NULL: not open */
	struct rng rng;
	struct latency latency;
	struct op_log log;
	uint64_t clock_ms;		/* made up, so that runs can be repeated */
	struct batch batch;
	size_t old_len;
	uint8_t old[DOC_MAX_SIZE];	/* the document before a change */
	uint8_t doc[DOC_MAX_SIZE];	/* and after it */
};

void worker_init(struct worker *worker, unsigned int number,
		 struct catalog *catalog, const char *phase);
void worker_finish(struct worker *worker);
struct table *worker_table(struct worker *worker, size_t place);

/* Queues a document for insertion; worker_load_flush() inserts what waits. */
void worker_load(struct worker *worker, struct table *table, int64_t rid,
		 const uint8_t *doc, size_t len);
void worker_load_flush(struct worker *worker);

/* Reads a record into worker->old. */
int worker_read(struct worker *worker, struct table *table, int64_t rid);

/* What a kind of database has of its own. */
struct workload {
	const char *name;
	/* how many nodes or records the options ask for */
	uint64_t (*units)(const struct options *opt);
	/* adds the collections to a new catalog */
	void (*create)(struct catalog *catalog);
	/* is called once in each process, before load() or an operation */
	void (*prepare)(struct catalog *catalog);
	/* Steps 0..load_steps()-1 fill the collections, in any order. */
	uint64_t (*load_steps)(const struct catalog *catalog);
	void (*load)(struct worker *worker, uint64_t first, uint64_t end);
	void (*add)(struct worker *worker);
	void (*read)(struct worker *worker);
	void (*update)(struct worker *worker);
	void (*remove)(struct worker *worker);
};

extern const struct workload linkbench_workload;
extern const struct workload ycsb_workload;
extern const struct workload many_workload;

#endif
