// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk in memory that takes write streams, for the tests in UML.  It counts what
 * arrives, in debugfs: "streamdisk/counts" has a line "<stream> <writes> <sectors>"
 * for each stream, and ends one that it does not have in an error, as NVMe does.
 *
 * A bio is completed by a worker, so that some are under way at any time.
 *
 * With "poison", what is discarded reads as rubbish from then on.  With "discard_ms",
 * a discard is under way for so long, and lets writes that come later pass: who does
 * not hold them loses them.  "streamdisk/discards" has "<discards> <sectors>".
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#define STREAMDISK_NR_STREAMS 256

static struct streamdisk {
	struct gendisk *gendisk;
	struct dentry *debugfs;
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
} streamdisk;

static ulong sectors = 131072;
module_param(sectors, ulong, 0444);
MODULE_PARM_DESC(sectors, "of 512 bytes");

static bool poison;
module_param(poison, bool, 0644);
MODULE_PARM_DESC(poison, "what is discarded");

static unsigned int discard_ms;
module_param(discard_ms, uint, 0644);
MODULE_PARM_DESC(discard_ms, "that a discard takes; 0: it is done in its turn");

/* The number of streams can change while no write is under way. */
static unsigned int streams = 8;

static int streams_set(const char *value, const struct kernel_param *param)
{
	struct queue_limits limits;
	struct request_queue *queue;
	unsigned int number;
	int r = kstrtouint(value, 10, &number);

	if (r)
		return r;
	if (number >= STREAMDISK_NR_STREAMS)
		return -EINVAL;
	streams = number;
	if (!streamdisk.gendisk)
		return 0;

	queue = streamdisk.gendisk->queue;
	limits = queue_limits_start_update(queue);
	limits.max_write_streams = number;
	return queue_limits_commit_update_frozen(queue, &limits);
}

static const struct kernel_param_ops streams_ops = {
	.set = streams_set,
	.get = param_get_uint,
};
module_param_cb(streams, &streams_ops, &streams, 0644);
MODULE_PARM_DESC(streams, "that the disk takes, 0 to 255");

static blk_status_t streamdisk_transfer(struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bvec;

	bio_for_each_segment(bvec, bio, iter) {
		void *at = streamdisk.data + (iter.bi_sector << SECTOR_SHIFT);

		if (op_is_write(bio_op(bio)))
			memcpy_from_bvec(at, &bvec);
		else
			memcpy_to_bvec(&bvec, at);
	}
	return BLK_STS_OK;
}

static blk_status_t streamdisk_write(struct bio *bio)
{
	if (WARN_ON_ONCE(bio->bi_write_stream > bdev_max_write_streams(bio->bi_bdev)))
		return BLK_STS_INVAL;

	spin_lock(&streamdisk.lock);
	streamdisk.count[bio->bi_write_stream].writes++;
	streamdisk.count[bio->bi_write_stream].sectors += bio_sectors(bio);
	spin_unlock(&streamdisk.lock);
	return streamdisk_transfer(bio);
}

static blk_status_t streamdisk_clear(struct bio *bio)
{
	memset(streamdisk.data + (bio->bi_iter.bi_sector << SECTOR_SHIFT), 0,
	       bio->bi_iter.bi_size);
	return BLK_STS_OK;
}

/* The device may do it at any time until it says that it is done: here, twice. */
static blk_status_t streamdisk_discard(struct bio *bio)
{
	if (!READ_ONCE(poison))
		return streamdisk_clear(bio);
	memset64(streamdisk.data + (bio->bi_iter.bi_sector << SECTOR_SHIFT),
		 le64_to_cpup((const __le64 *)"POISONED"), bio->bi_iter.bi_size / 8);
	return BLK_STS_OK;
}

static blk_status_t streamdisk_do(struct bio *bio)
{
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return streamdisk_transfer(bio);
	case REQ_OP_WRITE:
		return streamdisk_write(bio);
	case REQ_OP_FLUSH:
		return BLK_STS_OK;
	case REQ_OP_DISCARD:
		return streamdisk_discard(bio);
	case REQ_OP_WRITE_ZEROES:
		return streamdisk_clear(bio);
	default:
		return BLK_STS_NOTSUPP;
	}
}

