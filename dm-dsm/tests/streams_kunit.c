// SPDX-License-Identifier: GPL-2.0-only
#include <kunit/test.h>
#include <linux/rw_hint.h>

#include "../streams.h"
#include "mock.h"

/* What the device can take */

static const struct device_case {
	const char *what;
	unsigned int limit;		/* of the queue */
	unsigned int streams;
	enum dsm_stream_source source;
} device_cases[] = {
	{ "none", 0, 0, DSM_STREAMS_NONE },
	{ "1", 1, 1, DSM_STREAMS_QUEUE },
	{ "3", 3, 3, DSM_STREAMS_QUEUE },
	{ "7", 7, 7, DSM_STREAMS_QUEUE },
	{ "8", 8, 8, DSM_STREAMS_QUEUE },
	{ "16", 16, 16, DSM_STREAMS_QUEUE },
	{ "255", 255, 255, DSM_STREAMS_QUEUE },
	{ "more than a bio can carry", 1000, 255, DSM_STREAMS_QUEUE },
};

KUNIT_ARRAY_PARAM_DESC(device, device_cases, what);

static void a_disk_reports_its_streams(struct kunit *test)
{
	const struct device_case *c = test->param_value;
	struct dsm_mock_disk *disk = dsm_mock_disk(test, c->limit);
	enum dsm_stream_source source;

	KUNIT_EXPECT_EQ(test, c->streams,
			dsm_device_streams(disk->bdev, false, NULL, &source));
	KUNIT_EXPECT_EQ(test, source, c->source);
}

static void a_partition_has_the_streams_of_its_disk(struct kunit *test)
{
	const struct device_case *c = test->param_value;
	struct dsm_mock_disk *disk = dsm_mock_disk(test, c->limit);
	struct block_device *partition = dsm_mock_partition(test, disk);
	enum dsm_stream_source source;

	KUNIT_ASSERT_TRUE(test, bdev_is_partition(partition));
	KUNIT_EXPECT_EQ(test, c->streams,
			dsm_device_streams(partition, false, NULL, &source));
	KUNIT_EXPECT_EQ(test, source, c->source);
}

/* Which class and group gets which stream */

