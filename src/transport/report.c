/* SPDX-License-Identifier: MIT */
/* Explaining failed requests. */

#include <stdio.h>

#include "device/gid.h"
#include "memory/region.h"
#include "transport/wire_qp.h"

/* The process of a requester, as its responder knows it. 0: it is on another host */
static int32_t pid_of(const struct av_qp_ref *req)
{
	return req->qp->wire ? 0 : req->seg->head->pid;
}

static void of_context(struct av_flight_record *r, const struct av_seg *seg)
{
	r->pid = seg->head->pid;
	snprintf(r->process, sizeof(r->process), "%.*s", (int)sizeof(seg->head->process) - 1,
		 seg->head->process);
	snprintf(r->device, sizeof(r->device), "%.*s", (int)sizeof(seg->head->device) - 1,
		 seg->head->device);
}

static void of_queue_pair(struct av_flight_record *r, const struct av_seg *seg, uint32_t qpn)
{
	of_context(r, seg);
	r->object = AV_OBJECT_QP;
	r->number = qpn;
	r->has |= AV_HAS_OBJECT;
}

/* --- why ------------------------------------------------------------------------- */

/* The requester's memory behind valid keys is missing: of the first element, for all we know. */
static void why_local(const struct av_failed *f)
{
	const struct av_sq_wqe *wqe = f->wqe;
	uint32_t access = av_wr_opcode(wqe->opcode)->source ? 0 : IBV_ACCESS_LOCAL_WRITE, i = 0;
	uint32_t count = wqe->flags & IBV_SEND_INLINE || wqe->count > AV_MAX_SGE ? 0 : wqe->count;

	while (i < count && wqe->sge[i].length == 0)
		i++;
	if (i < count)
		av_mr_explain_element(f->req->seg, f->req->qp->pd, access, &wqe->sge[i], wqe->bytes,
				      AV_CHECK_MEMORY_FAULT, f->fault);
	else
		av_diag_note(AV_CHECK_MEMORY_FAULT, 0, 0);
}

static void why_remote(const struct av_failed *f)
{
	struct av_mem_request req = {
		.key = f->wqe->rkey,
		.access = av_wr_opcode(f->wqe->opcode)->rights,
		.remote = true,
		.addr = f->wqe->remote_addr,
		.length = f->wqe->bytes,
	};

	if (!f->rsp->qp) {
		av_diag_note(AV_CHECK_MEMORY_FAULT, 0, 0);
		return;
	}
	req.pd = f->rsp->qp->pd;
	req.qpn = av_qp_number(f->rsp);
	av_mr_explain(f->rsp->seg, &req, AV_CHECK_MEMORY_FAULT, f->fault);
}

/*
 * No packet of the peer has come, or this host has no such queue pair. The same address with a
 * number that was never given here: the program on the other side has a directory of its own.
 */
static void why_gone(const struct av_failed *f)
{
	const struct av_qp_shared *q = f->req->qp;
	const struct av_wire *w = q->wire ? av_wire_at(f->req->seg, q->index) : NULL;

	if (q->attr.ah_attr.is_global && av_gid_is_none(&q->attr.ah_attr.grh.dgid))
		av_diag_note(AV_CHECK_PEER_NO_GID, 0, 0);
	else if (q->wire)
		av_diag_note(av_check_of_silence(w ? -w->silence : 0), w ? w->mtu : 0, 0);
	else if (av_at_address(&q->attr.ah_attr, f->req->seg) &&
		 !av_dir_qpn_find(q->attr.dest_qp_num).ref &&
		 !av_dir_qpn_ended(q->attr.dest_qp_num))
		av_diag_note(AV_CHECK_PEER_ELSEWHERE, 0, 0);
	else
		av_diag_note(AV_CHECK_PEER_GONE, 0, 0);
}

