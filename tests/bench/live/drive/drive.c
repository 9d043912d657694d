// SPDX-License-Identifier: GPL-2.0-only
/*
 * A flash drive with write streams, /dev/flashdrive, whose times pass in the kernel's
 * time: in UML's time travel, in virtual time.
 *
 * Physical pages are striped over dies, in groups that are programmed at once. A die
 * does one thing at a time; the host's reads come first, then its programs, then
 * collection, which comes before programs when free units run out. With a protected
 * cache a write ends when it is in it, and a group is programmed when it is complete;
 * without, a write ends when its page is programmed. Collection goes on in the
 * background while there are fewer free units than "reserve".
 *
 * Data lies by logical address: what the flash says matters for times and counts only.
 * What is discarded reads as zeros.
 *
 * One hrtimer stands for the next thing that a die or the link to the host gets done.
 * Times chain from event to event, never from when the timer's interrupt came.
 */
#include <linux/bio.h>
#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/debugfs.h>
#include <linux/highmem.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/nvme.h>
#include <linux/nvme_ioctl.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "flash.h"

#define MAX_DIES 64
#define MAX_SLOTS 64
#define MAX_SAMPLES 4096
#define NEVER U64_MAX

#define PARAMETER(type, name, value, mode, text) \
	static type name = value; \
	module_param(name, type, mode); \
	MODULE_PARM_DESC(name, text)

PARAMETER(uint, mib, 64, 0444, "capacity that the host sees");
PARAMETER(uint, streams, 8, 0444, "that the host may write to; 0: it sees none");
PARAMETER(uint, unit, 64, 0444, "pages of 4 KiB of an erase unit");
PARAMETER(uint, op_permille, 150, 0444, "over-provisioning");
PARAMETER(bool, isolated, false, 0444, "copied pages stay in their stream");
PARAMETER(uint, dies, 8, 0444, "1 to 64");
PARAMETER(uint, program_pages, 1, 0444, "that a die programs, and reads, at once");
PARAMETER(uint, read_ns, 25000, 0444, "to read such a group");
PARAMETER(uint, program_ns, 200000, 0444, "to program it");
PARAMETER(uint, erase_ns, 190000, 0444, "to erase a die's part of a unit");
PARAMETER(uint, suspend_ns, 0, 0444, "until a program or erase has stopped for a read; 0: never");
PARAMETER(uint, suspends, 8, 0444, "times that one of these may be stopped");
PARAMETER(bool, read_first, true, 0444, "reads of the host come before its programs");
PARAMETER(uint, link_ns, 2000, 0444, "for a page to go over the link");
PARAMETER(uint, command_ns, 5000, 0444, "of firmware for each command");
PARAMETER(uint, discard_ns, 0, 0444, "for a discard, in which nothing else goes to the host");
PARAMETER(uint, cache_pages, 0, 0444, "of protected write cache; 0: none");
PARAMETER(uint, reserve, 2, 0444, "free units below which collection goes on");
PARAMETER(uint, urgent, 2, 0444, "free units below which copies come before the host's programs");
PARAMETER(uint, slots, 8, 0444, "copies in flight, 1 to 64");
PARAMETER(bool, fdp, false, 0444, "it reports what it has written, as an NVMe drive with FDP does");
PARAMETER(bool, timing_only, false, 0444, "pages lie where their addresses say");

enum kind { HOST_READ, HOST_PROGRAM, COPY_READ, COPY_PROGRAM, ERASE, SUSPEND, ACK, NR_KINDS };

enum { QUEUE_FIRST, QUEUE_HOST, QUEUE_COLLECT, NR_QUEUES };

struct io {
	struct bio *bio;
	unsigned int pending;	/* ops that the host waits for */
	u64 stall;		/* the longest that one of them waited for collection */
};

struct op {
	struct list_head node;
	enum kind kind;
	struct io *io;		/* who waits for it, or NULL */
	u32 page, at, pages;
	u8 stream, suspended;
	u64 done;
	u64 collecting, starved;	/* clocks of these, when it began to wait */
};

