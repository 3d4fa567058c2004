/* SPDX-License-Identifier: MIT */
/* What only the experimental verbs can ask for. */
#include <errno.h>
#include <string.h>

#include "lib/exp_objects.h"
#include "lib/expect.h"
#include "lib/extended.h"
#include "recorder.h"

#define PATIENCE 20000u
#define RIGHTS \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ)

static struct node *n;

static void expect(const char *name, enum av_check check, enum av_flight_kind kind, int value)
{
	const struct seed seed = {name, check, kind, ANY, ANY};
	struct av_flight_record r;

	if (recorder_find(&seed, &r))
		EXPECT((kind == AV_FLIGHT_REFUSAL ? r.error : r.status) == value,
		       "error %d status %u", r.error, r.status);
}

static struct ibv_mr *reg(uint64_t access)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = n->pd, .addr = n->arena, .length = 4096, .exp_access = access};

	if (access & IBV_EXP_ACCESS_ALLOCATE_MR)
		in.addr = NULL;
	return ibv_exp_reg_mr(&in);
}

static void seed_regions(void)
{
	struct ibv_mr *mr;

	row("experimental: tunneled atomics, not writable");
	recorder_begin();
	EXPECT_NULL(reg(IBV_EXP_ACCESS_TUNNELED_ATOMIC), EINVAL);
	expect("tunneled, not writable", AV_CHECK_MR_TUNNELED, AV_FLIGHT_REFUSAL, EINVAL);

	row("experimental: re-register onto memory that goes");
	mr = reg(RIGHTS | IBV_EXP_ACCESS_ALLOCATE_MR);
	recorder_begin();
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mr->addr, 4096, 0) &&
		       errno == EFAULT,
	       "errno %d", errno);
	expect("re-registered onto itself", AV_CHECK_REREG_OVERLAP, AV_FLIGHT_REFUSAL, EFAULT);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static enum ibv_wc_status post(int qp, struct ibv_exp_send_wr *wr)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
	struct ibv_exp_send_wr *bad;

	wr->exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	EXPECT(ibv_exp_post_send(n->qp[qp], wr, &bad) == 0, "ibv_exp_post_send");
	EXPECT(node_poll(n, 0, 1, PATIENCE, &wc) == 1, "no completion");
	return wc.status;
}

static void connect_own(int qp)
{
	if (!n->qp[2]) {
		struct node_qp_spec spec = spec_default();

		NEED(node_create_qp(n, 2, &spec) == 0);
	}
	pair_connect(&a, qp, NULL, &a, 2, NULL);
}

static void disconnect_own(int qp)
{
	struct node_event e;

	pair_destroy(&a, qp, &a, 2);
	do
		e = node_async(n, 0);
	while (e.any);
}

static void seed_atomics(void)
{
	struct av_atomic atomic = {.op = AV_ATOMIC_ADD, .bytes = 16};
	struct ibv_sge sge = {(uintptr_t)n->arena, 16, n->info.lkey[KEY_FULL]};
	struct ibv_mr *mr = reg(RIGHTS | IBV_EXP_ACCESS_TUNNELED_ATOMIC);
	struct ibv_exp_send_wr wr, *bad;

	row("experimental: operands too long");
	NEED(extended_create_qp(n, 0, IBV_QPT_RC, 8) == 0);
	connect_own(0);
	extended_request(&wr, &atomic, true, (uintptr_t)n->arena, n->info.key[KEY_FULL], &sge, 1);
	recorder_begin();
	EXPECT(ibv_exp_post_send(n->qp[0], &wr, &bad) == EINVAL, "ibv_exp_post_send");
	expect("operands too long", AV_CHECK_POST_OPERANDS, AV_FLIGHT_REFUSAL, EINVAL);

	row("experimental: payload that is no command");
	memset(n->arena, 0xff, 64);
	memset(&wr, 0, sizeof(wr));
	sge.length = 7;
	wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = (uintptr_t)n->arena;
	wr.wr.rdma.rkey = mr->rkey;
	recorder_begin();
	EXPECT(post(0, &wr) == IBV_WC_REM_INV_REQ_ERR, "status");
	expect("payload that is no command", AV_CHECK_TUNNEL_COMMAND, AV_FLIGHT_REQUEST,
	       IBV_WC_REM_INV_REQ_ERR);
	expect("payload that is no command", AV_CHECK_TUNNEL_COMMAND, AV_FLIGHT_RECEIVE, 0);
	disconnect_own(0);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* --- keys made of keys ----------------------------------------------------------- */

static void create_umr_qp(void)
{
	struct ibv_exp_qp_init_attr init = {
		.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS,
		.exp_create_flags = IBV_EXP_QP_CREATE_UMR,
		.max_inl_send_klms = 4,
	};

	exp_need_rc(n, 0, &init);
}

static struct ibv_mr *create_key(struct ibv_pd *pd)
{
	struct ibv_exp_create_mr_in in = {.pd = pd,
					  .attr = {.max_klm_list_size = 4,
						   .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
						   .exp_access_flags = RIGHTS}};
	struct ibv_mr *mr = ibv_exp_create_mr(&in);

	if (!mr)
		DIE("ibv_exp_create_mr: %d", errno);
	return mr;
}

static struct ibv_exp_send_wr fill_request(struct ibv_mr *key, struct ibv_exp_mem_region *piece)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr.exp_send_flags = IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.exp_access = RIGHTS;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.base_addr = 0x1000;
	wr.ext_op.umr.num_mrs = 1;
	wr.ext_op.umr.mem_list.mem_reg_list = piece;
	return wr;
}

static void seed_umr(void)
{
	struct ibv_mr *mr = reg(RIGHTS), *key, *others;
	struct ibv_exp_mem_region piece = {(uintptr_t)n->arena, mr, 64};
	struct ibv_sge sge = {0x1000, 8, 0};
	struct ibv_exp_send_wr wr;

	row("experimental: a piece that is gone");
	create_umr_qp();
	connect_own(0);
	key = create_key(n->pd);
	wr = fill_request(key, &piece);
	EXPECT(post(0, &wr) == IBV_WC_SUCCESS, "fill");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	memset(&wr, 0, sizeof(wr));
	sge.lkey = key->lkey;
	wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = (uintptr_t)n->arena;
	wr.wr.rdma.rkey = n->info.key[KEY_FULL];
	recorder_begin();
	EXPECT(post(0, &wr) == IBV_WC_LOC_PROT_ERR, "status");
	expect("piece that is gone", AV_CHECK_KEY_PIECE, AV_FLIGHT_REQUEST, IBV_WC_LOC_PROT_ERR);
	disconnect_own(0);

	row("experimental: key of another domain");
	create_umr_qp();
	connect_own(0);
	mr = reg(RIGHTS);
	piece.mr = mr;
	others = create_key(n->other_pd);
	wr = fill_request(others, &piece);
	recorder_begin();
	EXPECT(post(0, &wr) == IBV_WC_MW_BIND_ERR, "status");
	expect("key of another domain", AV_CHECK_UMR_FILL, AV_FLIGHT_REQUEST, IBV_WC_MW_BIND_ERR);
	disconnect_own(0);
	EXPECT(!ibv_dereg_mr(key) && !ibv_dereg_mr(others) && !ibv_dereg_mr(mr), "ibv_dereg_mr");
}

void seed_experimental(void)
{
	n = a.node;
	seed_regions();
	seed_atomics();
	seed_umr();
}
