// SPDX-License-Identifier: GPL-2.0-only
/*
 * What comes while the device is suspended, or while somebody has the target's lock.
 * On a kernel with lockdep the constructor has taught it that a reclaim may wait for the
 * lock, so that it reports every allocation of a message that may start I/O.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/string.h>

#include "../dsm.h"
#include "mock.h"

#define TIMEOUT		(60 * HZ)	/* of a holder whom nobody lets go */

/* Somebody who has the lock, and how it went with the resume meanwhile. */
static struct holder {
	struct dsm *d;
	struct completion holds, may_go, is_gone;
	bool timed_out;
	dm_resume_fn resume;		/* the target's own */
} holder;

static int hold_the_lock(void *unused)
{
	mutex_lock(&holder.d->lock);
	complete(&holder.holds);
	if (!wait_for_completion_timeout(&holder.may_go, TIMEOUT))
		holder.timed_out = true;
	mutex_unlock(&holder.d->lock);
	complete(&holder.is_gone);
	return 0;
}

static void resume_while_the_lock_is_held(struct dm_target *ti)
{
	holder.d = ti->private;
	kthread_run(hold_the_lock, NULL, "dsm-holder");
	wait_for_completion(&holder.holds);
	holder.resume(ti);
}

static void restore_resume(void *unused)
{
	dsm_target.resume = holder.resume;
}

static unsigned int stream_of_a_write(struct kunit *test, struct dsm_mock_dm *dm,
				      struct dsm_mock_disk *disk)
{
	dsm_mock_forget(disk);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(dm, 64, 8), 0);
	return disk->bio[0].stream;
}

/* With discards on, writes take another path. */
static const char * const lines[] = { "%s 0", "%s 0 2 discard on" };

static void line_name(const char * const *line, char *desc)
{
	strscpy(desc, *line, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(line, lines, line_name);

static struct dsm_mock_dm *new_target(struct kunit *test, struct dsm_mock_disk *disk)
{
	const char * const *line = test->param_value;

	return dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, *line, disk->bdev);
}

/* The disk has lost streams meanwhile, so that the old ones would fail writes. */
static void a_resume_waits_for_no_message(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = new_target(test, disk);

	dsm_mock_upload(test, dm);
	KUNIT_EXPECT_EQ(test, stream_of_a_write(test, dm, disk), 4);
	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(dm), 0);
	dsm_mock_set_streams(disk, 2);

	holder = (struct holder) { .resume = dsm_target.resume };
	init_completion(&holder.holds);
	init_completion(&holder.may_go);
	init_completion(&holder.is_gone);
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_resume, NULL), 0);
	dsm_target.resume = resume_while_the_lock_is_held;
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);
	KUNIT_EXPECT_FALSE(test, holder.timed_out);

	KUNIT_EXPECT_EQ(test, stream_of_a_write(test, dm, disk), 0);
	complete(&holder.may_go);
	wait_for_completion(&holder.is_gone);
	while (!stream_of_a_write(test, dm, disk))
		msleep(20);
	KUNIT_EXPECT_EQ(test, disk->bio[0].stream, 2);
}

static void a_table_is_uploaded_while_suspended(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0", disk->bdev);

	KUNIT_ASSERT_EQ(test, dsm_mock_suspend(dm), 0);
	dsm_mock_upload(test, dm);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "checkpoint"), 0);
	dsm_mock_expect_reply(test, dm, "set groups 2", "");
	KUNIT_ASSERT_EQ(test, dsm_mock_resume(dm), 0);
	KUNIT_EXPECT_NE(test, stream_of_a_write(test, dm, disk), 0);
}

/* As after a resume that found the lock taken, until its work has come. */
static void unsettle(struct dsm *d, unsigned int resumes)
{
	spin_lock(&d->direct_lock);
	WRITE_ONCE(d->unsettled, resumes);
	rcu_assign_pointer(d->direct, NULL);
	spin_unlock(&d->direct_lock);
}

static void a_message_before_the_streams_are_laid_out(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = new_target(test, disk);
	struct dsm *d = dsm_mock_target(test, dm);

	unsettle(d, 1);
	dsm_mock_upload(test, dm);
	KUNIT_EXPECT_EQ(test, stream_of_a_write(test, dm, disk), 0);
	dsm_mock_expect_reply(test, dm, "set discard on", "");
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "window"), 0);
	KUNIT_EXPECT_EQ(test, stream_of_a_write(test, dm, disk), 0);
	dsm_relayout_work(&d->relayout);
	KUNIT_EXPECT_EQ(test, stream_of_a_write(test, dm, disk), 4);
}

static int lay_out(void *data)
{
	struct dsm *d = data;

	dsm_relayout_work(&d->relayout);
	return 0;
}

/* It comes between the work's first look and its last. */
static void a_resume_meanwhile_is_not_forgotten(struct kunit *test)
{
	struct dsm_mock_disk *disk = dsm_mock_disk(test, 8);
	struct dsm_mock_dm *dm = dsm_mock_dm(test, "dsm", DSM_MOCK_TARGET, "%s 0", disk->bdev);
	struct dsm *d = dsm_mock_target(test, dm);
	struct task_struct *work;

	dsm_mock_upload(test, dm);
	unsettle(d, 1);
	work = kthread_create(lay_out, d, "dsm-relayout");
	KUNIT_ASSERT_FALSE(test, IS_ERR(work));
	get_task_struct(work);

	mutex_lock(&d->lock);
	wake_up_process(work);
	/* until it waits for the lock */
	for (int i = 0; i < 3000 && !(READ_ONCE(work->__state) & TASK_UNINTERRUPTIBLE); i++)
		msleep(20);
	unsettle(d, 2);
	mutex_unlock(&d->lock);
	kthread_stop_put(work);
	KUNIT_EXPECT_EQ(test, READ_ONCE(d->unsettled), 2);
	KUNIT_EXPECT_EQ(test, stream_of_a_write(test, dm, disk), 0);
	dsm_relayout_work(&d->relayout);
	KUNIT_EXPECT_EQ(test, READ_ONCE(d->unsettled), 0);
	KUNIT_EXPECT_EQ(test, stream_of_a_write(test, dm, disk), 4);
}

static struct kunit_case suspend_cases[] = {
	KUNIT_CASE_PARAM(a_resume_waits_for_no_message, line_gen_params),
	KUNIT_CASE_PARAM(a_message_before_the_streams_are_laid_out, line_gen_params),
	KUNIT_CASE(a_resume_meanwhile_is_not_forgotten),
	KUNIT_CASE(a_table_is_uploaded_while_suspended),
	{}
};

static struct kunit_suite suspend_suite = {
	.name = "dm-dsm-suspend",
	.test_cases = suspend_cases,
};

kunit_test_suite(suspend_suite);
