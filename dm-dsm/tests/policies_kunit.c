// SPDX-License-Identifier: GPL-2.0-only
/*
 * Worked examples for the figures and equations, and the edges.  tests/unit runs them on
 * the host, too, and compares with a floating-point reference there.
 */
#include <kunit/test.h>
#include <linux/int_log.h>
#include <linux/limits.h>

#include "../policies/policies.h"

static struct dsm_life life;	/* scratch */

#define LG(x)	((x) * (1 << DSM_HOTNESS_SHIFT))

static const struct dsm_policy_params paper = {
	.policy = DSM_POLICY_DSM, .groups = 3, .alpha = 3,
	.threshold1 = 1000, .threshold2 = 5,
	.prediction = DSM_PREDICT_PREDICTED, .primary_filter = true,
};

/* With a range of 1024 pages the hotness is lg(pages / 1024) a second. */
static struct dsm_file_window window(enum dsm_class class, u64 bottom, u64 top)
{
	return (struct dsm_file_window) {
		.class = class,
		.region = {
			{ .pages = bottom, .range = 1024 * DSM_PAGE_SIZE, .next = 1 },
			{ .pages = top, .range = 1024 * DSM_PAGE_SIZE, .next = 2 },
		},
	};
}

static void expect_groups(struct kunit *test, const struct dsm_file_window *file,
			  u8 bottom, u8 top)
{
	KUNIT_EXPECT_EQ(test, file->region[DSM_BOTTOM].group, bottom);
	KUNIT_EXPECT_EQ(test, file->region[DSM_TOP].group, top);
}

static void expect_next(struct kunit *test, const struct dsm_file_window *file,
			u8 bottom, u8 top)
{
	KUNIT_EXPECT_EQ(test, file->region[DSM_BOTTOM].next, bottom);
	KUNIT_EXPECT_EQ(test, file->region[DSM_TOP].next, top);
}

/*
 * The same sum comes of the kernel's, and on the host of the simulator's: they compute the
 * same groups.
 */
static void the_logarithm_is_the_simulators(struct kunit *test)
{
	u32 value = 1;
	u64 sum = 0;

	for (int i = 0; i < 1000000; i++) {
		sum = sum * 31 + intlog2(value >> (i % 32) ?: 1);
		value = value * 1664525 + 1013904223;
	}
	KUNIT_EXPECT_EQ(test, sum, 0xcaa63af2816c7b4dULL);
}

static const struct hotness_case {
	const char *what;
	u64 pages, range, ms;
	s32 hotness;
} hotness_cases[] = {
	{ "as many pages as the range has, in a second", 1024, 1024 * 4096, 1000, 0 },
	{ "twice as many in four seconds", 2048, 1024 * 4096, 4000, LG(-1) },
	{ "one page in a gigabyte and 1024 s", 1, 1ULL << 30, 1024000, LG(-28) },
	{ "a range of 0 is a page", 1, 0, 1000, 0 },
	{ "a range below a page is a page", 8, 512, 1000, LG(3) },
	{ "8 pages in 1/8 s", 8, 4096, 125, LG(6) },
};

KUNIT_ARRAY_PARAM_DESC(hotness, hotness_cases, what);

static void hotness_is_eqs_1_and_2(struct kunit *test)
{
	const struct hotness_case *c = test->param_value;

	KUNIT_EXPECT_EQ(test, dsm_hotness(c->pages, c->range, c->ms), c->hotness);
}

static void hotness_of_extremes_does_not_overflow(struct kunit *test)
{
	/* 0.0001, the error that the documentation states */
	const s32 error = (1 << DSM_HOTNESS_SHIFT) / 10000;
	/* lg(1000) = 9.965784284662087 */
	const s32 lg1000 = 167197913;

	KUNIT_EXPECT_EQ(test, dsm_hotness(1, 4096, 0), dsm_hotness(1, 4096, 1));
	KUNIT_EXPECT_LT(test, abs(dsm_hotness(1, 4096, 1) - lg1000), error);
	KUNIT_EXPECT_LT(test, abs(dsm_hotness(U64_MAX, 0, 1) - (LG(64) + lg1000)), error);
	KUNIT_EXPECT_LT(test, abs(dsm_hotness(1, U64_MAX, 1000) - LG(12 - 64)), error);
	KUNIT_EXPECT_LT(test, abs(dsm_hotness(1, U64_MAX, U64_MAX) -
				  (LG(12 - 64 - 64) + lg1000)), error);
}

