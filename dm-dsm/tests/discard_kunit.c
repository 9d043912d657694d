// SPDX-License-Identifier: GPL-2.0-only
/*
 * Discards: which sectors reach the disk, and which writes wait.  The disk keeps
 * discards back where a test wants to look at what happens meanwhile.
 */
#include <kunit/test.h>
#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/device-mapper.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "../discard_priv.h"
#include "../dsm.h"
#include "../memory.h"
#include "mock.h"

#define START	4096	/* of the target on the disk */
#define AREA	1024	/* sectors that the table maps, from 0 on */

static void map_area(struct kunit *test, struct dsm_mock_dm *dm, u64 sectors)
{
	char record[64];

	snprintf(record, sizeof(record), "file 1 collection - 0:0:%llu", sectors);
	dsm_mock_map(test, dm, record);
}

static struct dsm_mock_stack new_stack_on(struct kunit *test, struct dsm_mock_disk *disk,
					  sector_t sectors)
{
	struct dsm_mock_stack s = {
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", sectors, "%s 4096 2 discard on", disk->bdev),
	};

	/* A test that ends early leaves nothing behind that its target waits for. */
	dsm_mock_end_discards(test, disk);
	map_area(test, s.dm, AREA);
	dsm_mock_forget(disk);
	return s;
}

static struct dsm_mock_stack new_stack(struct kunit *test)
{
	return new_stack_on(test, dsm_mock_disk(test, 8), DSM_MOCK_TARGET);
}

static int try_discard(struct dsm_mock_dm *dm, u64 since, const char *ranges)
{
	char message[256];

	snprintf(message, sizeof(message), "discard %llu %s", since, ranges);
	return dsm_mock_message(dm, message);
}

static void queue_discard(struct kunit *test, struct dsm_mock_dm *dm, u64 since,
			  const char *ranges)
{
	KUNIT_ASSERT_EQ(test, try_discard(dm, since, ranges), 0);
	KUNIT_EXPECT_TRUE(test, strstarts(dm->reply, "queued "));
}

static void wait_for_status(struct kunit *test, struct dsm_mock_dm *dm, const char *part)
{
	for (int i = 0; i < 60000 && !strstr(dsm_mock_status(dm), part); i++)
		usleep_range(500, 1000);
	KUNIT_ASSERT_NOT_NULL_MSG(test, strstr(dsm_mock_status(dm), part), "%s", dm->reply);
}

static void refuse_discard(struct kunit *test, struct dsm_mock_dm *dm, u64 since,
			   const char *ranges, int error, const char *reason)
{
	KUNIT_EXPECT_EQ(test, try_discard(dm, since, ranges), error);
	dsm_mock_expect_reply(test, dm, "error", reason);
}

/* In the target's sectors */
static void expect_discards(struct kunit *test, struct dsm_mock_stack *s, const char *expected)
{
	dsm_mock_expect_discards(test, s->disk, START, expected);
}

/* Asks for the whole area, and forgets what the disk has seen before. */
static void discard_area(struct kunit *test, struct dsm_mock_stack *s, u64 since,
			 const char *expected)
{
	dsm_mock_forget(s->disk);
	queue_discard(test, s->dm, since, "0:1024");
	dsm_mock_drain(test, s->dm);
	expect_discards(test, s, expected);
}

/* A bio that the test does not wait for */

struct async {
	struct bio bio;
	struct bio_vec vec;
	struct completion done;
	unsigned int ends;
};

static void async_end(struct bio *bio)
{
	struct async *a = container_of(bio, struct async, bio);

	a->ends++;
	complete(&a->done);
}

static struct async *start_bio(struct kunit *test, struct dsm_mock_dm *dm, blk_opf_t opf,
			       sector_t sector, unsigned int sectors)
{
	struct async *a = kunit_kzalloc(test, sizeof(*a), GFP_KERNEL);
	void *data = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	enum req_op op = opf & REQ_OP_MASK;

	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_ASSERT_NOT_NULL(test, data);
	init_completion(&a->done);
	bio_init(&a->bio, dm->bdev, &a->vec, 1, opf);
	a->bio.bi_iter.bi_sector = sector;
	if (op == REQ_OP_READ || op == REQ_OP_WRITE)	/* of a page at most */
		__bio_add_page(&a->bio, virt_to_page(data), sectors << SECTOR_SHIFT,
			       offset_in_page(data));
	else
		a->bio.bi_iter.bi_size = sectors << SECTOR_SHIFT;
	a->bio.bi_end_io = async_end;
	submit_bio(&a->bio);
	return a;
}

static bool is_done(struct async *a)
{
	return completion_done(&a->done);
}

static int wait_bio(struct kunit *test, struct async *a)
{
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&a->done, 60 * HZ), 0);
	KUNIT_EXPECT_EQ(test, a->ends, 1);
	bio_uninit(&a->bio);
	return blk_status_to_errno(a->bio.bi_status);
}

/* How often a bio of @op at @sector has reached the disk. */
static unsigned int arrived(struct dsm_mock_stack *s, enum req_op op, sector_t sector)
{
	unsigned int n = 0;

	for (int i = 0; i < min(s->disk->nr, ARRAY_SIZE(s->disk->bio)); i++)
		n += s->disk->bio[i].op == op && s->disk->bio[i].sector == START + sector;
	return n;
}

/* On and off */

static void discards_are_off_until_they_are_wanted(struct kunit *test)
{
	static const char untouched[] =
		" discard on discard_window 0 discard_valid 0 discard_queued 0"
		" discarded 0 discarded_sectors 0 discard_refused_sectors 0"
		" discard_failed 0 discard_held 0 discard_held_max_us 0 discard_plug_max_us 0"
		" discard_short_sectors 0"
		" discard_granularity 512 discard_alignment 512 discard_offset 0";
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0", disk->bdev);

	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), " discard off"));
	KUNIT_EXPECT_NULL(test, strstr(dm->reply, "discard_window"));
	dsm_mock_expect_refusal(test, dm, "window", -EINVAL, "window: discard is off");
	dsm_mock_expect_refusal(test, dm, "discard 1 0:8", -EINVAL,
				"discard: discard is off");

	dsm_mock_take(test, dm, "set discard on");
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), untouched));
	dsm_mock_window(test, dm);
	dsm_mock_take(test, dm, "set discard off");
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), " discard off"));
	dsm_mock_expect_refusal(test, dm, "window", -EINVAL, "window: discard is off");
}

/* Writes have to leave the fast path, which knows of no bitmap. */
static void writes_are_tracked_from_the_moment_it_is_on(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_stack s = {
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 4096", disk->bdev),
	};
	u64 w;

	map_area(test, s.dm, AREA);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	dsm_mock_take(test, s.dm, "set discard on");
	w = dsm_mock_window(test, s.dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	discard_area(test, &s, w, "0:64 72:952");
}

static void a_table_that_is_read_only_does_not_discard(struct kunit *test)
{
	const struct dsm_mock_target target = {
		.sectors = DSM_MOCK_TARGET,
		.type = "dsm",
		.args = "%s 0 2 discard on",
		.below = dsm_mock_disk(test, 8)->bdev,
		.read_only = true,
	};
	struct dsm_mock_dm *dm = dsm_mock_dm_of(test, &target, 1);

	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), " discard unsupported"));
	dsm_mock_expect_refusal(test, dm, "window", -EOPNOTSUPP,
				"window: underlying device does not support discard");
}

static void a_device_without_discards_is_unsupported(struct kunit *test)
{
	struct queue_limits limits = {};
	struct dsm_mock_disk *disk = dsm_mock_disk_limits(test, &limits);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET,
					     "%s 0 2 discard on", disk->bdev);

	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), " discard unsupported"));
	dsm_mock_expect_refusal(test, dm, "window", -EOPNOTSUPP,
				"window: underlying device does not support discard");
	dsm_mock_expect_refusal(test, dm, "discard 1 0:8", -EOPNOTSUPP,
				"discard: underlying device does not support discard");
	KUNIT_EXPECT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
}

/* What is discarded */

static void what_nobody_wrote_is_discarded(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	queue_discard(test, s.dm, w, "64:64 256:32");
	KUNIT_EXPECT_STREQ(test, s.dm->reply, "queued 2");
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "64:64 256:32");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded"), 2);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded_sectors"), 96);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_refused_sectors"), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_failed"), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_held"), 0);

	dsm_mock_take(test, s.dm, "reset");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded"), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_window"), w);
}

static void discards_go_through_device_mapper_below(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *low = dsm_mock_dm(test, "linear", DSM_MOCK_TARGET, "%s 4096",
					      disk->bdev);
	struct dsm_mock_stack s = {
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0 2 discard on", low->bdev),
	};
	u64 w;

	map_area(test, s.dm, AREA);
	w = dsm_mock_window(test, s.dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	discard_area(test, &s, w, "0:64 72:952");
}

static void ranges_are_sorted_and_joined(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	queue_discard(test, s.dm, w, "512:32 64:32 96:32 0:16 16:32 1000:24");
	KUNIT_EXPECT_STREQ(test, s.dm->reply, "queued 6");
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "0:48 64:64 512:32 1000:24");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_short_sectors"), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_refused_sectors"), 0);
}

