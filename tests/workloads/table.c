// SPDX-License-Identifier: GPL-2.0-only
/* A collection with its indexes on WiredTiger tables, kept in step. */
#include <string.h>

#include "table.h"
#include "util.h"

int table_open(struct table *table, WT_SESSION *session,
	       struct collection *coll)
{
	int ret;

	memset(table, 0, sizeof(*table));
	table->coll = coll;
	table->session = session;
	ret = session->open_cursor(session, coll->uri, NULL, "overwrite=false",
				   &table->records);
	for (unsigned int i = 0; !ret && i < coll->index_count; i++)
		ret = session->open_cursor(session, coll->index[i].uri, NULL,
					   "overwrite=false", &table->index[i]);
	return ret;
}

void table_close(struct table *table)
{
	for (unsigned int i = 0; i < table->coll->index_count; i++)
		must(table->index[i]->close(table->index[i]), "closing",
		     table->coll->index[i].uri);
	must(table->records->close(table->records), "closing",
	     table->coll->uri);
}

void table_begin(struct table *table)
{
	must(table->session->begin_transaction(table->session,
					       "isolation=snapshot"),
	     "beginning a transaction on", table->coll->ns);
	table->new_records = 0;
	table->new_bytes = 0;
}

int table_commit(struct table *table)
{
	int ret = table->session->commit_transaction(table->session, NULL);

	if (!ret) {
		atomic_fetch_add(&table->coll->records, table->new_records);
		atomic_fetch_add(&table->coll->bytes, table->new_bytes);
	}
	return ret;
}

void table_rollback(struct table *table)
{
	must(table->session->rollback_transaction(table->session, NULL),
	     "rolling back a transaction on", table->coll->ns);
}

int table_transaction(struct table *table, int (*work)(void *arg), void *arg)
{
	int ret;

	do {
		table_begin(table);
		ret = work(arg);
		if (!ret)
			ret = table_commit(table);
		else
			table_rollback(table);
	} while (ret == WT_ROLLBACK);
	return ret;
}

int64_t table_new_rid(struct table *table)
{
	return atomic_fetch_add(&table->coll->next_rid, 1);
}

static bool find_field(const uint8_t *doc, size_t len, const char *name,
		       size_t *hint, struct bson_elem *elem)
{
	size_t pos = *hint;

	/* Documents of a collection have one shape: mostly it is there again. */
	if (pos && pos + strlen(name) + 2 < len &&
	    !memcmp(doc + pos + 1, name, strlen(name) + 1) &&
	    bson_next(doc, len, &pos, elem))
		return true;
	for (pos = 0;;) {
		size_t start = pos ? pos : 4;

		if (!bson_next(doc, len, &pos, elem))
			return false;
		if (!strcmp(elem->name, name)) {
			*hint = start;
			return true;
		}
	}
}

void table_index_key(struct table *table, unsigned int index,
		     const uint8_t *doc, size_t len, struct key *key)
{
	const struct index *spec = &table->coll->index[index];
	struct bson_elem elem;

	key_begin(key);
	for (int i = 0; i < INDEX_MAX_FIELDS && spec->fields[i]; i++) {
		if (!find_field(doc, len, spec->fields[i],
				&table->hint[index][i], &elem))
			die("a document of %s has no field '%s' for its index %s",
			    table->coll->ns, spec->fields[i], spec->name);
		key_elem(key, &elem);
	}
	key_end(key);
}

static void set_key(WT_CURSOR *cursor, const struct key *key)
{
	WT_ITEM item = { .data = key->bytes, .size = key->len };

	cursor->set_key(cursor, &item);
}

static int add_entry(struct table *table, unsigned int index, struct key *key,
		     int64_t rid)
{
	WT_CURSOR *cursor = table->index[index];
	uint8_t bytes[RECORD_ID_MAX_SIZE];
	WT_ITEM value = { .data = bytes };

	if (table->coll->index[index].unique)
		value.size = record_id_encode(bytes, rid);
	else
		key_record_id(key, rid);
	set_key(cursor, key);
	cursor->set_value(cursor, &value);
	return cursor->insert(cursor);
}

static int drop_entry(struct table *table, unsigned int index, struct key *key,
		      int64_t rid)
{
	WT_CURSOR *cursor = table->index[index];
	int ret;

	if (!table->coll->index[index].unique)
		key_record_id(key, rid);
	set_key(cursor, key);
	ret = cursor->remove(cursor);
	/* The snapshot that has the document has its entry too, or all is lost. */
	if (ret == WT_NOTFOUND)
		die("the index %s of %s has no entry for record %lld",
		    table->coll->index[index].name, table->coll->ns,
		    (long long)rid);
	return ret;
}

