// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all files of the module have below them.
 */
#include <linux/device-mapper.h>
#include <linux/kernel.h>

#include "dsm.h"
#include "memory.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* The extents of a table in two arrays of 512 MiB and 1 GiB. */
struct dsm_limits dsm_limits = {
	.files = 1 << 20, .extents = 1 << 26, .memory = U64_MAX,
};

int dsm_refuse(struct dsm *d, int error, const char *fmt, ...)
{
	va_list args;

	lockdep_assert_held(&d->lock);

	va_start(args, fmt);
	vscnprintf(d->error, sizeof(d->error), fmt, args);
	va_end(args);
	DMWARN_LIMIT("%s: %s", dm_table_device_name(d->ti->table), d->error);
	return error;
}
