// SPDX-License-Identifier: GPL-2.0-only
/*
 * In place of disks.c and watch.c for a kernel without write streams: no disk has any,
 * and none is waited for.
 */
#include <linux/limits.h>

#include "../disks.h"
#include "../watch.h"

unsigned int dsm_own_streams(struct block_device *bdev)
{
	return 0;
}

unsigned int dsm_disks_streams(const struct block_device *bdev)
{
	return UINT_MAX;
}

int dsm_watch(struct dsm *d)
{
	return 0;
}

void dsm_unwatch(struct dsm *d)
{
}

void dsm_watch_exit(void)
{
}
