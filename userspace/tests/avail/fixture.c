// SPDX-License-Identifier: GPL-2.0-or-later
// usage: fixture DBPATH
//
// Makes a small WiredTiger database that has what the reader of its lists must cope
// with, and ends without closing it, as a database that is running.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wiredtiger.h>

static void check(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "fixture: %s: %s\n", what, wiredtiger_strerror(error));
		exit(1);
	}
}

static unsigned int seed = 1;

static unsigned int random_below(unsigned int n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static void create(WT_SESSION *session, const char *uri, const char *config)
{
	check(session->create(session, uri, config), uri);
}

// Puts or removes records of a file, so that its blocks move.
static void churn(WT_SESSION *session, const char *uri, int records, int times, int remove)
{
	WT_CURSOR *cursor;
	char key[32], value[400];

	check(session->open_cursor(session, uri, NULL, NULL, &cursor), uri);
	for (int i = 0; i < times; i++) {
		snprintf(key, sizeof(key), "%08u", random_below(records));
		cursor->set_key(cursor, key);
		if (remove) {
			int error = cursor->remove(cursor);

			check(error == WT_NOTFOUND ? 0 : error, "remove");
			continue;
		}
		memset(value, 'a' + random_below(26), sizeof(value));
		value[1 + random_below(sizeof(value) - 1)] = '\0';
		cursor->set_value(cursor, value);
		check(cursor->insert(cursor), "insert");
	}
	check(cursor->close(cursor), "close");
}

int main(int argc, char **argv)
{
	static char long_text[24000], config[sizeof(long_text) + 200];
	WT_CONNECTION *connection;
	WT_SESSION *session;
	WT_CURSOR *bulk;
	char uri[64];

	if (argc != 2) {
		fprintf(stderr, "usage: fixture DBPATH\n");
		return 2;
	}
	check(wiredtiger_open(argv[1], NULL, "create,cache_size=20MB,config_base=false", &connection), argv[1]);
	check(connection->open_session(connection, NULL, NULL, &session), "a session");

	create(session, "file:collection-0-1.wt", "key_format=S,value_format=S,allocation_size=4KB,leaf_page_max=4KB");
	create(session, "file:index-1-1.wt", "key_format=S,value_format=S,allocation_size=512,leaf_page_max=1KB,"
					     "internal_page_max=1KB,prefix_compression=true");
	// As mongod's, so that its blocks may be discarded
	create(session, "file:_mdb_catalog.wt", "key_format=S,value_format=S,allocation_size=4KB");
	create(session, "file:kept.wt", "key_format=S,value_format=S,allocation_size=4KB,leaf_page_max=4KB");
	// Files of a database in a directory of its own; one that is never written.
	create(session, "file:db/collection-2-1.wt", "key_format=S,value_format=S,allocation_size=512,leaf_page_max=4KB");
	create(session, "file:never.wt", "key_format=S,value_format=S,allocation_size=512");
	// An entry of the metadata that does not fit its page.
	memset(long_text, 'x', sizeof(long_text) - 1);
	snprintf(config, sizeof(config), "key_format=S,value_format=S,allocation_size=512,app_metadata=(long=%s)", long_text);
	create(session, "file:overflow.wt", config);
	// Enough of them for a tree of two levels.
	for (int i = 0; i < 40; i++) {
		snprintf(uri, sizeof(uri), "file:many-%02d.wt", i);
		create(session, uri, "key_format=S,value_format=S,allocation_size=512,leaf_page_max=4KB");
	}
	churn(session, "file:overflow.wt", 10, 10, 0);
	churn(session, "file:many-07.wt", 10, 10, 0);

	for (int round = 0; round < 12; round++) {
		churn(session, "file:collection-0-1.wt", 250, round ? 60 : 400, 0);
		churn(session, "file:index-1-1.wt", 200, 60, 0);
		churn(session, "file:db/collection-2-1.wt", 100, round < 3 ? 60 : 0, 0);
		churn(session, "file:kept.wt", 60, round ? 10 : 120, 0);
		if (round == 5)
			churn(session, "file:collection-0-1.wt", 250, 200, 1);
		// The blocks of a named checkpoint are kept.
		check(session->checkpoint(session, round == 4 ? "name=before" : NULL), "checkpoint");
	}
	// Its load is under way at the last checkpoint.
	create(session, "file:loading.wt", "key_format=S,value_format=S,allocation_size=512");
	check(session->open_cursor(session, "file:loading.wt", NULL, "bulk", &bulk), "bulk");
	bulk->set_key(bulk, "a");
	bulk->set_value(bulk, "b");
	check(bulk->insert(bulk), "bulk");
	churn(session, "file:collection-0-1.wt", 250, 30, 0);
	check(session->checkpoint(session, NULL), "checkpoint");
	fflush(NULL);
	_exit(0);
}
