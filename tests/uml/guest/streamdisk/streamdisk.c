// SPDX-License-Identifier: GPL-2.0-only
/*
 * Disks in memory that take write streams, for the tests in UML: streamdisk,
 * streamdiskb and so on.  Each counts what arrives, in debugfs: "streamdisk/counts" has
 * a line "<stream> <writes> <sectors>" for each stream, and ends one that it does not
 * have in an error, as NVMe does.
 *
 * A bio is completed by a worker, so that some are in flight at any time.
 *
 * With "poison", what is discarded reads as rubbish from then on.  With "discard_ms",
 * a discard is in flight for so long, and lets writes that come later pass: who does
 * not hold them loses them.  With "spills", the page behind is lost as well, as on a drive
 * that is broken.  "streamdisk/discards" has "<discards> <sectors>".
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/debugfs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#define STREAMDISK_NR_STREAMS 256
#define STREAMDISK_NR_DISKS 8

static struct streamdisk {
	struct gendisk *gendisk;
	struct dentry *debugfs;
	unsigned int streams;
	void *data;

	spinlock_t lock;		/* of what follows */
	struct bio_list bios;		/* that wait for the worker */
	struct bio_list discards;	/* that wait for theirs */
	u64 discarded;
	u64 discarded_sectors;
	struct {
		u64 writes;
		u64 sectors;
	} count[STREAMDISK_NR_STREAMS];

	struct work_struct work;
	struct delayed_work discard_work;
} streamdisks[STREAMDISK_NR_DISKS] = {
	[0 ... STREAMDISK_NR_DISKS - 1] = { .streams = 8 },
};

static uint disks = 1;
module_param(disks, uint, 0444);
MODULE_PARM_DESC(disks, "their number");

static uint granularity[STREAMDISK_NR_DISKS];
module_param_array(granularity, uint, NULL, 0444);
MODULE_PARM_DESC(granularity, "of a stream, in bytes, for each disk");

static ulong sectors[STREAMDISK_NR_DISKS] = { 131072 };
module_param_array(sectors, ulong, NULL, 0444);
MODULE_PARM_DESC(sectors, "of 512 bytes, for each disk; those without a number are as the first");

static uint block[STREAMDISK_NR_DISKS];
module_param_array(block, uint, NULL, 0444);
MODULE_PARM_DESC(block, "bytes of a logical block of each disk, default 512");

static bool poison;
module_param(poison, bool, 0644);
MODULE_PARM_DESC(poison, "what is discarded");

static bool spills;
module_param(spills, bool, 0644);
MODULE_PARM_DESC(spills, "what is discarded, over the page behind");

static unsigned int discard_ms;
module_param(discard_ms, uint, 0644);
MODULE_PARM_DESC(discard_ms, "that a discard takes; 0: it is done in its turn");

/* The number of streams can change while no write is in flight. */
static int streamdisk_set_streams(struct streamdisk *disk, unsigned int streams)
{
	struct queue_limits limits;
	struct request_queue *queue;

	disk->streams = streams;
	if (!disk->gendisk)
		return 0;

	queue = disk->gendisk->queue;
	limits = queue_limits_start_update(queue);
	limits.max_write_streams = streams;
	return queue_limits_commit_update_frozen(queue, &limits);
}

/* A number for each disk; the last one is for those that have none of their own. */
static int streams_set(const char *value, const struct kernel_param *param)
{
	int numbers[STREAMDISK_NR_DISKS + 1];
	int r;

	get_options(value, ARRAY_SIZE(numbers), numbers);
	if (!numbers[0])
		return -EINVAL;
	for (int i = 1; i <= numbers[0]; i++)
		if (numbers[i] < 0 || numbers[i] >= STREAMDISK_NR_STREAMS)
			return -EINVAL;
	for (int i = 0; i < STREAMDISK_NR_DISKS; i++) {
		r = streamdisk_set_streams(&streamdisks[i], numbers[min(i + 1, numbers[0])]);
		if (r)
			return r;
	}
	return 0;
}

static int streams_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%u\n", streamdisks[0].streams);
}

