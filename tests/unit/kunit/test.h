/* SPDX-License-Identifier: GPL-2.0-only */
/* What the suite of the policies needs of KUnit, to run on the host. */
#ifndef UNIT_KUNIT_TEST_H
#define UNIT_KUNIT_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

struct kunit {
	const void *param_value;
	bool failed;
};

struct kunit_case {
	void (*run)(struct kunit *test);
	const char *name;
	const void *(*next)(const void *param);
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};

#define ARRAY_SIZE(array)		((int)(sizeof(array) / sizeof(*(array))))

#define KUNIT_CASE(function)		{ function, #function, NULL }
#define KUNIT_CASE_SLOW(function)	KUNIT_CASE(function)
#define KUNIT_CASE_PARAM(function, gen)	{ function, #function, gen }
#define KUNIT_ARRAY_PARAM_DESC(name, array, desc)				\
	static const void *name##_gen_params(const void *param)			\
	{									\
		const __typeof__(*(array)) *next = param;			\
										\
		next = next ? next + 1 : (array);				\
		return next < (array) + ARRAY_SIZE(array) ? next : NULL;	\
	}
#define kunit_test_suite(suite)		static struct kunit_suite *the_suite = &(suite)

#define UNIT_EXPECT(test, holds)						\
	do {									\
		if (!(holds)) {							\
			printf("# line %d: %s\n", __LINE__, #holds);		\
			(test)->failed = true;					\
		}								\
	} while (0)
#define KUNIT_EXPECT_EQ(test, a, b)	UNIT_EXPECT(test, (a) == (b))
#define KUNIT_EXPECT_LT(test, a, b)	UNIT_EXPECT(test, (a) < (b))
#define KUNIT_EXPECT_GT(test, a, b)	UNIT_EXPECT(test, (a) > (b))

#endif
