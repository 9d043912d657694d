// SPDX-License-Identifier: GPL-2.0-only
/*
 * The target under device-mapper: what is constructed, and what arrives at the
 * disk below.
 */
#include <kunit/test.h>
#include <linux/dm-ioctl.h>
#include <linux/prandom.h>
#include <linux/string.h>

#include "../dsm.h"
#include "mock.h"

#define START	4096	/* of the target on the disk */

/* The next bio that the disk got; the target's sector. */
static void expect_bio(struct kunit *test, struct dsm_mock_disk *disk, int nr,
		       enum req_op op, sector_t sector, unsigned int sectors,
		       u8 stream, u8 hint)
{
	const struct dsm_mock_bio *bio = &disk->bio[nr];

	KUNIT_ASSERT_GT(test, disk->nr, nr);
	KUNIT_EXPECT_EQ(test, bio->op, op);
	KUNIT_EXPECT_EQ(test, bio->sector, START + sector);
	KUNIT_EXPECT_EQ(test, bio->sectors, sectors);
	KUNIT_EXPECT_EQ(test, bio->stream, stream);
	KUNIT_EXPECT_EQ(test, bio->hint, hint);
	if (op == REQ_OP_WRITE)
		KUNIT_EXPECT_EQ(test, bio->data, sector);
}

static void expect_write(struct kunit *test, struct dsm_mock_stack *s, sector_t sector,
			 unsigned int sectors, u8 stream, u8 hint)
{
	dsm_mock_forget(s->disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s->dm, sector, sectors), 0);
	KUNIT_EXPECT_EQ(test, s->disk->nr, 1);
	expect_bio(test, s->disk, 0, REQ_OP_WRITE, sector, sectors, stream, hint);
}

/* Construction */

static const char * const bad_lines[] = {
	"", "%s", "%s x", "%s -1", "%s 18446744073709551616", "nosuchdevice 0",
	"%s 0 1", "%s 0 1 policy", "%s 0 2 policy", "%s 0 3 policy dsm groups",
	"%s 0 2 policy dsm groups 3", "%s 0 0 policy dsm", "%s 0 30", "%s 0 -2", "%s 0 x",
	"%s 0 2 policy best", "%s 0 2 colour blue", "%s 0 4 groups 3 groups 3",
	"%s 0 2 groups 1", "%s 0 2 groups 17", "%s 0 2 alpha 65", "%s 0 2 streams 256",
	"%s 0 2 stream_base 0", "%s 0 2 threshold1 20001", "%s 0 2 hints 1",
	"%s 0 2 threshold2 -1", "%s 0 2 prediction maybe", "%s 0 2 range all", "%s 0 2 foreign drop",
	"%s 2097152", "%s 2093057",	/* less than the target's length is left */
};

static void line_name(const char * const *line, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "'%s'", *line);
}

KUNIT_ARRAY_PARAM(bad_line, bad_lines, line_name);

static void a_wrong_line_is_refused(struct kunit *test)
{
	const char * const *line = test->param_value;
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);

	KUNIT_EXPECT_LT(test, dsm_mock_try_table(test, "dsm", 4096, *line, disk->bdev), 0);
}

static void features_have_defaults(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 8", disk->bdev);
	char device[16], expected[320];

	format_dev_t(device, disk->bdev->bd_dev);
	snprintf(expected, sizeof(expected),
		 "%s 8 30 policy dsm groups 3 alpha auto prediction predicted range written primary_filter on threshold1 1000 threshold2 5 streams auto stream_base 1 hints on foreign keep discard off discard_granularity auto discard_alignment auto",
		 device);
	KUNIT_EXPECT_STREQ(test, dsm_mock_table(dm), expected);
	KUNIT_EXPECT_STREQ(test, dsm_mock_status(dm),
			   "version 1 policy dsm layout dsm groups 3 device_streams 8 source queue streams_used 8 files 0 regions 0 extents 0 generation 0 windows 0 window_ms - unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0 upload 0 discard off");
}

static void the_table_line_makes_the_same_target_again(struct kunit *test)
{
	static const char features[] =
		"30 policy boundary groups 16 alpha 64 prediction computed range region "
		"primary_filter off threshold1 20000 threshold2 0 streams 255 "
		"stream_base 9 hints off foreign override discard on "
		"discard_granularity 131072 discard_alignment 4096";
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 16);
	struct dsm_mock_dm *dm =
		dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET,
			    "%s 0 30 POLICY Boundary groups 16 ALPHA 64 prediction computed "
			    "range region primary_filter off threshold1 20000 threshold2 0 "
			    "streams 255 stream_base 9 hints off foreign override discard on "
			    "discard_granularity 131072 discard_alignment 4096",
			    disk->bdev);
	char *line = kunit_kstrdup(test, dsm_mock_table(dm), GFP_KERNEL);

	KUNIT_EXPECT_NOT_NULL(test, strstr(line, features));
	KUNIT_ASSERT_EQ(test, dsm_mock_load(dm, "dsm", line, NULL), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);
	KUNIT_EXPECT_STREQ(test, dsm_mock_table(dm), line);
	/* 16 streams of which 9 to 16 are for us */
	dsm_mock_expect_status(test, dm, "policy boundary layout boundary groups 2 device_streams 16 source queue streams_used 7 ");
}

static void a_device_has_no_streams(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 0);
	struct dsm_mock_stack s = {
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 4096 2 streams 8", disk->bdev),
	};

	dsm_mock_upload(test, s.dm);
	dsm_mock_expect_status(test, s.dm, "policy dsm layout none groups 3 device_streams 0 source none streams_used 0 ");
	expect_write(test, &s, 0, 8, 0, WRITE_LIFE_EXTREME);
	expect_write(test, &s, 64, 8, 0, WRITE_LIFE_MEDIUM);
	expect_write(test, &s, 264, 8, 0, WRITE_LIFE_SHORT);
}