static void streamdisk_complete(struct bio_list *list)
{
	struct bio_list bios;
	struct bio *bio;

	spin_lock(&streamdisk.lock);
	bios = *list;
	bio_list_init(list);
	spin_unlock(&streamdisk.lock);

	while ((bio = bio_list_pop(&bios))) {
		bio->bi_status = streamdisk_do(bio);
		bio_endio(bio);
		cond_resched();
	}
}

static void streamdisk_work(struct work_struct *work)
{
	streamdisk_complete(&streamdisk.bios);
}

static void streamdisk_discard_work(struct work_struct *work)
{
	streamdisk_complete(&streamdisk.discards);
}

static void streamdisk_submit_discard(struct bio *bio, unsigned int ms)
{
	streamdisk_discard(bio);
	spin_lock(&streamdisk.lock);
	bio_list_add(&streamdisk.discards, bio);
	spin_unlock(&streamdisk.lock);
	queue_delayed_work(system_unbound_wq, &streamdisk.discard_work, msecs_to_jiffies(ms));
}

static void streamdisk_submit_bio(struct bio *bio)
{
	unsigned int ms = READ_ONCE(discard_ms);
	bool discard = bio_op(bio) == REQ_OP_DISCARD;

	spin_lock(&streamdisk.lock);
	if (discard) {
		streamdisk.discarded++;
		streamdisk.discarded_sectors += bio_sectors(bio);
	}
	if (!discard || !ms)
		bio_list_add(&streamdisk.bios, bio);
	spin_unlock(&streamdisk.lock);

	if (discard && ms)
		streamdisk_submit_discard(bio, ms);
	else
		queue_work(system_unbound_wq, &streamdisk.work);
}

static const struct block_device_operations streamdisk_fops = {
	.owner = THIS_MODULE,
	.submit_bio = streamdisk_submit_bio,
};

static int counts_show(struct seq_file *m, void *unused)
{
	spin_lock(&streamdisk.lock);
	for (int i = 0; i < STREAMDISK_NR_STREAMS; i++)
		if (streamdisk.count[i].writes)
			seq_printf(m, "%d %llu %llu\n", i, streamdisk.count[i].writes,
				   streamdisk.count[i].sectors);
	spin_unlock(&streamdisk.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

static int discards_show(struct seq_file *m, void *unused)
{
	spin_lock(&streamdisk.lock);
	seq_printf(m, "%llu %llu\n", streamdisk.discarded, streamdisk.discarded_sectors);
	spin_unlock(&streamdisk.lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(discards);

static int __init streamdisk_init(void)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA,
		.max_hw_discard_sectors = UINT_MAX,
		.max_write_zeroes_sectors = UINT_MAX,
		.max_write_streams = streams,
	};
	struct gendisk *gendisk;
	int r;

	spin_lock_init(&streamdisk.lock);
	bio_list_init(&streamdisk.bios);
	bio_list_init(&streamdisk.discards);
	INIT_WORK(&streamdisk.work, streamdisk_work);
	INIT_DELAYED_WORK(&streamdisk.discard_work, streamdisk_discard_work);
	streamdisk.data = vzalloc(sectors << SECTOR_SHIFT);
	if (!streamdisk.data)
		return -ENOMEM;

	gendisk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(gendisk)) {
		r = PTR_ERR(gendisk);
		goto free_data;
	}
	gendisk->fops = &streamdisk_fops;
	strscpy(gendisk->disk_name, "streamdisk");
	set_capacity(gendisk, sectors);
	r = add_disk(gendisk);
	if (r)
		goto put_disk;

	streamdisk.gendisk = gendisk;
	streamdisk.debugfs = debugfs_create_dir("streamdisk", NULL);
	debugfs_create_file("counts", 0444, streamdisk.debugfs, NULL, &counts_fops);
	debugfs_create_file("discards", 0444, streamdisk.debugfs, NULL, &discards_fops);
	return 0;

put_disk:
	put_disk(gendisk);
free_data:
	vfree(streamdisk.data);
	return r;
}

static void __exit streamdisk_exit(void)
{
	debugfs_remove(streamdisk.debugfs);
	del_gendisk(streamdisk.gendisk);
	flush_work(&streamdisk.work);
	flush_delayed_work(&streamdisk.discard_work);
	put_disk(streamdisk.gendisk);
	vfree(streamdisk.data);
}

module_init(streamdisk_init);
module_exit(streamdisk_exit);

MODULE_DESCRIPTION("Disk in memory with write streams");
MODULE_AUTHOR("The dm-dsm authors");
MODULE_LICENSE("GPL");
