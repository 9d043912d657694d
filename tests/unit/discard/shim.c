// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tasks in one thread, and what the module waits for.
 */
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
#include <ucontext.h>

#include "shim.h"
#include "tasks.h"

#define STACK (256 << 10)

struct task {
	ucontext_t context;
	char *stack;
	void *fake;			/* AddressSanitizer's */
	void (*run)(void *);
	void *arg;
	const void *blocked;		/* on a lock, a wait queue ...; NULL: it can go on */
	const void *prepared;		/* a wake-up of this is not to be missed */
	bool (*until)(void *);		/* or it waits for this */
	void *until_arg;
	bool killable, killed;
	int preempt, readers;
	u64 section;			/* when it began to read */
};

static struct task tasks[MAX_TASKS], *task;
static ucontext_t scheduler;
static void *scheduler_fake;
static const void *scheduler_stack;
static size_t scheduler_size;
static u64 clock_ns = 1000000, sections;

struct tuning tuning;
long allocated;
u64 starved;

/* Random numbers: splitmix64 */

static u64 seed_state;

void seed(u64 n)
{
	seed_state = n;
}

u32 rnd(u32 below)
{
	u64 n = seed_state += 0x9e3779b97f4a7c15;

	n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
	n = (n ^ n >> 27) * 0x94d049bb133111eb;
	return below ? (n ^ n >> 31) % below : 0;
}

/* Tasks */

/* libc's own: AddressSanitizer's has a warning, and is told of each switch here. */
static int (*swap_context)(ucontext_t *from, const ucontext_t *to);

static void enter(void)
{
	struct task *self = task;

	__sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_size);
	self->run(self->arg);
	if (self->preempt || self->readers)
		shim_bug("a task ends with a lock");
	self->run = NULL;
	__sanitizer_start_switch_fiber(NULL, scheduler_stack, scheduler_size);
	swap_context(&self->context, &scheduler);
}

static void give_way(void)
{
	struct task *self = task;

	__sanitizer_start_switch_fiber(&self->fake, scheduler_stack, scheduler_size);
	swap_context(&self->context, &scheduler);
	__sanitizer_finish_switch_fiber(self->fake, &scheduler_stack, &scheduler_size);
}

static struct task *free_task(void)
{
	for (int i = 0; i < MAX_TASKS; i++)
		if (!tasks[i].run)
			return &tasks[i];
	shim_bug("too many tasks");
}

void spawn(void (*run)(void *), void *arg)
{
	struct task *const new = free_task();

	*new = (struct task) { .stack = new->stack ?: malloc(STACK), .run = run, .arg = arg };
	if (!swap_context)
		*(void **)&swap_context = dlsym(dlopen("libc.so.6", RTLD_LAZY), "swapcontext");
	getcontext(&new->context);
	new->context.uc_stack.ss_sp = new->stack;
	new->context.uc_stack.ss_size = STACK;
	makecontext(&new->context, enter, 0);
}

static bool may_run(const struct task *t)
{
	return t->run && !t->blocked && (!t->until || t->until(t->until_arg));
}

/* One task goes on, up to where it gives way. */
bool run_some(void)
{
	int can = 0, pick;

	for (int i = 0; i < MAX_TASKS; i++)
		can += may_run(&tasks[i]);
	if (!can)
		return false;

	pick = rnd(can);
	for (task = tasks; !may_run(task) || pick--; task++)
		;
	__sanitizer_start_switch_fiber(&scheduler_fake, task->stack, STACK);
	swap_context(&scheduler, &task->context);
	__sanitizer_finish_switch_fiber(scheduler_fake, NULL, NULL);
	task = NULL;
	return true;
}

int running(void)
{
	int nr = 0;

	for (int i = 0; i < MAX_TASKS; i++)
		nr += tasks[i].run != NULL;
	return nr;
}

void shim_race(void)
{
	if (tuning.races && !rnd(tuning.races))
		give_way();
}

void shim_sleep(void)
{
	if (task->preempt)
		shim_bug("sleeps with preemption off");
	if (!rnd(tuning.sleeps ?: 1))
		give_way();
}

void shim_preempt(int by)
{
	task->preempt += by;
}

void shim_wait_for(const void *on)
{
	task->prepared = on;
	task->killed = false;
}

static void block(const void *on)
{
	task->blocked = on;
	give_way();
}

bool shim_wait(const void *on, bool killable)
{
	task->killable = killable;
	if (killable)
		model_waits(task->arg);
	if (task->prepared == on)
		block(on);
	task->killable = false;
	return !task->killed;
}

void shim_wake(const void *on)
{
	for (int i = 0; i < MAX_TASKS; i++) {
		if (tasks[i].blocked == on)
			tasks[i].blocked = NULL;
		if (tasks[i].prepared == on)
			tasks[i].prepared = NULL;
	}
}

/* Waits for what @done says, of which nobody tells. */
void wait_until(bool (*done)(void *), void *arg)
{
	task->until = done;
	task->until_arg = arg;
	give_way();
	task->until = NULL;
}

