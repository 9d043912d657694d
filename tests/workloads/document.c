// SPDX-License-Identifier: GPL-2.0-only
/* What all documents have: an id and a checksum. */
#include <string.h>

#include "document.h"
#include "random.h"

/* type, "sum", value, end of document */
#define SEAL_SIZE (1 + 4 + 8 + 1)
#define OID_EPOCH 1500000000u
#define OIDS_A_SECOND 256	/* of the made-up clock in the ObjectIds */

void doc_object_id(uint8_t *oid, int64_t rid)
{
	uint32_t seconds = OID_EPOCH + (uint32_t)(rid / OIDS_A_SECOND);
	uint64_t process = hash64(OID_EPOCH);

	for (int i = 0; i < 4; i++)
		oid[i] = (uint8_t)(seconds >> (24 - 8 * i));
	memcpy(oid + 4, &process, 5);
	for (int i = 0; i < 3; i++)
		oid[9 + i] = (uint8_t)(rid >> (16 - 8 * i));
}

static uint64_t checksum(const uint8_t *bytes, size_t len, int64_t rid)
{
	uint64_t sum = hash64((uint64_t)rid ^ len);
	uint64_t word = 0;
	size_t at;

	for (at = 0; at + 8 <= len; at += 8) {
		memcpy(&word, bytes + at, 8);
		sum = (sum ^ word) * 0x9fb21c651e98df25u;
		sum ^= sum >> 32;
	}
	word = 0;
	memcpy(&word, bytes + at, len - at);
	return hash64(sum ^ word);
}

size_t doc_seal(struct bson_out *out, int64_t rid)
{
	bson_int64(out, "sum", 0);
	bson_end(out);
	doc_reseal(out->buf, out->len, rid);
	return out->len;
}

void doc_reseal(uint8_t *doc, size_t len, int64_t rid)
{
	uint64_t sum = checksum(doc, len - SEAL_SIZE, rid);

	memcpy(doc + len - 9, &sum, sizeof(sum));
}

uint64_t doc_sum(const uint8_t *doc, size_t len)
{
	uint64_t sum;

	memcpy(&sum, doc + len - 9, sizeof(sum));
	return sum;
}

bool doc_intact(const uint8_t *doc, size_t len, int64_t rid)
{
	static const uint8_t field[] = { BSON_INT64, 's', 'u', 'm', 0 };
	uint32_t size;

	if (len < 4 + SEAL_SIZE)
		return false;
	memcpy(&size, doc, sizeof(size));
	return size == len && !doc[len - 1] &&
	       !memcmp(doc + len - SEAL_SIZE, field, sizeof(field)) &&
	       doc_sum(doc, len) == checksum(doc, len - SEAL_SIZE, rid);
}
