// SPDX-License-Identifier: GPL-2.0-only
/* 6.10 */
#line 1 "BIO_LIST_MERGE_INIT.c"
#include <linux/bio.h>

static inline void dsm_bio_list_merge_init(struct bio_list *list)
{
	bio_list_merge_init(list, list);
}
