/* SPDX-License-Identifier: MIT */
/* Outcomes. */
#include "transport/direct_settle.h"

#include "transport/count.h"
#include "transport/deliver.h"
#include "transport/direct_opcode.h"
#include "transport/report.h"
#include "transport/responder.h"
#include "transport/state.h"

/* The responder's side of a fault, its execution right held. */
static void responder_fail(struct av_work *w)
{
	const struct av_rule *rule = av_rule(w->result.fault);

	if (rule->responder_fails || rule->nak != AV_NAK_NONE)
		av_count_refused(w->rsp->qp, w->result.fault);
	if (!rule->responder_fails)
		return;
	av_report_responder(&(struct av_failed){w->req, w->rsp, &w->head, w->result.fault});
	if (av_direct_receives(w) && rule->receive != IBV_WC_SUCCESS)
		av_deliver_error(&w->to, rule->receive);
	av_responder_error(w->rsp);
	av_work_event(w, rule->event);
	w->result.responder_failed = true;
}

/*
 * The unreliable connection: what the responder cannot take is lost, and neither side hears of it.
 * Its receive request stays for the next message. IBTA volume 1, 9.8.3.
 */
static void lose(struct av_work *w)
{
	if (w->rsp->qp->receiving)
		av_deliver_cancel(&w->to);
	av_diag_drop();
	av_count_rsp(w->rsp->qp, AV_RSP_DROPPED);
	w->result = (struct av_direct_result){0};
}

static bool found_at_requester(enum av_fault fault)
{
	return fault == AV_FAULT_LOC_LEN || fault == AV_FAULT_LOC_QP_OP ||
	       fault == AV_FAULT_LOC_PROT;
}

/*
 * Is the responder blamed though it has died meanwhile? What it left half done, such as a key
 * withdrawn to be changed, is nobody's error any more: it does not answer.
 */
static bool has_died(const struct av_work *w)
{
	return av_unlikely(w->result.fault != AV_FAULT_NONE) &&
	       !found_at_requester(w->result.fault) && !av_seg_alive_now(w->rsp->seg);
}

/* What a requester of an unreliable connection sends, arrive or not. */
static void count_uc(struct av_traffic *t, const struct av_work *w)
{
	uint32_t n = av_packets(w->req->qp, w->head.bytes), kind = av_traffic_kind[w->head.opcode];

	av_traffic_count(t, kind, w->head.bytes);
	if (n > 1)
		av_traffic_more(t, kind, n);
}

static void advance_uc(struct av_work *w, bool lost)
{
	w->req->qp->next_psn =
		(w->req->qp->next_psn + av_packets(w->req->qp, w->head.bytes)) & 0xffffff;
	w->rsp->qp->expected_psn = w->req->qp->next_psn;
	count_uc(&w->req->qp->counters.req.traffic, w);
	if (!lost)
		count_uc(&w->rsp->qp->counters.rsp.traffic, w);
}

void av_direct_unheard(struct av_work *w)
{
	if (w->req->qp->type != IBV_QPT_UC)
		return;
	count_uc(&w->req->qp->counters.req.traffic, w);
	w->result = (struct av_direct_result){0};
}

void av_direct_settle(struct av_work *w)
{
	bool unreliable = w->req->qp->type == IBV_QPT_UC, undone, lost;

	if (has_died(w))
		w->result.fault = av_work_gone(w);
	undone = w->result.fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT;
	lost = unreliable && undone && !found_at_requester(w->result.fault);
	if (lost)
		lose(w);
	else if (w->result.fault != AV_FAULT_NONE)
		responder_fail(w);
	if (w->result.fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return;
	if (unreliable)
		advance_uc(w, lost);
	else
		av_responder_advance(w->rsp->qp, w->req->qp, w->head.opcode, w->head.bytes);
}