/* Five collections with a hotness of 0, 1, 2, 3, 4 at the bottom. */
static const struct group_case {
	const char *what;
	unsigned int groups, alpha;
	u8 group[5];
} group_cases[] = {
	{ "K 3 alpha 3 cuts at 4/3 and 8/3", 3, 3, { 1, 1, 2, 3, 3 } },
	{ "K 3 alpha 6 leaves the ends a sixth", 3, 6, { 1, 2, 2, 2, 3 } },
	{ "K 3 alpha 2 has no middle", 3, 2, { 1, 1, 1, 3, 3 } },
	{ "K 4 alpha 4 cuts at 1, 2, 3", 4, 4, { 1, 1, 2, 4, 4 } },
	{ "K 5 alpha 8 cuts at 1/2, 3/2, 5/2, 7/2", 5, 8, { 1, 2, 3, 4, 5 } },
	{ "K 2 cuts in the middle", 2, 2, { 1, 1, 1, 2, 2 } },
	{ "K 2 does so with every alpha", 2, 64, { 1, 1, 1, 2, 2 } },
	{ "K 16 alpha 16 cuts 15 times", 16, 16, { 1, 4, 8, 12, 16 } },
};

KUNIT_ARRAY_PARAM_DESC(group, group_cases, what);

static void groups_are_eqs_3_and_4(struct kunit *test)
{
	const struct group_case *c = test->param_value;
	struct dsm_policy_params params = paper;
	struct dsm_file_window file[5];

	params.groups = c->groups;
	params.alpha = c->alpha;
	for (int i = 0; i < 5; i++)
		file[i] = window(DSM_COLLECTION, 1024 << i, 0);
	dsm_policy_checkpoint(&params, file, 5, 1000, &life);

	for (int i = 0; i < 5; i++) {
		KUNIT_EXPECT_EQ(test, file[i].region[DSM_BOTTOM].hotness, LG(i));
		expect_groups(test, &file[i], c->group[i], 1);
	}
}

static void on_a_pivot_the_colder_group_holds(struct kunit *test)
{
	/* pivots at 2, 4, 6 */
	struct dsm_file_window file[] = {
		window(DSM_COLLECTION, 1024, 1024 << 8),
		window(DSM_COLLECTION, 1024 << 2, 1024 << 4),
		window(DSM_COLLECTION, (1024 << 4) + 1, 1024 << 6),
	};
	struct dsm_policy_params params = paper;

	params.groups = 4;
	params.alpha = 4;
	dsm_policy_checkpoint(&params, file, ARRAY_SIZE(file), 1000, &life);
	expect_groups(test, &file[0], 1, 4);
	expect_groups(test, &file[1], 1, 2);	/* <= p[1]; on p[2] */
	expect_groups(test, &file[2], 3, 4);	/* above p[2]; >= p[3] */
}

static void equal_hotness_is_group_1(struct kunit *test)
{
	struct dsm_file_window file[] = {
		window(DSM_COLLECTION, 77, 0), window(DSM_COLLECTION, 77, 77),
	};

	dsm_policy_checkpoint(&paper, file, 2, 1000, &life);
	expect_groups(test, &file[0], 1, 1);
	expect_groups(test, &file[1], 1, 1);
}

static void one_region_alone_is_group_1(struct kunit *test)
{
	struct dsm_file_window file = window(DSM_COLLECTION, 0, 1000000);

	dsm_policy_checkpoint(&paper, &file, 1, 1000, &life);
	expect_groups(test, &file, 1, 1);
}