static const struct kernel_param_ops streams_ops = {
	.set = streams_set,
	.get = streams_get,
};
module_param_cb(streams, &streams_ops, NULL, 0644);
MODULE_PARM_DESC(streams, "that each disk takes, 0 to 255, default 8");

static blk_status_t streamdisk_transfer(struct streamdisk *disk, struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bvec;

	bio_for_each_segment(bvec, bio, iter) {
		void *at = disk->data + (iter.bi_sector << SECTOR_SHIFT);

		if (op_is_write(bio_op(bio)))
			memcpy_from_bvec(at, &bvec);
		else
			memcpy_to_bvec(&bvec, at);
	}
	return BLK_STS_OK;
}

static blk_status_t streamdisk_write(struct streamdisk *disk, struct bio *bio)
{
	if (WARN_ON_ONCE(bio->bi_write_stream > disk->streams))
		return BLK_STS_INVAL;

	spin_lock(&disk->lock);
	disk->count[bio->bi_write_stream].writes++;
	disk->count[bio->bi_write_stream].sectors += bio_sectors(bio);
	spin_unlock(&disk->lock);
	return streamdisk_transfer(disk, bio);
}

static blk_status_t streamdisk_clear(struct streamdisk *disk, struct bio *bio)
{
	memset(disk->data + (bio->bi_iter.bi_sector << SECTOR_SHIFT), 0,
	       bio->bi_iter.bi_size);
	return BLK_STS_OK;
}

/* The device may do it at any time until it says that it is done: here, twice. */
static blk_status_t streamdisk_discard(struct streamdisk *disk, struct bio *bio)
{
	if (READ_ONCE(spills) && bio_end_sector(bio) + 8 <= get_capacity(bio->bi_bdev->bd_disk))
		memset(disk->data + (bio_end_sector(bio) << SECTOR_SHIFT), 0, 4096);
	if (!READ_ONCE(poison))
		return streamdisk_clear(disk, bio);
	memset64(disk->data + (bio->bi_iter.bi_sector << SECTOR_SHIFT),
		 le64_to_cpup((const __le64 *)"POISONED"), bio->bi_iter.bi_size / 8);
	return BLK_STS_OK;
}

static blk_status_t streamdisk_do(struct streamdisk *disk, struct bio *bio)
{
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return streamdisk_transfer(disk, bio);
	case REQ_OP_WRITE:
		return streamdisk_write(disk, bio);
	case REQ_OP_FLUSH:
		return BLK_STS_OK;
	case REQ_OP_DISCARD:
		return streamdisk_discard(disk, bio);
	case REQ_OP_WRITE_ZEROES:
		return streamdisk_clear(disk, bio);
	default:
		return BLK_STS_NOTSUPP;
	}
}

static void streamdisk_complete(struct streamdisk *disk, struct bio_list *list)
{
	struct bio_list bios;
	struct bio *bio;

	spin_lock(&disk->lock);
	bios = *list;
	bio_list_init(list);
	spin_unlock(&disk->lock);

	while ((bio = bio_list_pop(&bios))) {
		bio->bi_status = streamdisk_do(disk, bio);
		bio_endio(bio);
		cond_resched();
	}
}

static void streamdisk_work(struct work_struct *work)
{
	struct streamdisk *disk = container_of(work, struct streamdisk, work);

	streamdisk_complete(disk, &disk->bios);
}

static void streamdisk_discard_work(struct work_struct *work)
{
	struct streamdisk *disk = container_of(work, struct streamdisk, discard_work.work);

	streamdisk_complete(disk, &disk->discards);
}

static void streamdisk_submit_discard(struct streamdisk *disk, struct bio *bio, unsigned int ms)
{
	streamdisk_discard(disk, bio);
	spin_lock(&disk->lock);
	bio_list_add(&disk->discards, bio);
	spin_unlock(&disk->lock);
	queue_delayed_work(system_unbound_wq, &disk->discard_work, msecs_to_jiffies(ms));
}

