// SPDX-License-Identifier: GPL-2.0-only
/*
 * The extent map against a naive model: an array with an element a sector.
 */
#include <kunit/test.h>
#include <linux/err.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#include "../extent_map.h"
#include "../memory.h"

#define SECTORS	2048
#define FILES	6
#define ROUNDS	200

struct model_sector {
	struct dsm_file *file;
	u64 offset;
	u32 end;		/* of the extent, or of the gap */
	enum dsm_side side;
};

/* The files of a test, and what of them is uploaded. */
struct table {
	struct dsm_file file[FILES];
	struct dsm_upload_file staged[FILES];
	struct dsm_upload_extent extent[SECTORS];
	struct dsm_upload_extent *uploaded[SECTORS];
	size_t nr;
	struct dsm_extent_map *map;
	struct model_sector model[SECTORS];
	struct rnd_state random;
};

static u32 below(struct table *t, u32 limit)
{
	return prandom_u32_state(&t->random) % limit;
}

static void free_map(void *map)
{
	dsm_extent_map_free(map);
}

static struct table *table(struct kunit *test)
{
	struct table *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	prandom_seed_state(&t->random, 1);
	for (int i = 0; i < FILES; i++) {
		t->file[i].id = 10 * (i + 1);
		t->staged[i].id = t->file[i].id;
		t->staged[i].file = &t->file[i];
		t->staged[i].boundary = DSM_NO_BOUNDARY;
	}
	return t;
}

static void add_extent(struct table *t, int file, u64 offset, u64 start, u64 sectors)
{
	t->extent[t->nr++] = (struct dsm_upload_extent) {
		.start = start, .offset = offset, .sectors = sectors,
		.file = &t->staged[file],
	};
}

/* Builds a map of the first @nr_files files from @t->extent; it is freed later. */
static struct dsm_extent_map *build(struct kunit *test, struct table *t, u32 nr_files,
				    struct dsm_extent_conflict *conflict)
{
	struct dsm_file **files = kvmalloc_array(FILES, sizeof(*files), GFP_KERNEL);
	struct dsm_extent_map *map;

	KUNIT_ASSERT_NOT_NULL(test, files);
	for (u32 i = 0; i < nr_files; i++)
		files[i] = &t->file[i];
	for (size_t i = 0; i < t->nr; i++)
		t->uploaded[i] = &t->extent[i];
	map = dsm_extent_map_build(t->map, t->uploaded, t->nr, files, nr_files, conflict);
	t->nr = 0;
	if (IS_ERR(map)) {
		kvfree(files);
		return map;
	}
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_map, map), 0);
	return map;
}

static void expect_find(struct kunit *test, const struct dsm_extent_map *map,
			u64 sector, struct dsm_file *file, enum dsm_side side,
			u64 offset, s64 left)
{
	struct dsm_hit hit = dsm_extent_map_find(map, sector);

	KUNIT_EXPECT_PTR_EQ_MSG(test, hit.region, file ? &file->region[side] : NULL,
				"at %llu", sector);
	KUNIT_EXPECT_EQ_MSG(test, hit.left, left, "at %llu", sector);
	if (file)
		KUNIT_EXPECT_EQ_MSG(test, hit.offset, offset, "at %llu", sector);
}

/*
 * Whether a search finds each extent, its last sector, and the gaps on both sides of it.  The
 * extents are so many, of a page each, at these distances from one another in turn.
 */
static const struct spread {
	const char *what;
	u64 first;
	u64 step[3];
	u64 jump;		/* before the last one */
	u32 nr;
} spreads[] = {
	{ "one bucket for each", 0, { 16, 16, 16 }, 0, 1024 },
	{ "none starts where a bucket does", 999, { 24, 24, 24 }, 0, 1000 },
	{ "empty buckets between full ones", 1 << 20, { 8, 8, 8000 }, 0, 1000 },
	{ "all but the last in one bucket", 8, { 8, 9, 10 }, 1ULL << 40, 1000 },
	{ "two", 8, { 1024 }, 0, 2 },
	{ "at the end of 64 PiB", 1ULL << 47, { 8, 16, 8 }, 0, 500 },
};

KUNIT_ARRAY_PARAM_DESC(spread, spreads, what);