static void a_partition_has_the_streams_of_its_disk(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct block_device *partition = dsm_mock_partition(test, disk);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 2048", partition);
	struct dsm_mock_stack s = { .disk = disk, .dm = dm };

	dsm_mock_upload(test, dm);
	dsm_mock_expect_status(test, dm, "device_streams 8 source queue ");
	expect_write(test, &s, 64, 8, 4, WRITE_LIFE_MEDIUM);	/* 2048 + 2048 */
}

static void stated_streams_are_the_most_that_are_used(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET,
					     "%s 4096 4 streams 4 stream_base 3", disk->bdev);

	dsm_mock_upload(test, dm);
	dsm_mock_forget(disk);
	dsm_mock_expect_status(test, dm, "layout file groups 1 device_streams 8 source queue streams_used 4 ");
	for (sector_t sector = 0; sector < 288; sector += 8) {
		KUNIT_EXPECT_EQ(test, dsm_mock_write(dm, sector, 8), 0);
		KUNIT_EXPECT_GE(test, disk->bio[sector / 8].stream, 3);
		KUNIT_EXPECT_LE(test, disk->bio[sector / 8].stream, 6);
	}
}

static void a_device_that_loses_streams_gets_none_it_does_not_have(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	dsm_mock_set_streams(s.disk, 3);
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(s.dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);
	dsm_mock_expect_status(test, s.dm, "policy dsm layout file groups 1 device_streams 3 source queue streams_used 3 ");
	expect_write(test, &s, 128, 8, 3, WRITE_LIFE_MEDIUM);

	dsm_mock_set_streams(s.disk, 10);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "checkpoint"), 0);
	dsm_mock_expect_status(test, s.dm, "layout dsm groups 3 device_streams 10 source queue streams_used 10 ");
	expect_write(test, &s, 256, 8, 9, WRITE_LIFE_LONG);
}

/* Writes */

static const struct place {
	const char *what;
	sector_t sector;
	u8 stream, hint;
} places[] = {
	{ "the bottom of a collection", 0, 3, WRITE_LIFE_EXTREME },
	{ "its last sector", 63, 3, WRITE_LIFE_EXTREME },
	{ "the top of a collection", 64, 4, WRITE_LIFE_MEDIUM },
	{ "the bottom of an index", 128, 6, WRITE_LIFE_EXTREME },
	{ "the top of an index", 136, 7, WRITE_LIFE_MEDIUM },
	{ "a primary index", 256, 2, WRITE_LIFE_LONG },
	{ "the journal", 264, 2, WRITE_LIFE_SHORT },
	{ "the oplog", 272, 2, WRITE_LIFE_SHORT },
	{ "another file", 280, 1, WRITE_LIFE_NOT_SET },
	{ "a gap", 200, 1, WRITE_LIFE_NOT_SET },
	{ "the last sector of the target", DSM_MOCK_TARGET - 1, 1, WRITE_LIFE_NOT_SET },
};

KUNIT_ARRAY_PARAM_DESC(place, places, what);

static void a_write_gets_the_stream_of_its_region(struct kunit *test)
{
	const struct place *p = test->param_value;
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	expect_write(test, &s, p->sector, 1, p->stream, p->hint);
}

static void without_a_table_nothing_is_stamped(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	dsm_mock_begin(test, s.dm, "begin full 65536");
	dsm_mock_expect_reply(test, s.dm, "commit #", "generation 2 files 0 extents 0");
	expect_write(test, &s, 0, 256, 0, 0);
	dsm_mock_expect_status(test, s.dm, "unmapped_writes 1 unmapped_sectors 256 split 0 foreign 0 stream 0 1 256");
}

/* What is written, and the parts that arrive. */
static const struct straddle {
	const char *what;
	sector_t sector;
	unsigned int sectors;
	struct { unsigned int sectors; u8 stream; } part[8];
	const char *status;
} straddles[] = {
	{ "two sides of a boundary", 56, 16, { { 8, 3 }, { 8, 4 } },
	  "unmapped_writes 0 unmapped_sectors 0 split 1 foreign 0 stream 3 1 8 stream 4 1 8" },
	{ "two files and a gap", 120, 32, { { 8, 4 }, { 8, 6 }, { 8, 7 }, { 8, 1 } },
	  "unmapped_writes 1 unmapped_sectors 8 split 3 foreign 0 stream 1 1 8"
	  " stream 4 1 8 stream 6 1 8 stream 7 1 8" },
	{ "two files of one stream and hint", 264, 16, { { 16, 2 } },
	  "unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0 stream 2 1 16" },
	{ "a stream with two hints", 256, 16, { { 8, 2 }, { 8, 2 } },
	  "unmapped_writes 0 unmapped_sectors 0 split 1 foreign 0 stream 2 2 16" },
	{ "another file and a gap, of one stream", 280, 16, { { 16, 1 } },
	  "unmapped_writes 1 unmapped_sectors 8 split 0 foreign 0 stream 1 1 16" },
	{ "a gap, then a file", 250, 12, { { 6, 1 }, { 6, 2 } },
	  "unmapped_writes 1 unmapped_sectors 6 split 1 foreign 0 stream 1 1 6 stream 2 1 6" },
	{ "a whole table", 0, 288,
	  { { 64, 3 }, { 64, 4 }, { 8, 6 }, { 8, 7 }, { 112, 1 }, { 8, 2 }, { 16, 2 }, { 8, 1 } },
	  "unmapped_writes 1 unmapped_sectors 112 split 7 foreign 0"
	  " stream 1 2 120 stream 2 2 24 stream 3 1 64 stream 4 1 64 stream 6 1 8 stream 7 1 8" },
};

