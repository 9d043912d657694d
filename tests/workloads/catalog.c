// SPDX-License-Identifier: GPL-2.0-only
/* Idents and _mdb_catalog.wt. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "catalog.h"
#include "random.h"
#include "sizes.h"
#include "util.h"

#define CATALOG_URI "table:_mdb_catalog"
#define ENTRY_MAX_SIZE 16384

/* As MongoDB 3.2 to 4.0 makes them: wiredtiger_record_store.cpp, _index.cpp */
#define RECORDS_CONFIG \
	"type=file,memory_page_max=10m,split_pct=90,leaf_value_max=64MB," \
	"checksum=on,key_format=q,value_format=u," \
	"app_metadata=(formatVersion=1),log=(enabled=true)"
#define INDEX_CONFIG \
	"type=file,internal_page_max=16k,leaf_page_max=%lluKB,checksum=on," \
	"prefix_compression=true,block_compressor=,key_format=u,value_format=u," \
	"app_metadata=(formatVersion=%d,infoObj={\"v\":2,\"name\":\"%s\",\"ns\":\"%s\"})," \
	"log=(enabled=true)"
#define INDEX_FORMAT_UNIQUE 8
#define INDEX_FORMAT 6

static void create_table(struct catalog *catalog, const char *uri,
			 const char *config)
{
	must(catalog->session->create(catalog->session, uri, config),
	     "creating", uri);
}

/* ---- idents ---- */

static void make_directory(const struct catalog *catalog, const char *name)
{
	char path[4096];

	text(path, sizeof(path), "%s/%s", catalog->engine->opt->dbpath, name);
	if (mkdir(path, 0700) && errno != EEXIST)
		die("cannot make the directory '%s': %s", path,
		    strerror(errno));
}

/* [<db>/]collection-<counter>-<random>, with '/' after the type if asked for */
static void new_uri(struct catalog *catalog, char *uri, const char *ns,
		    const char *type)
{
	const struct options *opt = catalog->engine->opt;
	char directory[URI_SIZE] = "";

	if (opt->directory_per_db) {
		text(directory, sizeof(directory), "%.*s/",
		     (int)strcspn(ns, "."), ns);
		make_directory(catalog, directory);
	}
	if (opt->directory_for_indexes) {
		strncat(directory, type,
			sizeof(directory) - strlen(directory) - 1);
		make_directory(catalog, directory);
		text(uri, URI_SIZE, "table:%s/", directory);
	} else {
		text(uri, URI_SIZE, "table:%s%s-", directory, type);
	}
	text(uri + strlen(uri), URI_SIZE - strlen(uri), "%llu-%lld",
	     (unsigned long long)catalog->next_ident++,
	     (long long)catalog->ident_random);
}

/* ---- entries ---- */

static void put_index(struct bson_out *out, const struct collection *coll,
		      const struct index *index, const char *position)
{
	size_t entry = bson_open(out, BSON_OBJECT, position);
	size_t spec = bson_open(out, BSON_OBJECT, "spec");
	size_t key;

	bson_int32(out, "v", 2);
	bson_bool(out, "unique", index->unique);
	key = bson_open(out, BSON_OBJECT, "key");
	for (int i = 0; i < INDEX_MAX_FIELDS && index->fields[i]; i++)
		bson_int32(out, index->fields[i], 1);
	bson_close(out, key);
	bson_string(out, "name", index->name);
	bson_string(out, "ns", coll->ns);
	bson_close(out, spec);
	bson_bool(out, "ready", true);
	bson_bool(out, "multikey", false);
	bson_close(out, entry);
}

static void put_indexes(struct bson_out *out, const struct collection *coll)
{
	size_t indexes = bson_open(out, BSON_ARRAY, "indexes");
	char position[16];

	for (unsigned int i = 0; i < coll->index_count; i++) {
		text(position, sizeof(position), "%u", i);
		put_index(out, coll, &coll->index[i], position);
	}
	bson_close(out, indexes);
}

static void put_options(struct bson_out *out, const struct catalog *catalog)
{
	size_t options = bson_open(out, BSON_OBJECT, "options");
	size_t own = bson_open(out, BSON_OBJECT, "wtload");

	bson_string(out, "workload", catalog->workload);
	bson_int64(out, "units", (int64_t)catalog->units);
	bson_bool(out, "loaded", catalog->loaded);
	bson_close(out, own);
	bson_close(out, options);
}

