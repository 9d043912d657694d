/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SHIM_BITOPS_H
#define SHIM_BITOPS_H

#include <linux/types.h>

static inline int fls64(u64 value)
{
	return value ? 64 - __builtin_clzll(value) : 0;
}

#endif
