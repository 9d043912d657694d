/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many streams the underlying device can take.
 *
 * What lies below a stacked device may be replaced at any time (a table is reloaded,
 * a hot spare comes in) without notice to those above.  NVMe fails a write whose stream
 * is greater than the namespace has; drivers without streams ignore it.  A write always
 * ends on some disk of the machine, so no disk rejects a stream that every disk with
 * streams has.  That is the greatest stream that a write to a stacked device carries.
 */
#ifndef DSM_STREAMS_H
#define DSM_STREAMS_H

#include <linux/blk_types.h>
#include <linux/list.h>
#include <linux/types.h>

#include "policies/layout.h"

#define DSM_NR_STREAMS	256	/* ids that fit bi_write_stream, with 0 */
#define DSM_NR_HINTS	6	/* enum rw_hint */
#define DSM_MAX_LEAVES	64

/* How the number of streams is known. */
enum dsm_stream_source {
	DSM_STREAMS_NONE,	/* the device, or a leaf, has none */
	DSM_STREAMS_QUEUE,	/* from its queue limits */
	DSM_STREAMS_LEAVES,	/* from those of the disks below */
	DSM_STREAMS_MACHINE,	/* a disk that is not below takes fewer */
	DSM_STREAMS_STACKED,	/* a stacked device whose leaves are not named */
	DSM_STREAMS_KERNEL,	/* this kernel has no write streams */
};

/*
 * The disks at the bottom of a stacked device, as the constructor line names them.
 *
 * Device-mapper does not let a target see another device's table, so userspace
 * says which disks a write ends on; how many streams they take is read from them.
 */
struct dsm_leaves;

/*
 * Opens the devices in @list, "<dev>[,<dev>...]", which lie below @above.  They are
 * opened for reading and not claimed, so that whoever uses them goes on.  Returns
 * the leaves, or an error, with a message in *@error.  May sleep; not to be called
 * with a target's lock held, as dsm_watch() explains.
 */
struct dsm_leaves *dsm_leaves_open(const char *list, struct block_device *above,
				   char **error);
void dsm_leaves_close(struct dsm_leaves *leaves);

/*
 * Writes "leaves" and the numbers of the disks, with the given characters before, after and
 * within, or nothing for NULL; returns the length so far.
 */
size_t dsm_leaves_emit(const struct dsm_leaves *leaves, char before, char between, char within,
		       char *result, size_t sz, unsigned int maxlen);

/*
 * Whether @bdev hands its bios to other devices: whatever device-mapper has made, and
 * what holds others (md).
 */
bool dsm_is_stacked(struct block_device *bdev);

/*
 * The greatest stream that a write to @bdev may carry without being refused, whatever
 * happens below if it is @stacked.  @leaves are the disks below it, or NULL.
 */
unsigned int dsm_device_streams(struct block_device *bdev, bool stacked,
				const struct dsm_leaves *leaves,
				enum dsm_stream_source *source);

/* Of a target on a stacked device. */
struct dsm_watch {
	struct list_head list;
	void (*disk_came)(struct dsm_watch *watch, unsigned int streams);
};

/*
 * From now on @watch->disk_came() is called when a disk comes that takes streams, before
 * anybody can open it.  @bdev is any block device.  The driver core calls, with a lock of
 * the class of disks held: nothing that opens a disk (and may find partitions) may hold a
 * lock that @disk_came takes, nor may the caller of these two.  Returns 0 or an error.
 */
int dsm_watch(struct dsm_watch *watch, struct block_device *bdev);
void dsm_unwatch(struct dsm_watch *watch);	/* its list may be empty */

/* When the module goes. */
void dsm_watch_exit(void);

#endif
