// SPDX-License-Identifier: GPL-2.0-only
/* The command line. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "beside.h"
#include "options.h"
#include "util.h"

#define DEFAULT_OPS		20000
#define DEFAULT_CHECKPOINTS	10

static const char usage[] =
"Usage: wtload linkbench|ycsb|many --dbpath DIR [OPTION...]\n"
"       wtload check --dbpath DIR [--cache-mb N]\n"
"Behaves on disk as a mongod with WiredTiger does, and checks what it wrote.\n"
"\n"
"  --dbpath DIR            an existing directory, as for mongod\n"
"  --phase load|run|all    load an empty dbpath, run on a loaded one (default all)\n"
"  --mix NAME              linkbench: update-only (default), mixed, original,\n"
"                          read-only; ycsb: update-only (default), update-heavy, read-only\n"
"                          many: any of them\n"
"  --nodes N               linkbench: nodes to load (default 100000)\n"
"  --records N             ycsb: records to load (default 100000);\n"
"                          many: records in each collection (default 100)\n"
"  --collections N         many: collections (default 100)\n"
"  --indexes N             many: indexes of each, beside _id (default 3)\n"
"  --ops N | --seconds S   length of the run (default 20000 operations)\n"
"  --checkpoints N         checkpoints, evenly over the run (default 10)\n"
"  --checkpoint-ops N      or one after every N operations\n"
"  --checkpoint-seconds S  or one after every S seconds, also while loading\n"
"  --threads N             clients (default 1: the same seed, the same run)\n"
"  --cache-mb N            WiredTiger's cache (default 100)\n"
"  --journal-mb N          size of a journal file (default 100, as mongod's); 0: no journal\n"
"  --leaf-kib N            leaf pages of collections: 4 to 512 (default 32)\n"
"  --index-leaf-kib N      leaf pages of indexes: 4 to 512 (default 16)\n"
"  --block-compressor NAME of collections: none, snappy (default), zstd\n"
"  --seed N                (default 1)\n"
"  --directory-per-db      as mongod's directoryPerDB\n"
"  --directory-for-indexes as mongod's wiredTigerDirectoryForIndexes\n"
"  --direct-io             data files by direct I/O\n"
"  --idents FILE           write ident, namespace and type of each file as JSON\n"
"  --json FILE             write the results as JSON\n"
"  --latencies FILE        write when each operation began, and how long it took: two\n"
"                          numbers of 8 bytes in ns; in no order\n"
"  --think-us N            clients wait so long before each operation (default 0)\n"
"  --rate N                N operations a second of all clients, each when it is due;\n"
"                          latencies are from then on\n"
"  --on-load-end CMD       run CMD after the load's checkpoint\n"
"  --before-checkpoint CMD run CMD before each checkpoint of the run, with CHECKPOINT=n\n"
"  --on-checkpoint CMD     run CMD after each checkpoint, with CHECKPOINT=n\n"
"  --beside NAME[,NAME...] do this during the run, too, over and over: backup, bulk,\n"
"                          compact, cursors, drops, history, incremental, named,\n"
"                          targets, truncate, whole\n"
"  --copies DIR            where backups go: DIR/backup and DIR/incremental\n";

static const struct mix mixes[] = {
	/* The paper's Table 1: LB-Original, LB-Mixed, *-Update-Only, Y-Update-Heavy */
	{ "original", 12, 69, 15, 4 },
	{ "mixed", 12, 0, 84, 4 },
	{ "update-only", 0, 0, 100, 0 },
	{ "update-heavy", 0, 50, 50, 0 },
	{ "read-only", 0, 100, 0, 0 },
};

static const struct command {
	const char *name;
	const char *mixes;
	uint64_t records;
} commands[] = {
	{ "linkbench", "original, mixed, update-only, read-only", 0 },
	{ "ycsb", "update-heavy, update-only, read-only", 100000 },
	{ "many", "original, mixed, update-only, update-heavy", 100 },
	{ "check", "", 0 },
};

/* What getopt_long() returns; texts and numbers by their place in their list. */
enum {
	OPT_HELP = 'h',
	OPT_DIRECTORY_PER_DB = 256,
	OPT_DIRECTORY_FOR_INDEXES,
	OPT_DIRECT_IO,
	OPT_TEXT = 512,
	OPT_NUMBER = 1024,
};

struct text_option {
	const char *name;
	size_t offset;
};

struct number_option {
	const char *name;
	size_t offset;
	uint64_t min, max;
};

