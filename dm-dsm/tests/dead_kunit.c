// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dead pages: which ones the audit finds, and what a disk is sent of them.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/prandom.h>
#include <linux/rcupdate.h>
#include <linux/sizes.h>
#include <linux/string.h>

#include "../discard_priv.h"
#include "../memory.h"
#include "../regions.h"
#include "mock.h"

#define START	4096	/* of the target on the disk: a multiple of 128 KiB */

struct rig {
	struct kunit *test;
	struct dsm_mock_disk *disk;
	struct dsm_mock_dm *dm;
	u64 window;
};

static void map_files(struct rig *r, const char *records)
{
	dsm_mock_map(r->test, r->dm, records);
}

static void begin_window(struct rig *r)
{
	r->window = dsm_mock_window(r->test, r->dm);
}

static u64 field(struct rig *r, const char *name)
{
	return dsm_mock_field(r->test, r->dm, name);
}

static void drain(struct rig *r)
{
	dsm_mock_drain(r->test, r->dm);
}

static struct dsm_mock_disk *disk_of(struct kunit *test, unsigned int granularity)
{
	struct queue_limits limits = {
		.max_hw_discard_sectors = UINT_MAX,
		.discard_granularity = granularity,
	};

	return dsm_mock_disk_limits(test, &limits);
}

static struct rig rig_on(struct kunit *test, struct dsm_mock_disk *disk, sector_t sectors,
			 const char *line)
{
	struct rig r = {
		.test = test,
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", sectors, line, disk->bdev),
	};

	/* A test that ends early leaves nothing behind that its target waits for. */
	dsm_mock_end_discards(test, disk);
	map_files(&r, "file 1 collection - 0:0:4096");
	begin_window(&r);
	dsm_mock_forget(disk);
	return r;
}

static struct rig new_rig(struct kunit *test)
{
	return rig_on(test, disk_of(test, SZ_128K), DSM_MOCK_TARGET, "%s 4096 2 discard on");
}

static void queue_since(struct rig *r, u64 since, const char *ranges)
{
	char message[256];

	snprintf(message, sizeof(message), "discard %llu %s", since, ranges);
	KUNIT_ASSERT_EQ(r->test, dsm_mock_message(r->dm, message), 0);
}

/* What reached the disk since this was asked last, in the target's sectors. */
static void expect_discards(struct rig *r, const char *expected)
{
	dsm_mock_expect_discards(r->test, r->disk, START, expected);
	dsm_mock_forget(r->disk);
}

/* Names @ranges, and compares what is discarded then. */
static void discard_since(struct rig *r, u64 since, const char *ranges, const char *expected)
{
	queue_since(r, since, ranges);
	drain(r);
	expect_discards(r, expected);
}

static void discard(struct rig *r, const char *ranges, const char *expected)
{
	discard_since(r, r->window, ranges, expected);
}

static void write_page(struct rig *r, sector_t sector)
{
	KUNIT_ASSERT_EQ(r->test, dsm_mock_write(r->dm, sector, DSM_PAGE_SECTORS), 0);
	dsm_mock_forget(r->disk);
}

/* What is discarded */

static void a_granule_comes_together(struct kunit *test)
{
	struct rig r = new_rig(test);

	discard(&r, "0:128", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 128);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_short_sectors"), 128);
	discard(&r, "128:128", "0:256");
	KUNIT_EXPECT_EQ(test, field(&r, "discarded_sectors"), 256);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 256);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_refused_sectors"), 0);

	/* by the messages of several windows, from the middle, with its neighbours */
	discard(&r, "520:8 600:200", "");
	begin_window(&r);
	begin_window(&r);
	discard(&r, "512:8 528:64", "");
	begin_window(&r);
	begin_window(&r);
	begin_window(&r);
	discard(&r, "592:8", "512:256");
	/* and the next one too, of which 768 to 799 were named */
	discard(&r, "800:224", "768:256");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 256 + 512);
}

static void a_granule_is_discarded_once_for_a_message(struct kunit *test)
{
	struct rig r = new_rig(test);
	u64 short_before;

	discard(&r, "0:8 16:240", "");
	discard(&r, "264:248", "");
	/* each of these ends a gap; so do both */
	discard(&r, "8:8 256:8", "0:256 256:256");
	short_before = field(&r, "discard_short_sectors");
	discard(&r, "0:8 16:8 40:8", "0:256");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_short_sectors"), short_before);
	discard(&r, "248:16", "0:512");
}

static void runs_of_a_plug_are_disjoint(struct kunit *test)
{
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_TARGET,
			      "%s 4096 6 discard on discard_granularity 131072 discard_alignment 4096");

	/* what is left over is eight sectors short of a run */
	discard(&r, "0:504", "0:256");
	discard(&r, "248:256", "248:256");
}

static void what_was_short_has_little_beside_it(struct kunit *test)
{
	struct rig r = new_rig(test);

	discard(&r, "0:1024", "0:1024");
	/* not all four */
	discard(&r, "300:40", "256:256");
	discard(&r, "504:16", "256:512");
}

static void a_dead_granule_goes_again_when_a_page_of_it_does(struct kunit *test)
{
	struct rig r = new_rig(test);

	discard(&r, "0:256", "0:256");
	write_page(&r, 64);
	begin_window(&r);
	discard_since(&r, r.window - 1, "0:16", "");
	begin_window(&r);
	begin_window(&r);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 248);
	discard(&r, "64:8", "0:256");
}

static void the_window_before_counts_for_what_is_dead(struct kunit *test)
{
	struct rig r = new_rig(test);

	/* 8 to 15 was written before the window that is named, and after another */
	write_page(&r, 8);
	begin_window(&r);
	discard(&r, "8:8", "");
	discard(&r, "0:8 16:240", "");
	/* a run that was named as a whole needs nothing dead */
	discard(&r, "0:256", "0:256");
	begin_window(&r);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 248);
}

