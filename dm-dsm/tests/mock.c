// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bio.h>
#include <linux/blk-crypto.h>
#include <linux/delay.h>
#include <linux/dm-ioctl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kdev_t.h>
#include <linux/kstrtox.h>
#include <linux/mman.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>

#include "../dsm.h"
#include "../memory.h"
#include "mock.h"

/* Guards against waiting for ever; nothing is measured by it. */
#define DSM_MOCK_TIMEOUT (600 * HZ)

/* Data */

/* A sector is full of these. */
struct dsm_mock_mark {
	u64 write;	/* its number, from 1 on */
	u64 sector;	/* where it was written to */
};

#define DSM_MOCK_MARKS (SECTOR_SIZE / sizeof(struct dsm_mock_mark))

static void dsm_mock_mark_sector(void *sector, u64 write, u64 number)
{
	struct dsm_mock_mark *mark = sector;

	for (int i = 0; i < DSM_MOCK_MARKS; i++)
		mark[i] = (struct dsm_mock_mark) { .write = write, .sector = number };
}

static bool dsm_mock_is_marked(const void *sector, u64 write, u64 number)
{
	const struct dsm_mock_mark *mark = sector;

	for (int i = 0; i < DSM_MOCK_MARKS; i++)
		if (mark[i].write != write || mark[i].sector != number)
			return false;
	return true;
}

/*
 * Calls @each for every sector of a bio, with its number on the device and where it
 * is in memory, until one returns false.
 */
static bool dsm_mock_each_sector(struct bio *bio,
				 bool (*each)(void *context, u64 sector, void *at),
				 void *context)
{
	u64 sector = bio->bi_iter.bi_sector;
	struct bvec_iter iter;
	struct bio_vec bvec;
	bool more = true;

	bio_for_each_segment(bvec, bio, iter) {
		void *at = bvec_kmap_local(&bvec);

		for (unsigned int i = 0; more && i < bvec.bv_len; i += SECTOR_SIZE)
			more = each(context, sector++, at + i);
		kunmap_local(at);
	}
	return more;
}

/* The disk */

#define DSM_MOCK_PAGE_SECTORS (PAGE_SIZE >> SECTOR_SHIFT)

/* Where the disk has a sector; NULL: it was never written to, or there is no memory. */
static void *dsm_mock_at(struct dsm_mock_disk *disk, u64 sector, bool make)
{
	unsigned long index = sector / DSM_MOCK_PAGE_SECTORS;
	void *page = xa_load(&disk->pages, index), *old;

	if (!page && make) {
		page = (void *)get_zeroed_page(GFP_NOIO);
		old = page ? xa_cmpxchg(&disk->pages, index, NULL, page, GFP_NOIO) : NULL;
		if (old) {
			free_page((unsigned long)page);
			page = xa_is_err(old) ? NULL : old;
		}
	}
	return page ? page + sector % DSM_MOCK_PAGE_SECTORS * SECTOR_SIZE : NULL;
}

/* A partition table with one partition, up to the end. */
static void dsm_mock_fill_mbr(struct kunit *test, struct dsm_mock_disk *disk)
{
	u8 *sector = dsm_mock_at(disk, 0, true);
	u8 *entry = sector + 446;

	KUNIT_ASSERT_NOT_NULL(test, sector);
	entry[4] = 0x83;
	put_unaligned_le32(DSM_MOCK_PARTITION, entry + 8);
	put_unaligned_le32(DSM_MOCK_SECTORS - DSM_MOCK_PARTITION, entry + 12);
	sector[510] = 0x55;
	sector[511] = 0xaa;
}

static bool dsm_mock_read_sector(void *disk, u64 sector, void *at)
{
	void *kept = dsm_mock_at(disk, sector, false);

	if (kept)
		memcpy(at, kept, SECTOR_SIZE);
	else
		memset(at, 0, SECTOR_SIZE);
	return true;
}

static bool dsm_mock_write_sector(void *disk, u64 sector, void *at)
{
	void *kept = dsm_mock_at(disk, sector, true);

	if (kept)
		memcpy(kept, at, SECTOR_SIZE);
	return kept;
}

static void dsm_mock_erase(struct dsm_mock_disk *disk, u64 sector, unsigned int sectors)
{
	for (u64 end = sector + sectors; sector < end; sector++) {
		void *kept = dsm_mock_at(disk, sector, false);

		if (kept)
			memset(kept, 0, SECTOR_SIZE);
	}
}

/* Compares each sector with the one before. */
struct dsm_mock_order {
	u64 write, first;	/* of the first one */
	unsigned int nr, torn;
};

static bool dsm_mock_next_sector(void *context, u64 sector, void *at)
{
	struct dsm_mock_order *order = context;
	const struct dsm_mock_mark *mark = at;

	if (!order->nr) {
		order->write = mark->write;
		order->first = mark->sector;
	}
	if (order->write && !dsm_mock_is_marked(at, order->write, order->first + order->nr))
		order->torn++;
	order->nr++;
	return true;
}

static bool dsm_mock_has_data(const struct bio *bio)
{
	return bio_op(bio) == REQ_OP_WRITE && bio_sectors(bio);
}

