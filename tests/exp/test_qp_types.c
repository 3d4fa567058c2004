/* SPDX-License-Identifier: MIT */
/*
 * Each request of ibv_exp_post_send() on queue pairs of each kind that ibv_exp_create_qp() makes,
 * connected within this process: those that the kind has succeed and move their bytes, all others
 * are refused.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <infiniband/verbs_exp.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/sandbox.h"

#define FROM	 0x1000u /* offsets in the arena */
#define TO	 0x8000u
#define BYTES	 512u
#define GRH	 40u
#define QKEY	 0x4321u
#define IMM	 0x1234abcdu
#define SEED	 0x71u
#define PATIENCE 20000u

/* What becomes of a request: its completion, or the errno value of the call. */
#define OP_ERR	IBV_WC_LOC_QP_OP_ERR
#define REFUSED (-EINVAL)
#define GOOD	IBV_WC_SUCCESS

enum kind { RC, UC, UD, XRC, KINDS };

static const struct {
	const char *name;
	enum ibv_qp_type from, to;
} kinds[KINDS] = {
	[RC] = {"RC", IBV_QPT_RC, IBV_QPT_RC},
	[UC] = {"UC", IBV_QPT_UC, IBV_QPT_UC},
	[UD] = {"UD", IBV_QPT_UD, IBV_QPT_UD},
	[XRC] = {"XRC", IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV},
};

static const struct request_row {
	const char *name;
	enum ibv_exp_wr_opcode opcode;
	int want[KINDS];
} requests[] = {
	{"RDMA_WRITE", IBV_EXP_WR_RDMA_WRITE, {GOOD, GOOD, OP_ERR, GOOD}},
	{"RDMA_WRITE_WITH_IMM", IBV_EXP_WR_RDMA_WRITE_WITH_IMM, {GOOD, GOOD, OP_ERR, GOOD}},
	{"SEND", IBV_EXP_WR_SEND, {GOOD, GOOD, GOOD, GOOD}},
	{"SEND_WITH_IMM", IBV_EXP_WR_SEND_WITH_IMM, {GOOD, GOOD, GOOD, GOOD}},
	{"RDMA_READ", IBV_EXP_WR_RDMA_READ, {GOOD, OP_ERR, OP_ERR, GOOD}},
	{"ATOMIC_CMP_AND_SWP", IBV_EXP_WR_ATOMIC_CMP_AND_SWP, {GOOD, OP_ERR, OP_ERR, GOOD}},
	{"ATOMIC_FETCH_AND_ADD", IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, {GOOD, OP_ERR, OP_ERR, GOOD}},
	{"BIND_MW", IBV_EXP_WR_BIND_MW, {GOOD, GOOD, OP_ERR, GOOD}},
	{"TSO", IBV_EXP_WR_TSO, {REFUSED, REFUSED, REFUSED, REFUSED}},
	{"SEND_ENABLE", IBV_EXP_WR_SEND_ENABLE, {REFUSED, REFUSED, REFUSED, REFUSED}},
	{"RECV_ENABLE", IBV_EXP_WR_RECV_ENABLE, {REFUSED, REFUSED, REFUSED, REFUSED}},
	{"CQE_WAIT", IBV_EXP_WR_CQE_WAIT, {REFUSED, REFUSED, REFUSED, REFUSED}},
};

static struct side a;
static struct node *n;
static struct ibv_mr *mr; /* the arena, with MW_BIND */
static struct ibv_xrcd *xrcd;
static struct ibv_srq *srq; /* XRC's */
static struct ibv_ah *ah;
static struct ibv_mw *mw;
static struct ibv_qp *from, *to; /* one and the same but for XRC */

/* --- queue pairs ----------------------------------------------------------------- */

