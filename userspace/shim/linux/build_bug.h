/* SPDX-License-Identifier: GPL-2.0-or-later */
#define static_assert(condition) _Static_assert(condition, #condition)