static const struct touch {
	const char *what;
	blk_opf_t opf;
	sector_t sector;
	unsigned int sectors;
	const char *discards;	/* of the whole area then */
} touches[] = {
	{ "a page", REQ_OP_WRITE, 64, 8, "0:64 72:952" },
	{ "a sector in a page", REQ_OP_WRITE, 67, 1, "0:64 72:952" },
	{ "two pages in part", REQ_OP_WRITE, 71, 2, "0:64 80:944" },
	{ "the first page", REQ_OP_WRITE, 0, 8, "8:1016" },
	{ "the last page", REQ_OP_WRITE, 1016, 8, "0:1016" },
	{ "seven pages", REQ_OP_WRITE, 64, 56, "0:64 120:904" },
	{ "seven pages, two in part", REQ_OP_WRITE, 67, 50, "0:64 120:904" },
	{ "the first of a word", REQ_OP_WRITE, 512, 56, "0:512 568:456" },
	{ "the last of a word", REQ_OP_WRITE, 456, 56, "0:456 512:512" },
	{ "a page beyond a word", REQ_OP_WRITE, 464, 56, "0:464 520:504" },
	{ "across words", REQ_OP_WRITE, 480, 64, "0:480 544:480" },
	{ "a word", REQ_OP_WRITE, 512, 512, "0:512" },
	{ "beyond the table", REQ_OP_WRITE, 2048, 8, "0:1024" },
	{ "across the end of the table", REQ_OP_WRITE, 1008, 64, "0:1008" },
	{ "FUA", REQ_OP_WRITE | REQ_FUA | REQ_SYNC, 64, 8, "0:64 72:952" },
	{ "with a flush", REQ_OP_WRITE | REQ_PREFLUSH, 64, 8, "0:64 72:952" },
	{ "NOWAIT", REQ_OP_WRITE | REQ_NOWAIT, 64, 8, "0:64 72:952" },
	{ "write zeroes", REQ_OP_WRITE_ZEROES, 64, 256, "0:64 320:704" },
	{ "secure erase", REQ_OP_SECURE_ERASE, 64, 256, "0:64 320:704" },
	{ "a discard from above", REQ_OP_DISCARD, 60, 256, "0:56 320:704" },
	{ "a flush", REQ_OP_WRITE | REQ_PREFLUSH, 0, 0, "0:1024" },
	{ "a read", REQ_OP_READ, 64, 8, "0:1024" },
	{ "what leaves a page", REQ_OP_WRITE, 8, 8, "0:8 16:1008" },
};

static void touch_name(const struct touch *t, char *desc)
{
	strscpy(desc, t->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(touch, touches, touch_name);

static void submit_touch(struct kunit *test, struct dsm_mock_stack *s, const struct touch *t)
{
	if ((t->opf & REQ_OP_MASK) == REQ_OP_READ) {
		KUNIT_ASSERT_EQ(test, wait_bio(test, start_bio(test, s->dm, t->opf, t->sector,
							       t->sectors)), 0);
		return;
	}
	KUNIT_ASSERT_EQ(test, dsm_mock_submit(s->dm->bdev, t->opf, t->sector, t->sectors,
					      0, 0), 0);
}

static void a_page_that_was_touched_stays(struct kunit *test)
{
	const struct touch *t = test->param_value;
	struct dsm_mock_stack s = new_stack(test);
	u64 before = dsm_mock_window(test, s.dm), w;

	submit_touch(test, &s, t);
	discard_area(test, &s, before, t->discards);

	/* it counts for both windows, and then no more */
	w = dsm_mock_window(test, s.dm);
	discard_area(test, &s, before, t->discards);
	discard_area(test, &s, w, "0:1024");
	submit_touch(test, &s, t);
	discard_area(test, &s, w, t->discards);
	discard_area(test, &s, before, t->discards);
}

static void a_write_that_fails_counts(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	s.disk->fails = true;
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 64, 8), -EIO);
	s.disk->fails = false;
	discard_area(test, &s, w, "0:64 72:952");
}

static void every_part_of_a_divided_write_counts(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w;

	dsm_mock_map(test, s.dm,
		     "file 1 collection - 0:0:64 file 2 journal - 0:64:64 file 3 index - 0:128:896");
	w = dsm_mock_window(test, s.dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 48, 96), 0);
	KUNIT_EXPECT_EQ(test, s.disk->nr, 3);
	discard_area(test, &s, w, "0:48 144:880");
}

static void the_target_s_granularity_is_the_page(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	queue_discard(test, s.dm, w, "1:63 100:100 303:8 401:3");
	KUNIT_EXPECT_STREQ(test, s.dm->reply, "queued 2");	/* the others have no page */
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "8:56 104:96");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_short_sectors"), 7 + 4 + 8 + 3);
}

static const struct grain {
	const char *what;
	unsigned int granularity, alignment;	/* bytes */
	unsigned int max;			/* sectors */
	const char *discards;			/* of sectors 8 to 1016 */
} grains[] = {
	/* the target begins at 4096: 2 MiB */
	{ "4 KiB", SZ_4K, 0, UINT_MAX, "8:1008" },
	{ "8 KiB", SZ_8K, 0, UINT_MAX, "16:992" },
	{ "16 KiB", SZ_16K, 0, UINT_MAX, "32:960" },
	{ "64 KiB", SZ_64K, 0, UINT_MAX, "128:768" },
	{ "64 KiB and 4 KiB further", SZ_64K, SZ_4K, UINT_MAX, "8:896" },
	{ "256 KiB", SZ_256K, 0, UINT_MAX, "" },
	{ "24 KiB, no power of two", 3 * SZ_8K, 0, UINT_MAX, "32:960" },
	{ "at most 128 KiB", SZ_4K, 0, 256, "8:256 264:256 520:256 776:240" },
	{ "at most 80 KiB, of 64", SZ_64K, 0, 160,
	  "128:128 256:128 384:128 512:128 640:128 768:128" },
};

static void grain_name(const struct grain *g, char *desc)
{
	strscpy(desc, g->what, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(grain, grains, grain_name);

static void the_device_s_granularity_is_kept(struct kunit *test)
{
	const struct grain *g = test->param_value;
	struct queue_limits limits = {
		.max_hw_discard_sectors = g->max,
		.discard_granularity = g->granularity,
		.discard_alignment = g->alignment,
	};
	struct dsm_mock_stack s = new_stack_on(test, dsm_mock_disk_limits(test, &limits),
				      DSM_MOCK_TARGET);
	u64 w = dsm_mock_window(test, s.dm);

	dsm_mock_forget(s.disk);
	queue_discard(test, s.dm, w, "8:1008");
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, g->discards);
}

static void a_partition_shifts_the_granularity(struct kunit *test)
{
	struct queue_limits limits = {
		.max_hw_discard_sectors = UINT_MAX,
		.discard_granularity = SZ_64K,
		.discard_alignment = SZ_8K,
	};
	struct dsm_mock_disk *disk = dsm_mock_disk_limits(test, &limits);
	struct block_device *part = dsm_mock_partition(test, disk);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET,
					     "%s 40 2 discard on", part);
	u64 w;

	map_area(test, dm, AREA);
	w = dsm_mock_window(test, dm);
	dsm_mock_forget(disk);
	queue_discard(test, dm, w, "0:1024");
	dsm_mock_drain(test, dm);
	/* 2048 + 40 + 104 = 17 * 128 + 16, and 2048 + 40 + 1000 = 24 * 128 + 16 */
	KUNIT_ASSERT_EQ(test, disk->nr, 1);
	KUNIT_EXPECT_EQ(test, disk->bio[0].sector, 17 * 128 + 16);
	KUNIT_EXPECT_EQ(test, disk->bio[0].sectors, 7 * 128);
}

/* Windows */

static void expect_stale(struct kunit *test, struct dsm_mock_dm *dm, u64 window)
{
	char reason[96];

	snprintf(reason, sizeof(reason), "discard: Window %llu is not valid; none taken", window);
	refuse_discard(test, dm, window, "0:1024", -ESTALE, reason);
}

/* Each window has a write of its own. */
static void four_windows_are_known(struct kunit *test)
{
	static const char * const discards[] = {
		"0:512 552:472", "0:520 552:472", "0:528 552:472", "0:536 552:472", "0:544 552:472",
		"0:1024",
	};
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	for (int i = 0; i < 5; i++) {
		KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 512 + 8 * i, 8), 0);
		KUNIT_EXPECT_EQ(test, dsm_mock_window(test, s.dm), w + i + 1);
		KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_valid"),
				w + max(i - 2, 0));
	}
	for (int i = 2; i < 6; i++)
		discard_area(test, &s, w + i, discards[i]);
	expect_stale(test, s.dm, w);
	expect_stale(test, s.dm, w + 1);
	expect_stale(test, s.dm, w + 6);
	expect_stale(test, s.dm, 0);
}

