/* SPDX-License-Identifier: MIT */
/*
 * Placing payload that waits for the poller. It is copied when its completion is taken, and placed
 * afterwards.
 */
#include "transport/place.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "memory/translate.h"
#include "memory/xfer.h"
#include "queue/stage.h"

/* --- taking: poll_lock is held ----------------------------------------------------- */

/*
 * Copy the payload from the receive request's slot, before the slot is free. A peer wrote the
 * completion, so its length is checked.
 */
static void fetch_payload(struct av_seg *seg, const struct av_rq_shared *rq,
			  const struct av_cqe *cqe, struct av_placement *place)
{
	const uint8_t *from = av_rq_payload(seg, rq, cqe->wqe);
	uint32_t room =
		rq->inline_bytes < AV_MAX_INLINE_RECV ? rq->inline_bytes : AV_MAX_INLINE_RECV;

	if (from && cqe->stage_len <= room)
		memcpy(place->payload, from, cqe->stage_len);
}

/*
 * The number of a request's elements, limited to what there can be. Peers may write to the segment,
 * so it is read once.
 */
static uint32_t count_of(const uint32_t *count)
{
	uint32_t n = __atomic_load_n(count, __ATOMIC_RELAXED);

	return n <= AV_MAX_SGE ? n : 0;
}

/* Copy a request's elements; usually there is one. */
static void keep_elements(struct av_placement *place, const struct ibv_sge *sge, uint32_t count)
{
	place->count = count;
	if (av_likely(count == 1))
		place->sge[0] = sge[0];
	else
		memcpy(place->sge, sge, count * sizeof(sge[0]));
}

/* Copy what a receive request's payload needs. */
static void keep_request(struct av_seg *seg, const struct av_rq_shared *rq,
			 const struct av_cqe *cqe, const struct av_rq_wqe *request,
			 struct av_placement *place)
{
	place->pd = rq->pd;
	keep_elements(place, request->sge, count_of(&request->count));
	if (cqe->flags & AV_CQE_IN_SLOT)
		fetch_payload(seg, rq, cqe, place);
}

/* Free the slot of a completed receive request, after copying what its payload needs. */
static void free_receive_slot(struct av_seg *seg, const struct av_cqe *cqe,
			      struct av_placement *place)
{
	struct av_rq_shared *rq = av_rq_at(seg, cqe->queue);
	const struct av_rq_wqe *request;

	if (!rq)
		return;
	AV_CAME_BY_PEER(&rq->tail); /* the posted request: a peer may have taken it, */
	AV_CAME_BY_PEER(&rq->head); /* after threads of this process had taken theirs */
	request = av_rq_wqe(seg, rq, cqe->wqe);
	if (!request)
		return;
	if (place)
		keep_request(seg, rq, cqe, request, place);
	av_rq_freed(seg, rq, cqe->wqe);
}

/* Copy the elements that say where a send request wants its answer. */
static void fetch_elements(struct av_seg *seg, struct av_qp_shared *qp, const struct av_cqe *cqe,
			   struct av_placement *place)
{
	const struct av_sq_wqe *wqe = av_sq_slot(&(struct av_qp_end){seg, qp}, cqe->wqe);

	place->pd = qp->pd;
	place->count = 0;
	if (wqe)
		keep_elements(place, wqe->sge, count_of(&wqe->count));
}

void av_place_free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct av_placement *place)
{
	struct av_qp_shared *qp;

	if (cqe->flags & AV_CQE_RECV) {
		free_receive_slot(seg, cqe, place);
		return;
	}
	qp = av_qp_at(seg, cqe->queue);
	if (!qp)
		return;
	AV_CAME_BY_PEER(&qp->sq_tail); /* the posted request: a peer may have executed it, */
	AV_CAME_BY_PEER(&qp->exec);    /* after threads of this process had tried to */
	if (av_unlikely(place != NULL))
		fetch_elements(seg, qp, cqe, place);
	atomic_store_explicit(&qp->sq_freed, cqe->wqe + 1, memory_order_release);
}

void av_place_keep(struct av_placement *place, const struct av_cqe *cqe)
{
	memcpy(&place->cqe, cqe, offsetof(struct av_cqe, data));
	av_cqe_copy_data(place->cqe.data, cqe->data, place->cqe.data_len);
}