KUNIT_ARRAY_PARAM_DESC(straddle, straddles, what);

static void a_write_that_straddles_streams_is_divided(struct kunit *test)
{
	const struct straddle *c = test->param_value;
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");
	sector_t sector = c->sector;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, c->sector, c->sectors), 0);
	for (i = 0; i < ARRAY_SIZE(c->part) && c->part[i].sectors; i++) {
		const struct dsm_mock_bio *bio = &s.disk->bio[i];

		KUNIT_EXPECT_EQ(test, bio->sector, START + sector);
		KUNIT_EXPECT_EQ(test, bio->sectors, c->part[i].sectors);
		KUNIT_EXPECT_EQ(test, bio->stream, c->part[i].stream);
		KUNIT_EXPECT_EQ(test, bio->data, sector);
		dsm_mock_expect_kept(test, s.disk, START + sector, c->part[i].sectors,
				     bio->write, sector);
		sector += c->part[i].sectors;
	}
	KUNIT_EXPECT_EQ(test, s.disk->nr, i);
	dsm_mock_expect_status(test, s.dm, c->status);
}

/* Preemption is off while they are looked up. */
static void a_write_over_many_extents_is_divided(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");
	char line[64];

	dsm_mock_begin(test, s.dm, "begin full 65536");
	dsm_mock_take(test, s.dm, "upload # file 1 collection -");
	for (int i = 0; i < 200; i++) {
		snprintf(line, sizeof(line), "upload # extents %d:%d:8", 8 * (199 - i), 8 * i);
		dsm_mock_take(test, s.dm, line);
	}
	dsm_mock_expect_reply(test, s.dm, "commit #", "generation 2 files 1 extents 200");
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE, 0, 1600, 0, 0));
	KUNIT_ASSERT_EQ(test, s.disk->nr, 4);
	for (int i = 0; i < 4; i++)
		expect_bio(test, s.disk, i, REQ_OP_WRITE, 512 * i, i < 3 ? 512 : 64, 3, 5);
	dsm_mock_expect_status(test, s.dm, " split 3 foreign 0 stream 3 4 1600");
	dsm_mock_expect_reply(test, s.dm, "regions",
			      "1 collection - bottom 819200 0 0 - - 1 3 5 200\n");
}

static void a_divided_write_counts_in_each_region(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 48, 96), 0);
	dsm_mock_expect_reply(test, s.dm, "regions 0 2",
			      "1 collection 32768 bottom 32768 0 0 - - 1 3 5 2\n"
			      "1 collection 32768 top 32768 0 0 - - 2 4 3 8\n"
			      "2 index 4096 bottom 4096 0 0 - - 1 6 5 1\n"
			      "2 index 4096 top 4096 0 0 - - 2 7 3 1\n");
}

static void fua_stays_with_the_data(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_FUA | REQ_SYNC,
						 56, 16, 0, 0));
	KUNIT_ASSERT_EQ(test, s.disk->nr, 2);
	for (int i = 0; i < 2; i++) {
		expect_bio(test, s.disk, i, REQ_OP_WRITE, 56 + 8 * i, 8, 3 + i, i ? 3 : 5);
		KUNIT_EXPECT_TRUE(test, s.disk->bio[i].flags & REQ_FUA);
		KUNIT_EXPECT_TRUE(test, s.disk->bio[i].flags & REQ_SYNC);
	}
}

static void a_flush_with_data_stays_with_every_part(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_PREFLUSH,
						 56, 16, 0, 0));
	KUNIT_ASSERT_EQ(test, s.disk->nr, 2);
	for (int i = 0; i < 2; i++) {
		expect_bio(test, s.disk, i, REQ_OP_WRITE, 56 + 8 * i, 8, 3 + i, i ? 3 : 5);
		KUNIT_EXPECT_TRUE(test, s.disk->bio[i].flags & REQ_PREFLUSH);
	}
	dsm_mock_expect_status(test, s.dm, "split 1 foreign 0 stream 3 1 8 stream 4 1 8");
}

static void a_flush_alone_is_not_counted(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_PREFLUSH,
						 0, 0, 0, 0));
	KUNIT_ASSERT_EQ(test, s.disk->nr, 1);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].sectors, 0);
	KUNIT_EXPECT_TRUE(test, s.disk->bio[0].flags & REQ_PREFLUSH);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].stream, 0);
	dsm_mock_expect_status(test, s.dm, "unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0 upload 0");
	KUNIT_EXPECT_NULL(test, strstr(s.dm->reply, "stream 0"));
}

static const struct dataless {
	const char *what;
	enum req_op op;
} dataless[] = {
	{ "discard", REQ_OP_DISCARD },
	{ "write zeroes", REQ_OP_WRITE_ZEROES },
	{ "secure erase", REQ_OP_SECURE_ERASE },
};

KUNIT_ARRAY_PARAM_DESC(dataless, dataless, what);

static void what_carries_no_data_passes_unstamped_and_whole(struct kunit *test)
{
	const struct dataless *c = test->param_value;
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, c->op, 0, 288, 0, 0));
	KUNIT_EXPECT_EQ(test, s.disk->nr, 1);
	expect_bio(test, s.disk, 0, c->op, 0, 288, 0, 0);
	dsm_mock_expect_status(test, s.dm, "unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0 upload 0");
	KUNIT_EXPECT_NULL(test, strstr(s.dm->reply, "stream 0"));
}

