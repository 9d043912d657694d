// SPDX-License-Identifier: GPL-2.0-only
/* LinkBench's ten operations. */
#include "linkbench.h"
#include "linkbench_graph.h"
#include "util.h"

#define LIST_LIMIT 10000	/* links that one list returns at most */

static struct link pick_loaded_link(struct worker *w, enum access access)
{
	int64_t id1 = graph_pick_id1(access, &w->rng);
	uint64_t n = rng_below(&w->rng, graph_degree(id1));

	return (struct link){ id1, graph_link_type(n), graph_id2(id1, n), 0,
			      VISIBLE };
}

struct request {
	struct worker *w;
	struct link link;
	bool hide;
	int count_change;	/* set by put_link() for bump_count() */
	bool touched;		/* put_link() wrote something */
};

static int find(struct worker *w, size_t place, unsigned int index,
		const int64_t *values, int count, int64_t *rid)
{
	struct key key;

	key_begin(&key);
	for (int i = 0; i < count; i++)
		key_int(&key, values[i]);
	key_end(&key);
	return table_find(worker_table(w, place), index, &key, rid);
}

static int find_link(struct worker *w, const struct link *link, int64_t *rid)
{
	return find(w, LINKS, LINK_BY_KEY,
		    (int64_t[]){ link->type, link->id1, link->id2 }, 3, rid);
}

static int find_count(struct worker *w, const struct link *link, int64_t *rid)
{
	return find(w, COUNTS, COUNT_BY_KEY,
		    (int64_t[]){ link->id1, link->type }, 2, rid);
}

/* Another client put the same key in since our snapshot: look again. */
static int retry_duplicate(int ret)
{
	return ret == WT_DUPLICATE_KEY ? WT_ROLLBACK : ret;
}

/* LinkBench's addLink, updateLink (both an upsert) and deleteLink (it hides). */
static int put_link(void *arg)
{
	struct request *request = arg;
	struct worker *w = request->w;
	struct link *link = &request->link;
	struct table *links = worker_table(w, LINKS);
	int32_t before;
	int64_t rid;
	int ret;

	request->touched = false;
	request->count_change = 0;
	ret = find_link(w, link, &rid);
	if (ret == WT_NOTFOUND) {
		if (request->hide)
			return 0;
		rid = table_new_rid(links);
		link->version = 0;
		request->touched = true;
		request->count_change = 1;
		return retry_duplicate(table_insert(links, rid, w->doc,
						    link_doc(w, rid, link)));
	}
	if (!ret)
		ret = worker_read(w, links, rid);
	if (ret)
		return ret;
	before = (int32_t)bson_get_int(w->old, w->old_len, "visibility");
	if (request->hide && before == HIDDEN)
		return 0;
	link->visibility = request->hide ? HIDDEN : VISIBLE;
	link->version = 1 + (int32_t)bson_get_int(w->old, w->old_len,
						  "version");
	request->touched = true;
	request->count_change = link->visibility - before;
	return table_update(links, rid, w->old, w->old_len, w->doc,
			    link_doc(w, rid, link));
}

static int bump_count(void *arg)
{
	struct request *request = arg;
	struct worker *w = request->w;
	const struct link *link = &request->link;
	struct table *counts = worker_table(w, COUNTS);
	int64_t rid, count, version;
	int ret = find_count(w, link, &rid);

	if (ret == WT_NOTFOUND) {
		rid = table_new_rid(counts);
		count = request->count_change > 0;
		return retry_duplicate(table_insert(counts, rid, w->doc,
			count_doc(w, rid, link->id1, link->type, count, 0)));
	}
	if (!ret)
		ret = worker_read(w, counts, rid);
	if (ret)
		return ret;
	count = bson_get_int(w->old, w->old_len, "count") +
		request->count_change;
	version = bson_get_int(w->old, w->old_len, "version") + 1;
	return table_update(counts, rid, w->old, w->old_len, w->doc,
			    count_doc(w, rid, link->id1, link->type, count,
				      version));
}

/*
 * Two transactions, since MongoDB has no larger ones before 4.0. LinkBenchX
 * writes the count's document at every link that it changes, also when the
 * number stays: mongod reports a matched link as modified.
 */
static void write_link(struct worker *w, struct link link, bool hide)
{
	struct request request = { .w = w, .link = link, .hide = hide };

	must(table_transaction(worker_table(w, LINKS), put_link, &request),
	     "writing", "a link");
	if (request.touched)
		must(table_transaction(worker_table(w, COUNTS), bump_count,
				       &request), "writing", "a link count");
}

static int add_node(void *arg)
{
	struct worker *w = arg;
	struct table *nodes = worker_table(w, NODES);
	/* n loaded nodes have the ids and the record ids 1..n: this one is new. */
	int64_t id = table_new_rid(nodes);

	return table_insert(nodes, id, w->doc, node_doc(w, id, id, 0));
}

