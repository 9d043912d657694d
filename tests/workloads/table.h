/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_TABLE_H
#define WTLOAD_TABLE_H

#include <stdatomic.h>
#include <wiredtiger.h>

#include "keystring.h"

#define INDEX_MAX_FIELDS 8
#define INDEXES_MAX 10
#define URI_SIZE 256
#define NS_SIZE 128

struct index {
	const char *name;
	const char *fields[INDEX_MAX_FIELDS];	/* ends at NULL or when full */
	bool unique;	/* record id in the value; otherwise at the key's end */
	char uri[URI_SIZE];			/* table:<ident> */
};

/* A collection and its indexes; index 0 is _id_. Shared by all threads. */
struct collection {
	char ns[NS_SIZE];
	char uri[URI_SIZE];
	unsigned int index_count;
	struct index *index;
	_Atomic int64_t next_rid;
	_Atomic int64_t records;
	_Atomic int64_t bytes;
	/* what sizeStorer.wt says; only touched by who writes or reads that */
	int64_t stored_records;
	int64_t stored_bytes;
};

static inline const char *uri_ident(const char *uri)
{
	return uri + sizeof("table:") - 1;
}

/*
 * One thread's cursors on a collection. All writes of a document and of its
 * index entries are made between table_begin() and table_commit(), as MongoDB
 * makes them in one WiredTiger transaction.
 */
struct table {
	struct collection *coll;
	WT_SESSION *session;
	WT_CURSOR *records;
	WT_CURSOR *index[INDEXES_MAX];
	/* where each indexed field stood in the last document seen */
	size_t hint[INDEXES_MAX][INDEX_MAX_FIELDS];
	/* what the open transaction adds */
	int64_t new_records;
	int64_t new_bytes;
};

/* Returns 0 or a WiredTiger error, as all the table functions that return int. */
int table_open(struct table *table, WT_SESSION *session,
	       struct collection *coll);
void table_close(struct table *table);

void table_begin(struct table *table);
int table_commit(struct table *table);
void table_rollback(struct table *table);
/* Runs work() in a transaction, again if WiredTiger had to roll it back. */
int table_transaction(struct table *table, int (*work)(void *arg), void *arg);

int64_t table_new_rid(struct table *table);

int table_insert(struct table *table, int64_t rid, const uint8_t *doc,
		 size_t len);
int table_update(struct table *table, int64_t rid, const uint8_t *old,
		 size_t old_len, const uint8_t *doc, size_t len);
int table_remove(struct table *table, int64_t rid, const uint8_t *doc,
		 size_t len);

/* The document is valid until the next operation on the table. */
int table_read(struct table *table, int64_t rid, const uint8_t **doc,
	       size_t *len);
/* Finds the record of a key of a unique index. */
int table_find(struct table *table, unsigned int index, const struct key *key,
	       int64_t *rid);
/* Walks the entries of a unique index that start with prefix, in key order. */
int table_scan_first(struct table *table, unsigned int index,
		     const struct key *prefix, int64_t *rid);
int table_scan_next(struct table *table, unsigned int index,
		    const struct key *prefix, int64_t *rid);

/* The key that a document has in an index, without its record id. */
void table_index_key(struct table *table, unsigned int index,
		     const uint8_t *doc, size_t len, struct key *key);

#endif