static void a_read_passes(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 56, 16), 0);
	dsm_mock_take(test, s.dm, "reset");
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_READ, 48, 32, 0, 0));
	dsm_mock_expect_status(test, s.dm, "unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0 upload 0");
}

/* io_uring's IOPOLL; the mock disk says that it polls. */
static void a_polled_bio_is_divided_above_device_mapper(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *linear = dsm_mock_dm(test, "linear", 100000, "%s 4096", disk->bdev);
	struct dsm_mock_stack s = {
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0", linear->bdev),
	};

	dsm_mock_upload(test, s.dm);
	dsm_mock_forget(disk);
	KUNIT_ASSERT_TRUE(test, bdev_get_queue(s.dm->bdev)->limits.features & BLK_FEAT_POLL);

	/* The ends of a collection and of an index, twice over, and a gap */
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit_polled(s.dm->bdev, 56, 96));
	KUNIT_EXPECT_EQ(test, disk->nr, 5);
	for (int i = 0; i < 5; i++)
		KUNIT_EXPECT_FALSE(test, disk->bio[i].flags & REQ_DRV);
	expect_bio(test, disk, 0, REQ_OP_WRITE, 56, 8, 0, WRITE_LIFE_EXTREME);
	expect_bio(test, disk, 1, REQ_OP_WRITE, 64, 64, 0, WRITE_LIFE_MEDIUM);
	expect_bio(test, disk, 4, REQ_OP_WRITE, 144, 8, 0, WRITE_LIFE_NOT_SET);
	dsm_mock_expect_status(test, s.dm, " split 4 ");
}

static void a_zone_append_is_refused_above_us(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_NE(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_ZONE_APPEND, 0, 8, 0, 0));
	KUNIT_EXPECT_EQ(test, s.disk->nr, 0);
}

static void a_write_beyond_the_end_is_refused_above_us(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_EXPECT_EQ(test, -EIO, dsm_mock_write(s.dm, DSM_MOCK_TARGET - 1, 2));
	KUNIT_EXPECT_EQ(test, s.disk->nr, 0);
}

static void an_atomic_write_is_never_divided(struct kunit *test)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_ATOMIC_WRITES,
		.atomic_write_hw_max = 65536,
		.atomic_write_hw_unit_min = 4096,
		.atomic_write_hw_unit_max = 65536,
		.max_write_streams = 8,
	};
	struct dsm_mock_stack s;

	s.disk = dsm_mock_disk_limits(test, &limits);
	s.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 4096", s.disk->bdev);
	dsm_mock_upload(test, s.dm);
	dsm_mock_forget(s.disk);
	KUNIT_EXPECT_EQ(test, bdev_atomic_write_unit_max_bytes(s.dm->bdev), 65536);

	/* 48 to 79: both sides of a boundary; the stream is the first one's */
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_ATOMIC,
						 48, 32, 0, 0));
	KUNIT_EXPECT_EQ(test, s.disk->nr, 1);
	expect_bio(test, s.disk, 0, REQ_OP_WRITE, 48, 32, 3, 5);
	KUNIT_EXPECT_TRUE(test, s.disk->bio[0].flags & REQ_ATOMIC);
	dsm_mock_expect_reply(test, s.dm, "regions 0 1",
			      "1 collection 32768 bottom 32768 0 0 - - 1 3 5 2\n"
			      "1 collection 32768 top 32768 0 0 - - 2 4 3 2\n");
	dsm_mock_expect_status(test, s.dm, "split 0 foreign 0 stream 3 1 32");
}

/* Made by hand: blk_crypto_init_key() differs from kernel to kernel. */
static const struct blk_crypto_key key = {
	.crypto_cfg = {
		.key_type = BLK_CRYPTO_KEY_TYPE_RAW,
		.crypto_mode = BLK_ENCRYPTION_MODE_AES_256_XTS,
		.dun_bytes = sizeof(u64),
		.data_unit_size = 4096,
	},
	.data_unit_size_bits = 12,
	.size = 64,
};

static void inline_encryption_goes_on_in_the_next_part(struct kunit *test)
{
	struct dsm_mock_stack s;

	s.disk = dsm_mock_disk(test, 8);
	dsm_mock_encrypts(test, s.disk);
	s.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 4096", s.disk->bdev);
	dsm_mock_upload(test, s.dm);
	dsm_mock_forget(s.disk);
	KUNIT_ASSERT_EQ(test, 0, blk_crypto_start_using_key(s.dm->bdev, &key));

	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit_encrypted(s.dm->bdev, 48, 32, &key, 100));
	KUNIT_ASSERT_EQ(test, s.disk->nr, 2);
	expect_bio(test, s.disk, 0, REQ_OP_WRITE, 48, 16, 3, WRITE_LIFE_EXTREME);
	expect_bio(test, s.disk, 1, REQ_OP_WRITE, 64, 16, 4, WRITE_LIFE_MEDIUM);
	for (int i = 0; i < 2; i++) {
		KUNIT_EXPECT_TRUE(test, s.disk->bio[i].encrypted);
		KUNIT_EXPECT_EQ(test, s.disk->bio[i].dun, 100 + 2 * i);
	}
	blk_crypto_evict_key(s.dm->bdev, &key);
}

/*
 * Each data unit is encrypted by its number, so that one that is divided would be
 * encrypted in two ways: an edge within a unit is passed over, and not one behind it.
 */