static void dsm_mock_note(struct dsm_mock_disk *disk, struct bio *bio)
{
	struct dsm_mock_order order = {};

	if (dsm_mock_has_data(bio))
		dsm_mock_each_sector(bio, dsm_mock_next_sector, &order);

	spin_lock(&disk->lock);
	if (disk->nr < ARRAY_SIZE(disk->bio))
		disk->bio[disk->nr] = (struct dsm_mock_bio) {
			.op = bio_op(bio),
			.flags = bio->bi_opf & ~REQ_OP_MASK,
			.sector = bio->bi_iter.bi_sector,
			.sectors = bio_sectors(bio),
			.stream = bio->bi_write_stream,
			.hint = bio->bi_write_hint,
			.encrypted = bio_has_crypt_ctx(bio),
			.dun = bio_has_crypt_ctx(bio) ? bio_crypt_ctx(bio)->bc_dun[0] : 0,
			.write = order.write,
			.data = order.first,
		};
	disk->nr++;
	disk->torn += order.torn;
	spin_unlock(&disk->lock);
}

/* Its data is taken when it is completed, as a drive does that reads memory. */
static void dsm_mock_end(struct dsm_mock_disk *disk, struct bio *bio)
{
	if (!bio->bi_status) {
		switch (bio_op(bio)) {
		case REQ_OP_WRITE:
			if (!dsm_mock_each_sector(bio, dsm_mock_write_sector, disk))
				bio->bi_status = BLK_STS_RESOURCE;
			break;
		case REQ_OP_DISCARD:
		case REQ_OP_SECURE_ERASE:
		case REQ_OP_WRITE_ZEROES:
			dsm_mock_erase(disk, bio->bi_iter.bi_sector, bio_sectors(bio));
			break;
		default:
			break;
		}
	}
	bio_endio(bio);
}

void dsm_mock_wait_kept(struct kunit *test, struct dsm_mock_disk *disk, unsigned int nr)
{
	wait_event_timeout(disk->kept_more, READ_ONCE(disk->nr_kept) >= nr,
			   DSM_MOCK_TIMEOUT);
	KUNIT_ASSERT_EQ(test, READ_ONCE(disk->nr_kept), nr);
}

void dsm_mock_complete(struct dsm_mock_disk *disk, unsigned int nr)
{
	struct bio *bio;

	while (nr--) {
		spin_lock(&disk->lock);
		bio = bio_list_pop(&disk->kept);
		spin_unlock(&disk->lock);
		if (!bio)
			break;
		dsm_mock_end(disk, bio);
		spin_lock(&disk->lock);
		disk->nr_kept--;
		spin_unlock(&disk->lock);
		wake_up(&disk->room);
	}
}

static void dsm_mock_keep_no_discards(void *disk)
{
	dsm_mock_let_discards_go(disk);
}

void dsm_mock_let_discards_go(struct dsm_mock_disk *disk)
{
	disk->keeps_discards = false;
	dsm_mock_complete(disk, UINT_MAX);
}

void dsm_mock_end_discards(struct kunit *test, struct dsm_mock_disk *disk)
{
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, dsm_mock_keep_no_discards, disk));
}

static struct bio *dsm_mock_next(struct dsm_mock_disk *disk)
{
	struct bio *bio = NULL;

	spin_lock(&disk->lock);
	if (disk->when != DSM_MOCK_HELD || disk->may) {
		bio = bio_list_pop(&disk->waiting);
		if (bio && disk->may)
			disk->may--;
	}
	spin_unlock(&disk->lock);
	return bio;
}

static void dsm_mock_work(struct work_struct *work)
{
	struct dsm_mock_disk *disk = container_of(work, struct dsm_mock_disk, complete);
	struct bio *bio;

	while ((bio = dsm_mock_next(disk)))
		dsm_mock_end(disk, bio);
}

static void dsm_mock_wake(struct dsm_mock_disk *disk)
{
	unsigned int here = raw_smp_processor_id();
	unsigned int other = cpumask_any_but(cpu_online_mask, here);

	queue_work_on(other < nr_cpu_ids ? other : here, system_percpu_wq, &disk->complete);
}

/* Discards can be kept apart. */
static bool dsm_mock_keep(struct dsm_mock_disk *disk, struct bio *bio)
{
	bool keeps;

	spin_lock(&disk->lock);
	keeps = disk->keeps_discards;
	if (keeps) {
		bio_list_add(&disk->kept, bio);
		disk->nr_kept++;
		wake_up(&disk->kept_more);
	}
	spin_unlock(&disk->lock);
	return keeps;
}

static void dsm_mock_submit_bio(struct bio *bio)
{
	struct dsm_mock_disk *disk = bio->bi_bdev->bd_disk->private_data;
	unsigned int streams = disk->gendisk->queue->limits.max_write_streams;

	if (bio_op(bio) == REQ_OP_DISCARD && disk->keeps_at_most)
		wait_event(disk->room, READ_ONCE(disk->nr_kept) < disk->keeps_at_most);
	if (bio_op(bio) == REQ_OP_READ) {
		dsm_mock_each_sector(bio, dsm_mock_read_sector, disk);
		bio_endio(bio);
		return;
	}

	if (streams && bio->bi_write_stream > streams) {
		disk->refused++;
		bio->bi_status = BLK_STS_INVAL;
	} else if (disk->refused_from && bio->bi_write_stream >= disk->refused_from) {
		disk->refused++;
		bio->bi_status = disk->refusal;
	} else if (disk->fails) {
		bio->bi_status = BLK_STS_IOERR;
	} else {
		dsm_mock_note(disk, bio);
		if (bio_op(bio) == REQ_OP_DISCARD) {
			bio->bi_status = disk->discards_fail;
			if (dsm_mock_keep(disk, bio))
				return;
		}
	}

	if (disk->when == DSM_MOCK_AT_ONCE) {
		dsm_mock_end(disk, bio);
		return;
	}
	spin_lock(&disk->lock);
	bio_list_add(&disk->waiting, bio);
	spin_unlock(&disk->lock);
	wake_up(&disk->arrival);
	if (disk->when == DSM_MOCK_LATER)
		dsm_mock_wake(disk);
}