#define TEXT(name, member) { name, offsetof(struct options, member) }
#define NUMBER(name, member, min, max) \
	{ name, offsetof(struct options, member), min, max }

/* --mix and --phase are texts first: what they may be depends on the command. */
struct raw_options {
	struct options opt;
	const char *mix;
	const char *phase;
};

static const struct text_option texts[] = {
	TEXT("dbpath", dbpath),
	TEXT("idents", idents_file),
	TEXT("json", json_file),
	TEXT("latencies", latencies_file),
	TEXT("before-checkpoint", before_checkpoint),
	TEXT("on-checkpoint", on_checkpoint),
	TEXT("on-load-end", on_load_end),
	TEXT("beside", beside),
	TEXT("copies", copies),
	TEXT("block-compressor", block_compressor),
	{ "mix", offsetof(struct raw_options, mix) },
	{ "phase", offsetof(struct raw_options, phase) },
};

static const struct number_option numbers[] = {
	NUMBER("nodes", nodes, 100, 1000000000),
	NUMBER("records", records, 10, 1000000000),
	NUMBER("collections", collections, 1, 100000),
	NUMBER("indexes", indexes, 0, 8),
	NUMBER("ops", ops, 1, 1000000000000),
	NUMBER("seconds", seconds, 1, 1000000),
	NUMBER("checkpoints", checkpoints, 1, 1000000),
	NUMBER("checkpoint-ops", checkpoint_ops, 1, 1000000000000),
	NUMBER("checkpoint-seconds", checkpoint_seconds, 1, 1000000),
	NUMBER("threads", threads, 1, 256),
	NUMBER("cache-mb", cache_mb, 10, 1000000),
	NUMBER("journal-mb", journal_mb, 0, 2048),
	NUMBER("leaf-kib", leaf_kib, 4, 512),
	NUMBER("index-leaf-kib", index_leaf_kib, 4, 512),
	NUMBER("seed", seed, 0, INT64_MAX),
	NUMBER("think-us", think_us, 0, 999999),
	NUMBER("rate", rate, 1, 1000000),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FIXED_OPTIONS 4

static uint64_t parse_number(const struct number_option *option,
			     const char *value)
{
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno ||
	    number < option->min || number > option->max)
		usage_error("--%s '%s' is not a whole number from %llu to %llu",
			    option->name, value,
			    (unsigned long long)option->min,
			    (unsigned long long)option->max);
	return number;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COUNT(commands); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	usage_error("'%s' is not a command; there are linkbench, ycsb, many and check",
		    name);
}

static bool listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = list; at && *at; at = strchr(at, ' ')) {
		at += *at == ' ';
		if (!strncmp(at, name, len) && (!at[len] || at[len] == ','))
			return true;
	}
	return false;
}

static const struct mix *find_mix(const struct command *command,
				  const char *name)
{
	for (size_t i = 0; i < COUNT(mixes); i++)
		if (!strcmp(mixes[i].name, name) &&
		    listed(command->mixes, name))
			return &mixes[i];
	usage_error("--mix '%s' is not a mix of %s; it has %s", name,
		    command->name, command->mixes);
}

static enum phase find_phase(const char *name)
{
	static const char *const names[] = { "all", "load", "run" };

	for (int i = PHASE_ALL; i <= PHASE_RUN; i++)
		if (!strcmp(names[i], name))
			return (enum phase)i;
	usage_error("--phase '%s' is not a phase; there are load, run and all",
		    name);
}

static void fill_long_options(struct option *out)
{
	*out++ = (struct option){ "help", no_argument, NULL, OPT_HELP };
	*out++ = (struct option){ "directory-per-db", no_argument, NULL,
				  OPT_DIRECTORY_PER_DB };
	*out++ = (struct option){ "directory-for-indexes", no_argument, NULL,
				  OPT_DIRECTORY_FOR_INDEXES };
	*out++ = (struct option){ "direct-io", no_argument, NULL,
				  OPT_DIRECT_IO };
	for (size_t i = 0; i < COUNT(texts); i++)
		*out++ = (struct option){ texts[i].name, required_argument,
					  NULL, OPT_TEXT + (int)i };
	for (size_t i = 0; i < COUNT(numbers); i++)
		*out++ = (struct option){ numbers[i].name, required_argument,
					  NULL, OPT_NUMBER + (int)i };
	*out = (struct option){ 0 };
}

