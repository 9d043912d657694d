// SPDX-License-Identifier: GPL-2.0-only
/*
 * Orders that a review has found, or that are easily told; then random ones.
 *
 * usage: [SEED=n] discard_model [SEEDS [STEPS]]
 */
#include <time.h>

#include "model.h"

static const struct geometry plain = {
	.len = 3 * CHUNK, .start = 2048, .sectors = 0, .block = 512, .granularity = 4096,
	.max = 1 << 22,
};

static const char *name;

static void begin(const char *what, const struct geometry *g)
{
	name = what;
	tuning = (struct tuning) { .sleeps = 0 };
	snprintf(where, sizeof(where), " (%s)", what);
	make(g, "on");
	map_chunks(7);
	go_on();
}

static void end(void)
{
	destroy();
	printf("ok - unit: discards: %s\n", name);
}

static void expect(bool right, const char *what)
{
	if (!right)
		shim_bug("%s; the answer is %d '%s'", what, answer, reply);
}

#define EXPECT(x) expect(x, #x)

static u64 window(unsigned int back)
{
	return oracle_window(back);
}

/* Forty runs, the first of which is being submitted. */
static void one_of_forty(void)
{
	char text[1000], *at = text;

	EXPECT(!say("window"));
	at += sprintf(at, "discard %llu", window(0));
	for (int i = 0; i < 40; i++)
		at += sprintf(at, " %d:8", 64 + 16 * i);
	w.no_tags = true;
	EXPECT(!say("%s", text));
	EXPECT(w.sent == 1);
}

static void nothing_more(void)
{
	w.no_tags = false;
	go_on();
	while (end_discard(0, BLK_STS_OK))
		go_on();
	EXPECT(w.sent == 1);
	end();
}

static void stops_count(void)
{
	static const char * const orders[][2] = {
		{ "set discard off", "set discard on" }, { "set discard off", "set discard watch" },
		{ "set discard on", "set discard on" }, { "set discard watch", "set discard on" },
		{ "set discard watch", "set discard watch" }, { "forget", "set discard on" },
	};
	static char names[6][80];

	for (int i = 0; i < 6; i++) {
		sprintf(names[i], "%s, %s", orders[i][0], orders[i][1]);
		begin(names[i], &plain);
		one_of_forty();
		for (int j = 0; j < 2; j++) {
			say(orders[i][j]);
			kill_some();	/* its barrier's time is over */
			go_on();
		}
		nothing_more();
	}

	begin("a suspend that fails", &plain);
	one_of_forty();
	suspend(true);
	go_on();
	nothing_more();

	begin("a discard that is not supported", &plain);
	one_of_forty();
	EXPECT(end_discard(0, BLK_STS_NOTSUPP));
	go_on();
	EXPECT(!say("set discard on"));
	nothing_more();

	begin("a window without memory", &plain);
	one_of_forty();
	tuning.no_memory = 1;
	EXPECT(say("window") == -ENOMEM);
	tuning.no_memory = 0;
	EXPECT(!say("window"));
	nothing_more();

	begin("an ioctl that is passed", &plain);
	one_of_forty();
	passed_ioctl();
	go_on();
	EXPECT(!say("window"));
	nothing_more();
}

static void the_queue_is_bounded(void)
{
	static char text[800000];
	char *at = text;
	long before;
	int taken = 0;

	begin("the queue is bounded in bytes", &plain);
	EXPECT(!say("window"));
	EXPECT(!say("discard %llu 0:8", window(0)));
	EXPECT(w.sent == 1);
	before = allocated;

	at += sprintf(at, "discard %llu", window(0));
	for (int i = 0; i < 60000; i++)
		at += sprintf(at, " %d:1", 1 + 8 * i);
	for (int i = 0; i < 5; i++) {
		say("%s", text);
		EXPECT(answer || !strcmp(reply, "queued 0"));
	}
	EXPECT(allocated == before);

	at = text + sprintf(text, "discard %llu", window(0));
	for (int i = 0; i < 60000; i++)
		at += sprintf(at, " %d:8", 8 + 8 * i);
	while (!say("%s", text))
		EXPECT(++taken < 100);
	EXPECT(answer == -EBUSY);
	EXPECT(allocated - before < 4 << 20);
	EXPECT(!say("forget") || answer == 1);
	settle();
	status();
	EXPECT(strstr(reply, " discard_queued 0 "));
	end();
}

static void another_feature_is_no_barrier(void)
{
	begin("another feature is no barrier", &plain);
	EXPECT(!say("window"));
	EXPECT(!say("discard %llu 0:8", window(0)));
	say("set discard watch");
	EXPECT(answer == 1);
	EXPECT(kill_some());
	go_on();
	EXPECT(answer == -ETIMEDOUT || answer == -EINTR);
	EXPECT(!say("set groups 4"));
	end();
}

static void watching_outlives_a_failure(void)
{
	begin("watch outlives a discard of before that fails", &plain);
	EXPECT(!say("window"));
	EXPECT(!say("discard %llu 0:8", window(0)));
	say("set discard watch");
	EXPECT(end_discard(0, BLK_STS_NOTSUPP));
	go_on();
	EXPECT(!answer);
	status();
	EXPECT(strstr(reply, " discard watch "));
	EXPECT(!say("written %llu 0:16", window(0)));
	EXPECT(!strcmp(reply, "written -0:16 0"));
	end();
}

static void granularity_and_back(void)
{
	begin("another granularity and back", &plain);
	EXPECT(!say("set discard_granularity 131072"));
	EXPECT(!say("window"));
	EXPECT(!say("set discard_granularity 4096"));
	EXPECT(!say("set discard_granularity 131072"));
	EXPECT(!say("discard %llu 128:128", window(0)));
	EXPECT(!w.sent);
	EXPECT(!say("discard %llu 128:384", window(0)));
	EXPECT(w.sent == 1 && w.flying->end - w.flying->start == 256);
	end();
}

