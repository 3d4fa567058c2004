/* SPDX-License-Identifier: MIT */
#include "mw_fixture.h"

#include <errno.h>
#include <string.h>

#include "lib/flood.h"

#define IOVA 0x500000000ull

struct node *n;
uint8_t *memory;
struct ibv_mr *region[R_N];

static struct ibv_dm *device_memory;
static struct ibv_mr dead;

static void open_regions(void)
{
	struct ibv_alloc_dm_attr attr = {.length = REGION_LEN};
	struct ibv_mr *mr = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE);

	dead = *mr;
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	device_memory = ibv_alloc_dm(n->ctx, &attr);
	region[R_PLAIN] = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE);
	region[R_REMOTE] = ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE | ALL_REMOTE);
	region[R_BIND_ONLY] = ibv_reg_mr(n->pd, memory, REGION_LEN, IBV_ACCESS_MW_BIND);
	region[R_NO_BIND] = ibv_reg_mr(n->pd, memory, REGION_LEN, PROBE_ALL);
	region[R_OTHER_PD] = ibv_reg_mr(n->other_pd, memory, REGION_LEN, BINDABLE);
	region[R_ZERO_BASED] =
		ibv_reg_mr(n->pd, memory, REGION_LEN, BINDABLE | IBV_ACCESS_ZERO_BASED);
	region[R_IOVA] = ibv_reg_mr_iova(n->pd, memory, REGION_LEN, IOVA, BINDABLE);
	region[R_DEVICE] = ibv_reg_dm_mr(n->pd, device_memory, 0, REGION_LEN,
					 PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	region[R_NULL] = ibv_alloc_null_mr(n->pd);
	region[R_DEAD] = &dead;
	for (int i = R_NONE + 1; i < R_N; i++)
		if (!region[i])
			DIE("region %d", i);
}

static void close_regions(void)
{
	row("all regions can be deregistered in the end");
	for (int i = R_NONE + 1; i < R_DEAD; i++)
		EXPECT(ibv_dereg_mr(region[i]) == 0, "region %d: errno %d", i, errno);
	EXPECT(ibv_free_dm(device_memory) == 0, "ibv_free_dm");
}

uint64_t base_of(enum region r)
{
	return r == R_IOVA					   ? IOVA
	       : r == R_ZERO_BASED || r == R_DEVICE || r == R_NULL ? 0
								   : (uintptr_t)memory;
}

struct ibv_mw *window(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, type);

	NEED(mw);
	return mw;
}

void free_window(struct ibv_mw *mw)
{
	EXPECT(ibv_dealloc_mw(mw) == 0, "ibv_dealloc_mw: errno %d", errno);
}

