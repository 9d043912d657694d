// SPDX-License-Identifier: GPL-2.0-only
/*
 * The extent map's rivals: what a lookup costs in each, in instructions where
 * the time stamp counter counts those.  Loading the module builds the structure
 * "what" with "extents" extents of 8 sectors, every other one a gap, looks up
 * random sectors and leaves the median in the parameter "insns"; unloading it
 * gives the memory back.
 */
#include <linux/maple_tree.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/sort.h>

#define SAMPLES	3000
#define LENGTH	8

static char *what = "sorted";
module_param(what, charp, 0444);
static unsigned int extents = 1000;
module_param(extents, uint, 0444);
static unsigned int insns;
module_param(insns, uint, 0444);

/* What an extent is in dm-dsm, without its start. */
struct value {
	void *region;
	u32 page;
	u32 sectors;
};

static u64 *start;
static u32 *bucket_start;	/* the last that starts before a bucket, or the first */
static u32 buckets, shift;
static struct value *value;
static struct node {
	struct rb_node rb;
	u64 start;
	struct value value;
} *node;
static struct rb_root tree = RB_ROOT;
static DEFINE_MTREE(maple);

/* An array in ascending order, halved with a conditional move. */
static noinline const struct value *find_sorted(u64 sector)
{
	const u64 *base = start;
	unsigned long n = extents;

	while (n > 1) {
		unsigned long half = n / 2;

		base += base[half] <= sector ? half : 0;
		n -= half;
	}
	return *base <= sector && sector - *base < LENGTH ? &value[base - start] : NULL;
}

/* In the order of a breadth-first walk, one level at a time. */
static noinline const struct value *find_eytzinger(u64 sector)
{
	unsigned long path = 1, nr = extents;

	while (path <= nr)
		path = 2 * path + 1 - (sector < start[path]);
	path = path >> (__ffs(path) & 63) >> 1;
	return path && sector - start[path] < LENGTH ? &value[path] : NULL;
}

/* The same, five levels at a time. */
static noinline const struct value *find_by_five(u64 sector)
{
	unsigned long path = 1, nr = extents, five = (nr + 1) / 16;

	while (path < five) {
		path = 2 * path + 1 - (sector < start[path]);
		path = 2 * path + 1 - (sector < start[path]);
		path = 2 * path + 1 - (sector < start[path]);
		path = 2 * path + 1 - (sector < start[path]);
		path = 2 * path + 1 - (sector < start[path]);
	}
	while (path <= nr)
		path = 2 * path + 1 - (sector < start[path]);
	path = path >> (__ffs(path) & 63) >> 1;
	return path && sector - start[path] < LENGTH ? &value[path] : NULL;
}

/* A sorted array and an index of it by sector: dm-dsm's. */
static noinline const struct value *find_indexed(u64 sector)
{
	u64 bucket = (sector - start[0]) >> shift % BITS_PER_LONG;
	unsigned long at = 0, more = extents - 1;

	if (bucket < buckets) {
		at = bucket_start[bucket];
		more = bucket_start[bucket + 1] - at;
	}
	for (; more; more /= 2) {
		unsigned long half = more - more / 2;

		at += start[at + half] <= sector ? half : 0;
	}
	return sector - start[at] < LENGTH ? &value[at] : NULL;
}

static noinline const struct value *find_rbtree(u64 sector)
{
	struct rb_node *rb = tree.rb_node;

	while (rb) {
		struct node *n = rb_entry(rb, struct node, rb);

		if (sector < n->start)
			rb = rb->rb_left;
		else if (sector - n->start >= LENGTH)
			rb = rb->rb_right;
		else
			return &n->value;
	}
	return NULL;
}

static bool less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct node, rb)->start < rb_entry(b, struct node, rb)->start;
}

static noinline const struct value *find_maple(u64 sector)
{
	MA_STATE(mas, &maple, sector, sector);
	const struct value *v;

	rcu_read_lock();
	v = mas_walk(&mas);
	rcu_read_unlock();
	return v;
}

