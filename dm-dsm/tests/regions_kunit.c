// SPDX-License-Identifier: GPL-2.0-only
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/rw_hint.h>

#include "../regions.h"

static void free_file(void *file)
{
	dsm_file_free(file);
}

static struct dsm_file *new_file(struct kunit *test)
{
	struct dsm_file *file = dsm_file_alloc(42);

	KUNIT_ASSERT_NOT_NULL(test, file);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_file, file), 0);
	return file;
}

/* A checkpoint of one file whose groups stay as they are. */
static struct dsm_file_window checkpoint(struct dsm_file *file, bool range_written)
{
	struct dsm_file_window window;
	struct dsm_file_sums sums;

	dsm_file_take_range(file, &sums);
	dsm_file_read_window(file, range_written, &sums, &window);
	dsm_file_next_window(file, &sums, &window);
	return window;
}

static void a_new_file_has_counted_nothing(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct dsm_file_window window;

	KUNIT_EXPECT_EQ(test, file->id, 42);
	KUNIT_EXPECT_EQ(test, file->class, DSM_NR_CLASSES);
	KUNIT_EXPECT_EQ(test, dsm_file_regions(file), 1);
	file->boundary = 0;
	KUNIT_EXPECT_EQ(test, dsm_file_regions(file), 2);

	window = checkpoint(file, true);
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		KUNIT_EXPECT_EQ(test, dsm_region_sectors(&file->region[side]), 0);
		KUNIT_EXPECT_EQ(test, window.region[side].pages, 0);
		KUNIT_EXPECT_EQ(test, window.region[side].range, 0);
		KUNIT_EXPECT_EQ(test, dsm_region_stamp(&file->region[side]).both, 0);
	}
	dsm_file_free(NULL);
}

/* Writes to the bottom, as { offset, sectors }, and what a checkpoint sees. */
static const struct count_case {
	const char *what;
	struct { u64 offset; u32 sectors; } write[3];
	u64 pages, range;
} count_cases[] = {
	{ "one page", { { 0, 8 } }, 1, 4096 },
	{ "a page twice is two pages on a range of one", { { 8, 8 }, { 8, 8 } }, 2, 4096 },
	{ "a sector is a page", { { 3, 1 } }, 1, 4096 },
	{ "two halves of a page are one", { { 0, 4 }, { 4, 4 } }, 1, 4096 },
	{ "a page across two has a range of two", { { 4, 8 } }, 1, 8192 },
	{ "the range goes from the lowest to the highest",
	  { { 800, 8 }, { 80, 16 }, { 400, 8 } }, 4, (808 - 80) * 512 },
	{ "the last page of 16 TiB", { { 8ULL * (U32_MAX - 1), 8 } }, 1, 4096 },
	{ "the first and the last", { { 0, 8 }, { 8ULL * (U32_MAX - 1), 8 } }, 2,
	  4096ULL * U32_MAX },
	{ "9 sectors are two pages", { { 0, 9 } }, 2, 8192 },
};

KUNIT_ARRAY_PARAM_DESC(count, count_cases, what);

static void writes_are_counted_in_pages(struct kunit *test)
{
	const struct count_case *c = test->param_value;
	struct dsm_file *file = new_file(test);
	struct dsm_file_window window;
	u64 sectors = 0;

	for (int i = 0; i < ARRAY_SIZE(c->write) && c->write[i].sectors; i++) {
		dsm_region_count(&file->region[DSM_BOTTOM], c->write[i].offset,
				 c->write[i].sectors, true);
		sectors += c->write[i].sectors;
	}
	KUNIT_EXPECT_EQ(test, dsm_region_sectors(&file->region[DSM_BOTTOM]), sectors);
	KUNIT_EXPECT_EQ(test, dsm_region_sectors(&file->region[DSM_TOP]), 0);

	window = checkpoint(file, true);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, c->pages);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].range, c->range);
	KUNIT_EXPECT_EQ(test, file->region[DSM_BOTTOM].pages, c->pages);
	KUNIT_EXPECT_EQ(test, file->region[DSM_BOTTOM].range, c->range / 4096);
	KUNIT_EXPECT_EQ(test, window.region[DSM_TOP].pages, 0);
}