/* --- placing ----------------------------------------------------------------------- */

static enum av_fault place_chain(struct av_seg *seg, struct av_spans *to, const struct av_cqe *cqe)
{
	struct av_spans from, rest;
	uint32_t link = cqe->stage;

	av_spans_copy(&rest, to);
	for (uint64_t left = cqe->stage_len; left > 0;) {
		uint64_t n = left < AV_STAGE_BYTES ? left : AV_STAGE_BYTES;
		enum av_fault ret;

		av_spans_local(&from, NULL, av_stage_buffer(seg, link), n);
		if (!from.at[0].local)
			return AV_FAULT_SRC;
		ret = av_xfer_copy_part(&rest, &from, n, av_now_coarse_ns());
		if (ret != AV_FAULT_NONE)
			return ret;
		av_spans_skip(&rest, n);
		left -= n;
		link = av_stage_next(seg, link);
	}
	return AV_FAULT_NONE;
}

/* Address of the payload in this process's own memory; NULL: it is in staging buffers. */
static uint8_t *payload_here(struct av_placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data;
	return p->cqe.flags & AV_CQE_IN_SLOT ? p->payload : NULL;
}

/*
 * Length of the payload.
 * Return:  0: more than there can be; a peer wrote the completion
 */
static uint64_t payload_bytes(const struct av_placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data_len <= AV_CQE_DATA ? p->cqe.data_len : 0;
	return p->cqe.flags & AV_CQE_IN_SLOT && p->cqe.stage_len > AV_MAX_INLINE_RECV
		       ? 0
		       : p->cqe.stage_len;
}

static enum av_fault place_once(struct av_seg *seg, struct av_placement *p)
{
	uint64_t bytes = payload_bytes(p);
	uint8_t *here = payload_here(p);
	struct av_spans to, from;
	enum av_fault ret;

	if (bytes == 0)
		return AV_FAULT_DST;
	ret = av_fault_of(
		av_mem_get_list(seg, p->pd, IBV_ACCESS_LOCAL_WRITE, p->sge, p->count, bytes, &to),
		AV_FAULT_DST);
	if (ret != AV_FAULT_NONE)
		return ret;
	if (here) {
		av_spans_local(&from, NULL, here, bytes);
		ret = av_xfer_copy(&to, &from, av_now_coarse_ns());
	} else {
		ret = place_chain(seg, &to, &p->cqe);
	}
	av_mem_put_list(&to);
	return ret;
}

/*
 * Count one waiting answer less. If the queue pair was reset meanwhile, none of its answers waits.
 */
static void answer_placed(struct av_seg *seg, const struct av_cqe *cqe)
{
	struct av_qp_shared *qp = cqe->flags & AV_CQE_RECV ? NULL : av_qp_at(seg, cqe->queue);
	uint32_t left = qp ? atomic_load(&qp->answers) : 0;

	while (left && !atomic_compare_exchange_weak(&qp->answers, &left, left - 1))
		;
}

bool av_place(struct av_seg *seg, struct av_placement *place)
{
	enum av_fault ret;

	while ((ret = place_once(seg, place)) == AV_FAULT_BUSY)
		sched_yield();
	av_stage_give(seg, place->cqe.stage, place->cqe.stage_len);
	answer_placed(seg, &place->cqe);
	return ret == AV_FAULT_NONE;
}

/* --- entries that found no room ------------------------------------------------------ */

/* The buffers for an entry's payload. Return: false: there are none */
static bool find_buffers(struct av_seg *seg, const struct av_cqe *cqe, struct av_rq_shared *rq,
			 struct av_placement *place)
{
	struct av_qp_shared *qp = cqe->flags & AV_CQE_RECV ? NULL : av_qp_at(seg, cqe->queue);
	const struct av_rq_wqe *request = rq ? av_rq_wqe(seg, rq, cqe->wqe) : NULL;

	av_place_keep(place, cqe);
	if (request)
		keep_request(seg, rq, cqe, request, place);
	else if (qp)
		fetch_elements(seg, qp, cqe, place);
	return request || qp;
}