static unsigned int build_eytzinger(unsigned int i, unsigned int slot)
{
	if (slot > extents)
		return i;
	i = build_eytzinger(i, 2 * slot);
	start[slot] = (u64)i++ * 2 * LENGTH;
	return build_eytzinger(i, 2 * slot + 1);
}

static int build_index(void)
{
	u64 span = start[extents - 1] - start[0];
	u32 at = 0, bucket = 0;

	bucket_start = kvcalloc(extents + 1, sizeof(*bucket_start), GFP_KERNEL);
	if (!bucket_start)
		return -ENOMEM;
	while (span >> shift >= extents)
		shift++;
	buckets = (span >> shift) + 1;
	while (bucket <= buckets) {
		if (at + 1 < extents && (start[at + 1] - start[0]) >> shift < bucket)
			at++;
		else
			bucket_start[bucket++] = at;
	}
	return 0;
}

static int build(void)
{
	int r = 0;

	if (!strcmp(what, "rbtree")) {
		node = kvcalloc(extents, sizeof(*node), GFP_KERNEL);
		if (!node)
			return -ENOMEM;
		for (unsigned int i = 0; i < extents; i++) {
			node[i].start = (u64)i * 2 * LENGTH;
			rb_add(&node[i].rb, &tree, less);
		}
		return 0;
	}
	value = kvcalloc(extents + 1, sizeof(*value), GFP_KERNEL);
	if (!value)
		return -ENOMEM;
	if (!strcmp(what, "maple")) {
		for (unsigned int i = 0; !r && i < extents; i++)
			r = mtree_store_range(&maple, (u64)i * 2 * LENGTH,
					      (u64)i * 2 * LENGTH + LENGTH - 1, &value[i], GFP_KERNEL);
		return r;
	}

	start = kvcalloc(extents + 1, sizeof(*start), GFP_KERNEL);
	if (!start)
		return -ENOMEM;
	if (!strncmp(what, "eytzinger", strlen("eytzinger"))) {
		build_eytzinger(0, 1);
		return 0;
	}
	for (unsigned int i = 0; i < extents; i++)
		start[i] = (u64)i * 2 * LENGTH;
	return strcmp(what, "indexed") ? 0 : build_index();
}

static void destroy(void)
{
	mtree_destroy(&maple);
	kvfree(node);
	kvfree(bucket_start);
	kvfree(start);
	kvfree(value);
}

static int compare(const void *a, const void *b)
{
	return *(const u32 *)a < *(const u32 *)b ? -1 : *(const u32 *)a > *(const u32 *)b;
}

static int measure(const struct value *(*find)(u64 sector))
{
	static u32 samples[SAMPLES];

	for (int i = 0; i < SAMPLES; i++) {
		u64 sector = (u64)get_random_u32_below(extents) * 2 * LENGTH + i % LENGTH;
		u64 before = rdtsc(), after;

		if (!find(sector))
			return -ENOENT;
		after = rdtsc();
		samples[i] = after - before;
		cond_resched();
	}
	sort(samples, SAMPLES, sizeof(*samples), compare, NULL);
	insns = samples[SAMPLES / 2];
	return 0;
}

static int __init structures_init(void)
{
	static const struct {
		const char *name;
		const struct value *(*find)(u64 sector);
	} known[] = {
		{ "sorted", find_sorted }, { "indexed", find_indexed }, { "eytzinger", find_eytzinger },
		{ "eytzinger5", find_by_five }, { "rbtree", find_rbtree }, { "maple", find_maple },
	};
	int r;

	for (int i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(what, known[i].name))
			continue;
		r = build();
		if (!r)
			r = measure(known[i].find);
		if (r)
			destroy();
		return r;
	}
	return -EINVAL;
}

static void __exit structures_exit(void)
{
	destroy();
}

module_init(structures_init);
module_exit(structures_exit);

MODULE_DESCRIPTION("Lookup structures compared");
MODULE_LICENSE("GPL");
