// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: fuzz COUNT [SEED]
 *
 * Sends at least COUNT mutated messages and constructor lines, from two processes
 * to a device each.  What is accepted must be answered in a form of the manual,
 * what is refused must be rejected with an error message; the status must agree with the
 * regions at any time, and in the end the device must work.  The same SEED gives the
 * same lines.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dm.h"

#define WORKERS 2
#define SECTORS 65536		/* of each device; the seeds say so as well */
#define MAX_LINE 7000
#define MAX_WORDS 512

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Seeds: every form that is valid.  A session is sent in its order. */

static const char * const sessions[][8] = {
	{ "begin full 65536", "upload # file 1 collection 32768 0:0:128",
	  "upload # file 2 index - 0:128:128", "upload # extents 128:512:64 192:1024:8", "commit #" },
	{ "begin full 65536",
	  "upload # file 1 collection 524288 0:0:2048 2048:4096:512 file 2 index 4096 0:8192:2048 "
	  "file 3 primary - 0:16384:2048 file 4 journal - 1024:24576:1024 0:25600:1024 "
	  "file 5 oplog - 0:32768:2048 file 6 other 0 0:40960:2048",
	  "commit #", "regions", "checkpoint" },
	{ "begin update 65536 $", "upload # file 7 collection 8192 0:50000:8",
	  "upload # extents 8:50008:8 16:50016:8", "commit #" },
	{ "begin update 65536 $", "upload # drop 2", "upload # file 1 index - 0:0:64", "commit #" },
	{ "begin update 65536 $",
	  "upload # file 18446744073709551615 other - 34359738336:65528:8 drop 7", "abort #" },
	{ "begin full 65536", "upload # file 1 collection 17592186040320 0:0:65536", "commit #" },
	{ "begin update 65536 $", "upload # file 8 other - stamp 8 2 0:51000:8",
	  "upload # stamp 0 5 file 9 index 0 stamp 1 0", "commit #", "checkpoint", "regions" },
	{ "begin full 65536", "commit #", "commit #", "abort #" },
	{ "begin update 65536 $", "begin full 65536", "upload # file 9 primary 4096", "commit #",
	  "checkpoint" },
	{ "checkpoint", "error" },
	{ "checkpoint", "checkpoint", "reset" },
	{ "regions", "regions 1", "regions 0 1", "regions 3 100", "error" },
	{ "set policy none", "set policy file", "set policy boundary", "set policy dsm",
	  "set policy life" },
	{ "set groups 2", "set groups 16", "set groups 3" },
	{ "set alpha auto", "set alpha 2", "set alpha 64" },
	{ "set prediction off", "set prediction predicted", "set prediction computed",
	  "set prediction literal" },
	{ "set range written", "set range region" },
	{ "set primary_filter on", "set primary_filter off" },
	{ "set threshold1 0", "set threshold1 20000", "set threshold2 0", "set threshold2 10000" },
	{ "set streams auto", "set streams 0", "set streams 7", "set streams 255" },
	{ "set stream_base 1", "set stream_base 255", "set stream_base 3" },
	{ "set hints on", "set hints off", "set foreign keep", "set foreign override", "set foreign class" },
	{ "window", "discard 1 0:8", "discard 0 8:64 128:128", "discard 18446744073709551615 0:65536",
	  "set discard on", "set discard on", "set discard off" },
	{ "set discard on", "set discard_granularity 131072", "set discard_alignment 4096", "window",
	  "discard 18446744073709551615 0:128", "forget", "set discard_granularity auto",
	  "set discard_alignment auto" },
	{ "set discard watch", "window", "discard 18446744073709551615 0:128",
	  "written 18446744073709551615 0:128 65528:8", "written 1 0:8 2 64:8", "set discard on" },
};

