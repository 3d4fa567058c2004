/* SPDX-License-Identifier: MIT */
/*
 * Regions of tunneled atomics: how they are registered and re-registered, with the device's switch
 * on and off, and what else may be done with one than tunneled atomics.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "lib/newer_verbs.h"
#include "tunneled_fixture.h"

/* --- registering ----------------------------------------------------------------- */

static const struct {
	const char *name;
	uint64_t access;
	bool device;
	int want; /* with the switch on */
} reg_row[] = {
	{"alone", TUNNELED, false, EINVAL},
	{"REMOTE_WRITE without LOCAL_WRITE", TUNNELED | IBV_EXP_ACCESS_REMOTE_WRITE, false, EINVAL},
	{"LOCAL_WRITE", LOCAL, false, 0},
	{"LOCAL_WRITE and REMOTE_WRITE", LOCAL | IBV_EXP_ACCESS_REMOTE_WRITE, false, 0},
	{"all rights", RIGHTS | IBV_EXP_ACCESS_MW_BIND, false, 0},
	{"on demand", RIGHTS | IBV_EXP_ACCESS_ON_DEMAND, false, 0},
	{"a right that is unknown", RIGHTS | 1ull << 62, false, EINVAL},
	{"device memory", RIGHTS, true, EINVAL},
};

static void reg_rows(struct ibv_context *ctx, bool on)
{
	static uint8_t memory[2 * PAGE];
	struct ibv_exp_alloc_dm_attr alloc = {.length = PAGE};
	struct ibv_exp_dm *dm = ibv_exp_alloc_dm(ctx, &alloc);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);

	for (size_t i = 0; i < COUNT_OF(reg_row); i++) {
		struct ibv_exp_reg_mr_in in = {
			.pd = pd, .addr = memory, .length = PAGE, .exp_access = reg_row[i].access};
		int want = on ? reg_row[i].want : EINVAL;
		struct ibv_mr *mr;

		row("registering, switch %s: %s", on ? "on" : "off", reg_row[i].name);
		if (reg_row[i].device) {
			in.comp_mask = IBV_EXP_REG_MR_DM;
			in.dm = dm;
			in.addr = NULL;
		}
		errno = 0;
		mr = ibv_exp_reg_mr(&in);
		EXPECT(mr ? want == 0 : errno == want, "%p, errno %d", (void *)mr, errno);
		EXPECT(!mr || ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	EXPECT(ibv_exp_free_dm(dm) == 0 && ibv_dealloc_pd(pd) == 0, "the end");
}

/* No bit of the plain verbs means it. */
static void plain_reg_rows(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena, PAGE, IBV_ACCESS_LOCAL_WRITE);

	for (unsigned int bit = 10; bit < 32; bit++) {
		unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | 1u << bit;
		bool optional = access & IBV_ACCESS_OPTIONAL_RANGE;
		struct ibv_mr *one;

		row("ibv_reg_mr: bit %u", bit);
		errno = 0;
		one = ibv_reg_mr_iova2(n->pd, n->arena, PAGE, (uintptr_t)n->arena, access);
		EXPECT(optional ? one != NULL : !one && errno == EINVAL, "%p, errno %d",
		       (void *)one, errno);
		EXPECT(!one || ibv_dereg_mr(one) == 0, "ibv_dereg_mr");
		row("ibv_rereg_mr: bit %u", bit);
		EXPECT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)access) ==
			       optional,
		       "result");
	}
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* The right comes and goes with re-registration, and stays if that is of something else. */
static void rereg_rows(void)
{
	struct ibv_exp_reg_mr_in in = {.pd = n->pd,
				       .addr = n->arena,
				       .length = NODE_ARENA,
				       .exp_access = RIGHTS & ~(uint64_t)TUNNELED};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	struct target t = self("this process", mr->rkey);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct anyverbs_tunneled_atomic c = tunneled_command(&one, 0);

	put_commands(&c, 1);
	row("re-registered for tunneled atomics");
	side_poke(&a, BLOCK_AT, 41);
	EXPECT(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS, NULL) ==
		       0,
	       "refused");
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == SUCCESS &&
		       side_peek(&a, BLOCK_AT) == 42,
	       "value");
	row("re-registered elsewhere");
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, n->arena + BLOCK_AT, BLOCK,
			    0) == 0,
	       "refused");
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == SUCCESS &&
		       side_peek(&a, BLOCK_AT) == 43,
	       "value");
	row("re-registered without the right to write");
	EXPECT(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, TUNNELED,
				NULL) == EINVAL,
	       "accepted");
	row("re-registered without");
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) == 0,
	       "refused");
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == SUCCESS &&
		       memcmp(n->arena + BLOCK_AT, &c, COMMAND) == 0,
	       "not stored");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static struct ibv_mr *restless;