static void an_extent_is_found_wherever_the_others_are(struct kunit *test)
{
	const struct spread *s = test->param_value;
	struct table *t = table(test);
	u64 at = s->first, end = 0;

	for (u32 i = 0; i < s->nr; i++) {
		if (i == s->nr - 1)
			at += s->jump;
		add_extent(t, 0, 8 * i, at, 8);
		at += s->step[i % 3];
	}
	t->map = build(test, t, 1, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->map);
	KUNIT_EXPECT_LE(test, t->map->nr_buckets, s->nr);
	KUNIT_EXPECT_LT(test, (t->extent[s->nr - 1].start - s->first) >> t->map->shift,
			t->map->nr_buckets);

	for (u32 i = 0; i < s->nr; i++) {
		at = t->extent[i].start;
		if (at > end) {
			expect_find(test, t->map, end, NULL, 0, 0, at - end);
			expect_find(test, t->map, at - 1, NULL, 0, 0, 1);
		}
		expect_find(test, t->map, at, &t->file[0], DSM_BOTTOM, 8 * i, 8);
		expect_find(test, t->map, at + 7, &t->file[0], DSM_BOTTOM, 8 * i + 7, 1);
		end = at + 8;
	}
	expect_find(test, t->map, end, NULL, 0, 0, S64_MAX);
	at = s->first + ((u64)t->map->nr_buckets << t->map->shift);
	if (at > end)
		expect_find(test, t->map, at, NULL, 0, 0, S64_MAX);
	expect_find(test, t->map, 1ULL << 54, NULL, 0, 0, S64_MAX);
}

static void an_empty_map_is_one_gap(struct kunit *test)
{
	struct table *t = table(test);
	struct dsm_extent_map *map = build(test, t, 0, NULL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, map);
	expect_find(test, map, 0, NULL, 0, 0, S64_MAX);
	expect_find(test, map, S64_MAX, NULL, 0, 0, S64_MAX);
	KUNIT_EXPECT_NULL(test, dsm_extent_map_file(map, 10));
	KUNIT_EXPECT_NULL(test, dsm_extent_map_file(NULL, 10));
}

static void one_extent_has_a_gap_on_either_side(struct kunit *test)
{
	struct table *t = table(test);
	struct dsm_extent_map *map;

	add_extent(t, 0, 80, 100, 10);
	map = build(test, t, 1, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, map);
	expect_find(test, map, 0, NULL, 0, 0, 100);
	expect_find(test, map, 99, NULL, 0, 0, 1);
	expect_find(test, map, 100, &t->file[0], DSM_BOTTOM, 80, 10);
	expect_find(test, map, 109, &t->file[0], DSM_BOTTOM, 89, 1);
	expect_find(test, map, 110, NULL, 0, 0, S64_MAX);
}

static void an_extent_is_cut_at_the_boundary(struct kunit *test)
{
	struct table *t = table(test);
	struct dsm_extent_map *map;

	t->staged[0].boundary = 2;		/* sector 16 of the file */
	add_extent(t, 0, 8, 1000, 24);
	add_extent(t, 0, 0, 500, 8);
	add_extent(t, 0, 32, 700, 8);
	map = build(test, t, 1, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, map);
	KUNIT_EXPECT_EQ(test, map->nr_extents, 4);
	expect_find(test, map, 500, &t->file[0], DSM_BOTTOM, 0, 8);
	expect_find(test, map, 700, &t->file[0], DSM_TOP, 32, 8);
	expect_find(test, map, 1000, &t->file[0], DSM_BOTTOM, 8, 8);
	expect_find(test, map, 1007, &t->file[0], DSM_BOTTOM, 15, 1);
	expect_find(test, map, 1008, &t->file[0], DSM_TOP, 16, 16);
}

static void a_boundary_of_0_leaves_only_a_top(struct kunit *test)
{
	struct table *t = table(test);
	struct dsm_extent_map *map;

	t->staged[0].boundary = 0;
	add_extent(t, 0, 0, 0, 8);
	map = build(test, t, 1, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, map);
	KUNIT_EXPECT_EQ(test, map->nr_extents, 1);
	expect_find(test, map, 0, &t->file[0], DSM_TOP, 0, 8);
}

static void an_extent_of_a_terabyte_is_cut_into_pieces(struct kunit *test)
{
	const u64 sectors = 1ULL << 31;
	struct table *t = table(test);
	struct dsm_extent_map *map;

	add_extent(t, 0, 0, 1ULL << 40, sectors + 8);
	map = build(test, t, 1, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, map);
	KUNIT_EXPECT_EQ(test, map->nr_extents, 3);
	expect_find(test, map, 1ULL << 40, &t->file[0], DSM_BOTTOM, 0, 1ULL << 30);
	expect_find(test, map, (1ULL << 40) + (1ULL << 30), &t->file[0], DSM_BOTTOM,
		    1ULL << 30, 1ULL << 30);
	expect_find(test, map, (1ULL << 40) + sectors, &t->file[0], DSM_BOTTOM, sectors, 8);
	expect_find(test, map, (1ULL << 40) + sectors + 8, NULL, 0, 0, S64_MAX);
}