static void without_writes_every_region_is_group_1(struct kunit *test)
{
	struct dsm_policy_params params = paper;
	struct dsm_file_window file[] = {
		window(DSM_COLLECTION, 0, 0), window(DSM_INDEX, 0, 0),
	};

	params.primary_filter = false;
	dsm_policy_checkpoint(&params, file, 2, 60000, &life);
	expect_groups(test, &file[0], 1, 1);
	expect_groups(test, &file[1], 1, 1);
	expect_next(test, &file[0], 1, 1);
}

static void no_files_are_no_problem(struct kunit *test)
{
	dsm_policy_checkpoint(&paper, NULL, 0, 0, &life);
}

static void an_idle_region_takes_no_part_in_min_and_max(struct kunit *test)
{
	/* with lg(0) as a minimum both of the written ones would be hot */
	struct dsm_file_window file[] = {
		window(DSM_COLLECTION, 1024, 1024 << 4), window(DSM_COLLECTION, 0, 0),
	};

	dsm_policy_checkpoint(&paper, file, 2, 1000, &life);
	expect_groups(test, &file[0], 1, 3);
	expect_groups(test, &file[1], 1, 1);
}

static void collections_and_indexes_are_grouped_apart(struct kunit *test)
{
	struct dsm_policy_params params = paper;
	struct dsm_file_window file[] = {
		window(DSM_COLLECTION, 1024, 4096), window(DSM_INDEX, 1 << 20, 1 << 21),
		window(DSM_INDEX, 1 << 19, 1 << 22), window(DSM_JOURNAL, 1 << 30, 0),
	};

	params.primary_filter = false;
	dsm_policy_checkpoint(&params, file, ARRAY_SIZE(file), 1000, &life);
	expect_groups(test, &file[0], 1, 3);
	expect_groups(test, &file[1], 1, 3);
	expect_groups(test, &file[2], 1, 3);
	expect_groups(test, &file[3], DSM_GROUP_NONE, DSM_GROUP_NONE);
}

/* Two indexes; whether the second one is taken for a primary index. */
static const struct filter_case {
	const char *what;
	u64 bottom[2], top[2];
	unsigned int threshold1, threshold2;
	bool primary;
} filter_cases[] = {
	{ "10 % and 10 % are above a threshold of 19.99 %",
	  { 90, 10 }, { 90, 10 }, 1999, 5, false },
	{ "and at one of 20 %", { 90, 10 }, { 90, 10 }, 2000, 5, true },
	{ "an idle side is below every threshold", { 900, 100 }, { 1000, 0 }, 1000, 5, true },
	{ "0.05 % on one side is at the second threshold",
	  { 19990, 10 }, { 1, 1 }, 1000, 5, true },
	{ "0.06 % is above it", { 9994, 6 }, { 1, 1 }, 1000, 5, false },
	{ "thresholds of 0 let only idle sides pass",
	  { 1000000, 1 }, { 1000000, 1 }, 0, 0, false },
	{ "without index writes all shares are 0", { 0, 0 }, { 0, 0 }, 0, 0, true },
	{ "200 % takes every index", { 0, 1 }, { 0, 1 }, 20000, 0, true },
	{ "the greatest counts do not overflow",
	  { 1ULL << 62, 1ULL << 62 }, { 1ULL << 62, 1ULL << 62 }, 9999, 0, false },
	{ "nor with another that is next to nothing",
	  { 1, 1ULL << 62 }, { 1, 1ULL << 62 }, 19999, 0, false },
	{ "which is one then", { 1ULL << 62, 1 }, { 1ULL << 62, 1 }, 0, 0, true },
};

KUNIT_ARRAY_PARAM_DESC(filter, filter_cases, what);

static void the_primary_filter_is_line_16_of_fig_9(struct kunit *test)
{
	const struct filter_case *c = test->param_value;
	struct dsm_policy_params params = paper;
	struct dsm_file_window file[2];

	params.threshold1 = c->threshold1;
	params.threshold2 = c->threshold2;
	for (int i = 0; i < 2; i++)
		file[i] = window(DSM_INDEX, c->bottom[i], c->top[i]);
	dsm_policy_checkpoint(&params, file, 2, 1000, &life);

	KUNIT_EXPECT_EQ(test, file[1].region[DSM_BOTTOM].group == DSM_GROUP_PRIMARY, c->primary);
	KUNIT_EXPECT_EQ(test, file[1].region[DSM_TOP].group == DSM_GROUP_PRIMARY, c->primary);
	if (c->primary)
		expect_next(test, &file[1], DSM_GROUP_PRIMARY, DSM_GROUP_PRIMARY);
}

