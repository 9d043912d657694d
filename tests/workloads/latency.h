/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_LATENCY_H
#define WTLOAD_LATENCY_H

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

#endif