static void each_window_counts_from_zero(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct dsm_file_window window;

	dsm_region_count(&file->region[DSM_TOP], 8000, 80, true);
	window = checkpoint(file, true);
	KUNIT_EXPECT_EQ(test, window.region[DSM_TOP].pages, 10);

	dsm_region_count(&file->region[DSM_TOP], 80, 8, true);
	window = checkpoint(file, true);
	KUNIT_EXPECT_EQ(test, window.region[DSM_TOP].pages, 1);
	KUNIT_EXPECT_EQ(test, window.region[DSM_TOP].range, 4096);

	window = checkpoint(file, true);
	KUNIT_EXPECT_EQ(test, window.region[DSM_TOP].pages, 0);
	KUNIT_EXPECT_EQ(test, file->region[DSM_TOP].range, 0);
	KUNIT_EXPECT_EQ(test, dsm_region_sectors(&file->region[DSM_TOP]), 88);
}

static void a_write_during_a_checkpoint_counts_in_the_next_window(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct dsm_file_window window;
	struct dsm_file_sums sums;

	dsm_region_count(&file->region[DSM_BOTTOM], 0, 8, true);
	dsm_file_take_range(file, &sums);
	dsm_file_read_window(file, true, &sums, &window);
	dsm_region_count(&file->region[DSM_BOTTOM], 800, 16, true);
	dsm_file_next_window(file, &sums, &window);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, 1);

	window = checkpoint(file, true);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, 2);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].range, 8192);
}

/* On another processor, while windows end: the pages 0 and 100 in turn. */
struct counting {
	struct dsm_region *region;
	u64 times;
};

static int count_on(void *data)
{
	struct counting *c = data;

	while (!kthread_should_stop()) {
		for (int i = 0; i < 100; i++)
			dsm_region_count(c->region, c->times++ % 2 ? 800 : 0, 8, true);
		cond_resched();
	}
	return 0;
}

/* Each write is to the page after the last one: there are never more than the range has. */
static int count_upwards(void *data)
{
	struct counting *c = data;

	while (!kthread_should_stop()) {
		for (int i = 0; i < 100; i++)
			dsm_region_count(c->region, c->times++ * DSM_PAGE_SECTORS,
					 DSM_PAGE_SECTORS, true);
		cond_resched();
	}
	return 0;
}

static void the_range_is_never_behind_the_count(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct counting c = { .region = &file->region[DSM_TOP] };
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct task_struct *thread;
	unsigned int behind = 0;
	u64 before = 0;

	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is one processor only");
	thread = kthread_run_on_cpu(count_upwards, &c, cpu, "dsm-count/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	for (unsigned int looks = 0; looks < 300000;) {
		struct dsm_file_sums sums = { .low = { U32_MAX, U32_MAX } };
		struct dsm_file_window window;

		dsm_file_read_window(file, true, &sums, &window);
		behind += window.region[DSM_TOP].range <
			  window.region[DSM_TOP].pages * DSM_PAGE_SIZE;
		looks += window.region[DSM_TOP].pages != before;
		before = window.region[DSM_TOP].pages;
		cond_resched();
	}
	kthread_stop(thread);
	KUNIT_EXPECT_EQ(test, behind, 0);
}

static void every_write_counts_in_one_window(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct counting c = { .region = &file->region[DSM_TOP] };
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
	struct task_struct *thread;
	unsigned int windows = 0;
	u64 pages = 0;

	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is one processor only");
	thread = kthread_run_on_cpu(count_on, &c, cpu, "dsm-count/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	while (windows < 2000) {
		u64 seen = checkpoint(file, true).region[DSM_TOP].pages;

		pages += seen;
		windows += seen != 0;
		cond_resched();
	}
	kthread_stop(thread);
	pages += checkpoint(file, true).region[DSM_TOP].pages;
	KUNIT_EXPECT_EQ(test, pages, c.times);
}

/*
 * Two writes that do not wait for the checkpoint, and it not for them.  One has found
 * the range wide enough and counts after it was taken, in the grace period; the other
 * comes after that.
 */
static void a_range_covers_what_is_counted(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct dsm_region *region = &file->region[DSM_BOTTOM];
	struct dsm_file_window window;
	struct dsm_file_sums sums;

	dsm_region_count(region, 0, 8, true);
	dsm_region_count(region, 80, 8, true);
	checkpoint(file, true);
	dsm_region_count(region, 0, 8, true);
	dsm_region_count(region, 800, 8, true);
	dsm_file_take_range(file, &sums);
	this_cpu_add(*region->sectors, 8);
	dsm_file_read_window(file, true, &sums, &window);
	dsm_file_next_window(file, &sums, &window);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, 3);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].range, 101 * DSM_PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, checkpoint(file, true).region[DSM_BOTTOM].pages, 0);

	dsm_region_count(region, 200, 8, true);
	dsm_file_take_range(file, &sums);
	dsm_region_count(region, 0, 8, true);
	dsm_region_count(region, 400, 8, true);
	dsm_file_read_window(file, true, &sums, &window);
	dsm_file_next_window(file, &sums, &window);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, 3);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].range, 51 * DSM_PAGE_SIZE);
}