struct command {
	struct io io;
	struct op op[];
};

struct die {
	struct list_head queue[NR_QUEUES];
	struct op *op;
	struct op *paused;
	struct op suspend;
	u64 began, until, left;
	u64 collecting;		/* time that it has spent on collection before op */
};

struct sample {
	u64 ns, host, copied, stall_ns;
};

static struct {
	struct gendisk *disk;
	struct dentry *debugfs;
	struct page **data;
	void *memory;
	spinlock_t lock;		/* of what follows */
	struct hrtimer timer;

	struct flash flash;
	unsigned long *programmed;	/* groups that can be read from a die */
	u16 *unprogrammed;		/* full groups of a unit that are not yet */

	struct die die[MAX_DIES];
	struct list_head link;		/* ops on their way to the host, by their times */
	u64 link_free;
	struct list_head waiting;	/* writes that have no place yet */
	u32 cached;
	struct op *pool;		/* programs that no bio waits for */
	struct list_head unused;

	u32 victim, at;
	unsigned int copying;
	unsigned int erasing;		/* dies that still do */
	u32 erased;
	u64 starved, starved_since;	/* time that writes have waited for a free unit */
	bool starves;
	struct op slot[MAX_SLOTS];
	unsigned long slots_used;
	struct op erase[MAX_DIES];

	u64 host[FLASH_MAX_STREAMS], busy[NR_KINDS];
	u64 reads, bios, discards, discarded, stalls, stall_ns, waits, wait_ns, suspensions;
	struct sample *sample;
	u32 nr_samples;
	u64 next_sample;
} drive;

static u64 cost(const struct op *op)
{
	switch (op->kind) {
	case HOST_READ:
	case COPY_READ:
		return read_ns;
	case HOST_PROGRAM:
	case COPY_PROGRAM:
		return program_ns;
	case ERASE:
		return erase_ns;
	default:
		return suspend_ns;
	}
}

static bool of_collection(const struct op *op)
{
	return op->kind == COPY_READ || op->kind == COPY_PROGRAM || op->kind == ERASE;
}

static u32 group_of(u32 at)
{
	return at / program_pages;
}

static struct die *die_of(u32 at)
{
	return &drive.die[group_of(at) % dies];
}

/*
 * ---- stalls: what the host waits for because of collection ----
 *
 * A die in garbage collection, or a free unit. That the cache fills because dies are busy with
 * copies is not in them.
 */

static u64 die_clock(const struct die *die, u64 now)
{
	return die->collecting + (die->op && of_collection(die->op) ? now - die->began : 0);
}

static u64 starved_clock(u64 now)
{
	return drive.starved + (drive.starves ? now - drive.starved_since : 0);
}

static void set_starves(bool starves, u64 now)
{
	drive.starved = starved_clock(now);
	drive.starved_since = now;
	drive.starves = starves;
}

/* ---- the link to the host ---- */

static void to_host(struct op *op, u64 now)
{
	drive.link_free = max(drive.link_free, now) + (u64)link_ns * op->pages;
	op->done = drive.link_free + command_ns;
	list_add_tail(&op->node, &drive.link);
}

static void end_op(struct op *op, struct bio_list *ended)
{
	struct io *io = op->io;

	if (--io->pending)
		return;
	if (io->stall) {
		drive.stalls++;
		drive.stall_ns += io->stall;
	}
	bio_list_add(ended, io->bio);
	kfree(container_of(io, struct command, io));
}

/* ---- dies ---- */

static struct op *next_op(struct die *die)
{
	static const u8 usual[] = { QUEUE_FIRST, QUEUE_HOST, QUEUE_COLLECT };
	static const u8 in_need[] = { QUEUE_FIRST, QUEUE_COLLECT, QUEUE_HOST };
	const u8 *order = drive.flash.nr_free < urgent ? in_need : usual;