/* Behind the device. */
static const char * const constructors[] = {
	"0",
	"8 0",
	"0 2 policy none",
	"0 4 policy dsm groups 3",
	"0 4 policy life groups 16",
	"16 6 groups 16 alpha 64 prediction off",
	"0 8 policy boundary range region primary_filter off hints on",
	"0 10 threshold1 20000 threshold2 10000 streams 255 stream_base 1 foreign override",
	"0 26 policy dsm groups 2 alpha auto prediction computed range written "
	"primary_filter on threshold1 1000 threshold2 5 streams auto stream_base 1 "
	"hints off foreign keep discard on",
	"0 6 discard on discard_granularity 67108864 discard_alignment 4096",
	"0 2 discard watch",
};

/* What mutations put in. */
static const char * const words[] = {
	"begin", "full", "update", "upload", "#", "$", "file", "extents", "stamp", "drop", "commit",
	"abort", "checkpoint",
	"set", "reset", "regions", "error", "collection", "index", "primary", "journal", "oplog",
	"other", "policy", "none", "boundary", "dsm", "life", "groups", "alpha", "auto", "prediction",
	"off", "on", "predicted", "computed", "literal", "range", "written", "region", "primary_filter",
	"threshold1", "threshold2", "streams", "stream_base", "hints", "foreign", "keep",
	"override", "window", "discard", "forget", "watch",
	"discard_granularity", "discard_alignment", "-", ":", "::", "0:0:8", "COMMIT", "@", "%s%n", "\\", "'", "\"",
	"\xff", "/dev/null", "/dev/streamdisk", "999:999",
};

static const char * const numbers[] = {
	"0", "1", "2", "3", "7", "8", "9", "16", "17", "24", "26", "64", "65", "100", "255", "256",
	"4095", "4096", "4097", "10000", "10001", "20000", "20001", "65528", "65535", "65536",
	"65537", "2147483647", "2147483648", "4294967295", "4294967296", "34359738352",
	"34359738360", "17592186040320", "17592186044416", "9223372036854775807",
	"9223372036854775808", "18446744073709551608", "18446744073709551615",
	"18446744073709551616", "-1", "-0", "+1", "0x10", "010", "1e3", "1.5", " ", "",
	"00000000000000000000000000000000000000000000000000000000000000001",
};

/* xorshift64* */
static uint64_t state;

static uint32_t below(uint32_t limit)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (uint32_t)((state * 0x2545f4914f6cdd1dULL) >> 32) % limit;
}

/* Mutations */

struct line {
	char text[MAX_LINE + 1];
	size_t length;
};

static void line_set(struct line *line, const char *text)
{
	snprintf(line->text, sizeof(line->text), "%s", text);
	line->length = strlen(line->text);
}

/* Puts @text where @cut bytes at @at were; what does not fit is left out. */
static void line_splice(struct line *line, size_t at, size_t cut, const char *text)
{
	static char result[2 * MAX_LINE + 1];

	snprintf(result, sizeof(result), "%.*s%.*s%s", (int)at, line->text, MAX_LINE, text,
		 line->text + at + cut);
	line_set(line, result);
}

struct word {
	size_t at, length;
};

static unsigned int split(const struct line *line, struct word *word)
{
	unsigned int nr = 0;
	size_t at = 0;

	while (nr < MAX_WORDS) {
		at += strspn(line->text + at, " ");
		if (at >= line->length)
			break;
		word[nr].at = at;
		word[nr].length = strcspn(line->text + at, " ");
		at += word[nr++].length;
	}
	return nr;
}

static const char *some_word(void)
{
	return below(2) ? words[below(ARRAY_SIZE(words))] : numbers[below(ARRAY_SIZE(numbers))];
}

/* One of the numbers in the line becomes another. */
static void mutate_number(struct line *line)
{
	size_t from = below(line->length + 1);
	size_t at = from + strcspn(line->text + from, "0123456789");

	while (at && isdigit((unsigned char)line->text[at - 1]))
		at--;
	line_splice(line, at, strspn(line->text + at, "0123456789"),
		    numbers[below(ARRAY_SIZE(numbers))]);
}

static void mutate_byte(struct line *line)
{
	char byte[2] = { 1 + below(255), '\0' };

	line_splice(line, below(line->length + 1), below(2), below(3) ? byte : "");
}

