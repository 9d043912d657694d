// SPDX-License-Identifier: GPL-2.0-only
/*
 * The messages, as a user sends them: what is replied, and what is refused with
 * which error message.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "../dsm.h"
#include "../memory.h"
#include "mock.h"

static struct dsm_mock_dm *new_target(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);

	return dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0", disk->bdev);
}

/* Refusals */

static const struct refusal {
	const char *before;	/* sent first; NULL: nothing */
	const char *message;
	const char *reason;
	int error;		/* 0: -EINVAL */
} refusals[] = {
	{ NULL, "frobnicate", "Unknown message 'frobnicate'" },
	{ NULL, "begin full",
	  "Usage: begin full <sectors>, or begin update <sectors> <generation>" },
	{ NULL, "begin full 65536 now",
	  "Usage: begin full <sectors>, or begin update <sectors> <generation>" },
	{ NULL, "begin half 65536", "begin: Invalid kind 'half', must be full or update" },
	{ NULL, "begin full 65528",
	  "begin: Invalid size '65528', device has 65536 sectors" },
	{ NULL, "begin update -1 1",
	  "begin: Invalid size '-1', device has 65536 sectors" },
	{ NULL, "begin update 65536",
	  "Usage: begin full <sectors>, or begin update <sectors> <generation>" },
	{ NULL, "begin update 65536 2",
	  "begin: Generation '2' does not match the table's 1", -ESTALE },
	{ NULL, "begin update 65536 one",
	  "begin: Generation 'one' does not match the table's 1", -ESTALE },
	{ NULL, "commit", "Usage: commit <n>" },
	{ NULL, "commit now", "Invalid upload number 'now', must be the one from begin" },
	{ NULL, "commit 0", "Invalid upload number '0', must be the one from begin" },
	{ NULL, "abort x", "Invalid upload number 'x', must be the one from begin" },
	{ NULL, "commit 18446744073709551615", "No upload 18446744073709551615", -ESTALE },
	{ NULL, "commit #", "Upload # was committed", -ESTALE },
	{ NULL, "abort #", "Upload # was committed", -ESTALE },
	{ NULL, "upload # file 1 collection -", "Upload # was committed", -ESTALE },
	{ NULL, "upload 1", "Usage: upload <n> <record>..." },
	{ NULL, "upload file 1 collection -",
	  "Invalid upload number 'file', must be the one from begin" },
	{ NULL, "file 1 collection -", "file: Record must follow upload <n>" },
	{ NULL, "extents 0:0:8", "extents: Record must follow upload <n>" },
	{ NULL, "drop 1", "drop: Record must follow upload <n>" },
	{ NULL, "checkpoint now", "Usage: checkpoint" },
	{ NULL, "reset all", "Usage: reset" },
	{ NULL, "abort", "Usage: abort <n>" },
	{ NULL, "error 1", "Usage: error" },
	{ NULL, "regions x", "regions: Invalid file id 'x'" },
	{ NULL, "regions 0 0", "regions: Invalid file count '0'" },
	{ NULL, "regions 0 -1", "regions: Invalid file count '-1'" },
	{ NULL, "regions 0 1 2", "Usage: regions [<after> [<count>]]" },
	{ NULL, "set groups", "Usage: set <name> <value>" },
	{ NULL, "set colour blue",
	  "set colour blue: Unknown feature" },
	{ NULL, "set policy best",
	  "set policy best: policy must be " DSM_POLICY_NAMES },
	{ NULL, "set groups 1", "set groups 1: groups must be a number from 2 to 16" },
	{ NULL, "set groups 17", "set groups 17: groups must be a number from 2 to 16" },
	{ NULL, "set groups 0", "set groups 0: groups must be a number from 2 to 16" },
	{ NULL, "set groups -3", "set groups -3: groups must be a number from 2 to 16" },
	{ NULL, "set groups 3x", "set groups 3x: groups must be a number from 2 to 16" },
	{ NULL, "set groups 99999999999",
	  "set groups 99999999999: groups must be a number from 2 to 16" },
	{ NULL, "set groups auto", "set groups auto: groups must be a number from 2 to 16" },
	{ NULL, "set alpha 1", "set alpha 1: alpha must be auto or a number from 2 to 64" },
	{ NULL, "set alpha 65536",
	  "set alpha 65536: alpha must be auto or a number from 2 to 64" },
	{ NULL, "set alpha nan", "set alpha nan: alpha must be auto or a number from 2 to 64" },
	{ NULL, "set prediction maybe",
	  "set prediction maybe: prediction must be off, predicted, computed or literal" },
	{ NULL, "set range all", "set range all: range must be written or region" },
	{ NULL, "set primary_filter 1",
	  "set primary_filter 1: primary_filter must be on or off" },
	{ NULL, "set threshold1 20001",
	  "set threshold1 20001: threshold1 must be a number from 0 to 20000 (in 0.01 %)" },
	{ NULL, "set threshold2 10001",
	  "set threshold2 10001: threshold2 must be a number from 0 to 10000 (in 0.01 %)" },
	{ NULL, "set threshold2 -1",
	  "set threshold2 -1: threshold2 must be a number from 0 to 10000 (in 0.01 %)" },
	{ NULL, "set streams 256",
	  "set streams 256: streams must be auto or a number from 0 to 255" },
	{ NULL, "set stream_base 0",
	  "set stream_base 0: stream_base must be a number from 1 to 255" },
	{ NULL, "set hints yes", "set hints yes: hints must be on or off" },
	{ NULL, "set foreign drop", "set foreign drop: foreign must be keep, override or class" },

	{ "begin full 65536", "upload # file x collection -",
	  "Invalid file id 'x', must be a 64-bit number" },
	{ "begin full 65536", "upload # file 18446744073709551616 collection -",
	  "Invalid file id '18446744073709551616', must be a 64-bit number" },
	{ "begin full 65536", "upload # file 1 table -",
	  "Invalid class 'table' of file 1, must be "
	  "collection, index, primary, journal, oplog or other" },
	{ "begin full 65536", "upload # file 1 collection",
	  "Usage: file <id> <class> <boundary>|- [<offset>:<start>:<length>...]" },
	{ "begin full 65536", "upload # file 1 collection x",
	  "Invalid boundary 'x', must be - or a number of bytes" },
	{ "begin full 65536", "upload # file 1 collection 18446744073709551616",
	  "Invalid boundary '18446744073709551616', must be - or a number of bytes" },
	{ "begin full 65536", "upload # extents 0:0:8", "Extent '0:0:8' without a file" },
	{ "begin full 65536", "upload # file 1 collection - 0:0",
	  "file 1: Invalid extent '0:0', must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - 0:0:8:8",
	  "file 1: Invalid extent '0:0:8:8', must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - 0::8",
	  "file 1: Invalid extent '0::8', must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - :",
	  "file 1: Invalid extent ':', must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - a:0:8",
	  "file 1: Invalid extent 'a:0:8', must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - 0:0:0x10",
	  "file 1: Invalid extent '0:0:0x10', must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - 18446744073709551616:0:8",
	  "file 1: Invalid extent '18446744073709551616:0:8', "
	  "must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - 0:-8:8",
	  "file 1: Invalid extent '0:-8:8', must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536",
	  "upload # file 1 collection - 0000000000000000000000000000000000000000000000000000000000000:0:8",
	  "file 1: Invalid extent '0000000000000000000000000000000000000000000000000000000000000:0:8', "
	  "must be <offset>:<start>:<length> in sectors" },
	{ "begin full 65536", "upload # file 1 collection - 0:0:0",
	  "file 1: Invalid extent at 0 of 0 sectors, target has 65536" },
	{ "begin full 65536", "upload # file 1 collection - 0:65536:8",
	  "file 1: Invalid extent at 65536 of 8 sectors, target has 65536" },
	{ "begin full 65536", "upload # file 1 collection - 0:65528:16",
	  "file 1: Invalid extent at 65528 of 16 sectors, target has 65536" },
	{ "begin full 65536", "upload # file 1 collection - 0:8:18446744073709551608",
	  "file 1: Invalid extent at 8 of 18446744073709551608 sectors, target has 65536" },
	{ "begin full 65536", "upload # stamp 1 0", "Stamp 1 0 without a file" },
	{ "begin full 65536", "upload # file 1 other - stamp 9 0",
	  "file 1: Invalid stream '9', must be 0 to 8" },
	{ "begin full 65536", "upload # file 1 other - stamp x 0",
	  "file 1: Invalid stream 'x', must be 0 to 8" },
	{ "begin full 65536", "upload # file 1 other - stamp 1 6",
	  "file 1: Invalid lifetime hint '6', must be 0 to 5" },
	{ "begin full 65536", "upload # file 1 other - stamp 1",
	  "Usage: stamp <stream> <hint>" },
	{ "begin full 65536", "upload # drop 1",
	  "drop 1: Not in a full upload; use begin update" },
	{ "begin full 65536", "upload # file 1 collection - 0:0:8 bogus",
	  "Unknown record 'bogus', must be file, extents, stamp or drop" },
	{ "begin update 65536 1", "upload # drop", "Usage: drop <id>" },
	{ "begin update 65536 1", "upload # drop x",
	  "Invalid file id 'x', must be a 64-bit number" },
	{ "begin update 65536 1", "upload # drop 1 0:0:8",
	  "Unknown record '0:0:8', must be file, extents, stamp or drop" },
	{ "begin update 65536 1", "upload # drop 1 extents 0:0:8",
	  "Extent '0:0:8' without a file" },
};

