/* SPDX-License-Identifier: MIT */
/* Setting up and taking down the shared part of a queue pair. */
#include "queue/qp.h"

#include <errno.h>
#include <string.h>

#include "registry/directory.h"
#include "queue/ring.h"

static uint32_t stride(const struct ibv_qp_cap *cap, uint32_t max_operand)
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

static uint64_t ring_bytes(const struct av_qp_shared *qp)
{
	return ((uint64_t)qp->sq_mask + 1) * qp->sq_stride;
}

/* All but the number, and the lock words: a peer with a stale index may hold one now. */
static void fill(struct av_qp_shared *qp, uint32_t index, const struct av_qp_request *req)
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
	qp->sq_stride = stride(&req->cap, req->max_operand);
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
	atomic_store(&qp->overdue, 0);
	atomic_store(&qp->park, AV_PARK_NOT);
	qp->before = qp->counters;
	qp->sq_next = qp->next_psn = qp->retries = qp->drain_notify = 0;
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

struct av_qp_end av_qp_get_at(const struct av_qp_location *location)
{
	struct av_seg *seg = location->ref ? av_seg_get(location->ref) : NULL;

	return (struct av_qp_end){seg, seg ? av_qp_at(seg, location->index) : NULL};
}

struct av_qp_end av_qp_get(uint32_t qpn)
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
	av_lock_acquire_plain(&qp->exec, AV_RANK_EXEC);
	av_lock_acquire_plain(&qp->resp, AV_RANK_RESP);
	fill(qp, index, req);
	qp->rq = req->srq ? req->srq : own_rq(seg, req);
	qp->sq_ring = av_ring_alloc(seg, ring_bytes(qp), req->policy);
	qpn = qp->rq && qp->sq_ring ? av_dir_qpn_add(seg->ref, index, req->limit) : -ENOMEM;
	if (qpn > 0)
		atomic_store(&qp->qpn, (uint32_t)qpn);
	av_lock_release(&qp->resp);
	av_lock_release(&qp->exec);
	if (qpn > 0)
		return index;
	if (qp->rq && !qp->srq)
		av_rq_fini(seg, qp->rq);
	av_seg_free(seg, qp->sq_ring, ring_bytes(qp));
	av_slab_free(seg, AV_SLAB_QP, index);
	errno = ENOMEM;
	return 0;
}

void av_qp_fini(struct av_seg *seg, uint32_t index)
{
	struct av_qp_shared *qp = av_qp_at(seg, index);

	av_dir_qpn_remove(atomic_load(&qp->qpn));
	av_lock_acquire_plain(&qp->exec, AV_RANK_EXEC);
	av_lock_acquire_plain(&qp->resp, AV_RANK_RESP);
	/* A peer that has found us before takes a right next, and sees this. */
	atomic_store(&qp->qpn, 0);
	av_lock_release(&qp->resp);
	av_lock_release(&qp->exec);
	if (!qp->srq)
		av_rq_fini(seg, qp->rq);
	av_seg_free(seg, qp->sq_ring, ring_bytes(qp));
	av_slab_free(seg, AV_SLAB_QP, index);
}