	for (int i = 0; i < NR_QUEUES; i++) {
		struct op *op = list_first_entry_or_null(&die->queue[order[i]], struct op, node);

		if (op) {
			list_del(&op->node);
			return op;
		}
		/* What is stopped goes on when there is nothing left to read. */
		if (!i && die->paused)
			return NULL;
	}
	return NULL;
}

static void start_die(struct die *die, u64 now)
{
	struct op *op;

	if (die->op)
		return;
	op = next_op(die);
	if (op) {
		die->until = now + cost(op);
		if (op->io)
			op->io->stall = max(op->io->stall, die_clock(die, now) - op->collecting);
	} else if (die->paused) {
		op = die->paused;
		die->paused = NULL;
		die->until = now + die->left;
	}
	die->op = op;
	die->began = now;
}

/* The op is over, or stopped. */
static void leave_die(struct die *die, u64 now)
{
	struct op *op = die->op;

	drive.busy[op->kind] += now - die->began;
	die->collecting = die_clock(die, now);
	die->op = NULL;
}

static void suspend_die(struct die *die, u64 now)
{
	struct op *op = die->op;

	if (!suspend_ns || !op || die->paused || op->kind == HOST_READ || op->kind == COPY_READ ||
	    op->kind == SUSPEND || op->suspended >= suspends || die->until - now <= suspend_ns)
		return;
	leave_die(die, now);
	op->suspended++;
	drive.suspensions++;
	die->paused = op;
	die->left = die->until - now;
	die->suspend.kind = SUSPEND;
	die->op = &die->suspend;
	die->began = now;
	die->until = now + suspend_ns;
}

static void enqueue(struct die *die, struct op *op, u64 now)
{
	int queue = op->kind == HOST_READ && read_first ? QUEUE_FIRST :
		    op->kind == HOST_READ || op->kind == HOST_PROGRAM ? QUEUE_HOST : QUEUE_COLLECT;

	op->collecting = die_clock(die, now);
	op->suspended = 0;
	list_add_tail(&op->node, &die->queue[queue]);
	if (queue == QUEUE_FIRST)
		suspend_die(die, now);
	start_die(die, now);
}

/* The page is the last of its group: it can be programmed. */
static bool completes_group(u32 at)
{
	return (at + 1) % program_pages == 0;
}

static void program_group(enum kind kind, u32 at, u64 now)
{
	struct op *op = list_first_entry_or_null(&drive.unused, struct op, node);

	if (WARN_ON_ONCE(!op))
		return;
	list_del(&op->node);
	op->kind = kind;
	op->at = at;
	drive.unprogrammed[at / unit]++;
	if (kind == COPY_PROGRAM)
		drive.copying++;
	enqueue(die_of(at), op, now);
}

/* ---- collection ---- */

static void erase_victim(u64 now)
{
	drive.erased = drive.victim;
	drive.victim = FLASH_NONE;
	drive.erasing = dies;
	bitmap_clear(drive.programmed, group_of(drive.erased * unit), unit / program_pages);
	for (int i = 0; i < dies; i++) {
		drive.erase[i].kind = ERASE;
		enqueue(&drive.die[i], &drive.erase[i], now);
	}
}

static void read_to_copy(u32 at, u64 now)
{
	int n = find_first_zero_bit(&drive.slots_used, MAX_SLOTS);
	struct op *op = &drive.slot[n];

	__set_bit(n, &drive.slots_used);
	drive.copying++;
	op->kind = COPY_READ;
	op->at = at;
	enqueue(die_of(at), op, now);
}

/* Goes on with collection, as far as there are slots. */
static void collect(u64 now)
{
	u32 end;

	if (timing_only || drive.erasing)
		return;
	if (drive.victim == FLASH_NONE) {
		bool must = !list_empty(&drive.waiting) && drive.flash.nr_free < 2;

		if (drive.flash.nr_free < reserve || must)
			drive.victim = flash_take_victim(&drive.flash, must);
		if (drive.victim == FLASH_NONE)
			return;
		drive.at = drive.victim * unit;
	}
	end = (drive.victim + 1) * unit;
	while (drive.at < end && drive.copying < slots) {
		u32 at = flash_next_valid(&drive.flash, drive.at, end);

		if (at == FLASH_NONE) {
			drive.at = end;
			break;
		}
		read_to_copy(at, now);
		drive.at = (group_of(at) + 1) * program_pages;
	}
	if (drive.at >= end && !drive.copying && !drive.unprogrammed[drive.victim])
		erase_victim(now);
}

