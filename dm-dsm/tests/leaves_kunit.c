// SPDX-License-Identifier: GPL-2.0-only
/*
 * Above other device-mapper devices: no write ever carries a stream that the disk it
 * ends on does not have, whatever is exchanged below.  The mock disks fail one.
 */
#include <kunit/test.h>
#include <linux/file.h>
#include <linux/kdev_t.h>
#include <linux/string.h>

#include "../dsm.h"
#include "mock.h"

#define NUMBER	16			/* room for a device number */
#define LINEAR	(2 * DSM_MOCK_TARGET)	/* sectors of a device in between */

__printf(2, 3)
static char *format(struct kunit *test, const char *fmt, ...)
{
	char *text = kunit_kmalloc(test, 256, GFP_KERNEL);
	va_list args;

	KUNIT_ASSERT_NOT_NULL(test, text);
	va_start(args, fmt);
	vsnprintf(text, 256, fmt, args);
	va_end(args);
	return text;
}

/* A line for dsm above the device in "%s", with @leaves and further @features. */
static const char *line(struct kunit *test, unsigned int words, const char *features,
			struct dsm_mock_disk *leaf, struct dsm_mock_disk *other)
{
	char first[NUMBER], second[NUMBER] = "";

	format_dev_t(first, leaf->bdev->bd_dev);
	if (other)
		format_dev_t(second, other->bdev->bd_dev);
	return format(test, "%%s 0 %u leaves %s%s%s%s", words + 2, first, other ? "," : "",
		      second, features);
}

static struct dsm_mock_dm *linear_on(struct kunit *test, struct dsm_mock_disk *disk)
{
	return dsm_mock_dm(test, "linear", LINEAR, "%s 0", disk->bdev);
}

/* Half of what it has lies on each. */
static struct dsm_mock_dm *striped_on(struct kunit *test, struct dsm_mock_disk *disk,
				      struct dsm_mock_disk *other)
{
	char second[NUMBER];

	format_dev_t(second, other->bdev->bd_dev);
	return dsm_mock_dm(test, "striped", LINEAR, format(test, "2 8 %%s 0 %s 0", second),
			   disk->bdev);
}

static struct dsm_mock_dm *dsm_on(struct kunit *test, struct dsm_mock_dm *below,
				  const char *args)
{
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, args, below->bdev);

	dsm_mock_upload(test, dm);
	return dm;
}

/* A write to each region and to a gap: all succeed. */
static void expect_all_taken(struct kunit *test, struct dsm_mock_dm *dm,
			     struct dsm_mock_disk *disk)
{
	static const sector_t sectors[] = { 0, 64, 128, 136, 256, 264, 272, 280, 800 };

	for (int i = 0; i < ARRAY_SIZE(sectors); i++)
		KUNIT_EXPECT_EQ(test, dsm_mock_write(dm, sectors[i], 8), 0);
	KUNIT_EXPECT_EQ(test, disk->refused, 0);
}

/* Stream and hint of the last write that arrived. */
static void expect_stamp(struct kunit *test, struct dsm_mock_dm *dm,
			 struct dsm_mock_disk *disk, sector_t sector, u8 stream, u8 hint)
{
	dsm_mock_forget(disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(dm, sector, 8), 0);
	KUNIT_ASSERT_EQ(test, disk->nr, 1);
	KUNIT_EXPECT_EQ(test, disk->bio[0].stream, stream);
	KUNIT_EXPECT_EQ(test, disk->bio[0].hint, hint);
}

static void resume_again(struct kunit *test, struct dsm_mock_dm *dm)
{
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(dm), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);
}

/* Whose leaves are not named */

static void a_stacked_device_gets_hints_alone(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_on(test, linear_on(test, disk), "%s 0");

	dsm_mock_expect_status(test, dm, "policy dsm layout none groups 3 device_streams 0 source stacked streams_used 0 ");
	expect_stamp(test, dm, disk, 64, 0, WRITE_LIFE_MEDIUM);
	expect_stamp(test, dm, disk, 264, 0, WRITE_LIFE_SHORT);
}

static void nobody_states_more_than_is_known(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_on(test, linear_on(test, disk), "%s 0 2 streams 12");

	dsm_mock_expect_status(test, dm, "device_streams 0 source stacked streams_used 0 ");
	dsm_mock_expect_reply(test, dm, "set streams 255", "");
	dsm_mock_expect_reply(test, dm, "set STREAMS 3", "");
	dsm_mock_expect_status(test, dm, "device_streams 0 source stacked streams_used 0 ");
	expect_stamp(test, dm, disk, 64, 0, WRITE_LIFE_MEDIUM);
}

