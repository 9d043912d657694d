// SPDX-License-Identifier: GPL-2.0-only
/* Clients, their share of the work, progress and checkpoints. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "beside.h"
#include "driver.h"
#include "util.h"

#define CHUNK 512		/* load steps that a client takes at once */
#define PROGRESS_STEPS 20	/* a line each 5 % */
#define WAIT_STEP_NS 100000000u
#define BEHIND_SECONDS 0.5	/* beside a hundredth of the run */

struct job {
	const struct workload *workload;
	struct catalog *catalog;
	const struct options *opt;
	struct checkpointer checkpointer;
	uint64_t start_ns;
	uint64_t total;			/* steps or operations; 0: by time */
	_Atomic uint64_t next;		/* the first that nobody took yet */
	_Atomic bool stop;
};

struct client {
	struct job *job;
	pthread_t thread;
	uint64_t longest_behind_ns;	/* that an operation began after its time */
	struct worker worker;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static bool stopped(struct job *job)
{
	return interrupted || atomic_load_explicit(&job->stop,
						   memory_order_relaxed);
}

/* Is at (not 0) the first of one of the parts that total is cut into? */
static bool starts_part(uint64_t at, uint64_t total, uint64_t parts)
{
	unsigned __int128 scaled = (unsigned __int128)at * parts;

	/* part k starts at ceil(k * total / parts) */
	return at && scaled % total < parts;
}

/* ---- load ---- */

static void *load_main(void *arg)
{
	struct client *client = arg;
	struct job *job = client->job;
	uint64_t first, end;

	while (!stopped(job)) {
		first = atomic_fetch_add(&job->next, CHUNK);
		if (first >= job->total)
			break;
		end = first + CHUNK < job->total ? first + CHUNK : job->total;
		job->workload->load(&client->worker, first, end);
		if (first * PROGRESS_STEPS / job->total !=
		    end * PROGRESS_STEPS / job->total)
			printf("load: %llu %% after %.1f s\n",
			       (unsigned long long)(end * 100 / job->total),
			       seconds_since(job->start_ns));
	}
	return NULL;
}

/* ---- run ---- */

static void do_operation(const struct workload *workload, struct worker *w,
			 const struct mix *mix)
{
	uint64_t dice = rng_below(&w->rng, 100);

	if (dice < mix->create)
		workload->add(w);
	else if (dice < mix->create + mix->read)
		workload->read(w);
	else if (dice < mix->create + mix->read + mix->update)
		workload->update(w);
	else
		workload->remove(w);
}

/* The checkpoint that operation number comes after. */
static uint64_t checkpoint_before(const struct job *job, uint64_t number)
{
	const struct options *opt = job->opt;

	if (opt->checkpoint_ops)
		return number / opt->checkpoint_ops;
	if (job->total && opt->checkpoints)
		return (uint64_t)((unsigned __int128)number *
				  opt->checkpoints / job->total);
	return 0;
}

static void before_operation(struct job *job, uint64_t number)
{
	if (job->total && starts_part(number, job->total, PROGRESS_STEPS))
		printf("run: %llu %% (%llu operations), %.0f operations/s\n",
		       (unsigned long long)(number * 100 / job->total),
		       (unsigned long long)number,
		       (double)number / seconds_since(job->start_ns));
	checkpointer_reach(&job->checkpointer, checkpoint_before(job, number));
}

/* When operation number is due. */
static uint64_t due_ns(const struct job *job, uint64_t number)
{
	return job->start_ns + (uint64_t)((unsigned __int128)number *
					  1000000000u / job->opt->rate);
}

/* In steps, so that the end of the run is seen. */
static void wait_until(struct job *job, uint64_t due)
{
	uint64_t now;

	while ((now = now_ns()) < due && !stopped(job))
		usleep(due - now > WAIT_STEP_NS ? WAIT_STEP_NS / 1000 :
		       (useconds_t)((due - now) / 1000) + 1);
}

/* When operation number began: with --rate when it was due, whoever is late. */
static uint64_t begin(struct client *client, uint64_t number)
{
	uint64_t due, now = now_ns();

	if (!client->job->opt->rate)
		return now;
	due = due_ns(client->job, number);
	if (now > due && now - due > client->longest_behind_ns)
		client->longest_behind_ns = now - due;
	return due;
}

static void *run_main(void *arg)
{
	struct client *client = arg;
	struct worker *w = &client->worker;
	struct job *job = client->job;
	uint64_t number, start, ns;

	while (!stopped(job)) {
		number = atomic_fetch_add(&job->next, 1);
		if (job->total && number >= job->total)
			break;
		if (job->opt->rate) {
			wait_until(job, due_ns(job, number));
			if (stopped(job))
				break;
		}
		before_operation(job, number);
		/* Later than any time that the load wrote. */
		w->clock_ms = 1600000000000u + number;
		if (job->opt->think_us)
			usleep((useconds_t)job->opt->think_us);
		start = begin(client, number);
		do_operation(job->workload, w, job->opt->mix);
		ns = now_ns() - start;
		latency_add(&w->latency, ns);
		if (job->opt->latencies_file)
			op_log_add(&w->log, start, ns);
	}
	return NULL;
}

/* Ends a run that is limited by time; its progress is the clock's. */
static void watch_clock(struct job *job)
{
	for (unsigned int step = 1; step <= PROGRESS_STEPS; step++) {
		double due = (double)job->opt->seconds * step / PROGRESS_STEPS;
		double left;

		while ((left = due - seconds_since(job->start_ns)) > 0) {
			if (stopped(job))
				return;
			usleep(left > 0.1 ? 100000 :
					    (useconds_t)(left * 1e6) + 1);
		}
		if (step < PROGRESS_STEPS)
			printf("run: %u %% of the time (%llu operations), %.0f operations/s\n",
			       step * 100 / PROGRESS_STEPS,
			       (unsigned long long)atomic_load(&job->next),
			       (double)atomic_load(&job->next) /
				       seconds_since(job->start_ns));
	}
	atomic_store(&job->stop, true);
}

/* ---- both ---- */

static void run_clients(struct job *job, void *(*client_main)(void *),
			const char *phase, bool timed, struct results *results)
{
	unsigned int count = (unsigned int)job->opt->threads;
	struct client *clients = xalloc(count, sizeof(*clients));
	double behind;

	for (unsigned int i = 0; i < count; i++) {
		clients[i].job = job;
		worker_init(&clients[i].worker, i, job->catalog, phase);
	}
	job->start_ns = now_ns();
	for (unsigned int i = 0; i < count; i++)
		if (pthread_create(&clients[i].thread, NULL, client_main,
				   &clients[i]))
			die("cannot start client %u of %u", i + 1, count);
	if (timed)
		watch_clock(job);
	for (unsigned int i = 0; i < count; i++) {
		pthread_join(clients[i].thread, NULL);
		if (results) {
			latency_merge(&results->latency,
				      &clients[i].worker.latency);
			op_log_move(&results->log, &clients[i].worker.log);
			behind = (double)clients[i].longest_behind_ns / 1e9;
			if (behind > results->longest_behind_seconds)
				results->longest_behind_seconds = behind;
		}
		worker_finish(&clients[i].worker);
	}
	free(clients);
}

static void job_init(struct job *job, const struct workload *workload,
		     struct catalog *catalog)
{
	memset(job, 0, sizeof(*job));
	job->workload = workload;
	job->catalog = catalog;
	job->opt = catalog->engine->opt;
	checkpointer_init(&job->checkpointer, catalog);
	job->checkpointer.interval = (double)job->opt->checkpoint_seconds;
}

bool drive_load(const struct workload *workload, struct catalog *catalog,
		struct results *results)
{
	struct job job;