/* The record id of an entry is its collection's place in the list, from 1. */
static void write_entry(struct catalog *catalog, size_t place)
{
	const struct collection *coll = catalog->collection[place];
	uint8_t doc[ENTRY_MAX_SIZE];
	struct bson_out out;
	WT_CURSOR *cursor;
	WT_ITEM value;
	size_t at;

	bson_begin(&out, doc, sizeof(doc));
	at = bson_open(&out, BSON_OBJECT, "md");
	bson_string(&out, "ns", coll->ns);
	put_options(&out, catalog);
	put_indexes(&out, coll);
	bson_close(&out, at);
	at = bson_open(&out, BSON_OBJECT, "idxIdent");
	for (unsigned int i = 0; i < coll->index_count; i++)
		bson_string(&out, coll->index[i].name,
			    uri_ident(coll->index[i].uri));
	bson_close(&out, at);
	bson_string(&out, "ns", coll->ns);
	bson_string(&out, "ident", uri_ident(coll->uri));
	value = (WT_ITEM){ .data = doc, .size = bson_end(&out) };

	cursor = open_cursor(catalog->session, CATALOG_URI);
	cursor->set_key(cursor, (int64_t)place + 1);
	cursor->set_value(cursor, &value);
	must(cursor->insert(cursor), "writing the catalog entry of", coll->ns);
	close_cursor(cursor);
}

static struct collection *append(struct catalog *catalog, const char *ns,
				 unsigned int index_count)
{
	struct collection *coll = xalloc(1, sizeof(*coll));

	if (index_count < 1 || index_count > INDEXES_MAX)
		die("%s has %u indexes; there may be 1 to %d", ns, index_count,
		    INDEXES_MAX);
	if (catalog->count == catalog->room) {
		catalog->room = 2 * catalog->room + 16;
		catalog->collection = realloc(catalog->collection,
			catalog->room * sizeof(*catalog->collection));
		if (!catalog->collection)
			die("no memory for %zu collections", catalog->room);
	}
	text(coll->ns, sizeof(coll->ns), "%s", ns);
	coll->index_count = index_count;
	coll->index = xalloc(index_count, sizeof(*coll->index));
	atomic_store(&coll->next_rid, 1);
	catalog->collection[catalog->count++] = coll;
	return coll;
}

struct collection *catalog_add(struct catalog *catalog, const char *ns,
			       const struct index *spec, unsigned int count)
{
	struct collection *coll = append(catalog, ns, count);
	const struct options *opt = catalog->engine->opt;
	char config[1024];

	new_uri(catalog, coll->uri, ns, "collection");
	text(config, sizeof(config), "%s,block_compressor=%s,leaf_page_max=%lluKB",
	     RECORDS_CONFIG, opt->block_compressor,
	     (unsigned long long)opt->leaf_kib);
	create_table(catalog, coll->uri, config);
	for (unsigned int i = 0; i < count; i++) {
		struct index *index = &coll->index[i];

		*index = spec[i];
		new_uri(catalog, index->uri, ns, "index");
		text(config, sizeof(config), INDEX_CONFIG,
		     (unsigned long long)opt->index_leaf_kib,
		     index->unique ? INDEX_FORMAT_UNIQUE : INDEX_FORMAT,
		     index->name, ns);
		create_table(catalog, index->uri, config);
	}
	write_entry(catalog, catalog->count - 1);
	return coll;
}

void catalog_create(struct catalog *catalog, struct engine *engine,
		    const char *workload, uint64_t units)
{
	memset(catalog, 0, sizeof(*catalog));
	catalog->engine = engine;
	catalog->session = engine_session(engine);
	catalog->ident_random = (int64_t)hash64(~engine->opt->seed);
	catalog->units = units;
	text(catalog->workload, sizeof(catalog->workload), "%s", workload);
	sizes_create(catalog->session);
	create_table(catalog, CATALOG_URI,
		     RECORDS_CONFIG ",block_compressor=snappy");
}

void catalog_set_loaded(struct catalog *catalog)
{
	catalog->loaded = true;
	write_entry(catalog, 0);
}

/* ---- reading an existing database ---- */

struct part {
	const uint8_t *doc;
	size_t len;
};

static struct part part_of(struct part doc, const char *name)
{
	struct bson_elem elem;

	if (!bson_find(doc.doc, doc.len, name, &elem) ||
	    (elem.type != BSON_OBJECT && elem.type != BSON_ARRAY))
		die("a catalog entry has no object '%s'", name);
	return (struct part){ elem.value, elem.size };
}

