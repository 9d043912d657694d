// SPDX-License-Identifier: GPL-2.0-only
/* 6.16 */
#line 1 "PREPARE_IOCTL_CMD.c"
#include <linux/device-mapper.h>

static inline int dsm_prepare_ioctl_cmd(dm_prepare_ioctl_fn prepare, struct dm_target *ti)
{
	return prepare(ti, NULL, 0, 0, NULL);
}
