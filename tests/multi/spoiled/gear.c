/* SPDX-License-Identifier: MIT */
#include "spoiled/gear.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/expect.h"
#include "lib/node.h"
#include "lib/to_rts.h"

#define ROOM_BYTES (3 * GUARD_BYTES + 2 * REGION_BYTES)
#define GUARD	   0xa5
#define GRH_BYTES  40
#define WRS	   16
#define RIGHTS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

_Atomic(const char *) verb_name;
_Atomic uint64_t verb_since_ms;

void verb_begin(const char *name)
{
	verb_name = name;
	verb_since_ms = now_ms();
}

void verb_end(void)
{
	verb_since_ms = 0;
}

/* --- objects --------------------------------------------------------------------- */

static uint8_t *region_at(const struct gear *g, enum gear_key key)
{
	return g->room + GUARD_BYTES + key * (uint64_t)(REGION_BYTES + GUARD_BYTES);
}

static void make_regions(struct gear *g)
{
	struct ibv_exp_create_mr_in list = {
		.pd = g->pd,
		.attr = {.max_klm_list_size = 2,
			 .create_flags = IBV_EXP_MR_INDIRECT_KLMS,
			 .exp_access_flags = RIGHTS},
	};

	g->room =
		mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	NEED(g->room != MAP_FAILED);
	memset(g->room, GUARD, ROOM_BYTES);
	g->mr[KEY_PINNED] = ibv_reg_mr(g->pd, region_at(g, KEY_PINNED), REGION_BYTES, RIGHTS);
	g->mr[KEY_ON_DEMAND] = ibv_reg_mr(g->pd, region_at(g, KEY_ON_DEMAND), REGION_BYTES,
					  RIGHTS | IBV_ACCESS_ON_DEMAND);
	g->mr[KEY_LIST] = ibv_exp_create_mr(&list);
	for (int i = 0; i < KEYS; i++) {
		NEED(g->mr[i] != NULL);
		g->info.key[i] = g->mr[i]->rkey;
		g->info.base[i] = i == KEY_LIST ? 0 : (uintptr_t)region_at(g, (enum gear_key)i);
	}
}

static void make_qp(struct gear *g, enum gear_qp i)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = g->cq[0],
		.recv_cq = g->cq[1],
		.srq = i == QP_SHARED ? g->srq : NULL,
		.cap = {WRS, WRS, 2, 2, 64},
		.qp_type = i == QP_DATAGRAM ? IBV_QPT_UD : IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD,
		.pd = g->pd,
	};

	if (i == QP_UMR) {
		init.comp_mask |=
			IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;
		init.exp_create_flags = IBV_EXP_QP_CREATE_UMR;
		init.max_inl_send_klms = 2;
	}
	g->qp[i] = ibv_exp_create_qp(g->ctx, &init);
	NEED(g->qp[i] != NULL);
	g->info.qpn[i] = g->qp[i]->qp_num;
}

void gear_open(struct gear *g, uint64_t seed)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = WRS, .max_sge = 2}};

	memset(g, 0, sizeof(*g));
	g->chance.state = seed;
	g->ctx = node_open_device();
	g->pd = ibv_alloc_pd(g->ctx);
	g->channel = ibv_create_comp_channel(g->ctx);
	for (int i = 0; i < 2; i++)
		g->cq[i] = ibv_create_cq(g->ctx, 8 * WRS, NULL, g->channel, 0);
	g->srq = ibv_create_srq(g->pd, &srq);
	NEED(g->pd && g->cq[0] && g->cq[1] && g->srq);
	NEED(ibv_query_gid(g->ctx, 1, 0, &g->info.gid) == 0);
	make_regions(g);
	for (int i = 0; i < QP_N; i++)
		make_qp(g, (enum gear_qp)i);
}

