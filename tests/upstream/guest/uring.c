// SPDX-License-Identifier: GPL-2.0-only
/*
 * usage: uring [--polled] DEVICE OFFSET LENGTH STREAM
 *
 * Writes LENGTH bytes at OFFSET to DEVICE with one direct write, of the write stream
 * STREAM, by io_uring, which is the only way to say it; polled, when it is asked for.
 * Says what came of it: "wrote LENGTH", or the error's name.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *ring_map(int fd, size_t size, off_t what)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);

	if (at == MAP_FAILED)
		err(2, "mmap");
	return at;
}

/* One write, and its result; there is room for one. */
static int ring_write(int device, void *data, unsigned int length, uint64_t offset,
		      unsigned int stream, int polled)
{
	struct io_uring_params p = { .flags = polled ? IORING_SETUP_IOPOLL : 0 };
	int fd = syscall(SYS_io_uring_setup, 1, &p);
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	char *sq, *cq;

	if (fd < 0)
		err(2, "io_uring_setup");
	sq = ring_map(fd, p.sq_off.array + p.sq_entries * sizeof(uint32_t), IORING_OFF_SQ_RING);
	cq = ring_map(fd, p.cq_off.cqes + p.cq_entries * sizeof(*cqe), IORING_OFF_CQ_RING);
	sqe = ring_map(fd, p.sq_entries * sizeof(*sqe), IORING_OFF_SQES);

	sqe->opcode = IORING_OP_WRITE;
	sqe->fd = device;
	sqe->addr = (uintptr_t)data;
	sqe->len = length;
	sqe->off = offset;
	((uint8_t *)sqe)[44] = stream;	/* write_stream, which older headers do not have */
	*(uint32_t *)(sq + p.sq_off.array) = 0;
	__atomic_store_n((uint32_t *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);

	if (syscall(SYS_io_uring_enter, fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		err(2, "io_uring_enter");
	/* Who polls comes back without a result when another task wants the processor. */
	while (!__atomic_load_n((uint32_t *)(cq + p.cq_off.tail), __ATOMIC_ACQUIRE))
		if (syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 && errno != EINTR)
			err(2, "io_uring_enter");
	cqe = (void *)(cq + p.cq_off.cqes);
	return cqe->res;
}

int main(int argc, char **argv)
{
	int polled = argc > 1 && !strcmp(argv[1], "--polled");
	unsigned int length, stream;
	uint64_t offset;
	void *data;
	int fd, r;

	argv += polled;
	if (argc - polled != 5)
		errx(2, "usage: uring [--polled] DEVICE OFFSET LENGTH STREAM");
	offset = strtoull(argv[2], NULL, 0);
	length = strtoul(argv[3], NULL, 0);
	stream = strtoul(argv[4], NULL, 0);
	fd = open(argv[1], O_WRONLY | O_DIRECT);
	if (fd < 0)
		err(2, "%s", argv[1]);
	data = aligned_alloc(4096, length);
	if (!data)
		err(2, "%u bytes", length);
	memset(data, 'A' + stream % 26, length);

	r = ring_write(fd, data, length, offset, stream, polled);
	if (r < 0)
		printf("%s\n", strerrorname_np(-r));
	else
		printf("wrote %d\n", r);
	return r < 0;
}