static void mutate_words(struct line *line, const struct word *word, unsigned int nr)
{
	const struct word *one = &word[below(nr)], *other = &word[below(nr)];
	char copy[MAX_LINE + 2];

	switch (below(6)) {
	case 0:		/* leave out */
		line_splice(line, one->at, one->length, "");
		break;
	case 1:		/* another in its place */
		line_splice(line, one->at, one->length, some_word());
		break;
	case 2:		/* one more */
		snprintf(copy, sizeof(copy), "%s ", some_word());
		line_splice(line, one->at, 0, copy);
		break;
	case 3:		/* again, at another place */
		snprintf(copy, sizeof(copy), "%.*s ", (int)one->length, line->text + one->at);
		line_splice(line, other->at, 0, copy);
		break;
	case 4:		/* the rest is missing */
		line_splice(line, one->at, line->length - one->at, "");
		break;
	case 5:		/* the rest again, a few times */
		snprintf(copy, sizeof(copy), " %s", line->text + one->at);
		for (unsigned int times = 1 + below(below(20) ? 2 : 40); times; times--)
			line_splice(line, line->length, 0, copy);
		break;
	}
}

static void mutate(struct line *line)
{
	struct word word[MAX_WORDS];

	for (unsigned int times = below(3) ? 1 : 2 + below(2); times; times--) {
		unsigned int nr = split(line, word), kind = below(8);

		if (kind == 0 || !nr)
			mutate_byte(line);
		else if (kind < 4)
			mutate_number(line);
		else
			mutate_words(line, word, nr);
	}
}

/* A worker: its device, and what it has seen */

static struct {
	unsigned int index;
	uint64_t seed;
	char name[16];
	char device[16];	/* below */
	char kernel_name[16];	/* as the kernel log has it */
	unsigned int minor;
	int kmsg;
	unsigned long sent[2], accepted[2];	/* messages, constructor lines */
	struct line line;	/* the last */
	char reply[DM_REPLY];
	char reason[512];	/* of the last refusal */
} w;

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *why, ...)
{
	va_list args;

	printf("not ok - uml: fuzz: process %u of seed %llu, after %lu messages and %lu constructor lines: ",
	       w.index, (unsigned long long)w.seed, w.sent[0], w.sent[1]);
	va_start(args, why);
	vprintf(why, args);
	va_end(args);
	printf("; the line was '");
	for (size_t i = 0; i < w.line.length; i++)
		printf(isprint((unsigned char)w.line.text[i]) ? "%c" : "\\x%02x",
		       (unsigned char)w.line.text[i]);
	printf("'\n");
	exit(1);
}

static int send_message(const char *message)
{
	return dm_message(w.name, message, w.reply);
}

/* Messages */

static bool is_regions_line(const char *line)
{
	static const char form[] =
		"%*u %15[a-z] %20[0-9-] %6[a-z] %*u %*u %*u %15[0-9.-] %7[a-z0-9-] %7[a-z0-9-] %*u %*u %*u%n";
	char class[16], boundary[21], side[7], hotness[16], group[8], next[8];
	int end = 0;

	return sscanf(line, form, class, boundary, side, hotness, group, next, &end) == 6 &&
	       end && line[end] == '\n' && (!strcmp(side, "top") || !strcmp(side, "bottom"));
}

static bool is_regions_reply(const char *reply)
{
	for (; *reply; reply = strchr(reply, '\n') + 1)
		if (!is_regions_line(reply))
			return false;
	return true;
}

/* Whole pages in ascending order, each with a sign, and a number. */
static bool is_written_reply(const char *reply)
{
	unsigned long long start, length, last = 0;
	int end = 0;
	char sign;

	if (strncmp(reply, "written", 7))
		return false;
	for (reply += 7; reply[0] == ' ' && strchr("-?", reply[1]); reply += end) {
		end = 0;
		sscanf(reply, " %c%llu:%llu%n", &sign, &start, &length, &end);
		if (!end || start < last || start % 8 || length % 8 || !length)
			return false;
		last = start + length;
	}
	end = 0;
	sscanf(reply, " %*u%n", &end);
	return end && !reply[end];
}

