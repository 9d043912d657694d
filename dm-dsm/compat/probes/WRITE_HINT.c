// SPDX-License-Identifier: GPL-2.0-only
/* Not from 5.18 to 6.8 */
#line 1 "WRITE_HINT.c"
#include <linux/blk_types.h>

static inline int dsm_write_hint(const struct bio *bio)
{
	return bio->bi_write_hint;
}
