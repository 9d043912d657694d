/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_CATALOG_H
#define WTLOAD_CATALOG_H

#include "engine.h"
#include "table.h"

/*
 * All collections of a database. On disk they stand in _mdb_catalog.wt, one
 * BSON document for each collection, shaped as MongoDB's:
 *   { md: { ns, options: { wtload: { workload, units, loaded } },
 *           indexes: [ { spec: { v, unique, key: { <field>: 1 }, name, ns },
 *                        ready, multikey } ] },
 *     idxIdent: { <index name>: <ident> }, ns, ident }
 */
struct catalog {
	struct engine *engine;
	WT_SESSION *session;
	struct collection **collection;
	size_t count;
	size_t room;
	uint64_t next_ident;	/* one counter for collections and indexes */
	int64_t ident_random;	/* one number for each process */
	/* of the first collection's md.options.wtload */
	char workload[16];
	uint64_t units;		/* nodes or records that were loaded */
	bool loaded;
};

void catalog_create(struct catalog *catalog, struct engine *engine,
		    const char *workload, uint64_t units);
void catalog_open(struct catalog *catalog, struct engine *engine);
void catalog_close(struct catalog *catalog);

/* Makes the files and the entry. The texts in spec must stay. */
struct collection *catalog_add(struct catalog *catalog, const char *ns,
			       const struct index *spec, unsigned int count);
void catalog_set_loaded(struct catalog *catalog);
void catalog_write_idents(const struct catalog *catalog, const char *path);

#endif
