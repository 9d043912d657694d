// SPDX-License-Identifier: GPL-2.0-only
/*
 * Index keys in the shape of MongoDB's KeyString (version 0/1): a type byte and
 * big-endian bytes for each field, an end mark, and a record id of 2 to 9 bytes.
 * Only the types that the workloads index are here, and no type bits.
 */
#include <string.h>

#include "keystring.h"
#include "util.h"

enum {
	KEY_END = 4,
	KEY_NEGATIVE_1_BYTE = 0x27,	/* 2 bytes: 0x26, ... */
	KEY_ZERO = 0x29,
	KEY_POSITIVE_1_BYTE = 0x2b,	/* 2 bytes: 0x2c, ... */
	KEY_STRING = 0x3c,
	KEY_BINARY = 0x5a,
	KEY_OID = 0x64,
	KEY_BOOL = 0x6e,
};

static void put(struct key *key, const void *bytes, size_t len)
{
	if (len > sizeof(key->bytes) - key->len)
		die("an index key is longer than %d bytes", KEY_MAX_SIZE);
	memcpy(key->bytes + key->len, bytes, len);
	key->len += len;
}

static void put_byte(struct key *key, unsigned int byte)
{
	uint8_t value = (uint8_t)byte;

	put(key, &value, 1);
}

void key_begin(struct key *key)
{
	key->len = 0;
}

void key_int(struct key *key, int64_t value)
{
	/* The lowest bit says that a fraction follows; there is never one. */
	uint64_t shifted;
	uint8_t flip = value < 0 ? 0xff : 0;
	int size;

	if (!value) {
		put_byte(key, KEY_ZERO);
		return;
	}
	shifted = (value < 0 ? -(uint64_t)value : (uint64_t)value) << 1;
	size = (64 - __builtin_clzll(shifted) + 7) / 8;
	put_byte(key, value < 0 ? KEY_NEGATIVE_1_BYTE - (size - 1) :
				  KEY_POSITIVE_1_BYTE + (size - 1));
	while (size--)
		put_byte(key, (uint8_t)(shifted >> (8 * size)) ^ flip);
}

void key_string(struct key *key, const char *value, size_t len)
{
	put_byte(key, KEY_STRING);
	put(key, value, len);
	put_byte(key, 0);
}

void key_oid(struct key *key, const uint8_t *oid)
{
	put_byte(key, KEY_OID);
	put(key, oid, BSON_OID_SIZE);
}

static void key_binary(struct key *key, const uint8_t *value, size_t size)
{
	/* value: 4 bytes length, 1 byte subtype, payload */
	size_t payload = size - 5;

	put_byte(key, KEY_BINARY);
	if (payload < 0xff) {
		put_byte(key, (unsigned int)payload);
	} else {
		put_byte(key, 0xff);
		for (int shift = 24; shift >= 0; shift -= 8)
			put_byte(key, (uint8_t)(payload >> shift));
	}
	put(key, value + 4, payload + 1);
}

void key_elem(struct key *key, const struct bson_elem *elem)
{
	switch (elem->type) {
	case BSON_INT32:
	case BSON_INT64:
		key_int(key, bson_elem_int(elem));
		return;
	case BSON_STRING:
		key_string(key, (const char *)elem->value + 4, elem->size - 5);
		return;
	case BSON_BINARY:
		key_binary(key, elem->value, elem->size);
		return;
	case BSON_OID:
		key_oid(key, elem->value);
		return;
	case BSON_BOOL:
		put_byte(key, KEY_BOOL + (*elem->value != 0));
		return;
	default:
		die("field '%s' has a type that is not indexed", elem->name);
	}
}

void key_end(struct key *key)
{
	put_byte(key, KEY_END);
}

void key_record_id(struct key *key, int64_t rid)
{
	uint8_t bytes[RECORD_ID_MAX_SIZE];

	put(key, bytes, record_id_encode(bytes, rid));
}

/*
 * 10 bits fit two bytes; every further byte holds 8. The count of further bytes
 * stands in the first three bits, to sort, and in the last three, to be found
 * from the end.
 */
size_t record_id_encode(uint8_t *out, int64_t rid)
{
	uint64_t raw = (uint64_t)rid;
	int bits = 64 - __builtin_clzll(raw | 1);
	int extra = bits <= 10 ? 0 : (bits - 10 + 7) / 8;

	*out++ = (uint8_t)((extra << 5) | (int)(raw >> (5 + extra * 8)));
	for (int i = extra - 1; i >= 0; i--)
		*out++ = (uint8_t)(raw >> (5 + i * 8));
	*out = (uint8_t)(((raw & 0x1f) << 3) | (uint64_t)extra);
	return (size_t)extra + 2;
}

int64_t record_id_decode_tail(const uint8_t *bytes, size_t len)
{
	size_t extra;
	uint64_t raw;

	if (len < 2)
		return 0;
	extra = bytes[len - 1] & 7;
	if (len < extra + 2)
		return 0;
	bytes += len - extra - 2;
	raw = *bytes++ & 0x1f;
	while (extra--)
		raw = raw << 8 | *bytes++;
	return (int64_t)(raw << 5 | *bytes >> 3);
}
