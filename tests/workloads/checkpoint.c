// SPDX-License-Identifier: GPL-2.0-only
/* When checkpoints are made, and what follows each. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "checkpoint.h"
#include "sizes.h"
#include "util.h"

double checkpoint_now(struct catalog *catalog, WT_SESSION *session)
{
	uint64_t start = now_ns();

	sizes_store(catalog, session);
	must(session->checkpoint(session, NULL), "making", "a checkpoint");
	return seconds_since(start);
}

void run_hook(const char *option, const char *command)
{
	int status;

	if (!command)
		return;
	fflush(stdout);
	status = system(command);
	if (status == -1)
		die("%s '%s' could not be run: %s", option, command,
		    strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		die("%s '%s' failed with %s %d", option, command,
		    WIFEXITED(status) ? "exit status" : "signal",
		    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static void make_one(struct checkpointer *cp, uint64_t number)
{
	char of[32] = "", value[32];
	double seconds;

	text(value, sizeof(value), "%llu", (unsigned long long)number);
	setenv("CHECKPOINT", value, 1);
	run_hook("--before-checkpoint", cp->before);
	seconds = checkpoint_now(cp->catalog, cp->session);
	if (cp->expected)
		text(of, sizeof(of), "/%llu", (unsigned long long)cp->expected);
	printf("checkpoint %llu%s took %.2f s\n", (unsigned long long)number,
	       of, seconds);
	cp->total_seconds += seconds;
	if (seconds > cp->longest_seconds)
		cp->longest_seconds = seconds;
	run_hook("--on-checkpoint", cp->command);
}

static struct timespec after(double seconds)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	seconds += (double)ts.tv_nsec / 1e9;
	ts.tv_sec += (time_t)seconds;
	ts.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9);
	return ts;
}

/* With the lock held: true when a checkpoint is to be made, false at the end. */
static bool wait_for_work(struct checkpointer *cp, struct timespec *due)
{
	bool timed;

	while (cp->requested == cp->done && !cp->stopping) {
		timed = cp->interval > 0 &&
			(!cp->limit || cp->done < cp->limit);
		if (!timed) {
			pthread_cond_wait(&cp->changed, &cp->lock);
			continue;
		}
		if (pthread_cond_timedwait(&cp->changed, &cp->lock, due) ==
		    ETIMEDOUT) {
			*due = after(cp->interval);
			cp->requested++;
		}
	}
	return cp->requested > cp->done;
}

static void *checkpoint_main(void *arg)
{
	struct checkpointer *cp = arg;
	struct timespec due = after(cp->interval);

	pthread_mutex_lock(&cp->lock);
	while (wait_for_work(cp, &due)) {
		uint64_t number = cp->done + 1;

		pthread_mutex_unlock(&cp->lock);
		make_one(cp, number);
		pthread_mutex_lock(&cp->lock);
		cp->done++;
		pthread_cond_broadcast(&cp->changed);
	}
	pthread_mutex_unlock(&cp->lock);
	return NULL;
}

void checkpointer_init(struct checkpointer *cp, struct catalog *catalog)
{
	memset(cp, 0, sizeof(*cp));
	cp->catalog = catalog;
	cp->session = engine_session(catalog->engine);
}

void checkpointer_start_thread(struct checkpointer *cp)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cp->changed, &attr);
	pthread_mutex_init(&cp->lock, NULL);
	cp->threaded = true;
	if (pthread_create(&cp->thread, NULL, checkpoint_main, cp))
		die("cannot start the checkpoint thread");
}

void checkpointer_reach(struct checkpointer *cp, uint64_t number)
{
	if (atomic_load_explicit(&cp->requested, memory_order_relaxed) >=
	    number)
		return;
	if (!cp->threaded) {
		cp->requested++;
		make_one(cp, ++cp->done);
		return;
	}
	pthread_mutex_lock(&cp->lock);
	while (cp->requested < number) {
		if (cp->requested > cp->done) {
			pthread_cond_wait(&cp->changed, &cp->lock);
			continue;
		}
		cp->requested++;
		pthread_cond_broadcast(&cp->changed);
	}
	pthread_mutex_unlock(&cp->lock);
}

bool checkpointer_wait(struct checkpointer *cp, uint64_t count)
{
	bool ended;

	pthread_mutex_lock(&cp->lock);
	for (count += cp->done; cp->done < count && !cp->ended;)
		pthread_cond_wait(&cp->changed, &cp->lock);
	ended = cp->ended;
	pthread_mutex_unlock(&cp->lock);
	return !ended;
}

bool checkpointer_ended(struct checkpointer *cp)
{
	bool ended;

	pthread_mutex_lock(&cp->lock);
	ended = cp->ended;
	pthread_mutex_unlock(&cp->lock);
	return ended;
}

uint64_t checkpointer_ask(struct checkpointer *cp)
{
	uint64_t number;

	pthread_mutex_lock(&cp->lock);
	number = ++cp->requested;
	pthread_cond_broadcast(&cp->changed);
	pthread_mutex_unlock(&cp->lock);
	return number;
}

bool checkpointer_made(struct checkpointer *cp, uint64_t number)
{
	bool made;

	pthread_mutex_lock(&cp->lock);
	made = cp->done >= number;
	pthread_mutex_unlock(&cp->lock);
	return made;
}

void checkpointer_wait_for(struct checkpointer *cp, uint64_t number)
{
	pthread_mutex_lock(&cp->lock);
	while (cp->done < number)
		pthread_cond_wait(&cp->changed, &cp->lock);
	pthread_mutex_unlock(&cp->lock);
}

void checkpointer_end_waits(struct checkpointer *cp)
{
	pthread_mutex_lock(&cp->lock);
	cp->ended = true;
	pthread_cond_broadcast(&cp->changed);
	pthread_mutex_unlock(&cp->lock);
}

void checkpointer_stop(struct checkpointer *cp)
{
	if (cp->threaded) {
		pthread_mutex_lock(&cp->lock);
		cp->stopping = true;
		pthread_cond_broadcast(&cp->changed);
		pthread_mutex_unlock(&cp->lock);
		pthread_join(cp->thread, NULL);
	}
	session_close(cp->session);
}
