/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the module's sources need of a kernel, in one thread.  All of the module runs in tasks
 * of shim.c, of which one runs at a time.  A task gives way where it could sleep, and where
 * another processor could come between: at each READ_ONCE() and pointer of RCU.
 */
#ifndef SHIM_H
#define SHIM_H

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Tasks */

void shim_race(void);		/* another processor may come between */
void shim_sleep(void);		/* the same; not where preemption is off */
void shim_preempt(int by);
void shim_wait_for(const void *on);	/* from here on a wake-up is not missed */
bool shim_wait(const void *on, bool killable);	/* false: a signal, or the time is over */
void shim_wake(const void *on);
[[noreturn, gnu::format(printf, 1, 2)]] void shim_bug(const char *format, ...);

/* Types */

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef int32_t s32;
typedef long long s64;
typedef u64 sector_t;
typedef s64 ktime_t;
typedef u32 blk_opf_t;
typedef u8 blk_status_t;
typedef unsigned int gfp_t;

#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX ULLONG_MAX
#define S32_MAX INT32_MAX
#define S32_MIN INT32_MIN
#define S64_MAX LLONG_MAX
#define U8_MAX UINT8_MAX

/* Compiler */

#define __rcu
#define __percpu
#define __force
#define __init
#define __exit
#define __counted_by(member)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define __noclone
#define __printf(a, b) __attribute__((format(printf, a, b)))
#define likely(x) (x)
#define unlikely(x) (x)
#define fallthrough __attribute__((fallthrough))
#define READ_ONCE(x) ({ shim_race(); *(const volatile __typeof__(x) *)&(x); })
#define WRITE_ONCE(x, v) ({ shim_race(); *(volatile __typeof__(x) *)&(x) = (v); })
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member) ((type *)((char *)(p) - offsetof(type, member)))
#define static_assert(...) _Static_assert(__VA_ARGS__, "")
#define BUILD_BUG_ON(x) _Static_assert(!(x), "")
#define WARN_ON_ONCE(x) ({ bool _w = (x); if (_w) shim_bug("WARN_ON(%s)", #x); _w; })
#define WARN_ON WARN_ON_ONCE

/* Numbers and bits */

#define BITS_PER_LONG 64
#define BITS_PER_BYTE 8
#define BIT(n) (1UL << (n))
#define GENMASK(high, low) ((~0UL << (low)) & (~0UL >> (63 - (high))))
#define BITS_TO_LONGS(n) (((n) + 63) / 64)
#define SECTOR_SHIFT 9
#define SECTOR_SIZE 512
#define PAGE_SIZE 4096UL
#define SZ_4K 0x1000
#define SZ_16K 0x4000
#define SZ_64K 0x10000
#define SZ_1M 0x100000
#define SZ_64M 0x4000000
#define SZ_256M 0x10000000
#define min(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp(v, low, high) min(max(v, low), high)
#define swap(a, b) ({ __typeof__(a) _s = (a); (a) = (b); (b) = _s; })
#define round_down(x, y) ((x) & ~((__typeof__(x))(y) - 1))
#define round_up(x, y) ((((x) - 1) | ((__typeof__(x))(y) - 1)) + 1)
#define DIV_ROUND_UP(a, b) (((a) + (b) - 1) / (b))
#define DIV_ROUND_UP_ULL(a, b) DIV_ROUND_UP((u64)(a), b)
#define DIV_ROUND_CLOSEST(x, divisor) (((x) + (divisor) / 2) / (divisor))
#define hweight_long __builtin_popcountl
#define __ffs(w) ((unsigned long)__builtin_ctzl(w))
#define __fls(w) ((unsigned long)(63 - __builtin_clzl(w)))
#define abs(n) ({ __typeof__(n) _n = (n); _n < 0 ? -_n : _n; })
#define ffz(w) __ffs(~(w))
#define ilog2(w) (63 - __builtin_clzl(w))
#define is_power_of_2(n) ((n) && !((n) & ((n) - 1)))

static inline int fls(u32 n) { return n ? 32 - __builtin_clz(n) : 0; }
static inline int fls64(u64 n) { return n ? 64 - __builtin_clzll(n) : 0; }
static inline s64 div_s64(s64 a, s32 b) { return a / b; }
static inline u64 div64_u64(u64 a, u64 b) { return a / b; }
static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c) { return (unsigned __int128)a * b / c; }
static inline u32 intlog2(u32 n) { return log2(n) * (1 << 24); }

