/* SPDX-License-Identifier: MIT */
#include "queue/qp.h"

/* Setting up and taking down the shared part of a queue pair. */

static uint32_t compute_sq_stride(const struct ibv_qp_cap *cap, uint32_t max_operand)
{
	uint32_t sges = cap->max_send_sge * (uint32_t)sizeof(struct ibv_sge);
	uint32_t room = sges > cap->max_inline_data ? sges : cap->max_inline_data;

	/* ibv_wr_atomic_write() copies 8 bytes even without elements and inline data. */
	if (room < sizeof(uint64_t))
		room = sizeof(uint64_t);
	if (max_operand)
		room = (uint32_t)(av_round_up(room, AV_CACHE_LINE) + AV_SQ_OPERANDS);
	return (uint32_t)av_round_up(sizeof(struct av_sq_wqe) + room, AV_CACHE_LINE);
}

static uint64_t sq_ring_bytes(const struct av_qp_shared *qp)
{
	return ((uint64_t)qp->sq_mask + 1) * qp->sq_stride;
}

/* All but the number, and the lock words: a peer with a stale index may hold one now. */
static void init_shared_qp_fields(struct av_qp_shared *qp, uint32_t index,
				  const struct av_qp_request *req)
{
	qp->type = req->type;
	qp->index = index;
	qp->pd = req->pd;
	qp->send_cq = req->send_cq;
	qp->recv_cq = req->recv_cq;
	qp->sig_all = req->sig_all;
	qp->blocks_loopback = req->blocks_loopback;
	qp->inline_recv = req->inline_recv;
	qp->srq = req->srq != 0;
	qp->xrcd = req->xrcd;
	qp->sq_capacity = req->cap.max_send_wr;
	qp->sq_mask = av_ring_entries(req->cap.max_send_wr) - 1;
	qp->sq_stride = compute_sq_stride(&req->cap, req->max_operand);
	qp->sq_max_sge = req->cap.max_send_sge;
	qp->max_inline = req->cap.max_inline_data;
	qp->max_operand = req->max_operand;
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->attr.cap = req->cap;
	atomic_store(&qp->state, IBV_QPS_RESET);
	atomic_store(&qp->sq_tail, 0);
	atomic_store(&qp->sq_freed, 0);
	atomic_store(&qp->kick, 0);
	atomic_store(&qp->last_wqe, 0);
	atomic_store(&qp->flush_due, 0);
	atomic_store(&qp->wait_reason, AV_WAIT_NONE);
	qp->before = qp->counters;
	qp->sq_next = qp->next_psn = qp->drain_notify = 0;
	qp->expected_psn = qp->msn = qp->receiving = qp->established = 0;
}

static uint32_t own_rq(struct av_seg *seg, const struct av_qp_request *req)
{
	struct av_rq_request rq = {
		.capacity = req->cap.max_recv_wr,
		.max_sge = req->cap.max_recv_sge,
		.pd = req->pd,
		.inline_bytes = req->inline_recv > AV_CQE_DATA
					? req->inline_recv
					: 0, /* otherwise in the completion */
		.policy = req->policy,
	};

	return av_rq_init(seg, &rq);
}

/* Up to what a ring and the slots of the smallest stride hold anyway. */
static uint32_t round_depth(uint32_t depth, uint32_t limit)
{
	uint32_t entries = depth ? av_ring_entries(depth) : 0;

	return entries < limit ? entries : limit;
}

struct av_qp_ref av_qp_get_at(const struct av_qp_location *location)
{
	struct av_seg *seg = location->ref ? av_seg_get(location->ref) : NULL;

	return (struct av_qp_ref){seg, seg ? av_qp_at(seg, location->index) : NULL};
}

struct av_qp_ref av_qp_get(uint32_t qpn)
{
	struct av_qp_location location = av_dir_qpn_find(qpn);

	return av_qp_get_at(&location);
}

void av_qp_round_cap(struct ibv_qp_cap *cap, uint32_t max_wr)
{
	cap->max_send_wr = round_depth(cap->max_send_wr, max_wr);
	cap->max_recv_wr = round_depth(cap->max_recv_wr, max_wr);
	if (cap->max_send_wr && cap->max_inline_data < AV_MIN_INLINE)
		cap->max_inline_data = AV_MIN_INLINE;
}

uint32_t av_qp_init(struct av_seg *seg, const struct av_qp_request *req)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_QP, AV_MAX_QP);
	struct av_qp_shared *qp = index ? av_qp_at(seg, index) : NULL;
	int qpn;

	if (!qp)
		return 0;
	av_lock_acquire_plain(&qp->req_lock, AV_RANK_REQUESTER);
	av_lock_acquire_plain(&qp->resp_lock, AV_RANK_RESPONDER);
	init_shared_qp_fields(qp, index, req);
	qp->rq = req->srq ? req->srq : own_rq(seg, req);
	qp->sq_ring = av_ring_alloc(seg, sq_ring_bytes(qp), req->policy);
	qpn = qp->rq && qp->sq_ring ? av_dir_qpn_add(seg->ref, index, req->limit) : -ENOMEM;
	if (qpn > 0)
		atomic_store(&qp->qpn, (uint32_t)qpn);
	av_lock_release(&qp->resp_lock);
	av_lock_release(&qp->req_lock);
	if (qpn > 0)
		return index;
	if (qp->rq && !qp->srq)
		av_rq_fini(seg, qp->rq);
	av_seg_free(seg, qp->sq_ring, sq_ring_bytes(qp));
	av_slab_free(seg, AV_SLAB_QP, index);
	errno = ENOMEM;
	return 0;
}

