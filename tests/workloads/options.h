/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_OPTIONS_H
#define WTLOAD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum phase {
	PHASE_ALL,
	PHASE_LOAD,
	PHASE_RUN,
};

/* Shares of create, read, update and delete operations, in per cent. */
struct mix {
	const char *name;
	unsigned int create, read, update, delete;
};

struct options {
	const char *command;		/* linkbench, ycsb, many or check */
	const char *dbpath;
	const struct mix *mix;
	enum phase phase;
	uint64_t nodes;			/* linkbench */
	uint64_t records;		/* ycsb; many: of each collection */
	uint64_t collections;		/* many */
	uint64_t indexes;		/* many: beside _id, of each collection */
	uint64_t ops;			/* 0: until the time is over */
	uint64_t seconds;		/* 0: until the operations are done */
	uint64_t checkpoints;		/* so many, evenly over the run */
	uint64_t checkpoint_ops;	/* or one after so many operations */
	uint64_t checkpoint_seconds;	/* or one after so many seconds */
	uint64_t threads;
	uint64_t cache_mb;
	uint64_t journal_mb;		/* 0: no journal */
	uint64_t leaf_kib;		/* of collections, not of indexes */
	uint64_t index_leaf_kib;
	const char *block_compressor;	/* of collections; "": none */
	uint64_t seed;
	uint64_t think_us;		/* before each operation, not a part of it */
	uint64_t rate;			/* operations a second; 0: as fast as can be */
	bool directory_per_db;
	bool directory_for_indexes;
	bool direct_io;
	const char *idents_file;
	const char *json_file;
	const char *latencies_file;
	const char *before_checkpoint;
	const char *on_checkpoint;
	const char *on_load_end;
	const char *beside;
	const char *copies;
};

/* Ends the process with an error message when the command line is invalid. */
void options_parse(struct options *opt, int argc, char **argv);

#endif