static void send(struct kunit *test, struct dsm_mock_stack *s, const char *message,
		 const char *discards)
{
	dsm_mock_forget(s->disk);
	KUNIT_ASSERT_EQ_MSG(test, dsm_mock_message(s->dm, message), 0, "%s", message);
	dsm_mock_drain(test, s->dm);
	expect_discards(test, s, discards);
}

static void each_range_has_its_window(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);
	char message[128], reason[96];

	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 128, 8), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 512, 8), 0);
	dsm_mock_window(test, s.dm);

	/* neighbours become one run, whatever their order and windows */
	snprintf(message, sizeof(message), "discard %llu 128:64 512:64 %llu 0:64 192:64 72:56",
		 w + 1, w);
	send(test, &s, message, "0:64 72:184 512:64");
	snprintf(message, sizeof(message), "discard %llu 0:128 %llu 128:128", w, w + 1);
	send(test, &s, message, "0:64 72:184");
	snprintf(message, sizeof(message), "discard %llu 0:128 %llu 128:128", w + 1, w);
	send(test, &s, message, "0:128 136:120");

	snprintf(message, sizeof(message), "discard %llu 0:128 %llu 100:100", w + 1, w);
	dsm_mock_expect_refusal(test, s.dm, message, -EINVAL,
				"discard: Ranges overlap at sector 104; none taken");
	snprintf(message, sizeof(message), "discard %llu 0:128 %llu 128:1", w + 1, w - 1);
	snprintf(reason, sizeof(reason), "discard: Window %llu is not valid; none taken", w - 1);
	dsm_mock_expect_refusal(test, s.dm, message, -ESTALE, reason);
	dsm_mock_expect_refusal(test, s.dm, "discard 0:8 8:8", -EINVAL,
				"discard: Invalid window number '0:8'");
	snprintf(message, sizeof(message), "discard %llu 1:1 2:2", w);
	send(test, &s, message, "");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_queued"), 0);
}

/* A granule that is named in parts is sent; one of which a part is missing is not. */
static void runs_are_cut_inwards(struct kunit *test)
{
	struct queue_limits limits = {
		.max_hw_discard_sectors = UINT_MAX,
		.discard_granularity = SZ_128K,
	};
	struct dsm_mock_stack s = new_stack_on(test, dsm_mock_disk_limits(test, &limits),
					       DSM_MOCK_TARGET);
	u64 w = dsm_mock_window(test, s.dm);
	char message[128];

	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 0, 8), 0);
	dsm_mock_window(test, s.dm);
	snprintf(message, sizeof(message), "discard %llu 128:200 %llu 0:128", w, w + 1);
	send(test, &s, message, "0:256");
	snprintf(message, sizeof(message), "discard %llu 8:248 264:504", w);
	send(test, &s, message, "512:256");
	snprintf(message, sizeof(message), "discard %llu 128:128 %llu 0:120", w, w + 1);
	send(test, &s, message, "");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_short_sectors"),
			72 + 248 + 248 + 128 + 120);
}

static void expect_written(struct kunit *test, struct dsm_mock_dm *dm, u64 since,
			   const char *ranges, const char *reply)
{
	char message[256];

	snprintf(message, sizeof(message), "written %llu %s", since, ranges);
	dsm_mock_expect_reply(test, dm, message, reply);
}

static void what_was_written_is_asked(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack_on(test, dsm_mock_disk(test, 8),
					       DSM_MOCK_SECTORS - START);
	struct dsm_mock_dm *dm = s.dm;
	u64 w = dsm_mock_window(test, dm);
	char ranges[96];

	expect_written(test, dm, w, "0:1024", "written -0:1024 0");
	expect_written(test, dm, w, "7:8", "written 0");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 64, 8), 0);
	expect_written(test, dm, w, "64:8", "written 1");
	expect_written(test, dm, w, "512:64 0:64 64:64", "written -0:64 -72:56 -512:64 1");

	/* the last word of a chunk, and a chunk that only this window has */
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 32767 * 8, 8), 0);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE, 32767 * 8), 1);
	expect_written(test, dm, w, "262128:32", "written -262128:8 ?262144:16 1");
	dsm_mock_map(test, dm, "file 1 collection - 0:0:1024 file 2 index - 0:1048576:64");
	dsm_mock_window(test, dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 1048584, 8), 0);
	expect_written(test, dm, w, "1048576:24", "written ?1048576:8 ?1048592:8 1");
	expect_written(test, dm, w + 1, "1048576:24", "written -1048576:8 -1048592:8 1");
	snprintf(ranges, sizeof(ranges), "0:64 %llu 64:64 1048576:8", w + 1);
	expect_written(test, dm, w, ranges, "written -0:128 -1048576:8 0");

	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "written 1 0:8"), -ESTALE);
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);
	snprintf(ranges, sizeof(ranges), "written %llu 0:8", w + 1);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, ranges), -ESTALE);
}

static void watching_sends_nothing(struct kunit *test)
{
	struct queue_limits limits = {};
	struct dsm_mock_disk *disk = dsm_mock_disk_limits(test, &limits);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET,
					     "%s 4096 2 discard watch", disk->bdev);
	u64 w;

	map_area(test, dm, AREA);
	w = dsm_mock_window(test, dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 64, 8), 0);
	expect_written(test, dm, w, "64:16", "written -72:8 1");
	refuse_discard(test, dm, w, "0:8", -EINVAL, "discard: discard is only watched");
	dsm_mock_expect_status(test, dm, " discard watch ");
	dsm_mock_take(test, dm, "forget");
}

static void windows_outlive_watching(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	dsm_mock_take(test, s.dm, "set discard watch");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_window(test, s.dm), w + 1);
	dsm_mock_take(test, s.dm, "set discard on");
	discard_area(test, &s, w, "0:64 72:952");
	dsm_mock_take(test, s.dm, "set discard on");
	expect_stale(test, s.dm, w);
}

static void a_passed_ioctl_makes_windows_invalid(struct kunit *test)
{
	static const char * const modes[] = { "set discard on", "set discard watch" };
	struct dsm_mock_stack s = new_stack(test);

	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		dsm_mock_take(test, s.dm, modes[i]);
		dsm_mock_window(test, s.dm);
		KUNIT_EXPECT_NE(test, dsm_mock_field(test, s.dm, "discard_valid"), 0);
		s.dm->bdev->bd_disk->fops->ioctl(s.dm->bdev, 0, 0, 0);
		KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_valid"), 0);
	}
}

static void expect_invalid(struct kunit *test, struct dsm_mock_stack *s, u64 w)
{
	u64 next;

	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s->dm, "discard_valid"), 0);
	KUNIT_EXPECT_EQ(test, try_discard(s->dm, w, "0:1024"), -ESTALE);
	next = dsm_mock_window(test, s->dm);
	KUNIT_EXPECT_GT(test, next, w);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s->dm, "discard_valid"), next);
	KUNIT_EXPECT_EQ(test, try_discard(s->dm, w, "0:1024"), -ESTALE);
	discard_area(test, s, next, "0:1024");
}

static void a_suspend_makes_windows_invalid(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(s.dm), 0);
	KUNIT_EXPECT_EQ(test, try_discard(s.dm, w, "0:1024"), -ESTALE);
	dsm_mock_expect_refusal(test, s.dm, "window", -EBUSY, "window: device is suspended");
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);
	expect_invalid(test, &s, w);
}

static void a_reload_makes_windows_invalid(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	KUNIT_ASSERT_EQ(test, dsm_mock_load(s.dm, "dsm", "%s 4096 2 discard on", s.disk->bdev), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(s.dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_window"), 0);
	KUNIT_EXPECT_EQ(test, try_discard(s.dm, w, "0:1024"), -ESTALE);
	map_area(test, s.dm, AREA);
	expect_invalid(test, &s, w);
}

static void setting_the_feature_makes_windows_invalid(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	dsm_mock_take(test, s.dm, "set DISCARD on");
	expect_invalid(test, &s, w);
	w = dsm_mock_window(test, s.dm);
	dsm_mock_take(test, s.dm, "set discard off");
	dsm_mock_take(test, s.dm, "set discard on");
	expect_invalid(test, &s, w);
}

static void an_area_has_bits_from_the_next_window_on(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack_on(test, dsm_mock_disk(test, 8),
					       DSM_MOCK_SECTORS - START);
	const char *range = "1048576:64";	/* in another chunk */
	u64 first = dsm_mock_window(test, s.dm), second, third;

	dsm_mock_map(test, s.dm, "file 1 collection - 0:0:1024 file 2 index - 0:1048576:64");
	queue_discard(test, s.dm, first, range);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "");

	second = dsm_mock_window(test, s.dm);
	queue_discard(test, s.dm, first, range);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_refused_sectors"), 128);
	queue_discard(test, s.dm, second, range);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "1048576:64");

	/* and until the last window in which the table has it */
	map_area(test, s.dm, AREA);
	dsm_mock_forget(s.disk);
	queue_discard(test, s.dm, second, range);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "1048576:64");
	third = dsm_mock_window(test, s.dm);
	dsm_mock_forget(s.disk);
	queue_discard(test, s.dm, second, range);
	queue_discard(test, s.dm, third, range);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "");
}

