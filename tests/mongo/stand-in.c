// SPDX-License-Identifier: GPL-2.0-only
/*
 * Stands for mongod in everything but its name: takes the options that mongod.sh starts that
 * with, and becomes SecantusDB in the root that common.sh has mounted.
 */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	const char *port = "27017", *path = NULL, *log = NULL, *checkpoints = "60";
	char storage[256], every[64];
	const char *says = getenv("STAND_IN_SAYS");
	char *env[] = { "PATH=/usr/local/bin:/usr/bin", "HOME=/tmp", "LC_ALL=C.UTF-8", every, NULL };

	if (argc == 2 && !strcmp(argv[1], "--version")) {
		puts(says ? says : "db version v8.0.0");
		return 0;
	}
	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], "--dbpath"))
			path = argv[++i];
		else if (!strcmp(argv[i], "--port"))
			port = argv[++i];
		else if (!strcmp(argv[i], "--syncdelay"))
			checkpoints = argv[++i];
		else if (!strcmp(argv[i], "--logpath"))
			log = argv[++i];
	}
	if (!path || !log) {
		fprintf(stderr, "stand-in: --dbpath and --logpath are needed\n");
		return 2;
	}
	if (!freopen(log, "a", stderr))
		fail(log);
	snprintf(storage, sizeof(storage), "/data/%s", basename((char *)path));
	snprintf(every, sizeof(every), "SECANTUS_CHECKPOINT_SECONDS=%s", checkpoints);
	if (chroot("/tmp/root") || chdir("/"))
		fail("chroot");
	execle("/usr/local/bin/secantusd-py", "secantusd-py", "--host", "127.0.0.1", "--port", port, "--storage-path",
	       storage, "--cache-size", "64M", "--log-level", "WARNING", (char *)NULL, env);
	fail("secantusd-py");
}
