// SPDX-License-Identifier: GPL-2.0-only
/* The part of BSON that the workloads' documents and the catalog need. */
#include <endian.h>
#include <string.h>

#include "bson.h"
#include "util.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "BSON is little-endian, and so are the copies made here"
#endif

static uint8_t *reserve(struct bson_out *out, size_t size)
{
	uint8_t *place = out->buf + out->len;

	if (size > out->cap - out->len)
		die("a document does not fit its buffer of %zu bytes", out->cap);
	out->len += size;
	return place;
}

static uint8_t *element(struct bson_out *out, enum bson_type type,
			const char *name, size_t size)
{
	size_t name_size = strlen(name) + 1;
	uint8_t *place = reserve(out, 1 + name_size + size);

	*place++ = (uint8_t)type;
	memcpy(place, name, name_size);
	return place + name_size;
}

static size_t start_document(struct bson_out *out)
{
	size_t start = out->len;

	reserve(out, sizeof(int32_t));
	return start;
}

void bson_close(struct bson_out *out, size_t start)
{
	int32_t size;

	*reserve(out, 1) = 0;
	size = (int32_t)(out->len - start);
	memcpy(out->buf + start, &size, sizeof(size));
}

void bson_begin(struct bson_out *out, void *buf, size_t cap)
{
	*out = (struct bson_out){ .buf = buf, .cap = cap };
	start_document(out);
}

size_t bson_end(struct bson_out *out)
{
	bson_close(out, 0);
	return out->len;
}

size_t bson_open(struct bson_out *out, enum bson_type type, const char *name)
{
	element(out, type, name, 0);
	return start_document(out);
}

void bson_int32(struct bson_out *out, const char *name, int32_t value)
{
	memcpy(element(out, BSON_INT32, name, 4), &value, 4);
}

void bson_int64(struct bson_out *out, const char *name, int64_t value)
{
	memcpy(element(out, BSON_INT64, name, 8), &value, 8);
}

void bson_bool(struct bson_out *out, const char *name, bool value)
{
	*element(out, BSON_BOOL, name, 1) = value;
}

void bson_oid(struct bson_out *out, const char *name, const uint8_t *oid)
{
	memcpy(element(out, BSON_OID, name, BSON_OID_SIZE), oid, BSON_OID_SIZE);
}

void bson_string(struct bson_out *out, const char *name, const char *value)
{
	int32_t size = (int32_t)strlen(value) + 1;
	uint8_t *place = element(out, BSON_STRING, name, 4 + (size_t)size);

	memcpy(place, &size, 4);
	memcpy(place + 4, value, (size_t)size);
}

uint8_t *bson_binary(struct bson_out *out, const char *name, size_t size)
{
	int32_t payload = (int32_t)size;
	uint8_t *place = element(out, BSON_BINARY, name, 5 + size);

	memcpy(place, &payload, 4);
	place[4] = 0;		/* subtype: generic */
	return place + 5;
}

static size_t value_size(enum bson_type type, const uint8_t *value, size_t left)
{
	uint32_t size = 0;

	if (left >= sizeof(size))
		memcpy(&size, value, sizeof(size));
	switch (type) {
	case BSON_STRING:
		return 4 + (size_t)size;
	case BSON_OBJECT:
	case BSON_ARRAY:
		return size;
	case BSON_BINARY:
		return 5 + (size_t)size;
	case BSON_OID:
		return BSON_OID_SIZE;
	case BSON_BOOL:
		return 1;
	case BSON_INT32:
		return 4;
	case BSON_INT64:
		return 8;
	}
	return SIZE_MAX;	/* a type that no workload writes: broken */
}

bool bson_next(const uint8_t *doc, size_t len, size_t *pos,
	       struct bson_elem *elem)
{
	size_t at = *pos ? *pos : 4;
	size_t left;
	const uint8_t *name_end;

	if (at + 2 >= len || !doc[at])
		return false;
	elem->type = (enum bson_type)doc[at++];
	elem->name = (const char *)doc + at;
	name_end = memchr(doc + at, 0, len - at);
	if (!name_end)
		return false;
	elem->value = name_end + 1;
	left = len - (size_t)(elem->value - doc);
	elem->size = value_size(elem->type, elem->value, left);
	if (elem->size >= left)
		return false;
	*pos = (size_t)(elem->value - doc) + elem->size;
	return true;
}

bool bson_find(const uint8_t *doc, size_t len, const char *name,
	       struct bson_elem *elem)
{
	size_t pos = 0;

	while (bson_next(doc, len, &pos, elem))
		if (!strcmp(elem->name, name))
			return true;
	return false;
}

int64_t bson_elem_int(const struct bson_elem *elem)
{
	int64_t wide;
	int32_t narrow;

	if (elem->type == BSON_INT64) {
		memcpy(&wide, elem->value, sizeof(wide));
		return wide;
	}
	if (elem->type == BSON_BOOL)
		return *elem->value;
	if (elem->type != BSON_INT32)
		die("field '%s' is not a number", elem->name);
	memcpy(&narrow, elem->value, sizeof(narrow));
	return narrow;
}

int64_t bson_get_int(const uint8_t *doc, size_t len, const char *name)
{
	struct bson_elem elem;

	if (!bson_find(doc, len, name, &elem))
		die("a document has no field '%s'", name);
	return bson_elem_int(&elem);
}

const char *bson_get_string(const uint8_t *doc, size_t len, const char *name)
{
	struct bson_elem elem;

	if (!bson_find(doc, len, name, &elem) || elem.type != BSON_STRING ||
	    elem.size < 5 || elem.value[elem.size - 1])
		die("a document has no text field '%s'", name);
	return (const char *)elem.value + 4;
}