static bool is_good_reply(const char *reply)
{
	int commit = 0, checkpoint = 0, begin = 0, window = 0, queued = 0;

	sscanf(reply, "upload %*u%n", &begin);
	sscanf(reply, "generation %*u files %*u extents %*u%n", &commit);
	sscanf(reply, "window %*u ms %*u written %*u moved %*u%n", &checkpoint);
	sscanf(reply, "window %*u%n", &window);
	sscanf(reply, "queued %*u%n", &queued);
	return !*reply || (begin && !reply[begin]) || (commit && !reply[commit]) ||
	       (checkpoint && !reply[checkpoint]) || (window && !reply[window]) ||
	       (queued && !reply[queued]) || is_written_reply(reply) || is_regions_reply(reply);
}

static bool is_reason(const char *text)
{
	return strlen(text) > 10 && strlen(text) < 256 && strchr(text, ' ');
}

static void read_reason(void)
{
	if (send_message("error"))
		fail("the message error was refused");
	snprintf(w.reason, sizeof(w.reason), "%s", w.reply);
}

/* These do not come as far as the target. */
static bool is_for_dm(const char *line)
{
	/* as the kernel's isspace() */
	line += strspn(line, " \t\n\v\f\r\xa0");
	line += strspn(line, "\\");
	return !*line || *line == '@';
}

/* Puts a known reason in place of the last. */
static void forget_reason(void)
{
	if (send_message("another") != -EINVAL)
		fail("'another' was not refused");
}

static void check_reason(void)
{
	read_reason();
	if (!is_reason(w.reason))
		fail("refused with '%s', which is no error message", w.reason);
	if (!strcmp(w.reason, "Unknown message 'another'"))
		fail("refused without a reason");
}

/* As device-mapper reads it: a backslash quotes what follows. */
static bool asks_for_the_reason(const char *line)
{
	const char *space = " \t\n\v\f\r\xa0";
	char word[6] = "";
	size_t n;

	line += strspn(line, space);
	for (n = 0; n < sizeof(word) - 1 && *line && !strchr(space, *line); n++) {
		if (line[0] == '\\' && line[1])
			line++;
		word[n] = *line++;
	}
	return !strcasecmp(word, "error") && (!*line || strchr(space, *line));
}

/* Looks at every fourth reason: that takes two more messages. */
static void try_message(void)
{
	bool ask = w.sent[0]++ % 4 == 0 && !is_for_dm(w.line.text);
	int r;

	if (ask)
		forget_reason();
	r = send_message(w.line.text);
	if (!r) {
		w.accepted[0]++;
		if (!is_good_reply(w.reply) && !asks_for_the_reason(w.line.text))
			fail("the reply '%s' has no form", w.reply);
		return;
	}
	if (r != -EINVAL && r != -ENOENT && r != -EEXIST && r != -ESTALE)
		fail("refused with %s", strerror(-r));
	if (ask)
		check_reason();
}

/* Constructor lines */

/* What the kernel has said of this device since the last call; w.reply is used. */
static bool kernel_said_why(void)
{
	char record[2048], ours[64];
	bool said = false;
	ssize_t length;

	snprintf(ours, sizeof(ours), "table: %s: ", w.kernel_name);
	for (;;) {
		length = read(w.kmsg, record, sizeof(record) - 1);
		if (length < 0 && errno == EPIPE)
			continue;
		if (length < 0)
			return said;
		record[length] = '\0';

		char *text = strstr(record, ours);

		if (!text)
			continue;
		text += strlen(ours);
		text[strcspn(text, "\n")] = '\0';
		said = is_reason(text) && !strstr(text, "Unknown error") &&
		       !strstr(text, "(null)");
	}
}