static void take(struct raw_options *raw, int which, const char *argument)
{
	char *base = (char *)raw;

	if (which >= OPT_NUMBER) {
		const struct number_option *number = &numbers[which - OPT_NUMBER];
		uint64_t value = parse_number(number, argument);

		memcpy(base + number->offset, &value, sizeof(value));
	} else {
		memcpy(base + texts[which - OPT_TEXT].offset, &argument,
		       sizeof(argument));
	}
}

static void check_leaf(const char *name, uint64_t kib)
{
	if (kib & (kib - 1))
		usage_error("--%s %llu is not a power of two from 4 to 512",
			    name, (unsigned long long)kib);
}

static const char *find_compressor(const char *name)
{
	static const char *const names[] = { "snappy", "zstd" };

	if (!strcmp(name, "none"))
		return "";
	for (size_t i = 0; i < COUNT(names); i++)
		if (!strcmp(names[i], name))
			return names[i];
	usage_error("--block-compressor '%s' is not one; there are none, snappy and zstd",
		    name);
}

static void set_lengths(struct options *opt)
{
	if (opt->ops && opt->seconds)
		usage_error("--ops and --seconds exclude each other: give one");
	if (!!opt->checkpoints + !!opt->checkpoint_ops +
	    !!opt->checkpoint_seconds > 1)
		usage_error("--checkpoints, --checkpoint-ops and --checkpoint-seconds exclude each other: give one");
	if (opt->rate && opt->think_us)
		usage_error("--rate and --think-us exclude each other: give one");
	if (!opt->ops && !opt->seconds)
		opt->ops = DEFAULT_OPS;
	if (!opt->checkpoints && !opt->checkpoint_ops &&
	    !opt->checkpoint_seconds)
		opt->checkpoints = DEFAULT_CHECKPOINTS;
	if (opt->ops && opt->checkpoints > opt->ops)
		usage_error("--checkpoints %llu is more than one for each of the %llu operations",
			    (unsigned long long)opt->checkpoints,
			    (unsigned long long)opt->ops);
	if (opt->seconds && opt->checkpoints > opt->seconds)
		usage_error("--checkpoints %llu is more than one for each of the %llu seconds",
			    (unsigned long long)opt->checkpoints,
			    (unsigned long long)opt->seconds);
}

void options_parse(struct options *opt, int argc, char **argv)
{
	struct option long_options[COUNT(texts) + COUNT(numbers) +
				   FIXED_OPTIONS + 1];
	struct raw_options raw = {
		.opt = { .nodes = 100000, .collections = 100, .indexes = 3,
			 .threads = 1, .cache_mb = 100, .journal_mb = 100,
			 .leaf_kib = 32, .index_leaf_kib = 16,
			 .block_compressor = "snappy", .seed = 1 },
		.mix = "update-only",
		.phase = "all",
	};
	const struct command *command;
	int which;

	if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		fputs(usage, argc < 2 ? stderr : stdout);
		exit(argc < 2 ? EXIT_USAGE : 0);
	}
	command = find_command(argv[1]);
	raw.opt.command = command->name;
	raw.opt.records = command->records;
	fill_long_options(long_options);
	/* getopt prints its own message with this name in front. */
	argv[1] = (char[]){ "wtload" };
	while ((which = getopt_long(argc - 1, argv + 1, "h", long_options,
				    NULL)) != -1) {
		switch (which) {
		case OPT_HELP:
			fputs(usage, stdout);
			exit(0);
		case '?':
			exit(EXIT_USAGE);
		case OPT_DIRECTORY_PER_DB:
			raw.opt.directory_per_db = true;
			break;
		case OPT_DIRECTORY_FOR_INDEXES:
			raw.opt.directory_for_indexes = true;
			break;
		case OPT_DIRECT_IO:
			raw.opt.direct_io = true;
			break;
		default:
			take(&raw, which, optarg);
		}
	}
	if (optind < argc - 1)
		usage_error("'%s' is not an option", argv[optind + 1]);
	if (!raw.opt.dbpath)
		usage_error("--dbpath is missing: give the directory of the database");
	check_leaf("leaf-kib", raw.opt.leaf_kib);
	check_leaf("index-leaf-kib", raw.opt.index_leaf_kib);
	raw.opt.block_compressor = find_compressor(raw.opt.block_compressor);
	*opt = raw.opt;
	if (strcmp(command->name, "check"))
		opt->mix = find_mix(command, raw.mix);
	opt->phase = find_phase(raw.phase);
	set_lengths(opt);
	beside_check(opt->beside, opt->copies);
}
