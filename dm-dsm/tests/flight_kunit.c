// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes in flight while something else happens: at the disk, or in the
 * write path on another processor.
 */
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/preempt.h>
#include <linux/string.h>

#include "../dsm.h"
#include "../trace.h"
#include "mock.h"

static struct dsm_mock_write *start(struct kunit *test, struct dsm_mock_stack *s, sector_t sector,
				    unsigned int sectors)
{
	return dsm_mock_start(test, s->dm->bdev, REQ_OP_WRITE, sector, sectors, 0, 0);
}

/* One file instead of six: what was the top of the first is the journal. */
static void replace_table(struct kunit *test, struct dsm_mock_dm *dm, unsigned int generation)
{
	char reply[64];

	dsm_mock_begin(test, dm, "begin full 65536");
	dsm_mock_take(test, dm, "upload # file 9 journal - 0:64:64");
	snprintf(reply, sizeof(reply), "generation %u files 1 extents 1", generation);
	dsm_mock_expect_reply(test, dm, "commit #", reply);
}

/* At the disk */

static void a_table_changes_under_writes_at_the_disk(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 0");
	struct dsm_mock_write *old, *new;
	u64 number;

	dsm_mock_hold(test, s.disk);
	old = start(test, &s, 32, 64);		/* 32 sectors on either side */
	dsm_mock_wait_held(test, s.disk, 2);
	replace_table(test, s.dm, 2);
	KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "checkpoint"), 0);
	new = start(test, &s, 64, 32);
	dsm_mock_wait_held(test, s.disk, 3);
	KUNIT_EXPECT_FALSE(test, dsm_mock_is_done(old));

	/* The disk takes data when it completes: the second write comes last. */
	number = new->number;
	dsm_mock_release(s.disk, 3);
	KUNIT_EXPECT_EQ(test, dsm_mock_finish(old), 0);
	KUNIT_EXPECT_EQ(test, dsm_mock_finish(new), 0);
	dsm_mock_expect_kept(test, s.disk, 64, 32, number, 64);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].stream, 3);
	KUNIT_EXPECT_EQ(test, s.disk->bio[1].stream, 4);
	KUNIT_EXPECT_EQ(test, s.disk->bio[2].stream, 2);
	dsm_mock_expect_status(test, s.dm, "split 1 foreign 0 stream 2 1 32 stream 3 1 32 stream 4 1 32");
}

static void a_divided_write_ends_with_its_last_part(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 0");
	struct dsm_mock_write *write;

	dsm_mock_hold(test, s.disk);
	write = start(test, &s, 120, 32);	/* two files and a gap */
	dsm_mock_wait_held(test, s.disk, 4);
	for (int part = 0; part < 4; part++) {
		KUNIT_EXPECT_FALSE_MSG(test, dsm_mock_is_done(write), "part %d", part);
		dsm_mock_release(s.disk, 1);
	}
	KUNIT_EXPECT_EQ(test, dsm_mock_finish(write), 0);
}

static void an_error_of_one_part_is_the_writes(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 0");
	struct dsm_mock_write *write;

	s.disk->refused_from = 4;
	s.disk->refusal = BLK_STS_MEDIUM;
	dsm_mock_hold(test, s.disk);
	write = start(test, &s, 32, 64);
	dsm_mock_wait_held(test, s.disk, 2);
	dsm_mock_release(s.disk, 2);
	KUNIT_EXPECT_EQ(test, dsm_mock_finish(write), -ENODATA);
	KUNIT_EXPECT_EQ(test, s.disk->refused, 1);
	KUNIT_EXPECT_EQ(test, s.disk->nr, 1);
}

static void counters_are_reset_under_writes_at_the_disk(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 0");
	struct dsm_mock_write *write;

	dsm_mock_hold(test, s.disk);
	write = start(test, &s, 32, 64);
	dsm_mock_wait_held(test, s.disk, 2);
	dsm_mock_take(test, s.dm, "reset");
	dsm_mock_release(s.disk, 2);
	KUNIT_EXPECT_EQ(test, dsm_mock_finish(write), 0);
	dsm_mock_expect_status(test, s.dm, "split 0 foreign 0");
	KUNIT_EXPECT_NULL(test, strstr(s.dm->reply, " stream 3 "));
	dsm_mock_expect_reply(test, s.dm, "regions 0 1",
			      "1 collection 32768 bottom 32768 0 0 - - 1 3 5 4\n"
			      "1 collection 32768 top 32768 0 0 - - 2 4 3 4\n");
}

