// SPDX-License-Identifier: GPL-2.0-only
/* Must not compile: see probe.mk. */
#line 1 "z-no.c"
static inline int dsm_no(void)
{
	return dsm_probe_that_no_kernel_has();
}
