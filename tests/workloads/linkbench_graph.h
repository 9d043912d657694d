/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_LINKBENCH_GRAPH_H
#define WTLOAD_LINKBENCH_GRAPH_H

#include "random.h"

/*
 * The loaded graph: nodes 1..n, and for each node as many links as the power
 * law gives it. Which links those are is computed, not stored.
 */
void graph_init(uint64_t nodes);

uint64_t graph_degree(int64_t id1);
int64_t graph_id2(int64_t id1, uint64_t nth);
int64_t graph_link_type(uint64_t nth);
#define LINK_TYPES 2

/* What a client is about to access. */
enum access {
	WRITE_LINK,
	READ_LINK,
	UPDATE_NODE,
	READ_NODE,
	ACCESSES,
};

int64_t graph_pick_node(enum access access, struct rng *rng);
/* For link accesses: a small share of them prefers nodes with many links. */
int64_t graph_pick_id1(enum access access, struct rng *rng);
int64_t graph_any_node(struct rng *rng);

#endif