static void granules_of_two_pages_and_more_gather(struct kunit *test)
{
	struct rig r = rig_on(test, disk_of(test, SZ_8K), DSM_MOCK_TARGET, "%s 4096 2 discard on");

	discard(&r, "0:8 24:8", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_short_sectors"), 16);
	discard(&r, "8:16", "0:32");
}

static void single_pages_are_discarded_alone(struct kunit *test)
{
	static const unsigned int granularities[] = { SECTOR_SIZE, SZ_4K };

	for (unsigned int i = 0; i < ARRAY_SIZE(granularities); i++) {
		struct rig r = rig_on(test, disk_of(test, granularities[i]), DSM_MOCK_TARGET,
				      "%s 4096 2 discard on");

		discard(&r, "0:8 16:8 40:16", "0:8 16:8 40:16");
		discard(&r, "8:8", "8:8");
		KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 40);
		KUNIT_EXPECT_EQ(test, field(&r, "discard_short_sectors"), 0);
	}
}

/* What is not */

static void windows(struct rig *r, unsigned int nr)
{
	while (nr--)
		begin_window(r);
}

static void a_write_takes_a_page_back(struct kunit *test)
{
	/* windows before the write, and between it and the last message */
	for (unsigned int before = 0; before < 4; before++) {
		for (unsigned int after = 0; after < 4; after++) {
			struct rig r = new_rig(test);

			discard(&r, "0:128", "");
			windows(&r, before);
			write_page(&r, 24);
			windows(&r, after);
			discard_since(&r, r.window - !!(before + after), "128:128", "");
			windows(&r, 1);
			discard(&r, "192:8", "");
			windows(&r, 2);
			discard(&r, "192:8", "");
			KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 248);
			/* freed again */
			discard(&r, "24:8", "0:256");
		}
	}
}

static void forgotten(struct rig *r, const char *how)
{
	struct kunit *test = r->test;

	KUNIT_EXPECT_EQ_MSG(test, field(r, "discard_dead_sectors"), 0, "%s", how);
	begin_window(r);
	KUNIT_EXPECT_EQ_MSG(test, field(r, "discard_dead_sectors"), 0, "%s", how);
	dsm_mock_forget(r->disk);
	discard(r, "128:128", "");
	begin_window(r);
	discard(r, "136:8", "");
	discard(r, "0:128", "0:256");
}

static void a_message_forgets(struct kunit *test)
{
	struct rig r = new_rig(test);

	discard(&r, "0:128", "");
	dsm_mock_expect_reply(test, r.dm, "forget", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 0);
	discard(&r, "128:128", "");
	dsm_mock_expect_reply(test, r.dm, "forget", "");
	discard(&r, "0:128", "");
	dsm_mock_expect_reply(test, r.dm, "forget", "");
	forgotten(&r, "forget");
	dsm_mock_expect_refusal(test, r.dm, "forget 1", -EINVAL,
				"forget: Invalid range '1', must be <start>:<length> within 65536 sectors; none taken");
	dsm_mock_expect_reply(test, r.dm, "set discard off", "");
	dsm_mock_expect_refusal(test, r.dm, "forget", -EINVAL, "forget: discard is off");
}

static struct dsm_discard *discard_of(const struct dsm *d)
{
	return rcu_dereference_protected(d->discard, true);
}

static void wait_for_forgets(struct kunit *test, const struct dsm *d, u64 nr)
{
	for (int i = 0; i < 100000 && READ_ONCE(discard_of(d)->forgets) != nr; i++)
		usleep_range(500, 1000);
	KUNIT_ASSERT_EQ(test, READ_ONCE(discard_of(d)->forgets), nr);
}

static void what_was_queued_before_is_forgotten(struct kunit *test)
{
	struct rig r = new_rig(test);
	struct dsm *d = dsm_mock_target(test, r.dm);
	struct dsm_mock_sender *forget;

	r.disk->keeps_discards = true;
	queue_since(&r, r.window, "0:256");
	dsm_mock_wait_kept(test, r.disk, 1);
	queue_since(&r, r.window, "512:256 768:128");
	forget = dsm_mock_send(test, r.dm, "forget");
	wait_for_forgets(test, d, 1);
	KUNIT_EXPECT_FALSE(test, completion_done(&forget->done));
	dsm_mock_let_discards_go(r.disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_sent(test, forget), 0);
	drain(&r);
	expect_discards(&r, "0:256");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 0);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_refused_sectors"), 384);
	discard(&r, "896:128", "");
}

static void a_gap_forgets(struct kunit *test)
{
	struct rig r = new_rig(test);

	discard(&r, "0:128", "");
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(r.dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(r.dm), 0);
	forgotten(&r, "suspend");
	dsm_mock_expect_reply(test, r.dm, "forget", "");

	discard(&r, "0:128", "");
	dsm_mock_expect_reply(test, r.dm, "set discard on", "");
	forgotten(&r, "set");
	dsm_mock_expect_reply(test, r.dm, "forget", "");

	discard(&r, "0:128", "");
	KUNIT_ASSERT_EQ(test, 0, dsm_mock_load(r.dm, "dsm", "%s 4096 2 discard on",
					       r.disk->bdev));
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(r.dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(r.dm), 0);
	map_files(&r, "file 1 collection - 0:0:1024");
	forgotten(&r, "reload");
}

static void an_area_that_was_not_watched_is_taken_back(struct kunit *test)
{
	static const char both[] = "file 1 collection - 0:0:1024 file 2 index - 0:1048576:1024";
	struct rig r = rig_on(test, disk_of(test, SZ_128K), DSM_MOCK_SECTORS - START,
			      "%s 4096 2 discard on");

	map_files(&r, both);
	begin_window(&r);
	discard(&r, "1048576:128 0:128", "");
	windows(&r, 1);

	/* nobody sees this write: a window without a bit there */
	map_files(&r, "file 1 collection - 0:0:1024");
	windows(&r, 1);
	write_page(&r, 1048576);
	map_files(&r, both);
	windows(&r, 1);
	discard(&r, "1048704:8", "");
	windows(&r, 2);
	discard(&r, "128:128", "0:256");
	discard(&r, "1048704:128", "");
	discard(&r, "1048576:128", "1048576:256");
}