/* A group of the victim was read: what is still valid in it moves. */
static void copy_group(struct op *op, u64 now)
{
	u32 at = op->at, end = (group_of(at) + 1) * program_pages;

	for (; (at = flash_next_valid(&drive.flash, at, end)) != FLASH_NONE; at++) {
		u32 to = flash_copy(&drive.flash, at);

		if (completes_group(to))
			program_group(COPY_PROGRAM, to, now);
	}
	drive.copying--;
	__clear_bit(op - drive.slot, &drive.slots_used);
}

/* ---- writes of the host ---- */

static void take_sample(u64 now)
{
	struct sample *s = &drive.sample[drive.nr_samples];

	if (drive.flash.host_pages < drive.next_sample || drive.nr_samples == MAX_SAMPLES)
		return;
	*s = (struct sample){ now, drive.flash.host_pages, drive.flash.copied_pages,
			      drive.stall_ns };
	drive.nr_samples++;
	drive.next_sample += max(drive.flash.geometry.pages / 32, 1);
}

/* Gives a page its place, if there is one. */
static bool place(struct op *op, u64 now)
{
	bool full = cache_pages && drive.cached >= cache_pages;
	bool room = timing_only || flash_has_room(&drive.flash, op->stream);

	if (drive.starves == room)
		set_starves(!room, now);
	if (full || !room)
		return false;
	op->at = timing_only ? op->page : flash_place(&drive.flash, op->page, op->stream);
	drive.host[op->stream]++;
	drive.cached++;
	take_sample(now);
	if (!cache_pages) {
		drive.unprogrammed[op->at / unit]++;
		op->kind = HOST_PROGRAM;
		enqueue(die_of(op->at), op, now);
		return true;
	}
	op->kind = ACK;
	to_host(op, now);
	if (completes_group(op->at))
		program_group(HOST_PROGRAM, op->at, now);
	return true;
}

static void admit(u64 now)
{
	struct op *op;

	while ((op = list_first_entry_or_null(&drive.waiting, struct op, node))) {
		u64 stall, since = op->done;

		stall = starved_clock(now) - op->starved;
		list_del(&op->node);
		if (!place(op, now)) {
			list_add(&op->node, &drive.waiting);
			break;
		}
		op->io->stall = max(op->io->stall, stall);
		drive.wait_ns += now - since;
	}
	collect(now);
}

static void write_page(struct op *op, u64 now)
{
	if (!timing_only)
		flash_invalidate(&drive.flash, op->page);
	if (list_empty(&drive.waiting) && place(op, now))
		return;
	drive.waits++;
	op->done = now;
	op->starved = starved_clock(now);
	list_add_tail(&op->node, &drive.waiting);
}

/* ---- what happens ---- */

static void programmed(struct op *op, u64 now)
{
	enum kind kind = op->kind;

	if (!timing_only)
		__set_bit(group_of(op->at), drive.programmed);
	drive.unprogrammed[op->at / unit]--;
	if (kind == HOST_PROGRAM)
		drive.cached -= program_pages;
	else
		drive.copying--;
	if (op->io)
		to_host(op, now);
	else
		list_add(&op->node, &drive.unused);
	if (kind == HOST_PROGRAM)
		admit(now);
	else
		collect(now);
}

static void erased(u64 now)
{
	if (--drive.erasing)
		return;
	flash_erase(&drive.flash, drive.erased);
	admit(now);
}

static void die_done(struct die *die, u64 now)
{
	struct op *op = die->op;

	leave_die(die, now);
	switch (op->kind) {
	case HOST_READ:
		to_host(op, now);
		break;
	case COPY_READ:
		copy_group(op, now);
		collect(now);
		break;
	case ERASE:
		erased(now);
		break;
	case SUSPEND:
		break;
	default:
		programmed(op, now);
	}
	start_die(die, now);
}

