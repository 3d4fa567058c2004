/* SPDX-License-Identifier: MIT */
#include "lib/to_rts.h"
#include "lib/node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/peer_memory.h"

#define CQ_ENTRIES 512
#define GONE_BYTES 65536u
#define IOVA_BASE  0x7000000000ull

#define ALL_RIGHTS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* --- opening --------------------------------------------------------------------- */

struct ibv_context *node_open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	if (!list || !list[0] || strcmp(ibv_get_device_name(list[0]), "any0"))
		DIE("the first device is not any0: is the library under test loaded?");
	ctx = ibv_open_device(list[0]);
	NEED(ctx);
	ibv_free_device_list(list);
	if (fcntl(ctx->async_fd, F_SETFL, fcntl(ctx->async_fd, F_GETFL) | O_NONBLOCK))
		DIE("async_fd cannot be made non-blocking");
	return ctx;
}

struct ibv_xrcd *node_open_xrcd(struct ibv_context *ctx)
{
	struct ibv_xrcd_init_attr init = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};

	return ibv_open_xrcd(ctx, &init);
}

struct ibv_qp *node_create_xrc_recv(struct ibv_context *ctx, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	return ibv_create_qp_ex(ctx, &init);
}

struct ibv_qp *node_open_xrc_recv(struct ibv_context *ctx, struct ibv_xrcd *xrcd, uint32_t qpn)
{
	struct ibv_qp_open_attr open = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						     IBV_QP_OPEN_ATTR_TYPE,
					.qp_num = qpn,
					.qp_type = IBV_QPT_XRC_RECV,
					.xrcd = xrcd};

	return ibv_open_qp(ctx, &open);
}

struct ibv_srq_init_attr_ex node_xrc_srq(uint32_t max_wr, struct ibv_pd *pd, struct ibv_xrcd *xrcd,
					 struct ibv_cq *cq)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = {.max_wr = max_wr, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = xrcd,
		.cq = cq,
	};
}

static void set_key(struct node *n, enum key key, uint64_t base, struct ibv_mr *mr)
{
	if (!mr)
		DIE("registration of kind %d: errno %d", key, errno);
	n->mr[key] = mr;
	n->info.base[key] = base;
	n->info.key[key] = mr->rkey;
	n->info.lkey[key] = mr->lkey;
}

static void register_arena(struct node *n)
{
	static const int access[KEY_N] = {
		[KEY_FULL] = ALL_RIGHTS,
		[KEY_READ_ONLY] = 0,
		[KEY_LOCAL] = IBV_ACCESS_LOCAL_WRITE,
		[KEY_NO_WRITE] = ALL_RIGHTS & ~IBV_ACCESS_REMOTE_WRITE,
		[KEY_NO_READ] = ALL_RIGHTS & ~IBV_ACCESS_REMOTE_READ,
		[KEY_NO_ATOMIC] = ALL_RIGHTS & ~IBV_ACCESS_REMOTE_ATOMIC,
		[KEY_ATOMIC_ONLY] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};

	for (enum key k = KEY_FULL; k <= KEY_ATOMIC_ONLY; k++)
		set_key(n, k, (uintptr_t)n->arena,
			ibv_reg_mr(n->pd, n->arena, NODE_ARENA, access[k]));
	set_key(n, KEY_OTHER_PD, (uintptr_t)n->arena,
		ibv_reg_mr(n->other_pd, n->arena, NODE_ARENA, ALL_RIGHTS));
	set_key(n, KEY_ZERO_BASED, 0,
		ibv_reg_mr(n->pd, n->arena, NODE_ARENA, ALL_RIGHTS | IBV_ACCESS_ZERO_BASED));
	set_key(n, KEY_IOVA, IOVA_BASE,
		ibv_reg_mr_iova(n->pd, n->arena, NODE_ARENA, IOVA_BASE, ALL_RIGHTS));
}