/* Whether there is memory for what is dead in the first chunk of the table. */
static bool has_chunk(const struct dsm *d)
{
	const struct dsm_bits *bits = discard_of(d)->dead.bits;

	return bits && bits->chunk[0];
}

static void a_chunk_of_which_nothing_is_dead_is_freed(struct kunit *test)
{
	struct rig r = new_rig(test);
	struct dsm *d = dsm_mock_target(test, r.dm);

	discard(&r, "8:16", "");
	write_page(&r, 8);
	windows(&r, 2);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 8);
	KUNIT_EXPECT_TRUE(test, has_chunk(d));
	write_page(&r, 16);
	windows(&r, 2);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 0);
	KUNIT_EXPECT_FALSE(test, has_chunk(d));
	discard(&r, "0:128", "");
	discard(&r, "128:128", "0:256");
}

static void without_memory_nothing_is_dead(struct kunit *test)
{
	struct rig r = new_rig(test);

	dsm_mock_limit_memory(test, SZ_4K - 1);
	discard(&r, "0:128 256:256", "256:256");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 0);
	dsm_mock_limit_memory(test, SZ_4K);
	discard(&r, "128:128", "");
	discard(&r, "0:128", "0:256");
}

/* The target ends where its bitmap does: what is beyond it is not looked at. */
static void nothing_is_dead_beyond_the_end(struct kunit *test)
{
	sector_t sectors = DSM_CHUNK_PAGES * DSM_PAGE_SECTORS;
	struct rig r = rig_on(test, disk_of(test, SZ_128K), sectors, "%s 4096 2 discard on");

	map_files(&r, "file 1 collection - 0:261120:1024");
	begin_window(&r);
	discard(&r, "262016:120", "");
	discard(&r, "262136:8", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 128);
	discard(&r, "261888:128", "261888:256");
}

/* A write that meets the discard of a dead page */

static void a_write_waits_for_a_discard_of_what_is_dead(struct kunit *test)
{
	struct rig r = new_rig(test);
	struct dsm_mock_write *write;

	discard(&r, "0:128", "");
	windows(&r, 3);
	r.disk->keeps_discards = true;
	queue_since(&r, r.window, "128:128");
	dsm_mock_wait_kept(test, r.disk, 1);
	write = dsm_mock_start(test, r.dm->bdev, REQ_OP_WRITE, 0, 8, 0, 0);
	msleep(20);
	KUNIT_EXPECT_FALSE(test, dsm_mock_is_done(write));
	dsm_mock_let_discards_go(r.disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_finish(write), 0);
	drain(&r);
	expect_discards(&r, "0:256");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_held"), 1);
	discard(&r, "128:8", "");
}

static void a_write_before_the_check_is_seen_by_it(struct kunit *test)
{
	struct rig r = new_rig(test);

	discard(&r, "0:128", "");
	windows(&r, 3);
	/* The worker waits for the first, and has not looked at the second. */
	r.disk->keeps_discards = true;
	queue_since(&r, r.window, "512:256");
	dsm_mock_wait_kept(test, r.disk, 1);
	queue_since(&r, r.window, "128:128");
	KUNIT_EXPECT_EQ(test, dsm_mock_write(r.dm, 8, 8), 0);
	dsm_mock_let_discards_go(r.disk);
	drain(&r);
	expect_discards(&r, "512:256");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_held"), 0);
}

static void wait_for_events(struct rig *r, u32 nr)
{
	for (int i = 0; i < 20000 && r->dm->events != nr; i++) {
		usleep_range(500, 1000);
		dsm_mock_status(r->dm);
	}
	KUNIT_ASSERT_EQ(r->test, r->dm->events, nr);
}

static void an_empty_queue_is_an_event(struct kunit *test)
{
	struct rig r = new_rig(test);

	dsm_mock_status(r.dm);
	KUNIT_EXPECT_EQ(test, r.dm->events, 0);
	r.disk->keeps_discards = true;
	queue_since(&r, r.window, "0:256");
	dsm_mock_wait_kept(test, r.disk, 1);
	queue_since(&r, r.window, "512:8");
	dsm_mock_status(r.dm);
	KUNIT_EXPECT_EQ(test, r.dm->events, 0);
	dsm_mock_let_discards_go(r.disk);
	wait_for_events(&r, 1);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_queued"), 0);
	/* also when all of it is refused */
	write_page(&r, 1024);
	queue_since(&r, r.window, "1024:8");
	wait_for_events(&r, 2);
}

/* What the audit finds */

static struct rig audit_on(struct kunit *test, unsigned int granularity)
{
	return rig_on(test, disk_of(test, granularity), DSM_MOCK_TARGET,
		      "%s 4096 2 discard audit");
}

static void expect_dead(struct rig *r, const char *ranges, const char *expected)
{
	char message[128];

	snprintf(message, sizeof(message), "dead %s", ranges);
	dsm_mock_expect_reply(r->test, r->dm, message, expected);
}