/* On another processor */

static unsigned int other_cpu(struct kunit *test)
{
	unsigned int cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());

	if (cpu >= nr_cpu_ids)
		kunit_skip(test, "there is one processor only");
	return cpu;
}

/*
 * A write that stays in the write path until a message has changed what writes see,
 * and somewhat longer: has the message ended before the write?
 */
struct lingering {
	struct dsm_mock_dm *dm;
	bool (*changed)(const struct lingering *write, const struct dsm *d);
	const struct dsm_extent_map *map;	/* that it sees */
	unsigned int streams;
	bool in_path, ended;
	bool preemptible, saw_change, too_early;
	u32 files;
	u64 first;		/* file of the map, after all */
	int r;
};

#define GUARD (600 * HZ)	/* against spinning for ever */

static void linger(void *data, const struct dsm *d, u64 sector, u64 sectors,
		   union dsm_stamp stamp)
{
	struct lingering *write = data;
	unsigned long end = jiffies + GUARD;

	if (READ_ONCE(write->in_path))
		return;
	write->preemptible = preemptible();
	write->map = rcu_dereference_raw(d->map);
	write->streams = READ_ONCE(d->device_streams);
	WRITE_ONCE(write->in_path, true);
	while (!write->changed(write, d) && time_before(jiffies, end))
		cpu_relax();
	write->saw_change = write->changed(write, d);

	/* A message that waits for nobody ends now. */
	end = jiffies + HZ / 5;
	while (!READ_ONCE(write->ended) && time_before(jiffies, end))
		cpu_relax();
	write->too_early = READ_ONCE(write->ended);
	write->files = write->map->nr_files;
	write->first = write->map->file[0]->id;
}