static void without_a_table_all_is_refused(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_stack s = {
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 4096 2 discard on", disk->bdev),
	};
	u64 w = dsm_mock_window(test, s.dm);

	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 0, 8), 0);
	discard_area(test, &s, w, "");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_refused_sectors"), 1024);
}

/* Bad messages */

static const char * const bads[] = {
	":", "0:", ":8", "0:0", "0:8:8", "x:8", "0:-8", "65536:8", "65528:16",
	"8:18446744073709551608", "18446744073709551616:8",
	"000000000000000000000000000000000000000000:8",
};

static void a_bad_range_refuses_the_message(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);
	char ranges[64], reason[192];

	for (int i = 0; i < ARRAY_SIZE(bads); i++) {
		snprintf(ranges, sizeof(ranges), "0:64 %s", bads[i]);
		snprintf(reason, sizeof(reason),
			 "discard: Invalid range '%s', must be <start>:<length> within 65536 sectors; none taken",
			 bads[i]);
		refuse_discard(test, s.dm, w, ranges, -EINVAL, reason);
	}
	dsm_mock_expect_refusal(test, s.dm, "discard x 0:8", -EINVAL,
				"discard: Invalid window number 'x'");
	dsm_mock_expect_refusal(test, s.dm, "discard 1", -EINVAL,
				"Usage: discard <since> <start>:<length>...");
	dsm_mock_expect_refusal(test, s.dm, "window 1", -EINVAL, "Usage: window");
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_refused_sectors"), 0);
}

/* A write that somebody polls for */

struct polled {
	struct work_struct work;
	struct dsm_mock_dm *dm;
	int result;
};

static void submit_polled(struct work_struct *work)
{
	struct polled *p = container_of(work, struct polled, work);

	p->result = dsm_mock_submit_polled(p->dm->bdev, 72, 8);
}

/* Writes that meet a discard */

/* A discard of @ranges that the disk keeps back. */
static void keep_discard(struct kunit *test, struct dsm_mock_stack *s, const char *ranges,
			 unsigned int nr)
{
	u64 w = dsm_mock_window(test, s->dm);

	s->disk->keeps_discards = true;
	queue_discard(test, s->dm, w, ranges);
	dsm_mock_wait_kept(test, s->disk, nr);
}

static void let_discards_go(struct kunit *test, struct dsm_mock_stack *s, unsigned int nr)
{
	dsm_mock_complete(s->disk, nr);
}

static void a_write_waits_for_the_discard_that_it_overlaps(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct async *inside, *part, *zeroes, *trim;

	keep_discard(test, &s, "64:64 512:64", 2);
	inside = start_bio(test, s.dm, REQ_OP_WRITE, 72, 8);
	part = start_bio(test, s.dm, REQ_OP_WRITE, 127, 2);
	zeroes = start_bio(test, s.dm, REQ_OP_WRITE_ZEROES, 64, 8);
	trim = start_bio(test, s.dm, REQ_OP_DISCARD, 120, 8);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 56, 8), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 128, 8), 0);
	KUNIT_EXPECT_EQ(test, wait_bio(test, start_bio(test, s.dm, REQ_OP_READ, 64, 8)), 0);
	KUNIT_EXPECT_EQ(test, 0,
			dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_PREFLUSH, 0, 0, 0, 0));
	KUNIT_EXPECT_FALSE(test, is_done(inside) || is_done(part));
	KUNIT_EXPECT_FALSE(test, is_done(zeroes) || is_done(trim));
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE, 72), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_held"), 4);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_queued"), 2);

	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);		/* the other is still in flight */
	KUNIT_EXPECT_EQ(test, wait_bio(test, inside), 0);
	KUNIT_EXPECT_EQ(test, wait_bio(test, part), 0);
	KUNIT_EXPECT_EQ(test, wait_bio(test, zeroes), 0);
	KUNIT_EXPECT_EQ(test, wait_bio(test, trim), 0);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE, 72), 1);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE, 127), 1);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE_ZEROES, 64), 1);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_DISCARD, 120), 1);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 72, 8), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_queued"), 1);
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded"), 2);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_held"), 4);
}

static void a_write_waits_for_both_discards_that_it_overlaps(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct async *across;

	keep_discard(test, &s, "0:32 36:40", 2);	/* 0 to 31, and 40 to 71 */
	across = start_bio(test, s.dm, REQ_OP_WRITE, 30, 8);
	let_discards_go(test, &s, 1);
	KUNIT_EXPECT_EQ(test, wait_bio(test, across), 0);

	across = start_bio(test, s.dm, REQ_OP_WRITE_ZEROES, 30, 16);
	let_discards_go(test, &s, 1);
	KUNIT_EXPECT_EQ(test, wait_bio(test, across), 0);
	dsm_mock_drain(test, s.dm);

	keep_discard(test, &s, "0:32 40:40", 2);
	across = start_bio(test, s.dm, REQ_OP_WRITE_ZEROES, 30, 16);
	let_discards_go(test, &s, 1);
	msleep(20);
	KUNIT_EXPECT_FALSE(test, is_done(across));
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE_ZEROES, 30), 1);
	let_discards_go(test, &s, 1);
	KUNIT_EXPECT_EQ(test, wait_bio(test, across), 0);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE_ZEROES, 30), 2);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_held"), 3);
}

static void a_write_does_not_wait_for_discards_that_are_not_sent_yet(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct async *write;
	bool early = false;

	/* The disk takes one at a time. */
	s.disk->keeps_at_most = 1;
	keep_discard(test, &s, "64:64 512:64 1024:64", 1);
	write = start_bio(test, s.dm, REQ_OP_WRITE, 72, 8);
	let_discards_go(test, &s, 1);
	dsm_mock_wait_kept(test, s.disk, 1);
	expect_discards(test, &s, "64:64 512:64");
	for (int i = 0; i < 3000 && !early; i++) {
		msleep(20);
		early = is_done(write);
	}
	let_discards_go(test, &s, 1);
	dsm_mock_wait_kept(test, s.disk, 1);
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
	KUNIT_EXPECT_EQ(test, wait_bio(test, write), 0);
	KUNIT_EXPECT_TRUE(test, early);
	expect_discards(test, &s, "64:64 512:64 1024:64");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_held"), 1);
}

static void a_nowait_write_is_to_come_again(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);

	keep_discard(test, &s, "64:64", 1);
	KUNIT_EXPECT_EQ(test, -EAGAIN,
			dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_NOWAIT, 64, 8, 0, 0));
	KUNIT_EXPECT_EQ(test, 0,
			dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_NOWAIT, 128, 8, 0, 0));
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_held"), 0);
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
	KUNIT_EXPECT_EQ(test, 0,
			dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_NOWAIT, 64, 8, 0, 0));
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE, 64), 1);
}

static void a_write_before_the_check_is_seen_by_it(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	/* The worker waits for the first, and has not looked at the second. */
	s.disk->keeps_discards = true;
	queue_discard(test, s.dm, w, "64:64");
	dsm_mock_wait_kept(test, s.disk, 1);
	queue_discard(test, s.dm, w, "512:64");
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 520, 8), 0);
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "64:64 512:8 528:48");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_held"), 0);
}

/* As io_uring's IOPOLL: nobody polls for what the worker sends later. */
static void a_polled_write_that_waits_is_not_polled_any_more(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct polled *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, p);
	keep_discard(test, &s, "64:64", 1);
	p->dm = s.dm;
	INIT_WORK(&p->work, submit_polled);
	queue_work(system_long_wq, &p->work);
	for (int i = 0; i < 60000 && !dsm_mock_field(test, s.dm, "discard_held"); i++)
		usleep_range(500, 1000);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE, 72), 0);
	let_discards_go(test, &s, 1);
	flush_work(&p->work);
	KUNIT_EXPECT_EQ(test, p->result, 0);
	KUNIT_ASSERT_EQ(test, arrived(&s, REQ_OP_WRITE, 72), 1);
	KUNIT_EXPECT_FALSE(test, s.disk->bio[1].flags & REQ_POLLED);
	dsm_mock_drain(test, s.dm);
}

static void a_window_under_way_does_not_let_a_write_through(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct async *write;
	u64 w, next;

	keep_discard(test, &s, "64:64", 1);
	dsm_mock_window(test, s.dm);
	next = dsm_mock_window(test, s.dm);
	write = start_bio(test, s.dm, REQ_OP_WRITE, 64, 8);
	KUNIT_EXPECT_FALSE(test, is_done(write));
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	KUNIT_EXPECT_EQ(test, wait_bio(test, write), 0);
	discard_area(test, &s, next, "0:64 72:952");

	/* what has waited for too long is refused */
	dsm_mock_forget(s.disk);
	keep_discard(test, &s, "256:64", 1);
	w = dsm_mock_field(test, s.dm, "discard_window");
	queue_discard(test, s.dm, w, "512:64");
	for (int i = 0; i < DSM_WINDOWS; i++)
		next = dsm_mock_window(test, s.dm);
	queue_discard(test, s.dm, next, "640:64");
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "256:64 640:64");
}