static void refusal_name(const struct refusal *r, char *desc)
{
	strscpy(desc, r->message, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(refusal, refusals, refusal_name);

static void a_refusal_says_why_and_changes_nothing(struct kunit *test)
{
	const struct refusal *r = test->param_value;
	struct dsm_mock_dm *dm = new_target(test);
	char *table, *status;

	dsm_mock_upload(test, dm);
	table = kunit_kstrdup(test, dsm_mock_table(dm), GFP_KERNEL);
	status = kunit_kstrdup(test, dsm_mock_status(dm), GFP_KERNEL);
	if (r->before)
		dsm_mock_begin(test, dm, r->before);

	dsm_mock_expect_refusal(test, dm, r->message, r->error ?: -EINVAL, r->reason);
	KUNIT_EXPECT_STREQ(test, dsm_mock_table(dm), table);
	KUNIT_EXPECT_STREQ(test, dsm_mock_status(dm), status);
	if (r->before)		/* and the upload is abandoned */
		dsm_mock_expect_refusal(test, dm, "commit #", -ESTALE,
					"Upload # ended at an invalid record");
}

static const struct refusal bad_commits[] = {
	{ "upload # file 7 collection - 0:400:8 file 8 index - 0:408:8 file 7 collection -",
	  "commit #",
	  "Duplicate file 7 in upload" },
	{ "upload # file 7 collection - 0:400:8 drop 7", "commit #", "Duplicate file 7 in upload" },
	{ "upload # file 7 collection - 0:400:8 drop 8", "commit #",
	  "drop 8: No such file in the table", -ENOENT },
	{ "upload # file 7 collection - 0:400:16 file 8 index - 0:408:8", "commit #",
	  "Extent of file 8 at 408 of 8 sectors overlaps an extent of file 7", -EEXIST },
	{ "upload # file 7 collection - 0:248:16", "commit #",
	  "Extent of file 3 at 256 of 8 sectors overlaps an extent of file 7", -EEXIST },
	{ "upload # file 7 collection - 0:400:8 8:400:8", "commit #",
	  "Extent of file 7 at 400 of 8 sectors overlaps an extent of file 7", -EEXIST },
	/* files of the table */
	{ "upload # file 1 collection - 0:400:16 file 2 index - 0:408:8 drop 3", "commit #",
	  "Extent of file 2 at 408 of 8 sectors overlaps an extent of file 1", -EEXIST },
	{ "upload # drop 2 drop 3 file 1 collection - 0:260:8", "commit #",
	  "Extent of file 4 at 264 of 8 sectors overlaps an extent of file 1", -EEXIST },
};

static void bad_commit_name(const struct refusal *r, char *desc)
{
	strscpy(desc, r->before, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(bad_commit, bad_commits, bad_commit_name);

static void a_commit_that_is_refused_leaves_the_old_table(struct kunit *test)
{
	const struct refusal *r = test->param_value;
	struct dsm_mock_dm *dm = new_target(test);
	char *status, *regions;

	dsm_mock_upload(test, dm);
	status = kunit_kstrdup(test, dsm_mock_status(dm), GFP_KERNEL);
	dsm_mock_message(dm, "regions");
	regions = kunit_kstrdup(test, dm->reply, GFP_KERNEL);

	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, r->before);
	dsm_mock_expect_refusal(test, dm, r->message, r->error ?: -EINVAL, r->reason);
	KUNIT_EXPECT_STREQ(test, dsm_mock_status(dm), status);
	dsm_mock_expect_reply(test, dm, "regions", regions);

	/* no file is left marked: the next upload replaces what it names, no more */
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 6 other - 0:280:8");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 6 extents 8");
}

static void extents_are_whole_blocks_of_the_device(struct kunit *test)
{
	struct queue_limits limits = { .logical_block_size = 4096 };
	struct dsm_mock_disk *disk = dsm_mock_disk_limits(test, &limits);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0", disk->bdev);
	static const char * const extents[] = { "0:4:8", "4:0:8", "0:0:12" };
	char message[64], reason[128];

	for (int i = 0; i < ARRAY_SIZE(extents); i++) {
		snprintf(message, sizeof(message), "upload # file 1 collection - %s", extents[i]);
		snprintf(reason, sizeof(reason),
			 "file 1: Extent '%s' not aligned to blocks of 8 sectors",
			 extents[i]);
		dsm_mock_begin(test, dm, "begin full 65536");
		dsm_mock_expect_refusal(test, dm, message, -EINVAL, reason);
	}
}

static void a_boundary_is_rounded_up_to_a_page(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection 4097 0:0:24 file 2 collection 4096 0:24:24");
	dsm_mock_take(test, dm, "upload # file 3 collection 0 0:48:24 file 4 collection 1 0:72:24");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 4 extents 7");
	dsm_mock_expect_reply(test, dm, "regions",
			      "1 collection 8192 bottom 8192 0 0 - - 1 3 5 0\n"
			      "1 collection 8192 top 4096 0 0 - - 2 4 3 0\n"
			      "2 collection 4096 bottom 4096 0 0 - - 1 3 5 0\n"
			      "2 collection 4096 top 8192 0 0 - - 2 4 3 0\n"
			      "3 collection 0 bottom 0 0 0 - - 1 3 5 0\n"
			      "3 collection 0 top 12288 0 0 - - 2 4 3 0\n"
			      "4 collection 4096 bottom 4096 0 0 - - 1 3 5 0\n"
			      "4 collection 4096 top 8192 0 0 - - 2 4 3 0\n");
}

/* One file of such a length does not keep all others out of the table. */
static void what_lies_beyond_16_tib_is_left_out(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection 18446744073709551615 0:0:8 34359738344:8:32");
	dsm_mock_take(test, dm, "upload # extents 34359738352:100:8 18446744073709551608:200:8");
	dsm_mock_take(test, dm, "upload # file 2 collection 17592186040319 34359738336:400:8");
	dsm_mock_take(test, dm, "upload # file 3 collection 17592186036224 34359738336:500:16");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 3 extents 4");
	dsm_mock_expect_reply(test, dm, "regions",
			      "1 collection 17592186036224 bottom 8192 0 0 - - 1 3 5 0\n"
			      "1 collection 17592186036224 top 0 0 0 - - 2 4 3 0\n"
			      "2 collection 17592186036224 bottom 4096 0 0 - - 1 3 5 0\n"
			      "2 collection 17592186036224 top 0 0 0 - - 2 4 3 0\n"
			      "3 collection 17592186036224 bottom 8192 0 0 - - 1 3 5 0\n"
			      "3 collection 17592186036224 top 0 0 0 - - 2 4 3 0\n");
}

/* The extents of a file system of 1 KiB blocks; all of them lie in three pages. */
static void a_range_is_right_off_the_pages(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection - 6:100:4 10:50:2 12:300:12");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 1 extents 5");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 308, 4), 0);	/* offset 20 to 23 */
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "regions"), 0);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dm->reply, "bottom 12288 1 4096 "), "%s",
				  dm->reply);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 100, 4), 0);	/* offset 6 to 9 */
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "regions"), 0);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dm->reply, "bottom 12288 1 8192 "), "%s",
				  dm->reply);
}