static void what_was_named_is_dead_until_it_is_written(struct kunit *test)
{
	static const unsigned int granularity[] = { SZ_4K, SZ_128K };

	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(granularity); i++) {
		struct rig r = rig_on(test, disk_of(test, granularity[i / 2]), DSM_MOCK_TARGET,
				      i % 2 ? "%s 4096 2 discard audit" : "%s 4096 2 discard on");

		expect_dead(&r, "0:4096", "0");
		queue_since(&r, r.window, "0:64 512:8");
		drain(&r);
		expect_dead(&r, "0:4096", "9 0:64 512:8");
		expect_dead(&r, "520:8 8:16 24:8", "3 8:24");
		/* of pages that are named in part nothing is said */
		expect_dead(&r, "4:8 60:10", "0");
		write_page(&r, 8);
		for (unsigned int windows = 0; windows < 4; windows++) {
			expect_dead(&r, "0:4096", "8 0:8 16:48 512:8");
			begin_window(&r);
		}
		KUNIT_EXPECT_EQ(test, dsm_mock_write(r.dm, 509, 4), 0);
		expect_dead(&r, "0:4096", "7 0:8 16:48");
		/* written in a window that is valid, before the one that is named */
		write_page(&r, 8);
		begin_window(&r);
		queue_since(&r, r.window, "8:8");
		drain(&r);
		windows(&r, 2);
		expect_dead(&r, "0:64", "7 0:8 16:48");
		queue_since(&r, r.window, "8:8");
		drain(&r);
		expect_dead(&r, "0:64", "8 0:64");
	}
}

static void an_audit_sends_nothing(struct kunit *test)
{
	static const unsigned int granularity[] = { SZ_4K, SZ_128K };

	for (unsigned int i = 0; i < ARRAY_SIZE(granularity); i++) {
		struct rig r = audit_on(test, granularity[i]);

		KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(r.dm), " discard audit "));
		write_page(&r, 512);
		discard(&r, "0:1024 1024:512", "");
		windows(&r, 1);
		discard(&r, "2048:1024", "");
		KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 2560 - 8);
		KUNIT_EXPECT_EQ(test, field(&r, "discard_refused_sectors"), 8);
		KUNIT_EXPECT_EQ(test, field(&r, "discard_short_sectors"), 0);
		KUNIT_EXPECT_EQ(test, field(&r, "discarded"), 0);
		expect_dead(&r, "504:24", "2 504:8 520:8");
	}
}

static void from_audit_to_on_and_back(struct kunit *test)
{
	struct rig r = audit_on(test, SZ_128K);
	struct dsm_mock_sender *audit;

	discard(&r, "0:128 512:256", "");
	dsm_mock_expect_reply(test, r.dm, "set discard on", "");
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(r.dm), " discard on "));
	/* windows are valid, and pages as dead as they were */
	discard(&r, "128:128", "0:256");
	r.disk->keeps_discards = true;
	queue_since(&r, r.window, "1024:256");
	dsm_mock_wait_kept(test, r.disk, 1);
	queue_since(&r, r.window, "2048:256");
	audit = dsm_mock_send(test, r.dm, "set discard audit");
	wait_for_forgets(test, dsm_mock_target(test, r.dm), 1);
	KUNIT_EXPECT_FALSE(test, completion_done(&audit->done));
	dsm_mock_let_discards_go(r.disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_sent(test, audit), 0);
	drain(&r);
	expect_discards(&r, "1024:256");
	expect_dead(&r, "0:4096", "96 0:256 512:256 1024:256");
	discard(&r, "2048:256", "");
	expect_dead(&r, "2048:256", "32 2048:256");
	/* a mode that is set again starts over */
	dsm_mock_expect_reply(test, r.dm, "set discard audit", "");
	dsm_mock_expect_refusal(test, r.dm, "dead 0:8", -ESTALE, "dead: No window is valid");
	begin_window(&r);
	expect_dead(&r, "0:4096", "0");
}

static void some_pages_are_forgotten(struct kunit *test)
{
	struct rig r = new_rig(test);

	discard(&r, "0:128 512:256", "512:256");
	/* all that a range has part of */
	dsm_mock_expect_reply(test, r.dm, "forget 4:8 600:1 4000:96", "");
	expect_dead(&r, "0:4096", "45 16:112 512:88 608:160");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 45 * 8);
	discard(&r, "128:128", "");
	discard(&r, "0:16", "0:256");
	dsm_mock_expect_reply(test, r.dm, "forget 0:4096", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_dead_sectors"), 0);
}

static void what_waits_is_refused_when_some_are_forgotten(struct kunit *test)
{
	struct rig r = new_rig(test);
	struct dsm_mock_sender *forget;

	r.disk->keeps_discards = true;
	queue_since(&r, r.window, "0:256");
	dsm_mock_wait_kept(test, r.disk, 1);
	queue_since(&r, r.window, "512:256");
	forget = dsm_mock_send(test, r.dm, "forget 2048:8");
	wait_for_forgets(test, dsm_mock_target(test, r.dm), 1);
	KUNIT_EXPECT_FALSE(test, completion_done(&forget->done));
	dsm_mock_let_discards_go(r.disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_sent(test, forget), 0);
	drain(&r);
	expect_discards(&r, "0:256");
	expect_dead(&r, "0:4096", "32 0:256");
}

static void send(struct rig *r, const char *message, const char *expected)
{
	KUNIT_ASSERT_EQ(r->test, dsm_mock_message(r->dm, message), 0);
	drain(r);
	expect_discards(r, expected);
}

static void defer_ranges(struct rig *r, const char *ranges)
{
	char message[128];

	snprintf(message, sizeof(message), "defer %llu %s", r->window, ranges);
	send(r, message, "");
}

static void what_is_deferred_is_sent_on_asking(struct kunit *test)
{
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_TARGET, "%s 4096 2 discard on");

	write_page(&r, 24);
	defer_ranges(&r, "0:64 512:8");
	expect_dead(&r, "0:4096", "8 0:24 32:32 512:8");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_refused_sectors"), 0);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_short_sectors"), 0);
	windows(&r, 5);
	write_page(&r, 8);
	send(&r, "discard dead 0:64 256:64 508:16", "0:8 16:8 32:32 512:8");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_refused_sectors"), 16 + 64);
	/* also if it was sent before, as its page may be dead a second time */
	send(&r, "discard DEAD 512:8", "512:8");
	dsm_mock_expect_reply(test, r.dm, "set discard audit", "");
	send(&r, "discard dead 0:64", "");
	expect_dead(&r, "0:4096", "7 0:8 16:8 32:32 512:8");
}

