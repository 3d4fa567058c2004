/* SPDX-License-Identifier: MIT */
/*
 * Memory that the library allocates: every way to ask for it and every refusal, that its bytes are
 * there for everybody who has the key, re-registration to and from it, and that it goes again.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exp/allocate_fixture.h"
#include "lib/apart.h"
#include "lib/expect.h"
#include "lib/page_backing.h"
#include "lib/pattern.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define ROUNDS (TEST_SANITIZED ? 100 : 1000)
#define PLACE  ((void *)(APART_AT + 16 * MB))

/* --- the ways to ask ------------------------------------------------------------- */

static void ask_rows(void)
{
	static uint8_t own[8192];
	const struct {
		const char *name;
		void *addr;
		size_t length;
		uint64_t access;
		bool contig;
		int want;
	} rows[] = {
		{"allocated", NULL, 8192, ALLOCATE, false, 0},
		{"one byte", NULL, 1, ALLOCATE, false, 0},
		{"an odd length", NULL, 3 * MB + 5, ALLOCATE, false, 0},
		{"local writing only", NULL, 8192,
		 IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_ALLOCATE_MR, false, 0},
		{"no rights", NULL, 8192, IBV_EXP_ACCESS_ALLOCATE_MR, false, 0},
		{"for windows", NULL, 8192, ALLOCATE | IBV_EXP_ACCESS_MW_BIND, false, 0},
		{"contiguous", NULL, 8192, RIGHTS, true, 0},
		{"contiguous, in a place", PLACE, 8192, RIGHTS, true, 0},
		{"contiguous, huge, in a place", PLACE, 4 * MB, RIGHTS, true, 0},
		{"contiguous, in a place between pages", (uint8_t *)PLACE + 8, 8192, RIGHTS, true,
		 EINVAL},
		{"contiguous, in a place that is taken", (void *)((uintptr_t)own & ~4095ul), 8192,
		 RIGHTS, true, EEXIST},
		{"allocated, with an address", own, 8192, ALLOCATE, false, EINVAL},
		{"allocated and contiguous", NULL, 8192, ALLOCATE, true, EINVAL},
		{"length 0", NULL, 0, ALLOCATE, false, EINVAL},
		{"contiguous, length 0", NULL, 0, RIGHTS, true, EINVAL},
		{"length SIZE_MAX", NULL, SIZE_MAX, ALLOCATE, false, EINVAL},
		{"on demand", NULL, 8192, ALLOCATE | IBV_EXP_ACCESS_ON_DEMAND, false, EINVAL},
		{"contiguous, on demand", NULL, 8192, RIGHTS | IBV_EXP_ACCESS_ON_DEMAND, true,
		 EINVAL},
		{"zero based", NULL, 8192, ALLOCATE | IBV_EXP_ACCESS_MW_ZERO_BASED, false, EINVAL},
		{"remote writing alone", NULL, 8192,
		 IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_ALLOCATE_MR, false, EINVAL},
		{"relaxed", NULL, 8192, ALLOCATE | IBV_EXP_ACCESS_RELAXED, false, EINVAL},
		{"physical", NULL, 8192, ALLOCATE | IBV_EXP_ACCESS_PHYSICAL_ADDR, false, EINVAL},
		{"mapped only, not shared", NULL, 8192, ALLOCATE | IBV_EXP_ACCESS_NO_RDMA, false,
		 EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr;
		uint8_t *at;

		row("memory that comes with the region: %s", rows[i].name);
		mr = reg(rows[i].addr, rows[i].length, rows[i].access, rows[i].contig);
		EXPECT(rows[i].want ? !mr && errno == rows[i].want : mr != NULL, "%p, errno %d",
		       (void *)mr, errno);
		if (!mr)
			continue;
		at = mr->addr;
		EXPECT(at && (uintptr_t)at % 4096 == 0 && mr->length == rows[i].length,
		       "%p, %zu bytes", mr->addr, mr->length);
		EXPECT(!rows[i].addr || at == rows[i].addr, "at %p", mr->addr);
		EXPECT(at[0] == 0 && at[rows[i].length - 1] == 0, "not zeroed");
		pattern_fill(at, rows[i].length, i, 0);
		EXPECT(pattern_check(at, rows[i].length, i, 0) == -1, "bytes");
		dereg(mr);
		EXPECT(!pages_mapped(at), "still mapped at %p", (void *)at);
	}
}

/* --- bytes ----------------------------------------------------------------------- */

/* Traffic from and to another process, on memory of each kind. */
static void traffic_rows(void)
{
	static const struct {
		const char *type;
		size_t length;
	} rows[] = {{"ANON", 8192},
		    {"ANON", 4 * MB},
		    {"ALL", 8192},
		    {"ALL", 5 * MB + 77},
		    {"HUGE", 8192}};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t *word;
		struct ibv_mr *mr;
		uint32_t rkey;
		uint32_t bytes = rows[i].length < 65536 ? (uint32_t)rows[i].length : 65536;
		uint8_t *end;

		row("another process writes, reads and adds: type %s, %zu bytes", rows[i].type,
		    rows[i].length);
		set("MR", "ALLOC_TYPE", rows[i].type);
		mr = reg(NULL, rows[i].length, ALLOCATE, false);
		set("MR", "ALLOC_TYPE", NULL);
		if (!mr) {
			EXPECT(!have_huge && errno == ENOMEM, "errno %d", errno);
			continue;
		}
		end = (uint8_t *)mr->addr + rows[i].length;
		side_fill(&b, PROBE_AT, bytes, PROBE_SEED, 0);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)end - bytes, mr->rkey, bytes,
			     IBV_WC_SUCCESS);
		EXPECT(pattern_check(end - bytes, bytes, PROBE_SEED, 0) == -1,
		       "bytes of the WRITE");
		pattern_fill(mr->addr, bytes, i, 0);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, bytes,
			     IBV_WC_SUCCESS);
		EXPECT(side_check(&b, PROBE_AT, bytes, i, 0) == -1, "bytes of the READ");
		word = mr->addr;
		*word = 41;
		EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)word, mr->rkey, 8,
			     IBV_WC_SUCCESS);
		EXPECT(*word == 42 && side_peek(&b, PROBE_AT) == 41, "%llu",
		       (unsigned long long)*word);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)end - 8, mr->rkey, 9,
			     IBV_WC_REM_ACCESS_ERR);
		EXPECT_PROBE(&a, &b, 0, IBV_WR_RDMA_WRITE, b.info.base[KEY_FULL],
			     b.info.key[KEY_FULL], 64, IBV_WC_SUCCESS);
		rkey = mr->rkey;
		dereg(mr);
		EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)word, rkey, 8,
			     IBV_WC_REM_ACCESS_ERR);
	}
}

