// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-dsm: dm-linear that knows which writes belong together.
 *
 * A write is looked up in a table of file extents, counted for its region (one
 * side of a file's boundary) and stamped with the region's stream.  At each
 * checkpoint of the database the regions are regrouped by hotness.
 * Documentation/dsm.rst describes the interface.
 *
 * The write path.  Four fields of struct dsm say which way a write takes; a write that does
 * not lie in one extent, or that keeps a stamp of its own, takes dsm_place_pieces() in place
 * of dsm_place_whole():
 *
 *	discards		direct	written	discard	unsettled	a write
 *	off			map	NULL	NULL	0		dsm_place_whole()
 *	off, no table		NULL	NULL	NULL	0		dsm_place_pieces()
 *	on, none in flight	NULL	bits	set	0		sets bits, dsm_place_whole()
 *	on, may be in flight	NULL	NULL	set	any		dsm_map_guarded()
 *	on			NULL	bits	set	not 0		sets bits, dsm_map_guarded()
 *	off			NULL	NULL	NULL	not 0		dsm_place_pieces()
 *
 * dsm_map_guarded() sets bits and takes dsm_place_pieces(), then waits with a discard in
 * flight that the write overlaps.  Where @unsettled is not 0 no write gets a stream.
 *
 *	map		commit.c: an upload's commit; read where direct is NULL
 *	direct		relayout.c: dsm_set_direct(), after what it depends on has changed
 *	discard		discard.c: on, and off when its worker sleeps
 *	written		discard.c: with each window, and when the worker wakes and sleeps
 *	unsettled	relayout.c: a resume that found the lock taken, until its work is done
 */
#include <linux/bio.h>
#include <linux/blk-crypto.h>
#include <linux/blkdev.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "bits.h"
#include "dsm.h"
#include "trace.h"

/*
 * A write is divided after this many extents and gaps, even if all have one stamp:
 * preemption is disabled while they are looked up.
 */
#define DSM_MAX_PIECES	64

/*
 * What a commit or a checkpoint replaces is read with preemption disabled, which holds off
 * synchronize_rcu() and costs less than rcu_read_lock().
 */

static __always_inline void dsm_stamp_bio(struct dsm *d, struct bio *bio,
					  union dsm_stamp stamp, u64 sector,
					  u64 sectors)
{
	unsigned long stream = stamp.stream;
	struct dsm_stream_count __percpu *count = &d->counts->stream[stream];

	dsm_bio_set_stream(bio, stamp.stream);
	dsm_bio_set_hint(bio, stamp.hint);
	this_cpu_inc(count->writes);
	this_cpu_add(count->sectors, sectors);
	trace_dsm_place(d, sector, sectors, stamp);
}

static __always_inline union dsm_stamp dsm_bio_stamp(const struct bio *bio)
{
	return dsm_stamp(dsm_bio_stream(bio), dsm_bio_hint(bio));
}

/* With discards on, notes a write, and returns the map if it needs no more care. */
static __always_inline const struct dsm_extent_map *
dsm_tracked_map(struct dsm *d, const struct bio *bio)
{
	const struct dsm_bits *bits = rcu_dereference_sched(d->written);

	if (!bits)
		return NULL;
	dsm_bits_set(bits, dsm_bio_sector(d, bio), bio_sectors(bio));
	return READ_ONCE(d->unsettled) ? NULL : rcu_dereference_sched(d->map);
}

/*
 * Fig. 7 for nearly all writes: those that lie in one extent and bring no stream or
 * hint that they keep.  False for others, of which nothing has been done then.
 */
static __always_inline bool dsm_place_whole(struct dsm *d, struct bio *bio)
{
	const struct dsm_extent_map *map;
	bool whole = false;

	rcu_read_lock_sched();
	map = rcu_dereference_sched(d->direct);
	if (unlikely(!map))
		map = dsm_tracked_map(d, bio);
	if (likely(map && !(dsm_bio_stamp(bio).both & READ_ONCE(d->kept.both)))) {
		u64 sector = dsm_bio_sector(d, bio), sectors = bio_sectors(bio);
		unsigned long slot = dsm_extent_map_slot(map, sector);
		struct dsm_hit hit = dsm_extent_map_at(map, slot, sector);

		whole = hit.left >= (s64)sectors;
		if (likely(whole)) {
			dsm_region_count(hit.region, hit.offset, sectors,
					 READ_ONCE(d->keep_range));
			dsm_stamp_bio(d, bio, dsm_region_stamp(hit.region), sector, sectors);
		}
	}
	rcu_read_unlock_sched();
	return whole;
}

/* What is in @kept of the stamp that the bio came with stays, if the device has it. */
static union dsm_stamp dsm_keep_foreign(struct dsm *d, struct bio *bio,
					union dsm_stamp stamp, u16 kept)
{
	union dsm_stamp own = dsm_bio_stamp(bio);

	own.both &= kept;
	if (own.stream > READ_ONCE(d->device_streams))
		own.stream = 0;
	if (!own.both)
		return stamp;

	this_cpu_inc(d->counts->foreign);
	return dsm_stamp(own.stream ?: stamp.stream, own.hint ?: stamp.hint);
}

/*
 * Whether a bio may end after so many sectors, and another have the rest.  One with
 * inline encryption consists of data units, each of which is encrypted by its number.
 */
static bool dsm_may_divide(struct bio *bio, unsigned int sectors)
{
	if (bio->bi_opf & REQ_ATOMIC)
		return false;
	return !bio_has_crypt_ctx(bio) ||
	       !((sectors << SECTOR_SHIFT) % bio_crypt_ctx(bio)->bc_key->crypto_cfg.data_unit_size);
}

/*
 * Fig. 7 for any write.  It counts for each extent and gap that it touches; where the
 * stamp changes it is divided, if it may be, and device-mapper sends the rest back here.
 */
static noinline void dsm_place_pieces(struct dsm *d, struct bio *bio, u64 sector,
				      unsigned int sectors)
{
	const struct dsm_extent_map *map;
	union dsm_stamp stamp = {};
	unsigned int hint = min_t(u8, dsm_bio_hint(bio), DSM_NR_HINTS - 1);
	unsigned int here, done, pieces = 0;
	u16 kept = READ_ONCE(d->kept.both);

	rcu_read_lock_sched();
	map = rcu_dereference_sched(d->map);
	if (!map && !kept)
		kept = U16_MAX;		/* override, but there is nothing to replace it with */
	for (done = 0; done < sectors; done += here) {
		struct dsm_hit hit = { .left = S64_MAX };
		union dsm_stamp next = {};

		if (map) {
			hit = dsm_extent_map_find(map, sector + done);
			next = hit.region ? dsm_region_stamp(hit.region) :
					    dsm_unmapped_stamp(map, hint);
		}
		if (!done) {
			stamp = next;
		} else if ((next.both != stamp.both || pieces >= DSM_MAX_PIECES) &&
			   dsm_may_divide(bio, done)) {
			dm_accept_partial_bio(bio, done);
			this_cpu_inc(d->counts->split);
			sectors = done;
			break;
		}

		pieces++;
		here = min_t(u64, hit.left, sectors - done);
		if (hit.region) {
			dsm_region_count(hit.region, hit.offset, here,
					 READ_ONCE(d->keep_range));
		} else {
			this_cpu_inc(d->counts->unmapped_writes);
			this_cpu_add(d->counts->unmapped_sectors, here);
		}
	}
	stamp = dsm_keep_foreign(d, bio, stamp, kept);
	if (unlikely(READ_ONCE(d->unsettled)))
		stamp.stream = 0;
	dsm_stamp_bio(d, bio, stamp, sector, sectors);
	rcu_read_unlock_sched();
}

/* With discards on: no discard of ours may overtake a write, or be overtaken. */
static noinline int dsm_map_guarded(struct dsm *d, struct bio *bio, u64 sector,
				    unsigned int sectors)
{
	bool active = dsm_discard_note(d, bio_op(bio), sector, sectors);

	if (bio_op(bio) == REQ_OP_WRITE && sectors)
		dsm_place_pieces(d, bio, sector, sectors);
	return active && bio_sectors(bio) ? dsm_discard_hold(d, bio) : DM_MAPIO_REMAPPED;
}

/* Writes that dsm_place_whole() leaves, and bios that are neither read nor write */
static noinline int dsm_map_carefully(struct dsm *d, struct bio *bio)
{
	u64 sector = dsm_bio_sector(d, bio);
	unsigned int sectors = bio_sectors(bio);

	if (rcu_access_pointer(d->discard))
		return dsm_map_guarded(d, bio, sector, sectors);
	if (bio_op(bio) == REQ_OP_WRITE)
		dsm_place_pieces(d, bio, sector, sectors);
	return DM_MAPIO_REMAPPED;
}

static __always_inline void dsm_remap(const struct dsm *d, struct bio *bio)
{
	bio->bi_iter.bi_sector += d->shift;
	bio_set_dev(bio, d->bdev);
}

/* noinline: keeps register spills out of the read path */
static noinline __noclone int dsm_map_write(struct dm_target *ti, struct bio *bio)
{
	struct dsm *d = ti->private;

	dsm_remap(d, bio);
	if (unlikely(!dsm_place_whole(d, bio)))
		return dsm_map_carefully(d, bio);
	return DM_MAPIO_REMAPPED;
}

/* Bios that are neither read nor write, and polled ones */
static noinline int dsm_map_other(struct dm_target *ti, struct bio *bio)
{
	struct dsm *d = ti->private;

	/*
	 * dm marks a polled bio with this as the head of its list of clones.  When the
	 * bio is divided, dm sends the rest of it round again and the next clone inherits
	 * the mark, but no list: an underlying dm device would follow a NULL pointer, and
	 * NVMe has a use of its own for the bit.
	 */
	bio->bi_opf &= ~REQ_DRV;
	if (bio_op(bio) == REQ_OP_WRITE && bio_sectors(bio))
		return dsm_map_write(ti, bio);

	dsm_remap(d, bio);
	if (bio_op(bio) == REQ_OP_WRITE || bio_op(bio) == REQ_OP_READ)
		return DM_MAPIO_REMAPPED;
	return dsm_map_carefully(d, bio);
}

static int dsm_map(struct dm_target *ti, struct bio *bio)
{
	/* dm sends a flush by itself, as a write of nothing. */
	const u32 op = (__force u32)(bio->bi_opf & (REQ_OP_MASK | REQ_PREFLUSH | REQ_DRV));
	const u32 write = (__force u32)REQ_OP_WRITE;

	if (op == write)
		return dsm_map_write(ti, bio);
	if (unlikely(op > write))
		return dsm_map_other(ti, bio);
	dsm_remap(ti->private, bio);
	return DM_MAPIO_REMAPPED;
}

/* Construction: <dev> <start> [<#feature words> [<name> <value>]...] */

/* Sets a feature by name.  Returns a number of its own for each, or an error. */
static int dsm_parse_feature(struct dsm_params *params, const char **leaves,
			     const char *name, const char *value, char **error)
{
	if (strcasecmp(name, "leaves"))
		return dsm_params_set(params, name, value, error);
	*leaves = value;
	return DSM_NR_FEATURES;
}

static int dsm_parse_features(struct dm_target *ti, struct dm_arg_set *as,
			      struct dsm_params *params, const char **leaves)
{
	static const struct dm_arg words[] = {
		{ 0, 2 * (DSM_NR_FEATURES + 1),
		  "Invalid number of feature arguments: must be even, at most 32, all present" },
	};
	unsigned int nr, seen = 0;
	int r;

	if (!as->argc)
		return 0;
	r = dm_read_arg_group(words, as, &nr, &ti->error);
	if (r)
		return r;
	if (nr % 2) {
		ti->error = words[0].error;
		return -EINVAL;
	}

	for (; nr; nr -= 2) {
		const char *name = dm_shift_arg(as), *value = dm_shift_arg(as);

		r = dsm_parse_feature(params, leaves, name, value, &ti->error);
		if (r >= 0 && seen & BIT(r)) {
			ti->error = "Duplicate feature";
			r = -EINVAL;
		}
		if (r < 0)
			return r;
		seen |= BIT(r);
	}
	return 0;
}

static int dsm_open_leaves(struct dm_target *ti, const char *list, struct dsm *d)
{
	d->leaves = dsm_leaves_open(list, d->bdev, &ti->error);
	if (IS_ERR(d->leaves)) {
		int r = PTR_ERR(d->leaves);

		d->leaves = NULL;
		DMERR("Invalid leaves '%s'", list);
		return r;
	}
	return 0;
}

static int dsm_parse(struct dm_target *ti, unsigned int argc, char **argv,
		     struct dsm *d)
{
	struct dm_arg_set as = { .argc = argc, .argv = argv };
	const char *path, *start, *leaves = NULL;
	int r;

	if (argc < 2) {
		ti->error = "Invalid argument count: device and start sector required";
		return -EINVAL;
	}
	path = dm_shift_arg(&as);
	start = dm_shift_arg(&as);
	if (kstrtou64(start, 10, &d->start)) {
		ti->error = "Invalid start sector";
		return -EINVAL;
	}

	dsm_params_default(&d->params);
	r = dsm_parse_features(ti, &as, &d->params, &leaves);
	if (r)
		return r;
	if (as.argc) {
		ti->error = "Too many arguments (see <#feature words>)";
		return -EINVAL;
	}

	r = dm_get_device(ti, path, dm_table_get_mode(ti->table), &d->dev);
	if (r) {
		ti->error = "Cannot open underlying device";
		return r;
	}
	d->bdev = d->dev->bdev;
	d->shift = d->start - ti->begin;
	d->stacked = dsm_is_stacked(d->bdev);
	return leaves ? dsm_open_leaves(ti, leaves, d) : 0;
}

static void dsm_free(struct dm_target *ti, struct dsm *d)
{
	dsm_discard_exit(d);
	dsm_unwatch(&d->watch);
	dsm_leaves_close(d->leaves);
	if (d->dev)
		dm_put_device(ti, d->dev);
	free_percpu(d->counts);
	mutex_destroy(&d->lock);
	kfree(d);
}

/*
 * Teach lockdep that d->lock is taken in reclaim context: allocations under it must not
 * start a reclaim that waits for I/O.
 */
static void dsm_lock_is_for_reclaim(struct dsm *d)
{
	fs_reclaim_acquire(GFP_KERNEL);
	might_lock(&d->lock);
	fs_reclaim_release(GFP_KERNEL);
}

static int dsm_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct dsm *d;
	int r;

	d = kzalloc_obj(*d, GFP_KERNEL);
	if (!d) {
		ti->error = "Cannot allocate target context";
		return -ENOMEM;
	}
	mutex_init(&d->lock);
	spin_lock_init(&d->direct_lock);
	INIT_DELAYED_WORK(&d->upload_timer, dsm_upload_expire);
	INIT_WORK(&d->relayout, dsm_relayout_work);
	dsm_lock_is_for_reclaim(d);
	INIT_LIST_HEAD(&d->watch.list);
	d->watch.disk_came = dsm_relayout_fewer;
	d->ti = ti;
	d->window_start = ktime_get();

	r = dsm_discard_init(d);
	if (r) {
		ti->error = "Cannot allocate workqueue";
		goto bad;
	}
	d->counts = alloc_percpu(struct dsm_counts);
	if (!d->counts) {
		ti->error = "Cannot allocate counters";
		r = -ENOMEM;
		goto bad;
	}
	r = dsm_parse(ti, argc, argv, d);
	if (r)
		goto bad;

	/* Watched first: a disk may come at any time. */
	if (d->stacked) {
		r = dsm_watch(&d->watch, d->bdev);
		if (r) {
			ti->error = "Cannot register class interface for disks";
			goto bad;
		}
	}
	mutex_lock(&d->lock);
	dsm_relayout(d, true);
	r = dsm_discard_set(d);
	mutex_unlock(&d->lock);
	if (r) {
		ti->error = "Cannot allocate write tracking";
		goto bad;
	}

	dsm_set_accounts_remapped_io(ti);	/* those that wait for a discard */
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_secure_erase_bios = 1;
	ti->num_write_zeroes_bios = 1;
	dsm_set_flush_bypasses_map(ti);
	ti->private = d;
	return 0;

bad:
	dsm_free(ti, d);
	return r;
}