struct node_request {
	struct worker *w;
	int64_t id;
};

static int read_node(const struct node_request *request, int64_t *rid)
{
	int ret = find(request->w, NODES, NODE_BY_ID, &request->id, 1, rid);

	return ret ? ret : worker_read(request->w,
				       worker_table(request->w, NODES), *rid);
}

static int update_node(void *arg)
{
	const struct node_request *request = arg;
	struct worker *w = request->w;
	int64_t rid, version;
	int ret = read_node(request, &rid);

	if (ret)
		return ret;
	version = bson_get_int(w->old, w->old_len, "version") + 1;
	return table_update(worker_table(w, NODES), rid, w->old, w->old_len,
			    w->doc, node_doc(w, rid, request->id, version));
}

static int delete_node(void *arg)
{
	const struct node_request *request = arg;
	struct worker *w = request->w;
	int64_t rid;
	int ret = read_node(request, &rid);

	return ret ? ret : table_remove(worker_table(w, NODES), rid, w->old,
					w->old_len);
}

static int get_node(void *arg)
{
	int64_t rid;

	return read_node(arg, &rid);
}

static int get_link(void *arg)
{
	struct request *request = arg;
	int64_t rid;
	int ret = find_link(request->w, &request->link, &rid);

	return ret ? ret : worker_read(request->w,
				       worker_table(request->w, LINKS), rid);
}

static int get_count(void *arg)
{
	struct request *request = arg;
	int64_t rid;
	int ret = find_count(request->w, &request->link, &rid);

	return ret ? ret : worker_read(request->w,
				       worker_table(request->w, COUNTS), rid);
}

static int list_links(void *arg)
{
	struct request *request = arg;
	struct worker *w = request->w;
	struct table *links = worker_table(w, LINKS);
	struct key prefix;
	int64_t rid;
	int ret;

	key_begin(&prefix);
	key_int(&prefix, request->link.id1);
	key_int(&prefix, request->link.type);
	key_int(&prefix, VISIBLE);
	ret = table_scan_first(links, LINK_BY_TIME, &prefix, &rid);
	for (int n = 0; !ret && n < LIST_LIMIT; n++) {
		ret = worker_read(w, links, rid);
		if (!ret)
			ret = table_scan_next(links, LINK_BY_TIME, &prefix,
					      &rid);
	}
	return ret;
}

/* A node may have been deleted, a link never added: that is no failure. */
static void on_node(struct worker *w, int (*work)(void *), int64_t id)
{
	struct node_request request = { w, id };
	int ret = table_transaction(worker_table(w, NODES), work, &request);

	if (ret != WT_NOTFOUND)
		must(ret, "using", "a node");
}

static void on_link(struct worker *w, int (*work)(void *))
{
	struct request request = { .w = w };
	int ret;

	request.link = pick_loaded_link(w, READ_LINK);
	ret = table_transaction(worker_table(w, LINKS), work, &request);
	if (ret != WT_NOTFOUND)
		must(ret, "reading", "a link");
}

/* The shares are those of FBWorkload.properties, within each of the four kinds. */
void linkbench_add(struct worker *w)
{
	if (rng_unit(&w->rng) * (8.99 + 2.57) < 8.99) {
		struct link link = {
			.id1 = graph_pick_id1(WRITE_LINK, &w->rng),
			.type = graph_link_type(rng_next(&w->rng) >> 32),
			.id2 = graph_any_node(&w->rng),
			.visibility = VISIBLE,
		};

		write_link(w, link, false);
	} else {
		must(table_transaction(worker_table(w, NODES), add_node, w),
		     "adding", "a node");
	}
}

void linkbench_update(struct worker *w)
{
	if (rng_unit(&w->rng) * (8.01 + 7.37) < 8.01)
		write_link(w, pick_loaded_link(w, WRITE_LINK), false);
	else
		on_node(w, update_node, graph_pick_node(UPDATE_NODE, &w->rng));
}

void linkbench_remove(struct worker *w)
{
	if (rng_unit(&w->rng) * (2.99 + 1.01) < 2.99)
		write_link(w, pick_loaded_link(w, WRITE_LINK), true);
	else
		on_node(w, delete_node, graph_any_node(&w->rng));
}

void linkbench_read(struct worker *w)
{
	double kind = rng_unit(&w->rng) * (50.71 + 12.93 + 4.89 + 0.53);

	if (kind < 50.71)
		on_link(w, list_links);
	else if (kind < 50.71 + 12.93)
		on_node(w, get_node, graph_pick_node(READ_NODE, &w->rng));
	else if (kind < 50.71 + 12.93 + 4.89)
		on_link(w, get_count);
	else
		on_link(w, get_link);
}
