/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_BSON_H
#define WTLOAD_BSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bson_type {
	BSON_STRING = 0x02,
	BSON_OBJECT = 0x03,
	BSON_ARRAY = 0x04,
	BSON_BINARY = 0x05,
	BSON_OID = 0x07,
	BSON_BOOL = 0x08,
	BSON_INT32 = 0x10,
	BSON_INT64 = 0x12,
};

#define BSON_OID_SIZE 12

/* A document being written into the caller's memory. */
struct bson_out {
	uint8_t *buf;
	size_t cap;
	size_t len;
};

void bson_begin(struct bson_out *out, void *buf, size_t cap);
size_t bson_end(struct bson_out *out);
/* Returns where the nested document starts, for bson_close(). */
size_t bson_open(struct bson_out *out, enum bson_type type, const char *name);
void bson_close(struct bson_out *out, size_t start);

void bson_int32(struct bson_out *out, const char *name, int32_t value);
void bson_int64(struct bson_out *out, const char *name, int64_t value);
void bson_bool(struct bson_out *out, const char *name, bool value);
void bson_oid(struct bson_out *out, const char *name, const uint8_t *oid);
void bson_string(struct bson_out *out, const char *name, const char *value);
/* Returns the payload's place, to be filled by the caller. */
uint8_t *bson_binary(struct bson_out *out, const char *name, size_t size);

/* One element of a document that is being read; points into it. */
struct bson_elem {
	enum bson_type type;
	const char *name;
	const uint8_t *value;
	size_t size;		/* of the value, without type and name */
};

/* Walks a document: *pos starts at 0. False at the end or at a broken element. */
bool bson_next(const uint8_t *doc, size_t len, size_t *pos,
	       struct bson_elem *elem);
bool bson_find(const uint8_t *doc, size_t len, const char *name,
	       struct bson_elem *elem);

int64_t bson_get_int(const uint8_t *doc, size_t len, const char *name);
const char *bson_get_string(const uint8_t *doc, size_t len, const char *name);

int64_t bson_elem_int(const struct bson_elem *elem);

#endif