static void a_failed_discard_is_forgotten(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	s.disk->discards_fail = BLK_STS_IOERR;
	queue_discard(test, s.dm, w, "64:64 512:64");
	dsm_mock_drain(test, s.dm);
	s.disk->discards_fail = 0;
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_failed"), 2);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded"), 0);
	discard_area(test, &s, w, "0:1024");
}

static void a_device_that_refuses_ends_it(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);

	s.disk->discards_fail = BLK_STS_NOTSUPP;
	s.disk->when = DSM_MOCK_AT_ONCE;
	queue_discard(test, s.dm, w, "64:64 256:64 512:64");
	wait_for_status(test, s.dm, " discard unsupported");
	expect_discards(test, &s, "64:64");	/* it is not asked again */
	KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "window"), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, try_discard(s.dm, w, "0:8"), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);

	s.disk->discards_fail = 0;
	dsm_mock_take(test, s.dm, "set discard on");
	w = dsm_mock_window(test, s.dm);
	discard_area(test, &s, w, "0:1024");
}

static void off_lets_no_write_overtake_a_discard(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct async *write;
	struct dsm_mock_sender *off;
	u64 w, last = 0;

	keep_discard(test, &s, "64:64", 1);
	w = dsm_mock_field(test, s.dm, "discard_window");
	off = dsm_mock_send(test, s.dm, "set discard off");
	wait_for_status(test, s.dm, " discard off");
	write = start_bio(test, s.dm, REQ_OP_WRITE, 64, 8);
	KUNIT_EXPECT_FALSE(test, is_done(write));
	KUNIT_EXPECT_FALSE(test, completion_done(&off->done));
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	KUNIT_EXPECT_EQ(test, wait_bio(test, write), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_sent(test, off), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	KUNIT_EXPECT_EQ(test, arrived(&s, REQ_OP_WRITE, 64), 2);

	/* Then nothing is kept of it: the numbers start over. */
	for (int i = 0; i < 10000; i++) {
		dsm_mock_take(test, s.dm, "set discard on");
		last = w;
		w = dsm_mock_window(test, s.dm);
		if (w != last + 1)
			break;
		dsm_mock_take(test, s.dm, "set discard off");
		usleep_range(500, 1000);
	}
	KUNIT_EXPECT_GT(test, w, last + 1);
}

/* Suspend and removal, while the disk keeps a discard */

struct later {
	struct work_struct work;
	struct dsm_mock_stack s;
	struct completion done;
	int result;
};

static void later_suspend(struct work_struct *work)
{
	struct later *l = container_of(work, struct later, work);

	l->result = dsm_mock_suspend(l->s.dm);
	complete(&l->done);
}

/* Also of a test that ends early. */
static void end_later(void *data)
{
	struct later *l = data;

	dsm_mock_let_discards_go(l->s.disk);
	flush_work(&l->work);
}

/* Somebody suspends the device; on return no discard is taken any more. */
static struct later *suspend_later(struct kunit *test, struct dsm_mock_stack *s)
{
	struct later *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	l->s = *s;
	init_completion(&l->done);
	INIT_WORK(&l->work, later_suspend);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, end_later, l), 0);
	queue_work(system_long_wq, &l->work);
	for (int i = 0; i < 60000 && dsm_mock_field(test, s->dm, "discard_valid"); i++)
		usleep_range(500, 1000);
	return l;
}

static void wait_suspended(struct kunit *test, struct later *l)
{
	KUNIT_ASSERT_NE(test, wait_for_completion_timeout(&l->done, 60 * HZ), 0);
	KUNIT_EXPECT_EQ(test, l->result, 0);
}

static void a_suspend_drains_discards_and_held_writes(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct async *write;
	struct later *l;
	u64 w = dsm_mock_window(test, s.dm);

	s.disk->keeps_discards = true;
	queue_discard(test, s.dm, w, "64:64");
	dsm_mock_wait_kept(test, s.disk, 1);
	queue_discard(test, s.dm, w, "512:64");
	write = start_bio(test, s.dm, REQ_OP_WRITE, 64, 8);

	l = suspend_later(test, &s);
	KUNIT_EXPECT_FALSE(test, completion_done(&l->done));
	KUNIT_EXPECT_FALSE(test, is_done(write));

	let_discards_go(test, &s, 1);
	KUNIT_EXPECT_EQ(test, wait_bio(test, write), 0);
	wait_suspended(test, l);
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "64:64");		/* what waited was refused */
	s.disk->keeps_discards = false;
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);
	expect_invalid(test, &s, w);
}

/* What stops discards, while the disk takes one at a time */

static const struct stop {
	const char *message;
	const char *discards;	/* of the area then */
} stops[] = {
	{ "forget", "0:1024" },
	{ "set discard off", NULL },
};

static void stop_name(const struct stop *stop, char *desc)
{
	strscpy(desc, stop->message, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(stop, stops, stop_name);

static bool has_stopped(const struct dsm *d)
{
	const struct dsm_discard *dd = rcu_dereference_protected(d->discard, true);

	return READ_ONCE(dd->stops) > 1 || READ_ONCE(dd->ending);	/* a resume is the first */
}

/* The message ends when nothing is in flight, and nothing is sent after it. */
static void nothing_is_sent_after_the_message(struct kunit *test)
{
	const struct stop *stop = test->param_value;
	struct dsm_mock_stack s = new_stack(test);
	struct dsm *d = dsm_mock_target(test, s.dm);
	struct dsm_mock_sender *sender;
	struct async *write;
	unsigned int sent;

	/* The worker waits with the second, and has not come to the others. */
	s.disk->keeps_at_most = 1;
	keep_discard(test, &s, "64:64 256:64 512:64 768:64", 1);
	sender = dsm_mock_send(test, s.dm, stop->message);
	for (int i = 0; i < 60000 && !has_stopped(d); i++)
		usleep_range(500, 1000);
	KUNIT_ASSERT_TRUE(test, has_stopped(d));
	write = start_bio(test, s.dm, REQ_OP_WRITE, 776, 8);
	let_discards_go(test, &s, 1);
	dsm_mock_wait_kept(test, s.disk, 1);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, completion_done(&sender->done));
	let_discards_go(test, &s, 1);
	KUNIT_EXPECT_EQ(test, dsm_mock_sent(test, sender), 0);

	sent = s.disk->nr;
	KUNIT_EXPECT_EQ(test, wait_bio(test, write), 0);
	s.disk->keeps_discards = false;
	if (stop->discards)
		dsm_mock_drain(test, s.dm);
	KUNIT_EXPECT_LE(test, s.disk->nr, sent + 1);	/* the write */
	expect_discards(test, &s, "64:64 256:64");
	if (!stop->discards)
		return;
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded_sectors"), 128);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_refused_sectors"), 128);
	discard_area(test, &s, dsm_mock_window(test, s.dm), stop->discards);
}

static void a_message_that_stops_nothing_does_not_wait(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);

	dsm_mock_take(test, s.dm, "forget");
	discard_area(test, &s, dsm_mock_window(test, s.dm), "0:1024");
	dsm_mock_take(test, s.dm, "forget");
	dsm_mock_take(test, s.dm, "set discard off");
}

/* Who waits for a device that hangs can be killed; what the message stops is stopped. */
static int forget_and_be_killed(void *data)
{
	struct dsm *d = data;
	char forget[] = "forget", *argv[] = { forget }, result[16];

	allow_signal(SIGKILL);
	return dsm_message(d->ti, 1, argv, result, sizeof(result));
}

static void who_waits_for_a_discard_can_be_killed(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct dsm *d = dsm_mock_target(test, s.dm);
	struct task_struct *thread;

	keep_discard(test, &s, "64:64", 1);
	thread = kthread_create(forget_and_be_killed, d, "dsm-forget");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	get_task_struct(thread);
	wake_up_process(thread);
	for (int i = 0; i < 60000 && !has_stopped(d); i++)
		usleep_range(500, 1000);
	msleep(50);
	send_sig(SIGKILL, thread, 1);
	KUNIT_EXPECT_EQ(test, kthread_stop(thread), -EINTR);
	put_task_struct(thread);
	KUNIT_EXPECT_EQ(test, s.disk->nr_kept, 1);
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
}

static void restore_timeout(void *unused)
{
	dsm_discard_timeout = 20000;
}

static void a_device_that_hangs_is_not_waited_for_without_end(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_timeout, NULL), 0);
	dsm_discard_timeout = 50;
	keep_discard(test, &s, "64:64", 1);
	dsm_mock_expect_refusal(test, s.dm, "forget", -ETIMEDOUT,
				"forget: Discards sent before are still in flight");
	dsm_mock_expect_refusal(test, s.dm, "set discard off", -ETIMEDOUT,
				"set: Discards sent before are still in flight");
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(s.dm), " discard off"));
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	wait_for_status(test, s.dm, " discard off");
	expect_discards(test, &s, "64:64");
}

/* What was stopped stays so, whatever comes then. */
static const struct undo {
	const char *message, *then;
} undos[] = {
	{ "set discard off", "set discard on" },
	{ "set discard off", "set discard watch" },
	{ "set discard watch", "set discard on" },
	{ "set discard on", "set discard on" },
	{ "forget", "window" },
};

