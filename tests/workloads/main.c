// SPDX-License-Identifier: GPL-2.0-only
/* wtload: drives real WiredTiger as an unmodified mongod would. */
#include <string.h>

#include "check.h"
#include "report.h"
#include "sizes.h"
#include "util.h"

static const struct workload *find_workload(const char *name)
{
	static const struct workload *const workloads[] = {
		&linkbench_workload, &ycsb_workload, &many_workload,
	};

	for (int i = 0; i < 3; i++)
		if (!strcmp(workloads[i]->name, name))
			return workloads[i];
	die("there is no workload '%s'", name);
}

static void reopen(struct catalog *catalog, struct engine *engine,
		   const struct workload *workload)
{
	const char *dbpath = engine->opt->dbpath;

	catalog_open(catalog, engine);
	if (strcmp(catalog->workload, workload->name))
		die("dbpath '%s' holds a database of %s, not of %s", dbpath,
		    catalog->workload, workload->name);
	if (!catalog->loaded)
		die("the load of dbpath '%s' did not come to its end: empty it and load again",
		    dbpath);
	if (engine->unclean) {
		printf("the last run did not stop cleanly: recovered from the journal\n");
		sizes_recount(catalog);
	}
}

static int run_workload(const struct options *opt)
{
	const struct workload *workload = find_workload(opt->command);
	struct results results = { 0 };
	struct engine engine;
	struct catalog catalog;
	bool complete = true;

	engine_open(&engine, opt, opt->phase != PHASE_RUN);
	if (opt->phase == PHASE_RUN) {
		reopen(&catalog, &engine, workload);
	} else {
		catalog_create(&catalog, &engine, workload->name,
			       workload->units(opt));
		workload->create(&catalog);
	}
	if (opt->idents_file)
		catalog_write_idents(&catalog, opt->idents_file);
	workload->prepare(&catalog);
	catch_signals();
	if (opt->phase != PHASE_RUN)
		complete = drive_load(workload, &catalog, &results);
	if (complete && opt->phase != PHASE_LOAD)
		drive_run(workload, &catalog, &results);
	catalog_close(&catalog);
	engine_close(&engine);
	if (!complete)
		die("the load was stopped by a signal before its end: empty dbpath '%s' and load again",
		    opt->dbpath);
	report(&catalog, &results);
	return 0;
}

int main(int argc, char **argv)
{
	struct options opt;

	/* Progress is read through pipes by people and by tests. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv);
	if (!strcmp(opt.command, "check"))
		return check_database(&opt);
	return run_workload(&opt);
}
