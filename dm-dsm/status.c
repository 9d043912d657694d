// SPDX-License-Identifier: GPL-2.0-only
#include <linux/cpumask.h>
#include <linux/percpu.h>
#include <linux/sched.h>

#include "dsm.h"

static u64 dsm_count_sum(const struct dsm *d, size_t offset)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*(u64 *)((void *)per_cpu_ptr(d->counts, cpu) + offset));
	return sum;
}

u64 __dsm_count(const struct dsm *d, size_t offset)
{
	return dsm_count_sum(d, offset) - *(const u64 *)((const void *)&d->reset + offset);
}

void dsm_counts_reset(struct dsm *d)
{
	lockdep_assert_held(&d->lock);

	for (size_t offset = 0; offset < sizeof(d->reset); offset += sizeof(u64)) {
		*(u64 *)((void *)&d->reset + offset) = dsm_count_sum(d, offset);
		cond_resched();
	}
}

static const char *dsm_source_name(const struct dsm *d)
{
	switch (d->source) {
	case DSM_STREAMS_QUEUE:
		return "queue";
	case DSM_STREAMS_LEAVES:
		return "leaves";
	case DSM_STREAMS_MACHINE:
		return "machine";
	case DSM_STREAMS_STACKED:
		return "stacked";
	case DSM_STREAMS_KERNEL:
		return "kernel";
	default:
		return "none";
	}
}

static size_t dsm_emit_discard(struct dsm *d, char *result, size_t sz,
			       unsigned int maxlen)
{
	struct dsm_discard_status status;
	bool on = dsm_discard_is_on(d);
	const char *state = "unsupported";

	if (on || !d->params.discard)
		state = dsm_discard_names[d->params.discard];
	DMEMIT(" discard %s", state);
	if (!on)
		return sz;

	dsm_discard_status(d, &status);
	DMEMIT(" discard_window %llu discard_valid %llu discard_queued %u",
	       status.window, status.valid, status.queued);
	DMEMIT(" discarded %llu discarded_sectors %llu discard_refused_sectors %llu",
	       status.counts.discarded, status.counts.sectors, status.counts.refused);
	DMEMIT(" discard_failed %llu discard_held %llu",
	       status.counts.failed, status.counts.held);
	DMEMIT(" discard_held_max_us %llu discard_plug_max_us %llu",
	       status.counts.held_max_us, status.counts.plug_max_us);
	DMEMIT(" discard_short_sectors %llu", status.counts.too_short);
	DMEMIT(" discard_granularity %u discard_alignment %u discard_offset %u",
	       status.granularity, status.alignment, status.offset);
	return sz;
}

static void dsm_status_info(struct dsm *d, char *result, unsigned int maxlen)
{
	const struct dsm_extent_map *map = dsm_locked_map(d);
	u32 nr_regions = 0;
	size_t sz = 0;

	for (u32 i = 0; map && i < map->nr_files; i++) {
		nr_regions += dsm_file_regions(map->file[i]);
		cond_resched();
	}

	DMEMIT("version 1 policy %s layout %s groups %u",
	       dsm_policy_names[d->params.policy], dsm_policy_names[d->layout.policy],
	       d->layout.groups);
	DMEMIT(" device_streams %u source %s streams_used %u",
	       d->device_streams, dsm_source_name(d), d->layout.used);
	DMEMIT(" files %u regions %u extents %u generation %llu windows %llu window_ms %lld",
	       map ? map->nr_files : 0, nr_regions, map ? map->nr_extents : 0,
	       d->generation, d->windows, ktime_ms_delta(ktime_get(), d->window_start));
	DMEMIT(" unmapped_writes %llu unmapped_sectors %llu split %llu foreign %llu",
	       dsm_count(d, unmapped_writes), dsm_count(d, unmapped_sectors),
	       dsm_count(d, split), dsm_count(d, foreign));

	for (unsigned int i = 0; i <= d->most_streams; i++) {
		u64 writes = dsm_count(d, stream[i].writes);

		cond_resched();
		if (writes)
			DMEMIT(" stream %u %llu %llu", i, writes,
			       dsm_count(d, stream[i].sectors));
	}
	sz = dsm_upload_emit(d, result, sz, maxlen);
	sz = dsm_emit_discard(d, result, sz, maxlen);
	if (!DSM_HAVE_WRITE_HINT)
		DMEMIT(" hints unsupported");
}

void dsm_status(struct dm_target *ti, status_type_t type,
		unsigned int status_flags, char *result, unsigned int maxlen)
{
	struct dsm *d = ti->private;
	size_t sz = 0;

	mutex_lock(&d->lock);
	switch (type) {
	case STATUSTYPE_INFO:
		dsm_status_info(d, result, maxlen);
		break;

	case STATUSTYPE_TABLE:
		DMEMIT("%s %llu %u", d->dev->name, (u64)d->start,
		       2 * (DSM_NR_FEATURES + !!d->leaves));
		sz = dsm_params_emit(&d->params, ' ', ' ', result, sz, maxlen);
		dsm_leaves_emit(d->leaves, ' ', ' ', ',', result, sz, maxlen);
		break;

	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",device_name=%s,start=%llu", d->dev->name, (u64)d->start);
		sz = dsm_params_emit(&d->params, ',', '=', result, sz, maxlen);
		sz = dsm_leaves_emit(d->leaves, ',', '=', '+', result, sz, maxlen);
		DMEMIT(";");
		break;
	}
	mutex_unlock(&d->lock);
}