static void undo_name(const struct undo *undo, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s, %s", undo->message, undo->then);
}

KUNIT_ARRAY_PARAM(undo, undos, undo_name);

static void let_one_by_one_go(struct kunit *test, struct dsm_mock_stack *s)
{
	s->disk->keeps_discards = false;
	for (int i = 0;
	     i < 2000 && (i < 100 || dsm_mock_field(test, s->dm, "discard_queued")); i++) {
		dsm_mock_complete(s->disk, UINT_MAX);
		wake_up(&s->disk->room);
		usleep_range(500, 1000);
	}
}

static void what_was_stopped_stays_so(struct kunit *test)
{
	const struct undo *undo = test->param_value;
	struct dsm_mock_stack s = new_stack(test);

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_timeout, NULL), 0);
	dsm_discard_timeout = 50;
	s.disk->keeps_at_most = 1;
	keep_discard(test, &s, "64:64 256:64 512:64 768:64", 1);
	dsm_mock_message(s.dm, undo->message);
	dsm_mock_message(s.dm, undo->then);
	let_one_by_one_go(test, &s);
	expect_discards(test, &s, "64:64 256:64");
}

/* As dm does when the suspend fails. */
static void a_suspend_that_fails_stops_as_well(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct dsm *d = dsm_mock_target(test, s.dm);

	s.disk->keeps_at_most = 1;
	keep_discard(test, &s, "64:64 256:64 512:64 768:64", 1);
	dsm_discard_stop(d);
	dsm_discard_resume(d);
	let_one_by_one_go(test, &s);
	expect_discards(test, &s, "64:64 256:64");
}

static void another_feature_waits_for_nothing(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_timeout, NULL), 0);
	dsm_discard_timeout = 50;
	keep_discard(test, &s, "64:64", 1);
	dsm_mock_expect_refusal(test, s.dm, "set discard watch", -ETIMEDOUT,
				"set: Discards sent before are still in flight");
	dsm_mock_take(test, s.dm, "set groups 4");
	/* and the end of what was sent before does not end watching */
	s.disk->discards_fail = BLK_STS_NOTSUPP;
	s.disk->keeps_discards = false;
	for (struct bio *bio = s.disk->kept.head; bio; bio = bio->bi_next)
		bio->bi_status = BLK_STS_NOTSUPP;
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
	msleep(50);
	dsm_mock_expect_status(test, s.dm, " discard watch ");
	KUNIT_EXPECT_NE(test, dsm_mock_field(test, s.dm, "discard_valid"), 0);
}

/* A range has no page, or one between two that have none: it has its room all the same. */
static void ranges_without_pages_are_counted(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);
	char *message = kunit_kzalloc(test, 16000, GFP_KERNEL);
	int at, r = 0;

	KUNIT_ASSERT_NOT_NULL(test, message);
	s.disk->keeps_discards = true;
	queue_discard(test, s.dm, w, "64:64");
	dsm_mock_wait_kept(test, s.disk, 1);
	at = scnprintf(message, 16000, "discard %llu 0:8", w);
	for (int i = 0; i < 3000; i++)
		at += scnprintf(message + at, 16000 - at, " 1:1");
	for (int i = 0; i < 100 && !r; i++)
		r = dsm_mock_message(s.dm, message);
	KUNIT_EXPECT_EQ(test, r, -EBUSY);
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
}

static void a_suspend_stops_what_is_not_sent_yet(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct later *l;

	s.disk->keeps_at_most = 1;
	keep_discard(test, &s, "64:64 256:64 512:64 768:64", 1);
	l = suspend_later(test, &s);
	let_discards_go(test, &s, 1);
	dsm_mock_wait_kept(test, s.disk, 1);
	let_discards_go(test, &s, 1);
	wait_suspended(test, l);
	expect_discards(test, &s, "64:64 256:64");
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);
}

/* On the last processor, which is not the test's own: see leave_processor(). */
static struct task_struct *run_thread(struct kunit *test, int (*function)(void *),
				      void *data, const char *name)
{
	struct task_struct *thread;

	thread = kthread_create_on_cpu(function, data, cpumask_last(cpu_online_mask), name);
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	get_task_struct(thread);
	wake_up_process(thread);
	return thread;
}

/* There is another one, and the test goes there: the tests' threads do not yield theirs. */
static void leave_processor(struct kunit *test)
{
	unsigned int cpu = cpumask_first(cpu_online_mask);

	if (num_online_cpus() < 2)
		kunit_skip(test, "there is one processor only");
	KUNIT_ASSERT_EQ(test, set_cpus_allowed_ptr(current, cpumask_of(cpu)), 0);
}

/* A write that is being mapped on another processor, and takes its time. */
struct mapping {
	struct task_struct *thread;
	struct completion inside;
	bool leave;
};

static int map_slowly(void *data)
{
	struct mapping *m = data;

	rcu_read_lock_sched();
	complete(&m->inside);
	while (!READ_ONCE(m->leave))
		cpu_relax();
	rcu_read_unlock_sched();
	return 0;
}

static void end_mapping(void *data)
{
	struct mapping *m = data;

	WRITE_ONCE(m->leave, true);
	kthread_stop_put(m->thread);
}

static struct mapping *enter_mapping(struct kunit *test)
{
	struct mapping *m;

	leave_processor(test);
	m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m);
	init_completion(&m->inside);
	m->thread = run_thread(test, map_slowly, m, "dsm-map/%u");
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_mapping, m), 0);
	wait_for_completion(&m->inside);
	return m;
}

static void leave_mapping(struct kunit *test, struct mapping *m)
{
	kunit_release_action(test, end_mapping, m);
}

/* Whether writes look for discards or do not, as is @wanted, within a minute. */
static bool writes_look(struct dsm *d, bool wanted)
{
	for (int i = 0; i < 3000 && !!rcu_access_pointer(d->written) == wanted; i++)
		msleep(20);
	return !!rcu_access_pointer(d->written) != wanted &&
	       dsm_discard_note(d, REQ_OP_WRITE, 0, 0) == wanted;
}

static void a_check_waits_for_writes_that_do_not_know_of_it(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct dsm *d = dsm_mock_target(test, s.dm);
	u64 w = dsm_mock_window(test, s.dm);
	struct mapping *m;

	s.disk->keeps_discards = true;
	m = enter_mapping(test);
	queue_discard(test, s.dm, w, "64:64");
	KUNIT_EXPECT_TRUE(test, writes_look(d, true));
	msleep(50);
	KUNIT_EXPECT_EQ(test, READ_ONCE(s.disk->nr_kept), 0);
	leave_mapping(test, m);
	dsm_mock_wait_kept(test, s.disk, 1);
	dsm_mock_complete(s.disk, 1);
	dsm_mock_drain(test, s.dm);
}

/*
 * A write that is mapped on another processor and touches so many pages that discards
 * begin meanwhile: its bits come before it looks whether they have begun, and the check
 * comes after its bits.
 */
#define NOTED	(64ULL * SZ_1G >> SECTOR_SHIFT)	/* sectors that take milliseconds */

struct noting {
	struct dsm *d;
	struct task_struct *thread;
	bool saw_discards;
	bool done;
};

static int note_slowly(void *data)
{
	struct noting *n = data;

	n->saw_discards = dsm_discard_note(n->d, REQ_OP_WRITE, 0, NOTED);
	WRITE_ONCE(n->done, true);
	return 0;
}

static void end_noting(void *data)
{
	struct noting *n = data;

	kthread_stop_put(n->thread);
}

/* Returns whether discards began between the first bit and the last. */
static bool note_while_discards_begin(struct kunit *test, struct dsm_mock_dm *dm,
				      struct noting *n)
{
	u64 w = dsm_mock_window(test, dm);
	const struct dsm_bits *bits;
	unsigned long *last;
	bool met;

	KUNIT_ASSERT_TRUE(test, writes_look(n->d, false));
	bits = rcu_dereference_protected(n->d->written, true);
	last = bits->chunk[bits->nr - 1] + DSM_CHUNK_PAGES / BITS_PER_LONG - 1;

	n->done = false;
	n->thread = run_thread(test, note_slowly, n, "dsm-note/%u");
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, end_noting, n), 0);
	while (!READ_ONCE(*bits->chunk[0]) && !READ_ONCE(n->done))
		cond_resched();
	queue_discard(test, dm, w, "134217664:64");
	while (rcu_access_pointer(n->d->written) && !READ_ONCE(n->done))
		cond_resched();
	smp_rmb();	/* pairs with the lock that publishes it */
	met = !rcu_access_pointer(n->d->written) && !READ_ONCE(*last);
	kunit_release_action(test, end_noting, n);
	dsm_mock_drain(test, dm);
	return met;
}

