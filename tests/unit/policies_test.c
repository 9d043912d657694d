// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policies, on the host: KUnit's suite, and a comparison with a floating-point
 * reference over random windows.
 */
#include <math.h>
#include <string.h>

#include "../../dm-dsm/tests/policies_kunit.c"

/* The one of kernels that have none, beside the simulator's */
#define fls(value) fls64(value)
#define intlog2 compat_intlog2
#include "../../dm-dsm/compat/include/linux/int_log.h"
#undef intlog2

#define WINDOWS		100000
#define MAX_FILES	12
#define ERROR		1e-4	/* that Documentation/dsm.rst states for a hotness */

static int passed, failed;

static void check(bool good, const char *what)
{
	printf("%sok - policies: %s\n", good ? "" : "not ", what);
	good ? passed++ : failed++;
}

static double real(s32 hotness)
{
	return hotness / (double)(1 << DSM_HOTNESS_SHIFT);
}

static void run_suite(void)
{
	for (const struct kunit_case *c = the_suite->test_cases; c->run; c++) {
		struct kunit test = { .param_value = c->next ? c->next(NULL) : NULL };

		do {
			c->run(&test);
		} while (c->next && (test.param_value = c->next(test.param_value)));
		check(!test.failed, c->name);
	}
}

/* The reference: the paper in double precision, written apart from policies.c. */

struct reference {
	double hotness[MAX_FILES][2];
	int group[MAX_FILES][2];
	bool sure[MAX_FILES][2];	/* no pivot is nearer than the stated error */
};

static bool reference_is_index(const struct dsm_file_window *f)
{
	return f->class == DSM_INDEX || f->class == DSM_PRIMARY;
}

static void reference_group(const struct dsm_policy_params *p, double lo, double hi,
			    double h, int *group, bool *sure)
{
	int K = p->groups;
	double pivot[DSM_MAX_GROUPS];

	pivot[1] = lo + (hi - lo) / p->alpha;
	pivot[K - 1] = lo + (hi - lo) * (p->alpha - 1.0) / p->alpha;
	for (int j = 2; j < K - 1; j++)
		pivot[j] = pivot[1] + (pivot[K - 1] - pivot[1]) / (K - 2) * (j - 1);
	if (K == 2)
		pivot[1] = (lo + hi) / 2;

	*group = 0;
	if (h <= pivot[1])
		*group = 1;
	else if (h >= pivot[K - 1])
		*group = K;
	for (int g = 1; !*group && g <= K - 2; g++)
		if (pivot[g] <= h && h <= pivot[g + 1])
			*group = g + 1;

	*sure = lo != hi;
	for (int j = 1; j < K; j++)
		*sure &= fabs(h - pivot[j]) > 2 * ERROR;
	if (lo == hi) {
		*group = 1;
		*sure = true;
	}
}

static void reference_run(const struct dsm_policy_params *p,
			  const struct dsm_file_window *f, int n, double seconds,
			  struct reference *r)
{
	for (int type = 0; type < 2; type++) {
		double lo = INFINITY, hi = -INFINITY, total[2] = { 0, 0 };

		for (int i = 0; i < n; i++)
			for (int s = 0; s < 2 && reference_is_index(&f[i]) == type; s++) {
				double pages = f[i].region[s].pages;

				if (!pages)
					continue;
				r->hotness[i][s] = log2(pages * 4096 / f[i].region[s].range / seconds);
				lo = fmin(lo, r->hotness[i][s]);
				hi = fmax(hi, r->hotness[i][s]);
				total[s] += pages;
			}

		for (int i = 0; i < n; i++) {
			double pct[2] = { 0, 0 };
			bool primary, near = false;

			if (reference_is_index(&f[i]) != type)
				continue;
			for (int s = 0; s < 2; s++) {
				if (total[s])
					pct[s] = 100 * f[i].region[s].pages / total[s];
				r->group[i][s] = 1;
				r->sure[i][s] = true;
				if (f[i].region[s].pages)
					reference_group(p, lo, hi, r->hotness[i][s],
							&r->group[i][s], &r->sure[i][s]);
				near |= fabs(pct[s] - p->threshold2 / 100.0) < 2e-6;
			}
			near |= fabs(pct[0] + pct[1] - p->threshold1 / 100.0) < 2e-6;
			primary = f[i].class == DSM_PRIMARY ||
				  (type == 1 && p->primary_filter &&
				   (pct[0] + pct[1] <= p->threshold1 / 100.0 ||
				    pct[0] <= p->threshold2 / 100.0 ||
				    pct[1] <= p->threshold2 / 100.0));
			for (int s = 0; s < 2; s++) {
				if (primary)
					r->group[i][s] = DSM_GROUP_PRIMARY;
				if (f[i].class == DSM_INDEX && p->primary_filter && near)
					r->sure[i][s] = false;
			}
		}
	}
}

