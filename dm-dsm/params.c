// SPDX-License-Identifier: GPL-2.0-only
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/string.h>

#include "params.h"
#include "streams.h"

static const char * const dsm_predictions[] = { "off", "predicted", "computed", "literal", NULL };
static const char * const dsm_ranges[] = { "written", "region", NULL };
static const char * const dsm_foreigns[] = { "keep", "override", "class", NULL };
const char * const dsm_discard_names[] = { "off", "watch", "on", NULL };
static const char * const dsm_switch[] = { "off", "on", NULL };

/*
 * A feature is one of some words, or a number that may also be "auto".  What is given in
 * bytes is a power of two, and kept in pages.
 */
struct dsm_feature {
	const char *name;
	char *allowed;
	size_t offset;			/* in struct dsm_params; a u16 */
	const char * const *words;
	u16 min, max;
	bool has_auto;
	bool in_bytes;
	u16 initial;
};

#define DSM_WORDS(_name, _words, _initial, _allowed)			\
	{								\
		.name = #_name, .offset = offsetof(struct dsm_params, _name), \
		.words = (_words), .initial = (_initial),		\
		.allowed = #_name " must be " _allowed,			\
	}

#define DSM_NUMBER(_name, _min, _max, _has_auto, _initial, _allowed)	\
	{								\
		.name = #_name, .offset = offsetof(struct dsm_params, _name), \
		.min = (_min), .max = (_max), .has_auto = (_has_auto),	\
		.initial = (_initial), .allowed = #_name " must be " _allowed, \
	}

#define DSM_BYTES(_name, _max)						\
	{								\
		.name = #_name, .offset = offsetof(struct dsm_params, _name), \
		.min = 1, .max = (_max) / DSM_PAGE_SIZE,		\
		.has_auto = true, .in_bytes = true, .initial = DSM_AUTO, \
		.allowed = #_name " must be auto or a power of two from 4096 to " #_max, \
	}

static const struct dsm_feature dsm_features[] = {
	DSM_WORDS(policy, dsm_policy_names, DSM_POLICY_DSM, DSM_POLICY_NAMES),
	DSM_NUMBER(groups, DSM_MIN_GROUPS, DSM_MAX_GROUPS, false, 3,
		   "a number from 2 to 16"),
	DSM_NUMBER(alpha, DSM_MIN_ALPHA, DSM_MAX_ALPHA, true, DSM_AUTO,
		   "auto or a number from 2 to 64"),
	DSM_WORDS(prediction, dsm_predictions, DSM_PREDICT_PREDICTED,
		  "off, predicted, computed or literal"),
	DSM_WORDS(range, dsm_ranges, DSM_RANGE_WRITTEN, "written or region"),
	DSM_WORDS(primary_filter, dsm_switch, true, "on or off"),
	DSM_NUMBER(threshold1, 0, 20000, false, 1000,
		   "a number from 0 to 20000 (in 0.01 %)"),
	DSM_NUMBER(threshold2, 0, 10000, false, 5,
		   "a number from 0 to 10000 (in 0.01 %)"),
	DSM_NUMBER(streams, 0, DSM_NR_STREAMS - 1, true, DSM_AUTO,
		   "auto or a number from 0 to 255"),
	DSM_NUMBER(stream_base, 1, DSM_NR_STREAMS - 1, false, 1,
		   "a number from 1 to 255"),
	DSM_WORDS(hints, dsm_switch, true, "on or off"),
	DSM_WORDS(foreign, dsm_foreigns, DSM_FOREIGN_KEEP, "keep, override or class"),
	DSM_WORDS(discard, dsm_discard_names, DSM_DISCARD_OFF, "off, watch or on"),
	DSM_BYTES(discard_granularity, 67108864),
	DSM_BYTES(discard_alignment, 67108864),
};

static_assert(ARRAY_SIZE(dsm_features) == DSM_NR_FEATURES);

static u16 *dsm_feature_value(const struct dsm_feature *feature,
			      const struct dsm_params *params)
{
	return (void *)params + feature->offset;
}

void dsm_params_default(struct dsm_params *params)
{
	for (int i = 0; i < DSM_NR_FEATURES; i++)
		*dsm_feature_value(&dsm_features[i], params) = dsm_features[i].initial;
}

static int dsm_feature_parse_bytes(const char *value, u16 *parsed)
{
	u32 bytes;

	if (kstrtou32(value, 10, &bytes) || !is_power_of_2(bytes) ||
	    bytes / DSM_PAGE_SIZE >= DSM_AUTO)
		return -EINVAL;
	*parsed = bytes / DSM_PAGE_SIZE;
	return 0;
}

static int dsm_feature_parse_number(const struct dsm_feature *feature,
				    const char *value, u16 *parsed)
{
	if (feature->in_bytes)
		return dsm_feature_parse_bytes(value, parsed);
	return kstrtou16(value, 10, parsed);
}

static int dsm_feature_parse(const struct dsm_feature *feature,
			     const char *value, u16 *parsed)
{
	if (feature->words) {
		for (int i = 0; feature->words[i]; i++) {
			if (!strcasecmp(value, feature->words[i])) {
				*parsed = i;
				return 0;
			}
		}
		return -EINVAL;
	}

	if (feature->has_auto && !strcasecmp(value, "auto")) {
		*parsed = DSM_AUTO;
		return 0;
	}
	if (dsm_feature_parse_number(feature, value, parsed) ||
	    *parsed < feature->min || *parsed > feature->max)
		return -EINVAL;
	return 0;
}

int dsm_params_set(struct dsm_params *params, const char *name,
		   const char *value, char **error)
{
	for (int i = 0; i < DSM_NR_FEATURES; i++) {
		const struct dsm_feature *feature = &dsm_features[i];
		u16 parsed;

		if (strcasecmp(name, feature->name))
			continue;
		if (dsm_feature_parse(feature, value, &parsed)) {
			*error = feature->allowed;
			return -EINVAL;
		}
		*dsm_feature_value(feature, params) = parsed;
		return i;
	}

	*error = "Unknown feature";
	return -EINVAL;
}

size_t dsm_params_emit(const struct dsm_params *params, char before, char between,
		       char *result, size_t sz, unsigned int maxlen)
{
	for (int i = 0; i < DSM_NR_FEATURES; i++) {
		const struct dsm_feature *feature = &dsm_features[i];
		u16 value = *dsm_feature_value(feature, params);

		DMEMIT("%c%s%c", before, feature->name, between);
		if (feature->words)
			DMEMIT("%s", feature->words[value]);
		else if (value == DSM_AUTO)
			DMEMIT("auto");
		else if (feature->in_bytes)
			DMEMIT("%u", dsm_pages_bytes(value));
		else
			DMEMIT("%u", value);
	}
	return sz;
}
