/* SPDX-License-Identifier: MIT */
/* Requests that cannot be posted, or that the responder does not permit. */
#include <errno.h>

#include "lib/expect.h"
#include "lib/to_rts.h"
#include "mistakes.h"

static struct ibv_sge sge;
static struct ibv_send_wr wr;

static void start(enum ibv_wr_opcode opcode)
{
	need(IBV_QPT_RC);
	connect_both();
	wr = request(opcode, &sge);
}

static void start_atomic(void)
{
	start(IBV_WR_ATOMIC_FETCH_AND_ADD);
	wr.wr.atomic.remote_addr = (uintptr_t)scene.remote;
	wr.wr.atomic.rkey = scene.key;
	sge.length = 8;
}

static void fails(enum ibv_wc_status status)
{
	enum ibv_wc_status got = run(&wr);

	EXPECT(got == status, "status %d, not %d", got, status);
}

static void small_recv(void)
{
	start(IBV_WR_SEND);
	post_recv(32, scene.mr->lkey);
	fails(IBV_WC_REM_INV_REQ_ERR);
}

static void no_recv(void)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	NEED(connect_qp(scene.qp[1], attr_of(1)) == 0);
	attr = attr_of(0);
	attr.rnr_retry = 0;
	NEED(connect_qp(scene.qp[0], attr) == 0);
	wr = request(IBV_WR_SEND, &sge);
	fails(IBV_WC_RNR_RETRY_EXC_ERR);
}

/* --- rights ---------------------------------------------------------------------- */

/* The responder's region has no more rights than @access. */
static void with_region(int access)
{
	struct ibv_mr *mr = reg(scene.pd, access);

	wr.wr.rdma.rkey = mr->rkey;
	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic.rkey = mr->rkey;
	fails(IBV_WC_REM_ACCESS_ERR);
	NEED(ibv_dereg_mr(mr) == 0);
}

static void no_remote_write(void)
{
	start(IBV_WR_RDMA_WRITE);
	with_region(IBV_ACCESS_LOCAL_WRITE);
}

