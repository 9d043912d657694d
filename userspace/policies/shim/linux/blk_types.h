/* SPDX-License-Identifier: GPL-2.0-or-later */
#define SECTOR_SHIFT 9
