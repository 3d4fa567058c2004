/* SPDX-License-Identifier: MIT */
/* The freedoms of a strict device at polls: what a completion says, and what an event. */
#include "observe/freedom.h"

#include "verbs/objects.h"

/* Do the bytes of a successful request's completion count what arrived here? */
static bool counts_bytes(const struct ibv_wc *wc)
{
	return wc->opcode & IBV_WC_RECV || wc->opcode == IBV_WC_RDMA_READ ||
	       wc->opcode == IBV_WC_COMP_SWAP || wc->opcode == IBV_WC_FETCH_ADD;
}

static void report_used(_Atomic uint64_t *last, struct av_flight_record r)
{
	r.kind = AV_FLIGHT_EVENT;
	av_flight_replace(last, av_report_beside(&r));
}

/* Source: ibv_poll_cq(3); IBTA volume 1, 11.4.2.1. @garbage: random bits */
static void scribble(struct ibv_wc *wc, uint64_t garbage)
{
	bool failed = wc->status != IBV_WC_SUCCESS, received = wc->opcode & IBV_WC_RECV;
	bool datagram = received && wc->wc_flags & IBV_WC_GRH;
	bool carries = received && wc->wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV);

	if (failed || !counts_bytes(wc))
		wc->byte_len = (uint32_t)garbage;
	if (failed || !carries)
		wc->imm_data = (uint32_t)(garbage >> 32);
	if (failed || !received)
		wc->wc_flags = (uint32_t)(garbage >> 8);
	if (failed || !datagram) {
		wc->src_qp = (uint32_t)(garbage >> 16) & AV_QPN_MASK;
		wc->slid = (uint16_t)(garbage >> 24);
		wc->pkey_index = (uint16_t)(garbage >> 40);
		wc->sl = (uint8_t)(garbage >> 48);
		wc->dlid_path_bits = (uint8_t)(garbage >> 56);
	}
	if (failed)
		wc->opcode = (enum ibv_wc_opcode)(garbage >> 20 & 0xff);
}

/* @n: number of completions that were taken; or none, or an error. Return: @n */
static int scribble_all(struct av_context *ctx, int n, struct ibv_wc *wc)
{
	for (int i = 0; i < n; i++)
		scribble(&wc[i], av_freedom_draw(ctx->seg->head->seed, AV_FREEDOM_UNDEFINED,
						 wc[i].qp_num, wc[i].wr_id));
	if (n > 0)
		report_used(&ctx->used_undefined, (struct av_flight_record){
							  .check = AV_CHECK_STRICT_UNDEFINED,
							  .has = AV_HAS_OBJECT | AV_HAS_STATUS,
							  .object = AV_OBJECT_QP,
							  .number = wc[n - 1].qp_num,
							  .status = (uint8_t)wc[n - 1].status,
						  });
	return n;
}

static int poll_undefined(struct ibv_cq *ibv, int count, struct ibv_wc *wc)
{
	struct av_context *ctx = av_container_of(ibv->context, struct av_context, verbs.context);

	return scribble_all(ctx, ctx->plain_poll(ibv, count, wc), wc);
}

static int next_undefined(struct ibv_cq_ex *ex)
{
	struct av_context *ctx = av_container_of(ex->context, struct av_context, verbs.context);
	struct av_cq *cq = av_container_of(ex, struct av_cq, ex);
	int err = cq->plain_next(ex);

	(void)scribble_all(ctx, err == 0, &cq->current);
	return err;
}

static int start_undefined(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct av_context *ctx = av_container_of(ex->context, struct av_context, verbs.context);
	struct av_cq *cq = av_container_of(ex, struct av_cq, ex);
	int err = cq->plain_start(ex, attr);

	(void)scribble_all(ctx, err == 0, &cq->current);
	return err;
}

/* Among so many calls, one makes an event at once, as if for a completion that was polled. */
#define NOTIFIED_EVERY 4

static int notify_early(struct ibv_cq *ibv, int solicited_only)
{
	struct av_context *ctx = av_container_of(ibv->context, struct av_context, verbs.context);
	struct av_cq *cq = av_cq_usable(ibv);
	int err = ctx->plain_notify(ibv, solicited_only);
	uint64_t nth = atomic_fetch_add(&ctx->notified, 1);

	if (err || !cq || !atomic_load(&av_cq_at(ctx->seg, ibv->handle)->head) ||
	    av_freedom_draw(ctx->seg->head->seed, AV_FREEDOM_EVENTS, 0, nth) % NOTIFIED_EVERY)
		return err;
	report_used(&ctx->used_events, (struct av_flight_record){.check = AV_CHECK_STRICT_EVENTS,
								 .has = AV_HAS_OBJECT,
								 .object = AV_OBJECT_CQ,
								 .number = ibv->handle});
	av_cq_tell(ctx->seg, ibv->handle);
	return 0;
}

void av_strict_fill_ops(struct av_context *ctx)
{
	struct ibv_context_ops *ops = &ctx->verbs.context.ops;
	uint32_t strict = ctx->seg->head->strict;

	ctx->plain_poll = ops->poll_cq;
	ctx->plain_notify = ops->req_notify_cq;
	if (strict & AV_FREEDOM_BIT(AV_FREEDOM_UNDEFINED))
		ops->poll_cq = poll_undefined;
	if (strict & AV_FREEDOM_BIT(AV_FREEDOM_EVENTS))
		ops->req_notify_cq = notify_early;
}

void av_strict_fill_cq(struct av_cq *cq)
{
	cq->plain_start = cq->ex.start_poll;
	cq->plain_next = cq->ex.next_poll;
	if (!(av_context_of(cq->ex.context)->seg->head->strict &
	      AV_FREEDOM_BIT(AV_FREEDOM_UNDEFINED)))
		return;
	cq->ex.start_poll = start_undefined;
	cq->ex.next_poll = next_undefined;
}