static const struct layout_case {
	const char *what;
	enum dsm_policy_id policy;
	unsigned int groups, base, last;
	enum dsm_policy_id layout;
	unsigned int k, used;
	u8 other, journal, oplog, primary, collection, index;	/* of group 1 */
} layout_cases[] = {
#define DSM	DSM_POLICY_DSM
#define BND	DSM_POLICY_BOUNDARY
#define FILE	DSM_POLICY_FILE
#define NONE	DSM_POLICY_NONE
#define LIFE	DSM_POLICY_LIFE
	{ "dsm 3 on 0",		DSM, 3, 1, 0, NONE, 3, 0, 0, 0, 0, 0, 0, 0 },
	{ "dsm 3 on 1",		DSM, 3, 1, 1, NONE, 3, 0, 0, 0, 0, 0, 0, 0 },
	{ "dsm 3 on 2",		DSM, 3, 1, 2, FILE, 1, 2, 1, 1, 1, 1, 2, 2 },
	{ "dsm 3 on 3",		DSM, 3, 1, 3, FILE, 1, 3, 1, 1, 1, 1, 2, 3 },
	{ "dsm 3 on 4",		DSM, 3, 1, 4, FILE, 1, 4, 1, 2, 2, 2, 3, 4 },
	{ "dsm 3 on 5",		DSM, 3, 1, 5, FILE, 1, 5, 1, 2, 5, 2, 3, 4 },
	{ "dsm 3 on 6",		DSM, 3, 1, 6, DSM, 2, 6, 1, 2, 2, 2, 3, 5 },
	{ "dsm 3 on 7",		DSM, 3, 1, 7, DSM, 2, 7, 1, 2, 2, 7, 3, 5 },
	{ "dsm 3 on 8",		DSM, 3, 1, 8, DSM, 3, 8, 1, 2, 2, 2, 3, 6 },
	{ "dsm 3 on 9",		DSM, 3, 1, 9, DSM, 3, 9, 1, 2, 2, 9, 3, 6 },
	{ "dsm 3 on 10",	DSM, 3, 1, 10, DSM, 3, 10, 1, 2, 10, 9, 3, 6 },
	{ "dsm 3 on 16",	DSM, 3, 1, 16, DSM, 3, 10, 1, 2, 10, 9, 3, 6 },
	{ "dsm 3 on 255",	DSM, 3, 1, 255, DSM, 3, 10, 1, 2, 10, 9, 3, 6 },
	{ "dsm 2 on 8",		DSM, 2, 1, 8, DSM, 2, 8, 1, 2, 8, 7, 3, 5 },
	{ "dsm 16 on 255",	DSM, 16, 1, 255, DSM, 16, 36, 1, 2, 36, 35, 3, 19 },
	{ "dsm 16 on 16",	DSM, 16, 1, 16, DSM, 7, 16, 1, 2, 2, 2, 3, 10 },
	{ "dsm 3 on 5 to 12",	DSM, 3, 5, 12, DSM, 3, 8, 5, 6, 6, 6, 7, 10 },
	{ "dsm 3 on 254 and 255", DSM, 3, 254, 255, FILE, 1, 2, 254, 254, 254, 254, 255, 255 },
	{ "boundary on 7",	BND, 3, 1, 7, BND, 2, 7, 1, 2, 7, 2, 3, 5 },
	{ "boundary on 6",	BND, 3, 1, 6, BND, 2, 6, 1, 2, 2, 2, 3, 5 },
	{ "boundary on 5",	BND, 3, 1, 5, FILE, 1, 5, 1, 2, 5, 2, 3, 4 },
	{ "file on 16",		FILE, 3, 1, 16, FILE, 1, 5, 1, 2, 5, 2, 3, 4 },
	{ "file on 4",		FILE, 3, 1, 4, FILE, 1, 4, 1, 2, 2, 2, 3, 4 },
	{ "life 3 on 1",	LIFE, 3, 1, 1, NONE, 3, 0, 0, 0, 0, 0, 0, 0 },
	{ "life 3 on 2",	LIFE, 3, 1, 2, LIFE, 1, 2, 1, 1, 2, 2, 2, 2 },
	{ "life 3 on 3",	LIFE, 3, 1, 3, LIFE, 2, 3, 1, 1, 2, 2, 2, 2 },
	{ "life 3 on 4",	LIFE, 3, 1, 4, LIFE, 2, 4, 1, 2, 3, 3, 3, 3 },
	{ "life 3 on 5",	LIFE, 3, 1, 5, LIFE, 3, 5, 1, 2, 3, 3, 3, 3 },
	{ "life 3 on 255",	LIFE, 3, 1, 255, LIFE, 3, 5, 1, 2, 3, 3, 3, 3 },
	{ "life 16 on 8",	LIFE, 16, 1, 8, LIFE, 6, 8, 1, 2, 3, 3, 3, 3 },
	{ "life 3 on 5 to 12",	LIFE, 3, 5, 12, LIFE, 3, 5, 5, 6, 7, 7, 7, 7 },
	{ "life 3 on 254 and 255", LIFE, 3, 254, 255, LIFE, 1, 2, 254, 254, 255, 255, 255, 255 },
	{ "none on 16",		NONE, 3, 1, 16, NONE, 1, 0, 0, 0, 0, 0, 0, 0 },
#undef DSM
#undef BND
#undef FILE
#undef NONE
#undef LIFE
};

KUNIT_ARRAY_PARAM_DESC(layout, layout_cases, what);

static u8 stream(const struct dsm_layout *layout, enum dsm_class class, u8 group)
{
	return dsm_layout_stamp(layout, class, group).stream;
}