/* All that has happened until now, in its order; returns when something will. */
static u64 advance(u64 now, struct bio_list *ended)
{
	for (;;) {
		struct op *op = list_first_entry_or_null(&drive.link, struct op, node);
		u64 first = op ? op->done : NEVER;
		struct die *die = NULL;

		for (int i = 0; i < dies; i++) {
			if (drive.die[i].op && drive.die[i].until < first) {
				die = &drive.die[i];
				first = die->until;
			}
		}
		if (first > now)
			return first;
		if (die) {
			die_done(die, first);
		} else {
			list_del(&op->node);
			end_op(op, ended);
		}
	}
}

static void unlock_and_end(unsigned long flags, u64 next, struct bio_list *ended)
{
	struct bio *bio;

	if (next != NEVER)
		hrtimer_start(&drive.timer, ns_to_ktime(next), HRTIMER_MODE_ABS_HARD);
	spin_unlock_irqrestore(&drive.lock, flags);
	while ((bio = bio_list_pop(ended)))
		bio_endio(bio);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct bio_list ended = BIO_EMPTY_LIST;
	unsigned long flags;
	u64 next;

	spin_lock_irqsave(&drive.lock, flags);
	next = advance(ktime_get_ns(), &ended);
	unlock_and_end(flags, next, &ended);
	return HRTIMER_NORESTART;
}

/* ---- the block device ---- */

static void copy_part(char *memory, u32 page, unsigned int offset, unsigned int len, bool write)
{
	struct page **slot = &drive.data[page];

	if (write) {
		if (!*slot)
			*slot = alloc_page(GFP_NOIO | __GFP_ZERO | __GFP_NOFAIL);
		memcpy(page_address(*slot) + offset, memory, len);
	} else if (*slot) {
		memcpy(memory, page_address(*slot) + offset, len);
	} else {
		memset(memory, 0, len);
	}
}

static void copy_data(struct bio *bio)
{
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		u64 at = (u64)iter.bi_sector << SECTOR_SHIFT;
		unsigned int left = bv.bv_len;
		char *memory = bvec_kmap_local(&bv);
		char *from = memory;

		while (left) {
			unsigned int len = min(left, PAGE_SIZE - offset_in_page(at));

			copy_part(from, at >> PAGE_SHIFT, offset_in_page(at), len,
				  bio_data_dir(bio));
			at += len;
			from += len;
			left -= len;
		}
		kunmap_local(memory);
	}
}

/* One op for the pages of a group that lie beside each other */
static unsigned int read_pages(struct command *command, u32 first, u32 pages, u64 now)
{
	struct op *op = NULL;

	for (u32 i = 0; i < pages; i++) {
		u32 at = timing_only ? first + i : drive.flash.map[first + i];
		bool on_die = at != FLASH_NONE &&
			      (timing_only || test_bit(group_of(at), drive.programmed));

		if (op && (on_die ? op->at != FLASH_NONE && group_of(op->at) == group_of(at) :
				    op->at == FLASH_NONE)) {
			op->pages++;
			continue;
		}
		op = op ? op + 1 : command->op;
		op->kind = HOST_READ;
		op->io = &command->io;
		op->pages = 1;
		op->at = on_die ? at : FLASH_NONE;
		command->io.pending++;
	}
	drive.reads += pages;
	return op - command->op + 1;
}

static void submit_read(struct command *command, u32 first, u32 pages, u64 now)
{
	unsigned int ops = read_pages(command, first, pages, now);

	for (unsigned int i = 0; i < ops; i++) {
		struct op *op = &command->op[i];

		if (op->at == FLASH_NONE)
			to_host(op, now);
		else
			enqueue(die_of(op->at), op, now);
	}
}