/* Uploads */

static const char all_regions[] =
	"1 collection 32768 bottom 32768 0 0 - - 1 3 5 0\n"
	"1 collection 32768 top 32768 0 0 - - 2 4 3 0\n"
	"2 index 4096 bottom 4096 0 0 - - 1 6 5 0\n"
	"2 index 4096 top 4096 0 0 - - 2 7 3 0\n"
	"3 primary - bottom 4096 0 0 - - primary 2 4 0\n"
	"4 journal - bottom 4096 0 0 - - - 2 2 0\n"
	"5 oplog - bottom 4096 0 0 - - - 2 2 0\n"
	"6 other - bottom 4096 0 0 - - - 1 0 0\n";

static void regions_lists_what_was_uploaded(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_expect_reply(test, dm, "regions", "");
	dsm_mock_expect_reply(test, dm, "regions 5", "");
	dsm_mock_upload(test, dm);
	dsm_mock_expect_reply(test, dm, "regions", all_regions);
	dsm_mock_expect_reply(test, dm, "REGIONS 0 100", all_regions);
	dsm_mock_expect_reply(test, dm, "regions 4", strstr(all_regions, "5 oplog"));
	dsm_mock_expect_reply(test, dm, "regions 2 1",
			      "3 primary - bottom 4096 0 0 - - primary 2 4 0\n");
	dsm_mock_expect_reply(test, dm, "regions 6", "");
	dsm_mock_expect_reply(test, dm, "regions 18446744073709551615", "");
}