static void dsm_dtr(struct dm_target *ti)
{
	struct dsm *d = ti->private;

	cancel_delayed_work_sync(&d->upload_timer);
	dsm_unwatch(&d->watch);
	cancel_work_sync(&d->relayout);
	mutex_lock(&d->lock);
	dsm_upload_exit(d);
	dsm_table_free(d);
	mutex_unlock(&d->lock);
	dsm_free(ti, d);
}

/* Our discards complete before the underlying device may change. */
static void dsm_presuspend(struct dm_target *ti)
{
	dsm_discard_stop(ti->private);
}

static void dsm_presuspend_undo(struct dm_target *ti)
{
	dsm_discard_resume(ti->private);
}

static void dsm_postsuspend(struct dm_target *ti)
{
	dsm_discard_drain(ti->private);
}

/*
 * The underlying device may have changed while we were suspended.  A message may hold
 * the lock for long, and must not hold up I/O that waits for the resume.
 */
static void dsm_resume(struct dm_target *ti)
{
	struct dsm *d = ti->private;

	if (mutex_trylock(&d->lock)) {
		dsm_relayout(d, false);
		mutex_unlock(&d->lock);
	} else {
		dsm_relayout_later(d);
	}
	dsm_discard_resume(d);
}

/* What dm-linear has as well */

