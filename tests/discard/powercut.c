// SPDX-License-Identifier: GPL-2.0-only
/*
 * Puts a disk into the state in which a power cut would have left it, from the log
 * that dm-log-writes has kept (drivers/md/dm-log-writes.c has its format).
 *
 *   powercut flushes LOG                 prints how many flushes come after the mark "run"
 *   powercut replay LOG DISK STATE N     what is durable with the Nth of them; STATE is a
 *                                        file that keeps where the last replay ended
 *   powercut lose LOG DISK STATE SEED    what may be on the disk beside that before the
 *                                        next flush: all discards, everything that was
 *                                        written through, and no other write (SEED 0), or
 *                                        half of them
 *
 * What is discarded reads as rubbish afterwards.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x6a736677736872ULL
#define BUFFER (1024 * 1024)

enum { FLUSH = 1, FUA = 2, DISCARD = 4, MARK = 8 };

struct super {
	uint64_t magic, version, nr_entries;
	uint32_t sectorsize;
} __attribute__((packed));

struct entry {
	uint64_t sector, nr_sectors, flags, data_len;
} __attribute__((packed));

/* Where in the log: the entry's number and place; flushes since the mark. */
struct state {
	uint64_t number, place, flushes;
	bool marked;
};

static int log_fd, disk_fd = -1;
static const char *log_name, *disk_name;
static struct super super;
static uint8_t buffer[BUFFER];

static void stop(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("powercut: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static void get(void *data, size_t size, uint64_t place)
{
	if (pread(log_fd, data, size, place) != (ssize_t)size)
		stop("%s cannot be read at %lu: %s", log_name, place, strerror(errno));
}

static void put(const void *data, size_t size, uint64_t place)
{
	if (pwrite(disk_fd, data, size, place) != (ssize_t)size)
		stop("%s cannot be written at %lu: %s", disk_name, place, strerror(errno));
}

static void open_log(const char *name)
{
	log_name = name;
	log_fd = open(name, O_RDONLY);
	if (log_fd < 0)
		stop("%s: %s", name, strerror(errno));
	get(&super, sizeof(super), 0);
	super.nr_entries = le64toh(super.nr_entries);
	super.sectorsize = le32toh(super.sectorsize);
	if (le64toh(super.magic) != MAGIC || le64toh(super.version) != 1 || !super.sectorsize)
		stop("%s is not a log of dm-log-writes", name);
}

static void open_disk(const char *name)
{
	disk_name = name;
	disk_fd = open(name, O_WRONLY);
	if (disk_fd < 0)
		stop("%s: %s", name, strerror(errno));
}

static uint64_t data_of(const struct state *state)
{
	return state->place + super.sectorsize;
}

static struct entry read_entry(const struct state *state)
{
	struct entry entry;

	get(&entry, sizeof(entry), state->place);
	entry.sector = le64toh(entry.sector) * super.sectorsize;
	entry.nr_sectors = le64toh(entry.nr_sectors) * super.sectorsize;
	entry.flags = le64toh(entry.flags);
	entry.data_len = le64toh(entry.data_len);
	return entry;
}

static bool is_mark(const struct state *state, const struct entry *entry)
{
	char text[4] = "";

	if (!(entry->flags & MARK))
		return false;
	get(text, entry->data_len < 3 ? entry->data_len : 3, state->place + sizeof(*entry));
	return !strcmp(text, "run");
}

/* Goes over an entry, and counts it. */
static void pass(struct state *state, const struct entry *entry)
{
	state->marked |= is_mark(state, entry);
	state->flushes += state->marked && entry->flags & FLUSH;
	state->place = data_of(state);
	if (!(entry->flags & (DISCARD | MARK)))
		state->place += entry->nr_sectors;
	state->number++;
}

static bool more(const struct state *state)
{
	return state->number < super.nr_entries;
}

static void apply(const struct state *state, const struct entry *entry)
{
	uint64_t from = data_of(state), to = entry->sector, left = entry->nr_sectors, part;

	if (entry->flags & MARK)
		return;
	for (; left; left -= part, from += part, to += part) {
		part = left < BUFFER ? left : BUFFER;
		if (entry->flags & DISCARD)
			memset(buffer, 0xd5, part);
		else
			get(buffer, part, from);
		put(buffer, part, to);
	}
}

static struct state read_state(const char *name)
{
	struct state state = { .place = super.sectorsize };
	FILE *file = fopen(name, "r");
	int marked;

	if (!file)
		return state;
	if (fscanf(file, "%lu %lu %lu %d", &state.number, &state.place, &state.flushes,
		   &marked) != 4)
		stop("%s is not a state", name);
	state.marked = marked;
	fclose(file);
	return state;
}

static void write_state(const char *name, const struct state *state)
{
	FILE *file = fopen(name, "w");

	if (!file || fprintf(file, "%lu %lu %lu %d\n", state->number, state->place,
			     state->flushes, state->marked) < 0 || fclose(file))
		stop("%s cannot be written: %s", name, strerror(errno));
}

static void count_flushes(void)
{
	struct state state = { .place = super.sectorsize };
	unsigned long discards = 0;

	while (more(&state)) {
		struct entry entry = read_entry(&state);

		discards += state.marked && entry.flags & DISCARD;
		pass(&state, &entry);
	}
	printf("%lu %lu\n", state.flushes, discards);
}

static void replay(const char *state_name, uint64_t flush)
{
	struct state state = read_state(state_name);

	if (state.flushes > flush)
		stop("flush %lu was before flush %lu, up to which %s is", flush, state.flushes,
		     disk_name);
	while (state.flushes < flush) {
		struct entry entry;

		if (!more(&state))
			stop("there are %lu flushes, not %lu", state.flushes, flush);
		entry = read_entry(&state);
		apply(&state, &entry);
		pass(&state, &entry);
	}
	write_state(state_name, &state);
}

/* In their order; prints how many discards and writes. */
static void lose(const char *state_name, unsigned int seed)
{
	struct state state = read_state(state_name);
	unsigned long discards = 0, kept = 0, lost = 0;

	srandom(seed);
	while (more(&state)) {
		struct entry entry = read_entry(&state);

		if (entry.flags & FLUSH)
			break;
		if (entry.flags & DISCARD) {
			apply(&state, &entry);
			discards++;
		} else if (entry.flags & FUA || (seed && random() & 1)) {
			apply(&state, &entry);
			kept++;
		} else if (!(entry.flags & MARK)) {
			lost++;
		}
		pass(&state, &entry);
	}
	printf("%lu discards, %lu writes, %lu lost\n", discards, kept, lost);
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (argc == 3 && !strcmp(command, "flushes")) {
		open_log(argv[2]);
		count_flushes();
	} else if (argc == 6 && !strcmp(command, "replay")) {
		open_log(argv[2]);
		open_disk(argv[3]);
		replay(argv[4], strtoul(argv[5], NULL, 10));
	} else if (argc == 6 && !strcmp(command, "lose")) {
		open_log(argv[2]);
		open_disk(argv[3]);
		lose(argv[4], strtoul(argv[5], NULL, 10));
	} else {
		fputs("usage: powercut flushes LOG | replay LOG DISK STATE N | lose LOG DISK STATE SEED\n",
		      stderr);
		return 2;
	}
	return disk_fd >= 0 && fsync(disk_fd) ? 1 : 0;
}