static void windows_of_one_message(void)
{
	begin("each range goes by its own window", &plain);
	EXPECT(!say("window"));
	write_sectors(0, 8, REQ_OP_WRITE);
	go_on();
	EXPECT(!say("window"));
	EXPECT(!say("discard %llu 8:8 %llu 0:8 16:8", window(1), window(0)));
	EXPECT(w.sent == 1 && w.flying->start == 0 && w.flying->end == 24);
	settle();
	EXPECT(!say("discard %llu 0:24", window(1)));
	EXPECT(w.sent == 2 && w.flying->start == 8 && w.flying->end == 24);
	EXPECT(say("discard %llu 0:24 %llu 16:8", window(1), window(0)) == -EINVAL);
	for (int i = 0; i < 3; i++)
		EXPECT(!say("window"));
	EXPECT(say("discard %llu 64:8 %llu 128:8", window(3), window(4)) == -ESTALE);
	EXPECT(!say("discard %llu 64:8 %llu 128:8", window(3), window(2)));
	settle();
	EXPECT(w.sent == 4);
	end();
}

static void what_was_written(void)
{
	begin("what was written, and what is unknown", &plain);
	EXPECT(!say("window"));
	write_sectors(CHUNK - 8, 8, REQ_OP_WRITE);
	write_sectors(24, 1, REQ_OP_WRITE);
	go_on();
	map_chunks(2);
	go_on();
	EXPECT(!say("window"));
	write_sectors(CHUNK, 16, REQ_OP_WRITE);
	go_on();
	EXPECT(!say("written %llu %u:32", window(1), CHUNK - 16));
	EXPECT(!strcmp(reply, "written ?262128:8 3"));
	EXPECT(!say("written %llu 0:64 %llu %u:32", window(1), window(0), CHUNK));
	EXPECT(!strcmp(reply, "written ?0:24 ?32:32 -262160:16 3"));
	EXPECT(!say("discard %llu 0:8 %u:8", window(1), CHUNK + 64));
	EXPECT(w.sent == 1 && w.flying->start == CHUNK + 64);
	EXPECT(!say("set discard watch") || answer == 1);
	settle();
	EXPECT(say("discard %llu %u:8", window(0), CHUNK + 64) && w.sent == 1);
	EXPECT(!say("written %llu %u:8", window(1), CHUNK + 64));
	EXPECT(!strcmp(reply, "written -262208:8 0"));
	end();
}

static void a_write_waits(void)
{
	begin("a write waits for the discard that it overlaps", &plain);
	EXPECT(!say("window"));
	EXPECT(!say("discard %llu 0:64 128:64", window(0)));
	EXPECT(w.sent == 2);
	write_sectors(32, 128, REQ_OP_WRITE);
	write_sectors(64, 64, REQ_OP_WRITE);
	go_on();
	EXPECT(w.in_flight == 1 && w.writes->held);
	end_discard(0, BLK_STS_OK);
	go_on();
	EXPECT(w.in_flight == 1);
	end_discard(0, BLK_STS_OK);
	go_on();
	EXPECT(!w.in_flight);
	end();
}

static void more_than_a_plug(void)
{
	char text[8000], *at = text;

	begin("more runs than a plug has room for", &plain);
	EXPECT(!say("window"));
	at += sprintf(at, "discard %llu", window(0));
	for (int i = 0; i < 600; i++)
		at += sprintf(at, " %d:8", 16 * i);
	EXPECT(!say("%s", text));
	settle();
	EXPECT(w.sent == 600);
	status();
	oracle_status(reply);
	end();
}

void run_cases(void)
{
	stops_count();
	the_queue_is_bounded();
	another_feature_is_no_barrier();
	watching_outlives_a_failure();
	granularity_and_back();
	windows_of_one_message();
	what_was_written();
	a_write_waits();
	more_than_a_plug();
}

/* What a run that says nothing of would prove nothing of. */
static bool all_counted(void)
{
	const struct { const char *what; u64 nr; } seen[] = {
		{ "discards sent", counts.sent }, { "with refused sectors", counts.refused },
		{ "writes held", counts.held }, { "messages stopped", counts.stopped },
		{ "while a discard was being submitted", counts.during },
		{ "discards failed", counts.failed }, { "suspends failed", counts.undone },
		{ "ioctls", counts.ioctls }, { "without memory", counts.starved },
		{ "windows not valid", counts.stale }, { "pages untouched", counts.untouched },
		{ "written", counts.written }, { "unknown", counts.unknown },
	};
	bool all = true;

	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		printf("%s%llu %s", i ? ", " : "", seen[i].nr, seen[i].what);
		all &= seen[i].nr > 0;
	}
	return all;
}

int main(int argc, char **argv)
{
	const char *given = getenv("SEED");
	u64 first = given ? strtoull(given, NULL, 10) : (u64)time(NULL) * 1000;
	unsigned int seeds = given ? 1 : argc > 1 ? atoi(argv[1]) : 20;
	unsigned int steps = argc > 2 ? atoi(argv[2]) : 4000;
	bool all;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!given)
		run_cases();
	for (unsigned int i = 0; i < seeds; i++) {
		snprintf(where, sizeof(where), "; SEED=%llu", first + i);
		printf("# SEED=%llu\n", first + i);
		seed(first + i);
		random_run(steps);
	}
	printf("# %u seeds from %llu of %u steps: ", seeds, first, steps);
	all = all_counted();
	printf("\n%s - unit: discards: any order\n", all || given ? "ok" : "not ok");
	return !all && !given;
}
