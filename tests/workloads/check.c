// SPDX-License-Identifier: GPL-2.0-only
/* Is the database right? */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "catalog.h"
#include "check.h"
#include "document.h"
#include "random.h"
#include "sizes.h"
#include "util.h"

/*
 * Entries are compared as multisets by the sum of their hashes: one pass over
 * each file in its own order, whatever its size.
 */
struct entries {
	int64_t count;
	uint64_t sum;
};

struct totals {
	int64_t files, documents, entries, faults;
	uint64_t digest;	/* of all documents, in any order */
};

static void fault(struct totals *totals, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void fault(struct totals *totals, const char *fmt, ...)
{
	va_list args;

	if (totals->faults++ >= 20)
		return;
	fputs("wtload: check: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static void add_entry(struct entries *entries, const uint8_t *key, size_t len,
		      int64_t rid)
{
	uint64_t sum = hash64((uint64_t)rid);

	for (size_t i = 0; i < len; i++)
		sum = (sum ^ key[i]) * 0x100000001b3u;
	entries->count++;
	entries->sum += hash64(sum);
}

/* ---- verify: before any cursor is open, since it wants a file for itself ---- */

/* What recovery has changed is to be checkpointed first; and threads come by. */
static int verify(WT_SESSION *session, const char *uri)
{
	int ret = session->verify(session, uri, NULL);

	for (int tries = 0; ret == EBUSY && tries < 1000; tries++) {
		usleep(10000);
		must(session->checkpoint(session, NULL), "making",
		     "a checkpoint");
		ret = session->verify(session, uri, NULL);
	}
	return ret;
}

static void verify_all(struct engine *engine, struct totals *totals)
{
	WT_SESSION *session = engine_session(engine);
	WT_CURSOR *metadata = open_cursor(session, "metadata:");
	char **uris = NULL;
	size_t count = 0;
	const char *uri;
	int ret;

	while (!(ret = metadata->next(metadata)) &&
	       !(ret = metadata->get_key(metadata, &uri))) {
		/*
		 * The LAS file is WiredTiger's scratch space, recreated and always
		 * open; of the history store, each table's part is verified with it.
		 */
		if (strncmp(uri, "file:", 5) || strstr(uri, "WiredTigerLAS") ||
		    strstr(uri, "WiredTigerHS"))
			continue;
		uris = realloc(uris, (count + 1) * sizeof(*uris));
		if (!uris)
			die("no memory for the list of files");
		uris[count++] = copy_text(uri);
	}
	if (ret != WT_NOTFOUND)
		must(ret, "reading", "WiredTiger.wt");
	close_cursor(metadata);
	for (size_t i = 0; i < count; i++) {
		ret = verify(session, uris[i]);
		if (ret)
			fault(totals, "%s does not verify: %s", uris[i] + 5,
			      wiredtiger_strerror(ret));
		free(uris[i]);
	}
	totals->files = (int64_t)count;
	free(uris);
	session_close(session);
}

/* ---- documents against index entries ---- */

static void check_document(struct table *table, int64_t rid,
			   const WT_ITEM *value, struct entries *expected,
			   struct totals *totals)
{
	const struct collection *coll = table->coll;
	struct key key;

	totals->documents++;
	if (!doc_intact(value->data, value->size, rid)) {
		fault(totals, "record %lld of %s has a wrong checksum",
		      (long long)rid, coll->ns);
		return;
	}
	totals->digest += hash64(doc_sum(value->data, value->size));
	for (unsigned int i = 0; i < coll->index_count; i++) {
		table_index_key(table, i, value->data, value->size, &key);
		add_entry(&expected[i], key.bytes, key.len, rid);
	}
}

static void walk_documents(struct table *table, struct entries *expected,
			   struct totals *totals)
{
	WT_CURSOR *cursor = table->records;
	int64_t records = 0, bytes = 0, rid;
	struct collection *coll = table->coll;
	WT_ITEM value;
	int ret;

	while (!(ret = cursor->next(cursor)) &&
	       !(ret = cursor->get_key(cursor, &rid)) &&
	       !(ret = cursor->get_value(cursor, &value))) {
		records++;
		bytes += (int64_t)value.size;
		check_document(table, rid, &value, expected, totals);
	}
	if (ret != WT_NOTFOUND)
		fault(totals, "%s cannot be read: %s", coll->ns,
		      wiredtiger_strerror(ret));
	if (records != atomic_load(&coll->records) ||
	    bytes != atomic_load(&coll->bytes))
		fault(totals, "%s has %lld records of %lld bytes, the catalog says %lld of %lld",
		      coll->ns, (long long)records, (long long)bytes,
		      (long long)atomic_load(&coll->records),
		      (long long)atomic_load(&coll->bytes));
}

/* Splits what an index stores into the key alone and the record id. */
static int64_t split_entry(const struct index *index, const WT_ITEM *key,
			   const WT_ITEM *value, size_t *key_len)
{
	uint8_t bytes[RECORD_ID_MAX_SIZE];
	int64_t rid;

	*key_len = key->size;
	if (index->unique)
		return record_id_decode_tail(value->data, value->size);
	rid = record_id_decode_tail(key->data, key->size);
	*key_len -= rid ? record_id_encode(bytes, rid) : 0;
	return rid;
}

static struct entries walk_index(struct table *table, unsigned int i,
				 struct totals *totals)
{
	const struct index *index = &table->coll->index[i];
	WT_CURSOR *cursor = table->index[i];
	struct entries found = { 0 };
	WT_ITEM key, value;
	size_t key_len;
	int64_t rid;
	int ret;

	while (!(ret = cursor->next(cursor)) &&
	       !(ret = cursor->get_key(cursor, &key)) &&
	       !(ret = cursor->get_value(cursor, &value))) {
		rid = split_entry(index, &key, &value, &key_len);
		add_entry(&found, key.data, key_len, rid);
	}
	if (ret != WT_NOTFOUND)
		fault(totals, "the index %s of %s cannot be read: %s",
		      index->name, table->coll->ns, wiredtiger_strerror(ret));
	return found;
}

static void check_collection(struct collection *coll, WT_SESSION *session,
			     struct totals *totals)
{
	struct entries expected[INDEXES_MAX] = { 0 };
	struct table table;
	int ret = table_open(&table, session, coll);

	if (ret) {
		fault(totals, "%s cannot be opened: %s", coll->ns,
		      wiredtiger_strerror(ret));
		return;
	}
	walk_documents(&table, expected, totals);
	for (unsigned int i = 0; i < coll->index_count; i++) {
		struct entries found = walk_index(&table, i, totals);

		totals->entries += found.count;
		if (found.count != expected[i].count)
			fault(totals, "the index %s of %s has %lld entries for %lld documents",
			      coll->index[i].name, coll->ns,
			      (long long)found.count,
			      (long long)expected[i].count);
		else if (found.sum != expected[i].sum)
			fault(totals, "entries of the index %s of %s do not match the documents",
			      coll->index[i].name, coll->ns);
	}
	table_close(&table);
}

int check_database(const struct options *opt)
{
	struct totals totals = { 0 };
	struct engine engine;
	struct catalog catalog;
	const char *how = "";

	engine_open(&engine, opt, false);
	if (engine.unclean)
		how = ", recovered from the journal";
	verify_all(&engine, &totals);
	/* A file that is broken may end the process when it is read. */
	if (!totals.faults) {
		catalog_open(&catalog, &engine);
		if (engine.unclean)
			sizes_recount(&catalog);
		for (size_t i = 0; i < catalog.count; i++)
			check_collection(catalog.collection[i],
					 catalog.session, &totals);
	}
	if (totals.faults) {
		printf("check: FAILED, %lld faults in %lld files%s\n",
		       (long long)totals.faults, (long long)totals.files, how);
		return EXIT_BROKEN;
	}
	catalog_close(&catalog);
	engine_close(&engine);
	printf("check: ok, %lld files, %lld documents, %lld index entries, digest %016llx%s\n",
	       (long long)totals.files, (long long)totals.documents,
	       (long long)totals.entries, (unsigned long long)totals.digest,
	       how);
	return 0;
}
