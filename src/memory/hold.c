/* SPDX-License-Identifier: MIT */
#include "memory/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/map.h"
#include "base/thread.h"
#include "segment/pages.h"
#include "memory/vma.h"

/* <linux/userfaultfd.h> since 6.8, the device since 6.1. */
struct move {
	uint64_t dst, src, len, mode;
	int64_t move;
};
#define MOVE		_IOWR(UFFDIO, 0x05, struct move)
#define MOVE_QUIET	1u /* wakes nobody */
#define MOVE_HOLES	2u
#define FEATURE_MOVE	(1ull << 16)
#define NEW_FROM_DEVICE _IO(0xAA, 0x00)
#define OPEN_FLAGS	(O_CLOEXEC | O_NONBLOCK)
#define TRIES		1000

/* --- descriptors ----------------------------------------------------------------- */

/* System calls by number: the library's versions are cancellation points. */
static int open_raw(void)
{
	int fd = (int)syscall(SYS_userfaultfd, OPEN_FLAGS), device;

	if (fd >= 0)
		return fd;
	device = (int)syscall(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC, 0);
	if (device < 0)
		return -1;
	fd = ioctl(device, NEW_FROM_DEVICE, OPEN_FLAGS);
	syscall(SYS_close, device);
	return fd;
}

int av_hold_open(void)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features = FEATURE_MOVE | UFFD_FEATURE_EVENT_REMOVE |
					     UFFD_FEATURE_EVENT_REMAP};
	int fd = open_raw();

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) == 0)
		return fd;
	syscall(SYS_close, fd);
	return -1;
}

bool av_hold_possible(void)
{
	static _Atomic int answer; /* 0: not known; 1: yes; -1: no */
	int fd, known = atomic_load(&answer);

	if (known)
		return known > 0;
	fd = av_hold_open();
	if (fd >= 0)
		syscall(SYS_close, fd);
	atomic_store(&answer, fd >= 0 ? 1 : -1);
	return fd >= 0;
}

bool av_hold_begin(int fd, uint64_t addr, uint64_t bytes)
{
	struct uffdio_register reg = {.range = {addr, bytes}, .mode = UFFDIO_REGISTER_MODE_MISSING};

	return ioctl(fd, UFFDIO_REGISTER, &reg) == 0;
}

void av_hold_end(int fd, uint64_t addr, uint64_t bytes)
{
	struct uffdio_range range = {addr, bytes};

	(void)!ioctl(fd, UFFDIO_UNREGISTER, &range);
	(void)!ioctl(fd, UFFDIO_WAKE, &range); /* of what is not that mapping any more */
}

/* --- events ---------------------------------------------------------------------- */

/* As in odp_notify.c: the kernel looks at what is outstanding before it finds that nothing is
 * asked. */
static bool outstanding(int fd)
{
	struct uffdio_writeprotect nothing = {0};

	return ioctl(fd, UFFDIO_WRITEPROTECT, &nothing) && errno == EAGAIN;
}

/* Return: what happened, or -1: nothing is to be read */
static int next_event(int fd, av_hold_discard *discard, void *arg)
{
	struct uffd_msg msg;

	if (syscall(SYS_read, fd, &msg, sizeof(msg)) != (long)sizeof(msg))
		return -1;
	if (msg.event == UFFD_EVENT_REMOVE)
		discard(arg, msg.arg.remove.start, msg.arg.remove.end - msg.arg.remove.start);
	return msg.event;
}

void av_hold_events(int fd, av_hold_discard *discard, void *arg)
{
	do {
		while (next_event(fd, discard, arg) >= 0)
			;
	} while (outstanding(fd) && sched_yield() == 0);
}

/* --- moving pages ---------------------------------------------------------------- */

/* Return: 0, or why not all: EAGAIN: an event is outstanding */
static int shift(int fd, uint64_t to, uint64_t from, uint64_t bytes, uint64_t *moved)
{
	for (int i = 0; *moved < bytes; i++) {
		struct move m = {to + *moved, from + *moved, bytes - *moved,
				 MOVE_QUIET | MOVE_HOLES, 0};
		int err = ioctl(fd, MOVE, &m) ? errno : 0;

		*moved += m.move > 0 ? (uint64_t)m.move : 0;
		if (err && err != EAGAIN)
			return err;
		if (err && (outstanding(fd) || i == TRIES))
			return EAGAIN;
	}
	return 0;
}