static void submit_write(struct command *command, u32 first, u32 pages, u8 stream, u64 now)
{
	command->io.pending = pages;
	for (u32 i = 0; i < pages; i++) {
		struct op *op = &command->op[i];

		op->io = &command->io;
		op->page = first + i;
		op->pages = 1;
		op->stream = stream;
		write_page(op, now);
	}
	collect(now);
}

static void submit_discard(struct command *command, u32 first, u32 pages, u64 now)
{
	struct op *op = command->op;

	for (u32 i = first; i < first + pages; i++) {
		if (!timing_only)
			flash_invalidate(&drive.flash, i);
		if (drive.data[i])
			clear_page(page_address(drive.data[i]));
	}
	drive.discards++;
	drive.discarded += pages;
	drive.link_free = max(drive.link_free, now) + discard_ns;
	op->io = &command->io;
	op->kind = ACK;
	command->io.pending = 1;
	to_host(op, now);
}

static void flashdrive_submit_bio(struct bio *bio)
{
	u32 first = bio->bi_iter.bi_sector >> PAGE_SECTORS_SHIFT;
	u32 pages = bio_sectors(bio) >> PAGE_SECTORS_SHIFT;
	bool discard = bio_op(bio) == REQ_OP_DISCARD;
	u8 stream = bio->bi_write_stream ? bio->bi_write_stream - 1 : 0;
	struct bio_list ended = BIO_EMPTY_LIST;
	struct command *command;
	unsigned long flags;
	u64 now;

	/* There is nothing to flush: the cache is protected. */
	if (!pages) {
		bio_endio(bio);
		return;
	}
	if (bio->bi_write_stream > streams) {
		bio_io_error(bio);
		return;
	}
	if (!discard)
		copy_data(bio);
	command = kzalloc(struct_size(command, op, discard ? 1 : pages), GFP_NOIO | __GFP_NOFAIL);
	command->io.bio = bio;

	spin_lock_irqsave(&drive.lock, flags);
	now = ktime_get_ns();
	advance(now, &ended);
	drive.bios++;
	if (discard)
		submit_discard(command, first, pages, now);
	else if (op_is_write(bio_op(bio)))
		submit_write(command, first, pages, stream, now);
	else
		submit_read(command, first, pages, now);
	unlock_and_end(flags, advance(now, &ended), &ended);
}

/* ---- what a drive with FDP reports ---- */

#define LOG_FDP_STATISTICS 0x22

/* HBMW, MBMW and MBE, of 128 bits each */
static void fill_statistics(__le64 *log)
{
	u64 host, copied, erases;
	unsigned long flags;

	spin_lock_irqsave(&drive.lock, flags);
	host = drive.flash.host_pages;
	copied = drive.flash.copied_pages;
	erases = drive.flash.erases;
	spin_unlock_irqrestore(&drive.lock, flags);
	log[0] = cpu_to_le64(host << PAGE_SHIFT);
	log[2] = cpu_to_le64((host + copied) << PAGE_SHIFT);
	log[4] = cpu_to_le64(erases * unit << PAGE_SHIFT);
}

/* The status of the command, whose reply goes to a page */
static int answer(const struct nvme_admin_cmd *command, void *page)
{
	struct nvme_id_ns *namespace = page;

	if (command->opcode == nvme_admin_identify && !(command->cdw10 & 0xff))
		namespace->endgid = cpu_to_le16(1);
	else if (command->opcode == nvme_admin_get_log_page &&
		 (command->cdw10 & 0xff) == LOG_FDP_STATISTICS)
		fill_statistics(page);
	else
		return NVME_SC_INVALID_FIELD;
	return 0;
}