/* What a kernel does that stacks the limit. */
static void a_stacked_device_may_tell_by_itself(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *linear = linear_on(test, disk);
	struct request_queue *queue = bdev_get_queue(linear->bdev);
	struct queue_limits limits = queue_limits_start_update(queue);
	struct dsm_mock_dm *dm;

	limits.max_write_streams = 8;
	KUNIT_ASSERT_EQ(test, queue_limits_commit_update_frozen(queue, &limits), 0);
	dm = dsm_on(test, linear, "%s 0");
	dsm_mock_expect_status(test, dm, "layout dsm groups 3 device_streams 8 source queue streams_used 8 ");
	expect_stamp(test, dm, disk, 64, 4, WRITE_LIFE_MEDIUM);
}

/* Whose leaves are */

static void the_leaf_reports(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_on(test, linear_on(test, disk), line(test, 0, "", disk, NULL));

	dsm_mock_expect_status(test, dm, "layout dsm groups 3 device_streams 8 source leaves streams_used 8 ");
	expect_stamp(test, dm, disk, 64, 4, WRITE_LIFE_MEDIUM);
	expect_stamp(test, dm, disk, 800, 1, WRITE_LIFE_NOT_SET);
	expect_all_taken(test, dm, disk);
}

static const struct leaf_case {
	const char *what;
	unsigned int first, second;	/* streams of the leaves */
	const char *features;		/* further ones, two words */
	const char *status;
} leaf_cases[] = {
	{ "the same", 8, 8, "",
	  "layout dsm groups 3 device_streams 8 source leaves streams_used 8 " },
	{ "the second has fewer", 8, 5, "",
	  "layout file groups 1 device_streams 5 source leaves streams_used 5 " },
	{ "the first has fewer", 3, 8, "",
	  "layout file groups 1 device_streams 3 source leaves streams_used 3 " },
	{ "one has none", 8, 0, "",
	  "layout none groups 3 device_streams 0 source none streams_used 0 " },
	{ "neither has any", 0, 0, "",
	  "layout none groups 3 device_streams 0 source none streams_used 0 " },
	{ "the user wants fewer", 8, 8, " streams 4",
	  "layout file groups 1 device_streams 8 source leaves streams_used 4 " },
	{ "the user wants more", 8, 6, " streams 12",
	  "layout dsm groups 2 device_streams 6 source leaves streams_used 6 " },
	{ "the user wants others", 8, 6, " stream_base 5",
	  "layout file groups 1 device_streams 6 source leaves streams_used 2 " },
	{ "more than a bio can carry", 1000, 300, "",
	  "layout dsm groups 3 device_streams 255 source leaves streams_used 10 " },
};

KUNIT_ARRAY_PARAM_DESC(leaf, leaf_cases, what);

static void the_least_of_the_leaves_counts(struct kunit *test)
{
	const struct leaf_case *c = test->param_value;
	struct dsm_mock_disk *disk = dsm_mock_disk(test, c->first);
	struct dsm_mock_disk *other = dsm_mock_disk(test, c->second);
	struct dsm_mock_dm *dm = dsm_on(test, striped_on(test, disk, other),
					line(test, *c->features ? 2 : 0, c->features,
					     disk, other));

	dsm_mock_expect_status(test, dm, c->status);
	expect_all_taken(test, dm, disk);
	KUNIT_EXPECT_EQ(test, other->refused, 0);
	KUNIT_EXPECT_GT(test, other->nr, 0);
}

static void a_leaf_may_be_a_partition(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_disk leaf = { .bdev = dsm_mock_partition(test, disk) };
	struct dsm_mock_dm *linear = dsm_mock_dm(test, "linear", LINEAR, "%s 0", leaf.bdev);
	struct dsm_mock_dm *dm = dsm_on(test, linear, line(test, 0, "", &leaf, NULL));

	dsm_mock_expect_status(test, dm, "device_streams 8 source leaves streams_used 8 ");
}

static void a_target_lies_above_another(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *lower = dsm_mock_dm(test, "dsm", LINEAR, "%s 0", disk->bdev);
	struct dsm_mock_dm *dm = dsm_on(test, lower, line(test, 0, "", disk, NULL));

	dsm_mock_expect_status(test, dm, "device_streams 8 source leaves streams_used 8 ");
	expect_stamp(test, dm, disk, 64, 4, WRITE_LIFE_MEDIUM);
}

