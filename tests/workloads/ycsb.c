// SPDX-License-Identifier: GPL-2.0-only
/*
 * YCSB (Cooper et al., SoCC 2010): records of 10 fields of 100 bytes, choices
 * zipfian with 0.99, scattered over the key space. An update writes one field,
 * a read reads all (writeallfields=false, readallfields=true).
 */
#include <stdio.h>
#include <string.h>

#include "util.h"
#include "worker.h"

#define FIELDS 10
#define FIELD_SIZE 100
#define ZIPF_SHAPE 0.99

static const struct index id_index[] = {
	{ .name = "_id_", .fields = { "_id" }, .unique = true },
};

static const char *const field_names[FIELDS] = {
	"field0", "field1", "field2", "field3", "field4",
	"field5", "field6", "field7", "field8", "field9",
};

static struct {
	struct zipf zipf;
	struct shuffle scatter;
	struct payload data;
} ycsb;	/* read only once prepared */

static uint64_t units(const struct options *opt)
{
	return opt->records;
}

static void create(struct catalog *catalog)
{
	catalog_add(catalog, "ycsb.usertable", id_index, 1);
}

static void prepare(struct catalog *catalog)
{
	zipf_init(&ycsb.zipf, catalog->units, ZIPF_SHAPE);
	shuffle_init(&ycsb.scatter, catalog->units, 1);
	payload_init(&ycsb.data, 32, 126, 1.0, 2);
}

static uint64_t load_steps(const struct catalog *catalog)
{
	return catalog->units;
}

/* insertorder=hashed */
static void record_key(char *out, size_t size, uint64_t number)
{
	text(out, size, "user%llu",
	     (unsigned long long)(hash64(number) >> 1));
}

static void load_record(struct worker *w, uint64_t number)
{
	struct table *users = worker_table(w, 0);
	int64_t rid = table_new_rid(users);
	struct bson_out out;
	char key[32];

	record_key(key, sizeof(key), number);
	bson_begin(&out, w->doc, sizeof(w->doc));
	bson_string(&out, "_id", key);
	for (int i = 0; i < FIELDS; i++)
		payload_fill(&ycsb.data, &w->rng,
			     bson_binary(&out, field_names[i], FIELD_SIZE),
			     FIELD_SIZE);
	worker_load(w, users, rid, w->doc, doc_seal(&out, rid));
}

static void load(struct worker *w, uint64_t first, uint64_t end)
{
	for (uint64_t number = first; number < end; number++)
		load_record(w, number);
}

struct request {
	struct worker *w;
	uint64_t number;
};

/* Leaves the document in w->old. */
static int read_record(const struct request *request, int64_t *rid)
{
	struct table *users = worker_table(request->w, 0);
	char id[32];
	struct key key;
	int ret;

	record_key(id, sizeof(id), request->number);
	key_begin(&key);
	key_string(&key, id, strlen(id));
	key_end(&key);
	ret = table_find(users, 0, &key, rid);
	return ret ? ret : worker_read(request->w, users, *rid);
}

static int get(void *arg)
{
	int64_t rid;

	return read_record(arg, &rid);
}

static int update(void *arg)
{
	const struct request *request = arg;
	struct worker *w = request->w;
	const char *field = field_names[rng_below(&w->rng, FIELDS)];
	struct bson_elem elem;
	int64_t rid;
	int ret = read_record(request, &rid);

	if (ret)
		return ret;
	memcpy(w->doc, w->old, w->old_len);
	if (!bson_find(w->doc, w->old_len, field, &elem))
		die("record %lld of ycsb.usertable has no field '%s'",
		    (long long)rid, field);
	payload_fill(&ycsb.data, &w->rng,
		     w->doc + (elem.value - w->doc) + 5, FIELD_SIZE);
	doc_reseal(w->doc, w->old_len, rid);
	return table_update(worker_table(w, 0), rid, w->old, w->old_len,
			    w->doc, w->old_len);
}

static void on_record(struct worker *w, int (*work)(void *))
{
	struct request request = {
		.w = w,
		.number = shuffle_of(&ycsb.scatter,
				     zipf_draw(&ycsb.zipf, &w->rng)),
	};

	must(table_transaction(worker_table(w, 0), work, &request), "using",
	     "a record of ycsb.usertable");
}

static void op_read(struct worker *w)
{
	on_record(w, get);
}

static void op_update(struct worker *w)
{
	on_record(w, update);
}

const struct workload ycsb_workload = {
	.name = "ycsb",
	.units = units,
	.create = create,
	.prepare = prepare,
	.load_steps = load_steps,
	.load = load,
	.read = op_read,
	.update = op_update,
};
