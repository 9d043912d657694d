/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Until 6.5 this was a part of drivers for television, which not every kernel has.
 * tests/unit compares the values.
 */
#ifndef DSM_COMPAT_INT_LOG_H
#define DSM_COMPAT_INT_LOG_H

#include <linux/bitops.h>
#include <linux/types.h>

/* log2(1 + index / 256) * 2^16, rounded: bit by bit, by squaring a number of 1.31. */
static inline u32 dsm_log_point(u32 index)
{
	u64 x = (u64)(256 + index) << 23;
	u32 log = 0;

	if (index == 256)
		return 1 << 16;
	for (unsigned int bit = 0; bit < 24; bit++) {
		x = (x * x) >> 31;
		log = log << 1 | (u32)(x >> 32);
		x >>= x >> 32;
	}
	return (log + 128) >> 8;
}

/* log2(value) * 2^24, between 256 points of each octave by lines, as the kernel's */
static inline unsigned int intlog2(u32 value)
{
	u32 octave, mantissa, index, rest, point, slope;

	if (!value)
		return 0;
	octave = fls(value) - 1;
	mantissa = value << (31 - octave);
	index = mantissa >> 23 & 0xff;
	rest = mantissa & 0x7fffff;
	point = dsm_log_point(index);
	slope = dsm_log_point(index + 1) - point;
	return (octave << 24) + (point << 8) + (rest * slope >> 15);
}

#endif
