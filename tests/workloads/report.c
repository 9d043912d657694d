// SPDX-License-Identifier: GPL-2.0-only
/* The last line, and the results as JSON. */
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

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

static void put_json_string(FILE *out, const char *name, const char *value)
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

static double ops_per_second(const struct results *results)
{
	return results->run_seconds > 0 ?
		(double)results->ops / results->run_seconds : 0;
}

static void write_json(const struct catalog *catalog,
		       const struct results *results)
{
	const struct options *opt = catalog->engine->opt;
	FILE *out = open_output(opt->json_file);
	const struct latency *latency = &results->latency;

	fputs("{\n", out);
	put_json_string(out, "workload", catalog->workload);
	put_json_string(out, "mix", opt->mix->name);
	put_json_string(out, "dbpath", opt->dbpath);
	fprintf(out, "  \"units\": %llu,\n  \"threads\": %llu,\n  \"cache_mb\": %llu,\n  \"seed\": %llu,\n",
		(unsigned long long)catalog->units,
		(unsigned long long)opt->threads,
		(unsigned long long)opt->cache_mb,
		(unsigned long long)opt->seed);
	fprintf(out, "  \"load_seconds\": %.3f,\n  \"load_checkpoint_seconds\": %.3f,\n  \"run_seconds\": %.3f,\n",
		results->load_seconds, results->load_checkpoint_seconds,
		results->run_seconds);
	fprintf(out, "  \"ops\": %llu,\n  \"ops_per_second\": %.1f,\n",
		(unsigned long long)results->ops, ops_per_second(results));
	fprintf(out, "  \"checkpoints\": %llu,\n  \"checkpoint_seconds\": %.3f,\n  \"longest_checkpoint_seconds\": %.3f,\n",
		(unsigned long long)results->checkpoints,
		results->checkpoint_seconds,
		results->longest_checkpoint_seconds);
	fprintf(out, "  \"db_bytes\": %llu,\n  \"db_allocated_bytes\": %llu,\n",
		(unsigned long long)seen_bytes,
		(unsigned long long)seen_blocks);
	fprintf(out, "  \"latency_us\": {\"p50\": %.3f, \"p99\": %.3f, \"p99.9\": %.3f,\n    \"histogram\": ",
		latency_us(latency, 0.5), latency_us(latency, 0.99),
		latency_us(latency, 0.999));
	latency_print_json(latency, out);
	fputs("}\n}\n", out);
	close_output(out, opt->json_file);
}

void report(const struct catalog *catalog, const struct results *results)
{
	const struct options *opt = catalog->engine->opt;
	const struct latency *latency = &results->latency;

	measure(opt->dbpath);
	printf("%s: ", catalog->workload);
	if (results->run_seconds > 0)
		printf("%llu operations (%s) in %.1f s, %.0f operations/s, latency p50 %.0f p99 %.0f p99.9 %.0f us, %llu checkpoints in %.1f s, ",
		       (unsigned long long)results->ops, opt->mix->name,
		       results->run_seconds, ops_per_second(results),
		       latency_us(latency, 0.5), latency_us(latency, 0.99),
		       latency_us(latency, 0.999),
		       (unsigned long long)results->checkpoints,
		       results->checkpoint_seconds);
	else
		printf("loaded in %.1f s, ", results->load_seconds);
	printf("%.1f MB in %s\n", (double)seen_bytes / 1e6, opt->dbpath);
	if (opt->json_file)
		write_json(catalog, results);
}