static struct ibv_qp *create(enum ibv_qp_type type)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = type == IBV_QPT_XRC_RECV ? NULL : n->cq[0],
		.recv_cq = type == IBV_QPT_XRC_RECV || type == IBV_QPT_XRC_SEND ? NULL : n->cq[1],
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |
			     (type == IBV_QPT_XRC_RECV ? IBV_EXP_QP_INIT_ATTR_XRCD
						       : IBV_EXP_QP_INIT_ATTR_PD),
		.pd = type == IBV_QPT_XRC_RECV ? NULL : n->pd,
		.xrcd = xrcd,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(n->ctx, &init);

	NEED(qp);
	return qp;
}

/* Attributes of the steps to RTS beyond the state itself. */
#define PATH	(IBV_EXP_QP_AV | IBV_EXP_QP_PATH_MTU | IBV_EXP_QP_DEST_QPN | IBV_EXP_QP_RQ_PSN)
#define ANSWERS (IBV_EXP_QP_MAX_DEST_RD_ATOMIC | IBV_EXP_QP_MIN_RNR_TIMER)
#define REQUESTS                                                            \
	(IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT | IBV_EXP_QP_RNR_RETRY | \
	 IBV_EXP_QP_MAX_QP_RD_ATOMIC)
static const struct {
	uint64_t init, rtr, rts;
} masks[] = {
	[IBV_QPT_RC] = {IBV_EXP_QP_ACCESS_FLAGS, PATH | ANSWERS, REQUESTS},
	[IBV_QPT_UC] = {IBV_EXP_QP_ACCESS_FLAGS, PATH, 0},
	[IBV_QPT_UD] = {IBV_EXP_QP_QKEY, 0, 0},
	[IBV_QPT_XRC_SEND] = {IBV_EXP_QP_ACCESS_FLAGS, PATH, REQUESTS},
	[IBV_QPT_XRC_RECV] = {IBV_EXP_QP_ACCESS_FLAGS, PATH | ANSWERS, IBV_EXP_QP_TIMEOUT},
};

static void step(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, enum ibv_qp_state state,
		 uint64_t mask)
{
	int ret;

	attr->qp_state = state;
	ret = ibv_exp_modify_qp(qp, attr, IBV_EXP_QP_STATE | mask);
	if (ret)
		DIE("to state %d: %d", (int)state, ret);
}

/* From any state to RTS. */
static void ready(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_exp_qp_attr attr = {
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags =
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = n->info.gid, .hop_limit = 64}},
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	step(qp, &attr, IBV_QPS_RESET, 0);
	step(qp, &attr, IBV_QPS_INIT,
	     IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | masks[qp->qp_type].init);
	step(qp, &attr, IBV_QPS_RTR, masks[qp->qp_type].rtr);
	step(qp, &attr, IBV_QPS_RTS, IBV_EXP_QP_SQ_PSN | masks[qp->qp_type].rts);
}

static void open_kind(enum kind k)
{
	from = create(kinds[k].from);
	to = kinds[k].from == kinds[k].to ? from : create(kinds[k].to);
}

static void close_kind(void)
{
	EXPECT(ibv_destroy_qp(from) == 0, "ibv_destroy_qp");
	EXPECT(to == from || ibv_destroy_qp(to) == 0, "ibv_destroy_qp");
}

/* --- requests -------------------------------------------------------------------- */