static void an_update_adds_replaces_and_drops(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 7 collection - 0:400:8 drop 2 drop 4");
	dsm_mock_take(test, dm, "upload # File 3 primary - 0:128:8");
	dsm_mock_take(test, dm, "upload # Extents 8:136:8 16:500:4");
	dsm_mock_take(test, dm, "upload # drop 1 drop 5");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 3 extents 5");
	dsm_mock_expect_reply(test, dm, "regions",
			      "3 primary - bottom 12288 0 0 - - primary 2 4 0\n"
			      "6 other - bottom 4096 0 0 - - - 1 0 0\n"
			      "7 collection - bottom 4096 0 0 - - 1 3 5 0\n");
}

static void a_file_that_stays_keeps_its_counters(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 64, 24), 0);
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection 4096 0:1000:8 8:64:32");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 1 extents 2");
	dsm_mock_expect_reply(test, dm, "regions",
			      "1 collection 4096 bottom 4096 0 0 - - 1 3 5 0\n"
			      "1 collection 4096 top 16384 0 0 - - 2 4 3 3\n");

	/* with another class it starts over */
	dsm_mock_begin(test, dm, "begin update 65536 2");
	dsm_mock_take(test, dm, "upload # file 1 index 4096 0:1000:8 8:64:32");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 3 files 1 extents 2");
	dsm_mock_expect_reply(test, dm, "regions",
			      "1 index 4096 bottom 4096 0 0 - - 1 6 5 0\n"
			      "1 index 4096 top 16384 0 0 - - 2 7 3 3\n");
}

/* Stated stamps */

static void a_file_may_state_its_stamp(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection 4096 stamp 7 4 0:0:8 file 2 other - 0:8:8 "
				"file 3 other - 0:16:8");
	dsm_mock_take(test, dm, "upload # stamp 0 2");
	dsm_mock_take(test, dm, "upload # extents 8:24:8 file 4 journal - stamp 8 0 0:32:8");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 4 extents 5");
	dsm_mock_expect_reply(test, dm, "regions",
			      "1 collection 4096 bottom 4096 0 0 - - 1 7 4 0\n"
			      "1 collection 4096 top 0 0 0 - - 2 7 4 0\n"
			      "2 other - bottom 4096 0 0 - - - 1 0 0\n"
			      "3 other - bottom 8192 0 0 - - - 1 2 0\n"
			      "4 journal - bottom 4096 0 0 - - - 8 2 0\n");

	/* it lasts through checkpoints, and ends with an upload that has none */
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 1 collection 4096 0:0:8 file 4 journal - stamp 6 0 0:32:8");
	dsm_mock_take(test, dm, "upload # drop 2");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 3 extents 4");
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	dsm_mock_expect_reply(test, dm, "regions",
			      "1 collection 4096 bottom 4096 0 0 - 1 1 3 5 0\n"
			      "1 collection 4096 top 0 0 0 - 1 1 3 5 0\n"
			      "3 other - bottom 8192 0 0 - - - 1 2 0\n"
			      "4 journal - bottom 4096 0 0 - - - 6 2 0\n");
}

static void a_stated_stamp_changes_under_a_file_that_counts_on(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 other - stamp 7 0 0:0:64");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 1 extents 1");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 24), 0);
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 1 other - stamp 5 0 0:0:64");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 1 extents 1");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	dsm_mock_expect_reply(test, dm, "regions", "1 other - bottom 32768 0 0 - - - 5 0 4\n");
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), " stream 5 1 8 stream 7 1 24"));
}

static const char *stated_regions(struct dsm_mock_dm *dm)
{
	return dsm_mock_message(dm, "regions") ? "" : dm->reply;
}

static void a_stated_stream_is_never_one_that_the_device_has_not(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm;

	dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0 4 policy file streams 4",
			 disk->bdev);
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 other - stamp 8 2 0:0:64");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 1 extents 1");
	KUNIT_EXPECT_STREQ(test, stated_regions(dm), "1 other - bottom 32768 0 0 - - - 8 2 0\n");

	/* The device shrinks while its layout still fits. */
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(dm), 0);
	dsm_mock_set_streams(disk, 4);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);
	KUNIT_EXPECT_STREQ(test, stated_regions(dm), "1 other - bottom 32768 0 0 - - - 1 2 0\n");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	KUNIT_EXPECT_EQ(test, disk->bio[disk->nr - 1].stream, 1);

	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(dm), 0);
	dsm_mock_set_streams(disk, 8);
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);
	KUNIT_EXPECT_STREQ(test, stated_regions(dm), "1 other - bottom 32768 0 0 - - - 8 2 1\n");
	dsm_mock_take(test, dm, "set hints off");
	KUNIT_EXPECT_STREQ(test, stated_regions(dm), "1 other - bottom 32768 0 0 - - - 8 0 1\n");
	dsm_mock_take(test, dm, "set policy none");
	KUNIT_EXPECT_STREQ(test, stated_regions(dm), "1 other - bottom 32768 0 0 - - - 0 0 1\n");
}

static void an_empty_table_is_no_table(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 0 extents 0");
	dsm_mock_expect_reply(test, dm, "regions", "");
	dsm_mock_begin(test, dm, "begin update 65536 2");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 3 files 0 extents 0");
}

/*
 * A grace period, which hardly anyone else ends in so short a time.  The state is the full
 * one: the other misses an expedited grace period that begins and ends within a normal one.
 */
static void a_commit_waits_for_the_writes_that_see_the_old_table(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	struct rcu_gp_oldstate before;

	dsm_mock_upload(test, dm);
	dsm_mock_begin(test, dm, "begin full 65536");
	get_state_synchronize_rcu_full(&before);
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 0 extents 0");
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu_full(&before));
}