static void a_share_counts_among_all_indexes(struct kunit *test)
{
	struct dsm_file_window file[] = {
		window(DSM_INDEX, 500, 900), window(DSM_INDEX, 500, 99),
		window(DSM_INDEX, 0, 1),
	};

	dsm_policy_checkpoint(&paper, file, ARRAY_SIZE(file), 1000, &life);
	expect_groups(test, &file[0], 3, 3);
	expect_groups(test, &file[1], 3, 3);	/* 50 and 9.9 % */
	expect_groups(test, &file[2], DSM_GROUP_PRIMARY, DSM_GROUP_PRIMARY);
	expect_next(test, &file[2], DSM_GROUP_PRIMARY, DSM_GROUP_PRIMARY);
}

static void the_filter_can_be_switched_off(struct kunit *test)
{
	struct dsm_policy_params params = paper;
	struct dsm_file_window file[] = {
		window(DSM_INDEX, 900, 0), window(DSM_PRIMARY, 900, 900),
		window(DSM_COLLECTION, 1, 0),
	};

	dsm_policy_checkpoint(&params, file, ARRAY_SIZE(file), 1000, &life);
	expect_groups(test, &file[0], DSM_GROUP_PRIMARY, DSM_GROUP_PRIMARY);
	expect_groups(test, &file[1], DSM_GROUP_PRIMARY, DSM_GROUP_PRIMARY);
	expect_groups(test, &file[2], 1, 1);	/* a collection is never one */

	params.primary_filter = false;
	dsm_policy_checkpoint(&params, file, ARRAY_SIZE(file), 1000, &life);
	expect_groups(test, &file[0], 1, 1);
	expect_groups(test, &file[1], DSM_GROUP_PRIMARY, DSM_GROUP_PRIMARY);
}

/* One collection, K = 2; what was predicted, what is found, what is next. */
static const struct prediction_case {
	const char *what;
	enum dsm_prediction prediction;
	u8 predicted[2], before[2];	/* next and group of the window before */
	bool top_is_hot;
	u8 next[2];
} prediction_cases[] = {
	{ "predicted: a trend that held stays", DSM_PREDICT_PREDICTED,
	  { 1, 2 }, { 2, 1 }, true, { 1, 2 } },
	{ "predicted: a trend that flipped flips back", DSM_PREDICT_PREDICTED,
	  { 1, 2 }, { 1, 2 }, false, { 1, 2 } },
	{ "predicted: one side wrong takes the other's", DSM_PREDICT_PREDICTED,
	  { 1, 1 }, { 1, 1 }, true, { 1, 1 } },
	{ "computed: compares with the group found before", DSM_PREDICT_COMPUTED,
	  { 1, 2 }, { 2, 1 }, false, { 2, 1 } },
	{ "computed: one side wrong takes the other's", DSM_PREDICT_COMPUTED,
	  { 1, 2 }, { 2, 2 }, false, { 2, 2 } },
	{ "computed: the first window has the initial one", DSM_PREDICT_COMPUTED,
	  { 1, 2 }, { 0, 0 }, false, { 1, 2 } },
	{ "off: what was just found", DSM_PREDICT_OFF, { 1, 2 }, { 1, 2 }, false, { 2, 1 } },
};

KUNIT_ARRAY_PARAM_DESC(prediction, prediction_cases, what);