static const struct block_device_operations dsm_mock_fops = {
	.owner = THIS_MODULE,
	.submit_bio = dsm_mock_submit_bio,
};

static void dsm_mock_remove_disk(void *data)
{
	struct dsm_mock_disk *disk = data;
	unsigned long index;
	void *page;

	KUNIT_EXPECT_EQ_MSG(disk->test, disk->torn, 0, "sectors arrived in a wrong place");
	KUNIT_EXPECT_EQ_MSG(disk->test, bio_list_size(&disk->waiting), 0,
			    "bios are held that nobody has released");
	del_gendisk(disk->gendisk);
	flush_work(&disk->complete);
	put_disk(disk->gendisk);
	xa_for_each(&disk->pages, index, page)
		free_page((unsigned long)page);
	xa_destroy(&disk->pages);
}

void dsm_mock_remove(struct kunit *test, struct dsm_mock_disk *disk)
{
	kunit_release_action(test, dsm_mock_remove_disk, disk);
}

struct dsm_mock_disk *dsm_mock_disk_limits(struct kunit *test,
					   struct queue_limits *limits)
{
	static unsigned int number;
	struct dsm_mock_disk *disk = kunit_kzalloc(test, sizeof(*disk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, disk);
	spin_lock_init(&disk->lock);
	init_waitqueue_head(&disk->kept_more);
	init_waitqueue_head(&disk->room);
	bio_list_init(&disk->waiting);
	xa_init(&disk->pages);
	INIT_WORK(&disk->complete, dsm_mock_work);
	init_waitqueue_head(&disk->arrival);
	disk->test = test;
	dsm_mock_fill_mbr(test, disk);
	disk->gendisk = blk_alloc_disk(limits, NUMA_NO_NODE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, disk->gendisk);
	disk->gendisk->fops = &dsm_mock_fops;
	disk->gendisk->private_data = disk;
	snprintf(disk->gendisk->disk_name, DISK_NAME_LEN, "dsmmock%u", number++);
	set_capacity(disk->gendisk, DSM_MOCK_SECTORS);
	KUNIT_ASSERT_EQ(test, add_disk(disk->gendisk), 0);
	disk->bdev = disk->gendisk->part0;
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, dsm_mock_remove_disk, disk));
	return disk;
}

struct dsm_mock_disk *dsm_mock_disk(struct kunit *test, unsigned int streams)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA | BLK_FEAT_NOWAIT | BLK_FEAT_POLL,
		.max_hw_discard_sectors = UINT_MAX,
		.max_secure_erase_sectors = UINT_MAX,
		.max_write_zeroes_sectors = UINT_MAX,
		.max_write_streams = streams,
	};

	return dsm_mock_disk_limits(test, &limits);
}

static void dsm_mock_close(void *file)
{
	bdev_fput(file);
	flush_delayed_fput();
}

struct block_device *dsm_mock_partition(struct kunit *test,
					struct dsm_mock_disk *disk)
{
	char path[32];
	struct file *file;

	snprintf(path, sizeof(path), "/dev/%sp1", disk->gendisk->disk_name);
	file = bdev_file_open_by_path(path, BLK_OPEN_READ, NULL, NULL);
	if (PTR_ERR(file) == -ENOENT)
		kunit_skip(test, "there is no /dev yet");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, dsm_mock_close, file));
	return file_bdev(file);
}

static int dsm_mock_keyslot(struct blk_crypto_profile *profile,
			    const struct blk_crypto_key *key, unsigned int slot)
{
	return 0;
}

static void dsm_mock_crypto_destroy(void *profile)
{
	blk_crypto_profile_destroy(profile);
}

void dsm_mock_encrypts(struct kunit *test, struct dsm_mock_disk *disk)
{
	struct blk_crypto_profile *crypto = &disk->crypto;

	KUNIT_ASSERT_EQ(test, blk_crypto_profile_init(crypto, 1), 0);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, dsm_mock_crypto_destroy, crypto));
	crypto->ll_ops.keyslot_program = dsm_mock_keyslot;
	crypto->ll_ops.keyslot_evict = dsm_mock_keyslot;
	crypto->max_dun_bytes_supported = sizeof(u64);
	crypto->key_types_supported = BLK_CRYPTO_KEY_TYPE_RAW;
	crypto->modes_supported[BLK_ENCRYPTION_MODE_AES_256_XTS] = 4096;
	KUNIT_ASSERT_TRUE(test, blk_crypto_register(crypto, disk->gendisk->queue));
}