static void a_checkpoint_waits_for_the_writes_that_have_seen_the_range(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	struct rcu_gp_oldstate before;

	dsm_mock_upload(test, dm);
	get_state_synchronize_rcu_full(&before);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu_full(&before));
}

/* What was counted of a file goes on when another takes its place. */
static void other_stamps_do_not_end_a_window(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 264, 8), 0);
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 4 journal - stamp 7 0 0:264:8 400:800:8");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 6 extents 9");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 800, 8), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "regions 3 1"), 0);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dm->reply, "4 journal - bottom 8192 2 208896 "),
				  "%s", dm->reply);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dm->reply, " - - 7 2 2\n"), "%s", dm->reply);
}

static void a_file_may_have_no_extents(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 18446744073709551615 collection 0");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 1 extents 0");
	dsm_mock_expect_reply(test, dm, "regions",
			      "18446744073709551615 collection 0 bottom 0 0 0 - - 1 3 5 0\n"
			      "18446744073709551615 collection 0 top 0 0 0 - - 2 4 3 0\n");
}

static void an_upload_can_be_abandoned(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 9 other - 0:0:8");
	dsm_mock_take(test, dm, "abort #");
	dsm_mock_expect_refusal(test, dm, "commit #", -ESTALE, "Upload # was aborted");

	/* by another begin as well */
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 9 other - 0:0:8");
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 6 extents 8");
	dsm_mock_expect_reply(test, dm, "regions", all_regions);

	/* and at the end of the target */
	dsm_mock_begin(test, dm, "begin update 65536 2");
	dsm_mock_take(test, dm, "upload # file 9 other - 0:400:8");
}

/* Whose number is not that of the upload in progress has no part in it. */
static void an_upload_has_one_owner(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	u64 theirs, ours;

	dsm_mock_upload(test, dm);
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection -");
	theirs = dm->upload;
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 2 journal -");
	ours = dm->upload;

	dm->upload = theirs;
	dsm_mock_expect_refusal(test, dm, "upload # extents 0:0:128", -ESTALE,
				"Upload # was replaced by a later one");
	dsm_mock_expect_refusal(test, dm, "commit #", -ESTALE,
				"Upload # was replaced by a later one");
	dsm_mock_expect_refusal(test, dm, "abort #", -ESTALE,
				"Upload # was replaced by a later one");
	dm->upload = ours;
	dsm_mock_take(test, dm, "upload # extents 0:400:8");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 6 extents 7");
	dsm_mock_expect_reply(test, dm, "regions 1 1", "2 journal - bottom 4096 0 0 - - - 2 2 0\n");

	/* it gets the same error later, and may not update what it has not seen */
	dm->upload = theirs;
	dsm_mock_expect_refusal(test, dm, "commit #", -ESTALE,
				"Upload # was replaced by a later one");
	dsm_mock_expect_refusal(test, dm, "begin update 65536 1", -ESTALE,
				"begin: Generation '1' does not match the table's 2");
}

static void an_upload_is_known_by_its_number_on_every_target(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test), *other = new_target(test);

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_begin(test, other, "begin full 65536");
	KUNIT_EXPECT_NE(test, dm->upload, other->upload);
	dm->upload = other->upload;
	dsm_mock_expect_refusal(test, dm, "commit #", -ESTALE, "No upload #");
}

static void an_upload_shows_in_the_status(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	unsigned long long number;
	unsigned int files, extents, idle;
	const char *upload;
	int numbers;

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 other - 0:0:8 8:8:8 file 2 other - 0:16:8");
	upload = strstr(dsm_mock_status(dm), " upload ");
	KUNIT_ASSERT_NOT_NULL(test, upload);
	numbers = sscanf(upload,
			 " upload %llu upload_files %u upload_extents %u upload_idle_ms %u",
			 &number, &files, &extents, &idle);
	KUNIT_ASSERT_EQ(test, numbers, 4);
	KUNIT_EXPECT_EQ(test, number, dm->upload);
	KUNIT_EXPECT_EQ(test, files, 2);
	KUNIT_EXPECT_EQ(test, extents, 3);
}

static void restore_limits(void *limits)
{
	dsm_limits = *(struct dsm_limits *)limits;
}

static void a_table_has_its_limits(struct kunit *test)
{
	struct dsm_limits *limits = kunit_kzalloc(test, sizeof(*limits), GFP_KERNEL);
	struct dsm_mock_dm *dm = new_target(test);

	KUNIT_ASSERT_NOT_NULL(test, limits);
	*limits = dsm_limits;
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_limits, limits), 0);
	dsm_limits.files = 3;
	dsm_limits.extents = 4;

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 other - file 2 other -");
	dsm_mock_expect_refusal(test, dm, "upload # file 3 other - file 4 other -", -EINVAL,
				"file 4: Too many files in upload (at most 3)");
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 other - 0:0:8 8:8:8 16:16:8 24:24:8");
	dsm_mock_expect_refusal(test, dm, "upload # extents 32:32:8", -EINVAL,
				"file 1: Too many extents in upload (at most 4)");

	/* the table as well, whatever each upload has */
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 other - file 2 other - 0:0:8 8:8:8 16:16:8");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 2 extents 3");
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 3 other - file 4 other -");
	dsm_mock_expect_refusal(test, dm, "commit #", -EINVAL,
				"Table too large (at most 3 files and 4 extents)");
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 3 other - 0:100:8 8:200:8");
	dsm_mock_expect_refusal(test, dm, "commit #", -EINVAL,
				"Table too large (at most 3 files and 4 extents)");
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 3 other - 0:100:8");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 2 files 3 extents 4");
}

static void restore_upload_timeout(void *value)
{
	dsm_upload_timeout = (unsigned long)value;
}