static void no_remote_read(void)
{
	start(IBV_WR_RDMA_READ);
	with_region(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static void no_remote_atomic(void)
{
	start_atomic();
	with_region(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/* The responder's queue pair lacks @right. */
static void with_queue_pair(int right, enum ibv_wr_opcode opcode)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	attr = attr_of(1);
	attr.qp_access_flags &= ~(unsigned int)right;
	connect_to(attr);
	wr = request(opcode, &sge);
	fails(IBV_WC_REM_INV_REQ_ERR);
}

static void qp_no_write(void)
{
	with_queue_pair(IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE);
}

static void qp_no_access(void)
{
	with_queue_pair(ALL_ACCESS, IBV_WR_RDMA_READ);
}

/* --- local keys ------------------------------------------------------------------ */

static void recv_read_only(void)
{
	struct ibv_mr *mr = reg(scene.pd, 0);

	start(IBV_WR_SEND);
	post_recv(64, mr->lkey);
	fails(IBV_WC_REM_OP_ERR);
	NEED(ibv_dereg_mr(mr) == 0);
}

static void read_to_read_only(void)
{
	struct ibv_mr *mr = reg(scene.pd, 0);

	start(IBV_WR_RDMA_READ);
	sge = (struct ibv_sge){(uintptr_t)scene.remote, 64, mr->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)scene.buf;
	wr.wr.rdma.rkey = scene.mr->rkey;
	fails(IBV_WC_LOC_PROT_ERR);
	NEED(ibv_dereg_mr(mr) == 0);
}

static void no_lkey(void)
{
	start(IBV_WR_RDMA_WRITE);
	sge.lkey = 0;
	fails(IBV_WC_LOC_PROT_ERR);
}

static void other_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(scene.ctx);
	struct ibv_mr *mr;

	NEED(pd);
	mr = reg(pd, ALL_ACCESS);
	start(IBV_WR_RDMA_WRITE);
	sge = (struct ibv_sge){(uintptr_t)scene.remote, 64, mr->lkey};
	fails(IBV_WC_LOC_PROT_ERR);
	NEED(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0);
}

static void behind_region(void)
{
	start(IBV_WR_RDMA_WRITE);
	sge.addr = (uintptr_t)scene.remote;
	sge.length = BYTES + 100;
	fails(IBV_WC_LOC_PROT_ERR);
}

static void other_buffer(void)
{
	struct ibv_mr *mr = reg(scene.pd, ALL_ACCESS);

	start(IBV_WR_RDMA_WRITE);
	sge.lkey = mr->lkey; /* of the second half, for the first */
	fails(IBV_WC_LOC_PROT_ERR);
	NEED(ibv_dereg_mr(mr) == 0);
}

static void deregistered(void)
{
	struct ibv_mr *mr = reg(scene.pd, ALL_ACCESS);

	start(IBV_WR_SEND);
	sge = (struct ibv_sge){(uintptr_t)scene.remote, 64, mr->lkey};
	NEED(ibv_dereg_mr(mr) == 0);
	fails(IBV_WC_LOC_PROT_ERR);
}

/* --- remote addresses ------------------------------------------------------------ */

static void remote_behind(void)
{
	start(IBV_WR_RDMA_WRITE);
	wr.wr.rdma.remote_addr = (uintptr_t)scene.remote + BYTES - 16;
	printed("0x%lx", wr.wr.rdma.remote_addr);
	fails(IBV_WC_REM_ACCESS_ERR);
}

static void remote_offset(void)
{
	start(IBV_WR_RDMA_READ);
	wr.wr.rdma.remote_addr = 0; /* an offset instead of an address */
	printed("%lu", (unsigned long)(uintptr_t)scene.buf);
	fails(IBV_WC_REM_ACCESS_ERR);
}

static void remote_deregistered(void)
{
	struct ibv_mr *mr = reg(scene.pd, ALL_ACCESS);

	start(IBV_WR_RDMA_WRITE);
	NEED(ibv_dereg_mr(mr) == 0);
	fails(IBV_WC_REM_ACCESS_ERR);
}

static void rkey_not_sent(void)
{
	start(IBV_WR_RDMA_WRITE);
	wr.wr.rdma.rkey = 0;
	fails(IBV_WC_REM_ACCESS_ERR);
}

static void misaligned(void)
{
	start_atomic();
	wr.wr.atomic.remote_addr += 4;
	printed("0x%lx", wr.wr.atomic.remote_addr);
	fails(IBV_WC_REM_INV_REQ_ERR);
}

static void atomic_of_4_bytes(void)
{
	start_atomic();
	sge.length = 4;
	fails(IBV_WC_LOC_LEN_ERR);
}

static void no_rd_atomic(void)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	attr = attr_of(0);
	attr.max_rd_atomic = 0;
	NEED(connect_qp(scene.qp[1], attr_of(1)) == 0 && connect_qp(scene.qp[0], attr) == 0);
	wr = request(IBV_WR_RDMA_READ, &sge);
	fails(IBV_WC_LOC_QP_OP_ERR);
}

static void no_dest_rd_atomic(void)
{
	struct ibv_qp_attr attr;

	need(IBV_QPT_RC);
	attr = attr_of(1);
	attr.max_dest_rd_atomic = 0;
	connect_to(attr);
	wr = request(IBV_WR_RDMA_READ, &sge);
	fails(IBV_WC_REM_INV_REQ_ERR);
}

static void read_on_uc(void)
{
	need(IBV_QPT_UC);
	connect_both();
	wr = request(IBV_WR_RDMA_READ, &sge);
	fails(IBV_WC_LOC_QP_OP_ERR);
}

static void lost_on_uc(void)
{
	struct ibv_mr *mr = reg(scene.pd, IBV_ACCESS_LOCAL_WRITE);

	need(IBV_QPT_UC);
	connect_both();
	wr = request(IBV_WR_RDMA_WRITE, &sge);
	fails(IBV_WC_SUCCESS);
	NEED(ibv_dereg_mr(mr) == 0);
}

static void no_recv_on_uc(void)
{
	need(IBV_QPT_UC);
	connect_both();
	wr = request(IBV_WR_SEND, &sge);
	fails(IBV_WC_SUCCESS);
}

static void peer_not_ready_on_uc(void)
{
	need(IBV_QPT_UC);
	NEED(connect_step(scene.qp[1], attr_of(1), IBV_QPS_INIT) == 0);
	NEED(connect_qp(scene.qp[0], attr_of(0)) == 0);
	wr = request(IBV_WR_SEND, &sge);
	fails(IBV_WC_SUCCESS);
}

/* --- posting --------------------------------------------------------------------- */

static void long_inline(void)
{
	start(IBV_WR_SEND);
	wr.send_flags |= IBV_SEND_INLINE;
	sge.length = 1000;
	EXPECT_RET(post(&wr), EINVAL);
}

static void inline_read(void)
{
	start(IBV_WR_RDMA_READ);
	wr.send_flags |= IBV_SEND_INLINE;
	EXPECT_RET(post(&wr), EINVAL);
}

static void many_elements(void)
{
	start(IBV_WR_SEND);
	wr.num_sge = 30;
	EXPECT_RET(post(&wr), EINVAL);
}

/* Nobody ever polls, because nothing is signalled. */
static void unsignaled(void)
{
	int ret = 0;

	start(IBV_WR_RDMA_WRITE);
	wr.send_flags = 0;
	for (int i = 0; i < 1000 && ret == 0; i++)
		ret = post(&wr);
	EXPECT(ret == ENOMEM, "returned %d", ret);
}

static void many_recvs(void)
{
	struct ibv_recv_wr recv_wr = {.wr_id = WR_ID}, *bad;
	int ret = 0;

	start(IBV_WR_SEND);
	for (int i = 0; i < 1000 && ret == 0; i++)
		ret = ibv_post_recv(scene.qp[1], &recv_wr, &bad);
	EXPECT(ret == ENOMEM, "returned %d", ret);
}

static void wrong_opcode(void)
{
	start((enum ibv_wr_opcode)IBV_WC_RECV); /* an opcode of completions */
	EXPECT_RET(post(&wr), EINVAL);
}

/* clang-format off */
static const struct mistake mistakes[] = {
	{"receive too small", small_recv,
	 "QP <qp1>: peer's SEND: a message of 64 B does not fit the receive request of 32 B (IBV_WC_LOC_LEN_ERR, wr_id 7)"},
	{"no receive posted, rnr_retry 0", no_recv,
	 "QP <qp0>: SEND: the receiver had no receive posted: 1 RNR NAKs, rnr_retry 0 (IBV_WC_RNR_RETRY_EXC_ERR, wr_id 7)"},
	{"IBV_ACCESS_REMOTE_WRITE forgotten", no_remote_write,
	 "QP <qp1>: peer's RDMA WRITE of 64 B to <remote> under rkey <key>: the region permits IBV_ACCESS_LOCAL_WRITE, and IBV_ACCESS_REMOTE_WRITE is needed (IBV_EVENT_QP_ACCESS_ERR)"},
	{"IBV_ACCESS_REMOTE_READ forgotten", no_remote_read,
	 "QP <qp1>: peer's RDMA READ of 64 B to <remote> under rkey <key>: the region permits IBV_ACCESS_LOCAL_WRITE | REMOTE_WRITE, and IBV_ACCESS_REMOTE_READ is needed (IBV_EVENT_QP_ACCESS_ERR)"},
	{"IBV_ACCESS_REMOTE_ATOMIC forgotten", no_remote_atomic,
	 "QP <qp1>: peer's FETCH AND ADD of 8 B to <remote> under rkey <key>: the region permits IBV_ACCESS_LOCAL_WRITE | REMOTE_WRITE, and IBV_ACCESS_REMOTE_ATOMIC is needed (IBV_EVENT_QP_ACCESS_ERR)"},
	{"queue pair without REMOTE_WRITE", qp_no_write,
	 "QP <qp1>: peer's RDMA WRITE of 64 B to <remote> under rkey <key>: the responding queue pair permits IBV_ACCESS_REMOTE_READ | REMOTE_ATOMIC, and IBV_ACCESS_REMOTE_WRITE is needed (IBV_EVENT_QP_REQ_ERR)"},
	{"queue pair without access flags", qp_no_access,
	 "QP <qp1>: peer's RDMA READ of 64 B to <remote> under rkey <key>: the responding queue pair permits no access flag, and IBV_ACCESS_REMOTE_READ is needed (IBV_EVENT_QP_REQ_ERR)"},
	{"IBV_ACCESS_LOCAL_WRITE forgotten, receive", recv_read_only,
	 "QP <qp1>: peer's SEND of 64 B at <remote> under lkey <key>: the region permits no access flag, and IBV_ACCESS_LOCAL_WRITE is needed (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"IBV_ACCESS_LOCAL_WRITE forgotten, read", read_to_read_only,
	 "QP <qp0>: RDMA READ of 64 B at <remote> under lkey <key>: the region permits no access flag, and IBV_ACCESS_LOCAL_WRITE is needed (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"lkey not set", no_lkey,
	 "QP <qp0>: RDMA WRITE of 64 B at <buf> under lkey 0x0: its context has no such key (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"region of another PD", other_pd,
	 "QP <qp0>: RDMA WRITE of 64 B at <remote> under lkey <key>: the region belongs to protection domain 2, the queue to 1 (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"element beyond its region", behind_region,
	 "QP <qp0>: RDMA WRITE of 4196 B at <remote> under lkey <key>: the range ends 100 B beyond the region, which has 8192 B at <buf> (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"lkey of another buffer", other_buffer,
	 "QP <qp0>: RDMA WRITE of 64 B at <buf> under lkey <key>: the range begins 4096 B before the region, which has 4096 B at <remote> (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"region deregistered before the send", deregistered,
	 "QP <qp0>: SEND of 64 B at <remote> under lkey <key>: the key is no longer valid: its region was deregistered, or its window was rebound or unbound (IBV_WC_LOC_PROT_ERR, wr_id 7)"},
	{"remote address beyond its region", remote_behind,
	 "QP <qp1>: peer's RDMA WRITE of 64 B to <number> under rkey <key>: the range ends 48 B beyond the region, which has 8192 B at <buf> (IBV_EVENT_QP_ACCESS_ERR)"},
	{"offset for a remote address", remote_offset,
	 "QP <qp1>: peer's RDMA READ of 64 B to 0x0 under rkey <key>: the range begins <number> B before the region, which has 8192 B at <buf> (IBV_EVENT_QP_ACCESS_ERR)"},
	{"peer's region deregistered", remote_deregistered,
	 "QP <qp1>: peer's RDMA WRITE of 64 B to <remote> under rkey <key>: the key is no longer valid: its region was deregistered, or its window was rebound or unbound (IBV_EVENT_QP_ACCESS_ERR)"},
	{"rkey not sent", rkey_not_sent,
	 "QP <qp1>: peer's RDMA WRITE of 64 B to <remote> under rkey 0x0: that context has no such key (IBV_EVENT_QP_ACCESS_ERR)"},
	{"misaligned atomic", misaligned,
	 "QP <qp1>: peer's FETCH AND ADD of 8 B to <number> under rkey <key>: address <number> is not a multiple of 8 (IBV_EVENT_QP_REQ_ERR)"},
	{"atomic of 4 bytes", atomic_of_4_bytes,
	 "QP <qp0>: FETCH AND ADD of 4 B to <remote> under rkey <key>: 4 B of buffers; the operation returns 8 B (IBV_WC_LOC_LEN_ERR, wr_id 7)"},
	{"max_rd_atomic 0", no_rd_atomic,
	 "QP <qp0>: RDMA READ of 64 B to <remote> under rkey <key>: max_rd_atomic of the queue pair is 0 (IBV_WC_LOC_QP_OP_ERR, wr_id 7)"},
	{"max_dest_rd_atomic 0", no_dest_rd_atomic,
	 "QP <qp1>: peer's RDMA READ of 64 B to <remote> under rkey <key>: max_dest_rd_atomic of the responding queue pair is 0 (IBV_EVENT_QP_REQ_ERR)"},
	{"READ on UC", read_on_uc,
	 "QP <qp0>: RDMA READ of 64 B to <remote> under rkey <key>: a UC queue pair does not support RDMA READ (IBV_WC_LOC_QP_OP_ERR, wr_id 7)"},
	{"WRITE lost on UC", lost_on_uc,
	 "QP <qp1>: peer's RDMA WRITE of 64 B to <remote> under rkey <key>: the region permits IBV_ACCESS_LOCAL_WRITE, and IBV_ACCESS_REMOTE_WRITE is needed (dropped silently)"},
	{"no receive posted, UC", no_recv_on_uc,
	 "QP <qp1>: peer's SEND: no receive request is posted for it (dropped silently)"},
	{"peer not yet in RTR, UC", peer_not_ready_on_uc,
	 "QP <qp0>: SEND: nobody answers: QP <qp1> is in state INIT (dropped silently)"},
	{"inline data too long", long_inline,
	 "ibv_post_send of QP <qp0>: 1000 B inline; the queue pair accepts at most 64 B (EINVAL)"},
	{"inline READ", inline_read,
	 "ibv_post_send of QP <qp0>: RDMA READ cannot carry inline data (EINVAL)"},
	{"too many elements", many_elements,
	 "ibv_post_send of QP <qp0>: 30 elements; a request may have at most 1 (EINVAL)"},
	{"send queue full of unsignalled requests", unsignaled,
	 "ibv_post_send of QP <qp0>: the send queue is full: 4 requests (ENOMEM)"},
	{"receive queue full", many_recvs,
	 "ibv_post_recv of QP <qp1>: the receive queue is full: 4 requests (ENOMEM)"},
	{"opcode of a completion", wrong_opcode,
	 "ibv_post_send of QP <qp0>: opcode 128 does not exist (EINVAL)"},
};
/* clang-format on */

void make_request_mistakes(void)
{
	run_mistakes(mistakes, COUNT_OF(mistakes));
}
