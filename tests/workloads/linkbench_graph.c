// SPDX-License-Identifier: GPL-2.0-only
/* The shape of LinkBench's social graph, and who in it is accessed. */
#include <math.h>

#include "linkbench_graph.h"

#define FIRST_LINK_TYPE 123456789
#define DEGREE_EXPONENT 1.35	/* of the power law: 3.3 links a node */

/*
 * From FBWorkload.properties: write_shape, read_shape, node_update_shape and
 * node_read_shape; 100 % less write_uncorr_blend and read_uncorr_blend.
 */
static const struct {
	double shape;
	unsigned int correlated_per_mille;
} profile[ACCESSES] = {
	[WRITE_LINK] = { 0.741, 50 },
	[READ_LINK] = { 0.8, 5 },
	[UPDATE_NODE] = { 0.606, 0 },
	[READ_NODE] = { 0.625, 0 },
};

/* Read only once graph_init() is done. */
static struct {
	uint64_t nodes;
	struct shuffle degrees;		/* rank of out-degree -> node */
	struct shuffle targets;		/* place in a node's links -> id2 */
	struct shuffle popularity;	/* rank of popularity -> node */
	struct zipf zipf[ACCESSES];
} graph;

void graph_init(uint64_t nodes)
{
	graph.nodes = nodes;
	shuffle_init(&graph.degrees, nodes, 1);
	shuffle_init(&graph.targets, nodes, 2);
	shuffle_init(&graph.popularity, nodes, 3);
	for (int i = 0; i < ACCESSES; i++)
		zipf_init(&graph.zipf[i], nodes, profile[i].shape);
}

uint64_t graph_degree(int64_t id1)
{
	uint64_t rank = shuffle_rank(&graph.degrees, (uint64_t)id1 - 1);
	double part = ((double)rank + 0.5) / (double)graph.nodes;
	uint64_t links = (uint64_t)pow(part, -1 / DEGREE_EXPONENT);

	return links < graph.nodes ? links : graph.nodes;
}

int64_t graph_id2(int64_t id1, uint64_t nth)
{
	uint64_t start = hash64((uint64_t)id1) % graph.nodes;

	return 1 + (int64_t)shuffle_of(&graph.targets,
				       (start + nth) % graph.nodes);
}

int64_t graph_link_type(uint64_t nth)
{
	return FIRST_LINK_TYPE + (int64_t)(nth % LINK_TYPES);
}

int64_t graph_pick_node(enum access access, struct rng *rng)
{
	return 1 + (int64_t)shuffle_of(&graph.popularity,
				       zipf_draw(&graph.zipf[access], rng));
}

int64_t graph_pick_id1(enum access access, struct rng *rng)
{
	if (rng_below(rng, 1000) >= profile[access].correlated_per_mille)
		return graph_pick_node(access, rng);
	return 1 + (int64_t)shuffle_of(&graph.degrees,
				       zipf_draw(&graph.zipf[access], rng));
}

int64_t graph_any_node(struct rng *rng)
{
	return 1 + (int64_t)rng_below(rng, graph.nodes);
}