/* --- re-registration ------------------------------------------------------------- */

enum { T = 1, P = 2, A = 4 };

static void rereg_rows(void)
{
	static uint8_t own[8192] __attribute__((aligned(4096)));
	const struct {
		const char *name;
		uint64_t first; /* rights of the region before */
		int flags;
		bool into_own; /* the address is inside its own memory */
		void *addr;
		size_t length;
		uint64_t access;
		int want;
	} rows[] = {
		{"plain to allocated", RIGHTS, T | A, false, NULL, 3 * MB, ALLOCATE, 0},
		{"plain to allocated, rights stay", RIGHTS, T, false, NULL, 8192, ALLOCATE, 0},
		{"plain to allocated, all changes", RIGHTS, T | P | A, false, NULL, 8192, ALLOCATE,
		 0},
		{"allocated to allocated", ALLOCATE, T, false, NULL, 3 * MB,
		 IBV_EXP_ACCESS_ALLOCATE_MR, 0},
		{"allocated to plain", ALLOCATE, T, false, own, 8192, 0, 0},
		{"allocated to plain, less rights", ALLOCATE, T | A, false, own, 8192, 0, 0},
		{"allocated, other domain", ALLOCATE, P, false, NULL, 0, 0, 0},
		{"allocated, less rights", ALLOCATE, A, false, NULL, 0, IBV_EXP_ACCESS_REMOTE_READ,
		 0},
		{"allocated, more rights", IBV_EXP_ACCESS_ALLOCATE_MR, A, false, NULL, 0, RIGHTS,
		 0},
		{"allocate without translation", RIGHTS, A, false, NULL, 8192, ALLOCATE, EINVAL},
		{"allocate nothing", RIGHTS, P, false, NULL, 8192, ALLOCATE, EINVAL},
		{"allocate at an address", RIGHTS, T | A, false, own, 8192, ALLOCATE, EINVAL},
		{"allocate length 0", RIGHTS, T | A, false, NULL, 0, ALLOCATE, EINVAL},
		{"allocate SIZE_MAX", RIGHTS, T | A, false, NULL, SIZE_MAX, ALLOCATE, EINVAL},
		{"allocate on demand", RIGHTS, T | A, false, NULL, 8192,
		 ALLOCATE | IBV_EXP_ACCESS_ON_DEMAND, EINVAL},
		{"on demand to allocated", RIGHTS | IBV_EXP_ACCESS_ON_DEMAND, T, false, NULL, 8192,
		 ALLOCATE, EINVAL},
		{"allocated to on demand", ALLOCATE, A, false, NULL, 0,
		 RIGHTS | IBV_EXP_ACCESS_ON_DEMAND, EINVAL},
		{"allocated to plain on demand", ALLOCATE, T | A, false, own, 8192,
		 RIGHTS | IBV_EXP_ACCESS_ON_DEMAND, EOPNOTSUPP},
		{"allocate and share", RIGHTS, T | A, false, NULL, 8192,
		 ALLOCATE | IBV_EXP_ACCESS_SHARED_MR_USER_READ, EINVAL},
		{"address NULL", ALLOCATE, T, false, NULL, 8192, 0, EINVAL},
		{"onto its own memory", ALLOCATE, T, true, NULL, 4096, 0, EFAULT},
		{"keep valid", ALLOCATE, T | 8, false, own, 8192, 0, ENOTSUP},
		{"unknown flag", ALLOCATE, 16, false, own, 8192, 0, EINVAL},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		bool was_allocated = rows[i].first & IBV_EXP_ACCESS_ALLOCATE_MR;
		struct ibv_mr *mr;
		uint8_t *old;
		void *addr;
		int ret;

		row("ibv_exp_rereg_mr, %s", rows[i].name);
		mr = reg(was_allocated ? NULL : own, 8192, rows[i].first, false);
		if (!EXPECT(mr != NULL, "errno %d", errno))
			continue;
		old = mr->addr;
		addr = rows[i].into_own ? old : rows[i].addr;
		pattern_fill(old, 8192, i, 0);
		errno = 0;
		ret = ibv_exp_rereg_mr(mr, rows[i].flags, a.node->other_pd, addr, rows[i].length,
				       rows[i].access, NULL);
		EXPECT(ret == rows[i].want && (ret == 0 || errno == ret), "returned %d, errno %d",
		       ret, errno);
		if (ret || !(rows[i].flags & T)) {
			EXPECT(mr->addr == old && mr->length == 8192, "moved");
			EXPECT(pattern_check(old, 8192, i, 0) == -1, "bytes");
		} else {
			EXPECT(mr->length == rows[i].length && (!addr || mr->addr == addr),
			       "not moved");
			EXPECT(!was_allocated || !pages_mapped(old), "the old memory stays");
			memset(mr->addr, 1, mr->length);
		}
		EXPECT(mr->pd == (!ret && (rows[i].flags & P) ? a.node->other_pd : pd), "domain");
		if (ret == 0 && !(rows[i].flags & P)) {
			uint64_t rights = rows[i].flags & A ? rows[i].access : rows[i].first;

			EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 64,
				     rights & IBV_EXP_ACCESS_REMOTE_READ ? IBV_WC_SUCCESS
									 : IBV_WC_REM_ACCESS_ERR);
			EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mr->rkey,
				     64,
				     rights & IBV_EXP_ACCESS_REMOTE_WRITE ? IBV_WC_SUCCESS
									  : IBV_WC_REM_ACCESS_ERR);
		}
		old = mr->addr;
		dereg(mr);
		EXPECT(old == own || !pages_mapped(old), "mapped after its end");
	}
}