static void read_index(struct index *index, struct part entry,
		       struct part idents)
{
	struct part spec = part_of(entry, "spec");
	struct part key = part_of(spec, "key");
	struct bson_elem elem;
	size_t pos = 0;
	int field = 0;

	index->name = copy_text(bson_get_string(spec.doc, spec.len, "name"));
	index->unique = bson_get_int(spec.doc, spec.len, "unique");
	while (bson_next(key.doc, key.len, &pos, &elem)) {
		if (field == INDEX_MAX_FIELDS)
			die("the index %s has more than %d fields",
			    index->name, INDEX_MAX_FIELDS);
		index->fields[field++] = copy_text(elem.name);
	}
	text(index->uri, sizeof(index->uri), "table:%s",
	     bson_get_string(idents.doc, idents.len, index->name));
}

static void read_entry(struct catalog *catalog, struct part doc)
{
	struct part md = part_of(doc, "md");
	struct part own = part_of(part_of(md, "options"), "wtload");
	struct part indexes = part_of(md, "indexes");
	struct collection *coll;
	struct bson_elem elem;
	unsigned int count = 0;
	size_t pos = 0;

	if (!catalog->count) {
		text(catalog->workload, sizeof(catalog->workload), "%s",
		     bson_get_string(own.doc, own.len, "workload"));
		catalog->units = (uint64_t)bson_get_int(own.doc, own.len,
							"units");
		catalog->loaded = bson_get_int(own.doc, own.len, "loaded");
	}
	while (bson_next(indexes.doc, indexes.len, &pos, &elem))
		count++;
	coll = append(catalog, bson_get_string(doc.doc, doc.len, "ns"), count);
	text(coll->uri, sizeof(coll->uri), "table:%s",
	     bson_get_string(doc.doc, doc.len, "ident"));
	pos = 0;
	for (unsigned int i = 0; i < count; i++) {
		bson_next(indexes.doc, indexes.len, &pos, &elem);
		read_index(&coll->index[i],
			   (struct part){ elem.value, elem.size },
			   part_of(doc, "idxIdent"));
	}
}

static void read_next_rid(struct catalog *catalog, struct collection *coll)
{
	WT_CURSOR *cursor = open_cursor(catalog->session, coll->uri);
	int64_t rid = 0;
	int ret = cursor->prev(cursor);

	if (!ret)
		ret = cursor->get_key(cursor, &rid);
	if (ret != WT_NOTFOUND)
		must(ret, "reading the last record of", coll->ns);
	atomic_store(&coll->next_rid, rid + 1);
	close_cursor(cursor);
}

void catalog_open(struct catalog *catalog, struct engine *engine)
{
	WT_CURSOR *cursor;
	WT_ITEM value;
	int ret;

	memset(catalog, 0, sizeof(*catalog));
	catalog->engine = engine;
	catalog->session = engine_session(engine);
	cursor = open_cursor(catalog->session, CATALOG_URI);
	while (!(ret = cursor->next(cursor))) {
		must(cursor->get_value(cursor, &value), "reading", CATALOG_URI);
		read_entry(catalog, (struct part){ value.data, value.size });
	}
	if (ret != WT_NOTFOUND)
		must(ret, "reading", CATALOG_URI);
	close_cursor(cursor);
	if (!catalog->count)
		die("dbpath '%s' has an empty catalog", engine->opt->dbpath);
	for (size_t i = 0; i < catalog->count; i++)
		read_next_rid(catalog, catalog->collection[i]);
	sizes_read(catalog);
}

void catalog_close(struct catalog *catalog)
{
	sizes_store(catalog, catalog->session);
	session_close(catalog->session);
}

/* ---- idents for tests ---- */

void catalog_write_idents(const struct catalog *catalog, const char *path)
{
	FILE *out = open_output(path);

	for (size_t i = 0; i < catalog->count; i++) {
		const struct collection *coll = catalog->collection[i];

		fprintf(out, "%s{\"ident\":\"%s\",\"ns\":\"%s\",\"type\":\"collection\"}",
			i ? ",\n " : "[", uri_ident(coll->uri), coll->ns);
		for (unsigned int j = 0; j < coll->index_count; j++)
			fprintf(out, ",\n {\"ident\":\"%s\",\"ns\":\"%s\",\"type\":\"index\",\"index\":\"%s\"}",
				uri_ident(coll->index[j].uri), coll->ns,
				coll->index[j].name);
	}
	fputs("]\n", out);
	close_output(out, path);
}
