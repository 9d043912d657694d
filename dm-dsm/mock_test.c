// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bio.h>
#include <linux/blk-crypto.h>
#include <linux/dm-ioctl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/mman.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>

#include "mock_test.h"

/* The disk */

/* A partition table with one partition, up to the end. */
static void dsm_mock_fill_mbr(struct bio *bio)
{
	u8 *sector = kmap_local_page(bio_page(bio)) + bio_offset(bio);
	u8 *entry = sector + 446;

	entry[4] = 0x83;
	put_unaligned_le32(DSM_MOCK_PARTITION, entry + 8);
	put_unaligned_le32(DSM_MOCK_SECTORS - DSM_MOCK_PARTITION, entry + 12);
	sector[510] = 0x55;
	sector[511] = 0xaa;
	kunmap_local(sector);
}

static void dsm_mock_submit_bio(struct bio *bio)
{
	struct dsm_mock_disk *disk = bio->bi_bdev->bd_disk->private_data;

	if (bio_op(bio) == REQ_OP_READ) {
		zero_fill_bio(bio);
		if (disk->has_partition && !bio->bi_iter.bi_sector)
			dsm_mock_fill_mbr(bio);
		bio_endio(bio);
		return;
	}

	if (disk->refused_from && bio->bi_write_stream >= disk->refused_from) {
		disk->refused++;
		bio->bi_status = disk->refusal;
		bio_endio(bio);
		return;
	}

	if (disk->fails) {
		bio_io_error(bio);
		return;
	}

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
		};
	disk->nr++;
	if (bio_op(bio) == REQ_OP_DISCARD) {
		bio->bi_status = disk->discards_fail;
		if (disk->keeps_discards) {
			bio_list_add(&disk->kept, bio);
			disk->nr_kept++;
			bio = NULL;
			wake_up(&disk->kept_more);
		}
	}
	spin_unlock(&disk->lock);
	if (bio)
		bio_endio(bio);
}

void dsm_mock_wait_kept(struct kunit *test, struct dsm_mock_disk *disk, unsigned int nr)
{
	wait_event_timeout(disk->kept_more, READ_ONCE(disk->nr_kept) >= nr, 60 * HZ);
	KUNIT_ASSERT_EQ(test, READ_ONCE(disk->nr_kept), nr);
}

void dsm_mock_complete(struct dsm_mock_disk *disk, unsigned int nr)
{
	struct bio *bio;

	while (nr--) {
		spin_lock(&disk->lock);
		bio = bio_list_pop(&disk->kept);
		disk->nr_kept -= !!bio;
		spin_unlock(&disk->lock);
		if (!bio)
			break;
		bio_endio(bio);
	}
}

static const struct block_device_operations dsm_mock_fops = {
	.owner = THIS_MODULE,
	.submit_bio = dsm_mock_submit_bio,
};

static void dsm_mock_remove_disk(void *data)
{
	struct dsm_mock_disk *disk = data;

	del_gendisk(disk->gendisk);
	put_disk(disk->gendisk);
}

