/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SHIM_RW_HINT_H
#define SHIM_RW_HINT_H

enum rw_hint {
	WRITE_LIFE_NOT_SET,
	WRITE_LIFE_NONE,
	WRITE_LIFE_SHORT,
	WRITE_LIFE_MEDIUM,
	WRITE_LIFE_LONG,
	WRITE_LIFE_EXTREME,
};

#endif
