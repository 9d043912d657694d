// SPDX-License-Identifier: GPL-2.0-only
/* 6.12 */
#line 1 "FLUSH_BYPASSES_MAP.c"
#include <linux/device-mapper.h>

static inline void dsm_flush_bypasses_map_probe(struct dm_target *ti)
{
	ti->flush_bypasses_map = true;
}