static int dsm_prepare_ioctl(DSM_PREPARE_IOCTL_ARGS)
{
	struct dsm *d = ti->private;

	*bdev = d->bdev;
	dsm_discard_invalidate(d);	/* it may write */

	/* Only pass ioctls through if the device sizes match exactly. */
	return d->start || ti->len != bdev_nr_sectors(d->bdev);
}

static int dsm_iterate_devices(struct dm_target *ti,
			       iterate_devices_callout_fn fn, void *data)
{
	struct dsm *d = ti->private;

	return fn(ti, d->dev, d->start, ti->len, data);
}

struct target_type dsm_target = {
	.name = "dsm",
	.version = { 0, 1, 0 },
	.features = DM_TARGET_PASSES_INTEGRITY | DM_TARGET_NOWAIT |
		    DM_TARGET_PASSES_CRYPTO | DM_TARGET_ATOMIC_WRITES,
	.module = THIS_MODULE,
	.ctr = dsm_ctr,
	.dtr = dsm_dtr,
	.map = dsm_map,
	.presuspend = dsm_presuspend,
	.presuspend_undo = dsm_presuspend_undo,
	.postsuspend = dsm_postsuspend,
	.resume = dsm_resume,
	.status = dsm_status,
	.message = dsm_message,
	.prepare_ioctl = dsm_prepare_ioctl,
	.iterate_devices = dsm_iterate_devices,
};

static int __init dm_dsm_init(void)
{
	return dm_register_target(&dsm_target);
}

static void __exit dm_dsm_exit(void)
{
	dm_unregister_target(&dsm_target);
	dsm_watch_exit();
}

module_init(dm_dsm_init);
module_exit(dm_dsm_exit);

MODULE_DESCRIPTION(DM_NAME " target that gives writes the stream of their region");
MODULE_LICENSE("GPL");
