// SPDX-License-Identifier: GPL-2.0-only
/* 6.0 */
#line 1 "REQ_OP.c"
#include <linux/blk_types.h>

static inline int dsm_req_op(enum req_op op)
{
	return op == REQ_OP_WRITE;
}
