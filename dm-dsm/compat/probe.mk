# SPDX-License-Identifier: GPL-2.0-only
# Features are probed in the headers, not derived from the kernel's version:
# distributions and stable kernels backport.

dsm-probe = $(if $(shell grep -sl '$(2)' $(srctree)/include/linux/$(1)),-D$(3))

ccflags-y += $(call dsm-probe,blk_types.h,bi_write_stream,DSM_PROBED_WRITE_STREAM)
ccflags-y += $(call dsm-probe,blk_types.h,define REQ_ATOMIC,DSM_PROBED_REQ_ATOMIC)
ccflags-y += $(call dsm-probe,sort.h,sort_nonatomic,DSM_PROBED_SORT_NONATOMIC)
ccflags-y += $(call dsm-probe,device-mapper.h,flush_bypasses_map,DSM_PROBED_FLUSH_BYPASSES_MAP)
ccflags-y += $(if $(shell grep -s -A2 'dm_prepare_ioctl_fn. ' \
	$(srctree)/include/linux/device-mapper.h | grep 'unsigned int cmd'),-DDSM_PROBED_PREPARE_IOCTL_CMD)