static void what_is_deferred_completes_a_granule(struct kunit *test)
{
	struct rig r = new_rig(test);

	defer_ranges(&r, "0:128");
	discard(&r, "128:128", "0:256");
	defer_ranges(&r, "512:256");
	send(&r, "discard dead 600:8", "512:256");
}

static void what_is_not_dead_any_more_is_not_sent(struct kunit *test)
{
	static const char * const ends[] = { "forget", "forget 0:64", "set discard on" };
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_TARGET, "%s 4096 2 discard on");

	for (unsigned int i = 0; i < ARRAY_SIZE(ends); i++) {
		defer_ranges(&r, "0:64");
		dsm_mock_expect_reply(test, r.dm, ends[i], "");
		windows(&r, 1);
		send(&r, "discard dead 0:64", "");
	}
	defer_ranges(&r, "0:64");
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(r.dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(r.dm), 0);
	dsm_mock_expect_refusal(test, r.dm, "discard dead 0:64", -ESTALE,
				"discard dead: No window is valid; none taken");
	dsm_mock_expect_refusal(test, r.dm, "defer 7 0:64", -ESTALE,
				"defer: Window 7 is not valid; none taken");
	windows(&r, 1);
	send(&r, "discard dead 0:64", "");
	dsm_mock_expect_refusal(test, r.dm, "defer dead 0:64", -EINVAL,
				"defer: Invalid window number 'dead'");
	dsm_mock_expect_refusal(test, r.dm, "defer 7", -EINVAL,
				"Usage: defer <since> <start>:<length>...");
	dsm_mock_expect_refusal(test, r.dm, "discard dead 0:8 4", -EINVAL,
				"discard: Invalid range '4', must be <start>:<length> within 65536 sectors; none taken");
	dsm_mock_expect_reply(test, r.dm, "set discard off", "");
	dsm_mock_expect_refusal(test, r.dm, "defer 7 0:8", -EINVAL, "defer: discard is off");
}

static void a_write_waits_for_what_was_deferred(struct kunit *test)
{
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_TARGET, "%s 4096 2 discard on");
	struct dsm_mock_write *write;

	defer_ranges(&r, "0:64 512:8");
	windows(&r, 3);
	r.disk->keeps_discards = true;
	KUNIT_ASSERT_EQ(test, dsm_mock_message(r.dm, "discard dead 0:64"), 0);
	dsm_mock_wait_kept(test, r.disk, 1);
	KUNIT_ASSERT_EQ(test, dsm_mock_message(r.dm, "discard dead 512:8"), 0);
	write = dsm_mock_start(test, r.dm->bdev, REQ_OP_WRITE, 8, 8, 0, 0);
	msleep(20);
	KUNIT_EXPECT_FALSE(test, dsm_mock_is_done(write));
	/* The worker has not looked at this one. */
	KUNIT_EXPECT_EQ(test, dsm_mock_write(r.dm, 512, 8), 0);
	dsm_mock_let_discards_go(r.disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_finish(write), 0);
	drain(&r);
	expect_discards(&r, "0:64");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_held"), 1);
	expect_dead(&r, "0:4096", "7 0:8 16:48");
}

static void a_device_without_discards_is_audited(struct kunit *test)
{
	struct queue_limits limits = {};
	struct rig r = rig_on(test, dsm_mock_disk_limits(test, &limits), DSM_MOCK_TARGET,
			      "%s 4096 2 discard audit");

	discard(&r, "0:256", "");
	expect_dead(&r, "0:4096", "32 0:256");
	dsm_mock_expect_reply(test, r.dm, "set discard on", "");
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(r.dm), " discard unsupported"));
}

static void a_question_that_cannot_be_answered(struct kunit *test)
{
	struct rig r = audit_on(test, SZ_4K);

	dsm_mock_expect_refusal(test, r.dm, "dead", -EINVAL, "Usage: dead <start>:<length>...");
	dsm_mock_expect_refusal(test, r.dm, "dead 0:8 4090:65536", -EINVAL,
				"dead: Invalid range '4090:65536', must be <start>:<length> within 65536 sectors; none taken");
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(r.dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(r.dm), 0);
	dsm_mock_expect_refusal(test, r.dm, "dead 0:8", -ESTALE, "dead: No window is valid");
	dsm_mock_expect_reply(test, r.dm, "set discard off", "");
	dsm_mock_expect_refusal(test, r.dm, "dead 0:8", -EINVAL, "dead: discard is off");
}

/* Nobody has watched the places of what was named while it could not be sent later. */
static void another_granularity_sends_nothing_of_before(struct kunit *test)
{
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_TARGET,
			      "%s 4096 4 discard on discard_granularity 4096");

	discard(&r, "0:16 32:16 48:16", "0:16 32:32");
	expect_dead(&r, "0:256", "6 0:16 32:32");
	dsm_mock_expect_reply(test, r.dm, "set discard_granularity 131072", "");
	discard(&r, "16:16 64:192", "");
	expect_dead(&r, "0:256", "32 0:256");
	begin_window(&r);
	expect_dead(&r, "0:256", "0");
	discard(&r, "0:248", "");
	discard(&r, "248:8", "0:256");
}

/* The features */

static void the_features_take_the_place_of_the_queue_s(struct kunit *test)
{
	static const char auto_and_64k[] =
		" discard on discard_granularity auto discard_alignment 65536";
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_TARGET,
			      "%s 4096 4 discard on discard_granularity 131072");

	KUNIT_EXPECT_EQ(test, field(&r, "discard_granularity"), SZ_128K);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_alignment"), SZ_128K);
	discard(&r, "8:512", "256:256");
	dsm_mock_expect_reply(test, r.dm, "set discard_alignment 4096", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_alignment"), SZ_4K);
	discard(&r, "1032:8", "");
	discard(&r, "520:504", "512:512");	/* 512 to 519 were left over */
	discard(&r, "1024:8", "784:256");
	dsm_mock_expect_reply(test, r.dm, "set discard_granularity auto", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_granularity"), SZ_4K);
	discard(&r, "2048:40", "2048:40");
	/* An alignment that is greater counts for both. */
	dsm_mock_expect_reply(test, r.dm, "set discard_alignment 65536", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_granularity"), SZ_64K);
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_table(r.dm), auto_and_64k));
}

