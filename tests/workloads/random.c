// SPDX-License-Identifier: GPL-2.0-only
/* Random numbers, skewed choices, sizes and partly compressible bytes. */
#include <math.h>
#include <string.h>

#include "random.h"

/* splitmix64's finalizer */
uint64_t hash64(uint64_t value)
{
	value += 0x9e3779b97f4a7c15u;
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
	return value ^ (value >> 31);
}

static uint64_t rotl(uint64_t value, int by)
{
	return value << by | value >> (64 - by);
}

void rng_seed(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		rng->state[i] = seed = hash64(seed);
}

/* xoshiro256++ */
uint64_t rng_next(struct rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotl(s[0] + s[3], 23) + s[0];
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return result;
}

static uint64_t multiply_modulo(uint64_t a, uint64_t b, uint64_t n)
{
	return (uint64_t)((unsigned __int128)a * b % n);
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
	return (uint64_t)((unsigned __int128)rng_next(rng) * limit >> 64);
}

double rng_unit(struct rng *rng)
{
	return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* The sum of 1/i^shape over 1..n: exact at the head, an integral for the tail. */
static double zeta(uint64_t n, double shape)
{
	const uint64_t head = n < 100000 ? n : 100000;
	double sum = 0;

	for (uint64_t i = 1; i <= head; i++)
		sum += pow((double)i, -shape);
	if (n > head)
		sum += (pow((double)n + 0.5, 1 - shape) -
			pow((double)head + 0.5, 1 - shape)) / (1 - shape);
	return sum;
}

/*
 * Gray et al., "Quickly Generating Billion-Record Synthetic Databases", SIGMOD
 * 1994: what both YCSB and LinkBench draw with.
 */
void zipf_init(struct zipf *zipf, uint64_t n, double shape)
{
	zipf->n = n;
	zipf->shape = shape;
	zipf->zeta = zeta(n, shape);
	zipf->alpha = 1 / (1 - shape);
	zipf->eta = (1 - pow(2.0 / (double)n, 1 - shape)) /
		    (1 - zeta(2, shape) / zipf->zeta);
}

uint64_t zipf_draw(const struct zipf *zipf, struct rng *rng)
{
	double unit = rng_unit(rng);
	double scaled = unit * zipf->zeta;
	uint64_t rank;

	if (scaled < 1)
		return 0;
	if (scaled < 1 + pow(0.5, zipf->shape))
		return 1 % zipf->n;
	rank = (uint64_t)((double)zipf->n *
			  pow(zipf->eta * unit - zipf->eta + 1, zipf->alpha));
	return rank < zipf->n ? rank : zipf->n - 1;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The x with a * x = 1 modulo n, by the extended Euclidean algorithm. */
static uint64_t inverse(uint64_t a, uint64_t n)
{
	int64_t x = 1, next_x = 0;
	uint64_t m = n;

	if (n == 1)
		return 0;
	while (m) {
		int64_t quotient = (int64_t)(a / m);
		uint64_t rest = a % m;
		int64_t older = x - quotient * next_x;

		a = m;
		m = rest;
		x = next_x;
		next_x = older;
	}
	return x < 0 ? (uint64_t)(x + (int64_t)n) : (uint64_t)x;
}

void shuffle_init(struct shuffle *shuffle, uint64_t n, uint64_t seed)
{
	/* Near the golden ratio, neighbouring ranks land far from each other. */
	uint64_t step = (uint64_t)((double)n * 0.6180339887) + hash64(seed) % 97;

	step = step % n ? step % n : 1;
	while (gcd(step, n) != 1)
		step = step % n + 1;
	*shuffle = (struct shuffle){
		.n = n,
		.step = step,
		.back = inverse(step, n),
		.shift = hash64(seed + 1) % n,
	};
}

uint64_t shuffle_of(const struct shuffle *shuffle, uint64_t rank)
{
	return (multiply_modulo(rank, shuffle->step, shuffle->n) +
		shuffle->shift) % shuffle->n;
}

uint64_t shuffle_rank(const struct shuffle *shuffle, uint64_t value)
{
	return multiply_modulo(value + shuffle->n - shuffle->shift,
			       shuffle->back, shuffle->n);
}

/* The normal distribution's quantile, by bisection of erfc: run once a step. */
static double normal_quantile(double probability)
{
	double low = -8, high = 8;

	for (int i = 0; i < 50; i++) {
		double middle = (low + high) / 2;

		if (0.5 * erfc(-middle / sqrt(2)) < probability)
			low = middle;
		else
			high = middle;
	}
	return low;
}

void sizes_init(struct sizes *sizes, double median, uint32_t max)
{
	for (int i = 0; i < SIZE_STEPS; i++) {
		double size = median * exp(normal_quantile((i + 0.5) /
							   SIZE_STEPS));

		sizes->quantile[i] = size < max ? (uint32_t)size : max;
	}
}

size_t sizes_draw(const struct sizes *sizes, struct rng *rng)
{
	return sizes->quantile[rng_next(rng) % SIZE_STEPS];
}

void payload_init(struct payload *payload, uint8_t first, uint8_t last,
		  double random_share, uint64_t seed)
{
	struct rng rng;

	payload->first = first;
	payload->span = (uint8_t)(last - first + 1);
	payload->random_256ths = (uint8_t)(random_share * 255);
	rng_seed(&rng, seed);
	for (int i = 0; i < MOTIF_SIZE; i++)
		payload->motif[i] = (uint8_t)(first +
					      rng_below(&rng, payload->span));
}

/* Eight bytes for each random number: this runs for every document written. */
void payload_fill(const struct payload *payload, struct rng *rng, uint8_t *out,
		  size_t size)
{
	for (size_t at = 0; at < size; at += 8) {
		size_t part = size - at < 8 ? size - at : 8;
		uint64_t bits = rng_next(rng);

		if ((bits & 0xff) > payload->random_256ths) {
			memcpy(out + at, payload->motif + at % MOTIF_SIZE, part);
			continue;
		}
		bits = hash64(bits);
		for (size_t i = 0; i < part; i++, bits >>= 8)
			out[at + i] = (uint8_t)(payload->first +
				((bits & 0xff) * payload->span >> 8));
	}
}