/* --- lives ----------------------------------------------------------------------- */

static void leak_row(void)
{
	size_t before = 0, segment = 0, lowest[2] = {SIZE_MAX, SIZE_MAX};
	unsigned int open = 0;

	row("%d rounds of allocating leave nothing", ROUNDS);
	for (int i = 0; i < ROUNDS; i++) {
		size_t length = i % 50 == 49 ? 3 * MB : (size_t)4096 * (1 + (size_t)i % 7);
		struct ibv_mr *one = reg(NULL, length, ALLOCATE, false),
			      *two = reg(NULL, 4096, ALLOCATE, false);

		if (!EXPECT(one && two, "errno %d in round %d", errno, i))
			break;
		EXPECT(*(uint64_t *)one->addr == 0 && *(uint64_t *)two->addr == 0, "old bytes");
		*(uint64_t *)one->addr = *(uint64_t *)two->addr = UINT64_MAX;
		if (pages_offset(one->addr) < lowest[i > ROUNDS / 2])
			lowest[i > ROUNDS / 2] = pages_offset(one->addr);
		dereg(i % 2 ? one : two);
		dereg(i % 2 ? two : one);
		if (i == ROUNDS / 2) { /* tables have the size they need by now */
			before = pages_vm_size();
			open = open_descriptors();
			segment = segment_bytes(getpid());
		}
	}
	/* The heap's own pages aside; a page lost in each round would be 2 MiB and more. */
	EXPECT(TEST_SANITIZED || pages_vm_size() <= before + MB, "%zu bytes of address space more",
	       pages_vm_size() - before);
	EXPECT(lowest[1] >= lowest[0], "pages are taken ever further down: 0x%zx, 0x%zx", lowest[0],
	       lowest[1]);
	EXPECT(open_descriptors() == open, "%u descriptors, not %u", open_descriptors(), open);
	EXPECT(segment_bytes(getpid()) <= segment, "%zu bytes of the segment more",
	       segment_bytes(getpid()) - segment);
}