struct dsm_mock_disk *dsm_mock_disk_limits(struct kunit *test,
					   struct queue_limits *limits)
{
	static unsigned int number;
	struct dsm_mock_disk *disk = kunit_kzalloc(test, sizeof(*disk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, disk);
	spin_lock_init(&disk->lock);
	init_waitqueue_head(&disk->kept_more);
	disk->has_partition = true;
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
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA | BLK_FEAT_NOWAIT,
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

void dsm_mock_forget(struct dsm_mock_disk *disk)
{
	disk->nr = 0;
	memset(disk->bio, 0, sizeof(disk->bio));
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

static int dsm_mock_load_table(const char *name, const char *type,
			       sector_t sectors, const char *args,
			       struct block_device *below)
{
	struct dsm_mock_call *call = dsm_mock_call(name);
	const size_t room = sizeof(call->data) - sizeof(call->spec);
	const char *number = strstr(args, "%s");
	char device[16];
	int r, prefix;

	if (!call)
		return -ENOMEM;
	call->head.target_count = 1;
	call->spec.length = sectors;
	strscpy(call->spec.target_type, type);
	if (number) {
		prefix = number - args;
		format_dev_t(device, below->bd_dev);
		snprintf(call->data + sizeof(call->spec), room, "%.*s%s%s",
			 prefix, args, device, number + strlen("%s"));
	} else {
		strscpy(call->data + sizeof(call->spec), args, room);
	}
	r = dsm_mock_ioctl(DM_TABLE_LOAD, call);
	kfree(call);
	return r;
}

static void dsm_mock_remove_dm(void *data)
{
	struct dsm_mock_dm *dm = data;

	if (dm->md)
		dm_put(dm->md);
	dsm_mock_simple(dm->name, DM_DEV_REMOVE, 0, NULL);
}

struct dsm_mock_dm *dsm_mock_dm(struct kunit *test, const char *type,
				sector_t sectors, const char *args,
				struct block_device *below)
{
	static unsigned int number;
	struct dsm_mock_dm *dm = kunit_kzalloc(test, sizeof(*dm), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dm);
	dm->reply = kunit_kzalloc(test, DSM_MOCK_REPLY, GFP_KERNEL);
	snprintf(dm->name, sizeof(dm->name), "%s-mock%u", type, number++);
	KUNIT_ASSERT_NOT_NULL(test, dm->reply);
	dm->sectors = sectors;

	dsm_mock_create(test, dm->name, &dm->dev);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, dsm_mock_remove_dm, dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_load(dm, type, args, below), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);

	dm->md = dm_get_md(dm->dev);
	KUNIT_ASSERT_NOT_NULL(test, dm->md);
	dm->bdev = dm_disk(dm->md)->part0;
	return dm;
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
			     const char *message, int error, const char *sentence)
{
	char filled[256];

	dsm_mock_fill_in(dm, filled, sizeof(filled), sentence);
	KUNIT_EXPECT_EQ_MSG(test, dsm_mock_message(dm, message), error, "%s", message);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "error"), 0);
	KUNIT_EXPECT_STREQ_MSG(test, dm->reply, filled, "%s", message);
}

static const char *dsm_mock_read_line(struct dsm_mock_dm *dm, u32 flags)
{
	struct dsm_mock_call *call = dsm_mock_call(dm->name);

	dm->reply[0] = '\0';
	if (call) {
		call->head.flags = flags;
		if (!dsm_mock_ioctl(DM_TABLE_STATUS, call))
			strscpy(dm->reply, (char *)call + call->head.data_start +
				sizeof(call->spec), DSM_MOCK_REPLY);
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

/* Bios */

static struct bio *dsm_mock_bio(struct block_device *bdev, blk_opf_t opf,
				sector_t sector, unsigned int sectors)
{
	enum req_op op = opf & REQ_OP_MASK;
	bool has_data = op == REQ_OP_WRITE || op == REQ_OP_ZONE_APPEND;
	unsigned int left = has_data ? sectors << SECTOR_SHIFT : 0;
	struct bio *bio = bio_alloc(bdev, DIV_ROUND_UP(left, PAGE_SIZE), opf, GFP_KERNEL);

	bio->bi_iter.bi_sector = sector;
	while (left) {
		unsigned int here = min(left, PAGE_SIZE);

		__bio_add_page(bio, ZERO_PAGE(0), here, 0);
		left -= here;
	}
	if (!has_data)
		bio->bi_iter.bi_size = sectors << SECTOR_SHIFT;
	return bio;
}

static int dsm_mock_submit_and_put(struct bio *bio)
{
	int r = submit_bio_wait(bio);

	bio_put(bio);
	return r;
}

int dsm_mock_submit(struct block_device *bdev, blk_opf_t opf, sector_t sector,
		    unsigned int sectors, u8 stream, u8 hint)
{
	struct bio *bio = dsm_mock_bio(bdev, opf, sector, sectors);

	bio->bi_write_stream = stream;
	bio->bi_write_hint = hint;
	return dsm_mock_submit_and_put(bio);
}

int dsm_mock_submit_encrypted(struct block_device *bdev, sector_t sector,
			      unsigned int sectors, const struct blk_crypto_key *key,
			      u64 dun)
{
	struct bio *bio = dsm_mock_bio(bdev, REQ_OP_WRITE, sector, sectors);
	u64 duns[BLK_CRYPTO_DUN_ARRAY_SIZE] = { dun };

	bio_crypt_set_ctx(bio, key, duns, GFP_KERNEL);
	return dsm_mock_submit_and_put(bio);
}
