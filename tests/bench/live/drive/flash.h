/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The flash of the drive: where each logical page lies, and which unit is the next victim.
 * It knows nothing of time.  The rules are those of the Rust model (userspace/simulate), which
 * it is compared with, page by page.
 */
#ifndef FLASH_H
#define FLASH_H

#include <linux/types.h>

#define FLASH_NONE 0xffffffffu
#define FLASH_MAX_STREAMS 255

struct flash_geometry {
	u32 pages;		/* logical */
	u32 unit;		/* pages of an erase unit */
	u32 units;
	u32 streams;
	bool isolated;		/* copies stay in their stream, or else go to one unit for all */
};

/* A unit that is being filled */
struct flash_frontier {
	u32 next, end;
};

struct flash_unit {
	u32 valid;
	u32 next, prev;		/* in the circle of full units with as many valid pages */
	u8 stream;
	bool full;		/* it is in a circle */
};

struct flash {
	struct flash_geometry geometry;
	u32 *map;		/* logical to physical */
	u32 *owner;		/* physical to logical; FLASH_NONE if it is not valid */
	struct flash_unit *unit;
	u32 *head;		/* by valid pages: the unit that has had so many for longest */
	u32 lowest;		/* no full unit has fewer valid pages */
	u32 *free;		/* a ring, in the order of erasure */
	u32 first_free, nr_free;
	struct flash_frontier host[FLASH_MAX_STREAMS];
	struct flash_frontier copied[FLASH_MAX_STREAMS];
	u64 host_pages, copied_pages, erases;
};

/* NULL, or what is wrong with it */
const char *flash_check(const struct flash_geometry *geometry);
/* The memory that flash_init() takes; its contents do not matter. */
size_t flash_bytes(const struct flash_geometry *geometry);
void flash_init(struct flash *flash, const struct flash_geometry *geometry, void *memory);

/* The host writes a page: what was there is not needed any longer. */
void flash_invalidate(struct flash *flash, u32 page);
/* Whether a page of this stream has a place; if not, collect first. */
bool flash_has_room(const struct flash *flash, u32 stream);
/* Gives a page of the host its place, and returns it.  There must be room. */
u32 flash_place(struct flash *flash, u32 page, u32 stream);

/*
 * Garbage collection: take a victim, copy its valid pages, erase it.  A unit all of whose pages
 * are valid is a victim only if it must be.
 */
u32 flash_take_victim(struct flash *flash, bool must);
u32 flash_next_valid(const struct flash *flash, u32 at, u32 end);
u32 flash_copy(struct flash *flash, u32 from);
void flash_erase(struct flash *flash, u32 unit);

/* A write of the host, with all the collection that it needs at once */
u32 flash_write(struct flash *flash, u32 page, u32 stream);

#endif