bool kill_some(void)
{
	bool any = false;

	for (int i = 0; i < MAX_TASKS; i++) {
		if (tasks[i].run && tasks[i].blocked && tasks[i].killable) {
			tasks[i].killed = any = true;
			tasks[i].blocked = NULL;
		}
	}
	return any;
}

int shim_killed(void)
{
	return rnd(2) ? 0 : -EINTR;
}

bool shim_signal(void)
{
	return tuning.signals && !rnd(tuning.signals);
}

u64 shim_now(void)
{
	return clock_ns += 1000;
}

/* Locks */

void shim_lock(struct shim_lock *lock)
{
	while (lock->owner) {
		if (lock->owner == task)
			shim_bug("a lock is taken twice");
		block(lock);
	}
	lock->owner = task;
}

bool shim_trylock(struct shim_lock *lock)
{
	if (lock->owner)
		return false;
	shim_lock(lock);
	return true;
}

void shim_unlock(struct shim_lock *lock)
{
	if (!shim_is_held(lock))
		shim_bug("a lock is released that is not held");
	lock->owner = NULL;
	shim_wake(lock);
}

bool shim_is_held(const struct shim_lock *lock)
{
	return lock->owner == task;
}

/* RCU */

void shim_read_lock(int by)
{
	task->readers += by;
	task->section = ++sections;
}

static bool read_before(void *arg)
{
	for (int i = 0; i < MAX_TASKS; i++)
		if (tasks[i].run && tasks[i].readers && tasks[i].section <= *(u64 *)arg)
			return false;
	return true;
}

void synchronize_rcu(void)
{
	u64 now = sections;

	shim_sleep();
	wait_until(read_before, &now);
}

/* Memory */

struct allocation { size_t size; max_align_t data[]; };

void *shim_alloc(size_t nr, size_t size, gfp_t gfp)
{
	struct allocation *a;
	size_t bytes;

	if (gfp & (GFP_KERNEL | GFP_NOIO))
		shim_sleep();
	if (__builtin_mul_overflow(nr, size, &bytes))
		return NULL;
	if (tuning.no_memory && !rnd(tuning.no_memory)) {
		starved++;
		return NULL;
	}
	a = malloc(sizeof(*a) + bytes);
	memset(a->data, gfp & __GFP_ZERO ? 0 : 0xa5, bytes);
	a->size = bytes;
	allocated += bytes;
	return a->data;
}

void shim_free(const void *p)
{
	struct allocation *a;

	if (!p)
		return;
	a = container_of(p, struct allocation, data);
	allocated -= a->size;
	free(a);
}

/* Work */

struct workqueue_struct { bool alive; };

static struct work_struct *works;
static struct workqueue_struct system_queue;

struct workqueue_struct *alloc_workqueue(const char *name, int flags, int most, ...)
{
	return kzalloc_obj(struct workqueue_struct);
}

bool queue_work(struct workqueue_struct *queue, struct work_struct *work)
{
	struct work_struct **last = &works;

	if (work->pending)
		return false;
	while (*last)
		last = &(*last)->next;
	*last = work;
	work->next = NULL;
	work->queue = queue ?: &system_queue;
	work->pending = true;
	return true;
}

static void unqueue(struct work_struct *work)
{
	struct work_struct **at = &works;

	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	work->pending = false;
}

/* A work may free what it lies in, but not while somebody waits for it. */
static int works_running;
static struct work_struct *running_work[MAX_TASKS];

static int slot_of(const struct work_struct *work)
{
	int slot = 0;

	while (running_work[slot] != work)
		slot++;
	return slot;
}

static void run_work(void *arg)
{
	struct work_struct *work = arg;
	int slot = slot_of(work);

	work->run(work);
	running_work[slot] = NULL;
	works_running--;
}

static bool is_running(const struct work_struct *work)
{
	for (int i = 0; i < MAX_TASKS; i++)
		if (running_work[i] == work)
			return true;
	return false;
}

bool start_work(void)
{
	for (struct work_struct *work = works; work; work = work->next) {
		if (!is_running(work)) {
			unqueue(work);
			/* From now on: a work that is queued again waits for this run. */
			running_work[slot_of(NULL)] = work;
			works_running++;
			spawn(run_work, work);
			return true;
		}
	}
	return false;
}

static bool is_flushed(void *work)
{
	return !((struct work_struct *)work)->pending && !is_running(work);
}

static bool is_over(void *work)
{
	return !is_running(work);
}

bool flush_work(struct work_struct *work)
{
	shim_sleep();
	wait_until(is_flushed, work);
	return true;
}

bool cancel_work_sync(struct work_struct *work)
{
	shim_sleep();
	if (work->pending)
		unqueue(work);
	wait_until(is_over, work);
	return true;
}

static bool is_drained(void *queue)
{
	for (struct work_struct *work = works; work; work = work->next)
		if (work->queue == queue)
			return false;
	return !works_running;
}

void destroy_workqueue(struct workqueue_struct *queue)
{
	wait_until(is_drained, queue);
	shim_free(queue);
}

bool works_wait(void)
{
	return works;
}
