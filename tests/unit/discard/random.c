// SPDX-License-Identifier: GPL-2.0-only
/*
 * Anything in any order.
 */
#include "model.h"

#define MAX_TEXT 2000

static struct geometry g;

/* Where things happen: at edges of words, chunks, partitions and the target. */
static u64 place(u64 sectors)
{
	u64 at[] = { 0, 40 * PAGE, CHUNK, 2 * CHUNK, g.len }, near = at[rnd(5)];
	u64 off = rnd(4) ? rnd(64) * PAGE : rnd(64 * PAGE);
	u64 start = rnd(2) ? near + off : near > off ? near - off : 0;

	return min(start, g.len - sectors);
}

static void some_write(void)
{
	static const u32 ops[] = { REQ_OP_WRITE_ZEROES, REQ_OP_DISCARD, REQ_OP_SECURE_ERASE };
	u32 unit = g.block / 512, flags = 0;
	u64 sectors = (1 + rnd(rnd(8) ? 3 * PAGE / unit : 40 * PAGE)) * unit, start;
	u32 op = rnd(6) ? REQ_OP_WRITE : ops[rnd(3)];

	if (!rnd(300))
		sectors = rnd(2 * CHUNK);
	sectors = max(round_down(min(sectors, g.len), unit), unit);
	start = round_down(place(sectors), unit);
	if (!rnd(8))
		flags |= REQ_NOWAIT;
	if (op == REQ_OP_WRITE && !rnd(16))
		flags |= REQ_POLLED;
	if (op == REQ_OP_WRITE && !rnd(40)) {
		sectors = 0;
		flags |= REQ_PREFLUSH;
	}
	write_sectors(start, sectors, op | flags);
}

/* Ranges with their windows: ascending, so that they seldom overlap, or turned around. */
static void some_ranges(char *text)
{
	u64 at = place(PAGE), length;
	unsigned int nr = 0, most = 1 + rnd(6), back = rnd(4);
	bool reverse = !rnd(4);
	char words[6][64];

	for (; nr < most; at += length) {
		at += rnd(3) ? round_up(rnd(8 * PAGE), PAGE) : rnd(8 * PAGE);
		length = rnd(100) ? 1 + rnd(24 * PAGE) : 1 + rnd(g.len);
		if (rnd(4))
			length = round_up(length, PAGE);
		if (!rnd(30))
			at = place(PAGE);
		if (at + length > g.len)
			break;
		if (!rnd(3))
			back = rnd(rnd(6) ? 4 : 6);
		sprintf(words[nr++], " %llu %llu:%llu", oracle_window(back) ?: 1, at, length);
	}
	for (unsigned int i = 0; i < nr; i++)
		strcat(text, words[reverse ? nr - 1 - i : i]);
	if (!nr)
		strcat(text, " 1 0:8");
}

static void some_message(void)
{
	static const char * const bytes[] = { "auto", "4096", "8192", "16384", "131072", "65536" };
	static const char * const stops[] = {
		"forget", "forget", "set discard off", "set discard watch", "set discard watch",
		"set discard on",
	};
	char text[MAX_TEXT] = "";
	u32 pick = rnd(100);

	if (w.messages >= 4)
		return;
	if (pick < 12) {
		if (!w.exclusive)
			tell("window");
	} else if (pick < 65) {
		strcpy(text, "discard");
		some_ranges(text);
		tell("%s", text);
	} else if (pick < 90) {
		strcpy(text, "written");
		some_ranges(text);
		tell("%s", text);
	} else if (pick < 93 && w.exclusive) {
		;
	} else if (pick < 92) {
		tell("set discard_granularity %s", bytes[rnd(6)]);
	} else if (pick < 93) {
		tell("set discard_alignment %s", bytes[rnd(6)]);
	} else if (pick < 95) {
		tell("set groups %u", 2 + rnd(10));
	} else if (pick < 96) {
		if (!w.exclusive)
			map_chunks(rnd(16));
	} else if (pick < 98 && oracle_state() != ON) {
		tell("set discard on");
	} else if (!rnd(3)) {
		tell("%s", stops[rnd(6)]);
	}
}

static void check_status(void)
{
	settle();
	if (w.suspended) {
		resume();
		settle();
	}
	status();
	oracle_status(reply);
}

static void step(void)
{
	static const blk_status_t failures[] = { BLK_STS_NOTSUPP, BLK_STS_IOERR, BLK_STS_IOERR };
	u32 pick = rnd(200);

	if (running() > 40)	/* a suspend holds them up */
		pick = 150;
	if (pick < 50)
		start_work();
	else if (pick < 90 && w.in_flight < 12)
		some_write();
	else if (pick < 130)
		some_message();
	else if (pick < 175)
		end_discard(rnd(8), rnd(60) ? BLK_STS_OK : failures[rnd(3)]);
	else if (pick < 183)
		w.no_tags = !w.no_tags && rnd(2);
	else if (pick < 193 && w.suspended && !w.suspending)
		resume();
	else if (pick < 184 && !rnd(4) && !w.suspending && !w.suspended)
		suspend(rnd(2));
	else if (pick < 185 && !rnd(6))
		passed_ioctl();
	else if (pick < 187)
		kill_some();
	else if (pick < 188 && !rnd(4))
		check_status();
}

void random_run(unsigned int steps)
{
	static const u32 grains[] = { 512, 4096, 16384, 131072, 1 << 20 };
	static const u32 no_memory[] = { 0, 0, 400, 60 };
	bool partition = !rnd(3);

	g = (struct geometry) {
		.len = CHUNK * (1 + rnd(3)) + rnd(2) * rnd(CHUNK / 4),
		.start = rnd(2) * rnd(5000) * PAGE, .first = partition ? 34 + rnd(1000) : 0,
		.block = rnd(4) ? 512 : 4096, .granularity = grains[rnd(5)],
		.max = rnd(4) ? 1 << 22 : 64 + rnd(4000),
	};
	if (!rnd(4))
		g.alignment = rnd(256) * 512;
	g.len = round_down(g.len, g.block / 512);
	tuning = (struct tuning) {
		.races = rnd(3) ? 4 << rnd(6) : 0, .sleeps = 1 + rnd(4), .no_memory = no_memory[rnd(4)],
		.signals = rnd(2) ? 0 : 50,
	};
	make(&g, rnd(8) ? "on" : rnd(2) ? "watch" : "off");
	map_chunks(1 + rnd(15));
	go_on();
	for (unsigned int i = 0; i < steps; ) {
		if (!rnd(5) || !run_some()) {
			step();
			i++;
		}
	}
	check_status();
	destroy();
}
