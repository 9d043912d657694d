// SPDX-License-Identifier: GPL-2.0-or-later
/* What the simulator has in Rust; there the same sizes are looked for. */
#include "../../../dm-dsm/policies/granule.h"
#include "../../../dm-dsm/policies/layout.h"

_Static_assert(sizeof(struct dsm_layout) == 24, "layout.rs has it, too");
_Static_assert(DSM_UNMAPPED == 6, "layout.rs has it, too");
_Static_assert(sizeof(struct dsm_file_window) == 72, "kernel.rs has it, too");
_Static_assert(sizeof(struct dsm_life) == 5528, "kernel.rs has it, too");
_Static_assert(sizeof(struct dsm_granule) == 16, "granule.rs has it, too");
_Static_assert(sizeof(struct dsm_discard_limits) == 24, "granule.rs has it, too");
