// SPDX-License-Identifier: GPL-2.0-only
/* 5.18 */
#line 1 "BIO_INIT_BDEV.c"
#include <linux/bio.h>

static inline void dsm_bio_init_bdev(struct bio *bio, struct block_device *bdev)
{
	bio_init(bio, bdev, NULL, 0, REQ_OP_DISCARD);
}