void dsm_mock_set_streams(struct dsm_mock_disk *disk, unsigned int streams)
{
	struct request_queue *queue = disk->gendisk->queue;
	struct queue_limits limits = queue_limits_start_update(queue);

	limits.max_write_streams = streams;
	queue_limits_commit_update_frozen(queue, &limits);
}

void dsm_mock_expect_discards(struct kunit *test, struct dsm_mock_disk *disk,
			      sector_t start, const char *expected)
{
	char *seen = kunit_kzalloc(test, 1024, GFP_KERNEL);
	size_t at = 0;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	KUNIT_ASSERT_LE(test, disk->nr, ARRAY_SIZE(disk->bio));
	for (unsigned int i = 0; i < disk->nr; i++)
		if (disk->bio[i].op == REQ_OP_DISCARD)
			at += scnprintf(seen + at, 1024 - at, "%s%llu:%u", at ? " " : "",
					(u64)disk->bio[i].sector - start,
					disk->bio[i].sectors);
	KUNIT_EXPECT_STREQ(test, seen, expected);
}

void dsm_mock_forget(struct dsm_mock_disk *disk)
{
	disk->nr = 0;
	memset(disk->bio, 0, sizeof(disk->bio));
}

static unsigned int dsm_mock_nr_held(struct dsm_mock_disk *disk)
{
	unsigned int nr;

	spin_lock(&disk->lock);
	nr = bio_list_size(&disk->waiting);
	spin_unlock(&disk->lock);
	return nr;
}

static void dsm_mock_let_go(void *data)
{
	struct dsm_mock_disk *disk = data;

	disk->when = DSM_MOCK_LATER;
	dsm_mock_wake(disk);
	flush_work(&disk->complete);
}

void dsm_mock_hold(struct kunit *test, struct dsm_mock_disk *disk)
{
	disk->when = DSM_MOCK_HELD;
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, dsm_mock_let_go, disk));
}

void dsm_mock_wait_held(struct kunit *test, struct dsm_mock_disk *disk, unsigned int nr)
{
	KUNIT_ASSERT_GT_MSG(test, wait_event_timeout(disk->arrival,
						     dsm_mock_nr_held(disk) >= nr,
						     DSM_MOCK_TIMEOUT), 0,
			    "%u bios are held, not %u", dsm_mock_nr_held(disk), nr);
}

void dsm_mock_release(struct dsm_mock_disk *disk, unsigned int nr)
{
	spin_lock(&disk->lock);
	disk->may = min_t(unsigned int, nr, bio_list_size(&disk->waiting));
	spin_unlock(&disk->lock);
	dsm_mock_wake(disk);
	flush_work(&disk->complete);
}

void dsm_mock_expect_kept(struct kunit *test, struct dsm_mock_disk *disk,
			  sector_t sector, unsigned int sectors, u64 write, u64 data)
{
	for (unsigned int i = 0; i < sectors; i++) {
		const struct dsm_mock_mark *mark = dsm_mock_at(disk, sector + i, false);

		if (mark && dsm_mock_is_marked(mark, write, data + i))
			continue;
		KUNIT_FAIL(test, "sector %llu of the disk has sector %llu of write %llu, not %llu of %llu",
			   (u64)sector + i, mark ? mark->sector : 0, mark ? mark->write : 0,
			   data + i, write);
		return;
	}
}

void dsm_mock_expect_empty(struct kunit *test, struct dsm_mock_disk *disk,
			   sector_t sector, unsigned int sectors)
{
	for (unsigned int i = 0; i < sectors; i++) {
		const void *kept = dsm_mock_at(disk, sector + i, false);

		KUNIT_EXPECT_TRUE_MSG(test, !kept || !memchr_inv(kept, 0, SECTOR_SIZE),
				      "sector %llu of the disk", (u64)sector + i);
	}
}

/* Device-mapper */

/* What an ioctl is given and leaves, as dm lays it out. */
struct dsm_mock_call {
	struct dm_ioctl head;
	union {
		struct dm_target_spec spec;
		struct dm_target_msg message;
		char data[DSM_MOCK_REPLY];
	};
};

static struct dsm_mock_call *dsm_mock_call(const char *name)
{
	struct dsm_mock_call *call = kzalloc(sizeof(*call), GFP_KERNEL);

	if (!call)
		return NULL;
	call->head.version[0] = DM_VERSION_MAJOR;
	call->head.data_size = sizeof(*call);
	call->head.data_start = offsetof(struct dsm_mock_call, data);
	strscpy(call->head.name, name);
	return call;
}

