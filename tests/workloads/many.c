// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many small collections with several indexes each, for agents that must keep
 * track of thousands of files. Which collection is used is skewed, zipfian with
 * 0.99. Two of the databases have names that also occur in idents.
 */
#include <stdio.h>
#include <string.h>

#include "util.h"
#include "worker.h"

#define DATABASES 8
#define COLLECTION_SHAPE 0.99
#define DOCUMENT_SHAPE 0.6
#define FIELDS_MAX 8		/* and so indexes beside _id_ */
#define FIELD_VALUES 1000	/* an index has several records for a value */

static const char *const databases[DATABASES] = {
	"app0", "index", "app1", "collection", "app2", "app3", "app4", "app5",
};

#define FIELD_INDEX(n) { .name = "f" #n "_1", .fields = { "f" #n } }
static const struct index indexes[1 + FIELDS_MAX] = {
	{ .name = "_id_", .fields = { "_id" }, .unique = true },
	FIELD_INDEX(0), FIELD_INDEX(1), FIELD_INDEX(2), FIELD_INDEX(3),
	FIELD_INDEX(4), FIELD_INDEX(5), FIELD_INDEX(6), FIELD_INDEX(7),
};

static struct {
	uint64_t records;		/* loaded into each collection */
	unsigned int fields;
	struct zipf collection, document;
	struct shuffle scatter;
	struct sizes sizes;
	struct payload data;
} many;	/* read only once prepared */

static uint64_t units(const struct options *opt)
{
	return opt->records;
}

static void create(struct catalog *catalog)
{
	const struct options *opt = catalog->engine->opt;
	char ns[NS_SIZE];

	for (uint64_t i = 0; i < opt->collections; i++) {
		text(ns, sizeof(ns), "%s.c%llu", databases[i % DATABASES],
		     (unsigned long long)i);
		catalog_add(catalog, ns, indexes,
			    1 + (unsigned int)opt->indexes);
	}
}

static void prepare(struct catalog *catalog)
{
	many.records = catalog->units;
	many.fields = catalog->collection[0]->index_count - 1;
	zipf_init(&many.collection, catalog->count, COLLECTION_SHAPE);
	shuffle_init(&many.scatter, catalog->count, 1);
	zipf_init(&many.document, many.records, DOCUMENT_SHAPE);
	sizes_init(&many.sizes, 200, 2000);
	payload_init(&many.data, 32, 126, 0.5, 2);
}

static uint64_t load_steps(const struct catalog *catalog)
{
	return catalog->count * catalog->units;
}

static size_t make_doc(struct worker *w, int64_t rid, int64_t version)
{
	size_t size = sizes_draw(&many.sizes, &w->rng);
	uint8_t oid[BSON_OID_SIZE];
	struct bson_out out;

	doc_object_id(oid, rid);
	bson_begin(&out, w->doc, sizeof(w->doc));
	bson_oid(&out, "_id", oid);
	bson_int64(&out, "version", version);
	for (unsigned int i = 0; i < many.fields; i++)
		bson_int64(&out, indexes[1 + i].fields[0],
			   (int64_t)rng_below(&w->rng, FIELD_VALUES));
	payload_fill(&many.data, &w->rng, bson_binary(&out, "data", size),
		     size);
	return doc_seal(&out, rid);
}

/* Steps go through one collection after the other, as a restore does. */
static void load(struct worker *w, uint64_t first, uint64_t end)
{
	for (uint64_t step = first; step < end; step++) {
		struct table *table = worker_table(w, step / many.records);
		int64_t rid = table_new_rid(table);

		worker_load(w, table, rid, w->doc, make_doc(w, rid, 0));
	}
}

struct request {
	struct worker *w;
	struct table *table;
	int64_t rid;	/* the _id is made from it */
};

/* Leaves the document in w->old. */
static int read_doc(const struct request *request)
{
	uint8_t oid[BSON_OID_SIZE];
	struct key key;
	int64_t rid;
	int ret;

	doc_object_id(oid, request->rid);
	key_begin(&key);
	key_oid(&key, oid);
	key_end(&key);
	ret = table_find(request->table, 0, &key, &rid);
	return ret ? ret : worker_read(request->w, request->table, rid);
}

static int get(void *arg)
{
	return read_doc(arg);
}

static int update(void *arg)
{
	const struct request *request = arg;
	struct worker *w = request->w;
	int ret = read_doc(request);
	int64_t version;

	if (ret)
		return ret;
	version = bson_get_int(w->old, w->old_len, "version") + 1;
	return table_update(request->table, request->rid, w->old, w->old_len,
			    w->doc, make_doc(w, request->rid, version));
}

static int delete(void *arg)
{
	const struct request *request = arg;
	struct worker *w = request->w;
	int ret = read_doc(request);

	return ret ? ret : table_remove(request->table, request->rid, w->old,
					w->old_len);
}

static int add(void *arg)
{
	struct request *request = arg;

	request->rid = table_new_rid(request->table);
	return table_insert(request->table, request->rid, request->w->doc,
			    make_doc(request->w, request->rid, 0));
}

static void on_document(struct worker *w, int (*work)(void *))
{
	uint64_t place = shuffle_of(&many.scatter,
				    zipf_draw(&many.collection, &w->rng));
	struct request request = {
		.w = w,
		.table = worker_table(w, place),
		.rid = 1 + (int64_t)zipf_draw(&many.document, &w->rng),
	};
	int ret = table_transaction(request.table, work, &request);

	/* It may have been deleted before: that is no failure. */
	if (ret != WT_NOTFOUND)
		must(ret, "using", request.table->coll->ns);
}

static void op_add(struct worker *w)
{
	on_document(w, add);
}

static void op_read(struct worker *w)
{
	on_document(w, get);
}

static void op_update(struct worker *w)
{
	on_document(w, update);
}

static void op_remove(struct worker *w)
{
	on_document(w, delete);
}

const struct workload many_workload = {
	.name = "many",
	.units = units,
	.create = create,
	.prepare = prepare,
	.load_steps = load_steps,
	.load = load,
	.add = op_add,
	.read = op_read,
	.update = op_update,
	.remove = op_remove,
};
