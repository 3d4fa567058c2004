/* SPDX-License-Identifier: MIT */
/*
 * Memory that the library allocated is reached through mappings: by a process that may not read or
 * write the owner's memory by system calls, whole words at a time, and atomically together with the
 * owner's own instructions.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/refuse_call.h"
#include "lib/sandbox.h"
#include "lib/spawn.h"

#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)
#define ALLOCATE (RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR)
#define BY_USER	 (IBV_EXP_ACCESS_SHARED_MR_USER_READ | IBV_EXP_ACCESS_SHARED_MR_USER_WRITE)
#define SHARE	 (ALLOCATE | BY_USER)
#define MB	 (1ul << 20)
#define BARRIER	 "TEST_BARRIER"
#define WORD	 "--creator"
#define ADDS	 2000u

static struct side a,
	b; /* the regions are a's, in this process; b, in another, may make no such calls */

static struct ibv_mr *reg(struct ibv_pd *pd, size_t length, uint64_t access)
{
	struct ibv_exp_reg_mr_in in = {.pd = pd, .length = length, .exp_access = access};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);

	NEED(mr);
	return mr;
}

/* Of a third process: a shared region, then nothing until it is killed. */
static void creator_main(int sock)
{
	struct ibv_context *ctx = node_open_device();
	struct ibv_mr *mr = reg(ibv_alloc_pd(ctx), MB, SHARE);

	spawn_send(sock, &mr->handle, sizeof(mr->handle));
	for (;;)
		pause();
}

static void traffic(const struct ibv_mr *mr)
{
	uint64_t *word = mr->addr;

	side_fill(&b, PROBE_AT, 65536, PROBE_SEED, 0);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr + 100, mr->rkey, 65536,
		     IBV_WC_SUCCESS);
	EXPECT(pattern_check((uint8_t *)mr->addr + 100, 65536, PROBE_SEED, 0) == -1,
	       "bytes of the WRITE");
	pattern_fill(mr->addr, mr->length, 3, 0);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr + mr->length - 5000, mr->rkey,
		     5000, IBV_WC_SUCCESS);
	EXPECT(side_check(&b, PROBE_AT, 5000, 3, mr->length - 5000) == -1, "bytes of the READ");
	*word = 5;
	EXPECT_PROBE(&b, &a, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, (uintptr_t)word, mr->rkey, 8,
		     IBV_WC_SUCCESS);
	EXPECT(*word == 6 && side_peek(&b, PROBE_AT) == 5, "%llu", (unsigned long long)*word);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, (uintptr_t)mr->addr + mr->length - 8, mr->rkey, 9,
		     IBV_WC_REM_ACCESS_ERR);
}

static void reach_rows(void)
{
	static const struct {
		const char *name, *type;
		size_t length;
		bool mapped;
	} rows[] = {
		{"small pages", "ALL", 128 << 10, true},
		{"huge pages", "ALL", 4 * MB, true},
		{"private memory", "ANON", 128 << 10, false},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct ibv_mr *mr;

		row("no system calls: %s", rows[i].name);
		setenv("MLX_MR_ALLOC_TYPE", rows[i].type, 1);
		mr = reg(a.node->pd, rows[i].length, ALLOCATE);
		unsetenv("MLX_MR_ALLOC_TYPE");
		if (rows[i].mapped)
			traffic(mr);
		else
			EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_WRITE, (uintptr_t)mr->addr, mr->rkey,
				     64, IBV_WC_REM_OP_ERR);
		EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	}
}

/* On another's pages; b sees the region before its creator is killed, or only afterwards. */
static void second_rows(bool seen_before)
{
	struct ibv_exp_reg_shared_mr_in in = {.pd = a.node->pd, .exp_access = RIGHTS};
	struct spawned creator;
	struct ibv_mr *mr;

	row("no system calls: another's pages, %s",
	    seen_before ? "seen before it died" : "seen only afterwards");
	spawn_self(&creator, WORD);
	spawn_receive(creator.sock, &in.mr_handle, sizeof(in.mr_handle));
	mr = ibv_exp_reg_shared_mr(&in);
	if (!EXPECT(mr != NULL, "errno %d", errno)) {
		spawn_kill(&creator);
		return;
	}
	if (seen_before)
		traffic(mr);
	spawn_kill(&creator);
	traffic(mr);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

/* b adds by RDMA while this process adds by the processor: none is lost. */
static uint64_t add(struct node *n, const struct side_job *job)
{
	for (uint64_t i = 0; i < job->arg[2]; i++) {
		struct ibv_sge sge = {
			.addr = (uintptr_t)n->arena, .length = 8, .lkey = n->info.lkey[KEY_FULL]};
		struct ibv_send_wr *bad, wr = {.sg_list = &sge,
					       .num_sge = 1,
					       .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					       .send_flags = IBV_SEND_SIGNALED};
		struct ibv_wc wc;

		wr.wr.atomic.remote_addr = job->arg[0];
		wr.wr.atomic.rkey = (uint32_t)job->arg[1];
		wr.wr.atomic.compare_add = 1;
		if (ibv_post_send(n->qp[0], &wr, &bad) ||
		    node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1 || wc.status)
			return i;
	}
	return job->arg[2];
}

static void atomic_row(void)
{
	struct ibv_mr *mr = reg(a.node->pd, 4096, ALLOCATE);
	_Atomic uint64_t *word = mr->addr;
	const struct side_job job = {.arg = {(uintptr_t)mr->addr, mr->rkey, ADDS}};
	uint64_t own = 0;

	row("atomics of a peer and of the processor at the same time");
	side_begin(&b, &job);
	for (; own < 50 * ADDS; own++)
		atomic_fetch_add(word, 1);
	EXPECT(side_end(&b) == ADDS, "not all were done");
	EXPECT(atomic_load(word) == own + ADDS, "%llu, not %llu",
	       (unsigned long long)atomic_load(word), (unsigned long long)(own + ADDS));
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
}

int main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, WORD);

	if (getenv(BARRIER))
		refuse_memory_of_others();
	if (sock >= 0)
		creator_main(sock);
	side_work = add;
	sides_begin(argc, argv, 200);
	setenv("ANYVERBS_TRANSPORT", "direct", 1); /* nor by packets */
	side_open(&a, NULL);
	setenv(BARRIER, "1", 1);
	side_start(&b);
	unsetenv(BARRIER);
	probe_open(&b, &a, 0);
	reach_rows();
	second_rows(false);
	second_rows(true);
	atomic_row();
	probe_close(&b, &a, 0);
	side_stop(&b);
	side_stop(&a);
	return sandbox_end();
}