	job_init(&job, workload, catalog);
	job.total = workload->load_steps(catalog);
	if (job.checkpointer.interval > 0)
		checkpointer_start_thread(&job.checkpointer);
	run_clients(&job, load_main, "load", false, NULL);
	checkpointer_stop(&job.checkpointer);
	if (interrupted)
		return false;
	catalog_set_loaded(catalog);
	results->load_checkpoint_seconds = checkpoint_now(catalog,
							  catalog->session);
	results->load_seconds = seconds_since(job.start_ns);
	printf("load: done in %.1f s, its checkpoint took %.2f s\n",
	       results->load_seconds, results->load_checkpoint_seconds);
	run_hook("--on-load-end", job.opt->on_load_end);
	return true;
}

bool rate_kept(const struct options *opt, const struct results *results)
{
	return !opt->rate || results->behind_seconds <=
		BEHIND_SECONDS + results->run_seconds / 100;
}

void drive_run(const struct workload *workload, struct catalog *catalog,
	       struct results *results)
{
	struct job job;
	struct checkpointer *cp = &job.checkpointer;
	const struct options *opt;
	struct beside *beside;

	job_init(&job, workload, catalog);
	opt = job.opt;
	job.total = opt->ops;
	cp->before = opt->before_checkpoint;
	cp->command = opt->on_checkpoint;
	cp->expected = opt->checkpoints;
	if (opt->checkpoint_ops && opt->ops)
		cp->expected = opt->ops / opt->checkpoint_ops;
	if (opt->seconds && opt->checkpoints) {
		cp->interval = (double)opt->seconds / (double)opt->checkpoints;
		cp->limit = opt->checkpoints - 1;
	}
	/* One client makes them itself: then the same seed gives the same run. */
	if (cp->interval > 0 || opt->threads > 1 || opt->beside)
		checkpointer_start_thread(cp);
	beside = beside_start(opt->beside, cp);
	run_clients(&job, run_main, "run", opt->seconds > 0, results);
	beside_stop(beside);
	results->run_seconds = seconds_since(job.start_ns);
	/* The last one is due after the last operation. */
	if (!interrupted && opt->checkpoints)
		checkpointer_reach(cp, opt->checkpoints);
	else if (!interrupted && opt->checkpoint_ops && opt->ops)
		checkpointer_reach(cp, opt->ops / opt->checkpoint_ops);
	checkpointer_stop(cp);
	results->ops = results->latency.total;
	if (opt->rate)
		results->behind_seconds = results->run_seconds -
			(double)results->ops / (double)opt->rate;
	results->checkpoints = cp->done;
	results->checkpoint_seconds = cp->total_seconds;
	results->longest_checkpoint_seconds = cp->longest_seconds;
	if (interrupted)
		printf("run: stopped by signal %d\n", (int)interrupted);
	else if (!rate_kept(opt, results))
		printf("run: could not keep %llu operations/s: %.1f s behind at the end\n",
		       (unsigned long long)opt->rate, results->behind_seconds);
}