static atomic_bool rest;

static void *rereg_always(void *arg)
{
	uint64_t access = RIGHTS;

	while (!atomic_load(&rest)) {
		access ^= IBV_EXP_ACCESS_MW_BIND;
		NEED(ibv_exp_rereg_mr(restless, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      access, NULL) == 0);
	}
	return NULL;
}

/* A region that is re-registered all the while: no command is lost, and none done twice. */
static void restless_row(void)
{
	enum { PAYLOADS = TEST_SANITIZED ? 200 : 3000 };
	struct ibv_exp_reg_mr_in in = {
		.pd = n->pd, .addr = n->arena, .length = NODE_ARENA, .exp_access = RIGHTS};
	struct anyverbs_tunneled_atomic c[ANYVERBS_TUNNELED_MAX];
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct target t;
	pthread_t thread;

	row("a region that is being re-registered");
	restless = ibv_exp_reg_mr(&in);
	t = self("this process", restless->rkey);
	for (unsigned int i = 0; i < ANYVERBS_TUNNELED_MAX; i++)
		c[i] = tunneled_command(&one, 0);
	put_commands(c, ANYVERBS_TUNNELED_MAX);
	side_poke(&a, BLOCK_AT, 0);
	NEED(pthread_create(&thread, NULL, rereg_always, NULL) == 0);
	for (int i = 0; i < PAYLOADS; i++)
		EXPECT(write_payload(&t, WAY_WRITE, t.addr, sizeof(c)) == SUCCESS, "status");
	atomic_store(&rest, true);
	pthread_join(thread, NULL);
	EXPECT(side_peek(&a, BLOCK_AT) == PAYLOADS * ANYVERBS_TUNNELED_MAX, "%llu, not %u",
	       (unsigned long long)side_peek(&a, BLOCK_AT), PAYLOADS * ANYVERBS_TUNNELED_MAX);
	EXPECT(ibv_dereg_mr(restless) == 0, "ibv_dereg_mr");
}

static void caps_row(struct ibv_context *ctx, bool on)
{
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC,
					   .tunneled_atomic_caps = 0xee};

	row("tunneled_atomic_caps, switch %s", on ? "on" : "off");
	EXPECT(ibv_exp_query_device(ctx, &attr) == 0 &&
		       attr.comp_mask == IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC &&
		       attr.tunneled_atomic_caps == (on ? IBV_EXP_TUNNELED_ATOMIC_SUPPORTED : 0),
	       "0x%x", attr.tunneled_atomic_caps);
}

static void switched_off(void)
{
	struct ibv_context *ctx = node_open_device();

	caps_row(ctx, false);
	reg_rows(ctx, false);
	ibv_close_device(ctx);
}

/* --- what else is done with such a region ---------------------------------------- */

static void empty_rows(void)
{
	struct target t = peer("the other process", KIND_PLAIN);
	uint8_t block[BLOCK];

	blank(block);
	row("WRITE of length 0");
	set_block(&t, block);
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, 0) == SUCCESS, "status");
	row("WRITE of length 0 with immediate");
	EXPECT(write_payload(&t, WAY_IMM, t.addr, 0) == SUCCESS, "status");
	expect_block(&t, block);
}

