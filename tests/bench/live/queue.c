// SPDX-License-Identifier: GPL-2.0-only
/*
 * queue DEVICE THREADS COUNT BYTES read|write: each thread does COUNT operations of BYTES
 * at random places, one after the other. Prints how many there were, the time of all in
 * ns, and the least, the median and the greatest time of one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int device;
static unsigned long threads, count, bytes, places;
static int writes;
static uint64_t *taken;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* live_check.py does the same. */
static void *client(void *arg)
{
	unsigned long number = (unsigned long)arg;
	uint32_t state = (uint32_t)number * 7919 + 1;
	void *buffer;

	if (posix_memalign(&buffer, 4096, bytes))
		fail("queue");
	memset(buffer, (int)number, bytes);
	for (unsigned long i = 0; i < count; i++) {
		uint64_t start = now();
		off_t at;
		ssize_t done;

		state = state * 1664525 + 1013904223;
		at = (off_t)((state >> 8) % places * bytes);
		done = writes ? pwrite(device, buffer, bytes, at) : pread(device, buffer, bytes, at);
		if (done != (ssize_t)bytes)
			fail("queue");
		taken[number * count + i] = now() - start;
	}
	free(buffer);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	pthread_t thread[256];
	uint64_t start;

	if (argc != 6)
		return 2;
	threads = strtoul(argv[2], NULL, 10);
	count = strtoul(argv[3], NULL, 10);
	bytes = strtoul(argv[4], NULL, 10);
	writes = !strcmp(argv[5], "write");
	device = open(argv[1], O_RDWR | O_DIRECT);
	taken = calloc(threads * count, sizeof(*taken));
	if (device < 0 || !taken || threads > 256)
		fail(argv[1]);
	places = (unsigned long)lseek(device, 0, SEEK_END) / bytes;
	start = now();
	for (unsigned long i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, client, (void *)i))
			fail("queue");
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	start = now() - start;
	qsort(taken, threads * count, sizeof(*taken), compare);
	printf("%lu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", threads * count, start, taken[0],
	       taken[threads * count / 2], taken[threads * count - 1]);
	return 0;
}