/* Why does the responder not answer now? Context: its @resp_lock is held. */
static void why_silent(const struct av_failed *f)
{
	const struct av_qp_shared *p = f->rsp->qp, *q = f->req->qp;
	enum av_check found = av_responder_expects(p, q);

	switch (found) {
	case AV_CHECK_PEER_GONE:
		av_diag_note(found, 0, 0);
		break;
	case AV_CHECK_PEER_STATE:
		av_diag_note(found, IBV_QPS_RTR, atomic_load(&p->state));
		av_diag_state(atomic_load(&p->state));
		break;
	case AV_CHECK_PEER_TYPE:
		av_diag_note(found, AV_RESPONDER_TYPE(q->type), p->type);
		break;
	case AV_CHECK_PEER_OTHER:
		av_diag_note(found, av_qp_number(f->req), p->attr.dest_qp_num);
		break;
	default:
		av_diag_note(AV_CHECK_PEER_PSN, q->next_psn, p->expected_psn);
		break;
	}
}

static void why_invalidate(const struct av_failed *f)
{
	struct av_flight_record *r = av_diag_note(AV_CHECK_INVALIDATE_KEY, 0, 0);

	r->has |= AV_HAS_ACCESS;
	r->remote = true;
	r->key = f->wqe->imm;
}

/* Why a CQ took no completion. @full: the check if it had no room. @capacity: out */
static enum av_check why_cq(const struct av_qp_ref *end, uint32_t index, enum av_check full,
			    uint32_t *capacity)
{
	const struct av_cq_shared *cq = av_cq_at(end->seg, index);

	*capacity = cq ? cq->capacity : 0;
	return !cq || atomic_load(&cq->overrun) ? full : AV_CHECK_CQ_HELD;
}

/* Of a receive request, or its CQ. */
static void why_received(const struct av_qp_ref *rsp, enum av_fault fault)
{
	enum av_check check = AV_CHECK_MEMORY_FAULT;
	uint32_t capacity = 0;

	if (fault == AV_FAULT_RECV_CQ)
		check = why_cq(rsp, rsp->qp->recv_cq, AV_CHECK_RECV_CQ_FULL, &capacity);
	av_diag_note(check, 0, capacity);
}

/* What can be found out about a fault now. */
static void why(const struct av_failed *f)
{
	const struct av_sq_wqe *wqe = f->wqe;

	switch (f->fault) {
	case AV_FAULT_LOC_QP_OP: /* a peer has changed the ring */
		av_diag_note(AV_CHECK_REQUEST_SERVICE, wqe->opcode, f->req->qp->type);
		break;
	case AV_FAULT_LOC_PROT:
		why_local(f);
		break;
	case AV_FAULT_MW_BIND:
		av_diag_note(AV_CHECK_UMR_FILL, wqe->count, 0)->key = wqe->rkey;
		break;
	case AV_FAULT_REM_ACCESS:
		why_remote(f);
		break;
	case AV_FAULT_REM_OP_DENIED:
		av_diag_note(AV_CHECK_RESPONDER_ACCESS, av_wr_opcode(wqe->opcode)->rights,
			     f->rsp->qp->attr.qp_access_flags);
		break;
	case AV_FAULT_REM_NO_RD_ATOMIC:
		av_diag_note(AV_CHECK_RESPONDER_RD, 1, 0);
		break;
	case AV_FAULT_REM_MISALIGNED:
		av_diag_note(AV_CHECK_ATOMIC_ALIGN, wqe->remote_addr & (wqe->bytes - 1),
			     wqe->bytes);
		break;
	case AV_FAULT_REM_NO_COMMAND:
		av_diag_note(AV_CHECK_TUNNEL_COMMAND, wqe->bytes, 0);
		break;
	case AV_FAULT_RECV_PROT:
	case AV_FAULT_RECV_CQ:
		why_received(f->rsp, f->fault);
		break;
	case AV_FAULT_INVALIDATE:
		why_invalidate(f);
		break;
	case AV_FAULT_FORBIDDEN:
		av_diag_note(AV_CHECK_MEMORY_FORBIDDEN, 0, 0);
		break;
	case AV_FAULT_RNR_EXHAUSTED:
		av_diag_note(AV_CHECK_RNR_RETRIES, f->req->qp->attr.rnr_retry + 1u,
			     f->req->qp->attr.rnr_retry);
		break;
	case AV_FAULT_RETRY_EXHAUSTED:
		if (f->silent)
			why_silent(f);
		else
			why_gone(f);
		break;
	default:
		break;
	}
}

/* --- records --------------------------------------------------------------------- */