static inline bool test_bit(unsigned long n, const unsigned long *map)
{
	return map[n / 64] >> (n % 64) & 1;
}

static inline void __set_bit(unsigned long n, unsigned long *map) { map[n / 64] |= BIT(n % 64); }

static inline void set_bit(unsigned long n, unsigned long *map)
{
	shim_race();
	__set_bit(n, map);
}

static inline void bitmap_zero(unsigned long *map, size_t n) { memset(map, 0, BITS_TO_LONGS(n) * 8); }

typedef struct { long value; } atomic_long_t;
typedef struct { s64 value; } atomic64_t;
#define ATOMIC64_INIT(n) { n }
#define atomic64_inc_return(a) (++(a)->value)
#define try_cmpxchg(p, old, new) ({ bool _same = *(p) == *(old); \
	if (_same) *(p) = (new); else *(old) = *(p); _same; })

#define xchg(p, new) ({ __typeof__(*(p)) _old = *(p); *(p) = (new); _old; })
#define smp_rmb()
#define smp_wmb()
#define smp_mb()

static inline void atomic_long_or(unsigned long mask, atomic_long_t *a)
{
	shim_race();
	a->value |= mask;
}

/* Strings */

static inline ssize_t strscpy_sized(char *to, const char *from, size_t size)
{
	size_t length = strlen(from);

	if (length >= size)
		return -E2BIG;
	memcpy(to, from, length + 1);
	return length;
}

#define strscpy(to, from, size...) strscpy_sized(to, from, sizeof(to))
#define scnprintf(to, size, ...) ({ int _n = snprintf(to, size, __VA_ARGS__); \
	_n < (int)(size) ? _n : (int)(size) - 1; })
#define vscnprintf vsnprintf

static inline int match_string(const char * const *words, size_t nr, const char *word)
{
	for (size_t i = 0; i < nr && words[i]; i++)
		if (!strcmp(words[i], word))
			return i;
	return -EINVAL;
}

static inline int kstrto(const char *s, u64 most, u64 *n)
{
	char *end;

	errno = 0;
	if (!isdigit(*s) && *s != '+')
		return -EINVAL;
	*n = strtoull(s, &end, 10);
	return *end ? -EINVAL : errno || *n > most ? -ERANGE : 0;
}

#define kstrto_(s, most, p) ({ u64 _n; int _r = kstrto(s, most, &_n); if (!_r) *(p) = _n; _r; })
#define kstrtou64(s, base, p) kstrto_(s, U64_MAX, p)
#define kstrtou32(s, base, p) kstrto_(s, U32_MAX, p)
#define kstrtou16(s, base, p) kstrto_(s, U16_MAX, p)
#define kstrtou8(s, base, p) kstrto_(s, U8_MAX, p)

/* Errors */

#define ERR_PTR(e) ((void *)(long)(e))
#define PTR_ERR(p) ((int)(long)(p))
#define IS_ERR(p) ((unsigned long)(p) >= -4095UL)
#define ERR_CAST(p) ((void *)(p))

/* Memory */

enum { GFP_KERNEL = 1, GFP_NOIO = 2, __GFP_RETRY_MAYFAIL = 4, __GFP_NOWARN = 8, __GFP_ZERO = 16,
       GFP_NOWAIT = 32 };

void *shim_alloc(size_t nr, size_t size, gfp_t gfp);	/* zeroed with __GFP_ZERO only */
void shim_free(const void *p);

