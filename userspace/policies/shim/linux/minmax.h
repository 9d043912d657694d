/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SHIM_MINMAX_H
#define SHIM_MINMAX_H

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define clamp(v, low, high) min(max(v, low), high)
#define max_t(type, a, b) max((type)(a), (type)(b))

#endif