void gear_close(struct gear *g)
{
	if (g->ah)
		EXPECT(ibv_destroy_ah(g->ah) == 0, "ibv_destroy_ah");
	for (int i = 0; i < QP_N; i++)
		EXPECT(ibv_destroy_qp(g->qp[i]) == 0, "ibv_destroy_qp %d", i);
	for (int i = KEYS; i-- > 0;)
		EXPECT(ibv_dereg_mr(g->mr[i]) == 0, "ibv_dereg_mr %d", i);
	EXPECT(ibv_destroy_srq(g->srq) == 0, "ibv_destroy_srq");
	EXPECT(ibv_destroy_cq(g->cq[0]) == 0 && ibv_destroy_cq(g->cq[1]) == 0, "ibv_destroy_cq");
	EXPECT(ibv_destroy_comp_channel(g->channel) == 0, "ibv_destroy_comp_channel");
	EXPECT(ibv_dealloc_pd(g->pd) == 0, "ibv_dealloc_pd");
	EXPECT(ibv_close_device(g->ctx) == 0, "ibv_close_device");
	munmap(g->room, ROOM_BYTES);
}

/* --- connections ----------------------------------------------------------------- */

static void drain(struct gear *g)
{
	struct ibv_wc wc[WRS];

	for (int i = 0; i < 2; i++)
		while (VERB(ibv_poll_cq(g->cq[i], WRS, wc)) > 0)
			;
}

int gear_reset(struct gear *g)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	int ret = 0;

	for (int i = 0; i < QP_N && ret == 0; i++)
		ret = VERB(ibv_modify_qp(g->qp[i], &attr, IBV_QP_STATE));
	drain(g);
	if (g->ah && VERB(ibv_destroy_ah(g->ah)) == 0)
		g->ah = NULL;
	return ret;
}

static int connect_one(struct gear *g, enum gear_qp i)
{
	struct ibv_qp_attr attr = connect_attr(g->peer.qpn[i], &g->peer.gid);

	/* Few and short waits: what is under test is that there is an end of them. */
	attr.timeout = 12;
	attr.retry_cnt = 2;
	attr.rnr_retry = 2;
	return VERB(connect_qp(g->qp[i], attr));
}

/* Half of one region, then half of the other. */
static int fill_list(struct gear *g)
{
	struct ibv_exp_mem_region pieces[2];
	struct ibv_exp_send_wr wr, *bad;

	memset(&wr, 0, sizeof(wr));
	for (int i = 0; i < 2; i++)
		pieces[i] = (struct ibv_exp_mem_region){g->info.base[i], g->mr[i],
							REGION_BYTES / 2 - 64};
	wr.exp_opcode = IBV_EXP_WR_UMR_FILL;
	wr.exp_send_flags = IBV_EXP_SEND_INLINE | IBV_EXP_SEND_SIGNALED;
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.exp_access = RIGHTS;
	wr.ext_op.umr.modified_mr = g->mr[KEY_LIST];
	wr.ext_op.umr.num_mrs = 2;
	wr.ext_op.umr.mem_list.mem_reg_list = pieces;
	return VERB(ibv_exp_post_send(g->qp[QP_UMR], &wr, &bad));
}

int gear_connect(struct gear *g, const struct gear_info *peer)
{
	struct ibv_ah_attr ah = {
		.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 64}};
	int ret = 0;

	g->peer = *peer;
	for (int i = 0; i < QP_N && ret == 0; i++) {
		g->broken[i] = false;
		ret = connect_one(g, (enum gear_qp)i);
	}
	if (!g->ah)
		g->ah = VERB(ibv_create_ah(g->pd, &ah));
	return ret ? ret : !g->ah ? errno : fill_list(g);
}

/* --- traffic --------------------------------------------------------------------- */

static uint32_t some_bytes(struct chance *c)
{
	static const uint32_t most[] = {8, 64, 64, 512, 4096, 4096, 60000, REGION_BYTES};

	return 1 + (uint32_t)rnd(c, most[rnd(c, COUNT_OF(most))]);
}