/* dm takes its ioctls from user memory, and a kernel thread has none. */
static int dsm_mock_ioctl(unsigned int command, struct dsm_mock_call *call)
{
	unsigned long user;
	struct file *file;
	int r = kunit_attach_mm();

	if (r)
		return r;
	user = vm_mmap(NULL, 0, sizeof(*call), PROT_READ | PROT_WRITE,
		       MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (IS_ERR_VALUE(user))
		return user;
	file = filp_open("/dev/mapper/control", O_RDWR, 0);
	if (IS_ERR(file)) {
		vm_munmap(user, sizeof(*call));
		return PTR_ERR(file);
	}

	r = -EFAULT;
	if (!copy_to_user((void __user *)user, call, sizeof(*call)))
		r = file->f_op->unlocked_ioctl(file, command, user);
	if (!r && copy_from_user(call, (void __user *)user, sizeof(*call)))
		r = -EFAULT;

	filp_close(file, NULL);
	vm_munmap(user, sizeof(*call));
	return r;
}

static int dsm_mock_simple(const char *name, unsigned int command, u32 flags,
			   dev_t *dev)
{
	struct dsm_mock_call *call = dsm_mock_call(name);
	int r = -ENOMEM;

	if (call) {
		call->head.flags = flags;
		r = dsm_mock_ioctl(command, call);
		if (!r && dev)
			*dev = huge_decode_dev(call->head.dev);
	}
	kfree(call);
	return r;
}

/* Suites in the kernel itself, as kunit.py has them, run before there is a /dev. */
static void dsm_mock_create(struct kunit *test, const char *name, dev_t *dev)
{
	int r = dsm_mock_simple(name, DM_DEV_CREATE, 0, dev);

	if (r == -ENOENT)
		kunit_skip(test, "there is no /dev/mapper/control yet");
	KUNIT_ASSERT_EQ(test, r, 0);
}

/* Returns where the next target's line goes, or NULL if there is no room. */
static char *dsm_mock_add_target(struct dsm_mock_call *call, char *at,
				 const struct dsm_mock_target *target)
{
	struct dm_target_spec *spec = (void *)at;
	char *end = call->data + sizeof(call->data), *line = at + sizeof(*spec);
	const char *number = strstr(target->args, "%s");
	char device[16];

	if (line >= end)
		return NULL;
	*spec = (struct dm_target_spec) {
		.sector_start = target->start,
		.length = target->sectors,
	};
	strscpy(spec->target_type, target->type);
	if (number) {
		format_dev_t(device, target->below->bd_dev);
		snprintf(line, end - line, "%.*s%s%s", (int)(number - target->args),
			 target->args, device, number + strlen("%s"));
	} else {
		strscpy(line, target->args, end - line);
	}
	spec->next = ALIGN(sizeof(*spec) + strlen(line) + 1, 8);
	call->head.target_count++;
	return at + spec->next;
}

static int dsm_mock_load_targets(const char *name, const struct dsm_mock_target *targets,
				 unsigned int nr)
{
	struct dsm_mock_call *call = dsm_mock_call(name);
	char *at;
	int r = -E2BIG;

	if (!call)
		return -ENOMEM;
	if (targets->read_only)
		call->head.flags |= DM_READONLY_FLAG;
	at = call->data;
	while (nr-- && at)
		at = dsm_mock_add_target(call, at, targets++);
	if (at)
		r = dsm_mock_ioctl(DM_TABLE_LOAD, call);
	kfree(call);
	return r;
}

static int dsm_mock_load_table(const char *name, const char *type,
			       sector_t sectors, const char *args,
			       struct block_device *below)
{
	const struct dsm_mock_target target = {
		.sectors = sectors,
		.type = type,
		.args = args,
		.below = below,
	};

	return dsm_mock_load_targets(name, &target, 1);
}

static void dsm_mock_remove_dm(void *data)
{
	struct dsm_mock_dm *dm = data;

	if (dm->md)
		dm_put(dm->md);
	dsm_mock_simple(dm->name, DM_DEV_REMOVE, 0, NULL);
}

struct dsm_mock_dm *dsm_mock_dm_of(struct kunit *test,
				   const struct dsm_mock_target *targets, unsigned int nr)
{
	static unsigned int number;
	struct dsm_mock_dm *dm = kunit_kzalloc(test, sizeof(*dm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dm);
	dm->reply = kunit_kzalloc(test, DSM_MOCK_REPLY, GFP_KERNEL);
	snprintf(dm->name, sizeof(dm->name), "%s-mock%u", targets->type, number++);
	KUNIT_ASSERT_NOT_NULL(test, dm->reply);
	dm->sectors = targets->sectors;
	dm->target = targets->start;

	dsm_mock_create(test, dm->name, &dm->dev);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, dsm_mock_remove_dm, dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_load_targets(dm->name, targets, nr), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);

	dm->md = dm_get_md(dm->dev);
	KUNIT_ASSERT_NOT_NULL(test, dm->md);
	dm->bdev = dm_disk(dm->md)->part0;
	return dm;
}

struct dsm_mock_dm *dsm_mock_dm(struct kunit *test, const char *type,
				sector_t sectors, const char *args,
				struct block_device *below)
{
	const struct dsm_mock_target target = {
		.sectors = sectors,
		.type = type,
		.args = args,
		.below = below,
	};

	return dsm_mock_dm_of(test, &target, 1);
}

int dsm_mock_try_table(struct kunit *test, const char *type, sector_t sectors,
		       const char *args, struct block_device *below)
{
	int r;

	dsm_mock_create(test, "try", NULL);
	r = dsm_mock_load_table("try", type, sectors, args, below);
	KUNIT_EXPECT_EQ(test, dsm_mock_simple("try", DM_DEV_REMOVE, 0, NULL), 0);
	return r;
}

int dsm_mock_load(struct dsm_mock_dm *dm, const char *type, const char *args,
		  struct block_device *below)
{
	return dsm_mock_load_table(dm->name, type, dm->sectors, args, below);
}

int dsm_mock_suspend(struct dsm_mock_dm *dm)
{
	return dsm_mock_simple(dm->name, DM_DEV_SUSPEND, DM_SUSPEND_FLAG, NULL);
}

int dsm_mock_resume(struct dsm_mock_dm *dm)
{
	return dsm_mock_simple(dm->name, DM_DEV_SUSPEND, 0, NULL);
}

/* Copies @message with the number of the upload in the place of the first "#". */
static void dsm_mock_fill_in(const struct dsm_mock_dm *dm, char *to, size_t room,
			     const char *message)
{
	const char *mark = strchr(message, '#');

	if (mark)
		snprintf(to, room, "%.*s%llu%s", (int)(mark - message), message,
			 dm->upload, mark + 1);
	else
		strscpy(to, message, room);
}

int dsm_mock_message(struct dsm_mock_dm *dm, const char *message)
{
	struct dsm_mock_call *call = dsm_mock_call(dm->name);
	int r = -ENOMEM;

	dm->reply[0] = '\0';
	if (call) {
		call->message.sector = dm->target;
		dsm_mock_fill_in(dm, call->message.message,
				 sizeof(call->data) - sizeof(call->message), message);
		r = dsm_mock_ioctl(DM_TARGET_MSG, call);
		if (!r && call->head.flags & DM_DATA_OUT_FLAG)
			strscpy(dm->reply, (char *)call + call->head.data_start,
				DSM_MOCK_REPLY);
	}
	kfree(call);
	return r;
}

static struct dsm *dsm_mock_target_seen;

static int dsm_mock_see_target(struct dm_target *ti, unsigned int argc, char **argv,
			       char *result, unsigned int maxlen)
{
	if (strcasecmp(argv[0], "error"))	/* of another sender */
		return dsm_message(ti, argc, argv, result, maxlen);
	dsm_mock_target_seen = ti->private;
	return 0;
}

struct dsm *dsm_mock_target(struct kunit *test, struct dsm_mock_dm *dm)
{
	dsm_target.message = dsm_mock_see_target;
	dsm_mock_expect_reply(test, dm, "error", "");
	dsm_target.message = dsm_message;
	return dsm_mock_target_seen;
}

static void dsm_mock_allow_memory(void *unused)
{
	dsm_limits.memory = U64_MAX;
}

void dsm_mock_limit_memory(struct kunit *test, u64 bytes)
{
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, dsm_mock_allow_memory, NULL), 0);
	dsm_limits.memory = bytes;
}