/* Waits until the status says so, however long that takes. */
static void an_idle_upload_is_dropped(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	KUNIT_ASSERT_EQ(test, 0, kunit_add_action(test, restore_upload_timeout,
						  (void *)(unsigned long)dsm_upload_timeout));
	dsm_mock_upload(test, dm);
	dsm_upload_timeout = 10;
	dsm_mock_begin(test, dm, "begin full 65536");
	while (!strstr(dsm_mock_status(dm), " upload 0"))
		msleep(20);
	dsm_mock_expect_refusal(test, dm, "upload # file 9 other - 0:0:8", -ESTALE,
				"Upload # timed out");
	dsm_mock_expect_reply(test, dm, "regions", all_regions);
}

static void a_file_of_a_thousand_extents(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	char message[64];

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection 2048000");
	for (int i = 999; i >= 0; i--) {
		snprintf(message, sizeof(message), "upload # extents %d:%d:8", 8 * i, 16 * i);
		dsm_mock_take(test, dm, message);
	}
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 1 extents 1000");
	dsm_mock_expect_reply(test, dm, "regions",
			      "1 collection 2048000 bottom 2048000 0 0 - - 1 3 5 0\n"
			      "1 collection 2048000 top 2048000 0 0 - - 2 4 3 0\n");
}

static void a_reply_that_does_not_fit_is_cut_and_not_more(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	char message[64];

	dsm_mock_begin(test, dm, "begin full 65536");
	for (int i = 0; i < 500; i++) {
		snprintf(message, sizeof(message), "upload # file %d collection 0", 1000 + i);
		dsm_mock_take(test, dm, message);
	}
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 500 extents 0");
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "regions 0 500"), 0);
	KUNIT_EXPECT_STREQ(test, dm->reply, "");	/* dm says that the buffer is full */
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "regions 1498"), 0);
	KUNIT_EXPECT_STREQ(test, dm->reply,
			   "1499 collection 0 bottom 0 0 0 - - 1 3 5 0\n"
			   "1499 collection 0 top 0 0 0 - - 2 4 3 0\n");
}

/* Checkpoints */

/* Returns false unless the reply is that of a checkpoint with these numbers. */
static bool checkpointed(struct dsm_mock_dm *dm, unsigned int window,
			 unsigned int written, unsigned int moved)
{
	unsigned int w, ms, n, m;

	return !dsm_mock_message(dm, "checkpoint") &&
	       sscanf(dm->reply, "window %u ms %u written %u moved %u", &w, &ms, &n, &m) == 4 &&
	       w == window && n == written && m == moved;
}

/* The word @nr (from 0 on) of the line of regions that begins with @start. */
static void expect_word(struct kunit *test, struct dsm_mock_dm *dm, const char *start,
			int nr, const char *expected)
{
	char *line, *word = NULL;

	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "regions"), 0);
	line = strstr(dm->reply, start);
	KUNIT_ASSERT_NOT_NULL(test, line);
	strreplace(line, '\n', ' ');
	for (int i = 0; i <= nr; i++)
		word = strsep(&line, " ");
	KUNIT_EXPECT_STREQ_MSG(test, word, expected, "word %d of %s", nr, start);
}

enum { WORD_PAGES = 5, WORD_RANGE, WORD_HOTNESS, WORD_GROUP, WORD_NEXT, WORD_STREAM,
	WORD_HINT, WORD_TOTAL };

static void a_checkpoint_without_a_table_counts_windows(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	KUNIT_EXPECT_TRUE(test, checkpointed(dm, 1, 0, 0));
	KUNIT_EXPECT_TRUE(test, checkpointed(dm, 2, 0, 0));
}

static void a_checkpoint_moves_regions_to_the_stream_of_their_group(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	dsm_mock_take(test, dm, "set prediction off");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	for (int i = 0; i < 16; i++)
		KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 64, 8), 0);

	/* the top goes from group 2 to 3; both sides of the idle index to primary */
	KUNIT_EXPECT_TRUE(test, checkpointed(dm, 1, 2, 3));
	expect_word(test, dm, "1 collection 32768 bottom", WORD_PAGES, "1");
	expect_word(test, dm, "1 collection 32768 bottom", WORD_RANGE, "4096");
	expect_word(test, dm, "1 collection 32768 bottom", WORD_GROUP, "1");
	expect_word(test, dm, "1 collection 32768 bottom", WORD_STREAM, "3");
	expect_word(test, dm, "1 collection 32768 top", WORD_PAGES, "16");
	expect_word(test, dm, "1 collection 32768 top", WORD_GROUP, "3");
	expect_word(test, dm, "1 collection 32768 top", WORD_NEXT, "3");
	expect_word(test, dm, "1 collection 32768 top", WORD_STREAM, "5");
	expect_word(test, dm, "1 collection 32768 top", WORD_HINT, "2");
	expect_word(test, dm, "2 index 4096 bottom", WORD_GROUP, "primary");
	expect_word(test, dm, "2 index 4096 bottom", WORD_STREAM, "2");
	expect_word(test, dm, "2 index 4096 bottom", WORD_HOTNESS, "-");

	/* an idle window: the collection is cold, the totals stay */
	KUNIT_EXPECT_TRUE(test, checkpointed(dm, 2, 0, 1));
	expect_word(test, dm, "1 collection 32768 top", WORD_GROUP, "1");
	expect_word(test, dm, "1 collection 32768 top", WORD_PAGES, "0");
	expect_word(test, dm, "1 collection 32768 top", WORD_TOTAL, "16");
}

static void a_hotness_has_three_decimals_and_a_sign(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	int numbers, whole, thousandths;
	char *hotness;

	/* two far pages in a window of milliseconds at least: lg(2 / 512 / s) */
	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection - 0:0:4096");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 1 extents 1");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 4088, 8), 0);
	KUNIT_EXPECT_TRUE(test, checkpointed(dm, 1, 1, 0));
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "regions"), 0);
	hotness = strstr(dm->reply, " 2 2097152 ");
	KUNIT_ASSERT_NOT_NULL(test, hotness);
	numbers = sscanf(hotness, " 2 2097152 %d.%3d ", &whole, &thousandths);
	KUNIT_EXPECT_EQ(test, numbers, 2);
	KUNIT_EXPECT_GE(test, whole, -20);
	KUNIT_EXPECT_LE(test, whole, 2);
}