static void an_encrypted_write_is_not_divided_inside_a_data_unit(struct kunit *test)
{
	struct dsm_mock_stack s;

	s.disk = dsm_mock_disk(test, 8);
	dsm_mock_encrypts(test, s.disk);
	s.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 4096", s.disk->bdev);
	dsm_mock_begin(test, s.dm, "begin full 65536");
	dsm_mock_take(test, s.dm, "upload # file 1 collection - 0:0:4 file 2 journal - 0:4:12 file 3 index - 0:16:8");
	KUNIT_ASSERT_EQ(test, dsm_mock_message(s.dm, "commit #"), 0);
	dsm_mock_forget(s.disk);
	KUNIT_ASSERT_EQ(test, 0, blk_crypto_start_using_key(s.dm->bdev, &key));

	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit_encrypted(s.dm->bdev, 0, 24, &key, 100));
	KUNIT_ASSERT_EQ(test, s.disk->nr, 2);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].sectors, 16);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].dun, 100);
	KUNIT_EXPECT_EQ(test, s.disk->bio[1].sectors, 8);
	KUNIT_EXPECT_EQ(test, s.disk->bio[1].dun, 102);
	KUNIT_EXPECT_NE(test, s.disk->bio[0].stream, s.disk->bio[1].stream);
	blk_crypto_evict_key(s.dm->bdev, &key);

	/* without a key it is */
	dsm_mock_forget(s.disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 0, 24), 0);
	KUNIT_EXPECT_EQ(test, s.disk->nr, 3);
}

/* A write to the top of the collection (stream 4, hint 3) with its own. */
static const struct foreign {
	const char *what;
	const char *set;	/* foreign */
	u8 stream, hint;	/* it comes with */
	u8 out_stream, out_hint;
	unsigned int kept;
} foreigns[] = {
	{ "keep: nothing of its own", "keep", 0, 0, 4, 3, 0 },
	{ "keep: a stream", "keep", 7, 0, 7, 3, 1 },
	{ "keep: a hint", "keep", 0, 4, 4, 4, 1 },
	{ "keep: both", "keep", 8, 2, 8, 2, 1 },
	{ "keep: a stream that the device does not have", "keep", 9, 0, 4, 3, 0 },
	{ "keep: that, and a hint", "keep", 255, 5, 4, 5, 1 },
	{ "override: both", "override", 7, 5, 4, 3, 0 },
	{ "override: a stream that the device does not have", "override", 9, 0, 4, 3, 0 },
	{ "class: a hint", "class", 0, 4, 4, 3, 0 },
	{ "class: both", "class", 7, 4, 7, 3, 1 },
};

KUNIT_ARRAY_PARAM_DESC(foreign, foreigns, what);

static void a_stream_or_hint_of_its_own(struct kunit *test)
{
	const struct foreign *c = test->param_value;
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");
	char line[32];

	snprintf(line, sizeof(line), "set foreign %s", c->set);
	dsm_mock_take(test, s.dm, line);
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE, 64, 8,
						 c->stream, c->hint));
	expect_bio(test, s.disk, 0, REQ_OP_WRITE, 64, 8, c->out_stream, c->out_hint);
	snprintf(line, sizeof(line), " foreign %u stream %u 1 8", c->kept, c->out_stream);
	dsm_mock_expect_status(test, s.dm, line);
}

/* What would be replaced, had we something to replace it with */
static void nothing_is_taken_away_where_nothing_is_stamped(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	dsm_mock_take(test, s.dm, "set foreign override");
	dsm_mock_take(test, s.dm, "set policy none");
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE, 64, 8, 5, 3));
	expect_bio(test, s.disk, 0, REQ_OP_WRITE, 64, 8, 5, 3);
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE, 64, 8, 0, 0));
	expect_bio(test, s.disk, 1, REQ_OP_WRITE, 64, 8, 0, 0);

	dsm_mock_take(test, s.dm, "set policy dsm");
	dsm_mock_begin(test, s.dm, "begin full 65536");
	dsm_mock_expect_reply(test, s.dm, "commit #", "generation 2 files 0 extents 0");
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE, 64, 8, 5, 3));
	expect_bio(test, s.disk, 2, REQ_OP_WRITE, 64, 8, 5, 3);
	dsm_mock_expect_status(test, s.dm, " foreign 2 ");

	/* A stream that the device has not goes in any case. */
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE, 64, 8, 9, 3));
	expect_bio(test, s.disk, 3, REQ_OP_WRITE, 64, 8, 0, 3);

	/* With "class" a hint is a name, and no device's concern. */
	dsm_mock_take(test, s.dm, "set foreign class");
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE, 64, 8, 5, 3));
	expect_bio(test, s.disk, 4, REQ_OP_WRITE, 64, 8, 5, 0);
}

/* A write that no extent covers, with the hint that names its class. */
static const struct named {
	u8 hint;
	u8 keep_stream, keep_hint;
	u8 class_stream, class_hint;
} nameds[] = {
	{ WRITE_LIFE_NOT_SET, 1, WRITE_LIFE_NOT_SET, 1, WRITE_LIFE_NOT_SET },
	{ WRITE_LIFE_NONE, 1, WRITE_LIFE_NONE, 1, WRITE_LIFE_NOT_SET },
	{ WRITE_LIFE_SHORT, 1, WRITE_LIFE_SHORT, 2, WRITE_LIFE_SHORT },
	{ WRITE_LIFE_MEDIUM, 1, WRITE_LIFE_MEDIUM, 6, WRITE_LIFE_EXTREME },
	{ WRITE_LIFE_LONG, 1, WRITE_LIFE_LONG, 3, WRITE_LIFE_EXTREME },
	{ WRITE_LIFE_EXTREME, 1, WRITE_LIFE_EXTREME, 2, WRITE_LIFE_SHORT },
	{ 77, 1, 77, 2, WRITE_LIFE_SHORT },
};