static void try_constructor(bool use)
{
	bool same_device = !strncmp(w.line.text, w.device, strlen(w.device)) &&
			   w.line.text[strlen(w.device)] == ' ';
	int r = dm_load(w.name, SECTORS, w.line.text);

	w.sent[1]++;
	if (r) {
		if (!kernel_said_why())
			fail("refused with %s, and the kernel log does not say why", strerror(-r));
		return;
	}
	w.accepted[1]++;
	if (!use || !same_device) {
		if (dm_clear(w.name))
			fail("what was loaded cannot be cleared");
		return;
	}

	/* Device-mapper looks only here whether the underlying device is large enough. */
	r = dm_resume(w.name);
	if (!r)
		dm_generation = 0;
	if (r && !kernel_said_why())
		fail("not resumed with %s, and the kernel log does not say why", strerror(-r));
	if (r && dm_resume(w.name))
		fail("the table before cannot be resumed");
}

/* The device at any time */

static unsigned long field(const char *status, const char *name)
{
	const char *at = strstr(status, name);

	if (!at)
		fail("the status '%s' has no%s", status, name);
	return strtoul(at + strlen(name), NULL, 10);
}

static void check_status(void)
{
	char status[DM_REPLY], ask[64];
	unsigned long files = 0, regions = 0;
	unsigned long long id, last = 0;

	if (dm_status(w.name, status))
		fail("there is no status");
	if (strncmp(status, "version 1 policy ", 17))
		fail("the status is '%s'", status);

	snprintf(ask, sizeof(ask), "regions 0 %d", SECTORS);
	if (send_message(ask) || !is_regions_reply(w.reply))
		fail("the regions cannot be listed");
	for (const char *at = w.reply; *at; at = strchr(at, '\n') + 1) {
		id = strtoull(at, NULL, 10);
		if (regions && id < last)
			fail("the regions are not in order");
		files += !regions || id != last;
		last = id;
		regions++;
	}

	/* "after 0" leaves out the file 0. */
	if (files != field(status, " files ") && files + 1 != field(status, " files "))
		fail("%lu files are listed, and the status is '%s'", files, status);
	if (files == field(status, " files ") && regions != field(status, " regions "))
		fail("%lu regions are listed, and the status is '%s'", regions, status);
}

/* The table line must be accepted as it is, and say the same again. */
static void check_table(void)
{
	char line[DM_REPLY], again[DM_REPLY];

	if (dm_table(w.name, line) || dm_load(w.name, SECTORS, line) || dm_resume(w.name) ||
	    dm_table(w.name, again))
		fail("the table line '%s' is not taken", line);
	dm_generation = 0;
	if (strcmp(line, again))
		fail("the table line '%s' has become '%s'", line, again);
}

/* The device at the end */

static void check_writes(void)
{
	static const char upload[] = "upload # file 1 collection 4096 0:0:16 file 2 index - 0:16:16";
	char path[32], line[128];
	uint64_t *block = aligned_alloc(4096, 4096), *got = aligned_alloc(4096, 4096);
	int fd;

	dm_line(line, sizeof(line), w.index * SECTORS, "");
	if (dm_load(w.name, SECTORS, line) || dm_resume(w.name))
		fail("the device cannot be set up again");
	if (send_message("begin full 65536") || send_message(upload) || send_message("commit #"))
		fail("a table cannot be uploaded");

	snprintf(path, sizeof(path), "/dev/dm-%u", w.minor);
	fd = open(path, O_RDWR | O_DIRECT);
	if (fd < 0)
		fail("%s cannot be opened: %s", path, strerror(errno));
	for (int page = 0; page < 6; page++) {
		for (int i = 0; i < 512; i++)
			block[i] = w.seed * 1000003 + page * 512 + i;
		if (pwrite(fd, block, 4096, page * 4096) != 4096 ||
		    pread(fd, got, 4096, page * 4096) != 4096 || memcmp(block, got, 4096))
			fail("page %d does not read as it was written", page);
	}
	close(fd);
	free(block);
	free(got);

	if (send_message("regions"))
		fail("the regions cannot be listed");
	if (!strstr(w.reply, "1 collection 4096 bottom 4096 0 0 - - 1 3 5 1\n") ||
	    !strstr(w.reply, "1 collection 4096 top 4096 0 0 - - 2 4 3 1\n") ||
	    !strstr(w.reply, "2 index - bottom 8192 0 0 - - 1 6 5 2\n"))
		fail("six pages were written, and the regions are\n%s", w.reply);
	if (dm_status(w.name, w.reply) || field(w.reply, " unmapped_writes ") != 2)
		fail("two writes were unmapped, and the status is '%s'", w.reply);
}

