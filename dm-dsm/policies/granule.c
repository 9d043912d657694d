// SPDX-License-Identifier: GPL-2.0-or-later
#include <linux/minmax.h>

#include "granule.h"

struct dsm_granule dsm_granule(const struct dsm_discard_limits *limits, u32 granularity,
			       u32 alignment)
{
	u32 block = limits->block, first = limits->first >> SECTOR_SHIFT;
	struct dsm_granule g = {
		.unit = max(granularity ?: limits->granularity, block),
		.max = min(limits->max, DSM_MAX_RUN),
	};

	g.align = alignment ? max(alignment, block) : g.unit;
	g.unit = max(g.unit, g.align);
	if (g.unit % g.align)
		g.align = g.unit;
	g.unit >>= SECTOR_SHIFT;
	g.align >>= SECTOR_SHIFT;

	/* The limit is the whole disk's, and a partition begins anywhere. */
	g.shift = first % g.align + g.align - limits->start % g.align;
	g.shift %= g.align;
	g.max = max(g.max - g.max % g.unit, g.unit);
	return g;
}

static u64 dsm_round_down(u64 sectors, u32 unit)
{
	return sectors - sectors % unit;
}

static u64 dsm_align_up(const struct dsm_granule *g, u64 base, u64 sector)
{
	u32 rest = (base + g->align - g->shift + sector) % g->align;

	return rest ? sector + g->align - rest : sector;
}

void dsm_granule_cut(const struct dsm_granule *g, u64 base, u64 *start, u64 *end)
{
	*start = dsm_align_up(g, base, *start);
	if (*end > *start)
		*end = *start + dsm_round_down(*end - *start, g->unit);
}

u32 dsm_granule_first(const struct dsm_granule *g, u64 base)
{
	return dsm_align_up(g, base, 0);
}
