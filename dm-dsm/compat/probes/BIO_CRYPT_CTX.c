// SPDX-License-Identifier: GPL-2.0-only
/* 7.0 */
#line 1 "BIO_CRYPT_CTX.c"
#include <linux/blk-crypto.h>

static inline const struct blk_crypto_key *dsm_bio_crypt_ctx(struct bio *bio)
{
	return bio_crypt_ctx(bio)->bc_key;
}
