/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the suites share: a disk that keeps what it was sent, and device-mapper
 * devices, made through dm's own ioctls.
 *
 * Each write has data of its own: every sector says which write it belongs to, and
 * to which sector it was written.  The disk compares the parts of a bio with each
 * other when it arrives; who wrote reads it again.
 */
#ifndef DSM_MOCK_H
#define DSM_MOCK_H

#include <kunit/test.h>
#include <linux/blk-crypto-profile.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/device-mapper.h>
#include <linux/rw_hint.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#define DSM_MOCK_SECTORS	2097152		/* 1 GiB */
#define DSM_MOCK_PARTITION	2048		/* where the partition starts */
#define DSM_MOCK_TARGET		65536		/* sectors of most targets */
#define DSM_MOCK_REPLY		16384		/* room for a reply */

/* When a bio is completed that is no read. */
enum dsm_mock_when {
	DSM_MOCK_LATER,		/* by a worker on another processor */
	DSM_MOCK_AT_ONCE,	/* inside submit_bio() */
	DSM_MOCK_HELD,		/* by that worker, on dsm_mock_release(): see dsm_mock_hold() */
};

struct dsm_mock_bio {
	enum req_op op;
	blk_opf_t flags;
	sector_t sector;
	unsigned int sectors;
	u8 stream, hint;
	bool encrypted;
	u64 dun;			/* data unit number of an encrypted one */
	u64 write, data;		/* of which write it is, and from which of its sectors on */
};

struct dsm;

struct dsm_mock_disk {
	struct gendisk *gendisk;
	struct block_device *bdev;
	struct blk_crypto_profile crypto;
	u8 refused_from;		/* the first stream that fails a write, or 0 */
	blk_status_t refusal;		/* in this way */
	bool fails;			/* every other write */
	blk_status_t discards_fail;	/* in this way, or 0 */
	bool keeps_discards;		/* until dsm_mock_complete() */
	unsigned int keeps_at_most;	/* who submits more of them waits; 0: nobody */
	wait_queue_head_t kept_more, room;
	enum dsm_mock_when when;
	struct kunit *test;
	struct xarray pages;		/* what was written */
	struct work_struct complete;
	wait_queue_head_t arrival;

	spinlock_t lock;		/* of what follows */
	struct bio_list waiting;	/* bios that the worker has not completed */
	unsigned int may;		/* complete so many of them, when they are held */
	unsigned int torn;		/* sectors that do not follow the one before */
	unsigned int refused;		/* bios, for their stream */
	unsigned int nr;		/* bios that arrived, reads and refused ones apart */
	struct dsm_mock_bio bio[64];	/* the first of them */
	unsigned int nr_kept;
	struct bio_list kept;
};

/* A write that was started. */
struct dsm_mock_write {
	struct bio *bio;
	struct completion done;
	u64 number;
};

/* One of the targets of a table. */
struct dsm_mock_target {
	sector_t start, sectors;
	const char *type;
	const char *args;		/* "%s" is @below's number */
	struct block_device *below;
	bool read_only;			/* of the first: the table */
};

struct dsm_mock_dm {
	char name[32];
	sector_t sectors;		/* of the first target */
	sector_t target;		/* where the one starts that is sent messages */
	dev_t dev;
	struct mapped_device *md;
	struct block_device *bdev;
	char *reply;			/* of the last ioctl that had one */
	u32 events;			/* at the last status or table line */
	u64 upload;			/* what dsm_mock_begin() was given */
};

/* A disk, and a target on it. */
struct dsm_mock_stack {
	struct dsm_mock_disk *disk;
	struct dsm_mock_dm *dm;
};

/*
 * A disk that takes @streams write streams, and as NVMe does fails a write with a
 * greater one, if it has any; gone when the test ends.
 */
struct dsm_mock_disk *dsm_mock_disk(struct kunit *test, unsigned int streams);

/* The same with limits of the test's choice. */
struct dsm_mock_disk *dsm_mock_disk_limits(struct kunit *test,
					   struct queue_limits *limits);