static int write_and_linger(void *data)
{
	struct lingering *write = data;

	write->r = dsm_mock_write(write->dm, 64, 32);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void linger_during(struct kunit *test, struct lingering *write,
			  void (*change)(struct kunit *test, struct dsm_mock_dm *dm))
{
	unsigned int cpu = other_cpu(test);
	struct task_struct *thread;

	if (register_trace_dsm_place(linger, write))
		kunit_skip(test, "the kernel has no trace events");
	migrate_disable();	/* not to where the other one spins */
	thread = kthread_run_on_cpu(write_and_linger, write, cpu, "dsm-linger/%u");
	if (!IS_ERR(thread)) {
		while (!READ_ONCE(write->in_path))
			cond_resched();
		change(test, write->dm);
		WRITE_ONCE(write->ended, true);
		kthread_stop(thread);
	}
	migrate_enable();
	unregister_trace_dsm_place(linger, write);
	tracepoint_synchronize_unregister();

	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	KUNIT_EXPECT_EQ(test, write->r, 0);
	KUNIT_EXPECT_FALSE(test, IS_ENABLED(CONFIG_PREEMPT_COUNT) && write->preemptible);
	KUNIT_EXPECT_TRUE(test, write->saw_change);
	KUNIT_EXPECT_FALSE(test, write->too_early);
}

static bool has_other_map(const struct lingering *write, const struct dsm *d)
{
	return rcu_access_pointer(d->map) != write->map;
}

static void commit_another(struct kunit *test, struct dsm_mock_dm *dm)
{
	replace_table(test, dm, 2);
}

static void a_commit_waits_for_those_who_see_the_old_table(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 0");
	struct lingering write = { .dm = s.dm, .changed = has_other_map };

	linger_during(test, &write, commit_another);
	KUNIT_EXPECT_EQ(test, write.files, 6);
	KUNIT_EXPECT_EQ(test, write.first, 1);
}

static bool has_fewer_streams(const struct lingering *write, const struct dsm *d)
{
	return READ_ONCE(d->device_streams) < write->streams;
}

/* A checkpoint would ask, too, and wait for its own reasons. */
static void ask_the_device(struct kunit *test, struct dsm_mock_dm *dm)
{
	KUNIT_EXPECT_EQ(test, dsm_mock_message(dm, "set foreign keep"), 0);
}

/* Whoever lowers the limit of a disk does so when no write has more, and resumes. */
static void fewer_streams_wait_for_those_who_have_more(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 0");
	struct lingering write = { .dm = s.dm, .changed = has_fewer_streams };

	dsm_mock_set_streams(s.disk, 5);
	linger_during(test, &write, ask_the_device);
	KUNIT_EXPECT_EQ(test, s.disk->bio[0].stream, 4);
	KUNIT_EXPECT_EQ(test, dsm_mock_write(s.dm, 136, 8), 0);
	KUNIT_EXPECT_LE(test, s.disk->bio[s.disk->nr - 1].stream, 5);
}

/* Writes all the time, of 16 KiB and more, and reads each again. */
struct writer {
	struct dsm_mock_dm *dm;
	u64 sectors;
	unsigned int writes;
	int r;
};

static int write_on(void *data)
{
	struct writer *w = data;

	while (!kthread_should_stop()) {
		unsigned int sector = 8 * (w->writes % 32), sectors = 32 + 8 * (w->writes % 5);

		if (!w->r)
			w->r = dsm_mock_write(w->dm, sector, sectors);
		w->sectors += sectors;
		WRITE_ONCE(w->writes, w->writes + 1);
		cond_resched();
	}
	return 0;
}

static u64 status_sectors(struct dsm_mock_dm *dm)
{
	const char *at = strstr(dsm_mock_status(dm), " stream ");
	u64 sum = 0, sectors;

	for (; at; at = strstr(at + 1, " stream "))
		if (sscanf(at, " stream %*u %*u %llu", &sectors) == 1)
			sum += sectors;
	return sum;
}

static void writes_go_on_while_tables_come_and_go(struct kunit *test)
{
	struct dsm_mock_stack s = dsm_mock_stack(test, "%s 0");
	struct writer w = { .dm = s.dm };
	unsigned int generation = 1, cpu = other_cpu(test), before = 0;
	struct task_struct *thread;

	thread = kthread_run_on_cpu(write_on, &w, cpu, "dsm-write/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(thread));
	for (int i = 0; i < 50; i++) {
		replace_table(test, s.dm, ++generation);
		KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "checkpoint"), 0);
		dsm_mock_begin(test, s.dm, "begin full 65536");
		dsm_mock_take(test, s.dm, "upload # file 1 collection 32768 0:0:128 file 2 index 4096 0:128:16");
		KUNIT_EXPECT_EQ(test, dsm_mock_message(s.dm, "commit #"), 0);
		generation++;
		dsm_mock_take(test, s.dm, i % 2 ? "set policy dsm" : "set policy none");
		/* Progress of one must not be starved by the other. */
		while (READ_ONCE(w.writes) == before)
			cond_resched();
		before = READ_ONCE(w.writes);
	}
	kthread_stop(thread);
	KUNIT_EXPECT_EQ(test, w.r, 0);
	KUNIT_EXPECT_GE(test, w.writes, 50);
	KUNIT_EXPECT_EQ(test, status_sectors(s.dm), w.sectors);
}

static struct kunit_case flight_cases[] = {
	KUNIT_CASE(a_table_changes_under_writes_at_the_disk),
	KUNIT_CASE(a_divided_write_ends_with_its_last_part),
	KUNIT_CASE(an_error_of_one_part_is_the_writes),
	KUNIT_CASE(counters_are_reset_under_writes_at_the_disk),
	KUNIT_CASE(a_commit_waits_for_those_who_see_the_old_table),
	KUNIT_CASE(fewer_streams_wait_for_those_who_have_more),
	KUNIT_CASE_SLOW(writes_go_on_while_tables_come_and_go),
	{}
};

static struct kunit_suite flight_suite = {
	.name = "dm-dsm-flight",
	.test_cases = flight_cases,
};

kunit_test_suite(flight_suite);
