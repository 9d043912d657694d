// SPDX-License-Identifier: GPL-2.0-only
/* 6.10 */
#line 1 "DM_DEVT_FROM_PATH.c"
#include <linux/device-mapper.h>

static inline int dsm_dm_devt_from_path(const char *path, dev_t *dev)
{
	return dm_devt_from_path(path, dev);
}
