/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The features of the constructor line, which the message "set" changes as well.
 */
#ifndef DSM_PARAMS_H
#define DSM_PARAMS_H

#include <linux/device-mapper.h>
#include <linux/types.h>

#include "policies/policies.h"

#define DSM_AUTO U16_MAX

struct dsm_params {
	u16 policy;		/* enum dsm_policy_id */
	u16 groups;
	u16 alpha;		/* or DSM_AUTO: K */
	u16 prediction;		/* enum dsm_prediction */
	u16 range;		/* enum dsm_range */
	u16 primary_filter;
	u16 threshold1;		/* in 0.01 % */
	u16 threshold2;
	u16 streams;		/* or DSM_AUTO */
	u16 stream_base;
	u16 hints;
	u16 foreign;		/* enum dsm_foreign */
	u16 discard;		/* enum dsm_discard_mode */
	u16 discard_granularity;	/* in pages, or DSM_AUTO: the queue's */
	u16 discard_alignment;	/* in pages, or DSM_AUTO: the granularity */
};

enum dsm_range {
	DSM_RANGE_WRITTEN,	/* from the lowest to the highest offset written */
	DSM_RANGE_REGION,	/* the size of the region */
};

enum dsm_foreign {
	DSM_FOREIGN_KEEP,
	DSM_FOREIGN_OVERRIDE,
	DSM_FOREIGN_CLASS,	/* a hint names the class of an unmapped write */
};

enum dsm_discard_mode {
	DSM_DISCARD_OFF,
	DSM_DISCARD_WATCH,	/* writes are tracked, and nothing is sent */
	DSM_DISCARD_ON,
};

extern const char * const dsm_discard_names[];

#define DSM_NR_FEATURES 15

/* What a feature in pages says in bytes; 0: DSM_AUTO. */
static inline u32 dsm_pages_bytes(u16 pages)
{
	return pages == DSM_AUTO ? 0 : pages * DSM_PAGE_SIZE;
}

void dsm_params_default(struct dsm_params *params);

/*
 * Sets a feature by name.  Returns its index, or -EINVAL with what is
 * allowed in *@error; then @params is as it was.
 */
int dsm_params_set(struct dsm_params *params, const char *name,
		   const char *value, char **error);

/*
 * Writes a name and a value for every feature, with @before the name and @between the
 * two; returns the length so far.
 */
size_t dsm_params_emit(const struct dsm_params *params, char before, char between,
		       char *result, size_t sz, unsigned int maxlen);

#endif