static void dsm_mock_send_now(struct work_struct *work)
{
	struct dsm_mock_sender *sender = container_of(work, struct dsm_mock_sender, work);

	sender->result = dsm_mock_message(&sender->dm, sender->message);
	complete(&sender->done);
}

/* Also of a test that ends early: what it has is freed then. */
static void dsm_mock_end_sender(void *data)
{
	struct dsm_mock_sender *sender = data;

	flush_work(&sender->work);
}

struct dsm_mock_sender *dsm_mock_send(struct kunit *test, const struct dsm_mock_dm *dm,
				      const char *message)
{
	struct dsm_mock_sender *sender = kunit_kzalloc(test, sizeof(*sender), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, sender);
	sender->dm = *dm;
	sender->dm.reply = kunit_kzalloc(test, DSM_MOCK_REPLY, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, sender->dm.reply);
	sender->message = message;
	init_completion(&sender->done);
	INIT_WORK(&sender->work, dsm_mock_send_now);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, dsm_mock_end_sender, sender), 0);
	queue_work(system_long_wq, &sender->work);
	return sender;
}

int dsm_mock_sent(struct kunit *test, struct dsm_mock_sender *sender)
{
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&sender->done, 60 * HZ), 0);
	return sender->result;
}

void dsm_mock_begin(struct kunit *test, struct dsm_mock_dm *dm, const char *message)
{
	int numbers;

	KUNIT_EXPECT_EQ_MSG(test, dsm_mock_message(dm, message), 0, "%s", message);
	numbers = sscanf(dm->reply, "upload %llu", &dm->upload);
	KUNIT_EXPECT_EQ_MSG(test, numbers, 1, "%s", dm->reply);
}

void dsm_mock_expect_reply(struct kunit *test, struct dsm_mock_dm *dm,
			   const char *message, const char *reply)
{
	KUNIT_EXPECT_EQ_MSG(test, dsm_mock_message(dm, message), 0, "%s", message);
	KUNIT_EXPECT_STREQ_MSG(test, dm->reply, reply, "%s", message);
}

void dsm_mock_expect_refusal(struct kunit *test, struct dsm_mock_dm *dm,
			     const char *message, int error, const char *reason)
{
	char filled[256];

	dsm_mock_fill_in(dm, filled, sizeof(filled), reason);
	KUNIT_EXPECT_EQ_MSG(test, dsm_mock_message(dm, message), error, "%s", message);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "error"), 0);
	KUNIT_EXPECT_STREQ_MSG(test, dm->reply, filled, "%s", message);
}

