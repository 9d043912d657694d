// SPDX-License-Identifier: GPL-2.0-only
/* See flash.h. Compiled for the kernel, and for userspace by tests/bench/live/model. */
#include <linux/string.h>
#include "flash.h"

/* Units beyond those of the logical pages: the open ones, and a free one to copy to */
static u32 spare_units(const struct flash_geometry *g)
{
	return g->streams + (g->isolated ? g->streams : 1) + 1;
}

const char *flash_check(const struct flash_geometry *g)
{
	u32 packed;

	if (!g->pages)
		return "the drive has no pages";
	if (g->unit < 2 || g->unit >= 1u << 31)
		return "an erase unit has 2 pages or more, and less than 2^31";
	if (!g->streams || g->streams > FLASH_MAX_STREAMS)
		return "a drive has 1 to 255 streams";
	if ((u64)g->units * g->unit >= FLASH_NONE)
		return "the drive has 2^32 pages or more";
	packed = (g->pages - 1) / g->unit + 1;
	if (g->units < packed + spare_units(g))
		return "over-provisioning leaves too few spare units for so many streams";
	return NULL;
}

size_t flash_bytes(const struct flash_geometry *g)
{
	return sizeof(struct flash_unit) * g->units +
	       sizeof(u32) * ((size_t)g->pages + (size_t)g->units * g->unit +
			      g->unit + 1 + g->units);
}

void flash_init(struct flash *f, const struct flash_geometry *g, void *memory)
{
	memset(f, 0, sizeof(*f));
	f->geometry = *g;
	f->unit = memory;
	f->map = (u32 *)(f->unit + g->units);
	f->owner = f->map + g->pages;
	f->head = f->owner + (size_t)g->units * g->unit;
	f->free = f->head + g->unit + 1;
	memset(f->unit, 0, sizeof(*f->unit) * g->units);
	/* FLASH_NONE in the rest */
	memset(f->map, 0xff, flash_bytes(g) - sizeof(*f->unit) * g->units);
	f->lowest = g->unit;
	for (u32 n = 0; n < g->units; n++)
		f->free[n] = n;
	f->nr_free = g->units;
}

/* ---- circles of full units, by their valid pages ---- */

/* Last in the circle: of equals, the one that waits longest is taken. */
static void link_unit(struct flash *f, u32 n)
{
	struct flash_unit *u = &f->unit[n];
	u32 *head = &f->head[u->valid];

	if (*head == FLASH_NONE) {
		*head = n;
		u->next = n;
		u->prev = n;
	} else {
		u->next = *head;
		u->prev = f->unit[*head].prev;
	}
	f->unit[u->prev].next = n;
	f->unit[u->next].prev = n;
	if (u->valid < f->lowest)
		f->lowest = u->valid;
}

static void unlink_unit(struct flash *f, u32 n)
{
	struct flash_unit *u = &f->unit[n];
	u32 *head = &f->head[u->valid];

	f->unit[u->prev].next = u->next;
	f->unit[u->next].prev = u->prev;
	if (*head == n)
		*head = u->next == n ? FLASH_NONE : u->next;
}

static void lose_page(struct flash *f, u32 n)
{
	struct flash_unit *u = &f->unit[n];

	if (!u->full) {
		u->valid--;
		return;
	}
	unlink_unit(f, n);
	u->valid--;
	link_unit(f, n);
}

/* ---- pages ---- */

void flash_invalidate(struct flash *f, u32 page)
{
	u32 at = f->map[page];

	if (at == FLASH_NONE)
		return;
	f->map[page] = FLASH_NONE;
	f->owner[at] = FLASH_NONE;
	lose_page(f, at / f->geometry.unit);
}

static void open_unit(struct flash *f, struct flash_frontier *frontier, u32 stream)
{
	u32 n = f->free[f->first_free];

	f->first_free = (f->first_free + 1) % f->geometry.units;
	f->nr_free--;
	f->unit[n].stream = stream;
	frontier->next = n * f->geometry.unit;
	frontier->end = frontier->next + f->geometry.unit;
}

static u32 program(struct flash *f, struct flash_frontier *frontier, u32 page)
{
	u32 to = frontier->next++;
	u32 n = to / f->geometry.unit;

	flash_invalidate(f, page);
	f->map[page] = to;
	f->owner[to] = page;
	f->unit[n].valid++;
	if (frontier->next == frontier->end) {
		f->unit[n].full = true;
		link_unit(f, n);
	}
	return to;
}

bool flash_has_room(const struct flash *f, u32 stream)
{
	return f->host[stream].next != f->host[stream].end || f->nr_free >= 2;
}

u32 flash_place(struct flash *f, u32 page, u32 stream)
{
	struct flash_frontier *frontier = &f->host[stream];

	if (frontier->next == frontier->end)
		open_unit(f, frontier, stream);
	f->host_pages++;
	return program(f, frontier, page);
}

/* ---- collection ---- */

u32 flash_take_victim(struct flash *f, bool must)
{
	u32 n;

	while (f->lowest < f->geometry.unit && f->head[f->lowest] == FLASH_NONE)
		f->lowest++;
	n = f->head[f->lowest];
	if (n == FLASH_NONE || (f->lowest == f->geometry.unit && !must))
		return FLASH_NONE;
	unlink_unit(f, n);
	f->unit[n].full = false;
	return n;
}

u32 flash_next_valid(const struct flash *f, u32 at, u32 end)
{
	while (at < end && f->owner[at] == FLASH_NONE)
		at++;
	return at < end ? at : FLASH_NONE;
}

u32 flash_copy(struct flash *f, u32 from)
{
	const struct flash_geometry *g = &f->geometry;
	bool shared = !g->isolated && g->streams > 1;
	u32 stream = shared ? g->streams : f->unit[from / g->unit].stream;
	struct flash_frontier *frontier = &f->copied[shared ? 0 : stream];

	if (frontier->next == frontier->end)
		open_unit(f, frontier, stream);
	f->copied_pages++;
	return program(f, frontier, f->owner[from]);
}

void flash_erase(struct flash *f, u32 n)
{
	u32 last = (f->first_free + f->nr_free++) % f->geometry.units;

	f->unit[n].valid = 0;
	f->free[last] = n;
	f->erases++;
}

static void collect(struct flash *f)
{
	u32 n = flash_take_victim(f, true);
	u32 first = n * f->geometry.unit, end = first + f->geometry.unit;

	for (u32 at = first; (at = flash_next_valid(f, at, end)) != FLASH_NONE; at++)
		flash_copy(f, at);
	flash_erase(f, n);
}

u32 flash_write(struct flash *f, u32 page, u32 stream)
{
	flash_invalidate(f, page);
	while (!flash_has_room(f, stream))
		collect(f);
	return flash_place(f, page, stream);
}