static void set_record(struct table *table, int64_t rid, const uint8_t *doc,
		       size_t len)
{
	WT_ITEM value = { .data = doc, .size = len };

	table->records->set_key(table->records, rid);
	table->records->set_value(table->records, &value);
}

int table_insert(struct table *table, int64_t rid, const uint8_t *doc,
		 size_t len)
{
	struct key key;
	int ret;

	set_record(table, rid, doc, len);
	ret = table->records->insert(table->records);
	for (unsigned int i = 0; !ret && i < table->coll->index_count; i++) {
		table_index_key(table, i, doc, len, &key);
		ret = add_entry(table, i, &key, rid);
	}
	table->new_records++;
	table->new_bytes += (int64_t)len;
	return ret;
}

int table_update(struct table *table, int64_t rid, const uint8_t *old,
		 size_t old_len, const uint8_t *doc, size_t len)
{
	struct key old_key, key;
	int ret;

	set_record(table, rid, doc, len);
	ret = table->records->update(table->records);
	/* _id never changes. */
	for (unsigned int i = 1; !ret && i < table->coll->index_count; i++) {
		table_index_key(table, i, old, old_len, &old_key);
		table_index_key(table, i, doc, len, &key);
		if (key.len == old_key.len &&
		    !memcmp(key.bytes, old_key.bytes, key.len))
			continue;
		ret = drop_entry(table, i, &old_key, rid);
		if (!ret)
			ret = add_entry(table, i, &key, rid);
	}
	table->new_bytes += (int64_t)len - (int64_t)old_len;
	return ret;
}

int table_remove(struct table *table, int64_t rid, const uint8_t *doc,
		 size_t len)
{
	struct key key;
	int ret = 0;

	for (unsigned int i = 0; !ret && i < table->coll->index_count; i++) {
		table_index_key(table, i, doc, len, &key);
		ret = drop_entry(table, i, &key, rid);
	}
	if (ret)
		return ret;
	table->records->set_key(table->records, rid);
	table->new_records--;
	table->new_bytes -= (int64_t)len;
	return table->records->remove(table->records);
}

int table_read(struct table *table, int64_t rid, const uint8_t **doc,
	       size_t *len)
{
	WT_ITEM value;
	int ret;

	table->records->set_key(table->records, rid);
	ret = table->records->search(table->records);
	if (!ret)
		ret = table->records->get_value(table->records, &value);
	if (ret)
		return ret;
	*doc = value.data;
	*len = value.size;
	return 0;
}

static int current_rid(WT_CURSOR *cursor, int64_t *rid)
{
	WT_ITEM value;
	int ret = cursor->get_value(cursor, &value);

	if (!ret)
		*rid = record_id_decode_tail(value.data, value.size);
	return ret;
}

int table_find(struct table *table, unsigned int index, const struct key *key,
	       int64_t *rid)
{
	WT_CURSOR *cursor = table->index[index];
	int ret;

	set_key(cursor, key);
	ret = cursor->search(cursor);
	return ret ? ret : current_rid(cursor, rid);
}

static int scan_take(WT_CURSOR *cursor, const struct key *prefix, int64_t *rid)
{
	WT_ITEM key;
	int ret = cursor->get_key(cursor, &key);

	if (ret)
		return ret;
	if (key.size < prefix->len ||
	    memcmp(key.data, prefix->bytes, prefix->len))
		return WT_NOTFOUND;
	return current_rid(cursor, rid);
}

int table_scan_first(struct table *table, unsigned int index,
		     const struct key *prefix, int64_t *rid)
{
	WT_CURSOR *cursor = table->index[index];
	int where, ret;

	set_key(cursor, prefix);
	ret = cursor->search_near(cursor, &where);
	if (!ret && where < 0)
		ret = cursor->next(cursor);
	return ret ? ret : scan_take(cursor, prefix, rid);
}

int table_scan_next(struct table *table, unsigned int index,
		    const struct key *prefix, int64_t *rid)
{
	WT_CURSOR *cursor = table->index[index];
	int ret = cursor->next(cursor);

	return ret ? ret : scan_take(cursor, prefix, rid);
}
