/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_LATENCY_H
#define WTLOAD_LATENCY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Buckets of at most 1/16 of their value's size, over the whole range. */
#define LATENCY_BUCKETS (16 * 61)

struct latency {
	uint64_t count[LATENCY_BUCKETS];
	uint64_t total;
};

void latency_add(struct latency *latency, uint64_t ns);
void latency_merge(struct latency *into, const struct latency *from);
/* The upper end of the bucket that holds this share (0..1) of the values. */
double latency_us(const struct latency *latency, double share);
/* Prints [[upper end in microseconds, count], ...], without empty buckets. */
void latency_print_json(const struct latency *latency, FILE *out);

/* When each operation began (CLOCK_MONOTONIC), and how long it took. */
struct op_log {
	struct op_times {
		uint64_t start_ns, ns;
	} *op;
	size_t count, room;
};

void op_log_add(struct op_log *log, uint64_t start_ns, uint64_t ns);
/* Appends what is in from, and empties it. */
void op_log_move(struct op_log *into, struct op_log *from);

#endif