static void a_hint_names_the_class_where_no_extent_is(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");
	int n = 0;

	for (int i = 0; i < ARRAY_SIZE(nameds); i++) {
		const struct named *c = &nameds[i];

		dsm_mock_take(test, s.dm, "set foreign keep");
		KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE,
							 800, 8, 0, c->hint));
		expect_bio(test, s.disk, n++, REQ_OP_WRITE, 800, 8, c->keep_stream, c->keep_hint);
		dsm_mock_take(test, s.dm, "set foreign class");
		KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE,
							 800, 8, 0, c->hint));
		expect_bio(test, s.disk, n++, REQ_OP_WRITE, 800, 8, c->class_stream, c->class_hint);
	}
	dsm_mock_expect_status(test, s.dm, "unmapped_writes 14 unmapped_sectors 112 split 0 foreign 6");
}

static void expect_hinted(struct kunit *test, struct dsm_mock_stack *s, u8 hint, u8 stream, u8 sent)
{
	dsm_mock_forget(s->disk);
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s->dm->bdev, REQ_OP_WRITE, 800, 8, 0, hint));
	expect_bio(test, s->disk, 0, REQ_OP_WRITE, 800, 8, stream, sent);
}

static void a_hint_that_a_file_states_has_its_stream_where_no_extent_is(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	dsm_mock_begin(test, s.dm, "begin update 65536 1");
	dsm_mock_take(test, s.dm, "upload # file 77 other -");
	dsm_mock_take(test, s.dm, "upload # stamp 8 2");
	dsm_mock_take(test, s.dm, "upload # file 78 other -");
	dsm_mock_take(test, s.dm, "upload # stamp 7 5");
	dsm_mock_expect_reply(test, s.dm, "commit #", "generation 2 files 8 extents 8");
	expect_hinted(test, &s, WRITE_LIFE_SHORT, 1, WRITE_LIFE_SHORT);

	dsm_mock_take(test, s.dm, "set foreign class");
	expect_hinted(test, &s, WRITE_LIFE_SHORT, 8, WRITE_LIFE_SHORT);
	expect_hinted(test, &s, WRITE_LIFE_EXTREME, 7, WRITE_LIFE_EXTREME);
	expect_hinted(test, &s, WRITE_LIFE_LONG, 3, WRITE_LIFE_EXTREME);	/* a collection */
	dsm_mock_take(test, s.dm, "set policy none");
	expect_hinted(test, &s, WRITE_LIFE_EXTREME, 0, WRITE_LIFE_NOT_SET);
	dsm_mock_take(test, s.dm, "set policy dsm");

	/* As long as there is such a file */
	dsm_mock_begin(test, s.dm, "begin update 65536 2");
	dsm_mock_take(test, s.dm, "upload # drop 77");
	dsm_mock_expect_reply(test, s.dm, "commit #", "generation 3 files 7 extents 8");
	expect_hinted(test, &s, WRITE_LIFE_SHORT, 2, WRITE_LIFE_SHORT);		/* a journal */
	expect_hinted(test, &s, WRITE_LIFE_EXTREME, 7, WRITE_LIFE_EXTREME);
}

/* Writes of any size and place, on extents of any */

#define PIECES_SECTORS 4096	/* of the target that have extents and gaps */
#define PIECES_FILES 6
#define PIECES_GAP PIECES_FILES

static u8 piece_of[PIECES_SECTORS];	/* which file each sector is of */

/* Files 1 to 6 have the streams 2 to 7, in pieces of 1 to 40 sectors. */
static void upload_pieces(struct kunit *test, struct dsm_mock_dm *dm, struct rnd_state *rnd)
{
	char line[64];
	int sector, file;

	for (sector = 0; sector < PIECES_SECTORS;) {
		int end = min(sector + 1 + (int)(prandom_u32_state(rnd) % 40), PIECES_SECTORS);

		file = prandom_u32_state(rnd) % (PIECES_FILES + 1);
		while (sector < end)
			piece_of[sector++] = file;
	}

	dsm_mock_begin(test, dm, "begin full 65536");
	for (file = 0; file < PIECES_FILES; file++) {
		snprintf(line, sizeof(line), "upload # file %d other - stamp %d 0", file + 1,
			 file + 2);
		dsm_mock_take(test, dm, line);
		for (sector = 0; sector < PIECES_SECTORS;) {
			int start = sector;

			while (sector < PIECES_SECTORS && piece_of[sector] == piece_of[start])
				sector++;
			if (piece_of[start] != file)
				continue;
			snprintf(line, sizeof(line), "upload # extents %d:%d:%d", 3 * start, start,
				 sector - start);
			dsm_mock_take(test, dm, line);
		}
	}
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "commit #"), 0);
}

/* Where the file changes, so does the stamp. */
static unsigned int parts_of(unsigned int sector, unsigned int sectors)
{
	unsigned int parts = 1;

	while (--sectors) {
		parts += piece_of[sector] != piece_of[sector + 1];
		sector++;
	}
	return parts;
}