enum ibv_wc_status finish(int qp, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	if (node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion");
	EXPECT(wc.opcode == opcode, "opcode %d of the completion", (int)wc.opcode);
	EXPECT(wc.qp_num == n->qp[qp]->qp_num && wc.wr_id == 77, "fields of the completion");
	if (wc.status != SUCCESS)
		probe_reconnect(&b, &a, qp);
	return wc.status;
}

struct ibv_mw_bind_info info_of(enum region r, uint64_t offset, uint64_t length,
				unsigned int access)
{
	return (struct ibv_mw_bind_info){
		.mr = region[r],
		.addr = r == R_NONE ? 0 : base_of(r) + offset,
		.length = length,
		.mw_access_flags = access,
	};
}

int call_bind(int qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	struct ibv_mw_bind bind = {
		.wr_id = 77, .send_flags = IBV_SEND_SIGNALED, .bind_info = *info};

	errno = 0;
	return ibv_bind_mw(n->qp[qp], mw, &bind);
}

int post_bind(int qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr wr = {.wr_id = 77,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_qp_ex *ex = qp == QP_EX ? ibv_qp_to_qp_ex(n->qp[qp]) : NULL;

	if (ex) {
		ibv_wr_start(ex);
		ex->wr_id = 77;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_bind_mw(ex, mw, rkey, info);
		mw->rkey = (mw->rkey & ~0xffu) | (rkey & 0xff); /* here it is the program's task */
		return ibv_wr_complete(ex);
	}
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = *info;
	return ibv_post_send(n->qp[qp], &wr, &bad);
}

enum ibv_wc_status bind_info(int qp, struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	int ret = mw->type == TYPE1 ? call_bind(qp, mw, info)
				    : post_bind(qp, mw, ibv_inc_rkey(mw->rkey), info);

	if (!EXPECT(ret == 0, "the bind is refused: %d", ret))
		return IBV_WC_GENERAL_ERR;
	return finish(qp, IBV_WC_BIND_MW);
}

enum ibv_wc_status bind_window(int qp, struct ibv_mw *mw, enum region r, uint64_t offset,
			       uint64_t length, unsigned int access)
{
	struct ibv_mw_bind_info info = info_of(r, offset, length, access);

	return bind_info(qp, mw, &info);
}

void need_bind(int qp, struct ibv_mw *mw, enum region r, uint64_t offset, uint64_t length,
	       unsigned int access)
{
	enum ibv_wc_status got = bind_window(qp, mw, r, offset, length, access);

	EXPECT(got == SUCCESS, "bind: '%s'", ibv_wc_status_str(got));
}

enum ibv_wc_status invalidate(int qp, uint32_t rkey)
{
	struct ibv_send_wr wr = {.wr_id = 77,
				 .opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey},
			   *bad;
	struct ibv_qp_ex *ex = qp == QP_EX ? ibv_qp_to_qp_ex(n->qp[qp]) : NULL;
	int ret;

	if (ex) {
		ibv_wr_start(ex);
		ex->wr_id = 77;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_local_inv(ex, rkey);
		ret = ibv_wr_complete(ex);
	} else {
		ret = ibv_post_send(n->qp[qp], &wr, &bad);
	}
	if (!EXPECT(ret == 0, "LOCAL_INV is refused: %d", ret))
		return IBV_WC_GENERAL_ERR;
	return finish(qp, IBV_WC_LOCAL_INV);
}

void unbind(int qp, struct ibv_mw *mw)
{
	enum ibv_wc_status got =
		mw->type == TYPE1 ? bind_window(qp, mw, R_NONE, 0, 0, 0) : invalidate(qp, mw->rkey);

	EXPECT(got == SUCCESS, "unbind: '%s'", ibv_wc_status_str(got));
}

void expect_access(int qp, enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey, bool good)
{
	EXPECT_PROBE(&b, &a, qp, op, addr, rkey, 8, good ? SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

void expect_open(int qp, uint32_t rkey)
{
	memset(memory, 0, 8);
	expect_access(qp, IBV_WR_RDMA_WRITE, (uintptr_t)memory, rkey, true);
	EXPECT(pattern_check(memory, 8, PROBE_SEED, 0) == -1, "bytes of the WRITE");
	expect_access(qp, IBV_WR_RDMA_READ, (uintptr_t)memory, rkey, true);
}

void expect_shut(int qp, uint32_t rkey)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD};

	memset(memory, 0x5a, 8);
	for (size_t i = 0; i < COUNT_OF(ops); i++) {
		expect_access(qp, ops[i], (uintptr_t)memory, rkey, false);
		expect_access(qp, ops[i], 0, rkey, false);
	}
	EXPECT(memory[0] == 0x5a && memory[7] == 0x5a, "bytes changed");
}

static void open_ex(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = n,
		.send_cq = n->cq[0],
		.recv_cq = n->cq[1],
		.cap = spec_default().cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = n->pd,
		.send_ops_flags = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
				  IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND,
	};
	struct node_qp_spec spec = spec_default();

	n->qp[QP_EX] = ibv_create_qp_ex(n->ctx, &attr);
	if (!n->qp[QP_EX] || side_create_qp(&b, QP_EX, &spec, NULL))
		DIE("ibv_create_qp_ex: errno %d", errno);
	pair_connect(&b, QP_EX, NULL, &a, QP_EX, NULL);
}

int mw_test(int argc, char **argv, void (*run)(void))
{
	flood_agent_main(argc, argv);
	two_sides_open(argc, argv);
	n = a.node;
	memory = n->arena + REGION_AT;
	open_regions();
	probe_open(&b, &a, 0);
	probe_open(&b, &a, 1);
	open_ex();
	run();
	for (int qp = 0; qp <= QP_EX; qp++)
		probe_close(&b, &a, qp);
	close_regions();
	return two_sides_close();
}
