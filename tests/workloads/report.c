// SPDX-License-Identifier: GPL-2.0-only
/* The last line, and the results as JSON. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

#include "pages.h"
#include "report.h"
#include "util.h"

static uint64_t seen_bytes, seen_blocks;

static int add_file(const char *path, const struct stat *st, int type,
		    struct FTW *ftw)
{
	(void)path;
	(void)ftw;
	if (type == FTW_F) {
		seen_bytes += (uint64_t)st->st_size;
		seen_blocks += (uint64_t)st->st_blocks * 512;
	}
	return 0;
}

static void measure(const char *dbpath)
{
	seen_bytes = 0;
	seen_blocks = 0;
	if (nftw(dbpath, add_file, 16, FTW_PHYS))
		die("cannot measure the files in '%s'", dbpath);
}

static void put_text(FILE *out, const char *name, const char *value)
{
	fprintf(out, "  \"%s\": \"", name);
	for (; *value; value++) {
		if ((unsigned char)*value < 0x20)
			fprintf(out, "\\u%04x", (unsigned char)*value);
		else if (*value == '"' || *value == '\\')
			fprintf(out, "\\%c", *value);
		else
			fputc(*value, out);
	}
	fputs("\",\n", out);
}

static void put_count(FILE *out, const char *name, uint64_t value)
{
	fprintf(out, "  \"%s\": %llu,\n", name, (unsigned long long)value);
}

static void put_seconds(FILE *out, const char *name, double value)
{
	fprintf(out, "  \"%s\": %.3f,\n", name, value);
}

static double ops_per_second(const struct results *results)
{
	return results->run_seconds > 0 ?
		(double)results->ops / results->run_seconds : 0;
}

static void write_json(const struct catalog *catalog,
		       const struct results *results)
{
	const struct options *opt = catalog->engine->opt;
	const struct latency *latency = &results->latency;
	FILE *out = open_output(opt->json_file);

	fputs("{\n", out);
	put_text(out, "workload", catalog->workload);
	put_text(out, "mix", opt->mix->name);
	put_text(out, "dbpath", opt->dbpath);
	put_count(out, "units", catalog->units);
	put_count(out, "threads", opt->threads);
	put_count(out, "cache_mb", opt->cache_mb);
	put_count(out, "leaf_kib", opt->leaf_kib);
	put_count(out, "index_leaf_kib", opt->index_leaf_kib);
	put_text(out, "block_compressor",
		 *opt->block_compressor ? opt->block_compressor : "none");
	put_count(out, "seed", opt->seed);
	put_seconds(out, "load_seconds", results->load_seconds);
	put_seconds(out, "load_checkpoint_seconds",
		    results->load_checkpoint_seconds);
	put_seconds(out, "run_seconds", results->run_seconds);
	put_count(out, "ops", results->ops);
	fprintf(out, "  \"ops_per_second\": %.1f,\n", ops_per_second(results));
	if (opt->rate) {
		put_count(out, "rate", opt->rate);
		fprintf(out, "  \"rate_kept\": %s,\n",
			rate_kept(opt, results) ? "true" : "false");
		put_seconds(out, "behind_seconds", results->behind_seconds);
		put_seconds(out, "longest_behind_seconds",
			    results->longest_behind_seconds);
	}
	put_count(out, "checkpoints", results->checkpoints);
	put_seconds(out, "checkpoint_seconds", results->checkpoint_seconds);
	put_seconds(out, "longest_checkpoint_seconds",
		    results->longest_checkpoint_seconds);
	put_count(out, "db_bytes", seen_bytes);
	put_count(out, "db_allocated_bytes", seen_blocks);
	fputs("  \"blocks\": ", out);
	pages_print_json(out);
	fprintf(out, ",\n  \"latency_us\": {\n    \"p50\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f,\n",
		latency_us(latency, 0.5), latency_us(latency, 0.99),
		latency_us(latency, 0.999));
	fputs("    \"histogram\": ", out);
	latency_print_json(latency, out);
	fputs("\n  }\n}\n", out);
	close_output(out, opt->json_file);
}

static void write_latencies(const char *path, const struct op_log *log)
{
	FILE *out = open_output(path);

	fwrite(log->op, sizeof(*log->op), log->count, out);
	close_output(out, path);
}

static void print_run(const struct options *opt, const struct results *results)
{
	const struct latency *latency = &results->latency;

	printf("%llu operations (%s) in %.1f s, %.0f operations/s, ",
	       (unsigned long long)results->ops, opt->mix->name,
	       results->run_seconds, ops_per_second(results));
	printf("latency p50 %.0f p99 %.0f p99.9 %.0f us, ",
	       latency_us(latency, 0.5), latency_us(latency, 0.99),
	       latency_us(latency, 0.999));
	printf("%llu checkpoints in %.1f s, ",
	       (unsigned long long)results->checkpoints,
	       results->checkpoint_seconds);
}

void report(const struct catalog *catalog, const struct results *results)
{
	const struct options *opt = catalog->engine->opt;

	measure(opt->dbpath);
	printf("%s: ", catalog->workload);
	if (results->run_seconds > 0)
		print_run(opt, results);
	else
		printf("loaded in %.1f s, ", results->load_seconds);
	printf("%.1f MB in %s\n", (double)seen_bytes / 1e6, opt->dbpath);
	if (opt->json_file)
		write_json(catalog, results);
	if (opt->latencies_file && opt->phase != PHASE_LOAD)
		write_latencies(opt->latencies_file, &results->log);
}
