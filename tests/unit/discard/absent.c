// SPDX-License-Identifier: GPL-2.0-only
/*
 * In place of streams.c and windows.c: a disk without streams, and no checkpoints.
 */
#include "../../../dm-dsm/dsm.h"

bool dsm_is_stacked(struct block_device *bdev)
{
	return false;
}

unsigned int dsm_device_streams(struct block_device *bdev, bool stacked,
				const struct dsm_leaves *leaves, enum dsm_stream_source *source)
{
	return 0;
}

int dsm_watch(struct dsm_watch *watch, struct block_device *bdev)
{
	return 0;
}

void dsm_unwatch(struct dsm_watch *watch)
{
}

void dsm_watch_exit(void)
{
}

struct dsm_leaves *dsm_leaves_open(const char *list, struct block_device *above, char **error)
{
	return NULL;
}

void dsm_leaves_close(struct dsm_leaves *leaves)
{
}

size_t dsm_leaves_emit(const struct dsm_leaves *leaves, char before, char between, char within,
		       char *result, size_t sz, unsigned int maxlen)
{
	return sz;
}

int dsm_checkpoint(struct dsm *d, struct dsm_checkpoint *done)
{
	return -ENOMEM;
}