static void a_write_looks_for_discards_when_its_bits_are_set(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct noting *n = kunit_kzalloc(test, sizeof(*n), GFP_KERNEL);
	bool met = false;
	struct dsm_mock_stack s;

	KUNIT_ASSERT_NOT_NULL(test, n);
	if (IS_ENABLED(CONFIG_PROVE_LOCKING))
		kunit_skip(test, "discards take too long to begin on this kernel");
	leave_processor(test);
	set_capacity(disk->gendisk, START + NOTED);
	s = new_stack_on(test, disk, NOTED);
	map_area(test, s.dm, NOTED);
	n->d = dsm_mock_target(test, s.dm);
	dsm_mock_window(test, s.dm);

	for (int i = 0; i < 1000 && !met; i++)
		met = note_while_discards_begin(test, s.dm, n);
	KUNIT_ASSERT_TRUE(test, met);
	KUNIT_EXPECT_TRUE(test, n->saw_discards);
	expect_discards(test, &s, "");
}

static void a_window_waits_for_writes_that_see_the_one_before(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct dsm_mock_sender *window;
	struct mapping *m;

	dsm_mock_window(test, s.dm);
	m = enter_mapping(test);
	window = dsm_mock_send(test, s.dm, "window");
	msleep(50);
	KUNIT_EXPECT_FALSE(test, completion_done(&window->done));
	leave_mapping(test, m);
	KUNIT_EXPECT_EQ(test, dsm_mock_sent(test, window), 0);
}

static void a_queue_holds_65536_ranges(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	char *message = kunit_kzalloc(test, 16000, GFP_KERNEL);
	unsigned int queued = 0;
	u64 w = dsm_mock_window(test, s.dm);
	int r;

	KUNIT_ASSERT_NOT_NULL(test, message);
	s.disk->keeps_discards = true;
	queue_discard(test, s.dm, w, "0:64");
	dsm_mock_wait_kept(test, s.disk, 1);

	for (;;) {
		size_t at = scnprintf(message, 16000, "discard %llu", w);

		for (int i = 0; i < 1024; i++)
			at += scnprintf(message + at, 16000 - at, " %u:8", 128 + 16 * i);
		r = dsm_mock_message(s.dm, message);
		if (r)
			break;
		queued += 1024;
	}
	KUNIT_EXPECT_EQ(test, r, -EBUSY);
	KUNIT_EXPECT_EQ(test, queued, 63 * 1024);	/* and a window each */
	dsm_mock_expect_reply(test, s.dm, "error",
			      "discard: Queue full, cannot add 1024 ranges (queue holds 65536); none taken");
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_queued"), queued + 1);
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	dsm_mock_drain(test, s.dm);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded"), queued + 1);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded_sectors"), 64 + queued * 8);
}

static void a_target_goes_away_with_ranges_queued(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w = dsm_mock_window(test, s.dm);
	struct later *l;

	s.disk->keeps_discards = true;
	queue_discard(test, s.dm, w, "64:64");
	dsm_mock_wait_kept(test, s.disk, 1);
	queue_discard(test, s.dm, w, "512:64");

	KUNIT_ASSERT_EQ(test, dsm_mock_load(s.dm, "dsm", "%s 4096", s.disk->bdev), 0);
	l = suspend_later(test, &s);
	msleep(50);
	KUNIT_EXPECT_FALSE(test, completion_done(&l->done));
	s.disk->keeps_discards = false;
	let_discards_go(test, &s, 1);
	wait_suspended(test, l);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);	/* the old target is gone */
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(s.dm), " discard off"));
	expect_discards(test, &s, "64:64");
}

static void many_runs_take_several_plugs(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	u64 w;

	s.disk->when = DSM_MOCK_AT_ONCE;
	map_area(test, s.dm, 65536);
	w = dsm_mock_window(test, s.dm);
	/* every ninth page: 910 runs of 32 KiB, and two pages */
	for (int page = 8; page < 8192; page += 9)
		KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, page * 8, 8), 0);
	dsm_mock_forget(s.disk);
	queue_discard(test, s.dm, w, "0:65536");
	dsm_mock_drain(test, s.dm);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded"), 911);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded_sectors"), 910 * 64 + 16);
	KUNIT_EXPECT_EQ(test, s.disk->nr, 911);
	for (int i = 0; i < 64; i++) {
		KUNIT_EXPECT_EQ(test, s.disk->bio[i].sector, START + i * 72);
		KUNIT_EXPECT_EQ(test, s.disk->bio[i].sectors, 64);
	}
}

static void a_long_range_is_discarded_whole(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack_on(test, dsm_mock_disk(test, 8),
					       DSM_MOCK_SECTORS - START);
	u64 w, next = 0;

	map_area(test, s.dm, DSM_MOCK_SECTORS - START);
	w = dsm_mock_window(test, s.dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 1048576, 8), 0);
	dsm_mock_forget(s.disk);
	queue_discard(test, s.dm, w, "0:2093056");
	dsm_mock_drain(test, s.dm);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discarded_sectors"), 2093056 - 8);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_refused_sectors"), 8);
	for (int i = 0; i < s.disk->nr; i++) {
		if (next == 1048576)
			next += 8;
		KUNIT_EXPECT_EQ(test, s.disk->bio[i].sector, START + next);
		KUNIT_EXPECT_LE(test, s.disk->bio[i].sectors, SZ_64M >> SECTOR_SHIFT);
		next += s.disk->bio[i].sectors;
	}
	KUNIT_EXPECT_EQ(test, next, 2093056);
}

/* Memory */

/* The bitmap of the next window; after a refusal it has no chunk. */
static unsigned int spare_chunks(const struct dsm *d)
{
	const struct dsm_discard *dd = rcu_dereference_protected(d->discard, true);
	const struct dsm_bits *bits = dd->slot[(dd->current_slot + 1) % DSM_WINDOWS];
	unsigned int nr = 0;

	for (u32 i = 0; i < bits->nr; i++)
		nr += !!bits->chunk[i];
	return nr;
}

static void a_window_that_is_refused_keeps_no_memory(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack_on(test, dsm_mock_disk(test, 8),
					       DSM_MOCK_SECTORS - START);
	struct dsm *d = dsm_mock_target(test, s.dm);
	u64 w;

	for (int i = 0; i < DSM_WINDOWS; i++)
		dsm_mock_window(test, s.dm);
	KUNIT_EXPECT_EQ(test, spare_chunks(d), 1);
	map_area(test, s.dm, DSM_MOCK_SECTORS - START);		/* 8 chunks */

	dsm_mock_limit_memory(test, 7 * SZ_4K - 1);
	dsm_mock_expect_refusal(test, s.dm, "window", -ENOMEM,
				"Cannot allocate write bitmap; discard window invalidated");
	KUNIT_EXPECT_EQ(test, spare_chunks(d), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, s.dm, "discard_valid"), 0);
	dsm_mock_limit_memory(test, 8 * SZ_4K);
	w = dsm_mock_window(test, s.dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(s.dm, 1048576, 8), 0);
	dsm_mock_forget(s.disk);
	queue_discard(test, s.dm, w, "1048448:256");
	dsm_mock_drain(test, s.dm);
	expect_discards(test, &s, "1048448:128 1048584:120");

	/* What is there already needs nothing. */
	for (int i = 0; i < DSM_WINDOWS; i++)
		dsm_mock_window(test, s.dm);
	dsm_mock_limit_memory(test, 0);
	dsm_mock_window(test, s.dm);
}

/* As many chunks as the machine has pages, of which some are in use. */
static void a_bitmap_larger_than_the_memory_is_not_begun(struct kunit *test)
{
	const u64 chunk = DSM_CHUNK_PAGES * DSM_PAGE_SECTORS, file = 65536 * chunk;
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	u64 sectors = roundup(totalram_pages() * (PAGE_SIZE / SZ_4K) * chunk, file);
	char message[96];
	struct dsm_mock_stack s;
	long before;

	if (sectors / file > 64)
		kunit_skip(test, "the machine has too much memory");
	set_capacity(disk->gendisk, START + sectors);
	s = new_stack_on(test, disk, sectors);
	snprintf(message, sizeof(message), "begin full %llu", sectors);
	dsm_mock_begin(test, s.dm, message);
	for (u64 i = 0; i < sectors / file; i++) {
		snprintf(message, sizeof(message), "upload # file %llu collection - 0:%llu:%llu",
			 i + 1, i * file, file);
		KUNIT_ASSERT_EQ(test, dsm_mock_message(s.dm, message), 0);
	}
	KUNIT_ASSERT_EQ(test, dsm_mock_message(s.dm, "commit #"), 0);

	before = si_mem_available();
	dsm_mock_expect_refusal(test, s.dm, "window", -ENOMEM,
				"Cannot allocate write bitmap; discard window invalidated");
	KUNIT_EXPECT_GT(test, si_mem_available(), before - (long)totalram_pages() / 16);
}

