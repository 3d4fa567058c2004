/* SPDX-License-Identifier: MIT */
/*
 * Placing payload that waits for the poller. It is copied when its completion is taken, and placed
 * afterwards.
 */
#include "transport/execution.h"

/* --- taking: poll_lock is held ----------------------------------------------------- */

/*
 * Copy the payload from the request's slot before that is free. A peer wrote its length: check it.
 */
static void fetch_payload(struct av_seg *seg, const struct av_rq_shared *rq,
			  const struct av_cqe *cqe, struct av_placement *place)
{
	const uint8_t *from = av_rq_payload(seg, rq, cqe->wqe);
	uint32_t room =
		rq->inline_bytes < AV_MAX_INLINE_RECV ? rq->inline_bytes : AV_MAX_INLINE_RECV;

	if (from && cqe->bounce_len <= room)
		memcpy(place->payload, from, cqe->bounce_len);
}

/*
 * The number of a request's elements, limited to what there can be. Peers may write to the segment,
 * so it is read once.
 */
static uint32_t read_sge_count(const uint32_t *count)
{
	uint32_t n = __atomic_load_n(count, __ATOMIC_RELAXED);

	return n <= AV_MAX_SGE ? n : 0;
}

/*
 * Copy the completion @cqe, with the payload that it has itself, and what the payload needs of its
 * receive request. Usually that has one element.
 */
static void keep(struct av_seg *seg, const struct av_rq_shared *rq, const struct av_cqe *cqe,
		 const struct av_rq_wqe *request, struct av_placement *place)
{
	memcpy(&place->cqe, cqe, offsetof(struct av_cqe, data));
	av_cqe_copy_data(place->cqe.data, cqe->data, place->cqe.data_len);
	place->count = 0;
	if (!request)
		return;
	place->pd = rq->pd;
	place->count = read_sge_count(&request->count);
	if (av_likely(place->count == 1))
		place->sge[0] = request->sge[0];
	else
		memcpy(place->sge, request->sge, place->count * sizeof(place->sge[0]));
	if (cqe->flags & AV_CQE_IN_SLOT)
		fetch_payload(seg, rq, cqe, place);
}

void av_place_free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct av_placement *place)
{
	struct av_rq_shared *rq = av_rq_at(seg, cqe->queue);
	const struct av_rq_wqe *request = NULL;

	if (av_likely(rq != NULL)) {
		AV_CAME_BY_PEER(&rq->tail); /* the posted request: a peer may have taken it, */
		AV_CAME_BY_PEER(&rq->head); /* after threads of this process had taken theirs */
		request = av_rq_wqe(seg, rq, cqe->wqe);
	}
	if (place)
		keep(seg, rq, cqe, request, place);
	if (request)
		av_rq_freed(seg, rq, cqe->wqe);
}

/* --- placing ----------------------------------------------------------------------- */

static enum av_fault place_chain(struct av_seg *seg, struct av_spans *to, const struct av_cqe *cqe)
{
	struct av_spans from, rest;
	uint32_t link = cqe->bounce;

	av_spans_copy(&rest, to);
	for (uint64_t left = cqe->bounce_len; left > 0;) {
		uint64_t n = left < AV_BOUNCE_BYTES ? left : AV_BOUNCE_BYTES;
		enum av_fault ret;

		av_spans_local(&from, NULL, av_bounce_buffer(seg, link), n);
		if (!from.at[0].local)
			return AV_FAULT_SRC;
		ret = av_xfer_copy_part(&rest, &from, n, av_now_coarse_ns());
		if (ret != AV_FAULT_NONE)
			return ret;
		av_spans_skip(&rest, n);
		left -= n;
		link = av_bounce_next(seg, link);
	}
	return AV_FAULT_NONE;
}

/* Address of the payload in this process's own memory; NULL: it is in bounce buffers. */
static uint8_t *payload_here(struct av_placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data;
	return p->cqe.flags & AV_CQE_IN_SLOT ? p->payload : NULL;
}

/* Length of the payload. 0: more than there can be; a peer wrote the completion */
static uint64_t payload_bytes(const struct av_placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data_len <= AV_CQE_DATA ? p->cqe.data_len : 0;
	return p->cqe.flags & AV_CQE_IN_SLOT && p->cqe.bounce_len > AV_MAX_INLINE_RECV
		       ? 0
		       : p->cqe.bounce_len;
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

bool av_place(struct av_seg *seg, struct av_placement *place)
{
	enum av_fault ret;

	do
		ret = place_once(seg, place);
	while (ret == AV_FAULT_BUSY && av_key_retry(NULL));
	av_bounce_give(seg, place->cqe.bounce, place->cqe.bounce_len);
	return ret == AV_FAULT_NONE;
}

/* --- entries that found no room ------------------------------------------------------ */

void av_place_lost(struct av_seg *seg, const struct av_cqe *cqe)
{
	struct av_rq_shared *rq = av_rq_at(seg, cqe->queue);
	const struct av_rq_wqe *request = rq ? av_rq_wqe(seg, rq, cqe->wqe) : NULL;
	struct av_placement place;

	if (request && AV_CQE_HAS_PAYLOAD(cqe)) {
		keep(seg, rq, cqe, request, &place);
		(void)place_once(seg, &place); /* a region that is changing gets nothing */
	}
	av_bounce_give(seg, cqe->bounce, cqe->bounce_len);
	if (rq)
		av_rq_drop(seg, rq, cqe->wqe);
}
