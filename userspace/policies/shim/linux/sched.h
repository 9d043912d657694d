/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SHIM_SCHED_H
#define SHIM_SCHED_H

static inline void cond_resched(void)
{
}

#endif