/* Its only partition. */
struct block_device *dsm_mock_partition(struct kunit *test,
					struct dsm_mock_disk *disk);

/* From now on the disk has inline encryption: AES-256-XTS in units of 4 KiB. */
void dsm_mock_encrypts(struct kunit *test, struct dsm_mock_disk *disk);

/* Sets the disk's limit of write streams. */
void dsm_mock_set_streams(struct dsm_mock_disk *disk, unsigned int streams);

/* Waits until @nr discards are kept; then they are done, the oldest first. */
void dsm_mock_wait_kept(struct kunit *test, struct dsm_mock_disk *disk, unsigned int nr);
void dsm_mock_complete(struct dsm_mock_disk *disk, unsigned int nr);

/*
 * From now on, and at the end of a test with which this was agreed while its devices were
 * made, no discard is kept that the target would wait for.
 */
void dsm_mock_let_discards_go(struct dsm_mock_disk *disk);
void dsm_mock_end_discards(struct kunit *test, struct dsm_mock_disk *disk);

/*
 * The discards that the disk got are @expected, "<start>:<length>...", in sectors from @start
 * on.
 */
void dsm_mock_expect_discards(struct kunit *test, struct dsm_mock_disk *disk,
			      sector_t start, const char *expected);

/* Takes the disk out before the test ends. */
void dsm_mock_remove(struct kunit *test, struct dsm_mock_disk *disk);

/* Forgets which bios arrived; what they wrote stays. */
void dsm_mock_forget(struct dsm_mock_disk *disk);

/*
 * From now on bios are held, until dsm_mock_release() or the end of the test, which
 * comes before that of devices that were made before.
 */
void dsm_mock_hold(struct kunit *test, struct dsm_mock_disk *disk);

/* Waits until @nr bios are held. */
void dsm_mock_wait_held(struct kunit *test, struct dsm_mock_disk *disk, unsigned int nr);

/* Completes the @nr bios that came first of those that are held. */
void dsm_mock_release(struct dsm_mock_disk *disk, unsigned int nr);

/*
 * The disk has, from @sector on, what @write (a bio's, or a started one's) wrote
 * from the device's sector @data on.
 */
void dsm_mock_expect_kept(struct kunit *test, struct dsm_mock_disk *disk,
			  sector_t sector, unsigned int sectors, u64 write, u64 data);

/* The disk has nothing there. */
void dsm_mock_expect_empty(struct kunit *test, struct dsm_mock_disk *disk,
			   sector_t sector, unsigned int sectors);

/*
 * A device-mapper device of one target; "%s" in @args is @below's number.  Gone
 * when the test ends.
 */
struct dsm_mock_dm *dsm_mock_dm(struct kunit *test, const char *type,
				sector_t sectors, const char *args,
				struct block_device *below);

/* The same of several targets, which must be in order; messages go to the first. */
struct dsm_mock_dm *dsm_mock_dm_of(struct kunit *test,
				   const struct dsm_mock_target *targets, unsigned int nr);

/* Returns 0 or the error with which the line was refused; then nothing is left. */
int dsm_mock_try_table(struct kunit *test, const char *type, sector_t sectors,
		       const char *args, struct block_device *below);

int dsm_mock_load(struct dsm_mock_dm *dm, const char *type, const char *args,
		  struct block_device *below);
int dsm_mock_suspend(struct dsm_mock_dm *dm);
int dsm_mock_resume(struct dsm_mock_dm *dm);

/*
 * Returns 0 or an error; @dm->reply is the reply or empty.  The first "#" in
 * @message stands for @dm->upload.
 */
int dsm_mock_message(struct dsm_mock_dm *dm, const char *message);

/* The target that takes @dm's messages, until it is exchanged. */
struct dsm *dsm_mock_target(struct kunit *test, struct dsm_mock_dm *dm);

/* What a step of a message may take, in bytes, until the test ends. */
void dsm_mock_limit_memory(struct kunit *test, u64 bytes);

/* A message that somebody else has sent, who waits for its end. */
struct dsm_mock_sender {
	struct dsm_mock_dm dm;
	const char *message;
	struct work_struct work;
	struct completion done;
	int result;
};

