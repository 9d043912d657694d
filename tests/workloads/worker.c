// SPDX-License-Identifier: GPL-2.0-only
/* A client's session, cursors and batches. */
#include <stdlib.h>
#include <string.h>

#include "util.h"
#include "worker.h"

void worker_init(struct worker *worker, unsigned int number,
		 struct catalog *catalog, const char *phase)
{
	uint64_t seed = catalog->engine->opt->seed;

	memset(worker, 0, sizeof(*worker));
	worker->number = number;
	worker->catalog = catalog;
	worker->session = engine_session(catalog->engine);
	worker->table = xalloc(catalog->count, sizeof(*worker->table));
	rng_seed(&worker->rng, hash64(seed) ^ hash64(number) ^
			       hash64((uint64_t)*phase));
}

void worker_finish(struct worker *worker)
{
	worker_load_flush(worker);
	for (size_t i = 0; i < worker->catalog->count; i++) {
		if (!worker->table[i])
			continue;
		table_close(worker->table[i]);
		free(worker->table[i]);
	}
	free(worker->table);
	session_close(worker->session);
}

struct table *worker_table(struct worker *worker, size_t place)
{
	struct table *table = worker->table[place];

	if (!table) {
		table = xalloc(1, sizeof(*table));
		must(table_open(table, worker->session,
				worker->catalog->collection[place]),
		     "opening", worker->catalog->collection[place]->ns);
		worker->table[place] = table;
	}
	return table;
}

static int insert_batch(void *arg)
{
	struct batch *batch = arg;
	const uint8_t *doc = batch->bytes;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < batch->docs; i++) {
		ret = table_insert(batch->table, batch->doc[i].rid, doc,
				   batch->doc[i].len);
		doc += batch->doc[i].len;
	}
	return ret;
}

void worker_load_flush(struct worker *worker)
{
	struct batch *batch = &worker->batch;

	if (!batch->docs)
		return;
	must(table_transaction(batch->table, insert_batch, batch),
	     "loading", batch->table->coll->ns);
	batch->docs = 0;
	batch->used = 0;
}

void worker_load(struct worker *worker, struct table *table, int64_t rid,
		 const uint8_t *doc, size_t len)
{
	struct batch *batch = &worker->batch;

	if (batch->table != table || batch->docs == BATCH_DOCS ||
	    batch->used + len > sizeof(batch->bytes))
		worker_load_flush(worker);
	batch->table = table;
	memcpy(batch->bytes + batch->used, doc, len);
	batch->used += len;
	batch->doc[batch->docs].rid = rid;
	batch->doc[batch->docs++].len = len;
}

int worker_read(struct worker *worker, struct table *table, int64_t rid)
{
	const uint8_t *doc;
	size_t len;
	int ret = table_read(table, rid, &doc, &len);

	if (ret)
		return ret;
	if (len > sizeof(worker->old))
		die("record %lld of %s has %zu bytes, more than the %d of any workload",
		    (long long)rid, table->coll->ns, len, DOC_MAX_SIZE);
	memcpy(worker->old, doc, len);
	worker->old_len = len;
	return 0;
}
