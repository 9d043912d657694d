/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The world around a target: who writes, sends messages and suspends, the device below, and
 * the oracle, which sees only what goes in and comes out.
 */
#include "shim.h"
#include "tasks.h"

#define PAGE 8			/* sectors */
#define CHUNK (32768 * PAGE)	/* sectors of which bits are kept or not */
#define WINDOWS 4
#define NEVER (~0ULL)

extern struct target_type dsm_target;

/* A write, from its submission to its end. */
struct write {
	struct bio bio;
	struct write *next;
	u64 start, end, whole_end;	/* sectors; what it is cut to, and was */
	u64 began, mapped;		/* its map() */
	bool held, passed, refused;
};

/* A discard that the target has sent and that is not done. */
struct flying {
	struct bio *bio;
	struct flying *next;
	u64 start, end;
	u64 sent;
	const struct op *by;
};

/* Pages that a message names. */
struct named {
	u64 first, end;
	u64 since;
};

/* A message. */
struct op {
	char *text;
	char reply[2048];
	int r;
	bool over;			/* in the model */

	/* The oracle's */
	struct op *next;		/* of those with pages to discard */
	struct named *named;		/* sorted */
	unsigned int nr;
	u64 named_sectors;
	u64 began, done, place;
	bool empty;			/* a range of it has no whole page */
	bool stops, waits, ended, quiet, starved, stopped;
	u8 *bits;			/* what was written when it began */
	u64 *times;
};

struct geometry {
	u64 len, start, first, sectors;
	u32 block, granularity, alignment, max;
};

enum state { OFF, WATCH, ON };

extern struct world {
	struct dm_target ti;
	struct block_device bdev;
	u64 now, start;
	struct write *writes;		/* of which map() has begun */
	unsigned int in_flight;		/* of them, not ended */
	struct flying *flying;
	unsigned int messages;		/* that have not ended */
	unsigned int before;		/* of them, those that a suspend waits for */
	unsigned int suspends;		/* so far */
	unsigned int submitting;	/* discards */
	bool no_tags;			/* whoever submits sleeps */
	bool blocked, suspending, suspended;
	bool exclusive;			/* a window, a commit or the like is under way */
	bool chunk[16];			/* that the table has */
	unsigned int sent;		/* discards */
} w;

extern struct counts {
	u64 sent, refused, held, stopped, during, unknown, untouched, written, failed, starved,
	    undone, busy, stale, ioctls, quiet, steps;
} counts;

/* oracle.c */
void oracle_begin(enum state state);
void oracle_end(void);
void oracle_op(struct op *op);			/* a message begins, */
void oracle_op_waits(struct op *op);		/* has taken effect, and waits, */
void oracle_op_done(struct op *op);		/* is done, and frees what it was */
void oracle_map(struct write *write);
void oracle_mapped(struct write *write);
void oracle_pass(struct write *write);		/* to the device */
void oracle_send(struct flying *discard);
void oracle_failed(const struct flying *discard);
u64 oracle_stop_begins(void);			/* other than a message */
void oracle_stop_done(u64 began);
void oracle_unsupported(u64 began);
void oracle_status(const char *status);
u64 oracle_window(unsigned int back);		/* the number of the newest, or one before */
enum state oracle_state(void);

/* model.c */
[[gnu::format(printf, 1, 2)]] void note(const char *format, ...);
void make(const struct geometry *g, const char *mode);
void destroy(void);
int say(const char *format, ...);		/* a message, until it ends; its answer is in reply */
void tell(const char *format, ...);		/* a message, in a task of its own */
extern char reply[2048];
extern int answer;				/* of the last one that has ended */
void write_sectors(u64 start, u64 sectors, blk_opf_t op);
void suspend(bool fails);			/* in a task of its own */
void resume(void);
void passed_ioctl(void);
void map_chunks(unsigned int chunks);		/* a bit for each */
bool end_discard(unsigned int which, blk_status_t status);
void go_on(void);				/* until all wait for the device */
void settle(void);				/* until all is done */
void status(void);				/* in reply */
extern char where[64];				/* said of what fails */

/* random.c */
void random_run(unsigned int steps);

/* cases.c */
void run_cases(void);
