/* SPDX-License-Identifier: MIT */
/* One send request against a queue pair of the same host. */
#include "transport/direct.h"

#include <sched.h>

#include "transport/deliver.h"
#include "transport/direct_opcode.h"
#include "transport/direct_settle.h"
#include "transport/direct_work.h"
#include "transport/event.h"
#include "transport/report.h"
#include "transport/responder.h"
#include "transport/state.h"

/* Where the message is received, and against which domain its keys are checked. */
static enum av_fault find_receiver(struct av_work *w)
{
	enum av_xrc_found found;

	w->to = av_receiver_of(w->rsp);
	w->pd = w->rsp->qp->pd;
	if (av_likely(w->rsp->qp->type != IBV_QPT_XRC_RECV))
		return AV_FAULT_NONE;
	w->pd = 0;
	found = av_xrc_begin(w->rsp, w->head.srqn, &w->srq, &w->to);
	if (found == AV_XRC_BUSY)
		return AV_FAULT_BUSY;
	if (found != AV_XRC_FOUND) {
		av_diag_note(AV_CHECK_RESPONDER_SRQ, w->head.srqn, 0);
		return AV_FAULT_REM_OP_DENIED;
	}
	w->pd = av_rq_at(w->to.seg, w->to.rq)->pd;
	w->rsp->qp->receiving_srqn = w->head.srqn;
	return AV_FAULT_NONE;
}

/*
 * Take the responder's execution right, if the queue pair is still the one meant and in a state to
 * answer. A execution right left by a dead executor means that a message may be half delivered: the
 * queue pair fails, as it would after a fatal error.
 */
static bool responder_begin(struct av_work *w)
{
	struct av_qp_shared *p = w->rsp->qp;
	uint32_t dest = w->req->qp->attr.dest_qp_num;

	if (!p || !av_seg_alive(w->rsp->seg)) {
		w->result.gone = true;
		return av_work_park(w, AV_PARK_NO_ANSWER);
	}
	av_responder_acquire(w->rsp);
	w->qpn = atomic_load_explicit(&p->qpn, memory_order_relaxed);
	w->result.gone = w->qpn != dest;
	if (w->qpn == dest && av_responder_expects(p, w->req->qp)) {
		if (atomic_load(&p->state) == IBV_QPS_RTR && !p->established) {
			p->established = 1;
			av_work_event(w, IBV_EVENT_COMM_EST);
		}
		return true;
	}
	av_lock_release(&p->resp);
	return av_work_park(w, AV_PARK_NO_ANSWER);
}

static void responder_end(struct av_work *w)
{
	av_lock_release(&w->rsp->qp->resp);
	av_xrc_end(&w->srq);
	for (unsigned int i = 0; i < w->event_count; i++)
		av_event_raise(w->rsp, w->qpn, (enum ibv_event_type)w->events[i]);
}

/* The operation; again for as long as regions are being re-registered. Nothing but the execution
 * rights is held in between. */
static enum av_fault operate(struct av_work *w)
{
	for (;;) {
		enum av_fault fault = find_receiver(w);

		if (fault == AV_FAULT_NONE)
			fault = w->opcode->operation(w);
		if (fault != AV_FAULT_BUSY)
			return fault;
		av_xrc_end(&w->srq);
		sched_yield();
	}
}

/* Not cleared as a whole: the spans are large. */
static void begin(struct av_work *w, const struct av_qp_end *req, const struct av_qp_end *rsp,
		  const struct av_sq_wqe *wqe)
{
	w->req = req;
	w->rsp = rsp;
	w->ring = wqe;
	w->head = *wqe;
	w->opcode = av_direct_opcode(w->head.opcode);
	w->event_count = 0;
	w->local.count = 0;
	w->srq = (struct av_xrc_use){0};
}

struct av_direct_result av_direct_refuse(const struct av_qp_end *req, const struct av_qp_end *rsp,
					 const struct av_sq_wqe *wqe, enum av_fault fault)
{
	enum av_fault found;
	struct av_work w;

	begin(&w, req, rsp, wqe);
	w.result = (struct av_direct_result){.fault = AV_FAULT_NONE};
	if (!responder_begin(&w))
		return w.result;
	while ((found = find_receiver(&w)) == AV_FAULT_BUSY)
		sched_yield();
	w.result.fault = found == AV_FAULT_NONE ? fault : found;
	av_direct_settle(&w);
	responder_end(&w);
	return w.result;
}

struct av_direct_result av_direct_execute(const struct av_qp_end *req, const struct av_qp_end *rsp,
					  const struct av_sq_wqe *wqe, uint8_t *answer)
{
	struct av_work w;

	begin(&w, req, rsp, wqe);
	w.answer = answer;
	w.result = (struct av_direct_result){.fault = av_direct_check(&w)};
	if (w.result.fault != AV_FAULT_NONE)
		return w.result;
	if (w.opcode->local) {
		w.result.fault = w.opcode->operation(&w);
		return w.result;
	}
	if (rsp->qp && w.opcode->receives)
		av_deliver_prefetch(rsp);
	if (!responder_begin(&w)) {
		av_direct_unheard(&w);
		return w.result;
	}
	w.result.fault = operate(&w);
	av_direct_settle(&w);
	responder_end(&w);
	return w.result;
}