static void every_sector_of_a_write_arrives_where_it_belongs(struct kunit *test)
{
	static const unsigned int sizes[] = { 1, 7, 8, 9, 32, 33, 63, 128, 255, 1024, 2039, 2040 };
	struct dsm_mock_stack s = {};
	u64 wrote[PIECES_FILES + 1] = {};
	struct rnd_state rnd;
	unsigned int arrived = 0;
	char part[64];

	s.disk = dsm_mock_disk(test, 8);
	s.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 4096", s.disk->bdev);
	prandom_seed_state(&rnd, 1);
	upload_pieces(test, s.dm, &rnd);
	dsm_mock_forget(s.disk);

	for (int i = 0; i < 20 * ARRAY_SIZE(sizes); i++) {
		unsigned int sectors = sizes[i % ARRAY_SIZE(sizes)];
		unsigned int sector = prandom_u32_state(&rnd) % (PIECES_SECTORS - sectors);
		struct dsm_mock_write *write =
			dsm_mock_start(test, s.dm->bdev, REQ_OP_WRITE, sector, sectors, 0, 0);
		u64 number = write->number;

		KUNIT_EXPECT_EQ(test, dsm_mock_finish(write), 0);
		dsm_mock_expect_kept(test, s.disk, START + sector, sectors, number, sector);
		arrived += parts_of(sector, sectors);
		for (unsigned int at = sector; at < sector + sectors; at++)
			wrote[piece_of[at]] += 1;
	}
	KUNIT_EXPECT_EQ(test, s.disk->nr, arrived);
	snprintf(part, sizeof(part), " unmapped_sectors %llu ", wrote[PIECES_GAP]);
	dsm_mock_expect_status(test, s.dm, part);
	for (int file = 0; file < PIECES_FILES; file++) {
		u64 sectors = 0;
		char *at;
		int words;

		snprintf(part, sizeof(part), " stream %d ", file + 2);
		at = strstr(dsm_mock_status(s.dm), part);
		KUNIT_ASSERT_NOT_NULL(test, at);
		words = sscanf(at + strlen(part), "%*u %llu", &sectors);
		KUNIT_EXPECT_EQ(test, words, 1);
		KUNIT_EXPECT_EQ_MSG(test, sectors, wrote[file], "file %d", file + 1);
	}
}

/* Several targets of a table */

#define FIRST 1000		/* sectors of dm-linear in front */
#define SECOND_START 200000	/* of the second target on the disk */

static struct dsm_mock_stack two_targets(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	const struct dsm_mock_target targets[] = {
		{ 0, FIRST, "linear", "%s 0", disk->bdev },
		{ FIRST, DSM_MOCK_TARGET, "dsm", "%s 4096", disk->bdev },
		{ FIRST + DSM_MOCK_TARGET, DSM_MOCK_TARGET, "dsm", "%s 200000", disk->bdev },
	};
	struct dsm_mock_stack s = {
		.disk = disk,
		.dm = dsm_mock_dm_of(test, targets, ARRAY_SIZE(targets)),
	};

	s.dm->sectors = DSM_MOCK_TARGET;
	for (int i = 1; i < ARRAY_SIZE(targets); i++) {
		s.dm->target = targets[i].start;
		dsm_mock_upload(test, s.dm);
	}
	dsm_mock_forget(disk);
	return s;
}

/* The bio that arrived, by where it is on the disk and what it was written to. */
static void expect_at(struct kunit *test, struct dsm_mock_disk *disk, int nr,
		      sector_t sector, sector_t data, unsigned int sectors, u8 stream)
{
	KUNIT_ASSERT_GT(test, disk->nr, nr);
	KUNIT_EXPECT_EQ(test, disk->bio[nr].sector, sector);
	KUNIT_EXPECT_EQ(test, disk->bio[nr].data, data);
	KUNIT_EXPECT_EQ(test, disk->bio[nr].sectors, sectors);
	KUNIT_EXPECT_EQ(test, disk->bio[nr].stream, stream);
	dsm_mock_expect_kept(test, disk, sector, sectors, disk->bio[nr].write, data);
}

static void each_target_of_a_table_writes_where_it_lies(struct kunit *test)
{
	struct dsm_mock_stack s = two_targets(test);
	const sector_t second = FIRST + DSM_MOCK_TARGET;

	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, FIRST + 64, 32), 0);
	expect_at(test, s.disk, 0, START + 64, FIRST + 64, 32, 4);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, second + 64, 32), 0);
	expect_at(test, s.disk, 1, SECOND_START + 64, second + 64, 32, 4);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, second + 48, 32), 0);
	expect_at(test, s.disk, 2, SECOND_START + 48, second + 48, 16, 3);
	expect_at(test, s.disk, 3, SECOND_START + 64, second + 64, 16, 4);

	/* and what carries no data */
	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_DISCARD, second + 56, 16,
						 0, 0));
	KUNIT_EXPECT_EQ(test, s.disk->bio[4].sector, SECOND_START + 56);
	dsm_mock_expect_empty(test, s.disk, SECOND_START + 56, 16);

	s.dm->target = FIRST;
	dsm_mock_expect_status(test, s.dm, " unmapped_sectors 0 split 0 foreign 0 stream 4 1 32");
	s.dm->target = second;
	dsm_mock_expect_status(test, s.dm, "split 1 foreign 0 stream 3 1 16 stream 4 2 48");
	dsm_mock_expect_reply(test, s.dm, "regions 0 1",
			      "1 collection 32768 bottom 32768 0 0 - - 1 3 5 2\n"
			      "1 collection 32768 top 32768 0 0 - - 2 4 3 6\n");
}

static void a_write_across_targets_is_divided_between_them(struct kunit *test)
{
	struct dsm_mock_stack s = two_targets(test);
	const sector_t second = FIRST + DSM_MOCK_TARGET;

	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, FIRST - 16, 32), 0);
	expect_at(test, s.disk, 0, FIRST - 16, FIRST - 16, 16, 0);
	expect_at(test, s.disk, 1, START, FIRST, 16, 3);
	dsm_mock_forget(s.disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, second - 32, 128), 0);
	expect_at(test, s.disk, 0, START + DSM_MOCK_TARGET - 32, second - 32, 32, 1);
	expect_at(test, s.disk, 1, SECOND_START, second, 64, 3);
	expect_at(test, s.disk, 2, SECOND_START + 64, second + 64, 32, 4);
}