/* Create the keys that must not work. */
static void spoil_keys(struct node *n)
{
	/* Not shared, by one more flag than the heap takes: what peers map stays accessible,
	 * because an adapter ignores the program's protection. */
	void *gone = mmap(NULL, GONE_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	set_key(n, KEY_DEAD, (uintptr_t)n->arena,
		ibv_reg_mr(n->pd, n->arena, NODE_ARENA, ALL_RIGHTS));
	if (ibv_dereg_mr(n->mr[KEY_DEAD]))
		DIE("ibv_dereg_mr");
	n->mr[KEY_DEAD] = NULL;
	set_key(n, KEY_GONE, (uintptr_t)gone, ibv_reg_mr(n->pd, gone, GONE_BYTES, ALL_RIGHTS));
	/* Stays mapped, so that nothing else appears there, but inaccessible. */
	mprotect(gone, GONE_BYTES, PROT_NONE);
	n->info.base[KEY_WRONG] = n->info.base[KEY_ZERO] = (uintptr_t)n->arena;
	n->info.key[KEY_WRONG] = n->info.lkey[KEY_WRONG] = (n->info.key[KEY_FULL] + 10) * 5;
	n->info.key[KEY_ZERO] = n->info.lkey[KEY_ZERO] = 0;
}

void node_open(struct node *n, struct ibv_context *shared)
{
	memset(n, 0, sizeof(*n));
	n->borrowed_ctx = shared != NULL;
	n->ctx = shared ? shared : node_open_device();
	n->pd = ibv_alloc_pd(n->ctx);
	n->other_pd = ibv_alloc_pd(n->ctx);
	n->channel = ibv_create_comp_channel(n->ctx);
	if (!n->pd || !n->other_pd || !n->channel)
		DIE("protection domains or channel: errno %d", errno);
	n->arena = peer_memory_map(NODE_ARENA);
	if (n->arena == MAP_FAILED)
		DIE("no memory");
	register_arena(n);
	spoil_keys(n);
	if (node_create_cq(n, 0, CQ_ENTRIES, true) || node_create_cq(n, 1, CQ_ENTRIES, true))
		DIE("completion queues");
	if (ibv_query_gid(n->ctx, 1, 0, &n->info.gid) || ibv_query_device(n->ctx, &n->info.device))
		DIE("queries");
	n->info.comp_vectors = (uint32_t)n->ctx->num_comp_vectors;
}

void node_close(struct node *n)
{
	for (int i = 0; i < NODE_QPS; i++)
		if (n->qp[i])
			EXPECT(node_destroy_qp(n, i) == 0, "ibv_destroy_qp");
	for (int i = 0; i < NODE_CQS; i++)
		if (n->cq[i])
			EXPECT(node_destroy_cq(n, i) == 0, "ibv_destroy_cq");
	for (int k = 0; k < KEY_N; k++)
		if (n->mr[k])
			EXPECT(ibv_dereg_mr(n->mr[k]) == 0, "ibv_dereg_mr of kind %d", k);
	EXPECT(ibv_destroy_comp_channel(n->channel) == 0, "ibv_destroy_comp_channel");
	EXPECT(ibv_dealloc_pd(n->pd) == 0 && ibv_dealloc_pd(n->other_pd) == 0, "ibv_dealloc_pd");
	peer_memory_unmap(n->arena, NODE_ARENA);
	munmap((void *)(uintptr_t)n->info.base[KEY_GONE], GONE_BYTES);
	if (!n->borrowed_ctx)
		EXPECT(ibv_close_device(n->ctx) == 0, "ibv_close_device");
}

/* --- queue pairs ----------------------------------------------------------------- */

int node_create_qp(struct node *n, int qp, struct node_qp_spec *spec)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = n,
		.send_cq = n->cq[spec->send_cq],
		.recv_cq = n->cq[spec->recv_cq],
		.cap = spec->cap,
		.qp_type = spec->type ? spec->type : IBV_QPT_RC,
		.sq_sig_all = spec->sq_sig_all,
	};

	errno = 0;
	n->qp[qp] = ibv_create_qp(n->pd, &attr);
	spec->cap = attr.cap;
	return n->qp[qp] ? 0 : errno;
}

int node_destroy_qp(struct node *n, int qp)
{
	int ret = ibv_destroy_qp(n->qp[qp]);

	if (ret == 0)
		n->qp[qp] = NULL;
	return ret;
}

int node_modify(struct node *n, int qp, struct ibv_qp_attr *attr, int mask)
{
	return ibv_modify_qp(n->qp[qp], attr, mask);
}

int node_set_state(struct node *n, int qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(n->qp[qp], &attr, IBV_QP_STATE);
}

int node_connect(struct node *n, int qp, const struct node_link *link)
{
	struct ibv_qp_attr attr = connect_attr(link->dest_qpn, &link->dgid);
	int ret = 0;

	attr.qp_access_flags = link->access;
	attr.path_mtu = link->mtu;
	attr.rq_psn = link->rq_psn;
	attr.sq_psn = link->sq_psn;
	attr.max_dest_rd_atomic = link->dest_rd_atomic;
	attr.max_rd_atomic = link->rd_atomic;
	attr.min_rnr_timer = link->min_rnr_timer;
	attr.timeout = link->timeout;
	attr.retry_cnt = link->retry_cnt;
	attr.rnr_retry = link->rnr_retry;
	for (enum ibv_qp_state s = IBV_QPS_INIT; ret == 0 && s <= link->to; s++)
		if (n->qp[qp]->state < s)
			ret = connect_step(n->qp[qp], attr, s);
	return ret;
}

enum ibv_qp_state node_state(struct node *n, int qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(n->qp[qp], &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN
								   : attr.qp_state;
}

struct node_psns node_psns(struct node *n, int qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(n->qp[qp], &attr, IBV_QP_SQ_PSN | IBV_QP_RQ_PSN, &init))
		return (struct node_psns){UINT32_MAX, UINT32_MAX};
	return (struct node_psns){attr.sq_psn, attr.rq_psn};
}

