// SPDX-License-Identifier: GPL-2.0-only
/* sizeStorer.wt: written before each checkpoint, so old after a crash. */
#include <string.h>

#include "sizes.h"
#include "util.h"

#define SIZES_URI "table:sizeStorer"

void sizes_create(WT_SESSION *session)
{
	must(session->create(session, SIZES_URI,
			     "key_format=u,value_format=u,log=(enabled=true)"),
	     "creating", SIZES_URI);
}

static void read_size(WT_CURSOR *sizes, struct collection *coll)
{
	WT_ITEM item = { .data = coll->uri, .size = strlen(coll->uri) };
	int ret;

	sizes->set_key(sizes, &item);
	ret = sizes->search(sizes);
	if (ret == WT_NOTFOUND)
		return;
	must(ret, "reading the size of", coll->ns);
	must(sizes->get_value(sizes, &item), "reading the size of", coll->ns);
	coll->stored_records = bson_get_int(item.data, item.size, "numRecords");
	coll->stored_bytes = bson_get_int(item.data, item.size, "dataSize");
	atomic_store(&coll->records, coll->stored_records);
	atomic_store(&coll->bytes, coll->stored_bytes);
}

void sizes_read(struct catalog *catalog)
{
	WT_CURSOR *cursor = open_cursor(catalog->session, SIZES_URI);

	for (size_t i = 0; i < catalog->count; i++)
		read_size(cursor, catalog->collection[i]);
	close_cursor(cursor);
}

void sizes_recount(struct catalog *catalog)
{
	for (size_t i = 0; i < catalog->count; i++) {
		struct collection *coll = catalog->collection[i];
		WT_CURSOR *cursor = open_cursor(catalog->session, coll->uri);
		int64_t records = 0, bytes = 0;
		WT_ITEM value;
		int ret;

		while (!(ret = cursor->next(cursor)) &&
		       !(ret = cursor->get_value(cursor, &value))) {
			records++;
			bytes += (int64_t)value.size;
		}
		if (ret != WT_NOTFOUND)
			must(ret, "counting the records of", coll->ns);
		atomic_store(&coll->records, records);
		atomic_store(&coll->bytes, bytes);
		close_cursor(cursor);
	}
}

static void store_size(WT_CURSOR *sizes, struct collection *coll)
{
	int64_t records = atomic_load(&coll->records);
	int64_t bytes = atomic_load(&coll->bytes);
	WT_ITEM item = { .data = coll->uri, .size = strlen(coll->uri) };
	struct bson_out out;
	uint8_t doc[64];

	if (records == coll->stored_records && bytes == coll->stored_bytes)
		return;
	sizes->set_key(sizes, &item);
	bson_begin(&out, doc, sizeof(doc));
	bson_int64(&out, "numRecords", records);
	bson_int64(&out, "dataSize", bytes);
	item = (WT_ITEM){ .data = doc, .size = bson_end(&out) };
	sizes->set_value(sizes, &item);
	must(sizes->insert(sizes), "writing the size of", coll->ns);
	coll->stored_records = records;
	coll->stored_bytes = bytes;
}

void sizes_store(struct catalog *catalog, WT_SESSION *session)
{
	WT_CURSOR *cursor = open_cursor(session, SIZES_URI);

	for (size_t i = 0; i < catalog->count; i++)
		store_size(cursor, catalog->collection[i]);
	close_cursor(cursor);
}
