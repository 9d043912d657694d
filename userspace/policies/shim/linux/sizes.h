/* SPDX-License-Identifier: GPL-2.0-or-later */
#define SZ_16K (16 << 10)
#define SZ_64M (64 << 20)
