// SPDX-License-Identifier: GPL-2.0-only
/* 5.18 */
#line 1 "DM_SUBMIT_BIO_REMAP.c"
#include <linux/device-mapper.h>

static inline void dsm_dm_submit_bio_remap(struct dm_target *ti, struct bio *bio)
{
	ti->accounts_remapped_io = true;
	dm_submit_bio_remap(bio, NULL);
}
