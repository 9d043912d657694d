// SPDX-License-Identifier: GPL-2.0-only
/* Above dm-linear, above a disk that fails writes with some streams. */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/rw_hint.h>
#include <linux/string.h>

#include "mock_test.h"

struct stack {
	struct dsm_mock_disk *disk;
	struct dsm_mock_dm *dm;
};

/* The table of dsm_mock_upload(); the user has stated 8 streams. */
static struct stack stated(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 3);
	struct dsm_mock_dm *linear = dsm_mock_dm(test, "linear", 100000, "%s 0", disk->bdev);
	struct stack s = {
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0 2 streams 8",
				  linear->bdev),
	};

	dsm_mock_upload(test, s.dm);
	dsm_mock_forget(disk);
	return s;
}

/* Waits for the workqueue: the status takes the lock that it needs. */
static void expect_source(struct kunit *test, struct dsm_mock_dm *dm, const char *part)
{
	for (int i = 0; i < 100 && !strstr(dsm_mock_status(dm), part); i++)
		fsleep(10000);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dm->reply, part),
				  "'%s' is not in '%s'", part, dm->reply);
}

/* Of the last write that the disk took */
static void expect_arrived(struct kunit *test, struct dsm_mock_disk *disk,
			   sector_t sector, unsigned int sectors, u8 stream)
{
	KUNIT_ASSERT_GT(test, disk->nr, 0);
	KUNIT_EXPECT_EQ(test, disk->bio[disk->nr - 1].sector, sector);
	KUNIT_EXPECT_EQ(test, disk->bio[disk->nr - 1].sectors, sectors);
	KUNIT_EXPECT_EQ(test, disk->bio[disk->nr - 1].stream, stream);
}

static void a_refused_stream_ends_all_stamps_and_no_write(struct kunit *test)
{
	struct stack s = stated(test);

	s.disk->refused_from = 4;
	s.disk->refusal = BLK_STS_INVAL;
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 0, 8), 0);
	expect_arrived(test, s.disk, 0, 8, 3);
	KUNIT_EXPECT_EQ(test, s.disk->refused, 0);

	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	expect_arrived(test, s.disk, 64, 8, 0);
	KUNIT_EXPECT_EQ(test, s.disk->refused, 1);
	expect_source(test, s.dm, "layout none groups 3 device_streams 0 source refused streams 0 ");

	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 0, 8), 0);
	expect_arrived(test, s.disk, 0, 8, 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 136, 8), 0);
	expect_arrived(test, s.disk, 136, 8, 0);
	KUNIT_EXPECT_EQ(test, s.disk->refused, 1);

	/* It stays so, until the user says what is true. */
	KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "checkpoint"), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "set policy file"), 0);
	expect_source(test, s.dm, "source refused ");
	KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "set streams 3"), 0);
	expect_source(test, s.dm, "layout file groups 1 device_streams 3 source stated streams 3 ");
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 128, 8), 0);
	expect_arrived(test, s.disk, 128, 8, 3);
	KUNIT_EXPECT_EQ(test, s.disk->refused, 1);
}

static void a_divided_write_arrives_whole(struct kunit *test)
{
	struct stack s = stated(test);

	s.disk->refused_from = 4;
	s.disk->refusal = BLK_STS_INVAL;
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 56, 16), 0);
	KUNIT_ASSERT_EQ(test, s.disk->nr, 2);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].stream, 3);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].sectors, 8);
	expect_arrived(test, s.disk, 64, 8, 0);
}

static void an_error_that_is_not_of_the_stream_changes_no_stamp(struct kunit *test)
{
	struct stack s = stated(test);

	s.disk->refused_from = 4;
	s.disk->refusal = BLK_STS_MEDIUM;
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 64, 8), 0);
	expect_arrived(test, s.disk, 64, 8, 0);
	expect_source(test, s.dm, "device_streams 8 source stated ");
	KUNIT_EXPECT_EQ(test, s.disk->refused, 1);
}

static void who_must_not_wait_is_told_so(struct kunit *test)
{
	struct stack s = stated(test);

	s.disk->refused_from = 4;
	s.disk->refusal = BLK_STS_AGAIN;
	KUNIT_EXPECT_EQ(test, -EAGAIN,
			dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_NOWAIT, 64, 8, 0, 0));
	KUNIT_EXPECT_EQ(test, s.disk->nr, 0);
	KUNIT_EXPECT_EQ(test, 0,
			dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_NOWAIT, 0, 8, 0, 0));
	expect_arrived(test, s.disk, 0, 8, 3);
}

static void flags_and_hints_arrive_as_they_were(struct kunit *test)
{
	struct stack s = stated(test);

	KUNIT_EXPECT_EQ(test, 0, dsm_mock_submit(s.dm->bdev, REQ_OP_WRITE | REQ_FUA | REQ_SYNC,
						 64, 8, 0, 0));
	expect_arrived(test, s.disk, 64, 8, 4);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].hint, WRITE_LIFE_MEDIUM);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].flags & (REQ_FUA | REQ_SYNC), REQ_FUA | REQ_SYNC);
}

static void a_write_that_fails_without_a_stream_fails(struct kunit *test)
{
	struct stack s = stated(test);

	s.disk->fails = true;
	s.disk->refused_from = 4;
	s.disk->refusal = BLK_STS_INVAL;
	KUNIT_EXPECT_EQ(test, -EIO, dsm_mock_write(s.dm, 64, 8));
}

static struct kunit_case fallback_cases[] = {
	KUNIT_CASE(a_refused_stream_ends_all_stamps_and_no_write),
	KUNIT_CASE(a_divided_write_arrives_whole),
	KUNIT_CASE(an_error_that_is_not_of_the_stream_changes_no_stamp),
	KUNIT_CASE(who_must_not_wait_is_told_so),
	KUNIT_CASE(flags_and_hints_arrive_as_they_were),
	KUNIT_CASE(a_write_that_fails_without_a_stream_fails),
	{}
};

static struct kunit_suite fallback_suite = {
	.name = "dm-dsm-fallback",
	.test_cases = fallback_cases,
};

kunit_test_suite(fallback_suite);
