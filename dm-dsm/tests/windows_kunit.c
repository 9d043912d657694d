// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows: what is known of writes, and what a disk is sent by several of them.
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

static void expect_written(struct rig *r, const char *ranges, const char *expected)
{
	char message[256];

	snprintf(message, sizeof(message), "written %s", ranges);
	dsm_mock_expect_reply(r->test, r->dm, message, expected);
}

static void write_page(struct rig *r, sector_t sector)
{
	KUNIT_ASSERT_EQ(r->test, dsm_mock_write(r->dm, sector, DSM_PAGE_SECTORS), 0);
	dsm_mock_forget(r->disk);
}

static void windows(struct rig *r, unsigned int nr)
{
	while (nr--)
		begin_window(r);
}

/* The last page of a chunk is in its last word. */
static void the_last_page_of_a_chunk_is_known(struct kunit *test)
{
	struct rig r = rig_on(test, disk_of(test, SZ_4K), DSM_MOCK_SECTORS - START,
			      "%s 4096 2 discard on");
	u64 last = (DSM_CHUNK_PAGES - 1) * DSM_PAGE_SECTORS;
	char ranges[64], expected[64];

	map_files(&r, "file 1 collection - 0:0:524288");
	begin_window(&r);
	write_page(&r, last);
	windows(&r, DSM_WINDOWS - 1);
	snprintf(ranges, sizeof(ranges), "%llu %llu:24", r.window - (DSM_WINDOWS - 1), last - 8);
	snprintf(expected, sizeof(expected), "written -%llu:8 -%llu:8 1", last - 8, last + 8);
	expect_written(&r, ranges, expected);
	snprintf(ranges, sizeof(ranges), "%llu:24", last - 8);
	snprintf(expected, sizeof(expected), "%llu:8 %llu:8", last - 8, last + 8);
	discard_since(&r, r.window - (DSM_WINDOWS - 1), ranges, expected);
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

/* What is discarded at a time */

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
	discard(&r, "520:504", "520:256");
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
	queue_since(&r, r.window, "2000:4112");
	drain(&r);
	/* 2048 + 40 + 2008 = 4096: the partition does not begin at a multiple */
	KUNIT_ASSERT_EQ(test, disk->nr, 1);
	KUNIT_EXPECT_EQ(test, disk->bio[0].sector, 4096);
	KUNIT_EXPECT_EQ(test, disk->bio[0].sectors, 4096);
	KUNIT_EXPECT_EQ(test, field(&r, "discard_offset"), 2008 << SECTOR_SHIFT);
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

/* Anything, against what was written when */

#define PAGES 512

struct model {
	u64 valid;
	u64 written[PAGES];		/* the last window in which it was, or 0 */
	unsigned int unit;		/* pages */
	unsigned int discards;
	bool watch;
};

static void model_write(struct rig *r, struct model *m, unsigned int page, unsigned int pages)
{
	KUNIT_ASSERT_EQ(r->test, dsm_mock_write(r->dm, page * 8, pages * 8), 0);
	for (; pages; pages--, page++)
		m->written[page] = r->window;
}

static void model_window(struct rig *r, struct model *m)
{
	begin_window(r);
	m->valid = m->valid ? max(m->valid, r->window - (DSM_WINDOWS - 1)) : r->window;
}

static void model_gap(struct rig *r, struct model *m, unsigned int how)
{
	switch (how) {
	case 0:
		dsm_mock_take(r->test, r->dm, "forget");
		return;
	case 1:
		KUNIT_ASSERT_EQ(r->test, dsm_mock_suspend(r->dm), 0);
		KUNIT_ASSERT_EQ(r->test, dsm_mock_resume(r->dm), 0);
		break;
	case 2:
		dsm_mock_take(r->test, r->dm, m->watch ? "set discard watch" : "set discard on");
		break;
	default:
		m->watch = !m->watch;
		dsm_mock_take(r->test, r->dm, m->watch ? "set discard watch" : "set discard on");
		return;
	}
	m->valid = 0;
	model_window(r, m);
}

static u64 model_any_window(const struct rig *r, const struct model *m, struct rnd_state *rnd)
{
	return m->valid + prandom_u32_state(rnd) % (r->window - m->valid + 1);
}

/* Some ranges in ascending order, each with a window; @may: pages that were not written since. */
static void model_ranges(struct rig *r, struct model *m, struct rnd_state *rnd, char *text,
			 size_t size, unsigned long *named, unsigned long *may)
{
	unsigned int page = prandom_u32_state(rnd) % 40;
	size_t at = strlen(text);

	bitmap_zero(named, PAGES);
	bitmap_zero(may, PAGES);
	while (page < PAGES && at < size - 64) {
		unsigned int end = min(page + 1 + prandom_u32_state(rnd) % 60, PAGES);
		u64 since = model_any_window(r, m, rnd);

		at += scnprintf(text + at, size - at, " %llu %u:%u", since, page * 8,
				(end - page) * 8);
		for (; page < end; page++) {
			set_bit(page, named);
			if (m->written[page] < since)
				set_bit(page, may);
		}
		page += prandom_u32_state(rnd) % 3 ? 0 : prandom_u32_state(rnd) % 40;
	}
}

static void model_discard(struct rig *r, struct model *m, struct rnd_state *rnd)
{
	DECLARE_BITMAP(named, PAGES);
	DECLARE_BITMAP(may, PAGES);
	DECLARE_BITMAP(sent, PAGES);
	char text[512] = "discard";

	model_ranges(r, m, rnd, text, sizeof(text), named, may);
	bitmap_zero(sent, PAGES);
	dsm_mock_forget(r->disk);
	KUNIT_ASSERT_EQ(r->test, dsm_mock_message(r->dm, text), m->watch ? -EINVAL : 0);
	drain(r);
	KUNIT_ASSERT_LE(r->test, r->disk->nr, ARRAY_SIZE(r->disk->bio));
	for (unsigned int i = 0; i < r->disk->nr; i++) {
		m->discards++;
		bitmap_set(sent, (r->disk->bio[i].sector - START) / 8,
			   r->disk->bio[i].sectors / 8);
	}
	/* Whole granules of what may be sent, and all of them */
	for (unsigned int page = 0; page < PAGES; page += m->unit) {
		bool all = find_next_zero_bit(may, PAGES, page) >= page + m->unit && !m->watch;

		for (unsigned int i = page; i < page + m->unit; i++)
			KUNIT_EXPECT_EQ_MSG(r->test, test_bit(i, sent), all, "page %u: %s", i,
					    text);
	}
}

static void model_written(struct rig *r, struct model *m, struct rnd_state *rnd)
{
	DECLARE_BITMAP(named, PAGES);
	DECLARE_BITMAP(may, PAGES);
	unsigned int page = 0, end;
	char text[512] = "written", *expected = kunit_kzalloc(r->test, 8000, GFP_KERNEL);
	size_t at;

	KUNIT_ASSERT_NOT_NULL(r->test, expected);
	model_ranges(r, m, rnd, text, sizeof(text), named, may);
	at = scnprintf(expected, 8000, "written");
	for (; (page = find_next_bit(may, PAGES, page)) < PAGES; page = end) {
		end = find_next_zero_bit(may, PAGES, page);
		at += scnprintf(expected + at, 8000 - at, " -%u:%u", page * 8,
				(end - page) * 8);
	}
	scnprintf(expected + at, 8000 - at, " %u",
		  bitmap_weight(named, PAGES) - bitmap_weight(may, PAGES));
	dsm_mock_expect_reply(r->test, r->dm, text, expected);
}

static const unsigned int units[] = { SZ_4K, SZ_8K, SZ_128K };

static void anything_against_what_was_written(struct kunit *test)
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
		m->unit = unit / SZ_4K;
		for (unsigned int step = 0; step < 300; step++) {
			unsigned int what = prandom_u32_state(&rnd) % 100;
			unsigned int page = prandom_u32_state(&rnd) % (PAGES - 4);

			if (what < 35)
				model_write(&r, m, page, 1 + prandom_u32_state(&rnd) % 4);
			else if (what < 50)
				model_window(&r, m);
			else if (what < 55)
				model_gap(&r, m, prandom_u32_state(&rnd) % 4);
			else if (what < 65)
				model_written(&r, m, &rnd);
			else
				model_discard(&r, m, &rnd);
		}
		KUNIT_EXPECT_EQ(test, field(&r, "discard_failed"), 0);
		KUNIT_EXPECT_GT(test, m->discards, 30);
	}
}

static struct kunit_case windows_cases[] = {
	KUNIT_CASE(the_last_page_of_a_chunk_is_known),
	KUNIT_CASE(an_empty_queue_is_an_event),
	KUNIT_CASE(the_features_take_the_place_of_the_queue_s),
	KUNIT_CASE(a_size_is_a_power_of_two),
	KUNIT_CASE(a_partition_shifts_the_granule),
	KUNIT_CASE(a_granule_is_whole_blocks),
	KUNIT_CASE(an_alignment_that_does_not_divide_is_the_granularity),
	KUNIT_CASE(discards_are_whole_blocks),
	KUNIT_CASE(anything_against_what_was_written),
	{}
};

static struct kunit_suite windows_suite = {
	.name = "dm-dsm-windows",
	.test_cases = windows_cases,
};

kunit_test_suite(windows_suite);