void av_qp_fini(struct av_seg *seg, uint32_t index)
{
	struct av_qp_shared *qp = av_qp_at(seg, index);

	av_dir_qpn_remove(atomic_load(&qp->qpn));
	av_lock_acquire_plain(&qp->req_lock, AV_RANK_REQUESTER);
	av_lock_acquire_plain(&qp->resp_lock, AV_RANK_RESPONDER);
	/* A peer that has found us before takes a lock next, and sees this. */
	atomic_store(&qp->qpn, 0);
	av_lock_release(&qp->resp_lock);
	av_lock_release(&qp->req_lock);
	if (!qp->srq)
		av_rq_fini(seg, qp->rq);
	av_seg_free(seg, qp->sq_ring, sq_ring_bytes(qp));
	av_slab_free(seg, AV_SLAB_QP, index);
}

/*
 * One table, laid out as in the specification: each transition is a group with one line per
 * service, first the required bits, then the optional ones. IBV_QP_STATE is implied everywhere.
 */

/* The attribute bits, by their names in the tables of the specification. */
enum {
	CUR_STATE = IBV_QP_CUR_STATE,
	EN_SQD_NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	ACCESS = IBV_QP_ACCESS_FLAGS,
	PKEY = IBV_QP_PKEY_INDEX,
	PORT = IBV_QP_PORT,
	QKEY = IBV_QP_QKEY,
	AV = IBV_QP_AV,
	PATH_MTU = IBV_QP_PATH_MTU,
	TIMEOUT = IBV_QP_TIMEOUT,
	RETRY_CNT = IBV_QP_RETRY_CNT,
	RNR_RETRY = IBV_QP_RNR_RETRY,
	RQ_PSN = IBV_QP_RQ_PSN,
	MAX_RD = IBV_QP_MAX_QP_RD_ATOMIC,
	ALT_PATH = IBV_QP_ALT_PATH,
	MIN_RNR = IBV_QP_MIN_RNR_TIMER,
	SQ_PSN = IBV_QP_SQ_PSN,
	MAX_DEST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
	PATH_MIG = IBV_QP_PATH_MIG_STATE,
	DEST_QPN = IBV_QP_DEST_QPN,
};

enum service { UD, UC, RC, XRC_SEND, XRC_RECV, SERVICE_N };

/* What a path needs before the responder may run, and what may change while a connected QP runs. */
#define PATH	     (AV | PATH_MTU | DEST_QPN | RQ_PSN)
#define RUNNING	     (CUR_STATE | ALT_PATH | ACCESS | PATH_MIG)
#define RESPONDER    (MAX_DEST_RD | MIN_RNR)
#define REQUESTER    (TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD)
#define CONNECTED    [UC... XRC_RECV] /* every service but UD */
#define ON(from, to) [IBV_QPS_##from][IBV_QPS_##to]

/* clang-format off */
#define CELL(r, o) {.valid = true, .required = (r), .optional = (o)}
#define RUNS_ON { \
	[UD] = CELL(0, CUR_STATE | QKEY), [UC] = CELL(0, RUNNING), [RC] = CELL(0, RUNNING | MIN_RNR), \
	[XRC_SEND] = CELL(0, RUNNING), [XRC_RECV] = CELL(0, RUNNING | MIN_RNR) }