/* A place of @bytes in a region, with the key that names it. */
static void some_place(struct chance *c, const struct gear_info *of, uint32_t bytes, uint64_t *addr,
		       uint32_t *key)
{
	uint64_t i = rnd(c, KEYS);
	uint64_t room = i == KEY_LIST ? REGION_BYTES - 128 : REGION_BYTES;

	*addr = of->base[i] + (room > bytes ? rnd(c, room - bytes) & ~7ull : 0);
	*key = of->key[i];
}

static struct ibv_sge some_sge(struct gear *g, uint32_t bytes)
{
	struct ibv_sge sge = {.length = bytes};

	some_place(&g->chance, &g->info, bytes, &sge.addr, &sge.lkey);
	return sge;
}

static void send_one(struct gear *g, uint64_t i)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND,
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	struct chance *c = &g->chance;
	bool datagram = i == QP_DATAGRAM;
	enum ibv_wr_opcode op = datagram ? IBV_WR_SEND : ops[rnd(c, COUNT_OF(ops))];
	bool atomic = op >= IBV_WR_ATOMIC_CMP_AND_SWP && op <= IBV_WR_ATOMIC_FETCH_AND_ADD;
	uint32_t bytes = atomic ? 8 : datagram ? 1 + (uint32_t)rnd(c, 1000) : some_bytes(c);
	struct ibv_sge sge = some_sge(g, bytes);
	struct ibv_send_wr wr = {.opcode = op, .sg_list = &sge, .num_sge = 1}, *bad;

	wr.wr_id = i;
	wr.send_flags = one_in(c, 4) ? 0 : IBV_SEND_SIGNALED;
	if (one_in(c, 16))
		wr.send_flags |= IBV_SEND_FENCE;
	if (atomic) {
		some_place(c, &g->peer, 8, &wr.wr.atomic.remote_addr, &wr.wr.atomic.rkey);
		wr.wr.atomic.compare_add = rnd(c, 2);
	} else if (datagram) {
		wr.wr.ud.ah = g->ah;
		wr.wr.ud.remote_qpn = g->peer.qpn[i];
	} else if (op >= IBV_WR_RDMA_WRITE) {
		some_place(c, &g->peer, bytes, &wr.wr.rdma.remote_addr, &wr.wr.rdma.rkey);
	}
	(void)VERB(ibv_post_send(g->qp[i], &wr, &bad));
}

static void receive_one(struct gear *g, uint64_t i)
{
	struct ibv_sge sge = some_sge(g, GRH_BYTES + some_bytes(&g->chance));
	struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;

	if (sge.length > REGION_BYTES - 128)
		sge.length = REGION_BYTES - 128;
	if (i == QP_SHARED)
		(void)VERB(ibv_post_srq_recv(g->srq, &wr, &bad));
	else
		(void)VERB(ibv_post_recv(g->qp[i], &wr, &bad));
}

static void poll_one(struct gear *g, uint64_t cq)
{
	struct ibv_wc wc[WRS];
	int n = VERB(ibv_poll_cq(g->cq[cq], WRS, wc));

	for (int i = 0; i < n; i++) {
		g->completed++;
		if (wc[i].status == IBV_WC_SUCCESS)
			continue;
		g->failed++;
		for (int k = 0; k < QP_N; k++)
			if (wc[i].qp_num == g->info.qpn[k])
				g->broken[k] = true;
	}
	if (n < 0)
		memset(g->broken, 1, sizeof(g->broken));
}

void gear_step(struct gear *g)
{
	uint64_t what = rnd(&g->chance, 100), i = rnd(&g->chance, QP_N);

	if (what < 35)
		send_one(g, i);
	else if (what < 65)
		receive_one(g, i);
	else if (what < 99)
		poll_one(g, what % 2);
	else
		(void)VERB(ibv_req_notify_cq(g->cq[i % 2], 0));
}

bool gear_guards_intact(const struct gear *g)
{
	static const uint64_t stride = GUARD_BYTES + REGION_BYTES;

	for (uint64_t i = 0; i < 3; i++) {
		const uint8_t *p = g->room + i * stride;

		if (p[0] != GUARD || memcmp(p, p + 1, GUARD_BYTES - 1))
			return false;
	}
	return true;
}
