/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_DOCUMENT_H
#define WTLOAD_DOCUMENT_H

#include "bson.h"

/* No workload writes a larger document. */
#define DOC_MAX_SIZE 8192

/* The ObjectId of the record rid: made from it, so that it can be found again. */
void doc_object_id(uint8_t *oid, int64_t rid);

/*
 * Every document ends in a field "sum": a checksum of all before it and of its
 * record id, so that neither a changed byte nor a swapped record goes unseen.
 */
size_t doc_seal(struct bson_out *out, int64_t rid);
/* The same for a document that was changed in place. */
void doc_reseal(uint8_t *doc, size_t len, int64_t rid);
bool doc_intact(const uint8_t *doc, size_t len, int64_t rid);
/* The checksum that an intact document has. */
uint64_t doc_sum(const uint8_t *doc, size_t len);

#endif