static void a_layout_is_the_documented_one(struct kunit *test)
{
	const struct layout_case *c = test->param_value;
	struct dsm_layout layout;

	dsm_layout_init(&layout, c->policy, c->groups, c->base, c->last, true);
	KUNIT_EXPECT_EQ(test, layout.policy, c->layout);
	KUNIT_EXPECT_EQ(test, layout.groups, c->k);
	KUNIT_EXPECT_EQ(test, layout.used, c->used);
	KUNIT_EXPECT_EQ(test, stream(&layout, DSM_UNMAPPED, 1), c->other);
	KUNIT_EXPECT_EQ(test, stream(&layout, DSM_OTHER, 1),
			c->policy == DSM_POLICY_LIFE ? c->collection : c->other);
	KUNIT_EXPECT_EQ(test, stream(&layout, DSM_JOURNAL, 0), c->journal);
	KUNIT_EXPECT_EQ(test, stream(&layout, DSM_OPLOG, 1), c->oplog);
	if (c->policy != DSM_POLICY_LIFE) {
		KUNIT_EXPECT_EQ(test, stream(&layout, DSM_INDEX, DSM_GROUP_PRIMARY), c->primary);
		KUNIT_EXPECT_EQ(test, stream(&layout, DSM_PRIMARY, DSM_GROUP_PRIMARY), c->primary);
	}
	for (unsigned int group = 1; group <= c->k; group++) {
		unsigned int further = c->used ? group - 1 : 0;

		KUNIT_EXPECT_EQ(test, stream(&layout, DSM_COLLECTION, group),
				c->collection + further);
		KUNIT_EXPECT_EQ(test, stream(&layout, DSM_INDEX, group), c->index + further);
		KUNIT_EXPECT_EQ(test, stream(&layout, DSM_PRIMARY, group), c->index + further);
		if (c->policy != DSM_POLICY_LIFE)
			continue;
		KUNIT_EXPECT_EQ(test, stream(&layout, DSM_OPLOG, group), c->oplog + further);
		KUNIT_EXPECT_EQ(test, stream(&layout, DSM_OTHER, group), c->oplog + further);
	}
}

/* How many stamps of a layout are not one of the streams @base to @last, or none. */
static unsigned int stamps_outside(const struct dsm_layout *layout,
				   unsigned int base, unsigned int last)
{
	unsigned int outside = 0;

	for (int class = 0; class < DSM_NR_CLASSES; class++) {
		u8 id = stream(layout, class, DSM_GROUP_PRIMARY);

		if (!layout->by_life && (class == DSM_INDEX || class == DSM_PRIMARY))
			outside += id && (id < base || id > last);
		for (u8 group = 1; group <= layout->groups; group++) {
			id = stream(layout, class, group);
			outside += id && (id < base || id > last);
		}
	}
	return outside;
}

static void no_stamp_lies_outside_the_streams(struct kunit *test)
{
	static const unsigned int bases[] = { 1, 2, 100, 250, 255 };
	struct dsm_layout layout;
	unsigned int outside = 0;

	for (int i = 0; i < DSM_NR_POLICIES * ARRAY_SIZE(bases) * 256; i++) {
		unsigned int base = bases[i / 256 % ARRAY_SIZE(bases)], last = i % 256;
		enum dsm_policy_id policy = i / 256 / ARRAY_SIZE(bases);

		for (unsigned int groups = DSM_MIN_GROUPS; groups <= DSM_MAX_GROUPS; groups++) {
			dsm_layout_init(&layout, policy, groups, base, last, true);
			outside += stamps_outside(&layout, base, last);
		}
	}
	KUNIT_EXPECT_EQ(test, outside, 0);
}

static const struct hint_case {
	const char *what;
	enum dsm_policy_id policy;
	unsigned int groups, k;
	u8 hint[5];		/* by group, from 1 on */
} hint_cases[] = {
	{ "file", DSM_POLICY_FILE, 3, 1, { WRITE_LIFE_MEDIUM } },
	{ "boundary", DSM_POLICY_BOUNDARY, 3, 2, { WRITE_LIFE_EXTREME, WRITE_LIFE_SHORT } },
	{ "dsm 2", DSM_POLICY_DSM, 2, 2, { WRITE_LIFE_EXTREME, WRITE_LIFE_SHORT } },
	{ "dsm 3", DSM_POLICY_DSM, 3, 3,
	  { WRITE_LIFE_EXTREME, WRITE_LIFE_MEDIUM, WRITE_LIFE_SHORT } },
	{ "dsm 4", DSM_POLICY_DSM, 4, 4,
	  { WRITE_LIFE_EXTREME, WRITE_LIFE_LONG, WRITE_LIFE_MEDIUM, WRITE_LIFE_SHORT } },
	{ "dsm 5", DSM_POLICY_DSM, 5, 5,
	  { WRITE_LIFE_EXTREME, WRITE_LIFE_LONG, WRITE_LIFE_MEDIUM, WRITE_LIFE_MEDIUM,
	    WRITE_LIFE_SHORT } },
	{ "life 3", DSM_POLICY_LIFE, 3, 3,
	  { WRITE_LIFE_EXTREME, WRITE_LIFE_MEDIUM, WRITE_LIFE_SHORT } },
};