static void streamdisk_submit_bio(struct bio *bio)
{
	struct streamdisk *disk = bio->bi_bdev->bd_disk->private_data;
	unsigned int ms = READ_ONCE(discard_ms);
	bool discard = bio_op(bio) == REQ_OP_DISCARD;

	spin_lock(&disk->lock);
	if (discard) {
		disk->discarded++;
		disk->discarded_sectors += bio_sectors(bio);
	}
	if (!discard || !ms)
		bio_list_add(&disk->bios, bio);
	spin_unlock(&disk->lock);

	if (discard && ms)
		streamdisk_submit_discard(disk, bio, ms);
	else
		queue_work(system_unbound_wq, &disk->work);
}

static const struct block_device_operations streamdisk_fops = {
	.owner = THIS_MODULE,
	.submit_bio = streamdisk_submit_bio,
};

static int counts_show(struct seq_file *m, void *unused)
{
	struct streamdisk *disk = m->private;

	spin_lock(&disk->lock);
	for (int i = 0; i < STREAMDISK_NR_STREAMS; i++)
		if (disk->count[i].writes)
			seq_printf(m, "%d %llu %llu\n", i, disk->count[i].writes,
				   disk->count[i].sectors);
	spin_unlock(&disk->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

static int discards_show(struct seq_file *m, void *unused)
{
	struct streamdisk *disk = m->private;

	spin_lock(&disk->lock);
	seq_printf(m, "%llu %llu\n", disk->discarded, disk->discarded_sectors);
	spin_unlock(&disk->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(discards);

static int streamdisk_add(struct streamdisk *disk, unsigned int i)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
		.logical_block_size = block[i] ?: SECTOR_SIZE,
		.max_hw_discard_sectors = UINT_MAX,
		.max_write_zeroes_sectors = UINT_MAX,
		.max_write_streams = disk->streams,
		.write_stream_granularity = granularity[i],
	};
	ulong size = sectors[i] ?: sectors[0];
	struct gendisk *gendisk;
	int r;

	spin_lock_init(&disk->lock);
	bio_list_init(&disk->bios);
	bio_list_init(&disk->discards);
	INIT_WORK(&disk->work, streamdisk_work);
	INIT_DELAYED_WORK(&disk->discard_work, streamdisk_discard_work);
	disk->data = vzalloc(size << SECTOR_SHIFT);
	if (!disk->data)
		return -ENOMEM;

	gendisk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(gendisk)) {
		r = PTR_ERR(gendisk);
		goto free_data;
	}
	gendisk->fops = &streamdisk_fops;
	gendisk->private_data = disk;
	strscpy(gendisk->disk_name, "streamdisk");
	if (i)
		gendisk->disk_name[strlen("streamdisk")] = 'a' + i;
	set_capacity(gendisk, size);
	r = add_disk(gendisk);
	if (r)
		goto put_disk;

	disk->gendisk = gendisk;
	disk->debugfs = debugfs_create_dir(gendisk->disk_name, NULL);
	debugfs_create_file("counts", 0444, disk->debugfs, disk, &counts_fops);
	debugfs_create_file("discards", 0444, disk->debugfs, disk, &discards_fops);
	return 0;

put_disk:
	put_disk(gendisk);
free_data:
	vfree(disk->data);
	return r;
}

static void streamdisk_remove(struct streamdisk *disk)
{
	debugfs_remove(disk->debugfs);
	del_gendisk(disk->gendisk);
	flush_work(&disk->work);
	flush_delayed_work(&disk->discard_work);
	put_disk(disk->gendisk);
	vfree(disk->data);
}

static int __init streamdisk_init(void)
{
	int r;

	if (!disks || disks > STREAMDISK_NR_DISKS)
		return -EINVAL;
	for (unsigned int i = 0; i < disks; i++) {
		r = streamdisk_add(&streamdisks[i], i);
		if (r) {
			while (i--)
				streamdisk_remove(&streamdisks[i]);
			return r;
		}
	}
	return 0;
}

static void __exit streamdisk_exit(void)
{
	for (unsigned int i = 0; i < disks; i++)
		streamdisk_remove(&streamdisks[i]);
}

module_init(streamdisk_init);
module_exit(streamdisk_exit);

MODULE_DESCRIPTION("Disks in memory with write streams");
MODULE_AUTHOR("The dm-dsm authors");
MODULE_LICENSE("GPL");
