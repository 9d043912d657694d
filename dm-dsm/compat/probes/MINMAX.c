// SPDX-License-Identifier: GPL-2.0-only
/* 6.7, and newer ones of older series */
#line 1 "MINMAX.c"
#include <linux/minmax.h>

static inline unsigned int dsm_minmax(unsigned int value)
{
	return min(value, 4096) + max(value, 16);
}