static bool has_receive(enum ibv_exp_wr_opcode opcode)
{
	return opcode == IBV_EXP_WR_SEND || opcode == IBV_EXP_WR_SEND_WITH_IMM ||
	       opcode == IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(enum ibv_exp_wr_opcode opcode)
{
	return opcode == IBV_EXP_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
}

static void post_receive(void)
{
	struct ibv_sge sge = {(uintptr_t)n->arena + TO, BYTES + GRH, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = 8, .sg_list = &sge, .num_sge = 1};

	EXPECT((to->qp_type == IBV_QPT_XRC_RECV ? ibv_post_srq_recv(srq, &wr, &bad)
						: ibv_post_recv(to, &wr, &bad)) == 0,
	       "posting the receive");
}

static int post(enum ibv_exp_wr_opcode opcode)
{
	struct ibv_sge sge = {(uintptr_t)n->arena + FROM, is_atomic(opcode) ? 8 : BYTES, mr->lkey};
	struct ibv_exp_send_wr wr, *bad = NULL;
	uint32_t srqn = 0;
	int ret;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 7;
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.ex.imm_data = htonl(IMM);
	if (from->qp_type == IBV_QPT_UD && has_receive(opcode)) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = to->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (is_atomic(opcode)) {
		wr.wr.atomic.remote_addr = (uintptr_t)n->arena + TO;
		wr.wr.atomic.rkey = mr->rkey;
		wr.wr.atomic.compare_add = opcode == IBV_EXP_WR_ATOMIC_CMP_AND_SWP ? 40 : 2;
		wr.wr.atomic.swap = 42;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)n->arena + TO;
		wr.wr.rdma.rkey = mr->rkey;
	}
	if (opcode == IBV_EXP_WR_BIND_MW) {
		wr.num_sge = 0;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = (struct ibv_exp_mw_bind_info){
			mr, (uintptr_t)n->arena + TO, BYTES, IBV_EXP_ACCESS_REMOTE_READ};
	}
	if (from->qp_type == IBV_QPT_XRC_SEND && ibv_get_srq_num(srq, &srqn) == 0)
		wr.xrc_remote_srq_num = srqn;
	errno = 0;
	ret = ibv_exp_post_send(from, &wr, &bad);
	EXPECT(ret == 0 || (bad == &wr && errno == ret), "errno %d", errno);
	return ret;
}

/* The next completion of a queue. */
static struct ibv_exp_wc take(struct ibv_cq *cq)
{
	uint64_t end = now_ms() + PATIENCE;
	struct ibv_exp_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int got;

	do
		got = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
	while (got == 0 && now_ms() < end);
	EXPECT(got == 1, "no completion");
	return wc;
}

static uint64_t word_at(uint32_t offset)
{
	uint64_t word;

	memcpy(&word, n->arena + offset, sizeof(word));
	return word;
}

static void expect_moved(enum kind k, enum ibv_exp_wr_opcode opcode)
{
	bool immediate =
		opcode == IBV_EXP_WR_SEND_WITH_IMM || opcode == IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
	uint32_t header = k == UD ? GRH : 0;
	struct ibv_exp_wc wc;

	if (has_receive(opcode)) {
		wc = take(n->cq[1]);
		EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == 8, "the receive: '%s'",
		       ibv_wc_status_str(wc.status));
		EXPECT(wc.byte_len == BYTES + header, "%u bytes", wc.byte_len);
		EXPECT(!immediate || ((wc.exp_wc_flags & IBV_EXP_WC_WITH_IMM) &&
				      wc.imm_data == htonl(IMM)),
		       "immediate data");
		EXPECT(!(wc.exp_wc_flags & IBV_EXP_WC_GRH) == (k != UD) &&
			       (wc.exp_wc_flags & IBV_EXP_WC_WITH_SL) &&
			       (wc.exp_wc_flags & IBV_EXP_WC_WITH_SLID),
		       "flags 0x%llx", (unsigned long long)wc.exp_wc_flags);
		EXPECT(k != UD || wc.src_qp == from->qp_num, "source %u", wc.src_qp);
	}
	if (is_atomic(opcode))
		EXPECT(word_at(FROM) == 40 && word_at(TO) == 42, "%lu and %lu", word_at(FROM),
		       word_at(TO));
	else if (opcode == IBV_EXP_WR_RDMA_READ)
		EXPECT(pattern_check(n->arena + FROM, BYTES, SEED + 1, 0) == -1, "bytes");
	else if (opcode != IBV_EXP_WR_BIND_MW)
		EXPECT(pattern_check(n->arena + TO + header, BYTES, SEED, 0) == -1, "bytes");
}