static const struct av_qp_transition table[AV_QP_STATE_N][AV_QP_STATE_N][SERVICE_N] = {
	/*                    required                       optional */
	ON(RESET, INIT) = {
		[UD]       = CELL(PKEY | PORT | QKEY,        0),
		CONNECTED  = CELL(PKEY | PORT | ACCESS,      0),
	},
	ON(INIT, INIT) = {
		[UD]       = CELL(0,                         PKEY | PORT | QKEY),
		CONNECTED  = CELL(0,                         PKEY | PORT | ACCESS),
	},
	ON(INIT, RTR) = {
		[UD]       = CELL(0,                         PKEY | QKEY),
		[UC]       = CELL(PATH,                      ALT_PATH | ACCESS | PKEY),
		[RC]       = CELL(PATH | RESPONDER,          ALT_PATH | ACCESS | PKEY),
		[XRC_SEND] = CELL(PATH,                      ALT_PATH | ACCESS | PKEY),
		[XRC_RECV] = CELL(PATH | RESPONDER,          ALT_PATH | ACCESS | PKEY),
	},
	ON(RTR, RTS) = {
		[UD]       = CELL(SQ_PSN,                    CUR_STATE | QKEY),
		[UC]       = CELL(SQ_PSN,                    RUNNING),
		[RC]       = CELL(SQ_PSN | REQUESTER,        RUNNING | MIN_RNR),
		[XRC_SEND] = CELL(SQ_PSN | REQUESTER,        RUNNING),
		[XRC_RECV] = CELL(SQ_PSN | TIMEOUT,          RUNNING | MIN_RNR),
	},
	ON(RTS, RTS) = RUNS_ON,
	ON(RTS, SQD) = {
		[UD]       = CELL(0,                         EN_SQD_NOTIFY),
		CONNECTED  = CELL(0,                         EN_SQD_NOTIFY),
	},
	ON(SQD, RTS) = RUNS_ON,
	ON(SQD, SQD) = {
		[UD]       = CELL(0, PKEY | QKEY),
		[UC]       = CELL(0, AV | ALT_PATH | ACCESS | PKEY | PATH_MIG),
		[RC]       = CELL(0, PORT | AV | REQUESTER | RESPONDER | ALT_PATH | ACCESS | PKEY | PATH_MIG),
		[XRC_SEND] = CELL(0, PORT | AV | REQUESTER | ALT_PATH | ACCESS | PKEY | PATH_MIG),
		[XRC_RECV] = CELL(0, PORT | AV | TIMEOUT | RESPONDER | ALT_PATH | ACCESS | PKEY | PATH_MIG),
	},
	/* Only unreliable services have an SQE state; a reliable one goes to ERR. */
	ON(SQE, RTS) = {
		[UD]       = CELL(0,                         CUR_STATE | QKEY),
		[UC]       = CELL(0,                         CUR_STATE | ACCESS),
	},
};
/* clang-format on */

static enum service qp_type_service(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UD:
		return UD;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_XRC_SEND:
		return XRC_SEND;
	case IBV_QPT_XRC_RECV:
		return XRC_RECV;
	default:
		return SERVICE_N;
	}
}

static bool state_exists(enum ibv_qp_state state)
{
	return (unsigned int)state < AV_QP_STATE_N;
}

struct av_qp_transition av_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
					 enum ibv_qp_state to)
{
	enum service service = qp_type_service(type);

	if (service == SERVICE_N || !state_exists(from) || !state_exists(to))
		return (struct av_qp_transition){.valid = false};
	if (to == IBV_QPS_RESET)
		return (struct av_qp_transition){.valid = true};
	if (to == IBV_QPS_ERR)
		return (struct av_qp_transition){.valid = from != IBV_QPS_RESET};
	return table[from][to][service];
}

/* Attributes of the other half of an RC QP, which programs written for RC pass. */
static int ignored_bits(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return MAX_DEST_RD | MIN_RNR;
	case IBV_QPT_XRC_RECV:
		return MAX_RD | RETRY_CNT | RNR_RETRY;
	default:
		return 0;
	}
}

/* The states that a program may claim as current: the hardware may enter them without a call. */
static bool may_be_current(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

int av_qp_own_mask(enum ibv_qp_type type, int attr_mask)
{
	return attr_mask & ~ignored_bits(type);
}

/* @state: the one that the sentence speaks of */
static int refuse_qp_modify(enum av_check check, uint32_t wanted, uint32_t limit,
			    enum ibv_qp_state state)
{
	int err = av_refuse(EINVAL, check, wanted, limit);

	av_diag_state(state);
	return err;
}

int av_qp_check_modify(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state cur,
		       enum ibv_qp_state to, int attr_mask, enum ibv_qp_state *to_out)
{
	const int mask = av_qp_own_mask(type, attr_mask) & ~IBV_QP_STATE;
	const bool moves = attr_mask & IBV_QP_STATE;
	const enum ibv_qp_state start = mask & CUR_STATE ? cur : from;
	const enum ibv_qp_state end = moves ? to : start;
	struct av_qp_transition cell;
	uint32_t missing, extra;

	if (mask & CUR_STATE && !may_be_current(cur))
		return av_refuse(EINVAL, AV_CHECK_STATE_CURRENT, (uint64_t)(int)cur, 0);
	cell = av_qp_transition(type, start, end);
	if (!cell.valid)
		return refuse_qp_modify(AV_CHECK_STATE_CHANGE, end, start, start);
	missing = (uint32_t)(cell.required & ~mask);
	extra = (uint32_t)(mask & ~(cell.required | cell.optional));
	if (missing)
		return refuse_qp_modify(AV_CHECK_STATE_MISSING, missing, (uint32_t)cell.required,
					end);
	if (extra)
		return refuse_qp_modify(AV_CHECK_STATE_EXTRA, extra,
					(uint32_t)(cell.required | cell.optional), end);
	/* A claimed current state only selects the cell. */
	*to_out = moves ? to : from;
	return 0;
}
