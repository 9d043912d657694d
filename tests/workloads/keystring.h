/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_KEYSTRING_H
#define WTLOAD_KEYSTRING_H

#include "bson.h"

/* Longest key of a workload: a few numbers, one LinkBench link payload. */
#define KEY_MAX_SIZE 512

/* An index key as MongoDB stores it: bytes that sort as the values do. */
struct key {
	size_t len;
	uint8_t bytes[KEY_MAX_SIZE];
};

void key_begin(struct key *key);
void key_int(struct key *key, int64_t value);
void key_string(struct key *key, const char *value, size_t len);
void key_oid(struct key *key, const uint8_t *oid);
void key_elem(struct key *key, const struct bson_elem *elem);
void key_end(struct key *key);

/* The record id follows the end mark in a non-unique index's key. */
void key_record_id(struct key *key, int64_t rid);

#define RECORD_ID_MAX_SIZE 10
size_t record_id_encode(uint8_t *out, int64_t rid);
/* Reads the record id that ends at bytes[len]; 0 if there is none. */
int64_t record_id_decode_tail(const uint8_t *bytes, size_t len);

#endif
