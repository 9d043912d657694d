// SPDX-License-Identifier: GPL-2.0-only
/* Since 4.20; there is no synchronize_sched() any more then. */
#line 1 "RCU_WAITS_FOR_SCHED.c"
#include <linux/rcupdate.h>

struct dsm_no_such_function;
struct dsm_no_such_function *synchronize_sched(struct dsm_no_such_function *unused);
