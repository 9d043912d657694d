// SPDX-License-Identifier: GPL-2.0-only
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "dm.h"

/* What the kernel copies in, and so what a call costs. */
#define DM_SMALL 8192

static int control = -1;

struct call {
	struct dm_ioctl head;
	union {
		struct dm_target_spec spec;
		struct dm_target_msg message;
		char data[0];
	};
};

void dm_open(void)
{
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		err(1, "/dev/mapper/control");
}

static struct call *new_call(const char *name, uint32_t flags, size_t room)
{
	struct call *call = calloc(1, sizeof(*call) + room);

	if (!call)
		err(1, "memory for an ioctl");
	call->head.version[0] = DM_VERSION_MAJOR;
	call->head.data_size = sizeof(*call) + room;
	call->head.data_start = offsetof(struct call, data);
	call->head.flags = flags;
	snprintf(call->head.name, sizeof(call->head.name), "%s", name);
	return call;
}

static int run(unsigned long command, struct call *call)
{
	return ioctl(control, command, call) ? -errno : 0;
}

static int simple(unsigned long command, const char *name, uint32_t flags)
{
	struct call *call = new_call(name, flags, 0);
	int r = run(command, call);

	free(call);
	return r;
}

int dm_create(const char *name, unsigned int *minor_number)
{
	struct call *call = new_call(name, 0, 0);
	int r = run(DM_DEV_CREATE, call);

	if (!r && minor_number)
		*minor_number = minor(call->head.dev);
	free(call);
	return r;
}

int dm_remove(const char *name)
{
	return simple(DM_DEV_REMOVE, name, 0);
}

int dm_clear(const char *name)
{
	return simple(DM_TABLE_CLEAR, name, 0);
}

int dm_suspend(const char *name, uint32_t flags)
{
	return simple(DM_DEV_SUSPEND, name, flags | DM_SUSPEND_FLAG);
}

int dm_resume(const char *name)
{
	return simple(DM_DEV_SUSPEND, name, 0);
}

int dm_load(const char *name, uint64_t sectors, const char *args)
{
	size_t length = strlen(args) + 1;
	struct call *call = new_call(name, 0, length);
	int r;

	call->head.target_count = 1;
	call->spec.length = sectors;
	strcpy(call->spec.target_type, "dsm");
	memcpy(call->data + sizeof(call->spec), args, length);
	r = run(DM_TABLE_LOAD, call);
	free(call);
	return r;
}

__thread unsigned long long dm_upload, dm_generation, dm_window;

/* Copies @message, as dm.h says. */
static void fill_in(char *to, size_t room, const char *message)
{
	bool had_upload = false, had_generation = false, had_window = false;
	size_t length = 0;

	for (; *message && length < room - 1; message++) {
		if (*message == '#' && !had_upload) {
			had_upload = true;
			length += snprintf(to + length, room - length, "%llu", dm_upload);
		} else if (*message == '$' && !had_generation) {
			had_generation = true;
			length += snprintf(to + length, room - length, "%llu", dm_generation);
		} else if (*message == '@' && !had_window) {
			had_window = true;
			length += snprintf(to + length, room - length, "%llu", dm_window);
		} else {
			to[length++] = *message;
		}
	}
	to[length < room ? length : room - 1] = '\0';
}

/* Sends @message, or asks for the status when there is none. */
static int ask(const char *name, const char *message, uint32_t flags, char *reply,
	       size_t room)
{
	size_t length = message ? strlen(message) + 96 : 0;
	struct call *call = new_call(name, flags, length > room ? length : room);
	size_t skip = message ? 0 : sizeof(call->spec);
	int r;

	if (message)
		fill_in(call->message.message, length, message);
	r = run(message ? DM_TARGET_MSG : DM_TABLE_STATUS, call);
	if (!r && message && call->head.flags & DM_DATA_OUT_FLAG) {
		const char *said = (char *)call + call->head.data_start;

		if (!strncmp(message, "begin ", 6))
			sscanf(said, "upload %llu", &dm_upload);
		sscanf(said, "generation %llu", &dm_generation);
		sscanf(said, "window %llu", &dm_window);
	}
	if (reply) {
		reply[0] = '\0';
		if (!r && call->head.flags & DM_BUFFER_FULL_FLAG)
			r = -ENOSPC;
		else if (!r && (!message || call->head.flags & DM_DATA_OUT_FLAG))
			snprintf(reply, DM_REPLY, "%s",
				 (char *)call + call->head.data_start + skip);
	}
	free(call);
	return r;
}

int dm_message(const char *name, const char *message, char *reply)
{
	int r = ask(name, message, 0, reply, DM_SMALL);

	/* Only "regions" is that long, and it can be asked twice. */
	return r == -ENOSPC ? ask(name, message, 0, reply, DM_REPLY) : r;
}

int dm_status(const char *name, char *line)
{
	return ask(name, NULL, DM_NOFLUSH_FLAG, line, DM_SMALL);
}

int dm_table(const char *name, char *line)
{
	return ask(name, NULL, DM_NOFLUSH_FLAG | DM_STATUS_TABLE_FLAG, line, DM_SMALL);
}

static void device_number(const char *disk, char number[16])
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/dev", disk);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%15s", number) != 1)
		err(1, "%s", path);
	fclose(file);
}

const char *dm_disk(void)
{
	return getenv("DISK") ?: "streamdisk";
}

/* guest.sh says so when there is a volume between dsm and the disk. */
void dm_below(char number[16])
{
	device_number(getenv("VOLUME") ?: dm_disk(), number);
}

static unsigned int words_of(const char *text)
{
	unsigned int words = 0;

	while (*(text += strspn(text, " "))) {
		words++;
		text += strcspn(text, " ");
	}
	return words;
}

const char *dm_line(char *line, size_t room, uint64_t start, const char *features)
{
	char below[16], leaf[16], leaves[32] = "";
	unsigned int words = words_of(features);

	dm_below(below);
	if (getenv("VOLUME")) {
		device_number(dm_disk(), leaf);
		snprintf(leaves, sizeof(leaves), " leaves %s", leaf);
		words += 2;
	}
	snprintf(line, room, "%s %llu %u %s%s", below, (unsigned long long)start, words,
		 features, leaves);
	return line;
}
