// SPDX-License-Identifier: GPL-2.0-only
/*
 * flash-map PAGES UNIT UNITS STREAMS shared|stream: plays writes ("w PAGE STREAM") and
 * discards ("t PAGE") from standard input on the drive's flash, and prints what the
 * program flash-map of userspace prints of the model.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../drive/flash.h"

static struct flash flash;

static void fail(const char *what)
{
	fprintf(stderr, "flash-map: %s\n", what);
	exit(1);
}

static void play(void)
{
	unsigned int page, stream;
	char kind;

	while (scanf(" %c %u", &kind, &page) == 2) {
		if (page >= flash.geometry.pages)
			fail("no such page");
		if (kind == 't') {
			flash_invalidate(&flash, page);
			continue;
		}
		if (scanf("%u", &stream) != 1 || stream >= flash.geometry.streams)
			fail("no such stream");
		flash_write(&flash, page, stream);
	}
}

int main(int argc, char **argv)
{
	struct flash_geometry g = { 0 };
	const char *wrong;
	void *memory;

	if (argc != 6)
		fail("five arguments");
	g.pages = strtoul(argv[1], NULL, 10);
	g.unit = strtoul(argv[2], NULL, 10);
	g.units = strtoul(argv[3], NULL, 10);
	g.streams = strtoul(argv[4], NULL, 10);
	g.isolated = !strcmp(argv[5], "stream");
	wrong = flash_check(&g);
	if (wrong)
		fail(wrong);
	memory = malloc(flash_bytes(&g));
	if (!memory)
		fail("no memory");
	flash_init(&flash, &g, memory);
	play();
	for (unsigned int i = 0; i < g.pages; i++)
		printf("%d\n", (int)flash.map[i]);
	printf("host %" PRIu64 " copied %" PRIu64 " erases %" PRIu64 "\n", flash.host_pages,
	       flash.copied_pages, flash.erases);
	free(memory);
	return 0;
}