/* The rest of what device-mapper asks a target */

static void a_reload_begins_without_a_table(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_ASSERT_EQ(test, dsm_mock_load(s.dm, "dsm", "%s 4096 2 policy file", s.disk->bdev), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(s.dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);
	dsm_mock_expect_status(test, s.dm, "policy file layout file groups 1 device_streams 8 source queue streams_used 5 files 0 ");
	expect_write(test, &s, 64, 8, 0, 0);
}

static void a_suspend_keeps_the_table(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 4096");

	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(s.dm), 0);
	dsm_mock_expect_reply(test, s.dm, "regions 5",
			      "6 other - bottom 4096 0 0 - - - 1 0 0\n");
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(s.dm), 0);
	expect_write(test, &s, 64, 8, 4, 3);
}

static void an_ioctl_passes_to_the_device_below(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *whole = dsm_mock_dm(test, "dsm", DSM_MOCK_SECTORS, "%s 0", disk->bdev);

	/* the mock disk has none */
	KUNIT_EXPECT_EQ(test, -ENOTTY,
			whole->bdev->bd_disk->fops->ioctl(whole->bdev, 0, 0x1234, 0));
}

static void the_ima_line_names_the_target(struct kunit *test)
{
	struct target_type type = { .name = "dsm", .version = { 1, 0, 0 } };
	struct dm_dev dev = { .name = "259:0" };
	struct dsm *d = kunit_kzalloc(test, sizeof(*d), GFP_KERNEL);
	struct dm_target ti = { .type = &type, .private = d };
	char line[512];

	KUNIT_ASSERT_NOT_NULL(test, d);
	mutex_init(&d->lock);
	d->dev = &dev;
	d->start = 8;
	dsm_params_default(&d->params);
	d->params.policy = DSM_POLICY_BOUNDARY;
	dsm_status(&ti, STATUSTYPE_IMA, 0, line, sizeof(line));
	KUNIT_EXPECT_STREQ(test, line,
			   "target_name=dsm,target_version=1.0.0,device_name=259:0,start=8,"
			   "policy=boundary,groups=3,alpha=auto,prediction=predicted,range=written,"
			   "primary_filter=on,threshold1=1000,threshold2=5,streams=auto,"
			   "stream_base=1,hints=on,foreign=keep,discard=off,"
			   "discard_granularity=auto,discard_alignment=auto;");
}

static struct kunit_case target_cases[] = {
	KUNIT_CASE_PARAM(a_wrong_line_is_refused, bad_line_gen_params),
	KUNIT_CASE(features_have_defaults),
	KUNIT_CASE(the_table_line_makes_the_same_target_again),
	KUNIT_CASE(a_device_has_no_streams),
	KUNIT_CASE(a_partition_has_the_streams_of_its_disk),
	KUNIT_CASE(stated_streams_are_the_most_that_are_used),
	KUNIT_CASE(a_device_that_loses_streams_gets_none_it_does_not_have),
	KUNIT_CASE_PARAM(a_write_gets_the_stream_of_its_region, place_gen_params),
	KUNIT_CASE(without_a_table_nothing_is_stamped),
	KUNIT_CASE_PARAM(a_write_that_straddles_streams_is_divided, straddle_gen_params),
	KUNIT_CASE(a_write_over_many_extents_is_divided),
	KUNIT_CASE(a_divided_write_counts_in_each_region),
	KUNIT_CASE(fua_stays_with_the_data),
	KUNIT_CASE(a_flush_with_data_stays_with_every_part),
	KUNIT_CASE(a_flush_alone_is_not_counted),
	KUNIT_CASE_PARAM(what_carries_no_data_passes_unstamped_and_whole, dataless_gen_params),
	KUNIT_CASE(a_read_passes),
	KUNIT_CASE(a_polled_bio_is_divided_above_device_mapper),
	KUNIT_CASE(a_zone_append_is_refused_above_us),
	KUNIT_CASE(a_write_beyond_the_end_is_refused_above_us),
	KUNIT_CASE(an_atomic_write_is_never_divided),
	KUNIT_CASE(inline_encryption_goes_on_in_the_next_part),
	KUNIT_CASE(an_encrypted_write_is_not_divided_inside_a_data_unit),
	KUNIT_CASE_PARAM(a_stream_or_hint_of_its_own, foreign_gen_params),
	KUNIT_CASE(nothing_is_taken_away_where_nothing_is_stamped),
	KUNIT_CASE(a_hint_names_the_class_where_no_extent_is),
	KUNIT_CASE(a_hint_that_a_file_states_has_its_stream_where_no_extent_is),
	KUNIT_CASE(every_sector_of_a_write_arrives_where_it_belongs),
	KUNIT_CASE(each_target_of_a_table_writes_where_it_lies),
	KUNIT_CASE(a_write_across_targets_is_divided_between_them),
	KUNIT_CASE(a_reload_begins_without_a_table),
	KUNIT_CASE(a_suspend_keeps_the_table),
	KUNIT_CASE(an_ioctl_passes_to_the_device_below),
	KUNIT_CASE(the_ima_line_names_the_target),
	{}
};

static struct kunit_suite target_suite = {
	.name = "dm-dsm-target",
	.test_cases = target_cases,
};

kunit_test_suite(target_suite);