static const char * const bad_sizes[] = {
	"0", "1", "2048", "4095", "4097", "12288", "134217728", "1152921504606846976",
	"-4096", "4k", "off", "",
};

static void a_size_is_a_power_of_two(struct kunit *test)
{
	static const char * const names[] = { "discard_granularity", "discard_alignment" };
	struct rig r = new_rig(test);
	char message[80], line[80], reason[160];

	for (unsigned int i = 0; i < ARRAY_SIZE(names) * (ARRAY_SIZE(bad_sizes) - 1); i++) {
		const char *name = names[i % 2], *bad = bad_sizes[i / 2];

		snprintf(message, sizeof(message), "set %s %s", name, bad);
		snprintf(reason, sizeof(reason),
			 "%s: %s must be auto or a power of two from 4096 to 67108864",
			 message, name);
		dsm_mock_expect_refusal(test, r.dm, message, -EINVAL, reason);
		snprintf(line, sizeof(line), "%%s 0 2 %s %s", name, bad);
		KUNIT_EXPECT_EQ(test, -EINVAL, dsm_mock_try_table(test, "dsm", DSM_MOCK_TARGET,
								  line, r.disk->bdev));
	}
	dsm_mock_expect_reply(test, r.dm, "set discard_granularity 67108864", "");
	dsm_mock_expect_reply(test, r.dm, "set discard_alignment AUTO", "");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_granularity"), SZ_64M);
	discard(&r, "0:4096", "");
}

static void a_partition_shifts_the_granule(struct kunit *test)
{
	struct dsm_mock_disk *disk = disk_of(test, SZ_4K);
	struct block_device *part = dsm_mock_partition(test, disk);
	struct rig r = {
		.test = test,
		.disk = disk,
		.dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET,
				  "%s 40 4 discard on discard_granularity 2097152", part),
	};

	map_files(&r, "file 1 collection - 0:0:8192");
	begin_window(&r);
	queue_since(&r, r.window, "0:2000");
	drain(&r);
	KUNIT_EXPECT_EQ(test, field(&r, "discarded"), 0);
	windows(&r, 2);
	queue_since(&r, r.window, "2000:4112");
	drain(&r);
	/* 2048 + 40 + 2008 = 4096: the partition does not begin at a multiple */
	KUNIT_ASSERT_EQ(test, disk->nr, 1);
	KUNIT_EXPECT_EQ(test, disk->bio[0].sector, 4096);
	KUNIT_EXPECT_EQ(test, disk->bio[0].sectors, 4096);
}

/* Any discard that may reach further than its pages, against what it must be. */
static void a_cover_is_what_the_device_wants(struct kunit *test)
{
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 1);
	for (unsigned int i = 0; i < 20000; i++) {
		u32 align = 8U << prandom_u32_state(&rnd) % 5;
		struct dsm_granule g = {
			.align = align,
			.unit = align << prandom_u32_state(&rnd) % 4,
			.shift = prandom_u32_state(&rnd) % align,
		};
		u64 base = prandom_u32_state(&rnd) % 1024, low = prandom_u32_state(&rnd) % 2048;
		u64 from = low + prandom_u32_state(&rnd) % 700;
		u64 to = from + 8 + prandom_u32_state(&rnd) % 700;
		u64 high = to + prandom_u32_state(&rnd) % 700, start = from, end = to;
		u64 first = low, last;

		dsm_granule_cover(&g, base, low, high, &start, &end);
		while ((base + first) % align != g.shift)
			first++;
		last = first + (high > first ? (high - first) / align * align : 0);
		if (last < first + g.unit || from >= last || to <= first) {
			KUNIT_EXPECT_LE(test, end, start);
			continue;
		}
		if (end <= start) {	/* an end where no whole unit has a part of it */
			KUNIT_EXPECT_GE(test, from, first + (last - first) / g.unit * g.unit);
			continue;
		}
		KUNIT_EXPECT_GE(test, start, low);
		KUNIT_EXPECT_LE(test, end, high);
		KUNIT_EXPECT_EQ(test, (base + start) % align, g.shift);
		KUNIT_EXPECT_EQ(test, (end - start) % g.unit, 0);
		/* each unit at an end has a part of it */
		KUNIT_EXPECT_LT(test, from, start + g.unit);
		KUNIT_EXPECT_GT(test, to + g.unit, end);
		/* all of it, if there is room */
		if (last - first >= to - from + g.unit + align && from >= first && to <= last) {
			KUNIT_EXPECT_LE(test, start, from);
			KUNIT_EXPECT_GE(test, end, to);
		}
	}
}

/* Anything, against a set of pages that nobody needs */

#define PAGES 512

struct model {
	u64 window, valid;
	u64 written[PAGES];		/* the last window in which it was, or 0 */
	DECLARE_BITMAP(dead, PAGES);
	DECLARE_BITMAP(passed, PAGES);	/* by the last message */
	unsigned int unit;		/* sectors */
	unsigned int discards;
	bool audit;
};

static void model_write(struct rig *r, struct model *m, unsigned int page, unsigned int pages)
{
	KUNIT_ASSERT_EQ(r->test, dsm_mock_write(r->dm, page * 8, pages * 8), 0);
	for (; pages; pages--, page++) {
		m->written[page] = r->window;
		clear_bit(page, m->dead);
	}
}

static void model_window(struct rig *r, struct model *m)
{
	m->valid = m->valid ? r->window : 0;
	begin_window(r);
	m->valid = m->valid ?: r->window;
}

