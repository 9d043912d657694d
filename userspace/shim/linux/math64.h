/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIM_MATH64_H
#define SHIM_MATH64_H

#include <linux/types.h>

static inline s64 div_s64(s64 dividend, s32 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

#endif