static void prediction_is_fig_a5(struct kunit *test)
{
	const struct prediction_case *c = test->param_value;
	struct dsm_policy_params params = paper;
	struct dsm_file_window file = c->top_is_hot ? window(DSM_COLLECTION, 1024, 4096) :
						      window(DSM_COLLECTION, 4096, 1024);

	params.groups = 2;
	params.prediction = c->prediction;
	for (int side = 0; side < DSM_NR_SIDES; side++) {
		file.region[side].next = c->predicted[side];
		file.region[side].group = c->before[side];
	}
	dsm_policy_checkpoint(&params, &file, 1, 1000, &life);
	expect_groups(test, &file, c->top_is_hot ? 1 : 2, c->top_is_hot ? 2 : 1);
	expect_next(test, &file, c->next[0], c->next[1]);
}

/* A window of the hottest collection of all, which has no top, or an idle one. */
static void one_sided_window(const struct dsm_policy_params *params,
			     struct dsm_file_window *file)
{
	file[0].region[DSM_BOTTOM].pages = 1 << 20;
	file[0].region[DSM_TOP].pages = 0;
	file[1].region[DSM_BOTTOM].pages = 16;
	file[1].region[DSM_TOP].pages = 64;
	dsm_policy_checkpoint(params, file, 2, 60000, &life);
}

static void a_file_with_one_side_is_where_it_was_found(struct kunit *test)
{
	/* next of the idle top, and of both when it is busy */
	static const struct {
		enum dsm_prediction prediction;
		u8 idle, bottom, top;
	} cases[] = {
		{ DSM_PREDICT_OFF, 1, 2, 3 },
		{ DSM_PREDICT_PREDICTED, 3, 3, 3 },
		{ DSM_PREDICT_COMPUTED, 1, 3, 2 },
	};

	for (int i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dsm_policy_params params = paper;
		struct dsm_file_window file[] = {
			window(DSM_COLLECTION, 0, 0), window(DSM_COLLECTION, 0, 0),
		};

		params.prediction = cases[i].prediction;
		for (int round = 0; round < 6; round++) {
			one_sided_window(&params, file);
			expect_groups(test, &file[0], 3, 1);
			KUNIT_EXPECT_EQ(test, file[0].region[DSM_BOTTOM].next, 3);
		}
		expect_next(test, &file[0], 3, cases[i].idle);

		/* with the other side written there are turns to take */
		file[0].region[DSM_BOTTOM].pages = 1 << 10;
		file[0].region[DSM_TOP].pages = 1 << 20;
		dsm_policy_checkpoint(&params, file, 2, 60000, &life);
		expect_groups(test, &file[0], 2, 3);
		expect_next(test, &file[0], cases[i].bottom, cases[i].top);
	}
}

static void taken_literally_fig_a5_leaves_it_with_the_coldest(struct kunit *test)
{
	struct dsm_policy_params params = paper;
	struct dsm_file_window file[] = {
		window(DSM_COLLECTION, 0, 0), window(DSM_COLLECTION, 0, 0),
	};

	params.prediction = DSM_PREDICT_LITERAL;
	for (int round = 0; round < 6; round++) {
		one_sided_window(&params, file);
		expect_groups(test, &file[0], 3, 1);
		KUNIT_EXPECT_EQ(test, file[0].region[DSM_BOTTOM].next, 1);
	}
}

static void a_primary_index_that_is_none_any_more_is_predicted_again(struct kunit *test)
{
	struct dsm_policy_params params = paper;
	struct dsm_file_window file[] = {
		window(DSM_INDEX, 1024, 4096), window(DSM_INDEX, 1024, 4096),
	};

	file[1].region[DSM_BOTTOM].next = DSM_GROUP_PRIMARY;
	file[1].region[DSM_TOP].next = DSM_GROUP_PRIMARY;
	dsm_policy_checkpoint(&params, file, 2, 1000, &life);
	expect_groups(test, &file[1], 1, 3);
	expect_next(test, &file[1], 3, 1);
}