/* The note from when the fault was found; without one, of what can be found out now. */
static struct av_flight_record *explain(const struct av_failed *f)
{
	bool later = f->fault == AV_FAULT_RNR_EXHAUSTED || f->fault == AV_FAULT_RETRY_EXHAUSTED;
	struct av_flight_record *r = av_diag_pending();
	uint32_t rights = av_wr_opcode(f->wqe->opcode)->rights;

	if ((later && r->check != AV_CHECK_INJECTED) || r->check == AV_CHECK_NONE) {
		av_diag_drop();
		why(f);
	}
	if (!(r->has & AV_HAS_ACCESS) && rights && f->req->qp->type != IBV_QPT_UD) {
		r->has |= AV_HAS_ACCESS;
		r->remote = true;
		r->key = f->wqe->rkey;
		r->address = f->wqe->remote_addr;
		r->length = f->wqe->bytes;
		r->access = rights;
		r->pd = f->rsp->qp ? f->rsp->qp->pd : 0;
	}
	r->opcode = f->wqe->opcode;
	r->has |= AV_HAS_REQUEST;
	return r;
}

void av_report_request(const struct av_failed *failed)
{
	struct av_flight_record *r = explain(failed);

	of_queue_pair(r, failed->req->seg, av_qp_number(failed->req));
	r->kind = AV_FLIGHT_REQUEST;
	r->status = (uint8_t)(failed->status ? failed->status
					     : av_fault_effects(failed->fault)->requester);
	r->wr_id = failed->wqe->wr_id;
	r->peer_qp = failed->req->qp->attr.dest_qp_num;
	r->peer_pid = failed->rsp->seg ? failed->rsp->seg->head->pid : 0;
	r->has |= AV_HAS_STATUS | (failed->req->qp->type == IBV_QPT_UD ? 0 : AV_HAS_PEER);
	av_report();
}

/* The wr_id of the receive request that fails. */
static uint64_t receive_of(const struct av_qp_ref *rsp)
{
	const struct av_rq_shared *rq = av_rq_at(rsp->seg, rsp->qp->rq);
	const struct av_rq_wqe *request =
		rq && rsp->qp->receiving ? av_rq_wqe(rsp->seg, rq, rsp->qp->receiving - 1) : NULL;

	return request ? request->wr_id : 0;
}

/* What the responder hears of a fault of a message with that opcode. */
static void of_responder(struct av_flight_record *r, const struct av_qp_ref *rsp,
			 enum av_fault fault, uint32_t opcode)
{
	const struct av_fault_effects *effects = av_fault_effects(fault);

	r->kind = AV_FLIGHT_RECEIVE;
	if (av_wr_opcode(opcode)->receives && effects->receive != IBV_WC_SUCCESS) {
		r->status = (uint8_t)effects->receive;
		r->wr_id = receive_of(rsp);
		r->has |= AV_HAS_STATUS;
	}
	if (effects->event != AV_EVENT_NONE) {
		r->event = effects->event;
		r->has |= AV_HAS_EVENT;
	}
}

void av_report_responder(const struct av_failed *failed)
{
	struct av_flight_record *r = explain(failed), before = *r;

	of_queue_pair(r, failed->rsp->seg, av_qp_number(failed->rsp));
	of_responder(r, failed->rsp, failed->fault, failed->wqe->opcode);
	r->peer_qp = failed->rsp->qp->attr.dest_qp_num;
	r->peer_pid = pid_of(failed->req);
	r->has |= AV_HAS_PEER;
	av_report();
	*av_diag_pending() = before; /* kept for the requester's record */
}

void av_report_dropped(const struct av_dropped *d)
{
	struct av_flight_record *r = av_diag_pending();

	if (d->fault != AV_FAULT_NONE && r->check == AV_CHECK_NONE)
		why_received(d->at, d->fault);
	of_queue_pair(r, d->at->seg, av_qp_number(d->at));
	r->kind = AV_FLIGHT_DROPPED;
	r->opcode = d->opcode;
	r->has |= AV_HAS_REQUEST;
	if (!d->at_sender) {
		r->peer_qp = d->src_qpn;
		r->peer_pid = d->src_pid;
		r->has |= AV_HAS_PEER;
	}
	if (d->fault != AV_FAULT_NONE)
		of_responder(r, d->at, d->fault, d->opcode);
	av_report();
}