static void set_up(unsigned int index, uint64_t seed)
{
	char line[128];
	FILE *file;
	int r;

	w.index = index;
	w.seed = seed;
	state = (seed * WORKERS + index + 1) * 0x9e3779b97f4a7c15ULL;
	snprintf(w.name, sizeof(w.name), "fuzz%u", index);
	dm_below(w.device);
	dm_line(line, sizeof(line), index * SECTORS, "");
	r = dm_create(w.name, &w.minor);
	if (r || (r = dm_load(w.name, SECTORS, line)) || (r = dm_resume(w.name)))
		fail("the device cannot be made: %s", strerror(-r));

	snprintf(line, sizeof(line), "/sys/block/dm-%u/dev", w.minor);
	file = fopen(line, "r");
	if (!file || fscanf(file, "%15s", w.kernel_name) != 1)
		fail("%s cannot be read", line);
	fclose(file);

	w.kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (w.kmsg < 0 || lseek(w.kmsg, 0, SEEK_END) < 0)
		fail("/dev/kmsg cannot be read");
}

static void run_session(void)
{
	const char * const *session = sessions[below(ARRAY_SIZE(sessions))];

	for (int i = 0; i < 8 && session[i]; i++) {
		line_set(&w.line, session[i]);
		if (below(3)) {
			mutate(&w.line);
			try_message();
		} else {
			send_message(session[i]);
		}
	}
}

static void run_constructor(void)
{
	char seed[512];

	snprintf(seed, sizeof(seed), "%s %s", w.device,
		 constructors[below(ARRAY_SIZE(constructors))]);
	line_set(&w.line, seed);
	mutate(&w.line);
	try_constructor(!below(4));
}

/* A constructor that is accepted waits for RCU, and takes a hundred messages' time. */
#define SESSIONS_PER_CONSTRUCTOR 30

static int run(unsigned int index, uint64_t seed, unsigned long count)
{
	struct timespec start, end;
	unsigned long total, rounds;
	double seconds;

	set_up(index, seed);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (rounds = 1; w.sent[0] + w.sent[1] < count; rounds++) {
		run_session();
		if (rounds % SESSIONS_PER_CONSTRUCTOR == 0)
			run_constructor();
		if (rounds % 100 == 0)
			check_status();
		if (rounds % 1000 == 0)
			check_table();
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = end.tv_sec - start.tv_sec + (end.tv_nsec - start.tv_nsec) / 1e9;

	check_status();
	check_table();
	check_writes();
	if (dm_remove(w.name))
		fail("the device cannot be removed");

	total = w.sent[0] + w.sent[1];
	printf("ok - uml: fuzz: process %u of seed %llu: %lu messages (%lu accepted), %lu constructor lines (%lu accepted), %.0f a second\n",
	       index, (unsigned long long)seed, w.sent[0], w.accepted[0], w.sent[1],
	       w.accepted[1], total / seconds);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	int status, failed = 0;

	if (!count) {
		fprintf(stderr, "usage: fuzz COUNT [SEED]\n");
		return 2;
	}

	setvbuf(stdout, NULL, _IOLBF, 0);
	dm_open();
	for (unsigned int i = 0; i < WORKERS; i++)
		if (!fork())
			return run(i, seed, (count + WORKERS - 1) / WORKERS);
	while (wait(&status) > 0)
		failed |= status;
	return failed ? 1 : 0;
}
