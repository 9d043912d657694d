/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An upload in progress, for upload.c and commit.c; all under the target's mutex.
 */
#ifndef DSM_UPLOAD_H
#define DSM_UPLOAD_H

#include <linux/list.h>
#include <linux/types.h>

#include "dsm.h"

struct dsm_upload {
	u64 number;
	unsigned long heard;		/* in jiffies, when its last message came */
	bool full;
	u32 nr_files;
	struct list_head files;		/* struct dsm_upload_file */
	struct dsm_upload_file *last;	/* whose extents come next, or NULL */
	u32 nr;				/* extents */
	struct list_head chunks;	/* struct dsm_chunk, the last one first */
};

/* Uploads grow by these, so that nothing is copied. */
#define DSM_CHUNK 1024

struct dsm_chunk {
	struct list_head list;
	u32 nr;
	struct dsm_upload_extent extent[DSM_CHUNK];
};

/* Whether the upload in progress is that with this number: its owner's message. */
int dsm_upload_own(struct dsm *d, const char *word);

/* Frees the upload in progress, if there is one. */
void dsm_upload_end(struct dsm *d, enum dsm_upload_end how);

#endif
