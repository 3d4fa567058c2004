/* SPDX-License-Identifier: MIT */
#include "lib/ring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "lib/expect.h"

#define PAGE 4096ul

static struct {
	int fd, file;
	uint8_t *sq, *cq;
	struct io_uring_params params;
	struct io_uring_sqe *sqes;
} ring;

static void map_ring(void)
{
	size_t bytes =
		ring.params.cq_off.cqes + ring.params.cq_entries * sizeof(struct io_uring_cqe);

	ring.sq = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd,
		       IORING_OFF_SQ_RING);
	ring.cq = ring.sq; /* IORING_FEAT_SINGLE_MMAP, from Linux 5.4 */
	ring.sqes = mmap(NULL, ring.params.sq_entries * sizeof(struct io_uring_sqe),
			 PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (ring.sq == MAP_FAILED || ring.sqes == MAP_FAILED)
		DIE("the ring's mappings: errno %d", errno);
}

bool ring_open(uint8_t *buffer, size_t bytes)
{
	struct iovec fixed = {buffer, bytes};

	ring.params = (struct io_uring_params){0};
	ring.fd = (int)syscall(SYS_io_uring_setup, 4, &ring.params);
	if (ring.fd < 0)
		return false;
	map_ring();
	if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &fixed, 1))
		DIE("IORING_REGISTER_BUFFERS: errno %d", errno);
	ring.file = memfd_create("source", 0);
	return ring.file >= 0 && ftruncate(ring.file, (off_t)bytes) == 0;
}

void ring_close(void)
{
	munmap(ring.sq, ring.params.cq_off.cqes +
				ring.params.cq_entries * sizeof(struct io_uring_cqe) + PAGE);
	munmap(ring.sqes, ring.params.sq_entries * sizeof(struct io_uring_sqe));
	syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
	close(ring.fd);
	close(ring.file);
}

void ring_writes(uint8_t *buffer, const uint8_t *from, size_t bytes)
{
	const struct io_sqring_offsets *o = &ring.params.sq_off;
	_Atomic uint32_t *tail = (_Atomic uint32_t *)(void *)(ring.sq + o->tail);
	uint32_t *array = (uint32_t *)(void *)(ring.sq + o->array), at = 0;

	if (pwrite(ring.file, from, bytes, 0) != (ssize_t)bytes)
		DIE("pwrite");
	at = atomic_load(tail) % ring.params.sq_entries;
	ring.sqes[at] = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED,
					      .fd = ring.file,
					      .addr = (uintptr_t)buffer,
					      .len = (uint32_t)bytes};
	array[at] = at;
	atomic_fetch_add(tail, 1);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		DIE("io_uring_enter: errno %d", errno);
	atomic_store((_Atomic uint32_t *)(void *)(ring.cq + ring.params.cq_off.head),
		     atomic_load((_Atomic uint32_t *)(void *)(ring.cq + ring.params.cq_off.tail)));
}