/* Threads that allocate at the same time: nobody has another's bytes. Return: NULL if all was well
 */
static void *allocate_many(void *arg)
{
	uint64_t me = (uintptr_t)arg;

	for (uint64_t i = 0; i < ROUNDS / 5; i++) {
		struct ibv_exp_reg_mr_in in = {
			.pd = pd, .length = 4096 * (1 + (me * 7 + i) % 40), .exp_access = ALLOCATE};
		struct ibv_mr *mr = ibv_exp_reg_mr(&in);
		bool fresh, good;

		if (!mr)
			return arg;
		fresh = *(uint64_t *)mr->addr == 0;
		pattern_fill(mr->addr, mr->length, me * 1000 + i, 0);
		good = pattern_check(mr->addr, mr->length, me * 1000 + i, 0) == -1;
		if (ibv_dereg_mr(mr) || !fresh || !good)
			return arg;
	}
	return NULL;
}

static void threads_row(void)
{
	pthread_t thread[4];
	void *failed;

	row("four threads allocate at the same time");
	for (uintptr_t i = 0; i < COUNT_OF(thread); i++)
		NEED(pthread_create(&thread[i], NULL, allocate_many, (void *)(i + 1)) == 0);
	for (size_t i = 0; i < COUNT_OF(thread); i++)
		EXPECT(pthread_join(thread[i], &failed) == 0 && !failed, "thread %zu", i);
}

/* A child has the memory, and dropping its region there takes nothing from the parent. */
static void fork_row(void)
{
	struct ibv_mr *mr = reg(NULL, 3 * MB, ALLOCATE, false);
	int status = 1;
	pid_t child;
	uint8_t *at;

	row("a child of fork() drops the region");
	if (!EXPECT(mr != NULL, "errno %d", errno))
		return;
	at = mr->addr;
	pattern_fill(at, 3 * MB, 5, 0);
	child = fork();
	if (child == 0)
		_exit(pattern_check(at, 3 * MB, 5, 0) != -1 || ibv_dereg_mr(mr) ||
		      pages_mapped(at));
	EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0,
	       "child: status 0x%x", status);
	EXPECT(pattern_check(mr->addr, 3 * MB, 5, 0) == -1, "bytes");
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr, mr->rkey, 4096,
		     IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 4096, 5, 0) == -1, "bytes of the READ");
	dereg(mr);
}

/* What was not deregistered goes with the context. */
static void close_row(void)
{
	struct ibv_context *other = node_open_device();
	struct ibv_exp_reg_mr_in in = {
		.pd = ibv_alloc_pd(other), .length = 3 * MB, .exp_access = ALLOCATE};
	struct ibv_mr *mr = in.pd ? ibv_exp_reg_mr(&in) : NULL;
	uint8_t *at = mr ? mr->addr : NULL;

	row("closing the device frees what was not deregistered");
	EXPECT(mr && pages_mapped(at), "errno %d", errno);
	EXPECT(ibv_close_device(other) == 0, "ibv_close_device");
	EXPECT(!pages_mapped(at), "still mapped");
	free(mr); /* the program's leak otherwise */
	free(in.pd);
}

/* More than the segment has: falls back, or fails if it must not. */
static void large_row(void)
{
	const size_t length = 16ul << 30;
	struct ibv_mr *mr;

	row("more than a segment has room for");
	set("MR", "ALLOC_TYPE", "CONTIG");
	mr = reg(NULL, length, ALLOCATE, false);
	set("MR", "ALLOC_TYPE", NULL);
	EXPECT(!mr && errno == ENOMEM, "%p, errno %d", (void *)mr, errno);
	if (mr)
		dereg(mr);
}

int main(int argc, char **argv)
{
	sides_begin(argc, argv, 200);
	fixture_open();
	side_start(&b);
	probe_open(&b, &a, 0);
	ask_rows();
	traffic_rows();
	rereg_rows();
	leak_row();
	threads_row();
	fork_row();
	close_row();
	large_row();
	probe_close(&b, &a, 0);
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