static int reference_next(const struct dsm_policy_params *p,
			  const struct dsm_file_window *before,
			  const struct reference *r, int i, int s)
{
	int cur[2] = { r->group[i][0], r->group[i][1] };
	int held = before->region[s].next;

	if (p->prediction == DSM_PREDICT_OFF)
		return cur[s];
	if (p->prediction == DSM_PREDICT_COMPUTED && before->region[s].group)
		held = before->region[s].group;
	if (p->prediction != DSM_PREDICT_LITERAL && !before->region[!s].pages)
		return cur[s];
	return held == cur[s] ? cur[s] : cur[!s];
}

static u64 random_pages(void)
{
	switch (random() % 4) {
	case 0:
		return 0;
	case 1:
		return 1 + random() % 10;
	default:
		return 1 + (u64)pow(2, random() % 2000 / 100.0);
	}
}

static void random_windows(void)
{
	static const enum dsm_class classes[] = { DSM_COLLECTION, DSM_INDEX, DSM_INDEX, DSM_PRIMARY };
	long compared = 0, unsure = 0, wrong_group = 0, wrong_next = 0;
	double worst = 0;
	char line[160];

	srandom(1);
	for (int w = 0; w < WINDOWS; w++) {
		struct dsm_policy_params p = {
			.policy = DSM_POLICY_DSM,
			.groups = 2 + random() % 15,
			.alpha = 2 + random() % 63,
			.threshold1 = random() % 2 ? 1000 : random() % 20001,
			.threshold2 = random() % 2 ? 5 : random() % 10001,
			.prediction = random() % 4,
			.primary_filter = random() % 4,
		};
		struct dsm_file_window f[MAX_FILES], before[MAX_FILES];
		struct reference r;
		int n = random() % (MAX_FILES + 1);
		u64 ms = 1 + random() % 100000;

		for (int i = 0; i < n; i++) {
			f[i] = (struct dsm_file_window) { .class = classes[random() % 4] };
			for (int s = 0; s < 2; s++)
				f[i].region[s] = (struct dsm_region_window) {
					.pages = random_pages(),
					.range = 4096 * (1 + random_pages()),
					.group = random() % 5 ? 1 + random() % p.groups : 0,
					.next = 1 + random() % p.groups,
				};
		}
		memcpy(before, f, sizeof(f));
		reference_run(&p, f, n, ms / 1000.0, &r);
		dsm_policy_checkpoint(&p, f, n, ms, &life);

		for (int i = 0; i < n; i++) {
			bool sure = r.sure[i][0] && r.sure[i][1];

			for (int s = 0; s < 2; s++) {
				struct dsm_region_window *region = &f[i].region[s];

				if (region->pages)
					worst = fmax(worst, fabs(real(region->hotness) -
								 r.hotness[i][s]));
				compared++;
				unsure += !r.sure[i][s];
				wrong_group += r.sure[i][s] && region->group != r.group[i][s];
				wrong_next += sure && region->next !=
					      reference_next(&p, &before[i], &r, i, s);
			}
		}
	}

	snprintf(line, sizeof(line), "%d random windows: hotness is off by %.1e at most, stated is %.0e",
		 WINDOWS, worst, ERROR);
	check(worst < ERROR, line);
	snprintf(line, sizeof(line), "groups agree in %ld regions; %ld (%.2f %%) lie within the error of a pivot or threshold",
		 compared - unsure, unsure, 100.0 * unsure / compared);
	check(!wrong_group && unsure < compared / 50, line);
	check(!wrong_next, "predictions agree in all of them");
}

/*
 * life: the reference takes the files' hotnesses, which it has checked, to the same
 * steps, and tries every way to cut them.
 */
static int step_of(s32 hotness, s32 low, s32 high)
{
	hotness = hotness < low ? low : hotness > high ? high : hotness;
	return high > low ? ((s64)hotness - low) * (DSM_LIFE_BINS - 1) / ((s64)high - low) : 0;
}

static double squares(const double *weight, int from, int to)
{
	double w = 0, mean = 0, sum = 0;

	for (int i = from; i < to; i++) {
		w += weight[i];
		mean += weight[i] * i;
	}
	for (int i = from; w && i < to; i++)
		sum += weight[i] * (i - mean / w) * (i - mean / w);
	return sum;
}

static double best_cut(const double *weight, const int *steps, int n, int from, int groups)
{
	double best = squares(weight, from, DSM_LIFE_BINS);

	for (int i = 0; groups > 1 && i < n; i++)
		if (steps[i] > from)
			best = fmin(best, squares(weight, from, steps[i]) +
					  best_cut(weight, steps, n, steps[i], groups - 1));
	return best;
}

static bool life_known(const struct dsm_file_window *f)
{
	return f->class != DSM_JOURNAL && f->written >= 64 << DSM_WRITTEN_SHIFT;
}