/* --- completion queues ----------------------------------------------------------- */

int node_create_cq(struct node *n, int cq, int cqe, bool channel)
{
	errno = 0;
	n->cq[cq] = ibv_create_cq(n->ctx, cqe, n, channel ? n->channel : NULL, 0);
	return n->cq[cq] ? 0 : errno;
}

int node_destroy_cq(struct node *n, int cq)
{
	int ret = ibv_destroy_cq(n->cq[cq]);

	if (ret == 0)
		n->cq[cq] = NULL;
	return ret;
}

int node_poll(struct node *n, int cq, int want, unsigned int ms, struct ibv_wc *wc)
{
	uint64_t end = now_ms() + ms;
	int got = 0;

	for (;;) {
		int ret = ibv_poll_cq(n->cq[cq], want - got, wc + got);

		if (ret < 0)
			return got ? got : ret;
		got += ret;
		if (got == want || now_ms() >= end)
			return got;
		if (ret == 0)
			sched_yield();
	}
}

int node_arm(struct node *n, int cq, int solicited_only)
{
	return ibv_req_notify_cq(n->cq[cq], solicited_only);
}

static bool readable(int fd, unsigned int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, (int)ms) > 0;
}

int node_comp_event(struct node *n, unsigned int ms)
{
	struct ibv_cq *cq;
	void *context;

	if (!readable(n->channel->fd, ms))
		return -1;
	if (ibv_get_cq_event(n->channel, &cq, &context))
		return -1;
	EXPECT(context == n, "cq_context of the event");
	ibv_ack_cq_events(cq, 1);
	for (int i = 0; i < NODE_CQS; i++)
		if (n->cq[i] == cq)
			return i;
	fail_at(__FILE__, __LINE__, "an event of an unknown CQ");
	return -1;
}

/* --- posting --------------------------------------------------------------------- */

static void send_wr(struct ibv_send_wr *wr, const struct node_send *s)
{
	*wr = (struct ibv_send_wr){
		.wr_id = s->wr_id,
		.sg_list = (struct ibv_sge *)(uintptr_t)s->sge,
		.num_sge = s->num_sge,
		.opcode = s->opcode,
		.send_flags = s->flags,
		.imm_data = s->imm,
	};
	if (s->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || s->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = s->remote_addr;
		wr->wr.atomic.rkey = s->rkey;
		wr->wr.atomic.compare_add = s->compare_add;
		wr->wr.atomic.swap = s->swap;
	} else {
		wr->wr.rdma.remote_addr = s->remote_addr;
		wr->wr.rdma.rkey = s->rkey;
	}
}

struct node_posted node_post_send(struct node *n, int qp, const struct node_send *list, int count)
{
	struct ibv_send_wr wr[NODE_LIST], *bad = NULL;
	struct node_posted posted;

	for (int i = 0; i < count; i++) {
		send_wr(&wr[i], &list[i]);
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	errno = 0;
	posted.ret = ibv_post_send(n->qp[qp], wr, &bad);
	posted.errno_ = errno;
	posted.bad = bad ? (int)(bad - wr) : -1;
	return posted;
}

struct node_posted node_post_recv(struct node *n, int qp, const struct node_recv *list, int count)
{
	struct ibv_recv_wr wr[NODE_LIST], *bad = NULL;
	struct node_posted posted;

	for (int i = 0; i < count; i++)
		wr[i] = (struct ibv_recv_wr){
			.wr_id = list[i].wr_id,
			.sg_list = (struct ibv_sge *)(uintptr_t)list[i].sge,
			.num_sge = list[i].num_sge,
			.next = i + 1 < count ? &wr[i + 1] : NULL,
		};
	errno = 0;
	posted.ret = ibv_post_recv(n->qp[qp], wr, &bad);
	posted.errno_ = errno;
	posted.bad = bad ? (int)(bad - wr) : -1;
	return posted;
}

/* --- events ---------------------------------------------------------------------- */

static void name_object(struct node *n, const struct ibv_async_event *e, struct node_event *out)
{
	for (int i = 0; i < NODE_QPS && e->event_type != IBV_EVENT_CQ_ERR; i++)
		if (n->qp[i] == e->element.qp)
			out->qp = i;
	for (int i = 0; i < NODE_CQS && e->event_type == IBV_EVENT_CQ_ERR; i++)
		if (n->cq[i] == e->element.cq)
			out->cq = i;
}

struct node_event node_async(struct node *n, unsigned int ms)
{
	struct node_event out = {.any = false, .qp = -1, .cq = -1};
	struct ibv_async_event e;

	if (!readable(n->ctx->async_fd, ms) || ibv_get_async_event(n->ctx, &e))
		return out;
	out.any = true;
	out.type = e.event_type;
	name_object(n, &e, &out);
	ibv_ack_async_event(&e);
	return out;
}