static void leaves_are_in_the_table_line(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_disk *other = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_on(test, striped_on(test, disk, other),
					line(test, 0, "", disk, other));
	char first[NUMBER], second[NUMBER], ima[512];
	char *table = kunit_kstrdup(test, dsm_mock_table(dm), GFP_KERNEL);

	format_dev_t(first, disk->bdev->bd_dev);
	format_dev_t(second, other->bdev->bd_dev);
	KUNIT_EXPECT_NOT_NULL(test, strstr(table, " 0 32 policy dsm "));
	KUNIT_EXPECT_STREQ(test, strstr(table, " leaves"),
			   format(test, " leaves %s,%s", first, second));
	dsm_status(dsm_mock_target(test, dm)->ti, STATUSTYPE_IMA, 0, ima, sizeof(ima));
	KUNIT_EXPECT_STREQ(test, strstr(ima, ",leaves"),
			   format(test, ",leaves=%s+%s;", first, second));

	KUNIT_ASSERT_EQ(test, dsm_mock_load(dm, "dsm", table, NULL), 0);
	resume_again(test, dm);
	KUNIT_EXPECT_STREQ(test, dsm_mock_table(dm), table);
	dsm_mock_expect_status(test, dm, "device_streams 8 source leaves streams_used 8 ");
	dsm_mock_expect_refusal(test, dm, "set Leaves 1:0", -EINVAL,
				"set leaves: Cannot be changed by message; reload the table");
	KUNIT_EXPECT_STREQ(test, dsm_mock_table(dm), table);
}

static void refused(struct kunit *test, const char *list, struct block_device *above,
		    const char *reason)
{
	char *error;
	struct dsm_leaves *leaves = dsm_leaves_open(list, above, &error);

	KUNIT_EXPECT_TRUE_MSG(test, IS_ERR(leaves), "%s", list);
	KUNIT_EXPECT_STREQ(test, error, reason);
	flush_delayed_fput();
}

static void wrong_leaves_are_refused(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *linear = linear_on(test, disk);
	struct dsm_mock_disk above = { .bdev = linear->bdev };
	struct dsm_leaves *leaves;
	char *error, *many;
	char number[NUMBER];
	static const char * const lists[] = { "", ",", "99:99", "nosuchdevice", "1:2:3", "x" };

	for (int i = 0; i < ARRAY_SIZE(lists); i++)
		refused(test, lists[i], linear->bdev,
			"Cannot open leaf; leaves must be <dev>[,<dev>...]");

	format_dev_t(number, disk->bdev->bd_dev);
	refused(test, number, disk->bdev,
		"Leaves need a bio-based device-mapper device");
	refused(test, format(test, "%s,", number), linear->bdev,
		"Cannot open leaf; leaves must be <dev>[,<dev>...]");

	many = kunit_kzalloc(test, (DSM_MAX_LEAVES + 1) * NUMBER, GFP_KERNEL);
	for (int i = 0; i <= DSM_MAX_LEAVES; i++) {
		strcat(many, i ? "," : "");
		strcat(many, number);
	}
	refused(test, many, linear->bdev, "Too many leaves (at most 64)");
	*strrchr(many, ',') = '\0';
	leaves = dsm_leaves_open(many, linear->bdev, &error);
	KUNIT_EXPECT_FALSE(test, IS_ERR(leaves));
	if (!IS_ERR(leaves))
		dsm_leaves_close(leaves);

	format_dev_t(number, above.bdev->bd_dev);
	refused(test, number, linear->bdev,
		"Leaf is a stacked device; name the disks below it");
	KUNIT_EXPECT_LT(test, dsm_mock_try_table(test, "dsm", 4096,
						 line(test, 0, "", disk, NULL), disk->bdev), 0);
	KUNIT_EXPECT_LT(test, dsm_mock_try_table(test, "dsm", 4096,
						 line(test, 0, "", &above, NULL), linear->bdev), 0);
	flush_delayed_fput();
}

/* What changes below a live target */

static void a_leaf_is_asked_again(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_on(test, linear_on(test, disk), line(test, 0, "", disk, NULL));

	dsm_mock_set_streams(disk, 3);
	resume_again(test, dm);
	dsm_mock_expect_status(test, dm, "layout file groups 1 device_streams 3 source leaves streams_used 3 ");
	expect_all_taken(test, dm, disk);

	dsm_mock_set_streams(disk, 10);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	dsm_mock_expect_status(test, dm, "layout dsm groups 3 device_streams 10 source leaves streams_used 10 ");
	expect_all_taken(test, dm, disk);

	dsm_mock_set_streams(disk, 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "set groups 4"), 0);
	dsm_mock_expect_status(test, dm, "device_streams 0 source none streams_used 0 ");
}