static const struct initial_case {
	const char *what;
	enum dsm_policy_id policy;
	unsigned int groups;
	enum dsm_class class;
	u8 bottom, top;
} initial_cases[] = {
	{ "dsm: a collection", DSM_POLICY_DSM, 3, DSM_COLLECTION, 1, 2 },
	{ "dsm: an index", DSM_POLICY_DSM, 2, DSM_INDEX, 1, 2 },
	{ "dsm: a primary index", DSM_POLICY_DSM, 3, DSM_PRIMARY,
	  DSM_GROUP_PRIMARY, DSM_GROUP_PRIMARY },
	{ "dsm: a journal", DSM_POLICY_DSM, 3, DSM_JOURNAL, 0, 0 },
	{ "dsm: an oplog", DSM_POLICY_DSM, 3, DSM_OPLOG, 0, 0 },
	{ "dsm: another file", DSM_POLICY_DSM, 3, DSM_OTHER, 0, 0 },
	{ "boundary: a collection", DSM_POLICY_BOUNDARY, 2, DSM_COLLECTION, 1, 2 },
	{ "boundary: a primary index is an index", DSM_POLICY_BOUNDARY, 2, DSM_PRIMARY, 1, 2 },
	{ "file: a collection", DSM_POLICY_FILE, 1, DSM_COLLECTION, 1, 1 },
	{ "none: a collection", DSM_POLICY_NONE, 1, DSM_COLLECTION, 1, 1 },
	{ "life: a collection", DSM_POLICY_LIFE, 3, DSM_COLLECTION, 2, 2 },
	{ "life: a primary index", DSM_POLICY_LIFE, 4, DSM_PRIMARY, 2, 2 },
	{ "life: an oplog", DSM_POLICY_LIFE, 2, DSM_OPLOG, 1, 1 },
	{ "life: a journal", DSM_POLICY_LIFE, 3, DSM_JOURNAL, 0, 0 },
	{ "life: another file", DSM_POLICY_LIFE, 3, DSM_OTHER, 2, 2 },
	{ "dsm with one group left", DSM_POLICY_DSM, 1, DSM_COLLECTION, 1, 1 },
};

KUNIT_ARRAY_PARAM_DESC(initial, initial_cases, what);

static void before_the_first_window_groups_go_by_class_and_side(struct kunit *test)
{
	const struct initial_case *c = test->param_value;
	struct dsm_policy_params params = paper;

	params.policy = c->policy;
	params.groups = c->groups;
	KUNIT_EXPECT_EQ(test, dsm_policy_initial(&params, c->class, DSM_BOTTOM), c->bottom);
	KUNIT_EXPECT_EQ(test, dsm_policy_initial(&params, c->class, DSM_TOP), c->top);
}

static void fixed_policies_measure_and_do_not_move(struct kunit *test)
{
	for (int policy = DSM_POLICY_NONE; policy < DSM_POLICY_DSM; policy++) {
		struct dsm_policy_params params = paper;
		struct dsm_file_window file = window(DSM_COLLECTION, 4096, 1024);

		params.policy = policy;
		params.groups = policy == DSM_POLICY_BOUNDARY ? 2 : 1;
		dsm_policy_checkpoint(&params, &file, 1, 1000, &life);
		KUNIT_EXPECT_EQ(test, file.region[DSM_BOTTOM].hotness, LG(2));
		expect_groups(test, &file, DSM_GROUP_NONE, DSM_GROUP_NONE);
		expect_next(test, &file, 1, 2);
	}
}

/* A file of so many pages, written so many in the window. */
static struct dsm_file_window whole(enum dsm_class class, u64 mapped, u64 bottom, u64 top)
{
	struct dsm_file_window file = window(class, bottom, top);

	file.mapped = mapped;
	return file;
}