static void a_checkpoint_that_fails_loses_no_pages(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct dsm_file_window window;
	struct dsm_file_sums sums;

	dsm_region_count(&file->region[DSM_BOTTOM], 0, 8, true);
	dsm_file_take_range(file, &sums);
	dsm_file_read_window(file, true, &sums, &window);
	/* and is not brought to an end */
	window = checkpoint(file, false);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, 1);
}

/* Until the successor takes over, writes have the old stamps. */
static void a_successor_counts_on_and_leaves_the_stamps(struct kunit *test)
{
	struct dsm_layout layout = { .policy = DSM_POLICY_DSM, .groups = 3, .journal = 2,
				     .other = 1, .greatest = 8, .used = 8 };
	struct dsm_file *file = new_file(test), *heir;
	union dsm_stamp before;
	struct dsm_file_window window;

	file->class = DSM_OTHER;
	dsm_file_restamp(file, &layout);
	before = dsm_region_stamp(&file->region[DSM_BOTTOM]);
	dsm_region_count(&file->region[DSM_BOTTOM], 800, 8, true);
	heir = dsm_file_succeed(file);
	KUNIT_ASSERT_NOT_NULL(test, heir);
	heir->class = DSM_JOURNAL;
	dsm_file_restamp(heir, &layout);
	KUNIT_EXPECT_EQ(test, dsm_region_stamp(&file->region[DSM_BOTTOM]).both, before.both);
	KUNIT_EXPECT_EQ(test, heir->region[DSM_BOTTOM].stamp.stream, 2);

	/* both count, those by the old table and those by the new one */
	dsm_region_count(&file->region[DSM_BOTTOM], 0, 8, true);
	dsm_region_count(&heir->region[DSM_BOTTOM], 400, 8, true);
	dsm_file_retire(file, heir);
	window = checkpoint(heir, true);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, 3);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].range, 101 * DSM_PAGE_SIZE);
	dsm_file_free(heir);
}

static void range_region_is_what_the_extents_add_up_to(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct dsm_file_window window;

	file->region[DSM_BOTTOM].mapped = 100;
	file->region[DSM_TOP].mapped = 7;
	dsm_region_count(&file->region[DSM_BOTTOM], 0, 8, true);
	window = checkpoint(file, false);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].range, 409600);
	KUNIT_EXPECT_EQ(test, window.region[DSM_TOP].range, 28672);
	KUNIT_EXPECT_EQ(test, file->region[DSM_BOTTOM].range, 100);
	KUNIT_EXPECT_EQ(test, file->region[DSM_TOP].range, 0);	/* not written */
}

static void counts_of_all_cpus_add_up(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	u64 sum = 0;
	int cpu;

	if (num_possible_cpus() < 2)
		kunit_skip(test, "there is one processor only");
	for_each_possible_cpu(cpu) {
		per_cpu(*file->region[DSM_TOP].sectors, cpu) = 1ULL << (40 + cpu);
		sum += 1ULL << (40 + cpu);
	}
	KUNIT_EXPECT_EQ(test, dsm_region_sectors(&file->region[DSM_TOP]), sum);
	KUNIT_EXPECT_EQ(test, dsm_region_sectors(&file->region[DSM_BOTTOM]), 0);
}

static void more_pages_than_a_status_holds_saturate(struct kunit *test)
{
	struct dsm_file *file = new_file(test);
	struct dsm_file_window window;

	*per_cpu_ptr(file->region[DSM_BOTTOM].sectors, 0) = 1ULL << 40;
	window = checkpoint(file, true);
	KUNIT_EXPECT_EQ(test, window.region[DSM_BOTTOM].pages, 1ULL << 37);
	KUNIT_EXPECT_EQ(test, file->region[DSM_BOTTOM].pages, U32_MAX);
}