void av_report_lost(const struct av_failed *failed)
{
	struct av_flight_record *r = explain(failed);
	struct av_dropped d = {.at = failed->rsp, .opcode = failed->wqe->opcode};

	if (failed->fault == AV_FAULT_RETRY_EXHAUSTED) { /* nobody is there */
		r->peer_qp = failed->req->qp->attr.dest_qp_num;
		r->peer_pid = failed->rsp->seg ? failed->rsp->seg->head->pid : 0;
		d.at = failed->req;
		d.at_sender = true;
	} else {
		d.src_qpn = failed->rsp->qp->attr.dest_qp_num;
		d.src_pid = pid_of(failed->req);
	}
	av_report_dropped(&d);
}

void av_report_flush(const struct av_qp_ref *end, uint32_t count, bool receives)
{
	struct av_flight_record r = {
		.kind = AV_FLIGHT_FLUSH,
		.check = AV_CHECK_FLUSHED,
		.has = AV_HAS_COUNT | AV_HAS_STATUS | AV_HAS_MEASURE,
		.status = IBV_WC_WR_FLUSH_ERR,
		.count = count,
		.wanted = receives,
	};

	if (count == 0 || end->qp->attr.qp_state == IBV_QPS_ERR)
		return;
	of_queue_pair(&r, end->seg, av_qp_number(end));
	av_report_beside(&r);
}

uint64_t av_report_event(const struct av_qp_ref *end, enum av_check check, int event,
			 uint64_t limit)
{
	struct av_flight_record r = {
		.kind = AV_FLIGHT_EVENT,
		.check = (uint16_t)check,
		.has = AV_HAS_MEASURE | (event == AV_EVENT_NONE ? 0 : AV_HAS_EVENT),
		.limit = limit,
		.event = event == AV_EVENT_NONE ? 0 : event,
	};

	of_queue_pair(&r, end->seg, av_qp_number(end));
	return av_report_beside(&r);
}

uint64_t av_report_freedom(const struct av_qp_ref *end, const struct av_sq_wqe *wqe,
			   enum av_check check, uint64_t wanted, uint64_t limit)
{
	bool remote = av_wr_opcode(wqe->opcode)->source && av_wr_opcode(wqe->opcode)->rights;
	struct av_flight_record r = {
		.kind = AV_FLIGHT_EVENT,
		.check = (uint16_t)check,
		.has = AV_HAS_MEASURE | AV_HAS_REQUEST,
		.opcode = wqe->opcode,
		.wr_id = wqe->wr_id,
		.wanted = wanted,
		.limit = limit,
	};

	if (remote || (wqe->count && !(wqe->flags & IBV_SEND_INLINE))) {
		r.has |= AV_HAS_ACCESS;
		r.remote = remote;
		r.key = remote ? wqe->rkey : wqe->sge[0].lkey;
		r.address = remote ? wqe->remote_addr : wqe->sge[0].addr;
		r.length = wqe->bytes;
	}
	of_queue_pair(&r, end->seg, av_qp_number(end));
	return av_report_beside(&r);
}

void av_report_send_cq(const struct av_qp_ref *end)
{
	uint32_t capacity;
	enum av_check check = why_cq(end, end->qp->send_cq, AV_CHECK_SEND_CQ_FULL, &capacity);

	av_report_event(end, check, IBV_EVENT_QP_FATAL, capacity);
}

void av_report_placement(const struct av_seg *seg, const struct ibv_wc *wc)
{
	struct av_flight_record r = {
		.kind = AV_FLIGHT_RECEIVE,
		.check = AV_CHECK_MEMORY_FAULT,
		.has = AV_HAS_STATUS | AV_HAS_MEASURE,
		.status = (uint8_t)wc->status,
	};

	of_queue_pair(&r, seg, wc->qp_num);
	av_report_beside(&r);
}

void av_report_fatal(const struct av_seg *seg)
{
	struct av_flight_record r = {
		.kind = AV_FLIGHT_EVENT,
		.check = AV_CHECK_FATAL,
		.has = AV_HAS_EVENT,
		.event = IBV_EVENT_DEVICE_FATAL,
	};

	of_context(&r, seg);
	av_report_beside(&r);
}