KUNIT_ARRAY_PARAM_DESC(hint, hint_cases, what);

static void hints_do_not_depend_on_streams(struct kunit *test)
{
	const struct hint_case *c = test->param_value;

	for (unsigned int last = 0; last <= 255; last += 255) {
		struct dsm_layout layout;

		dsm_layout_init(&layout, c->policy, c->groups, 1, last, true);
		KUNIT_EXPECT_EQ(test, layout.groups, c->k);
		for (unsigned int group = 1; group <= c->k; group++)
			KUNIT_EXPECT_EQ(test, c->hint[group - 1],
					dsm_layout_stamp(&layout, DSM_COLLECTION, group).hint);
		KUNIT_EXPECT_EQ(test, dsm_layout_stamp(&layout, DSM_JOURNAL, 0).hint,
				WRITE_LIFE_SHORT);
		KUNIT_EXPECT_EQ(test, dsm_layout_stamp(&layout, DSM_OPLOG, 1).hint,
				c->policy == DSM_POLICY_LIFE ? c->hint[0] : WRITE_LIFE_SHORT);
		KUNIT_EXPECT_EQ(test, dsm_layout_stamp(&layout, DSM_OTHER, 1).hint,
				c->policy == DSM_POLICY_LIFE ? c->hint[0] : WRITE_LIFE_NOT_SET);
		KUNIT_EXPECT_EQ(test, dsm_layout_stamp(&layout, DSM_UNMAPPED, 1).hint,
				WRITE_LIFE_NOT_SET);
		KUNIT_EXPECT_EQ(test, WRITE_LIFE_LONG,
				dsm_layout_stamp(&layout, DSM_INDEX, DSM_GROUP_PRIMARY).hint);
	}
}

static void hints_fall_with_the_hotness(struct kunit *test)
{
	for (unsigned int groups = DSM_MIN_GROUPS; groups <= DSM_MAX_GROUPS; groups++) {
		u8 before = WRITE_LIFE_EXTREME;
		struct dsm_layout layout;

		dsm_layout_init(&layout, DSM_POLICY_DSM, groups, 1, 255, true);
		for (unsigned int group = 1; group <= groups; group++) {
			u8 hint = dsm_layout_stamp(&layout, DSM_INDEX, group).hint;

			KUNIT_EXPECT_LE(test, hint, before);
			KUNIT_EXPECT_GE(test, hint, WRITE_LIFE_SHORT);
			before = hint;
		}
		KUNIT_EXPECT_EQ(test, before, WRITE_LIFE_SHORT);
	}
}

static void hints_can_be_switched_off(struct kunit *test)
{
	struct dsm_layout layout;

	dsm_layout_init(&layout, DSM_POLICY_DSM, 3, 1, 8, false);
	KUNIT_EXPECT_EQ(test, dsm_layout_stamp(&layout, DSM_COLLECTION, 3).both,
			dsm_stamp(5, 0).both);
	KUNIT_EXPECT_EQ(test, dsm_layout_stamp(&layout, DSM_JOURNAL, 0).both,
			dsm_stamp(2, 0).both);

	dsm_layout_init(&layout, DSM_POLICY_NONE, 3, 1, 8, true);
	KUNIT_EXPECT_EQ(test, dsm_layout_stamp(&layout, DSM_JOURNAL, 0).both, 0);
}

static struct kunit_case streams_cases[] = {
	KUNIT_CASE_PARAM(a_disk_reports_its_streams, device_gen_params),
	KUNIT_CASE_PARAM(a_partition_has_the_streams_of_its_disk, device_gen_params),
	KUNIT_CASE_PARAM(a_layout_is_the_documented_one, layout_gen_params),
	KUNIT_CASE_SLOW(no_stamp_lies_outside_the_streams),
	KUNIT_CASE_PARAM(hints_do_not_depend_on_streams, hint_gen_params),
	KUNIT_CASE(hints_fall_with_the_hotness),
	KUNIT_CASE(hints_can_be_switched_off),
	{}
};

static struct kunit_suite streams_suite = {
	.name = "dm-dsm-streams",
	.test_cases = streams_cases,
};

kunit_test_suite(streams_suite);