static void an_overlap_is_described(struct kunit *test)
{
	struct dsm_extent_conflict conflict = {};
	struct table *t = table(test);

	add_extent(t, 1, 0, 104, 8);
	add_extent(t, 0, 0, 96, 16);
	KUNIT_EXPECT_EQ(test, PTR_ERR(build(test, t, 2, &conflict)), -EEXIST);
	KUNIT_EXPECT_EQ(test, conflict.id, 20);
	KUNIT_EXPECT_EQ(test, conflict.other_id, 10);
	KUNIT_EXPECT_EQ(test, conflict.start, 104);
	KUNIT_EXPECT_EQ(test, conflict.sectors, 8);

	add_extent(t, 0, 0, 96, 8);
	add_extent(t, 0, 8, 96, 8);
	KUNIT_EXPECT_EQ(test, PTR_ERR(build(test, t, 1, &conflict)), -EEXIST);
	KUNIT_EXPECT_EQ(test, conflict.id, 10);
	KUNIT_EXPECT_EQ(test, conflict.other_id, 10);
}

static void an_overlap_with_what_is_kept_is_one_too(struct kunit *test)
{
	struct dsm_extent_conflict conflict = {};
	struct table *t = table(test);

	add_extent(t, 0, 0, 96, 16);
	t->map = build(test, t, 1, &conflict);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->map);

	add_extent(t, 1, 0, 88, 16);
	KUNIT_EXPECT_EQ(test, PTR_ERR(build(test, t, 2, &conflict)), -EEXIST);
	KUNIT_EXPECT_EQ(test, conflict.id, 10);
	KUNIT_EXPECT_EQ(test, conflict.other_id, 20);
	KUNIT_EXPECT_EQ(test, conflict.start, 96);

	t->file[0].replaced = true;
	add_extent(t, 1, 0, 88, 16);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, build(test, t, 2, &conflict));
}

static void files_are_found_by_id(struct kunit *test)
{
	struct table *t = table(test);
	struct dsm_extent_map *map = build(test, t, FILES, NULL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, map);
	for (u64 id = 0; id <= 10 * (FILES + 1); id++) {
		bool there = id && id % 10 == 0 && id <= 10 * FILES;

		KUNIT_EXPECT_PTR_EQ(test, dsm_extent_map_file(map, id),
				    there ? &t->file[id / 10 - 1] : NULL);
		KUNIT_EXPECT_EQ(test, dsm_extent_map_file_after(map, id),
				min(id / 10, (u64)FILES));
	}
	KUNIT_EXPECT_EQ(test, dsm_extent_map_file_after(map, U64_MAX), FILES);
}

/* Random tables */

/* An extent in the model: cut at the boundary, page-aligned in the file. */
static void model_extent(struct table *t, int file, u64 offset, u32 start, u32 sectors)
{
	u64 boundary = (u64)t->staged[file].boundary * DSM_PAGE_SECTORS;
	bool bounded = t->staged[file].boundary != DSM_NO_BOUNDARY;

	for (u32 i = 0; i < sectors; i++) {
		struct model_sector *m = &t->model[start + i];
		u32 end = start + sectors;

		m->file = &t->file[file];
		m->offset = offset + i;
		m->side = bounded && m->offset >= boundary ? DSM_TOP : DSM_BOTTOM;
		if (bounded && m->side == DSM_BOTTOM && boundary < offset + sectors)
			end = start + (boundary - offset);
		m->end = end;
	}
}

/* Drops a file's sectors, and measures the gaps again. */
static void model_drop(struct table *t, int file)
{
	for (u32 i = 0; i < SECTORS; i++)
		if (t->model[i].file == &t->file[file])
			t->model[i] = (struct model_sector) {};
}

static void model_gaps(struct table *t)
{
	u32 end = 0;		/* 0: the gap has no end */

	for (u32 i = SECTORS; i--; ) {
		if (t->model[i].file)
			end = i;
		else
			t->model[i].end = end;
	}
}

/* Fills free places of the model with extents of @file, and uploads them. */
static void random_extents(struct table *t, int file)
{
	u32 page = 0;

	t->staged[file].boundary = below(t, 3) ? below(t, 40) : DSM_NO_BOUNDARY;
	for (int i = below(t, 20); i--; ) {
		u32 start = DSM_PAGE_SECTORS * below(t, SECTORS / DSM_PAGE_SECTORS);
		u32 sectors = 0, wanted = DSM_PAGE_SECTORS * (1 + below(t, 8));

		while (sectors < wanted && start + sectors < SECTORS &&
		       !t->model[start + sectors].file)
			sectors++;
		page += below(t, 4);
		if (!sectors)
			continue;
		add_extent(t, file, page * DSM_PAGE_SECTORS, start, sectors);
		model_extent(t, file, page * DSM_PAGE_SECTORS, start, sectors);
		page += sectors / DSM_PAGE_SECTORS;
	}
}

