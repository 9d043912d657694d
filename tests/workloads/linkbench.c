// SPDX-License-Identifier: GPL-2.0-only
/*
 * LinkBench (Armstrong et al., SIGMOD 2013) on the collections and indexes of
 * LinkBenchX's LinkStoreMongoDBv2, the program that the paper ran. Sizes, skew
 * and the shares of operations are those of LinkBench's FBWorkload.properties.
 */
#include "linkbench.h"
#include "linkbench_graph.h"

#define NODE_TYPE 2048
#define CLOCK_START_MS 1500000000000u

static const struct index node_indexes[] = {
	{ .name = "_id_", .fields = { "_id" }, .unique = true },
	{ .name = "id_1", .fields = { "id" }, .unique = true },
};

static const struct index link_indexes[] = {
	{ .name = "_id_", .fields = { "_id" }, .unique = true },
	{ .name = "link_type_1_id1_1_id2_1",
	  .fields = { "link_type", "id1", "id2" }, .unique = true },
	{ .name = "id1_1_link_type_1_visibility_1_time_1_id2_1_version_1_data_1",
	  .fields = { "id1", "link_type", "visibility", "time", "id2",
		      "version", "data" }, .unique = true },
};

static const struct index count_indexes[] = {
	{ .name = "_id_", .fields = { "_id" }, .unique = true },
	{ .name = "id_1_link_type_1", .fields = { "id", "link_type" },
	  .unique = true },
};

static uint64_t units(const struct options *opt)
{
	return opt->nodes;
}

static void create(struct catalog *catalog)
{
	catalog_add(catalog, "linkdb.nodetable", node_indexes, 2);
	catalog_add(catalog, "linkdb.linktable", link_indexes, 3);
	catalog_add(catalog, "linkdb.counttable", count_indexes, 2);
}

static struct {
	struct sizes node_sizes, link_sizes;
	struct payload node_data, link_data;
} lb;	/* read only once prepared */

static void prepare(struct catalog *catalog)
{
	graph_init(catalog->units);
	sizes_init(&lb.node_sizes, 128, 4096);
	sizes_init(&lb.link_sizes, 8, 255);
	payload_init(&lb.node_data, 50, 220, 0.63, 4);
	payload_init(&lb.link_data, 32, 100, 0.225, 5);
}

/* ---- documents ---- */

static void doc_start(struct bson_out *out, struct worker *w, int64_t rid)
{
	uint8_t oid[BSON_OID_SIZE];

	doc_object_id(oid, rid);
	bson_begin(out, w->doc, sizeof(w->doc));
	bson_oid(out, "_id", oid);
}

size_t node_doc(struct worker *w, int64_t rid, int64_t id, int64_t version)
{
	size_t size = sizes_draw(&lb.node_sizes, &w->rng);
	struct bson_out out;

	doc_start(&out, w, rid);
	bson_int64(&out, "id", id);
	bson_int32(&out, "type", NODE_TYPE);
	bson_int64(&out, "version", version);
	bson_int32(&out, "time", (int32_t)(w->clock_ms / 1000));
	payload_fill(&lb.node_data, &w->rng, bson_binary(&out, "data", size),
		     size);
	return doc_seal(&out, rid);
}

size_t link_doc(struct worker *w, int64_t rid, const struct link *link)
{
	size_t size = sizes_draw(&lb.link_sizes, &w->rng);
	struct bson_out out;

	doc_start(&out, w, rid);
	bson_int64(&out, "id1", link->id1);
	bson_int64(&out, "id2", link->id2);
	bson_int64(&out, "link_type", link->type);
	bson_int64(&out, "time", (int64_t)w->clock_ms);
	bson_int32(&out, "version", link->version);
	bson_int32(&out, "visibility", link->visibility);
	payload_fill(&lb.link_data, &w->rng, bson_binary(&out, "data", size),
		     size);
	return doc_seal(&out, rid);
}

size_t count_doc(struct worker *w, int64_t rid, int64_t id, int64_t type,
		 int64_t count, int64_t version)
{
	struct bson_out out;

	doc_start(&out, w, rid);
	bson_int64(&out, "id", id);
	bson_int64(&out, "link_type", type);
	bson_int64(&out, "time", (int64_t)w->clock_ms);
	bson_int64(&out, "count", count);
	bson_int64(&out, "version", version);
	return doc_seal(&out, rid);
}

/* ---- load: all nodes first (generate_nodes_first), then links and counts ---- */

static uint64_t load_steps(const struct catalog *catalog)
{
	return 2 * catalog->units;
}

static void load_node(struct worker *w, int64_t id)
{
	struct table *nodes = worker_table(w, NODES);
	int64_t rid = table_new_rid(nodes);

	worker_load(w, nodes, rid, w->doc, node_doc(w, rid, id, 0));
}

static void load_links(struct worker *w, int64_t id1)
{
	struct table *links = worker_table(w, LINKS);
	uint64_t count = graph_degree(id1);

	for (uint64_t n = 0; n < count; n++) {
		struct link link = { id1, graph_link_type(n), graph_id2(id1, n), 0,
				     VISIBLE };
		int64_t rid = table_new_rid(links);

		worker_load(w, links, rid, w->doc, link_doc(w, rid, &link));
	}
}

static void load_counts(struct worker *w, int64_t id1)
{
	struct table *counts = worker_table(w, COUNTS);
	uint64_t links = graph_degree(id1);

	for (uint64_t n = 0; n < LINK_TYPES && n < links; n++) {
		int64_t of_type = (int64_t)((links - n + LINK_TYPES - 1) /
					    LINK_TYPES);
		int64_t rid = table_new_rid(counts);

		worker_load(w, counts, rid, w->doc,
			    count_doc(w, rid, id1, graph_link_type(n), of_type, 0));
	}
}

static void load(struct worker *w, uint64_t first, uint64_t end)
{
	const uint64_t nodes = w->catalog->units;
	uint64_t step;

	w->clock_ms = CLOCK_START_MS + first;
	for (step = first; step < end && step < nodes; step++)
		load_node(w, (int64_t)step + 1);
	first = step;
	for (step = first; step < end; step++)
		load_links(w, (int64_t)(step - nodes) + 1);
	for (step = first; step < end; step++)
		load_counts(w, (int64_t)(step - nodes) + 1);
}

const struct workload linkbench_workload = {
	.name = "linkbench",
	.units = units,
	.create = create,
	.prepare = prepare,
	.load_steps = load_steps,
	.load = load,
	.add = linkbench_add,
	.read = linkbench_read,
	.update = linkbench_update,
	.remove = linkbench_remove,
};