/* Of the target that is sent messages; here "next" counts from the first one. */
static const char *dsm_mock_find_line(struct dsm_mock_dm *dm, struct dsm_mock_call *call)
{
	char *first = (char *)call + call->head.data_start;
	struct dm_target_spec *spec = (void *)first;

	for (u32 i = 0; i < call->head.target_count; i++) {
		if (spec->sector_start == dm->target)
			return (char *)(spec + 1);
		spec = (void *)(first + spec->next);
	}
	return "";
}

static const char *dsm_mock_read_line(struct dsm_mock_dm *dm, u32 flags)
{
	struct dsm_mock_call *call = dsm_mock_call(dm->name);

	dm->reply[0] = '\0';
	if (call) {
		call->head.flags = flags;
		if (!dsm_mock_ioctl(DM_TABLE_STATUS, call))
			strscpy(dm->reply, dsm_mock_find_line(dm, call), DSM_MOCK_REPLY);
		dm->events = call->head.event_nr;
	}
	kfree(call);
	return dm->reply;
}

const char *dsm_mock_status(struct dsm_mock_dm *dm)
{
	char *age, *end;

	dsm_mock_read_line(dm, DM_NOFLUSH_FLAG);
	age = strstr(dm->reply, "window_ms ");
	if (age) {
		age += strlen("window_ms ");
		end = strchrnul(age, ' ');
		*age++ = '-';
		memmove(age, end, strlen(end) + 1);
	}
	return dm->reply;
}

const char *dsm_mock_table(struct dsm_mock_dm *dm)
{
	return dsm_mock_read_line(dm, DM_STATUS_TABLE_FLAG | DM_NOFLUSH_FLAG);
}

void dsm_mock_upload(struct kunit *test, struct dsm_mock_dm *dm)
{
	char begin[32];

	snprintf(begin, sizeof(begin), "begin full %llu", (u64)dm->sectors);
	dsm_mock_begin(test, dm, begin);
	dsm_mock_expect_reply(test, dm, "upload # file 1 collection 32768 0:0:128 file 2 index 4096 0:128:16 file 3 primary - 0:256:8",
			      "");
	dsm_mock_expect_reply(test, dm, "upload # file 4 journal - 0:264:8 file 5 oplog - 0:272:8 file 6 other - 0:280:8",
			      "");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 6 extents 8");
}

void dsm_mock_map(struct kunit *test, struct dsm_mock_dm *dm, const char *records)
{
	char message[160];

	snprintf(message, sizeof(message), "begin full %llu", (u64)dm->sectors);
	dsm_mock_begin(test, dm, message);
	snprintf(message, sizeof(message), "upload # %s", records);
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, message), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "commit #"), 0);
}

struct dsm_mock_stack dsm_mock_stack(struct kunit *test, const char *args)
{
	struct dsm_mock_stack s;

	s.disk = dsm_mock_disk(test, 8);
	s.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, args, s.disk->bdev);
	dsm_mock_upload(test, s.dm);
	dsm_mock_forget(s.disk);
	return s;
}

void dsm_mock_expect_status(struct kunit *test, struct dsm_mock_dm *dm, const char *part)
{
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dsm_mock_status(dm), part),
				  "'%s' is not in '%s'", part, dm->reply);
}

u64 dsm_mock_field(struct kunit *test, struct dsm_mock_dm *dm, const char *name)
{
	char key[40], *at;
	u64 value = 0;

	snprintf(key, sizeof(key), " %s ", name);
	at = strstr(dsm_mock_status(dm), key);
	KUNIT_ASSERT_NOT_NULL_MSG(test, at, "%s is not in '%s'", name, dm->reply);
	at += strlen(key);
	*strchrnul(at, ' ') = '\0';
	KUNIT_ASSERT_EQ(test, kstrtou64(at, 10, &value), 0);
	return value;
}

u64 dsm_mock_window(struct kunit *test, struct dsm_mock_dm *dm)
{
	u64 number = 0;

	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "window"), 0);
	KUNIT_ASSERT_TRUE(test, strstarts(dm->reply, "window "));
	KUNIT_ASSERT_EQ(test, kstrtou64(dm->reply + strlen("window "), 10, &number), 0);
	return number;
}

void dsm_mock_drain(struct kunit *test, struct dsm_mock_dm *dm)
{
	unsigned long end = jiffies + 60 * HZ;

	while (dsm_mock_field(test, dm, "discard_queued") && time_before(jiffies, end))
		usleep_range(200, 400);
	KUNIT_ASSERT_EQ(test, dsm_mock_field(test, dm, "discard_queued"), 0);
}

/* Bios */

static void dsm_mock_free_bio(struct bio *bio)
{
	bio_free_pages(bio);
	bio_put(bio);
}

/*
 * With room for @sectors of data if the operation has any, from @offset on in the
 * first page: what is divided is not always divided between pages.
 */
static struct bio *dsm_mock_bio(struct block_device *bdev, blk_opf_t opf,
				sector_t sector, unsigned int sectors,
				unsigned int offset)
{
	enum req_op op = opf & REQ_OP_MASK;
	bool has_data = op == REQ_OP_READ || op == REQ_OP_WRITE || op == REQ_OP_ZONE_APPEND;
	unsigned int left = has_data ? sectors << SECTOR_SHIFT : 0;
	struct bio *bio = bio_alloc(bdev, DIV_ROUND_UP(offset + left, PAGE_SIZE), opf,
				    GFP_KERNEL);

	bio->bi_iter.bi_sector = sector;
	while (left) {
		unsigned int here = min(left, PAGE_SIZE - offset);

		__bio_add_page(bio, alloc_page(GFP_KERNEL | __GFP_NOFAIL), here, offset);
		left -= here;
		offset = 0;
	}
	if (!has_data)
		bio->bi_iter.bi_size = sectors << SECTOR_SHIFT;
	return bio;
}