/*
 * Where a policy does not read the range it is not kept, and is the region's size.  One that
 * begins to read it has that of the writes that it counts, from then on.
 */
static const char * const range_begins[][2] = {
	{ "set policy life", "set policy dsm" },
	{ "set range region", "set range written" },
};

static void range_begins_name(const char * const (*c)[2], char *desc)
{
	strscpy(desc, (*c)[1], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(range_begins, range_begins, range_begins_name);

static void a_range_begins_where_it_is_read(struct kunit *test)
{
	const char * const *set = *(const char * const (*)[2])test->param_value;
	struct dsm_mock_dm *dm = new_target(test);
	struct rcu_gp_oldstate before;

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 1 collection - 0:0:4096");
	dsm_mock_expect_reply(test, dm, "commit #", "generation 1 files 1 extents 1");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	dsm_mock_take(test, dm, set[0]);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 4088, 8), 0);
	get_state_synchronize_rcu_full(&before);
	dsm_mock_take(test, dm, set[1]);
	KUNIT_EXPECT_TRUE(test, poll_state_synchronize_rcu_full(&before));
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 80, 8), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 96, 8), 0);
	dsm_mock_take(test, dm, "set threshold1 1000");	/* changes nothing of it */
	KUNIT_EXPECT_TRUE(test, !dsm_mock_message(dm, "checkpoint"));
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "regions"), 0);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dm->reply, " 2097152 2 12288 "), "%s", dm->reply);

	/* begun once, it goes on */
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	dsm_mock_take(test, dm, set[0]);
	KUNIT_EXPECT_TRUE(test, !dsm_mock_message(dm, "checkpoint"));
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "regions"), 0);
	KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dm->reply, " 2097152 1 2097152 "), "%s", dm->reply);
}

/* Control */

static void set_shows_in_the_table_line(struct kunit *test)
{
	static const char * const features[] = {
		"policy boundary", "groups 16", "alpha 64", "prediction computed",
		"range region", "primary_filter off", "threshold1 20000", "threshold2 10000",
		"streams 255", "stream_base 255", "hints off", "foreign override", "discard on",
		"discard_granularity 4096", "discard_alignment 67108864",
		"policy none", "policy file", "policy dsm", "groups 2", "alpha 2",
		"alpha auto", "prediction off", "prediction predicted", "prediction literal",
		"range written", "primary_filter on", "threshold1 0", "threshold2 0", "streams 0",
		"streams auto", "stream_base 1", "hints on", "foreign keep", "discard off",
		"discard_granularity auto", "discard_alignment auto",
	};
	struct dsm_mock_dm *dm = new_target(test);
	char line[64];

	for (int i = 0; i < ARRAY_SIZE(features); i++) {
		snprintf(line, sizeof(line), "set %s", features[i]);
		dsm_mock_take(test, dm, line);
		snprintf(line, sizeof(line), " %s", features[i]);
		KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(dsm_mock_table(dm), line), "%s", line);
	}
}

static void another_layout_gives_initial_streams(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	dsm_mock_take(test, dm, "set prediction off");
	for (int i = 0; i < 16; i++)
		KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 64, 8), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	KUNIT_EXPECT_TRUE(test, checkpointed(dm, 1, 2, 3));

	/* what does not touch the layout leaves the groups alone */
	dsm_mock_take(test, dm, "set alpha 6");
	dsm_mock_take(test, dm, "set foreign override");
	expect_word(test, dm, "1 collection 32768 top", WORD_STREAM, "5");
	dsm_mock_take(test, dm, "set groups 2");
	expect_word(test, dm, "1 collection 32768 top", WORD_STREAM, "4");
	expect_word(test, dm, "1 collection 32768 top", WORD_GROUP, "-");
	expect_word(test, dm, "1 collection 32768 top", WORD_PAGES, "16");
	dsm_mock_take(test, dm, "set policy file");
	expect_word(test, dm, "1 collection 32768 bottom", WORD_STREAM, "3");
	expect_word(test, dm, "1 collection 32768 top", WORD_STREAM, "3");
	expect_word(test, dm, "1 collection 32768 top", WORD_HINT, "3");
	expect_word(test, dm, "3 primary - bottom", WORD_STREAM, "4");
	dsm_mock_take(test, dm, "set policy none");
	expect_word(test, dm, "1 collection 32768 top", WORD_STREAM, "0");
	expect_word(test, dm, "1 collection 32768 top", WORD_HINT, "0");
	dsm_mock_take(test, dm, "set policy dsm");
	dsm_mock_take(test, dm, "set streams 2");
	dsm_mock_take(test, dm, "set stream_base 7");
	expect_word(test, dm, "1 collection 32768 top", WORD_STREAM, "8");
	expect_word(test, dm, "6 other - bottom", WORD_STREAM, "7");
}

static void reset_takes_every_counter(struct kunit *test)
{
	static const char counted[] = "unmapped_writes 1 unmapped_sectors 32 split 1 foreign 1"
		" stream 1 1 32 stream 3 1 8 stream 4 1 8 stream 8 1 8";
	static const char none[] = "unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0";
	struct dsm_mock_dm *dm = new_target(test);

	/* divided, unmapped, and with a stream and a hint of its own */
	dsm_mock_upload(test, dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 56, 16), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 5000, 32), 0);
	KUNIT_ASSERT_EQ(test, 0, dsm_mock_submit(dm->bdev, REQ_OP_WRITE, 0, 8, 8, 2));
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), counted));
	dsm_mock_take(test, dm, "reset");
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), none));
	KUNIT_EXPECT_NULL(test, strstr(dm->reply, " stream 1 "));
	KUNIT_EXPECT_NULL(test, strstr(dm->reply, " stream 8 "));
}