static void life_groups_files_of_all_types_by_what_is_written_of_them(struct kunit *test)
{
	const struct dsm_policy_params params = { .policy = DSM_POLICY_LIFE, .groups = 3 };
	/* hotness -10, -9, 0, 0, 4, and 9, which decides nothing; the sides are one file's */
	struct dsm_file_window file[] = {
		whole(DSM_COLLECTION, 1 << 20, 512, 512),
		whole(DSM_OPLOG, 1 << 20, 2048, 0),
		whole(DSM_INDEX, 1024, 0, 1024),
		whole(DSM_COLLECTION, 4096, 4000, 96),
		whole(DSM_PRIMARY, 128, 2048, 0),
		whole(DSM_OTHER, 32, 20000, 0),
		whole(DSM_JOURNAL, 128, 9999, 0),
	};
	static const u8 group[] = { 1, 1, 2, 2, 3, 3 };

	dsm_policy_checkpoint(&params, file, ARRAY_SIZE(file), 1000, &life);
	for (int i = 0; i < ARRAY_SIZE(group); i++) {
		expect_groups(test, &file[i], group[i], group[i]);
		expect_next(test, &file[i], group[i], group[i]);
	}
	KUNIT_EXPECT_EQ(test, file[0].region[DSM_TOP].hotness, LG(-10));
	KUNIT_EXPECT_EQ(test, file[4].region[DSM_BOTTOM].hotness, LG(4));
	KUNIT_EXPECT_EQ(test, file[6].written, 0);
	expect_next(test, &file[6], 1, 2);
}

static void what_was_written_before_counts_for_seven_eighths(struct kunit *test)
{
	const struct dsm_policy_params params = { .policy = DSM_POLICY_LIFE, .groups = 2 };
	struct dsm_file_window file[] = {
		whole(DSM_COLLECTION, 1 << 20, 1024, 0),
		whole(DSM_INDEX, 1024, 1024, 0),
		whole(DSM_INDEX, 1 << 20, 63, 0),
	};

	/* 63 pages are too few to know a file by. */
	dsm_policy_checkpoint(&params, file, 3, 1000, &life);
	expect_next(test, &file[0], 1, 1);
	expect_next(test, &file[1], 2, 2);
	KUNIT_EXPECT_EQ(test, file[2].written, 63 << DSM_WRITTEN_SHIFT);

	expect_next(test, &file[2], 2, 2);

	/* 55.125 and 8 are too few, seven eighths of that and 9 are not. */
	file[0].region[DSM_BOTTOM].pages = 0;
	file[2].region[DSM_BOTTOM].pages = 8;
	dsm_policy_checkpoint(&params, file, 3, 1000, &life);
	KUNIT_EXPECT_EQ(test, file[0].written, 896 << DSM_WRITTEN_SHIFT);
	expect_next(test, &file[0], 1, 1);
	KUNIT_EXPECT_EQ(test, file[2].written, (63 << DSM_WRITTEN_SHIFT) + 32);
	expect_next(test, &file[2], 2, 2);

	file[2].region[DSM_BOTTOM].pages = 9;
	dsm_policy_checkpoint(&params, file, 3, 1000, &life);
	KUNIT_EXPECT_GT(test, file[2].region[DSM_BOTTOM].hotness, LG(-14));
	KUNIT_EXPECT_LT(test, file[2].region[DSM_BOTTOM].hotness, LG(-13));
	expect_next(test, &file[2], 1, 1);
}

static void an_unknown_file_is_with_the_mean(struct kunit *test)
{
	const struct dsm_policy_params params = { .policy = DSM_POLICY_LIFE, .groups = 3 };
	struct dsm_file_window file[] = {
		whole(DSM_COLLECTION, 1 << 20, 1024, 0),
		whole(DSM_COLLECTION, 1 << 15, 1024, 0),
		whole(DSM_COLLECTION, 1024, 1024, 0),
		whole(DSM_COLLECTION, 0, 63, 0),
	};

	dsm_policy_checkpoint(&params, file, 4, 1000, &life);
	expect_next(test, &file[0], 1, 1);
	expect_next(test, &file[2], 3, 3);
	expect_next(test, &file[3], 2, 2);
	file[2].region[DSM_BOTTOM].pages = 1 << 20;
	dsm_policy_checkpoint(&params, file, 4, 1000, &life);
	expect_next(test, &file[3], 3, 3);
}

