// SPDX-License-Identifier: GPL-2.0-only
/* 6.15 */
#line 1 "SORT_NONATOMIC.c"
#include <linux/sort.h>

static inline void *dsm_sort_nonatomic(void)
{
	return sort_nonatomic;
}