void av_place_lost(struct av_seg *seg, const struct av_cqe *cqe)
{
	struct av_rq_shared *rq = cqe->flags & AV_CQE_RECV ? av_rq_at(seg, cqe->queue) : NULL;
	struct av_placement place;

	if (AV_CQE_HAS_PAYLOAD(cqe)) {
		if (find_buffers(seg, cqe, rq, &place))
			(void)place_once(seg, &place); /* a region that is changing gets nothing */
		av_stage_give(seg, cqe->stage, cqe->stage_len);
		answer_placed(seg, cqe);
	}
	if (rq)
		av_rq_drop(seg, rq, cqe->wqe);
}

/* --- answers, placed before they are polled ---------------------------------------- */

/* Find the queue pair's first answer in its CQ that is not placed yet, and where it is wanted. */
static bool find_answer(const struct av_qp_end *end, struct av_cq_shared *cq,
			struct av_placement *place, uint32_t *number)
{
	uint32_t qpn = atomic_load(&end->qp->qpn);
	const struct av_cqe *e;
	bool found = false;

	av_lock_acquire_plain(&cq->poll_lock, AV_RANK_POLL);
	for (uint32_t i = atomic_load(&cq->head);
	     !found && (e = av_cq_present(end->seg, cq, av_cq_used(cq), i)); i++) {
		found = e->qpn == qpn && !(e->flags & AV_CQE_RECV) && e->data_len;
		if (!found)
			continue;
		place->cqe = *e;
		fetch_elements(end->seg, end->qp, e, place);
		*number = i;
	}
	av_lock_release(&cq->poll_lock);
	return found;
}

/*
 * The answer, if no poller has taken it.
 * Context: poll_lock is held, which keeps it there.
 */
static struct av_cqe *still_there(const struct av_qp_end *end, struct av_cq_shared *cq,
				  uint32_t number)
{
	return (int32_t)(number - atomic_load(&cq->head)) >= 0
		       ? av_cq_present(end->seg, cq, av_cq_used(cq), number)
		       : NULL;
}

/*
 * Place an answer that was found, unless a poller has taken it. poll_lock is held meanwhile:
 * otherwise a poller that comes now would return before the bytes are there. They are few, and in
 * this process's own memory.
 */
static enum av_fault place_early_once(const struct av_qp_end *end, struct av_cq_shared *cq,
				      struct av_placement *p, uint32_t number)
{
	uint64_t bytes = payload_bytes(p);
	enum av_fault ret = AV_FAULT_DST;
	struct av_spans to, from;
	struct av_cqe *cqe;
	enum av_check found = av_mem_get_list(end->seg, p->pd, IBV_ACCESS_LOCAL_WRITE, p->sge,
					      p->count, bytes, &to);

	if (found == AV_CHECK_BUSY)
		return AV_FAULT_BUSY;
	av_lock_acquire_plain(&cq->poll_lock, AV_RANK_POLL);
	cqe = still_there(end, cq, number);
	av_spans_local(&from, NULL, p->cqe.data, bytes);
	if (cqe && found == AV_CHECK_NONE)
		ret = av_xfer_copy(&to, &from, av_now_coarse_ns());
	if (cqe && ret != AV_FAULT_BUSY)
		cqe->data_len = 0;
	if (cqe && ret != AV_FAULT_NONE && ret != AV_FAULT_BUSY)
		cqe->status = IBV_WC_LOC_PROT_ERR;
	av_lock_release(&cq->poll_lock);
	if (found == AV_CHECK_NONE)
		av_mem_put_list(&to);
	if (cqe && ret != AV_FAULT_BUSY)
		answer_placed(end->seg, &p->cqe);
	return cqe ? ret : AV_FAULT_NONE;
}

static bool place_early(const struct av_qp_end *end, struct av_cq_shared *cq,
			struct av_placement *p, uint32_t number)
{
	enum av_fault ret;

	while ((ret = place_early_once(end, cq, p, number)) == AV_FAULT_BUSY)
		sched_yield();
	return ret == AV_FAULT_NONE;
}

bool av_place_answers(const struct av_qp_end *end)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->send_cq);
	struct av_placement place;
	uint32_t number;
	bool ok = true;

	AV_ASSERT_HELD(&end->qp->exec);
	while (cq && ok && atomic_load(&end->qp->answers)) {
		if (find_answer(end, cq, &place, &number))
			ok = place_early(end, cq, &place, number);
		else
			sched_yield(); /* a poller is placing it */
	}
	return ok;
}