/* One of these above the other: the discards of one are writes to the other. */
static void discards_above_discards(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *low = dsm_mock_dm(test, "dsm", 2 * DSM_MOCK_TARGET,
					      "%s 4096 2 discard on", disk->bdev);
	struct dsm_mock_dm *high = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET,
					       "%s 0 2 discard on", low->bdev);
	struct async *write;
	u64 of_low, of_high;

	dsm_mock_end_discards(test, disk);
	map_area(test, low, AREA);
	map_area(test, high, AREA);
	of_low = dsm_mock_window(test, low);
	of_high = dsm_mock_window(test, high);

	/* The lower one is in flight; the upper one waits for it, and a write for that. */
	disk->keeps_discards = true;
	queue_discard(test, low, of_low, "0:512");
	dsm_mock_wait_kept(test, disk, 1);
	queue_discard(test, high, of_high, "256:512");
	for (int i = 0; i < 60000 && !dsm_mock_field(test, low, "discard_held"); i++)
		usleep_range(500, 1000);
	write = start_bio(test, high, REQ_OP_WRITE, 264, 8);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, high, "discard_held"), 1);
	KUNIT_EXPECT_FALSE(test, is_done(write));
	disk->keeps_discards = false;
	dsm_mock_complete(disk, 1);
	KUNIT_EXPECT_EQ(test, wait_bio(test, write), 0);
	dsm_mock_drain(test, high);
	dsm_mock_drain(test, low);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, high, "discarded_sectors"), 512);
	KUNIT_EXPECT_EQ(test, dsm_mock_field(test, low, "discarded_sectors"), 512);
}

/*
 * Discards of one target are ending, or have been exchanged: its worker may run once
 * more, and writes must not find its bitmap.
 */
static void only_the_target_s_own_bitmap_is_published(struct kunit *test)
{
	struct dsm_mock_stack s = new_stack(test);
	struct dsm *d = dsm_mock_target(test, s.dm);
	struct dsm_discard *dd = rcu_dereference_protected(d->discard, true);

	dsm_mock_window(test, s.dm);
	KUNIT_EXPECT_NOT_NULL(test, rcu_access_pointer(d->written));
	spin_lock_irq(&d->discard_lock);
	rcu_assign_pointer(d->discard, NULL);
	rcu_assign_pointer(d->written, NULL);
	dsm_discard_publish(dd);
	KUNIT_EXPECT_NULL(test, rcu_access_pointer(d->written));
	rcu_assign_pointer(d->discard, dd);
	dsm_discard_publish(dd);
	KUNIT_EXPECT_NOT_NULL(test, rcu_access_pointer(d->written));
	spin_unlock_irq(&d->discard_lock);
}

/*
 * No kernel thread can be made, and all workers there are have work that does not end.
 * What is left are the rescuers: one target's waits for a disk that hangs.
 */
#define BUSY	512	/* works; more than there are workers */

struct busy {
	struct completion go_on;
	struct work_struct work[BUSY];
};

static struct busy busy;

static void wait_to_go_on(struct work_struct *work)
{
	wait_for_completion(&busy.go_on);
}

static int set_max_threads(const char *max)
{
	struct file *file = filp_open("/proc/sys/kernel/threads-max", O_WRONLY, 0);
	loff_t at = 0;
	int r;

	if (IS_ERR(file))
		return PTR_ERR(file);
	r = kernel_write(file, max, strlen(max), &at);
	filp_close(file, NULL);
	return r;
}

static void make_all_busy(void)
{
	init_completion(&busy.go_on);
	for (int i = 0; i < BUSY; i++) {
		INIT_WORK(&busy.work[i], wait_to_go_on);
		queue_work(system_unbound_wq, &busy.work[i]);
	}
}

static void end_busy(void)
{
	set_max_threads("10000");
	complete_all(&busy.go_on);
	for (int i = 0; i < BUSY; i++)
		flush_work(&busy.work[i]);
}

static bool reaches_disk(struct dsm_mock_disk *disk)
{
	for (int i = 0; i < 3000 && !READ_ONCE(disk->nr); i++)
		msleep(20);
	return READ_ONCE(disk->nr);
}

static void a_target_goes_on_while_another_hangs(struct kunit *test)
{
	struct dsm_mock_stack hangs = new_stack(test), s = new_stack(test);
	u64 of_hanging = dsm_mock_window(test, hangs.dm), w = dsm_mock_window(test, s.dm);

	hangs.disk->keeps_discards = true;
	if (set_max_threads("1") < 0)
		kunit_skip(test, "there is no /proc");
	/* A test that ends here could not be cleaned up: that takes a thread. */
	make_all_busy();
	KUNIT_EXPECT_EQ(test, try_discard(hangs.dm, of_hanging, "64:64"), 0);
	KUNIT_EXPECT_TRUE(test, reaches_disk(hangs.disk));
	KUNIT_EXPECT_EQ(test, try_discard(s.dm, w, "64:64"), 0);
	KUNIT_EXPECT_TRUE(test, reaches_disk(s.disk));
	end_busy();
	hangs.disk->keeps_discards = false;
	dsm_mock_complete(hangs.disk, 1);
	dsm_mock_drain(test, hangs.dm);
	dsm_mock_drain(test, s.dm);
}

static struct kunit_case discard_cases[] = {
	KUNIT_CASE(discards_are_off_until_they_are_wanted),
	KUNIT_CASE(writes_are_tracked_from_the_moment_it_is_on),
	KUNIT_CASE(a_table_that_is_read_only_does_not_discard),
	KUNIT_CASE(a_device_without_discards_is_unsupported),
	KUNIT_CASE(what_nobody_wrote_is_discarded),
	KUNIT_CASE(discards_go_through_device_mapper_below),
	KUNIT_CASE(ranges_are_sorted_and_joined),
	KUNIT_CASE_PARAM(a_page_that_was_touched_stays, touch_gen_params),
	KUNIT_CASE(a_write_that_fails_counts),
	KUNIT_CASE(every_part_of_a_divided_write_counts),
	KUNIT_CASE(the_target_s_granularity_is_the_page),
	KUNIT_CASE_PARAM(the_device_s_granularity_is_kept, grain_gen_params),
	KUNIT_CASE(a_partition_shifts_the_granularity),
	KUNIT_CASE(four_windows_are_known),
	KUNIT_CASE(each_range_has_its_window),
	KUNIT_CASE(runs_are_cut_inwards),
	KUNIT_CASE(what_was_written_is_asked),
	KUNIT_CASE(watching_sends_nothing),
	KUNIT_CASE(windows_outlive_watching),
	KUNIT_CASE(a_passed_ioctl_makes_windows_invalid),
	KUNIT_CASE(another_feature_waits_for_nothing),
	KUNIT_CASE(ranges_without_pages_are_counted),
	KUNIT_CASE(a_suspend_that_fails_stops_as_well),
	KUNIT_CASE_PARAM(what_was_stopped_stays_so, undo_gen_params),
	KUNIT_CASE(a_suspend_makes_windows_invalid),
	KUNIT_CASE(a_reload_makes_windows_invalid),
	KUNIT_CASE(setting_the_feature_makes_windows_invalid),
	KUNIT_CASE(an_area_has_bits_from_the_next_window_on),
	KUNIT_CASE(without_a_table_all_is_refused),
	KUNIT_CASE(a_bad_range_refuses_the_message),
	KUNIT_CASE(a_write_waits_for_the_discard_that_it_overlaps),
	KUNIT_CASE(a_write_waits_for_both_discards_that_it_overlaps),
	KUNIT_CASE(a_write_does_not_wait_for_discards_that_are_not_sent_yet),
	KUNIT_CASE(a_nowait_write_is_to_come_again),
	KUNIT_CASE(a_polled_write_that_waits_is_not_polled_any_more),
	KUNIT_CASE(a_write_before_the_check_is_seen_by_it),
	KUNIT_CASE(a_window_under_way_does_not_let_a_write_through),
	KUNIT_CASE(a_failed_discard_is_forgotten),
	KUNIT_CASE(a_device_that_refuses_ends_it),
	KUNIT_CASE(off_lets_no_write_overtake_a_discard),
	KUNIT_CASE_PARAM(nothing_is_sent_after_the_message, stop_gen_params),
	KUNIT_CASE(a_message_that_stops_nothing_does_not_wait),
	KUNIT_CASE(who_waits_for_a_discard_can_be_killed),
	KUNIT_CASE(a_device_that_hangs_is_not_waited_for_without_end),
	KUNIT_CASE(a_suspend_stops_what_is_not_sent_yet),
	KUNIT_CASE(a_suspend_drains_discards_and_held_writes),
	KUNIT_CASE(a_target_goes_away_with_ranges_queued),
	KUNIT_CASE(a_check_waits_for_writes_that_do_not_know_of_it),
	KUNIT_CASE(a_write_looks_for_discards_when_its_bits_are_set),
	KUNIT_CASE(a_window_waits_for_writes_that_see_the_one_before),
	KUNIT_CASE(a_queue_holds_65536_ranges),
	KUNIT_CASE(many_runs_take_several_plugs),
	KUNIT_CASE(a_long_range_is_discarded_whole),
	KUNIT_CASE(a_window_that_is_refused_keeps_no_memory),
	KUNIT_CASE(a_bitmap_larger_than_the_memory_is_not_begun),
	KUNIT_CASE(discards_above_discards),
	KUNIT_CASE(only_the_target_s_own_bitmap_is_published),
	KUNIT_CASE(a_target_goes_on_while_another_hangs),
	{}
};

static struct kunit_suite discard_suite = {
	.name = "dm-dsm-discard",
	.test_cases = discard_cases,
};

kunit_test_suite(discard_suite);