#define kmalloc(size, gfp) shim_alloc(1, size, gfp)
#define kzalloc(size, gfp) shim_alloc(1, size, (gfp) | __GFP_ZERO)
#define kvmalloc(size, gfp) shim_alloc(1, size, gfp)
#define kvzalloc(size, gfp) shim_alloc(1, size, (gfp) | __GFP_ZERO)
#define kvcalloc(nr, size, gfp) shim_alloc(nr, size, (gfp) | __GFP_ZERO)
#define shim_gfp(_, gfp, ...) gfp
#define kmalloc_obj(obj, ...) shim_alloc(1, sizeof(obj), shim_gfp(, ##__VA_ARGS__, GFP_KERNEL))
#define kzalloc_obj(obj, ...) \
	shim_alloc(1, sizeof(obj), shim_gfp(, ##__VA_ARGS__, GFP_KERNEL) | __GFP_ZERO)
#define kvmalloc_obj kmalloc_obj
#define kvzalloc_obj kzalloc_obj
#define kvmalloc_objs(obj, nr, gfp) shim_alloc(nr, sizeof(obj), gfp)
#define kvzalloc_objs(obj, nr, gfp) shim_alloc(nr, sizeof(obj), (gfp) | __GFP_ZERO)
#define kmalloc_objs kvmalloc_objs
#define kzalloc_objs kvzalloc_objs
#define kmalloc_array(nr, size, gfp) shim_alloc(nr, size, gfp)
#define kvmalloc_flex(obj, member, nr, gfp) \
	shim_alloc(1, sizeof(obj) + (nr) * sizeof((obj).member[0]), gfp)
#define kfree shim_free
#define kvfree shim_free
#define struct_size(p, member, nr) (sizeof(*(p)) + (nr) * sizeof((p)->member[0]))
#define alloc_percpu(type) shim_alloc(1, sizeof(type), __GFP_ZERO | GFP_KERNEL)
#define __alloc_percpu_gfp(size, align, gfp) shim_alloc(1, size, __GFP_ZERO | (gfp))
#define alloc_percpu_gfp(type, gfp) shim_alloc(1, sizeof(type), __GFP_ZERO | (gfp))
#define free_percpu shim_free
#define this_cpu_inc(x) ((x)++)
#define this_cpu_add(x, n) ((x) += (n))
#define per_cpu_ptr(p, cpu) ((void)(cpu), p)
#define this_cpu_ptr(p) (p)
#define raw_cpu_ptr(p) (p)
#define num_possible_cpus() 1
#define for_each_possible_cpu(cpu) for (cpu = 0; cpu < 1; cpu++)
#define si_mem_available() (1L << 30)
#define totalram_pages() (1L << 30)
#define memalloc_noio_save() 0
#define memalloc_noio_restore(flags) ((void)(flags))
#define fs_reclaim_acquire(gfp)
#define fs_reclaim_release(gfp)
#define sort_nonatomic(base, nr, size, compare, swap_) qsort(base, nr, size, compare)

/* Lists */

struct list_head { struct list_head *next, *prev; };

#define LIST_HEAD(name) struct list_head name = { &name, &name }

static inline void INIT_LIST_HEAD(struct list_head *list) { list->next = list->prev = list; }
static inline bool list_empty(const struct list_head *list) { return list->next == list; }

static inline void list_add(struct list_head *new, struct list_head *after)
{
	new->prev = after;
	new->next = after->next;
	after->next->prev = new;
	after->next = new;
}

static inline void list_add_tail(struct list_head *new, struct list_head *list)
{
	list_add(new, list->prev);
}

static inline void list_del(struct list_head *entry)
{
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = entry->prev = NULL;
}

#define list_entry container_of
#define list_first_entry(list, type, member) container_of((list)->next, type, member)
#define list_last_entry(list, type, member) container_of((list)->prev, type, member)
#define list_first_entry_or_null(list, type, member) \
	(list_empty(list) ? NULL : list_first_entry(list, type, member))
#define list_for_each_way(p, list, member, way) \
	for (p = container_of((list)->way, __typeof__(*p), member); &p->member != (list); \
	     p = container_of(p->member.way, __typeof__(*p), member))
#define list_for_each_entry(p, list, member) list_for_each_way(p, list, member, next)
#define list_for_each_entry_reverse(p, list, member) list_for_each_way(p, list, member, prev)
#define list_for_each_entry_safe(p, n, list, member) \
	for (p = container_of((list)->next, __typeof__(*p), member), \
	     n = container_of(p->member.next, __typeof__(*p), member); &p->member != (list); \
	     p = n, n = container_of(n->member.next, __typeof__(*n), member))

/* Locks.  Who waits for a spinlock sleeps, but whoever holds it must not. */

typedef struct shim_lock { const void *owner; } spinlock_t;
struct mutex { struct shim_lock lock; };

void shim_lock(struct shim_lock *lock);
bool shim_trylock(struct shim_lock *lock);
void shim_unlock(struct shim_lock *lock);
bool shim_is_held(const struct shim_lock *lock);

#define spin_lock_init(l) ((l)->owner = NULL)
#define spin_lock(l) (shim_preempt(1), shim_lock(l))
#define spin_unlock(l) (shim_unlock(l), shim_preempt(-1))
#define spin_lock_irq spin_lock
#define spin_unlock_irq spin_unlock
#define spin_lock_irqsave(l, flags) ((flags) = 0, spin_lock(l))
#define spin_unlock_irqrestore(l, flags) ((void)(flags), spin_unlock(l))
#define mutex_init(m) ((m)->lock.owner = NULL)
#define mutex_destroy(m)
#define mutex_lock(m) (shim_sleep(), shim_lock(&(m)->lock))
#define mutex_trylock(m) shim_trylock(&(m)->lock)
#define mutex_unlock(m) shim_unlock(&(m)->lock)
#define shim_lock_of(l) _Generic(l, struct mutex *: &((struct mutex *)(l))->lock, \
	const struct mutex *: &((struct mutex *)(l))->lock, default: (struct shim_lock *)(l))
#define lockdep_is_held(l) shim_is_held(shim_lock_of(l))
#define lockdep_assert_held(l) \
	({ if (!lockdep_is_held(l)) shim_bug("%s: %s is not held", __func__, #l); })
#define might_lock(l)
#define might_sleep() shim_sleep()
#define cond_resched() shim_sleep()

/* RCU */

void shim_read_lock(int by);
void synchronize_rcu(void);
#define synchronize_rcu_expedited synchronize_rcu
#define rcu_read_lock_sched() (shim_preempt(1), shim_read_lock(1))
#define rcu_read_unlock_sched() (shim_race(), shim_read_lock(-1), shim_preempt(-1))
#define rcu_dereference_sched(p) READ_ONCE(p)
#define rcu_access_pointer(p) READ_ONCE(p)
#define rcu_dereference_protected(p, held) \
	({ if (!(held)) shim_bug("%s: %s", __func__, #held); p; })
#define rcu_assign_pointer(p, v) WRITE_ONCE(p, v)
#define RCU_INIT_POINTER(p, v) ((p) = (v))

/* Waiting */

typedef struct { char nothing; } wait_queue_head_t;
#define init_waitqueue_head(w) ((void)(w))
#define wake_up(w) shim_wake(w)
#define wake_up_all(w) shim_wake(w)

#define shim_wait_event(w, condition, killable) ({ bool _came = true; \
	while (_came) { \
		shim_wait_for(&(w)); \
		if (condition) \
			break; \
		_came = shim_wait(&(w), killable); \
	} \
	shim_wait_for(NULL); _came; })
#define wait_event(w, condition) \
	(shim_sleep(), (void)shim_wait_event(w, condition, false))
#define wait_event_idle wait_event
int shim_killed(void);	/* 0: the time is over */
#define wait_event_killable_timeout(w, condition, timeout) \
	(shim_sleep(), shim_wait_event(w, condition, true) ? (long)1 : (long)shim_killed())
/* What a mutation has in its place */
#define wait_event_idle_timeout(w, condition, timeout) \
	(shim_sleep(), (long)shim_wait_event(w, condition, false))
#define wait_event_lock_irq(w, condition, l) \
	while (!(condition)) { \
		shim_wait_for(&(w)); \
		spin_unlock_irq(&(l)); \
		shim_wait(&(w), false); \
		spin_lock_irq(&(l)); \
	}

static inline unsigned long msecs_to_jiffies(unsigned int ms) { return ms; }
static inline unsigned int jiffies_to_msecs(unsigned long n) { return n; }
#define jiffies 0UL
#define HZ 1000
#define usleep_range(low, high) shim_sleep()
#define fatal_signal_pending(task) shim_signal()
#define current NULL
bool shim_signal(void);

u64 shim_now(void);	/* in nanoseconds; grows with each call */
#define ktime_get() ((ktime_t)shim_now())
#define ktime_get_boottime_ns() shim_now()
#define ktime_before(a, b) ((a) < (b))
#define ktime_us_delta(a, b) (((a) - (b)) / 1000)
#define ktime_ms_delta(a, b) (((a) - (b)) / 1000000)

/* Work */

struct workqueue_struct;
struct work_struct {
	void (*run)(struct work_struct *work);
	struct workqueue_struct *queue;
	struct work_struct *next;	/* of those that wait */
	bool pending, running;
};
struct delayed_work { struct work_struct work; };

enum { WQ_MEM_RECLAIM = 1, WQ_UNBOUND = 2 };

struct workqueue_struct *alloc_workqueue(const char *name, int flags, int most, ...);
void destroy_workqueue(struct workqueue_struct *queue);
bool queue_work(struct workqueue_struct *queue, struct work_struct *work);
bool flush_work(struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);
#define INIT_WORK(w, f) (*(w) = (struct work_struct) { .run = (f) })
#define schedule_work(w) queue_work(NULL, w)
#define to_delayed_work(w) container_of(w, struct delayed_work, work)
#define INIT_DELAYED_WORK(w, f) INIT_WORK(&(w)->work, f)	/* an upload never expires */
#define schedule_delayed_work(w, delay) ((void)(delay))
#define cancel_delayed_work(w)
#define cancel_delayed_work_sync(w)

/* Block layer */

enum req_op {
	REQ_OP_READ, REQ_OP_WRITE, REQ_OP_FLUSH, REQ_OP_DISCARD, REQ_OP_SECURE_ERASE = 5,
	REQ_OP_ZONE_APPEND = 7, REQ_OP_WRITE_ZEROES = 9, REQ_OP_ZONE_RESET = 13, REQ_OP_MASK = 255,
};
#define REQ_PREFLUSH (1 << 18)
#define REQ_NOWAIT (1 << 21)
#define REQ_POLLED (1 << 22)
#define REQ_DRV (1 << 23)
#define REQ_ATOMIC (1 << 24)
enum { BLK_STS_OK, BLK_STS_NOTSUPP, BLK_STS_IOERR = 10, BLK_STS_AGAIN = 12 };
#define BLK_OPEN_READ 1
#define BLK_OPEN_WRITE 2

struct gendisk { struct list_head slave_bdevs; };
struct request_queue { struct { u32 discard_alignment; } limits; };
struct block_device {
	struct request_queue queue;
	u32 block, granularity, max_discard;
	u64 first, sectors;
};

#define bdev_get_queue(bdev) (&(bdev)->queue)
#define bdev_logical_block_size(bdev) ((bdev)->block)
#define bdev_discard_granularity(bdev) ((bdev)->granularity)
#define bdev_max_discard_sectors(bdev) ((bdev)->max_discard)
#define bdev_nr_sectors(bdev) ((bdev)->sectors)
#define get_start_sect(bdev) ((bdev)->first)

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	blk_opf_t bi_opf;
	u8 bi_write_stream, bi_write_hint;
	blk_status_t bi_status;
	struct { u64 bi_sector; u32 bi_size; } bi_iter;
	void (*bi_end_io)(struct bio *bio);
};

struct bio_list { struct bio *head, *tail; };
#define BIO_EMPTY_LIST { NULL, NULL }

static inline void bio_list_init(struct bio_list *list) { list->head = list->tail = NULL; }
static inline bool bio_list_empty(const struct bio_list *list) { return !list->head; }

static inline void bio_list_merge(struct bio_list *to, struct bio_list *from)
{
	if (!from->head)
		return;
	*(to->head ? &to->tail->bi_next : &to->head) = from->head;
	to->tail = from->tail;
}

static inline void bio_list_merge_init(struct bio_list *to, struct bio_list *from)
{
	bio_list_merge(to, from);
	bio_list_init(from);
}

static inline void bio_list_add(struct bio_list *list, struct bio *bio)
{
	struct bio_list one = { bio, bio };

	bio->bi_next = NULL;
	bio_list_merge(list, &one);
}

static inline struct bio *bio_list_pop(struct bio_list *list)
{
	struct bio *bio = list->head;

	if (bio)
		list->head = bio->bi_next;
	if (!list->head)
		list->tail = NULL;
	return bio;
}

static inline void bio_init(struct bio *bio, struct block_device *bdev, void *vecs, int nr,
			    blk_opf_t op)
{
	*bio = (struct bio) { .bi_bdev = bdev, .bi_opf = op };
}

#define bio_uninit(bio) ((void)(bio))
#define bio_set_dev(bio, bdev) ((bio)->bi_bdev = (bdev))
#define bio_sectors(bio) ((bio)->bi_iter.bi_size >> SECTOR_SHIFT)
#define bio_op(bio) ((enum req_op)((bio)->bi_opf & REQ_OP_MASK))
#define op_is_write(op) ((op) & 1)
#define bio_has_crypt_ctx(bio) false
struct bio_crypt_ctx { struct { struct { u32 data_unit_size; } crypto_cfg; } *bc_key; };
#define bio_crypt_ctx(bio) ((struct bio_crypt_ctx *)NULL)

struct blk_plug { char nothing; };
#define blk_start_plug(plug) ((void)(plug))
#define blk_finish_plug(plug) ((void)(plug))

/* The model's: */
void submit_bio(struct bio *bio);
void dm_submit_bio_remap(struct bio *bio, struct bio *target);
void dm_accept_partial_bio(struct bio *bio, unsigned int sectors);
void bio_wouldblock_error(struct bio *bio);

/* Device-mapper */

enum { DM_MAPIO_SUBMITTED, DM_MAPIO_REMAPPED };
typedef enum { STATUSTYPE_INFO, STATUSTYPE_TABLE, STATUSTYPE_IMA } status_type_t;
enum { DM_TARGET_PASSES_INTEGRITY = 1, DM_TARGET_NOWAIT = 2 };
#define DM_TARGET_PASSES_CRYPTO 4
#define DM_TARGET_ATOMIC_WRITES 8

struct dm_table;
struct dm_target;
struct dm_dev { struct block_device *bdev; char name[8]; };
struct dm_arg_set { unsigned int argc; char **argv; };
struct dm_arg { unsigned int min, max; char *error; };
typedef int (*iterate_devices_callout_fn)(struct dm_target *ti, struct dm_dev *dev, sector_t start,
					  sector_t len, void *data);

struct target_type {
	const char *name;
	unsigned int version[3];
	u64 features;
	void *module;
	int (*ctr)(struct dm_target *ti, unsigned int argc, char **argv);
	void (*dtr)(struct dm_target *ti);
	int (*map)(struct dm_target *ti, struct bio *bio);
	void (*presuspend)(struct dm_target *ti);
	void (*presuspend_undo)(struct dm_target *ti);
	void (*postsuspend)(struct dm_target *ti);
	void (*resume)(struct dm_target *ti);
	void (*status)(struct dm_target *ti, status_type_t type, unsigned int flags, char *result,
		       unsigned int maxlen);
	int (*message)(struct dm_target *ti, unsigned int argc, char **argv, char *result,
		       unsigned int maxlen);
	int (*prepare_ioctl)(struct dm_target *ti, struct block_device **bdev, unsigned int cmd,
			     unsigned long arg, bool *forward);
	int (*iterate_devices)(struct dm_target *ti, iterate_devices_callout_fn fn, void *data);
};

struct dm_target {
	struct dm_table *table;
	struct target_type *type;
	void *private;
	char *error;
	u64 begin, len;
	unsigned int num_flush_bios, num_discard_bios, num_secure_erase_bios, num_write_zeroes_bios;
	bool flush_bypasses_map, accounts_remapped_io;
};

#define DMEMIT(...) (sz = sz >= maxlen ? sz : sz + scnprintf(result + sz, maxlen - sz, __VA_ARGS__))
#define DMEMIT_TARGET_NAME_VERSION(type) DMEMIT("%s", (type)->name)
#define DMERR(...) ((void)0)
#define DMWARN_LIMIT(...) ((void)0)
#define DM_NAME "device-mapper"

int dm_read_arg_group(const struct dm_arg *arg, struct dm_arg_set *as, unsigned int *nr, char **error);
const char *dm_shift_arg(struct dm_arg_set *as);
int dm_get_device(struct dm_target *ti, const char *path, unsigned int mode, struct dm_dev **dev);
void dm_put_device(struct dm_target *ti, struct dm_dev *dev);
void dm_table_event(struct dm_table *table);
#define dm_table_get_mode(table) ((void)(table), BLK_OPEN_READ | BLK_OPEN_WRITE)
#define dm_table_get_md(table) (table)
#define dm_device_name(md) ((void)(md), "model")
#define dm_table_device_name dm_device_name

enum rw_hint {
	WRITE_LIFE_NOT_SET, WRITE_LIFE_NONE, WRITE_LIFE_SHORT, WRITE_LIFE_MEDIUM, WRITE_LIFE_LONG,
	WRITE_LIFE_EXTREME,
};

/* Modules and tracing */

#define THIS_MODULE NULL
#define EXPORT_TRACEPOINT_SYMBOL_GPL(x)
#define module_param_named(...)
#define MODULE_PARM_DESC(...)
#define MODULE_DESCRIPTION(x)
#define MODULE_LICENSE(x)
#define module_init(f) int shim_init(void) { return f(); }
#define module_exit(f) void shim_exit(void) { f(); }
#define dm_register_target(type) ((void)(type), 0)
#define dm_unregister_target(type) ((void)(type))
#define TP_PROTO(...) __VA_ARGS__
#define TRACE_EVENT(name, proto, ...) static inline void trace_##name(proto) { }

#endif
