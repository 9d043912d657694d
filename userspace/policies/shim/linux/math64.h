/* SPDX-License-Identifier: GPL-2.0-or-later */
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

static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 divisor)
{
	return (unsigned __int128)a * b / divisor;
}

#endif
