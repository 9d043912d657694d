/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <stdint.h>

#define S32_MAX INT32_MAX
#define S32_MIN INT32_MIN
#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