/* The age of a window that has just begun is not that of the one before. */
static void a_window_begins_where_the_last_one_ended(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);
	unsigned int first, second;
	ktime_t before;
	int words;

	fsleep(20000);
	before = ktime_get();
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	words = sscanf(dm->reply, "window 1 ms %u ", &first);
	KUNIT_ASSERT_EQ(test, words, 1);
	KUNIT_EXPECT_GE(test, first, 20);
	KUNIT_ASSERT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	words = sscanf(dm->reply, "window 2 ms %u ", &second);
	KUNIT_ASSERT_EQ(test, words, 1);
	KUNIT_EXPECT_LE(test, second, ktime_ms_delta(ktime_get(), before));
}

static void reset_takes_the_counters_and_not_the_window(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 0, 8), 0);
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 5000, 8), 0);
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm),
					   "unmapped_writes 1 unmapped_sectors 8 split 0 foreign 0"
					   " stream 1 1 8 stream 3 1 8"));
	dsm_mock_take(test, dm, "reset");
	KUNIT_EXPECT_STREQ(test, dsm_mock_status(dm),
			   "version 1 policy dsm layout dsm groups 3 device_streams 8 source queue"
			   " streams_used 8 files 6 regions 8 extents 8 generation 1 windows 0"
			   " window_ms - unmapped_writes 0 unmapped_sectors 0 split 0 foreign 0 upload 0"
			   " discard off");
	KUNIT_ASSERT_EQ(test, dsm_mock_write(dm, 8, 8), 0);
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), "foreign 0 stream 3 1 8"));
	KUNIT_EXPECT_TRUE(test, checkpointed(dm, 1, 1, 3));
	expect_word(test, dm, "1 collection 32768 bottom", WORD_PAGES, "2");
}

static void error_is_empty_until_a_refusal(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_expect_reply(test, dm, "error", "");
	dsm_mock_expect_refusal(test, dm, "bogus", -EINVAL, "Unknown message 'bogus'");
	dsm_mock_take(test, dm, "reset");
	dsm_mock_expect_reply(test, dm, "error", "Unknown message 'bogus'");
}

/* Each step says so; what was there stays. */
static void what_there_is_no_memory_for_is_refused(struct kunit *test)
{
	struct dsm_mock_dm *dm = new_target(test);

	dsm_mock_upload(test, dm);
	dsm_mock_limit_memory(test, 0);
	dsm_mock_expect_refusal(test, dm, "checkpoint", -ENOMEM,
				"Out of memory, checkpoint ignored");
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_expect_refusal(test, dm, "upload # file 7 other - 0:288:8", -ENOMEM,
				"Cannot allocate 1 extents");
	dsm_mock_limit_memory(test, U64_MAX);
	dsm_mock_begin(test, dm, "begin update 65536 1");
	dsm_mock_take(test, dm, "upload # file 7 other - 0:288:8");
	dsm_mock_limit_memory(test, 64);
	dsm_mock_expect_refusal(test, dm, "commit #", -ENOMEM,
				"Cannot allocate table of 1 extents");
	dsm_mock_limit_memory(test, U64_MAX);
	KUNIT_EXPECT_NOT_NULL(test, strstr(dsm_mock_status(dm), " files 6 "));
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
}

static struct kunit_case messages_cases[] = {
	KUNIT_CASE_PARAM(a_refusal_says_why_and_changes_nothing, refusal_gen_params),
	KUNIT_CASE_PARAM(a_commit_that_is_refused_leaves_the_old_table, bad_commit_gen_params),
	KUNIT_CASE(extents_are_whole_blocks_of_the_device),
	KUNIT_CASE(a_boundary_is_rounded_up_to_a_page),
	KUNIT_CASE(what_lies_beyond_16_tib_is_left_out),
	KUNIT_CASE(a_range_is_right_off_the_pages),
	KUNIT_CASE(regions_lists_what_was_uploaded),
	KUNIT_CASE(an_update_adds_replaces_and_drops),
	KUNIT_CASE(a_file_that_stays_keeps_its_counters),
	KUNIT_CASE(a_file_may_state_its_stamp),
	KUNIT_CASE(a_stated_stamp_changes_under_a_file_that_counts_on),
	KUNIT_CASE(a_stated_stream_is_never_one_that_the_device_has_not),
	KUNIT_CASE(an_empty_table_is_no_table),
	KUNIT_CASE(a_commit_waits_for_the_writes_that_see_the_old_table),
	KUNIT_CASE(a_checkpoint_waits_for_the_writes_that_have_seen_the_range),
	KUNIT_CASE(other_stamps_do_not_end_a_window),
	KUNIT_CASE(a_file_may_have_no_extents),
	KUNIT_CASE(an_upload_can_be_abandoned),
	KUNIT_CASE(an_upload_has_one_owner),
	KUNIT_CASE(an_upload_is_known_by_its_number_on_every_target),
	KUNIT_CASE(an_upload_shows_in_the_status),
	KUNIT_CASE(an_idle_upload_is_dropped),
	KUNIT_CASE(a_table_has_its_limits),
	KUNIT_CASE(a_file_of_a_thousand_extents),
	KUNIT_CASE(a_reply_that_does_not_fit_is_cut_and_not_more),
	KUNIT_CASE(a_checkpoint_without_a_table_counts_windows),
	KUNIT_CASE(a_checkpoint_moves_regions_to_the_stream_of_their_group),
	KUNIT_CASE(a_hotness_has_three_decimals_and_a_sign),
	KUNIT_CASE_PARAM(a_range_begins_where_it_is_read, range_begins_gen_params),
	KUNIT_CASE(set_shows_in_the_table_line),
	KUNIT_CASE(another_layout_gives_initial_streams),
	KUNIT_CASE(reset_takes_every_counter),
	KUNIT_CASE(a_window_begins_where_the_last_one_ended),
	KUNIT_CASE(reset_takes_the_counters_and_not_the_window),
	KUNIT_CASE(error_is_empty_until_a_refusal),
	KUNIT_CASE(what_there_is_no_memory_for_is_refused),
	{}
};

static struct kunit_suite messages_suite = {
	.name = "dm-dsm-messages",
	.test_cases = messages_cases,
};

kunit_test_suite(messages_suite);