static void files_of_one_life_are_in_the_middle(struct kunit *test)
{
	struct dsm_policy_params params = { .policy = DSM_POLICY_LIFE, .groups = 5 };
	struct dsm_file_window file[] = {
		whole(DSM_COLLECTION, 1024, 1024, 0),
		whole(DSM_INDEX, 2048, 2048, 0),
		whole(DSM_INDEX, 2048, 0, 0),
	};

	dsm_policy_checkpoint(&params, file, 3, 1000, &life);
	for (int i = 0; i < 3; i++)
		expect_next(test, &file[i], 3, 3);
	dsm_policy_checkpoint(&params, &file[2], 1, 1000, &life);
	expect_next(test, &file[2], 3, 3);
	dsm_policy_checkpoint(&params, NULL, 0, 1000, &life);
	params.groups = 1;
	file[1].region[DSM_BOTTOM].pages = 1 << 20;
	dsm_policy_checkpoint(&params, file, 3, 1000, &life);
	for (int i = 0; i < 3; i++)
		expect_next(test, &file[i], 1, 1);
}

static void life_overflows_nowhere(struct kunit *test)
{
	const struct dsm_policy_params params = { .policy = DSM_POLICY_LIFE, .groups = 16 };
	struct dsm_file_window file[] = {
		whole(DSM_COLLECTION, U32_MAX, 64, 0),
		whole(DSM_COLLECTION, 0, U32_MAX, U32_MAX),
		whole(DSM_COLLECTION, 1ULL << 33, 1ULL << 47, 1ULL << 47),
	};

	for (int i = 0; i < 100; i++)
		dsm_policy_checkpoint(&params, file, 3, 1000, &life);
	KUNIT_EXPECT_GT(test, file[2].written, 7ULL << (48 + DSM_WRITTEN_SHIFT));
	KUNIT_EXPECT_EQ(test, file[1].region[DSM_TOP].next, 16);
	KUNIT_EXPECT_LT(test, file[0].region[DSM_TOP].next, file[2].region[DSM_TOP].next);
	KUNIT_EXPECT_LT(test, file[2].region[DSM_TOP].next, 16);
}

static struct kunit_case policies_cases[] = {
	KUNIT_CASE_SLOW(the_logarithm_is_the_simulators),
	KUNIT_CASE_PARAM(hotness_is_eqs_1_and_2, hotness_gen_params),
	KUNIT_CASE(hotness_of_extremes_does_not_overflow),
	KUNIT_CASE_PARAM(groups_are_eqs_3_and_4, group_gen_params),
	KUNIT_CASE(on_a_pivot_the_colder_group_holds),
	KUNIT_CASE(equal_hotness_is_group_1),
	KUNIT_CASE(one_region_alone_is_group_1),
	KUNIT_CASE(without_writes_every_region_is_group_1),
	KUNIT_CASE(no_files_are_no_problem),
	KUNIT_CASE(an_idle_region_takes_no_part_in_min_and_max),
	KUNIT_CASE(collections_and_indexes_are_grouped_apart),
	KUNIT_CASE_PARAM(the_primary_filter_is_line_16_of_fig_9, filter_gen_params),
	KUNIT_CASE(a_share_counts_among_all_indexes),
	KUNIT_CASE(the_filter_can_be_switched_off),
	KUNIT_CASE_PARAM(prediction_is_fig_a5, prediction_gen_params),
	KUNIT_CASE(a_file_with_one_side_is_where_it_was_found),
	KUNIT_CASE(taken_literally_fig_a5_leaves_it_with_the_coldest),
	KUNIT_CASE(a_primary_index_that_is_none_any_more_is_predicted_again),
	KUNIT_CASE_PARAM(before_the_first_window_groups_go_by_class_and_side, initial_gen_params),
	KUNIT_CASE(fixed_policies_measure_and_do_not_move),
	KUNIT_CASE(life_groups_files_of_all_types_by_what_is_written_of_them),
	KUNIT_CASE(what_was_written_before_counts_for_seven_eighths),
	KUNIT_CASE(an_unknown_file_is_with_the_mean),
	KUNIT_CASE(files_of_one_life_are_in_the_middle),
	KUNIT_CASE(life_overflows_nowhere),
	{}
};

static struct kunit_suite policies_suite = {
	.name = "dm-dsm-policies",
	.test_cases = policies_cases,
};

kunit_test_suite(policies_suite);
