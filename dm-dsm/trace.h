/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dsm:dsm_place for every write that leaves the target, dsm:dsm_checkpoint for
 * every checkpoint, dsm:dsm_discard for every discard that is done.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dsm

#if !defined(DSM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DSM_TRACE_H

#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/tracepoint.h>

#include "dsm.h"

TRACE_EVENT(dsm_place,

	TP_PROTO(const struct dsm *d, u64 sector, u64 sectors,
		 union dsm_stamp stamp),

	TP_ARGS(d, sector, sectors, stamp),

	TP_STRUCT__entry(
		__field(dev_t,		dev)
		__field(u64,		sector)
		__field(unsigned int,	sectors)
		__field(u8,		stream)
		__field(u8,		hint)
	),

	TP_fast_assign(
		__entry->dev = disk_devt(dm_disk(dm_table_get_md(d->ti->table)));
		__entry->sector = sector;
		__entry->sectors = sectors;
		__entry->stream = stamp.stream;
		__entry->hint = stamp.hint;
	),

	TP_printk("%d,%d %llu + %u stream %u hint %u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->sector,
		  __entry->sectors, __entry->stream, __entry->hint)
);

TRACE_EVENT(dsm_checkpoint,

	TP_PROTO(const struct dsm *d, const struct dsm_checkpoint *done),

	TP_ARGS(d, done),

	TP_STRUCT__entry(
		__field(dev_t,	dev)
		__field(u64,	window)
		__field(u64,	ms)
		__field(u32,	written)
		__field(u32,	moved)
	),

	TP_fast_assign(
		__entry->dev = disk_devt(dm_disk(dm_table_get_md(d->ti->table)));
		__entry->window = done->window;
		__entry->ms = done->ms;
		__entry->written = done->written;
		__entry->moved = done->moved;
	),

	TP_printk("%d,%d window %llu ms %llu written %u moved %u",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->window,
		  __entry->ms, __entry->written, __entry->moved)
);

TRACE_EVENT(dsm_discard,

	TP_PROTO(const struct dsm *d, u64 sector, u64 sectors,
		 blk_status_t status),

	TP_ARGS(d, sector, sectors, status),

	TP_STRUCT__entry(
		__field(dev_t,		dev)
		__field(u64,		sector)
		__field(unsigned int,	sectors)
		__field(int,		error)
	),

	TP_fast_assign(
		__entry->dev = disk_devt(dm_disk(dm_table_get_md(d->ti->table)));
		__entry->sector = sector;
		__entry->sectors = sectors;
		__entry->error = blk_status_to_errno(status);
	),

	TP_printk("%d,%d %llu + %u error %d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->sector,
		  __entry->sectors, __entry->error)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