/* As pvmove or lvextend might: without notice to the target. */
static void a_table_below_is_reloaded_to_a_disk_that_takes_fewer(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8), *other = dsm_mock_disk(test, 5);
	struct dsm_mock_dm *linear = linear_on(test, disk);
	struct dsm_mock_dm *dm = dsm_on(test, linear, line(test, 0, "", disk, NULL));

	dsm_mock_expect_status(test, dm, "layout file groups 1 device_streams 5 source machine streams_used 5 ");
	expect_all_taken(test, dm, disk);

	KUNIT_ASSERT_EQ(test, dsm_mock_load(linear, "linear", "%s 0", other->bdev), 0);
	resume_again(test, linear);
	expect_all_taken(test, dm, other);
	KUNIT_EXPECT_EQ(test, other->nr, 9);

	/* A disk directly below is not concerned. */
	dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 100000", disk->bdev);
	dsm_mock_expect_status(test, dm, "device_streams 8 source queue streams_used 8 ");
}

static void a_disk_comes_later_and_takes_fewer(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8), *other, *without;
	struct dsm_mock_dm *linear = linear_on(test, disk);
	struct dsm_mock_dm *dm = dsm_on(test, linear, line(test, 0, "", disk, NULL));
	struct dsm_mock_dm *hints = dsm_on(test, linear_on(test, disk), "%s 0");

	dsm_mock_expect_status(test, dm, "device_streams 8 source leaves streams_used 8 ");
	without = dsm_mock_disk(test, 0);
	other = dsm_mock_disk(test, 9);
	dsm_mock_expect_status(test, dm, "device_streams 8 source leaves streams_used 8 ");

	/* At once, without a checkpoint */
	other = dsm_mock_disk(test, 3);
	dsm_mock_expect_status(test, dm, "layout file groups 1 device_streams 3 source machine streams_used 3 ");
	KUNIT_ASSERT_EQ(test, dsm_mock_load(linear, "linear", "%s 0", other->bdev), 0);
	resume_again(test, linear);
	expect_all_taken(test, dm, other);
	expect_all_taken(test, hints, disk);

	/* Where no disk looks at streams they may be anything. */
	KUNIT_ASSERT_EQ(test, dsm_mock_load(linear, "linear", "%s 0", without->bdev), 0);
	resume_again(test, linear);
	expect_all_taken(test, dm, without);

	/* It has gone: not believed before the device is asked again. */
	dsm_mock_remove(test, other);
	dsm_mock_expect_status(test, dm, "device_streams 3 source machine ");
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	dsm_mock_expect_status(test, dm, "layout dsm groups 3 device_streams 8 source leaves streams_used 8 ");
}

static void a_leaf_vanishes(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8), *other = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *linear = linear_on(test, disk);
	struct dsm_mock_dm *dm = dsm_on(test, linear, line(test, 0, "", disk, other));

	dsm_mock_expect_status(test, dm, "device_streams 8 source leaves streams_used 8 ");
	dsm_mock_remove(test, other);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	dsm_mock_expect_status(test, dm, "device_streams 8 source leaves streams_used 8 ");
	expect_all_taken(test, dm, disk);
}

static void a_target_that_failed_is_not_watched(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *linear = linear_on(test, disk);

	KUNIT_EXPECT_LT(test, dsm_mock_try_table(test, "dsm", LINEAR + 8, "%s 0", linear->bdev), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_try_table(test, "dsm", LINEAR, "%s 0", linear->bdev), 0);
	dsm_mock_disk(test, 3);
}

static struct kunit_case leaves_cases[] = {
	KUNIT_CASE(a_stacked_device_gets_hints_alone),
	KUNIT_CASE(nobody_states_more_than_is_known),
	KUNIT_CASE(a_stacked_device_may_tell_by_itself),
	KUNIT_CASE(the_leaf_reports),
	KUNIT_CASE_PARAM(the_least_of_the_leaves_counts, leaf_gen_params),
	KUNIT_CASE(a_leaf_may_be_a_partition),
	KUNIT_CASE(a_target_lies_above_another),
	KUNIT_CASE(leaves_are_in_the_table_line),
	KUNIT_CASE(wrong_leaves_are_refused),
	KUNIT_CASE(a_leaf_is_asked_again),
	KUNIT_CASE(a_table_below_is_reloaded_to_a_disk_that_takes_fewer),
	KUNIT_CASE(a_disk_comes_later_and_takes_fewer),
	KUNIT_CASE(a_leaf_vanishes),
	KUNIT_CASE(a_target_that_failed_is_not_watched),
	{}
};

static struct kunit_suite leaves_suite = {
	.name = "dm-dsm-leaves",
	.test_cases = leaves_cases,
};

kunit_test_suite(leaves_suite);