static int flashdrive_ioctl(struct block_device *bdev, blk_mode_t mode, unsigned int cmd,
			    unsigned long arg)
{
	struct nvme_admin_cmd command;
	void *page;
	int status;

	if (fdp && cmd == NVME_IOCTL_ID)
		return 1;
	if (!fdp || cmd != NVME_IOCTL_ADMIN_CMD)
		return -ENOTTY;
	if (copy_from_user(&command, (void __user *)arg, sizeof(command)))
		return -EFAULT;
	page = kzalloc(PAGE_SIZE, GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	status = answer(&command, page);
	if (!status && copy_to_user(u64_to_user_ptr(command.addr), page,
				    min_t(u32, command.data_len, PAGE_SIZE)))
		status = -EFAULT;
	kfree(page);
	return status;
}

static const struct block_device_operations flashdrive_fops = {
	.owner = THIS_MODULE,
	.submit_bio = flashdrive_submit_bio,
	.ioctl = flashdrive_ioctl,
};

/* ---- debugfs ---- */

static int counts_show(struct seq_file *m, void *unused)
{
	static const char *const names[] = { "host_read", "host_program", "copy_read",
					     "copy_program", "erase", "suspend" };
	unsigned long flags;

	spin_lock_irqsave(&drive.lock, flags);
	for (int i = 0; i < max(streams, 1); i++)
		seq_printf(m, "stream%d %llu\n", i + 1, drive.host[i]);
	seq_printf(m, "host %llu\ncopied %llu\nerases %llu\n", drive.flash.host_pages,
		   drive.flash.copied_pages, drive.flash.erases);
	seq_printf(m, "read %llu\ndiscards %llu\ndiscarded %llu\nbios %llu\n", drive.reads,
		   drive.discards, drive.discarded, drive.bios);
	seq_printf(m, "stalls %llu\nstall_ns %llu\nwaits %llu\nwait_ns %llu\n", drive.stalls,
		   drive.stall_ns, drive.waits, drive.wait_ns);
	seq_printf(m, "suspensions %llu\nfree %u\ncached %u\n", drive.suspensions,
		   drive.flash.nr_free, drive.cached);
	for (int i = 0; i < ARRAY_SIZE(names); i++)
		seq_printf(m, "busy_%s_ns %llu\n", names[i], drive.busy[i]);
	spin_unlock_irqrestore(&drive.lock, flags);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

/* "<ns> <host pages> <copied pages> <ns of stalls>", each 32nd of the drive's pages */
static int series_show(struct seq_file *m, void *unused)
{
	for (u32 i = 0; i < READ_ONCE(drive.nr_samples); i++) {
		const struct sample *s = &drive.sample[i];

		seq_printf(m, "%llu %llu %llu %llu\n", s->ns, s->host, s->copied, s->stall_ns);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(series);

/* Where each logical page lies: of little drives, for tests */
static int map_show(struct seq_file *m, void *unused)
{
	for (u32 i = 0; i < drive.flash.geometry.pages; i++)
		seq_printf(m, "%d\n", (int)drive.flash.map[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(map);

/* ---- the module ---- */

static const char *check_parameters(const struct flash_geometry *g)
{
	if (!dies || dies > MAX_DIES)
		return "dies are 1 to 64";
	if (!slots || slots > MAX_SLOTS)
		return "slots are 1 to 64";
	if (!program_pages || unit % program_pages)
		return "an erase unit has whole groups of program_pages";
	if (program_pages > 1 && cache_pages < (streams + 2) * program_pages)
		return "groups need a cache with room for one of each stream, and more";
	if (reserve < 2 || urgent > reserve)
		return "reserve is 2 or more, urgent is no more than that";
	return flash_check(g);
}

static int make_flash(void)
{
	struct flash_geometry g = {
		.pages = mib << (20 - PAGE_SHIFT),
		.unit = unit,
		.streams = max(streams, 1),
		.isolated = isolated,
	};
	u32 groups, programs;
	const char *wrong;

	if (!mib || mib > 65536 || !unit) {
		pr_err("flashdrive: mib is 1 to 65536, unit 2 or more\n");
		return -EINVAL;
	}
	g.units = DIV_ROUND_CLOSEST_ULL((u64)g.pages * (1000 + op_permille), 1000ULL * unit);
	wrong = check_parameters(&g);
	if (wrong) {
		pr_err("flashdrive: %s\n", wrong);
		return -EINVAL;
	}
	groups = g.units * unit / program_pages;
	programs = cache_pages / program_pages + 2 * slots + 2;
	drive.memory = kvmalloc(flash_bytes(&g), GFP_KERNEL);
	drive.data = kvcalloc(g.pages, sizeof(*drive.data), GFP_KERNEL);
	drive.programmed = kvcalloc(BITS_TO_LONGS(groups), sizeof(long), GFP_KERNEL);
	drive.unprogrammed = kvcalloc(g.units, sizeof(*drive.unprogrammed), GFP_KERNEL);
	drive.pool = kvcalloc(programs, sizeof(*drive.pool), GFP_KERNEL);
	drive.sample = kvcalloc(MAX_SAMPLES, sizeof(*drive.sample), GFP_KERNEL);
	if (!drive.memory || !drive.data || !drive.programmed || !drive.unprogrammed ||
	    !drive.pool || !drive.sample)
		return -ENOMEM;
	flash_init(&drive.flash, &g, drive.memory);
	for (u32 i = 0; i < programs; i++)
		list_add_tail(&drive.pool[i].node, &drive.unused);
	return 0;
}

static void free_all(void)
{
	if (drive.data)
		for (u32 i = 0; i < mib << (20 - PAGE_SHIFT); i++)
			if (drive.data[i])
				__free_page(drive.data[i]);
	kvfree(drive.sample);
	kvfree(drive.pool);
	kvfree(drive.unprogrammed);
	kvfree(drive.programmed);
	kvfree(drive.data);
	kvfree(drive.memory);
}

/* Who replaces a drive has to be seen by that. */
static ssize_t wwid_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "flashdrive\n");
}
static DEVICE_ATTR_RO(wwid);

static struct attribute *drive_attrs[] = { &dev_attr_wwid.attr, NULL };
ATTRIBUTE_GROUPS(drive);

static int make_disk(void)
{
	struct queue_limits limits = {
		.logical_block_size = PAGE_SIZE,
		.physical_block_size = PAGE_SIZE,
		.discard_granularity = PAGE_SIZE,
		.max_hw_discard_sectors = UINT_MAX,
		.max_write_streams = streams,
	};
	int r;

	drive.disk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(drive.disk))
		return PTR_ERR(drive.disk);
	drive.disk->fops = &flashdrive_fops;
	strscpy(drive.disk->disk_name, "flashdrive");
	set_capacity(drive.disk, (sector_t)drive.flash.geometry.pages << PAGE_SECTORS_SHIFT);
	r = device_add_disk(NULL, drive.disk, drive_groups);
	if (r)
		put_disk(drive.disk);
	return r;
}

static int __init flashdrive_init(void)
{
	int r;

	spin_lock_init(&drive.lock);
	INIT_LIST_HEAD(&drive.link);
	INIT_LIST_HEAD(&drive.waiting);
	INIT_LIST_HEAD(&drive.unused);
	for (int i = 0; i < MAX_DIES; i++)
		for (int j = 0; j < NR_QUEUES; j++)
			INIT_LIST_HEAD(&drive.die[i].queue[j]);
	drive.victim = FLASH_NONE;
	hrtimer_setup(&drive.timer, on_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	r = make_flash();
	if (!r)
		r = make_disk();
	if (r) {
		free_all();
		return r;
	}
	drive.debugfs = debugfs_create_dir("flashdrive", NULL);
	debugfs_create_file("counts", 0444, drive.debugfs, NULL, &counts_fops);
	debugfs_create_file("series", 0444, drive.debugfs, NULL, &series_fops);
	debugfs_create_file("map", 0444, drive.debugfs, NULL, &map_fops);
	return 0;
}

static void __exit flashdrive_exit(void)
{
	debugfs_remove(drive.debugfs);
	del_gendisk(drive.disk);
	hrtimer_cancel(&drive.timer);
	put_disk(drive.disk);
	free_all();
}

module_init(flashdrive_init);
module_exit(flashdrive_exit);
MODULE_DESCRIPTION("A flash drive with write streams in the kernel's time, for tests");
MODULE_LICENSE("GPL");
