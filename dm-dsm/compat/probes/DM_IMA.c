// SPDX-License-Identifier: GPL-2.0-only
/* 5.15 */
#line 1 "DM_IMA.c"
#include <linux/device-mapper.h>

static inline status_type_t dsm_dm_ima(void)
{
	return STATUSTYPE_IMA;
}
