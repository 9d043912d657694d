// SPDX-License-Identifier: GPL-2.0-only
/* A histogram of nanoseconds: 16 linear buckets in each power of two; and a log. */
#include <stdlib.h>

#include "latency.h"
#include "util.h"

static unsigned int bucket_of(uint64_t ns)
{
	int shift;

	if (ns < 16)
		return (unsigned int)ns;
	shift = 63 - __builtin_clzll(ns) - 4;
	return 16 * (unsigned int)shift + (unsigned int)(ns >> shift);
}

static double upper_end_us(unsigned int bucket)
{
	unsigned int shift = bucket < 32 ? 0 : bucket / 16 - 1;
	uint64_t mantissa = bucket - 16 * shift;

	return (double)((mantissa + 1) << shift) / 1000;
}

void latency_add(struct latency *latency, uint64_t ns)
{
	latency->count[bucket_of(ns)]++;
	latency->total++;
}

void latency_merge(struct latency *into, const struct latency *from)
{
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		into->count[i] += from->count[i];
	into->total += from->total;
}

double latency_us(const struct latency *latency, double share)
{
	uint64_t wanted = (uint64_t)(share * (double)latency->total);
	uint64_t seen = 0;

	for (unsigned int i = 0; i < LATENCY_BUCKETS; i++) {
		seen += latency->count[i];
		if (seen > wanted)
			return upper_end_us(i);
	}
	return 0;
}

void latency_print_json(const struct latency *latency, FILE *out)
{
	const char *between = "[";

	for (unsigned int i = 0; i < LATENCY_BUCKETS; i++) {
		if (!latency->count[i])
			continue;
		fprintf(out, "%s[%.3f, %llu]", between, upper_end_us(i),
			(unsigned long long)latency->count[i]);
		between = ", ";
	}
	fputs(latency->total ? "]" : "[]", out);
}

void op_log_add(struct op_log *log, uint64_t start_ns, uint64_t ns)
{
	if (log->count == log->room) {
		log->room = log->room ? 2 * log->room : 1024;
		log->op = realloc(log->op, log->room * sizeof(*log->op));
		if (!log->op)
			die("no memory for the latencies of %zu operations",
			    log->room);
	}
	log->op[log->count++] = (struct op_times){ start_ns, ns };
}

void op_log_move(struct op_log *into, struct op_log *from)
{
	for (size_t i = 0; i < from->count; i++)
		op_log_add(into, from->op[i].start_ns, from->op[i].ns);
	free(from->op);
	*from = (struct op_log){ 0 };
}
