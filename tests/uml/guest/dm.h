/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Device-mapper's ioctls for devices of one dsm target.  Each call returns 0 or a
 * negative errno, and may be made by several threads at once.
 */
#ifndef DM_H
#define DM_H

#include <stddef.h>
#include <stdint.h>

#define DM_REPLY (64 * 1024)	/* room for a reply or a line */

/* Opens the control node; says why and ends the program if it cannot. */
void dm_open(void);

int dm_create(const char *name, unsigned int *minor);
int dm_remove(const char *name);
int dm_load(const char *name, uint64_t sectors, const char *args);
int dm_clear(const char *name);
int dm_suspend(const char *name, uint32_t flags);	/* of DM_*_FLAG */
int dm_resume(const char *name);

/*
 * In messages, the first "#" stands for the number of the upload that this thread has
 * begun last, the first "$" for the generation of the table it has committed last, and
 * the first "@" for the write window that it has begun last.
 */
extern __thread unsigned long long dm_upload, dm_generation, dm_window;

/* @reply has room for DM_REPLY and may be NULL; it is empty if there is none. */
int dm_message(const char *name, const char *message, char *reply);
int dm_status(const char *name, char *line);
int dm_table(const char *name, char *line);

/*
 * The constructor's words for a device from sector @start on of what lies below: the
 * disk, or a volume on it, whose disks are named then. @features are pairs of words.
 */
const char *dm_line(char *line, size_t room, uint64_t start, const char *features);

/* The disk's name in sysfs: $DISK, or streamdisk. */
const char *dm_disk(void);

/* "major:minor" of what lies below. */
void dm_below(char number[16]);

#endif
