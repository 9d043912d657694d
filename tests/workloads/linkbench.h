/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_LINKBENCH_H
#define WTLOAD_LINKBENCH_H

#include "worker.h"

/* Places in the catalog, and of the indexes of each collection. */
enum { NODES, LINKS, COUNTS };
enum { NODE_ID, NODE_BY_ID };
enum { LINK_ID, LINK_BY_KEY, LINK_BY_TIME };
enum { COUNT_ID, COUNT_BY_KEY };

enum { HIDDEN, VISIBLE };

struct link {
	int64_t id1, type, id2;
	int32_t version;
	int32_t visibility;
};

/* Write a document into w->doc and return its size. */
size_t node_doc(struct worker *w, int64_t rid, int64_t id, int64_t version);
size_t link_doc(struct worker *w, int64_t rid, const struct link *link);
size_t count_doc(struct worker *w, int64_t rid, int64_t id, int64_t type,
		 int64_t count, int64_t version);

void linkbench_add(struct worker *w);
void linkbench_read(struct worker *w);
void linkbench_update(struct worker *w);
void linkbench_remove(struct worker *w);

#endif
