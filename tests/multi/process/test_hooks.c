/* SPDX-License-Identifier: MIT */
/*
 * What registration caches hear. Open MPI's and UCX's patch the C library's functions that take
 * memory away, and are called with locks held from within verbs; here the program defines these
 * functions. They must not be called for memory that stays, and must
 * be for memory that the library had allocated.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define EXPORT	__attribute__((visibility("default")))
#define BYTES	(64ul << 10)
#define MESSAGE 8192u

static _Thread_local bool listening; /* this thread is within a verb */
static const char *heard;	     /* the last of them that was called meanwhile */
static uintptr_t heard_at;
static size_t heard_bytes;

static void hook(const char *name, const void *at, size_t bytes)
{
	if (!listening)
		return;
	heard = name;
	heard_at = (uintptr_t)at;
	heard_bytes = bytes;
}

EXPORT int munmap(void *at, size_t bytes)
{
	hook("munmap", at, bytes);
	return (int)syscall(SYS_munmap, at, bytes);
}

EXPORT void *mremap(void *at, size_t old_bytes, size_t bytes, int flags, ...)
{
	va_list more;
	void *to;

	va_start(more, flags);
	to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	hook("mremap", at, old_bytes);
	return (void *)syscall(SYS_mremap, at, old_bytes, bytes, flags, to);
}

/* Caches look at those that overmap something. */
EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (flags & MAP_FIXED)
		hook("mmap", at, bytes);
	return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

/* And at advice that discards. The library has a madvise() of its own, for the program's calls. */
EXPORT int madvise(void *at, size_t bytes, int advice)
{
	if (advice == MADV_DONTNEED || advice == MADV_REMOVE || advice == MADV_FREE)
		hook("madvise", at, bytes);
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

static struct side a, b;

static void begin(void)
{
	heard = NULL;
	listening = true;
}

static void expect_silence(const char *verb)
{
	listening = false;
	EXPECT(!heard, "%s calls %s() of %zu bytes at 0x%lx", verb, heard ? heard : "", heard_bytes,
	       (unsigned long)heard_at);
}

static uint8_t *map_private(void)
{
	uint8_t *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		DIE("mmap: errno %d", errno);
	memset(p, 0x5a, BYTES);
	return p;
}

static void expect_reached(const uint8_t *p, const struct ibv_mr *mr)
{
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)p, mr->rkey, MESSAGE, IBV_WC_SUCCESS);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)p, mr->rkey, MESSAGE, IBV_WC_SUCCESS);
}

/* Register, reach, move the region to other memory, reach, deregister. */
static void region_row(const char *name)
{
	uint8_t *p = map_private(), *other = map_private();
	struct ibv_mr *mr;
	int ret;

	row("%s", name);
	begin();
	mr = ibv_reg_mr(a.node->pd, p, BYTES, PROBE_ALL);
	expect_silence("ibv_reg_mr");
	NEED(mr);
	expect_reached(p, mr);
	begin();
	ret = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, BYTES, 0);
	expect_silence("ibv_rereg_mr");
	EXPECT(ret == 0, "ibv_rereg_mr: %d", ret);
	expect_reached(other, mr);
	begin();
	ret = ibv_dereg_mr(mr);
	expect_silence("ibv_dereg_mr");
	EXPECT(ret == 0, "ibv_dereg_mr: %d", ret);
	EXPECT(p[BYTES - 1] == 0x5a && other[BYTES - 1] == 0x5a, "bytes have changed");
	munmap(p, BYTES);
	munmap(other, BYTES);
}

static void queues_row(void)
{
	struct node_qp_spec spec = spec_default();
	uint32_t qpn;
	int ret;

	row("queues");
	begin();
	ret = side_create_cq(&a, 3, 4096, false);
	ret = ret ? ret : side_create_qp(&a, 3, &spec, &qpn);
	expect_silence("creating");
	EXPECT(ret == 0, "creating: %d", ret);
	begin();
	ret = side_destroy_qp(&a, 3);
	ret = ret ? ret : side_destroy_cq(&a, 3);
	expect_silence("destroying");
	EXPECT(ret == 0, "destroying: %d", ret);
}

static void allocated_row(void)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = a.node->pd,
		.length = BYTES,
		.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_LOCAL_WRITE,
	};
	struct ibv_mr *mr;
	void *at;

	row("allocated memory");
	begin();
	mr = ibv_exp_reg_mr(&in);
	expect_silence("ibv_exp_reg_mr");
	NEED(mr);
	at = mr->addr;
	begin();
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	listening = false;
	EXPECT(heard && !strcmp(heard, "munmap") && heard_at == (uintptr_t)at &&
		       heard_bytes >= BYTES,
	       "nobody hears that it is gone");
}

static void *sit(void *go_on)
{
	pthread_mutex_lock(go_on);
	pthread_mutex_unlock(go_on);
	return NULL;
}

static void run(void)
{
	pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	pthread_t thread;

	region_row("alone");
	pthread_mutex_lock(&held);
	NEED(pthread_create(&thread, NULL, sit, &held) == 0);
	region_row("with threads");
	pthread_mutex_unlock(&held);
	pthread_join(thread, NULL);
	queues_row();
	allocated_row();
}

int main(int argc, char **argv)
{
	side_agent_main(argc, argv);
	time_limit(120);
#if defined(__SANITIZE_THREAD__)
	printf("SKIPPED: for ThreadSanitizer the library calls the C library's functions\n");
	return 77;
#endif
	sides_open(&a, &b);
	probe_open(&b, &a, 0);
	run();
	probe_close(&b, &a, 0);
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