static void model_gap(struct rig *r, struct model *m, unsigned int how)
{
	if (how == 3) {
		dsm_mock_expect_reply(r->test, r->dm, "forget 400:800 3000:8", "");
		bitmap_clear(m->dead, 50, 100);
		clear_bit(375, m->dead);
		return;
	}
	if (how == 0) {
		dsm_mock_expect_reply(r->test, r->dm, "forget", "");
	} else {
		if (how == 1) {
			KUNIT_ASSERT_EQ(r->test, dsm_mock_suspend(r->dm), 0);
			KUNIT_ASSERT_EQ(r->test, dsm_mock_resume(r->dm), 0);
		} else {
			dsm_mock_expect_reply(r->test, r->dm, m->audit ? "set discard audit" :
					      "set discard on", "");
		}
		m->valid = 0;
		model_window(r, m);
	}
	bitmap_zero(m->dead, PAGES);
}

/*
 * Names some ranges, or asks for what is dead of them; what is discarded is dead, and a whole
 * granule that is new is.
 */
static void model_discard(struct rig *r, struct model *m, struct rnd_state *rnd)
{
	u64 since = prandom_u32_state(rnd) % 3 ? m->valid : r->window;
	unsigned int nr = 1 + prandom_u32_state(rnd) % 6;
	unsigned int how = prandom_u32_state(rnd) % 6;
	bool defers = how == 0, of_dead = how == 1;
	DECLARE_BITMAP(sent, PAGES);
	char ranges[128];
	size_t at;

	at = of_dead ? scnprintf(ranges, sizeof(ranges), "discard dead") :
		       scnprintf(ranges, sizeof(ranges), "%s %llu", defers ? "defer" : "discard",
				 since);
	bitmap_zero(m->passed, PAGES);
	bitmap_zero(sent, PAGES);
	for (unsigned int i = 0; i < nr; i++) {
		unsigned int page = prandom_u32_state(rnd) % PAGES;
		unsigned int end = min(page + 1 + prandom_u32_state(rnd) % 40, PAGES);

		at += scnprintf(ranges + at, sizeof(ranges) - at, " %u:%u", page * 8,
				(end - page) * 8);
		for (; page < end; page++) {
			if (of_dead ? !test_bit(page, m->dead) : m->written[page] >= since)
				continue;
			set_bit(page, m->passed);
			if (m->written[page] < m->valid)
				set_bit(page, m->dead);
		}
	}
	dsm_mock_forget(r->disk);
	KUNIT_ASSERT_EQ(r->test, dsm_mock_message(r->dm, ranges), 0);
	drain(r);
	KUNIT_ASSERT_LE(r->test, r->disk->nr, ARRAY_SIZE(r->disk->bio));
	for (unsigned int i = 0; i < r->disk->nr; i++) {
		u64 first = (r->disk->bio[i].sector - START) / 8;

		m->discards++;
		KUNIT_EXPECT_FALSE(r->test, m->audit || defers);
		KUNIT_EXPECT_EQ(r->test, r->disk->bio[i].sectors % m->unit, 0);
		KUNIT_EXPECT_EQ(r->test, r->disk->bio[i].sector % m->unit, 0);
		bitmap_set(sent, first, r->disk->bio[i].sectors / 8);
	}
	for (unsigned int page = 0; page < PAGES; page++)
		if (test_bit(page, sent))
			KUNIT_EXPECT_TRUE_MSG(r->test, test_bit(page, m->dead) ||
					      test_bit(page, m->passed), "page %u", page);
	if (m->audit || defers || (!of_dead && since != m->valid))
		return;
	for (unsigned int page = 0; page < PAGES; page += m->unit / 8)
		if (find_next_zero_bit(m->dead, PAGES, page) >= page + m->unit / 8 &&
		    find_next_bit(m->passed, PAGES, page) < page + m->unit / 8)
			KUNIT_EXPECT_TRUE_MSG(r->test, test_bit(page, sent),
					      "the granule of page %u", page);
}

static void model_mode(struct rig *r, struct model *m)
{
	m->audit = !m->audit;
	dsm_mock_expect_reply(r->test, r->dm,
			      m->audit ? "set discard audit" : "set discard on", "");
}

/* The target says of the same pages that they are dead. */
static void compare_dead(struct rig *r, const struct model *m)
{
	char expected[2000];
	unsigned int at, page = 0, end;

	at = scnprintf(expected, sizeof(expected), "%u", bitmap_weight(m->dead, PAGES));
	for (; (page = find_next_bit(m->dead, PAGES, page)) < PAGES; page = end) {
		end = find_next_zero_bit(m->dead, PAGES, page);
		at += scnprintf(expected + at, sizeof(expected) - at, " %u:%u", page * 8,
				(end - page) * 8);
	}
	KUNIT_ASSERT_EQ(r->test, dsm_mock_message(r->dm, "dead 0:4096"), 0);
	KUNIT_EXPECT_STREQ(r->test, r->dm->reply, expected);
}

static const unsigned int units[] = { SZ_4K, SZ_8K, SZ_128K };

static void anything_against_a_set(struct kunit *test)
{
	for (unsigned int seed = 1; seed <= 3 * ARRAY_SIZE(units); seed++) {
		unsigned int unit = units[seed % ARRAY_SIZE(units)];
		struct rig r = rig_on(test, disk_of(test, unit), DSM_MOCK_TARGET,
				      "%s 4096 2 discard on");
		struct model *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
		struct rnd_state rnd;

		KUNIT_ASSERT_NOT_NULL(test, m);
		prandom_seed_state(&rnd, seed);
		m->valid = r.window;
		m->unit = unit >> SECTOR_SHIFT;
		for (unsigned int step = 0; step < 400; step++) {
			unsigned int what = prandom_u32_state(&rnd) % 100;
			unsigned int page = prandom_u32_state(&rnd) % (PAGES - 4);

			if (what < 25)
				model_write(&r, m, page, 1 + prandom_u32_state(&rnd) % 4);
			else if (what < 35)
				model_window(&r, m);
			else if (what < 37)
				model_gap(&r, m, prandom_u32_state(&rnd) % 4);
			else if (what < 40)
				model_mode(&r, m);
			else if (what < 50)
				compare_dead(&r, m);
			else
				model_discard(&r, m, &rnd);
		}
		KUNIT_EXPECT_EQ(test, field(&r, "discard_failed"), 0);
		KUNIT_EXPECT_GT(test, m->discards, 50);
	}
}

