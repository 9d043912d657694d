# SPDX-License-Identifier: GPL-2.0-only
# What a kernel has is tried with its compiler and flags, not derived from its version:
# distributions and stable kernels backport.  All of probes/ is compiled at once; the
# kernel has NAME, and DSM_PROBED_NAME is defined, if the compiler has nothing to say of
# NAME.c.  So it must be with 0-yes.c, and must not be with z-no.c, the last: else the
# compiler has not seen them all, and nothing is known.
#
# The flags are not put within quotes: they have some of their own.

dsm-compat := $(src)/compat
dsm-probes := $(sort $(wildcard $(dsm-compat)/probes/*.c))
dsm-said := $(shell cat $(dsm-probes) | LC_ALL=C $(CC) $(NOSTDINC_FLAGS) $(LINUXINCLUDE) \
	$(KBUILD_CPPFLAGS) $(KBUILD_CFLAGS) -DMODULE -std=gnu11 -Werror \
	-x c -fsyntax-only - 2>&1 | grep -e '^[^ ]*\.c:' -e error: -e 'not found')
dsm-has = $(if $(filter $(1).c:%,$(dsm-said)),,$(1))
dsm-need = $(if $(call dsm-has,$(1)),,$(error dm-dsm: $(2)))

ifndef CONFIG_BLK_DEV_DM
$(error dm-dsm: this kernel is built without device-mapper: CONFIG_BLK_DEV_DM is not set)
endif
ifneq ($(if $(findstring error:,$(dsm-said)),,$(findstring not found,$(dsm-said))),)
$(error dm-dsm: the compiler of this kernel's headers, $(strip $(CC)), is not installed)
endif
ifneq ($(call dsm-has,0-yes)$(call dsm-has,z-no),0-yes)
$(error dm-dsm: nothing can be compiled for this kernel.  Its headers may be incomplete, \
	or for another machine than their compiler, $(strip $(CC)): $(wordlist 1,30,$(dsm-said)))
endif
$(call dsm-need,NOT_TOO_OLD,this kernel is older than 5.10$(comma) the oldest that dm-dsm is for)
$(call dsm-need,RCU_WAITS_FOR_SCHED,synchronize_rcu() of this kernel does not wait for \
	rcu_read_lock_sched()$(comma) so discards would not be safe)

dsm-probed := $(foreach probe,$(basename $(notdir $(dsm-probes))),$(call dsm-has,$(probe)))
ccflags-y += $(addprefix -DDSM_PROBED_,$(filter-out 0-yes,$(dsm-probed)))

# Kernels before 5.18 are in C89.  Headers that a kernel lacks are found last.
ccflags-y += -std=gnu11 -include $(dsm-compat)/compat.h -idirafter $(dsm-compat)/include

# An enum's constant that the old kernel does not know, in a switch
ifeq ($(call dsm-has,DM_IMA),)
ccflags-y += -Wno-switch
endif