/* How much of it, up to @bytes, is one mapping; 0: none. */
static uint64_t one_mapping(int maps, uint64_t addr, uint64_t bytes)
{
	struct av_vma vma;

	if (!av_vma_next(maps, addr, &vma) || vma.begin > addr)
		return 0;
	return vma.end - addr < bytes ? vma.end - addr : bytes;
}

static uint64_t one_of_both(int maps, uint64_t to, uint64_t from, uint64_t bytes)
{
	return one_mapping(maps, to, one_mapping(maps, from, bytes));
}

bool av_hold_shift(int fd, int maps, uint64_t to, uint64_t from, uint64_t bytes, uint64_t *moved)
{
	int err = 0;

	for (*moved = 0; err == 0 && *moved < bytes;) {
		uint64_t part = one_of_both(maps, to + *moved, from + *moved, bytes - *moved),
			 done = 0;

		err = part ? shift(fd, to + *moved, from + *moved, part, &done) : EINVAL;
		*moved += done;
	}
	return err == 0;
}

/* What has been discarded of the place is discarded of what is to go there. */
struct filling {
	uint64_t to, from, bytes;
};

static void discard_source(void *arg, uint64_t addr, uint64_t bytes)
{
	const struct filling *f = arg;
	uint64_t begin = addr > f->to ? addr : f->to, end = addr + bytes;

	end = end < f->to + f->bytes ? end : f->to + f->bytes;
	if (begin < end)
		syscall(SYS_madvise, f->from + (begin - f->to), end - begin, MADV_DONTNEED);
}

/* A page that will not be moved is copied. Return: false: not now */
static bool copy_page(int fd, uint64_t to, uint64_t from)
{
	struct uffdio_copy c = {
		.dst = to, .src = from, .len = AV_PAGE_BYTES, .mode = UFFDIO_COPY_MODE_DONTWAKE};

	return ioctl(fd, UFFDIO_COPY, &c) == 0 || (errno != EAGAIN && errno != ENOMEM);
}

void av_hold_fill(int fd, int maps, uint64_t to, uint64_t from, uint64_t bytes)
{
	struct filling all = {to, from, bytes};

	for (uint64_t moved = 0; moved < bytes;) {
		uint64_t part = one_of_both(maps, to + moved, from + moved, bytes - moved),
			 done = 0;
		int err = part ? shift(fd, to + moved, from + moved, part, &done) : 0;

		moved += done;
		if (!part)
			moved += AV_PAGE_BYTES; /* the program has unmapped it */
		else if (err == EAGAIN)
			av_hold_events(fd, discard_source, &all);
		else if (err && copy_page(fd, to + moved, from + moved))
			moved += AV_PAGE_BYTES;
	}
}

/* --- replacing ------------------------------------------------------------------- */

static void *pointer(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

enum { STARTING, READY, GO, REPLACED, REFUSED };

static void await_not(const _Atomic int *state, int value)
{
	while (atomic_load(state) == value)
		sched_yield();
}

static void *mover_main(void *arg)
{
	struct av_hold_mover *m = arg;
	bool ok;

	atomic_store(&m->state, READY);
	await_not(&m->state, READY);
	if (atomic_load(&m->state) != GO)
		return NULL;
	ok = av_mremap(pointer(m->fresh), m->bytes, m->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		       pointer(m->addr)) != MAP_FAILED;
	atomic_store(&m->state, ok ? REPLACED : REFUSED);
	return NULL;
}

bool av_hold_mover_start(struct av_hold_mover *m)
{
	pthread_t thread;

	atomic_store(&m->state, STARTING);
	if (av_thread_start(&thread, "anyverbs-move", mover_main, m))
		return false;
	m->thread = thread;
	await_not(&m->state, STARTING);
	return true;
}

bool av_hold_replace(int fd, struct av_hold_mover *m, av_hold_discard *discard, void *arg)
{
	atomic_store(&m->state, GO);
	while (atomic_load(&m->state) == GO)
		if (next_event(fd, discard, arg) < 0)
			sched_yield();
	return atomic_load(&m->state) == REPLACED;
}

void av_hold_mover_end(struct av_hold_mover *m)
{
	int ready = READY;

	atomic_compare_exchange_strong(&m->state, &ready, REFUSED); /* it was never needed */
	pthread_join(m->thread, NULL);
}