static void other_operation_rows(void)
{
	uint64_t addr = b.info.base[KEY_FULL] + BLOCK_AT;

	row("READ");
	side_fill(&b, BLOCK_AT, BLOCK, PROBE_SEED, 0);
	EXPECT_PROBE(&a, &b, QP_PEER, IBV_WR_RDMA_READ, addr, rkey[KIND_PLAIN], BLOCK, SUCCESS);
	EXPECT(side_check(&a, PROBE_AT, BLOCK, PROBE_SEED, 0) == -1, "payload");
	row("FETCH_AND_ADD");
	side_poke(&b, BLOCK_AT, 41);
	EXPECT_PROBE(&a, &b, QP_PEER, IBV_WR_ATOMIC_FETCH_AND_ADD, addr, rkey[KIND_PLAIN], 8,
		     SUCCESS);
	EXPECT(side_peek(&b, BLOCK_AT) == 42 && side_peek(&a, PROBE_AT) == 41, "values");
	row("ATOMIC_WRITE");
	side_poke(&a, PROBE_AT, 99);
	EXPECT_PROBE(&a, &b, QP_PEER, WR_ATOMIC_WRITE, addr, rkey[KIND_PLAIN], 8, SUCCESS);
	EXPECT(side_peek(&b, BLOCK_AT) == 99, "value");
}

/* To its own process it is memory like any other: it receives, and is the source and destination of
 * requests.
 */
static void local_row(void)
{
	struct node_recv r = {.wr_id = 1,
			      .num_sge = 1,
			      .sge = {{.addr = (uintptr_t)n->arena + BLOCK_AT,
				       .length = BLOCK,
				       .lkey = made[KIND_PLAIN]->lkey}}};
	struct node_send s = side_message(side_sge(&b, KEY_FULL, BLOCK_AT, BLOCK));
	struct ibv_wc wc;

	row("SEND to it");
	side_fill(&b, BLOCK_AT, BLOCK, PROBE_SEED, 0);
	EXPECT(side_post_recv(&a, QP_PEER, &r, 1).ret == 0 &&
		       side_post_send(&b, QP_PEER, &s, 1).ret == 0,
	       "posting");
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS, "sent");
	EXPECT(side_poll(&a, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS, "received");
	EXPECT(side_check(&a, BLOCK_AT, BLOCK, PROBE_SEED, 0) == -1, "payload");
	row("READ into it, and WRITE from it");
	s.opcode = IBV_WR_RDMA_WRITE;
	s.sge[0] = r.sge[0];
	s.remote_addr = b.info.base[KEY_FULL] + BLOCK_AT;
	s.rkey = b.info.key[KEY_FULL];
	side_fill(&b, BLOCK_AT, BLOCK, 0, 0);
	EXPECT(probe_request(&a, &b, QP_PEER, &s) == SUCCESS, "WRITE");
	EXPECT(side_check(&b, BLOCK_AT, BLOCK, PROBE_SEED, 0) == -1, "payload of the WRITE");
	side_fill(&b, BLOCK_AT, BLOCK, PROBE_SEED + 1, 0);
	s.opcode = IBV_WR_RDMA_READ;
	EXPECT(probe_request(&a, &b, QP_PEER, &s) == SUCCESS, "READ");
	EXPECT(side_check(&a, BLOCK_AT, BLOCK, PROBE_SEED + 1, 0) == -1, "payload of the READ");
}

static void run(void)
{
	caps_row(n->ctx, true);
	reg_rows(n->ctx, true);
	plain_reg_rows();
	empty_rows();
	other_operation_rows();
	local_row();
	rereg_rows();
	restless_row();
}

int main(int argc, char **argv)
{
	return tunneled_test(argc, argv, switched_off, run);
}
