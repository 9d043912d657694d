// SPDX-License-Identifier: GPL-2.0-only
#include <linux/device-mapper.h>
#include <linux/kernel.h>

#include "dsm.h"

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