/* Limits that the queue of a mock disk cannot be given, since it has to work. */
static void restore_limits(void *data)
{
	struct dsm_mock_disk *disk = data;
	struct queue_limits *limits = &bdev_get_queue(disk->bdev)->limits;

	limits->logical_block_size = SECTOR_SIZE;
}

static void expect_granule(struct kunit *test, struct dsm_mock_disk *disk, u32 granularity,
			   u32 alignment, u32 unit, u32 align)
{
	struct dsm_granule g = dsm_granule_of(disk->bdev, granularity, alignment);

	KUNIT_EXPECT_EQ(test, g.unit << SECTOR_SHIFT, unit);
	KUNIT_EXPECT_EQ(test, g.align << SECTOR_SHIFT, align);
}

static void a_granule_is_whole_blocks(struct kunit *test)
{
	struct dsm_mock_disk *disk = disk_of(test, SZ_4K);
	struct queue_limits *limits = &bdev_get_queue(disk->bdev)->limits;

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_limits, disk), 0);
	limits->logical_block_size = SZ_16K;
	expect_granule(test, disk, 0, 0, SZ_16K, SZ_16K);
	expect_granule(test, disk, SZ_4K, SZ_4K, SZ_16K, SZ_16K);
	expect_granule(test, disk, SZ_128K, SZ_4K, SZ_128K, SZ_16K);
	expect_granule(test, disk, SZ_4K, SZ_64K, SZ_64K, SZ_64K);
}

static void an_alignment_that_does_not_divide_is_the_granularity(struct kunit *test)
{
	struct dsm_mock_disk *disk = disk_of(test, 3 * SZ_8K);

	expect_granule(test, disk, 0, 0, 3 * SZ_8K, 3 * SZ_8K);
	expect_granule(test, disk, 0, SZ_8K, 3 * SZ_8K, SZ_8K);
	expect_granule(test, disk, 0, SZ_16K, 3 * SZ_8K, 3 * SZ_8K);
}

/* Discards on blocks of 16 KiB, of which the database frees pages of 4. */
static void discards_are_whole_blocks(struct kunit *test)
{
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_TARGET, "%s 4096 2 discard on");
	struct queue_limits *limits = &bdev_get_queue(r.disk->bdev)->limits;

	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_limits, r.disk), 0);
	limits->logical_block_size = SZ_16K;
	discard(&r, "8:120", "32:96");
	discard(&r, "256:24", "");
	discard(&r, "512:88", "512:64");
	KUNIT_EXPECT_EQ(test, field(&r, "discard_failed"), 0);
}

static struct kunit_case dead_cases[] = {
	KUNIT_CASE(a_granule_comes_together),
	KUNIT_CASE(a_granule_is_discarded_once_for_a_message),
	KUNIT_CASE(runs_of_a_plug_are_disjoint),
	KUNIT_CASE(what_was_short_has_little_beside_it),
	KUNIT_CASE(a_dead_granule_goes_again_when_a_page_of_it_does),
	KUNIT_CASE(the_window_before_counts_for_what_is_dead),
	KUNIT_CASE(granules_of_two_pages_and_more_gather),
	KUNIT_CASE(single_pages_are_discarded_alone),
	KUNIT_CASE(a_write_takes_a_page_back),
	KUNIT_CASE(a_message_forgets),
	KUNIT_CASE(what_was_queued_before_is_forgotten),
	KUNIT_CASE(a_gap_forgets),
	KUNIT_CASE(an_area_that_was_not_watched_is_taken_back),
	KUNIT_CASE(a_chunk_of_which_nothing_is_dead_is_freed),
	KUNIT_CASE(without_memory_nothing_is_dead),
	KUNIT_CASE(nothing_is_dead_beyond_the_end),
	KUNIT_CASE(a_write_waits_for_a_discard_of_what_is_dead),
	KUNIT_CASE(a_write_before_the_check_is_seen_by_it),
	KUNIT_CASE(an_empty_queue_is_an_event),
	KUNIT_CASE(what_was_named_is_dead_until_it_is_written),
	KUNIT_CASE(an_audit_sends_nothing),
	KUNIT_CASE(from_audit_to_on_and_back),
	KUNIT_CASE(some_pages_are_forgotten),
	KUNIT_CASE(what_waits_is_refused_when_some_are_forgotten),
	KUNIT_CASE(what_is_deferred_is_sent_on_asking),
	KUNIT_CASE(what_is_deferred_completes_a_granule),
	KUNIT_CASE(what_is_not_dead_any_more_is_not_sent),
	KUNIT_CASE(a_write_waits_for_what_was_deferred),
	KUNIT_CASE(a_device_without_discards_is_audited),
	KUNIT_CASE(a_question_that_cannot_be_answered),
	KUNIT_CASE(another_granularity_sends_nothing_of_before),
	KUNIT_CASE(the_features_take_the_place_of_the_queue_s),
	KUNIT_CASE(a_size_is_a_power_of_two),
	KUNIT_CASE(a_partition_shifts_the_granule),
	KUNIT_CASE(a_cover_is_what_the_device_wants),
	KUNIT_CASE(a_granule_is_whole_blocks),
	KUNIT_CASE(an_alignment_that_does_not_divide_is_the_granularity),
	KUNIT_CASE(discards_are_whole_blocks),
	KUNIT_CASE(anything_against_a_set),
	{}
};

static struct kunit_suite dead_suite = {
	.name = "dm-dsm-dead",
	.test_cases = dead_cases,
};

kunit_test_suite(dead_suite);