struct dsm_mock_sender *dsm_mock_send(struct kunit *test, const struct dsm_mock_dm *dm,
				      const char *message);

/* Waits for its end, and returns what dsm_mock_message() would. */
int dsm_mock_sent(struct kunit *test, struct dsm_mock_sender *sender);

/*
 * The status or table line without start, length and name; in @dm->reply.  The
 * status has "window_ms -": the age of a window is never the same.
 */
const char *dsm_mock_status(struct dsm_mock_dm *dm);
const char *dsm_mock_table(struct dsm_mock_dm *dm);

/* The status has @part in it. */
void dsm_mock_expect_status(struct kunit *test, struct dsm_mock_dm *dm, const char *part);

/* The number behind @name in the status */
u64 dsm_mock_field(struct kunit *test, struct dsm_mock_dm *dm, const char *name);

/* Sends "window", and returns its number. */
u64 dsm_mock_window(struct kunit *test, struct dsm_mock_dm *dm);

/* Waits until no discard is queued. */
void dsm_mock_drain(struct kunit *test, struct dsm_mock_dm *dm);

/* Sends a "begin ..." that must be taken; its number is @dm->upload from now on. */
void dsm_mock_begin(struct kunit *test, struct dsm_mock_dm *dm, const char *message);

/* Sends a message that must be taken, and compares its reply. */
void dsm_mock_expect_reply(struct kunit *test, struct dsm_mock_dm *dm,
			   const char *message, const char *reply);

/* The same of a message without a reply. */
static inline void dsm_mock_take(struct kunit *test, struct dsm_mock_dm *dm,
				 const char *message)
{
	dsm_mock_expect_reply(test, dm, message, "");
}

/* Sends a message that must be refused, and compares the reason, also with a "#". */
void dsm_mock_expect_refusal(struct kunit *test, struct dsm_mock_dm *dm,
			     const char *message, int error, const char *reason);

/*
 * A table of six files and eight regions:
 *
 *	1 collection	bottom 0 to 63, top 64 to 127
 *	2 index		bottom 128 to 135, top 136 to 143
 *	3 primary	256 to 263
 *	4 journal	264 to 271
 *	5 oplog		272 to 279
 *	6 other		280 to 287
 */
void dsm_mock_upload(struct kunit *test, struct dsm_mock_dm *dm);

/* A table of these @records. */
void dsm_mock_map(struct kunit *test, struct dsm_mock_dm *dm, const char *records);

/* A disk of 8 streams, and on it a target of @args with the table of dsm_mock_upload(). */
struct dsm_mock_stack dsm_mock_stack(struct kunit *test, const char *args);

/* Sends a bio; @sectors of data if it is a write. */
struct dsm_mock_write *dsm_mock_start(struct kunit *test, struct block_device *bdev,
				      blk_opf_t opf, sector_t sector,
				      unsigned int sectors, u8 stream, u8 hint);

/* Has it ended? */
bool dsm_mock_is_done(struct dsm_mock_write *write);

/* Waits for its end, and returns 0 or its error; the write is gone then. */
int dsm_mock_finish(struct dsm_mock_write *write);

/*
 * Sends a bio and waits for it.  -EILSEQ is a write that succeeded, but other data
 * is read.
 */
int dsm_mock_submit(struct block_device *bdev, blk_opf_t opf, sector_t sector,
		    unsigned int sectors, u8 stream, u8 hint);

/* The same for a write that is polled for, as io_uring does with IOPOLL. */
int dsm_mock_submit_polled(struct block_device *bdev, sector_t sector,
			   unsigned int sectors);

/* The same for a write with @key and data unit number @dun. */
int dsm_mock_submit_encrypted(struct block_device *bdev, sector_t sector,
			      unsigned int sectors, const struct blk_crypto_key *key,
			      u64 dun);

static inline int dsm_mock_write(struct dsm_mock_dm *dm, sector_t sector,
				 unsigned int sectors)
{
	return dsm_mock_submit(dm->bdev, REQ_OP_WRITE, sector, sectors, 0, 0);
}

#endif