static void a_region_takes_the_stamp_of_its_group(struct kunit *test)
{
	struct dsm_policy_params params = { .policy = DSM_POLICY_DSM, .groups = 3 };
	struct dsm_file *file = new_file(test);
	struct dsm_layout layout = {};

	dsm_layout_init(&layout, DSM_POLICY_DSM, 3, 1, 8, true);
	file->class = DSM_COLLECTION;
	file->boundary = 1;
	dsm_file_initial(file, &params);
	KUNIT_EXPECT_EQ(test, file->region[DSM_BOTTOM].next, 1);
	KUNIT_EXPECT_EQ(test, file->region[DSM_TOP].next, 2);

	KUNIT_EXPECT_EQ(test, dsm_file_restamp(file, &layout), 2);
	KUNIT_EXPECT_EQ(test, dsm_region_stamp(&file->region[DSM_BOTTOM]).stream, 3);
	KUNIT_EXPECT_EQ(test, dsm_region_stamp(&file->region[DSM_BOTTOM]).hint, WRITE_LIFE_EXTREME);
	KUNIT_EXPECT_EQ(test, dsm_region_stamp(&file->region[DSM_TOP]).stream, 4);

	KUNIT_EXPECT_EQ(test, dsm_file_restamp(file, &layout), 0);
	file->region[DSM_TOP].next = 3;
	KUNIT_EXPECT_EQ(test, dsm_file_restamp(file, &layout), 1);
	KUNIT_EXPECT_EQ(test, dsm_region_stamp(&file->region[DSM_TOP]).stream, 5);
	KUNIT_EXPECT_EQ(test, dsm_region_stamp(&file->region[DSM_TOP]).hint, WRITE_LIFE_SHORT);
}

static void a_top_that_is_not_there_does_not_move(struct kunit *test)
{
	struct dsm_policy_params params = { .policy = DSM_POLICY_DSM, .groups = 3 };
	struct dsm_file *file = new_file(test);
	struct dsm_layout layout = {};

	dsm_layout_init(&layout, DSM_POLICY_DSM, 3, 1, 8, true);
	file->class = DSM_COLLECTION;
	dsm_file_initial(file, &params);
	KUNIT_EXPECT_EQ(test, dsm_file_restamp(file, &layout), 1);
	file->region[DSM_TOP].next = 1;
	KUNIT_EXPECT_EQ(test, dsm_file_restamp(file, &layout), 0);
}

static void a_file_keeps_what_it_was_written_over_windows(struct kunit *test)
{
	const struct dsm_policy_params params = { .policy = DSM_POLICY_LIFE, .groups = 3 };
	struct dsm_file *file = new_file(test), *heir;
	struct dsm_file_window window;
	struct dsm_life *life;

	life = kunit_kzalloc(test, sizeof(*life), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, life);
	file->class = DSM_OPLOG;
	file->region[DSM_BOTTOM].mapped = 1000;
	file->region[DSM_TOP].mapped = 24;
	for (int i = 0; i < 2; i++) {
		struct dsm_file_sums sums;

		*per_cpu_ptr(file->region[DSM_TOP].sectors, 0) += 800 * DSM_PAGE_SECTORS;
		dsm_file_take_range(file, &sums);
		dsm_file_read_window(file, true, &sums, &window);
		KUNIT_EXPECT_EQ(test, window.mapped, 1024);
		dsm_policy_checkpoint(&params, &window, 1, 1000, life);
		dsm_file_next_window(file, &sums, &window);
	}
	KUNIT_EXPECT_EQ(test, file->written, 1500 << DSM_WRITTEN_SHIFT);

	heir = dsm_file_succeed(file);
	KUNIT_ASSERT_NOT_NULL(test, heir);
	KUNIT_EXPECT_EQ(test, heir->written, file->written);
	heir->region[DSM_BOTTOM].sectors = NULL;
	dsm_file_free(heir);
}

static struct kunit_case regions_cases[] = {
	KUNIT_CASE(a_new_file_has_counted_nothing),
	KUNIT_CASE_PARAM(writes_are_counted_in_pages, count_gen_params),
	KUNIT_CASE(each_window_counts_from_zero),
	KUNIT_CASE(a_write_during_a_checkpoint_counts_in_the_next_window),
	KUNIT_CASE_SLOW(the_range_is_never_behind_the_count),
	KUNIT_CASE(every_write_counts_in_one_window),
	KUNIT_CASE(a_range_covers_what_is_counted),
	KUNIT_CASE(a_checkpoint_that_fails_loses_no_pages),
	KUNIT_CASE(a_successor_counts_on_and_leaves_the_stamps),
	KUNIT_CASE(range_region_is_what_the_extents_add_up_to),
	KUNIT_CASE(counts_of_all_cpus_add_up),
	KUNIT_CASE(more_pages_than_a_status_holds_saturate),
	KUNIT_CASE(a_region_takes_the_stamp_of_its_group),
	KUNIT_CASE(a_top_that_is_not_there_does_not_move),
	KUNIT_CASE(a_file_keeps_what_it_was_written_over_windows),
	{}
};

static struct kunit_suite regions_suite = {
	.name = "dm-dsm-regions",
	.test_cases = regions_cases,
};

kunit_test_suite(regions_suite);