static bool dsm_mock_mark_each(void *write, u64 sector, void *at)
{
	dsm_mock_mark_sector(at, *(u64 *)write, sector);
	return true;
}

static bool dsm_mock_compare_each(void *write, u64 sector, void *at)
{
	return dsm_mock_is_marked(at, *(u64 *)write, sector);
}

static u64 dsm_mock_mark(struct bio *bio)
{
	static atomic64_t writes;
	u64 write = atomic64_inc_return(&writes);

	if (bio->bi_vcnt)
		dsm_mock_each_sector(bio, dsm_mock_mark_each, &write);
	return write;
}

/* Is what is read what the write wrote? */
static int dsm_mock_read_back(struct block_device *bdev, sector_t sector,
			      unsigned int sectors, u64 write)
{
	struct bio *bio = dsm_mock_bio(bdev, REQ_OP_READ, sector, sectors, 0);
	int r = submit_bio_wait(bio);

	bio->bi_iter = (struct bvec_iter) {
		.bi_sector = sector,
		.bi_size = sectors << SECTOR_SHIFT,
	};
	if (!r && !dsm_mock_each_sector(bio, dsm_mock_compare_each, &write))
		r = -EILSEQ;
	dsm_mock_free_bio(bio);
	return r;
}

static void dsm_mock_ended(struct bio *bio)
{
	struct dsm_mock_write *write = bio->bi_private;

	complete(&write->done);
}

struct dsm_mock_write *dsm_mock_start(struct kunit *test, struct block_device *bdev,
				      blk_opf_t opf, sector_t sector,
				      unsigned int sectors, u8 stream, u8 hint)
{
	struct dsm_mock_write *write = kzalloc_obj(*write, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, write);
	init_completion(&write->done);
	write->bio = dsm_mock_bio(bdev, opf, sector, sectors, sector % 7 * SECTOR_SIZE);
	write->number = dsm_mock_mark(write->bio);
	write->bio->bi_write_stream = stream;
	write->bio->bi_write_hint = hint;
	write->bio->bi_private = write;
	write->bio->bi_end_io = dsm_mock_ended;
	submit_bio(write->bio);
	return write;
}

bool dsm_mock_is_done(struct dsm_mock_write *write)
{
	return completion_done(&write->done);
}

int dsm_mock_finish(struct dsm_mock_write *write)
{
	int r;

	if (!wait_for_completion_timeout(&write->done, DSM_MOCK_TIMEOUT))
		return -ETIMEDOUT;	/* and it is never freed */
	r = blk_status_to_errno(write->bio->bi_status);
	dsm_mock_free_bio(write->bio);
	kfree(write);
	return r;
}

int dsm_mock_submit(struct block_device *bdev, blk_opf_t opf, sector_t sector,
		    unsigned int sectors, u8 stream, u8 hint)
{
	struct bio *bio = dsm_mock_bio(bdev, opf, sector, sectors, sector % 7 * SECTOR_SIZE);
	u64 write = dsm_mock_mark(bio);
	bool has_data = dsm_mock_has_data(bio);
	int r;

	bio->bi_write_stream = stream;
	bio->bi_write_hint = hint;
	r = submit_bio_wait(bio);
	dsm_mock_free_bio(bio);
	return r || !has_data ? r : dsm_mock_read_back(bdev, sector, sectors, write);
}

static void dsm_mock_polled_end(struct bio *bio)
{
	WRITE_ONCE(*(bool *)bio->bi_private, true);
}

int dsm_mock_submit_polled(struct block_device *bdev, sector_t sector,
			   unsigned int sectors)
{
	struct bio *bio = dsm_mock_bio(bdev, REQ_OP_WRITE | REQ_POLLED, sector, sectors, 0);
	u64 write = dsm_mock_mark(bio);
	bool done = false;
	int r;

	bio->bi_end_io = dsm_mock_polled_end;
	bio->bi_private = &done;
	submit_bio(bio);
	while (!READ_ONCE(done)) {
		bio_poll(bio, NULL, 0);
		cond_resched();
	}
	r = blk_status_to_errno(bio->bi_status);
	dsm_mock_free_bio(bio);
	return r ?: dsm_mock_read_back(bdev, sector, sectors, write);
}

int dsm_mock_submit_encrypted(struct block_device *bdev, sector_t sector,
			      unsigned int sectors, const struct blk_crypto_key *key,
			      u64 dun)
{
	struct bio *bio = dsm_mock_bio(bdev, REQ_OP_WRITE, sector, sectors, 0);
	u64 write = dsm_mock_mark(bio);
	u64 duns[BLK_CRYPTO_DUN_ARRAY_SIZE] = { dun };
	int r;

	bio_crypt_set_ctx(bio, key, duns, GFP_KERNEL);
	r = submit_bio_wait(bio);
	dsm_mock_free_bio(bio);
	return r ?: dsm_mock_read_back(bdev, sector, sectors, write);
}
