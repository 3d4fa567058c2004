/* SPDX-License-Identifier: MIT */
#include "rereg_fixture.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/flood.h"

struct node *n;
struct ibv_pd *foreign_pd;
uint8_t *holes;

struct state state_old(void)
{
	return (struct state){n->pd, n->arena + OLD_AT, OLD_LEN, PROBE_ALL};
}

struct ibv_mr *region(const struct state *s)
{
	struct ibv_mr *mr = ibv_reg_mr(s->pd, s->addr, s->length, s->access);

	NEED(mr);
	return mr;
}

static bool protects(const struct ibv_pd *pd)
{
	return pd == n->other_pd;
}

static uint64_t key_address(const struct state *s, uint64_t offset)
{
	return s->access & IBV_ACCESS_ZERO_BASED ? offset : (uintptr_t)s->addr + offset;
}

static void expect_at(const struct ibv_mr *mr, const struct state *s, uint64_t offset, bool inside)
{
	static const struct {
		enum ibv_wr_opcode op;
		unsigned int needs;
	} ops[] = {
		{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
		{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC},
	};

	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		bool good = inside && !protects(s->pd) && (s->access & ops[i].needs);
		enum ibv_wc_status want = good ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;

		if (inside && i == 0)
			memset(s->addr + offset, 0, 8);
		EXPECT_PROBE(&b, &a, 0, ops[i].op, key_address(s, offset), mr->rkey, 8, want);
		if (inside && i == 0)
			EXPECT((pattern_check(s->addr + offset, 8, PROBE_SEED, 0) == -1) == good,
			       "bytes at %lu of %zu", offset, s->length);
	}
}

void expect_fields(const struct ibv_mr *mr, const struct state *s, const struct ibv_mr *before)
{
	EXPECT(mr->pd == s->pd, "field pd");
	EXPECT(mr->addr == s->addr && mr->length == s->length, "field addr %p, length %zu",
	       mr->addr, mr->length);
	EXPECT(mr->lkey == before->lkey && mr->rkey == before->rkey &&
		       mr->handle == before->handle && mr->context == before->context,
	       "keys, handle or context changed");
}

void expect_state(const struct ibv_mr *mr, const struct state *s)
{
	expect_at(mr, s, 0, true);
	expect_at(mr, s, (s->length - 8) & ~7ul, true);
	expect_at(mr, s, (s->length & ~7ul) + 8, false);
}

void expect_dereg(struct ibv_mr *mr, const struct state *s)
{
	uint32_t rkey = mr->rkey;

	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr: errno %d", errno);
	EXPECT_PROBE(&b, &a, 0, IBV_WR_RDMA_READ, key_address(s, 0), rkey, 8,
		     IBV_WC_REM_ACCESS_ERR);
}

static struct ibv_pd *pd_of(enum pd_arg arg)
{
	struct ibv_pd *pd[] = {NULL, n->pd, n->other_pd, foreign_pd};

	return pd[arg];
}

static uint8_t *address_of(enum at_arg arg)
{
	uint8_t *at[] = {NULL,
			 n->arena + NEW_AT,
			 n->arena + OLD_AT,
			 holes,
			 holes + PAGE,
			 holes + 2 * PAGE,
			 holes - PAGE,
			 (uint8_t *)(uintptr_t)(UINT64_MAX - 100)};

	return at[arg];
}

int call(struct ibv_mr *mr, const struct args *args)
{
	errno = 0;
	return ibv_rereg_mr(mr, args->flags, pd_of(args->pd), address_of(args->at), args->length,
			    (int)args->access);
}

void expect_refused(struct ibv_mr *mr, const struct args *args, int want, int error, int error2)
{
	int ret = call(mr, args), err = errno;

	EXPECT(ret == want, "returned %d, not %d", ret, want);
	EXPECT(err == error || (error2 && err == error2), "errno %d, not %d", err, error);
}

const char *flags_name(int flags)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s%s%s%s", flags & TRANSLATION ? "TRANSLATION " : "",
		 flags & PD ? "PD " : "", flags & ACCESS ? "ACCESS " : "",
		 flags ? "" : "no flags ");
	return text;
}

static void make_holes(void)
{
	void *lonely = (void *)0x200000000000; /* a hole where nobody else's mappings come to lie */

	holes = mmap(lonely, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (holes == MAP_FAILED)
		DIE("mmap");
	holes += PAGE; /* one ordinary page before the gap */
	memset(holes, 0, 5 * PAGE);
	mprotect(holes + PAGE, PAGE, PROT_READ);
	mprotect(holes + 2 * PAGE, PAGE, PROT_NONE);
	munmap(holes, PAGE);
}

int rereg_test(int argc, char **argv, void (*run)(void))
{
	struct ibv_context *other;

	flood_agent_main(argc, argv);
	two_sides_open(argc, argv);
	n = a.node;
	other = node_open_device();
	foreign_pd = ibv_alloc_pd(other);
	make_holes();
	probe_open(&b, &a, 0);
	run();
	probe_close(&b, &a, 0);
	ibv_dealloc_pd(foreign_pd);
	ibv_close_device(other);
	return two_sides_close();
}
