/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The disks at the bottom of a stacked device, as the constructor line names them.
 *
 * Device-mapper does not let a target see another device's table, so userspace
 * says which disks a write ends on; how many streams they take is read from them.
 */
#ifndef DSM_LEAVES_H
#define DSM_LEAVES_H

#include <linux/blk_types.h>

#define DSM_MAX_LEAVES	64

struct dsm_leaves;

/*
 * Whether @bdev hands its bios to other devices: whatever device-mapper has made, and
 * what holds others (md).
 */
bool dsm_is_stacked(struct block_device *bdev);

/*
 * Opens the devices in @list, "<dev>[,<dev>...]", which lie below @above.  They are
 * opened for reading and not claimed, so that whoever uses them goes on.  Returns
 * the leaves, or an error, with a message in *@error.  May sleep; not to be called
 * with a target's lock held, as dsm_watch() explains.
 */
struct dsm_leaves *dsm_leaves_open(const char *list, struct block_device *above,
				   char **error);
void dsm_leaves_close(struct dsm_leaves *leaves);

/* Streams that all leaves take: the minimum of their current queue limits. */
unsigned int dsm_leaves_streams(const struct dsm_leaves *leaves);

/*
 * Writes "leaves" and the numbers of the disks, with the given characters before, after and
 * within, or nothing for NULL; returns the length so far.
 */
size_t dsm_leaves_emit(const struct dsm_leaves *leaves, char before, char between, char within,
		       char *result, size_t sz, unsigned int maxlen);

#endif
