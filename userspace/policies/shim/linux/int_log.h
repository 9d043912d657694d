/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SHIM_INT_LOG_H
#define SHIM_INT_LOG_H

#include <math.h>

#include <linux/types.h>

/* The mantissa's logarithm at the 256 points between which intlog2() draws lines. */
static inline u32 shim_log_point(u32 index)
{
	return index == 256 ? 1 << 16 : (u32)lround(log2(1 + index / 256.0) * 65536);
}

/*
 * lg(value) * 2^24, bit for bit as the kernel's intlog2() computes it: from a
 * table with 256 entries of 16 bits, linear in between.
 */
static inline u32 intlog2(u32 value)
{
	int msb = 31 - __builtin_clz(value);
	u32 mantissa = value << (31 - msb);
	u32 index = (mantissa >> 23) & 0xff, rest = mantissa & 0x7fffff;
	u32 point = shim_log_point(index);
	u32 slope = shim_log_point(index + 1) - point;

	return ((u32)msb << 24) + (point << 8) + ((rest * slope) >> 15);
}

#endif
