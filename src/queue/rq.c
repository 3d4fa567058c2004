/* SPDX-License-Identifier: MIT */
/* The ring of receive requests. */
#include "queue/rq.h"

#include <errno.h>
#include <string.h>

#include "hca/limits.h"

static uint64_t stride(uint32_t max_sge)
{
	return av_round_up(sizeof(struct av_rq_wqe) + (uint64_t)max_sge * sizeof(struct ibv_sge), 32);
}

static uint32_t slots(uint32_t capacity)
{
	return capacity <= 1 ? 1 : 1u << (32 - __builtin_clz(capacity - 1));
}

static uint64_t ring_bytes(uint32_t mask, uint32_t max_sge)
{
	return ((uint64_t)mask + 1) * stride(max_sge);
}

uint32_t av_rq_init(struct av_seg *seg, uint32_t capacity, uint32_t max_sge, uint32_t pd)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_RQ, AV_MAX_QP);
	uint32_t mask = slots(capacity) - 1;
	struct av_rq_shared *rq;
	uint64_t ring;

	if (!index)
		return 0;
	ring = av_seg_alloc(seg, ring_bytes(mask, max_sge));
	rq = av_rq_at(seg, index);
	if (!ring || !rq) {
		av_slab_free(seg, AV_SLAB_RQ, index);
		return 0;
	}
	memset(rq, 0, sizeof(*rq));
	rq->capacity = capacity;
	rq->mask = mask;
	rq->max_sge = max_sge;
	rq->pd = pd;
	rq->ring = ring;
	return index;
}

void av_rq_fini(struct av_seg *seg, uint32_t index)
{
	struct av_rq_shared *rq = av_rq_at(seg, index);

	av_seg_free(seg, rq->ring, ring_bytes(rq->mask, rq->max_sge));
	av_slab_free(seg, AV_SLAB_RQ, index);
}

void av_rq_reset(struct av_rq_shared *rq)
{
	atomic_store(&rq->head, 0);
	atomic_store(&rq->freed, 0);
	atomic_store(&rq->tail, 0);
	atomic_store(&rq->waiting, 0);
}

static struct av_rq_wqe *slot(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number)
{
	uint32_t mask = rq->mask, max_sge = rq->max_sge;
	uint8_t *ring;

	if (av_unlikely(mask >= AV_MAX_QP_WR * 2 || max_sge > AV_MAX_SGE))
		return NULL;
	ring = av_seg_at(seg, rq->ring, ring_bytes(mask, max_sge));
	return ring ? (struct av_rq_wqe *)(ring + (number & mask) * stride(max_sge)) : NULL;
}

static void fill(struct av_rq_wqe *wqe, const struct ibv_recv_wr *wr)
{
	wqe->wr_id = wr->wr_id;
	wqe->count = (uint32_t)wr->num_sge;
	wqe->bytes = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		wqe->sge[i] = wr->sg_list[i];
		wqe->bytes += wr->sg_list[i].length;
	}
}

int av_rq_post(struct av_seg *seg, struct av_rq_shared *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t tail;
	int ret = 0;

	av_lock_acquire_plain(&rq->post_lock);
	tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	for (; wr; wr = wr->next, tail++) {
		if (tail - atomic_load_explicit(&rq->freed, memory_order_acquire) >= rq->capacity)
			ret = ENOMEM;
		else if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
			ret = EINVAL;
		if (ret) {
			*bad = wr;
			break;
		}
		fill(slot(seg, rq, tail), wr);
	}
	/* Full barrier: what the caller reads next (waiting, QP state) is read after the requests are visible. */
	atomic_exchange(&rq->tail, tail);
	av_lock_release(&rq->post_lock);
	return ret;
}

const struct av_rq_wqe *av_rq_wqe(struct av_seg *seg, const struct av_rq_shared *rq, uint32_t number)
{
	const struct av_rq_wqe *wqe = slot(seg, rq, number);

	return wqe && wqe->count <= rq->max_sge && wqe->count <= AV_MAX_SGE ? wqe : NULL;
}

const struct av_rq_wqe *av_rq_next(struct av_seg *seg, struct av_rq_shared *rq)
{
	uint32_t head = atomic_load_explicit(&rq->head, memory_order_relaxed);

	if (atomic_load(&rq->tail) == head)
		return NULL;
	return av_rq_wqe(seg, rq, head);
}