static void request_row(enum kind k, const struct request_row *r)
{
	const uint64_t forty = 40;
	struct ibv_exp_wc wc;
	int got;

	row("%s on %s", r->name, kinds[k].name);
	open_kind(k);
	ready(from, to->qp_num);
	if (to != from)
		ready(to, from->qp_num);
	pattern_fill(n->arena + FROM, BYTES, SEED, 0);
	pattern_fill(n->arena + TO, BYTES + GRH, SEED + 1, 0);
	if (is_atomic(r->opcode))
		memcpy(n->arena + TO, &forty, sizeof(forty));
	mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_2);
	if (r->want[k] == GOOD && has_receive(r->opcode))
		post_receive();
	got = -post(r->opcode);
	if (got == 0) {
		wc = take(n->cq[0]);
		got = (int)wc.status;
		EXPECT(wc.wr_id == 7 && wc.qp_num == from->qp_num, "fields of the completion");
	}
	EXPECT(got == r->want[k], "%d, not %d", got, r->want[k]);
	if (got == GOOD)
		expect_moved(k, r->opcode);
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw");
	close_kind();
}

/* --- windows of type 1 ----------------------------------------------------------- */

static void bind_row(enum kind k, int want)
{
	struct ibv_mw *one = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_exp_mw_bind bind;
	int ret, got;

	row("ibv_exp_bind_mw on %s", kinds[k].name);
	open_kind(k);
	ready(from, to->qp_num);
	bind = (struct ibv_exp_mw_bind){
		.qp = from,
		.mw = one,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED,
		.bind_info = {mr, (uintptr_t)n->arena + TO, BYTES, IBV_EXP_ACCESS_REMOTE_READ},
	};
	ret = ibv_exp_bind_mw(&bind);
	got = ret ? -ret : (int)take(n->cq[0]).status;
	EXPECT(got == want, "%d, not %d", got, want);
	EXPECT(ibv_dealloc_mw(one) == 0, "ibv_dealloc_mw");
	close_kind();
}

/* --- queue pairs without a send queue -------------------------------------------- */

static void receiver_row(void)
{
	struct ibv_exp_send_wr wr, *bad = NULL;

	row("ibv_exp_post_send: on the receiving end of XRC");
	open_kind(XRC);
	ready(to, from->qp_num);
	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_NOP;
	EXPECT(ibv_exp_post_send(to, &wr, &bad) == EINVAL && bad == &wr, "NOP");
	wr.exp_opcode = IBV_EXP_WR_SEND;
	EXPECT(ibv_exp_post_send(to, &wr, &bad) == EINVAL && bad == &wr, "SEND");
	close_kind();
}

/* --- */

static void open_all(void)
{
	struct ibv_srq_init_attr_ex queue = node_xrc_srq(4, n->pd, NULL, n->cq[1]);
	struct ibv_ah_attr address = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = n->info.gid, .hop_limit = 64}};

	xrcd = node_open_xrcd(n->ctx);
	queue.xrcd = xrcd;
	srq = xrcd ? ibv_create_srq_ex(n->ctx, &queue) : NULL;
	ah = ibv_create_ah(n->pd, &address);
	mr = ibv_reg_mr(n->pd, n->arena, NODE_ARENA, PROBE_ALL | IBV_ACCESS_MW_BIND);
	if (!srq || !ah || !mr)
		DIE("setting up: errno %d", errno);
}

int main(int argc, char **argv)
{
	static const int binds[KINDS] = {GOOD, GOOD, OP_ERR, GOOD};

	time_limit(200);
	side_agent_main(argc, argv);
	sandbox_enter();
	side_open(&a, NULL);
	n = a.node;
	open_all();
	for (int k = RC; k < KINDS; k++) {
		for (size_t i = 0; i < COUNT_OF(requests); i++)
			request_row((enum kind)k, &requests[i]);
		bind_row((enum kind)k, binds[k]);
	}
	receiver_row();
	EXPECT(ibv_dereg_mr(mr) == 0 && ibv_destroy_ah(ah) == 0 && ibv_destroy_srq(srq) == 0 &&
		       ibv_close_xrcd(xrcd) == 0,
	       "closing");
	side_stop(&a);
	return sandbox_end();
}