static bool life_is_right(const struct dsm_policy_params *p, const struct dsm_file_window *before,
			  const struct dsm_file_window *f, int n, double *worst)
{
	double weight[DSM_LIFE_BINS] = {}, of_group[DSM_MAX_GROUPS + 1][DSM_LIFE_BINS] = {};
	double all = 0, mean = 0, cost = 0, best;
	int steps[MAX_FILES], known = 0, unknown = 0;
	s32 low = S32_MAX, high = S32_MIN;
	bool right = true;

	for (int i = 0; i < n; i++) {
		const u64 pages = before[i].region[0].pages + before[i].region[1].pages;
		const double written = before[i].written * 7.0 / 8 + pages * 256.0;
		const s32 hotness = f[i].region[0].hotness;

		if (f[i].class == DSM_JOURNAL) {
			right &= !memcmp(&f[i], &before[i], sizeof(f[i]));
			continue;
		}
		right &= fabs(f[i].written - written) <= 1;
		right &= f[i].region[1].next == f[i].region[0].next;
		right &= f[i].region[0].group == f[i].region[0].next;
		if (!life_known(&f[i]))
			continue;
		*worst = fmax(*worst, fabs(real(hotness) -
					   log2(f[i].written / 256.0 / fmax(f[i].mapped, 1))));
		if (f[i].class == DSM_OTHER)
			continue;
		low = hotness < low ? hotness : low;
		high = hotness > high ? hotness : high;
	}
	for (int i = 0; i < n; i++) {
		if (!life_known(&f[i]) || f[i].class == DSM_OTHER)
			continue;
		steps[known] = step_of(f[i].region[0].hotness, low, high);
		weight[steps[known]] += f[i].written;
		of_group[f[i].region[0].next][steps[known]] += f[i].written;
		all += f[i].written;
		mean += (double)f[i].written * steps[known++];
	}
	for (int g = 1; g <= (int)p->groups; g++)
		cost += squares(of_group[g], 0, DSM_LIFE_BINS);
	best = best_cut(weight, steps, known, 0, p->groups);
	right &= cost <= best * (1 + 1e-9) + 2 * p->groups;

	/* Hotter files have no colder group, and the unknown have the mean's. */
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			if (life_known(&f[i]) && life_known(&f[j]) &&
			    f[i].region[0].hotness < f[j].region[0].hotness)
				right &= f[i].region[0].next <= f[j].region[0].next;
	for (int i = 0; i < n; i++) {
		if (f[i].class == DSM_JOURNAL || life_known(&f[i]))
			continue;
		if (!unknown)
			unknown = f[i].region[0].next;
		right &= f[i].region[0].next == unknown;
		if (high <= low)
			right &= unknown == (int)(p->groups + 1) / 2;
		for (int j = 0; high > low && j < n; j++)
			if (life_known(&f[j]) && step_of(f[j].region[0].hotness, low, high) == (int)(mean / all))
				right &= f[j].region[0].next == unknown;
	}
	return right;
}

static void random_lives(void)
{
	static const enum dsm_class classes[] = { DSM_COLLECTION, DSM_INDEX, DSM_PRIMARY, DSM_OPLOG,
						  DSM_COLLECTION, DSM_JOURNAL, DSM_OTHER };
	const int windows = WINDOWS / 10;
	double worst = 0;
	int wrong = 0;
	char line[160];

	srandom(2);
	for (int w = 0; w < windows; w++) {
		struct dsm_policy_params p = { .policy = DSM_POLICY_LIFE, .groups = 1 + random() % 6 };
		struct dsm_file_window f[MAX_FILES], before[MAX_FILES];
		int n = random() % (MAX_FILES + 1);

		for (int i = 0; i < n; i++)
			f[i] = (struct dsm_file_window) {
				.class = classes[random() % 7],
				.mapped = random_pages(),
				.written = random() % 2 ? random_pages() << DSM_WRITTEN_SHIFT : 0,
				.region = { { .pages = random_pages() }, { .pages = random_pages() } },
			};
		memcpy(before, f, sizeof(f));
		dsm_policy_checkpoint(&p, f, n, 1000, &life);
		wrong += !life_is_right(&p, before, f, n, &worst);
	}
	snprintf(line, sizeof(line), "life: no cut of %d random windows costs less (%d wrong)", windows, wrong);
	check(!wrong, line);
	snprintf(line, sizeof(line), "life: hotness is off by %.1e at most", worst);
	check(worst < ERROR, line);
}

/* The suite has the same sum of the kernel's, and here of the simulator's. */
static void logarithms(void)
{
	u64 sum = 0;
	u32 value = 1;

	for (int i = 0; i < 1000000; i++) {
		sum = sum * 31 + compat_intlog2(value >> (i % 32) ?: 1);
		value = value * 1664525 + 1013904223;
	}
	check(sum == 0xcaa63af2816c7b4d, "the logarithm for kernels without one is the kernel's");
}

/* What an error message lists is what there is. */
static void names(void)
{
	char list[sizeof(DSM_POLICY_NAMES)] = "";

	for (int i = 0; i < DSM_NR_POLICIES; i++) {
		const char *before = !i ? "" : i < DSM_NR_POLICIES - 1 ? ", " : " or ";
		size_t length = strlen(list);

		snprintf(list + length, sizeof(list) - length, "%s%s", before, dsm_policy_names[i]);
	}
	check(!strcmp(list, DSM_POLICY_NAMES), "the names of all policies are listed");
	check(!dsm_policy_names[DSM_NR_POLICIES], "a null pointer ends them");
}

int main(void)
{
	names();
	logarithms();
	run_suite();
	random_windows();
	random_lives();
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
