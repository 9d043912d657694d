/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef WTLOAD_RANDOM_H
#define WTLOAD_RANDOM_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(uint64_t value);

struct rng {
	uint64_t state[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit);
double rng_unit(struct rng *rng);	/* [0, 1) */

/* Ranks 0..n-1; rank 0 is drawn most often, rank r with weight 1/(r+1)^shape. */
struct zipf {
	uint64_t n;
	double shape, zeta, alpha, eta;
};

void zipf_init(struct zipf *zipf, uint64_t n, double shape);
uint64_t zipf_draw(const struct zipf *zipf, struct rng *rng);

/* A permutation of 0..n-1 that can be walked both ways and needs no memory. */
struct shuffle {
	uint64_t n, step, back, shift;
};

void shuffle_init(struct shuffle *shuffle, uint64_t n, uint64_t seed);
uint64_t shuffle_of(const struct shuffle *shuffle, uint64_t rank);
uint64_t shuffle_rank(const struct shuffle *shuffle, uint64_t value);

/* Log-normal sizes with the given median and sigma 1, cut at max. */
#define SIZE_STEPS 1024
struct sizes {
	uint32_t quantile[SIZE_STEPS];
};

void sizes_init(struct sizes *sizes, double median, uint32_t max);
size_t sizes_draw(const struct sizes *sizes, struct rng *rng);

/* Bytes first..last; a share of them random, the rest from a repeated motif. */
#define MOTIF_SIZE 128
struct payload {
	uint8_t first, span;
	uint8_t random_256ths;
	uint8_t motif[MOTIF_SIZE];
};

void payload_init(struct payload *payload, uint8_t first, uint8_t last,
		  double random_share, uint64_t seed);
void payload_fill(const struct payload *payload, struct rng *rng, uint8_t *out,
		  size_t size);

#endif
