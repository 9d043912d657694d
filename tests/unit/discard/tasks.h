/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between the shim and the model.
 */
#define MAX_TASKS 64

/* One in so many; 0: never. */
extern struct tuning {
	u32 races, sleeps, no_memory, signals;
} tuning;

extern long allocated;	/* bytes */
extern u64 starved;	/* how often there was no memory */

void seed(u64 n);
u32 rnd(u32 below);

void spawn(void (*run)(void *), void *arg);
bool run_some(void);		/* false: none can go on */
int running(void);		/* tasks that have not ended */
bool start_work(void);		/* that is queued */
bool works_wait(void);
bool kill_some(void);		/* who waits killably gets a signal, or the time is over */
void model_waits(void *arg);	/* the model's: the task with this argument waits killably */
void wait_until(bool (*done)(void *arg), void *arg);