static void expect_model(struct kunit *test, struct table *t)
{
	model_gaps(t);
	for (u32 i = 0; i < SECTORS; i++) {
		const struct model_sector *m = &t->model[i];

		expect_find(test, t->map, i, m->file, m->side, m->offset,
			    m->end ? m->end - i : S64_MAX);
	}
}

static void random_tables_are_found_as_in_the_model(struct kunit *test)
{
	struct table *t = table(test);

	for (int round = 0; round < ROUNDS; round++) {
		memset(t->model, 0, sizeof(t->model));
		t->map = NULL;
		for (int i = 0; i < FILES; i++)
			random_extents(t, i);
		t->map = build(test, t, FILES, NULL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->map);
		expect_model(test, t);
	}
}

static void random_updates_are_found_as_in_the_model(struct kunit *test)
{
	struct table *t = table(test);

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < FILES; i++) {
			t->file[i].replaced = !below(t, 3);
			if (!t->file[i].replaced)
				continue;
			model_drop(t, i);
		}
		/* one in two is dropped: it has no extents any more */
		for (int i = 0; i < FILES; i++)
			if (t->file[i].replaced && below(t, 2))
				random_extents(t, i);
		t->map = build(test, t, FILES, NULL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->map);
		for (int i = 0; i < FILES; i++)
			t->file[i].replaced = false;
		expect_model(test, t);
	}
}

static void restore_limits(void *limits)
{
	dsm_limits = *(struct dsm_limits *)limits;
}

/* What counts is what is left after division, with what is kept. */
static void a_map_has_so_many_extents_and_no_more(struct kunit *test)
{
	struct dsm_limits *limits = kunit_kzalloc(test, sizeof(*limits), GFP_KERNEL);
	struct table *t = table(test);

	KUNIT_ASSERT_NOT_NULL(test, limits);
	*limits = dsm_limits;
	KUNIT_ASSERT_EQ(test, kunit_add_action(test, restore_limits, limits), 0);
	dsm_limits.extents = 3;

	t->staged[0].boundary = 1;
	add_extent(t, 0, 0, 0, 16);
	add_extent(t, 0, 16, 16, 8);
	t->map = build(test, t, FILES, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->map);
	KUNIT_EXPECT_EQ(test, t->map->nr_extents, 3);
	add_extent(t, 1, 0, 100, 8);
	KUNIT_EXPECT_EQ(test, PTR_ERR(build(test, t, FILES, NULL)), -E2BIG);
	t->file[0].replaced = true;
	add_extent(t, 1, 0, 100, 8);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, build(test, t, FILES, NULL));

	/* however many there would be, they are not all counted */
	dsm_limits = *limits;
	add_extent(t, 1, 0, 100, U64_MAX - 100);
	KUNIT_EXPECT_EQ(test, PTR_ERR(build(test, t, FILES, NULL)), -E2BIG);
}

static void random_overlaps_are_refused(struct kunit *test)
{
	struct table *t = table(test);

	for (int round = 0; round < ROUNDS; round++) {
		struct dsm_extent_conflict conflict = {};
		struct dsm_upload_extent one;

		memset(t->model, 0, sizeof(t->model));
		for (int i = 1; i < FILES; i++)
			random_extents(t, i);
		if (!t->nr)
			continue;
		one = t->extent[below(t, t->nr)];
		add_extent(t, 0, 0, one.start + below(t, one.sectors),
			   1 + below(t, 100));
		KUNIT_ASSERT_EQ(test, PTR_ERR(build(test, t, FILES, &conflict)), -EEXIST);
		KUNIT_EXPECT_TRUE(test, conflict.id == 10 || conflict.other_id == 10);
	}
}

static struct kunit_case extent_map_cases[] = {
	KUNIT_CASE_PARAM(an_extent_is_found_wherever_the_others_are, spread_gen_params),
	KUNIT_CASE(an_empty_map_is_one_gap),
	KUNIT_CASE(one_extent_has_a_gap_on_either_side),
	KUNIT_CASE(an_extent_is_cut_at_the_boundary),
	KUNIT_CASE(a_boundary_of_0_leaves_only_a_top),
	KUNIT_CASE(an_extent_of_a_terabyte_is_cut_into_pieces),
	KUNIT_CASE(an_overlap_is_described),
	KUNIT_CASE(an_overlap_with_what_is_kept_is_one_too),
	KUNIT_CASE(files_are_found_by_id),
	KUNIT_CASE(random_tables_are_found_as_in_the_model),
	KUNIT_CASE(random_updates_are_found_as_in_the_model),
	KUNIT_CASE(random_overlaps_are_refused),
	KUNIT_CASE(a_map_has_so_many_extents_and_no_more),
	{}
};

static struct kunit_suite extent_map_suite = {
	.name = "dm-dsm-extent-map",
	.test_cases = extent_map_cases,
};

kunit_test_suite(extent_map_suite);
