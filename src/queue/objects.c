/* SPDX-License-Identifier: MIT */
#include "queue/objects.h"

#include <stdlib.h>

#include "segment/segment_view.h"
#include "memory/region_report.h"

/* --- walking ---------------------------------------------------------------------- */

const struct av_qp_shared *av_qp_next(const struct av_seg *seg, uint32_t *index)
{
	while (*index < AV_SLAB_CHUNKS * AV_OBJ_CHUNK) {
		const struct av_qp_shared *qp = av_qp_at(seg, *index);

		*index += qp ? 1 : AV_OBJ_CHUNK - *index % AV_OBJ_CHUNK;
		if (qp && atomic_load_explicit(&qp->qpn, memory_order_acquire))
			return qp;
	}
	return NULL;
}

const struct av_cq_shared *av_cq_next(const struct av_seg *seg, uint32_t *index)
{
	while (*index < AV_SLAB_CHUNKS * AV_OBJ_CHUNK) {
		const struct av_cq_shared *cq = av_cq_at(seg, *index);

		*index += cq ? 1 : AV_OBJ_CHUNK - *index % AV_OBJ_CHUNK;
		if (cq && atomic_load_explicit(&cq->id, memory_order_acquire))
			return cq;
	}
	return NULL;
}

const struct av_rq_shared *av_srq_next(const struct av_seg *seg, uint32_t *index)
{
	while (*index < AV_SLAB_CHUNKS * AV_RQ_CHUNK) {
		const struct av_rq_shared *rq = av_rq_at(seg, *index);

		*index += rq ? 1 : AV_RQ_CHUNK - *index % AV_RQ_CHUNK;
		if (rq && atomic_load_explicit(&rq->id, memory_order_acquire))
			return rq;
	}
	return NULL;
}

/* --- users ------------------------------------------------------------------------- */

/* A table of @count users. The index comes from a segment. */
struct users {
	uint32_t *of, count;
};

static void add_user(const struct users *users, uint32_t index)
{
	if (index < users->count)
		users->of[index]++;
}

uint32_t *av_cq_users(const struct av_seg *seg)
{
	struct users users = {.count = AV_SLAB_CHUNKS * AV_OBJ_CHUNK};
	const struct av_qp_shared *qp;
	const struct av_rq_shared *srq;
	uint32_t at = 0;

	users.of = calloc(users.count, sizeof(*users.of));
	if (!users.of)
		return NULL;
	while ((qp = av_qp_next(seg, &at))) {
		add_user(&users, qp->send_cq);
		add_user(&users, qp->recv_cq);
	}
	for (at = 0; (srq = av_srq_next(seg, &at));)
		if (srq->xrcd)
			add_user(&users, srq->cq);
	return users.of;
}

static void region_uses(const struct av_region_info *info, void *arg)
{
	add_user(arg, info->pd);
}

/* The table stays empty if memory runs out. */
static struct users pd_users(const struct av_seg *seg)
{
	struct users users = {.count = AV_MAX_PD + 1};
	const struct av_qp_shared *qp;
	const struct av_rq_shared *srq;
	uint32_t at = 0;

	users.of = calloc(users.count, sizeof(*users.of));
	if (!users.of)
		return (struct users){.count = 0};
	while ((qp = av_qp_next(seg, &at)))
		add_user(&users, qp->pd);
	for (at = 0; (srq = av_srq_next(seg, &at));)
		add_user(&users, srq->pd);
	av_region_report_of(seg, region_uses, &users);
	return users;
}

/* --- reports ----------------------------------------------------------------------- */

struct each {
	av_report_context *context;
	av_report_pd *pd;
	av_report_srq *srq;
	void *arg;
};

static void context_in(const struct av_seg *seg, void *arg)
{
	const struct av_context_info info = {.pid = seg->head->pid, .context = seg->head->ref};
	const struct each *each = arg;

	each->context(&info, each->arg);
}

static void pds_in(const struct av_seg *seg, void *arg)
{
	const struct users users = pd_users(seg);
	const struct each *each = arg;

	for (uint32_t i = 0; i <= AV_MAX_PD; i++) {
		struct av_pd_info info = {
			.pid = seg->head->pid,
			.context = seg->head->ref,
			.number = i,
			.users = i < users.count ? users.of[i] : 0,
		};

		if (atomic_load(&seg->head->pds[i / 64]) & 1ull << i % 64)
			each->pd(&info, each->arg);
	}
	free(users.of);
}

static void srqs_in(const struct av_seg *seg, void *arg)
{
	const struct each *each = arg;
	const struct av_rq_shared *rq;
	uint32_t at = 0;

	while ((rq = av_srq_next(seg, &at))) {
		struct av_srq_info info = {
			.pid = seg->head->pid,
			.context = seg->head->ref,
			.number = at - 1,
			.pd = rq->pd,
			.xrc = rq->xrcd != 0,
			.cq = rq->cq,
			.seg = seg,
		};

		each->srq(&info, each->arg);
	}
}

void av_report_contexts(const char *device, av_report_context *visit, void *arg)
{
	av_seg_view_each(device, context_in, &(struct each){.context = visit, .arg = arg});
}

void av_report_pds(const char *device, av_report_pd *visit, void *arg)
{
	av_seg_view_each(device, pds_in, &(struct each){.pd = visit, .arg = arg});
}

void av_report_srqs(const char *device, av_report_srq *visit, void *arg)
{
	av_seg_view_each(device, srqs_in, &(struct each){.srq = visit, .arg = arg});
}

uint32_t av_srq_qp(const struct av_srq_info *srq, uint32_t *index)
{
	const struct av_qp_shared *qp;

	while ((qp = av_qp_next(srq->seg, index)))
		if (qp->srq && qp->rq == srq->number)
			return atomic_load(&qp->qpn);
	return 0;
}
