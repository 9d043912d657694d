/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_SIZES_H
#define WTLOAD_SIZES_H

#include "catalog.h"

/*
 * How many records and bytes the collections have: sizeStorer.wt, as MongoDB's,
 * table uri -> { numRecords, dataSize }.
 */
void sizes_create(WT_SESSION *session);
void sizes_read(struct catalog *catalog);
/* After an unclean stop what was stored may be old: counts the records. */
void sizes_recount(struct catalog *catalog);
/* session: the caller's, since any thread may do this before a checkpoint. */
void sizes_store(struct catalog *catalog, WT_SESSION *session);

#endif
