/* SPDX-License-Identifier: MIT */
/* Messages that have come: whose are they, and what do they change? IBTA volume 1, 12.9. */
#include <stdlib.h>
#include <string.h>

#include "cm/cm_lock.h"
#include "cm/cm_mad.h"
#include "cm/conn.h"
#include "cm/id.h"

#define SLOW_TIMEOUT 20 /* what an MRA asks for: 4.3 s */

static void report_conn_event(struct av_cm_conn *c, enum av_cm_event_type event, int status,
			      const struct av_cm_message *m)
{
	if (c->id)
		av_cm_id_heard(c->id, event, status, m);
}

/* A message has come again, since the program takes its time. @about: 0 REQ, 1 REP */
static void ask_for_time(struct av_cm_conn *c, uint8_t about)
{
	const struct av_cm_message m = {.attribute = AV_CM_MRA,
					.transaction =
						c->request ? c->request : c->sent.transaction,
					.local_comm_id = c->comm,
					.remote_comm_id = c->remote_comm,
					.message_mraed = about,
					.service_timeout = SLOW_TIMEOUT};

	(void)av_cm_send(&c->way, &m);
}

/* --- requests -------------------------------------------------------------------------- */

/* It has come before. Its answer is on its way, or was lost, or is not there yet. */
static void requested_again(struct av_cm_conn *c)
{
	if (c->state == AV_CM_REP_SENT || c->state == AV_CM_ESTABLISHED) {
		av_cm_conn_again(c);
		return;
	}
	if (c->state == AV_CM_REQ_RECEIVED)
		ask_for_time(c, 0);
}

static void requested(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_cm_conn *c = av_cm_conn_same(path, m->local_comm_id, false, &m->transaction);
	struct av_cm_way way;
	uint16_t reason;

	if (c) {
		requested_again(c);
		return;
	}
	if (av_cm_stale_is(path->dst, m->local_comm_id, m->transaction))
		return;
	way = av_cm_way_back(path, m);
	reason = av_cm_id_requested(&way, m);
	if (reason)
		av_cm_refuse(&way, m, 0, reason);
}

static void sidr_requested(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_cm_conn *c = av_cm_conn_same(path, m->local_comm_id, true, &m->transaction);
	struct av_cm_message refusal = {.attribute = AV_CM_SIDR_REP,
					.transaction = m->transaction,
					.local_comm_id = m->local_comm_id};
	struct av_cm_way way;
	uint16_t reason;

	if (c) {
		if (c->state == AV_CM_SIDR_ANSWERED)
			av_cm_conn_again(c);
		return;
	}
	way = av_cm_way_back(path, m);
	reason = av_cm_id_requested(&way, m);
	if (!reason)
		return;
	refusal.status =
		reason == AV_CM_INVALID_SERVICE_ID ? AV_CM_SIDR_UNSUPPORTED : AV_CM_SIDR_REJECTED;
	(void)av_cm_send(&way, &refusal);
}

/* --- answers --------------------------------------------------------------------------- */

static void replied(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_ESTABLISHED && c->sent.attribute == AV_CM_RTU)
		av_cm_conn_again(c); /* it was lost */
	if (c->state == AV_CM_REP_RECEIVED)
		ask_for_time(c, 1);
	if (c->state != AV_CM_REQ_SENT)
		return;
	av_cm_conn_hush(c);
	c->state = AV_CM_REP_RECEIVED;
	av_cm_conn_called(c, m->local_comm_id);
	c->remote_qpn = av_cm_kind_qpn(m, c->id->qp_type);
	c->remote_psn = m->psn;
	c->initiator_depth = m->responder_resources;
	c->responder_resources = m->initiator_depth;
	c->rnr_retry_count = m->rnr_retry_count;
	report_conn_event(c, AV_CM_EVENT_CONNECT_RESPONSE, 0, m);
}

/* No event has private data of an RTU, nor of a DREQ or DREP: so the kernel. */
static void handle_rtu(struct av_cm_conn *c)
{
	if (c->state != AV_CM_REP_SENT)
		return;
	av_cm_conn_hush(c);
	c->state = AV_CM_ESTABLISHED;
	report_conn_event(c, AV_CM_EVENT_ESTABLISHED, 0, NULL);
}

static void rejected(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_REQ_SENT && m->reason == AV_CM_INVALID_SERVICE_ID &&
	    av_cm_conn_patient(c))
		return;
	switch (c->state) {
	case AV_CM_REQ_SENT:
	case AV_CM_REQ_RECEIVED:
	case AV_CM_REP_SENT:
	case AV_CM_REP_RECEIVED:
		av_cm_conn_hush(c);
		if (c->request)
			av_cm_stale_add(c->way.path.dst, c->remote_comm, c->request);
		if (c->id && c->state == AV_CM_REQ_SENT)
			av_cm_report_refused(&c->way, c->id->service_id, m->reason,
					     m->reason == AV_CM_INVALID_SERVICE_ID);
		c->state = AV_CM_ENDED;
		report_conn_event(c, AV_CM_EVENT_REJECTED, m->reason, m);
		break;
	case AV_CM_ESTABLISHED: /* it knows nothing of the connection any more */
	case AV_CM_DREQ_SENT:
		av_cm_conn_hush(c);
		report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
		av_cm_conn_over(c);
		break;
	default:
		break;
	}
}

static void is_slow(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (c->state == AV_CM_REQ_SENT || c->state == AV_CM_REP_SENT)
		av_cm_conn_wait(c, m->service_timeout);
}

/* The numbers of connections alone are easy to guess. Source: Linux, cm_dreq_handler() */
static void disconnected(struct av_cm_conn *c, const struct av_cm_message *m)
{
	if (m->qpn != c->qpn)
		return;
	if (c->state != AV_CM_TIMEWAIT)
		c->goodbye = m->transaction;
	if (c->state == AV_CM_REP_SENT) { /* its RTU was lost */
		av_cm_conn_hush(c);
		c->state = AV_CM_ESTABLISHED;
		report_conn_event(c, AV_CM_EVENT_ESTABLISHED, 0, NULL);
	}
	switch (c->state) {
	case AV_CM_ESTABLISHED:
		c->state = AV_CM_DREQ_RECEIVED;
		report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
		if (!c->id)
			av_cm_conn_disconnect(c);
		break;
	case AV_CM_DREQ_SENT: /* both at once */
		av_cm_conn_hush(c);
		c->state = AV_CM_DREQ_RECEIVED;
		report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
		av_cm_conn_disconnect(c);
		break;
	case AV_CM_TIMEWAIT:
		if (c->sent.attribute == AV_CM_DREP)
			av_cm_conn_again(c);
		break;
	default:
		break;
	}
}

static void is_disconnected(struct av_cm_conn *c)
{
	if (c->state != AV_CM_DREQ_SENT)
		return;
	av_cm_conn_hush(c);
	report_conn_event(c, AV_CM_EVENT_DISCONNECTED, 0, NULL);
	av_cm_conn_over(c);
}

static void sidr_replied(struct av_cm_conn *c, const struct av_cm_message *m)
{
	bool ok = m->status == AV_CM_SIDR_OK;

	if (c->state != AV_CM_SIDR_SENT ||
	    (m->status == AV_CM_SIDR_UNSUPPORTED && av_cm_conn_patient(c)))
		return;
	av_cm_conn_hush(c);
	if (c->id && !ok)
		av_cm_report_refused(&c->way, c->id->service_id, m->status,
				     m->status == AV_CM_SIDR_UNSUPPORTED);
	c->state = AV_CM_ENDED;
	report_conn_event(c, ok ? AV_CM_EVENT_ESTABLISHED : AV_CM_EVENT_UNREACHABLE, m->status, m);
}

/* No alternate path is ever loaded: APR status 0x? says so. */
static void asked_for_path(struct av_cm_conn *c, const struct av_cm_message *m)
{
	struct av_cm_message reply = {.attribute = AV_CM_APR,
				      .transaction = m->transaction,
				      .local_comm_id = c->comm,
				      .remote_comm_id = c->remote_comm,
				      .status = 2 /* rejected: 12.8.2 */};

	(void)av_cm_send(&c->way, &reply);
}

/* --- whose ----------------------------------------------------------------------------- */

/* A message of a connection that is not known, or not with that peer. */
static void reply_unknown_conn(const struct av_net_path *path, const struct av_cm_message *m)
{
	const struct av_cm_way way = av_cm_way_back(path, m);
	struct av_cm_message reply = {.attribute = AV_CM_DREP,
				      .transaction = m->transaction,
				      .local_comm_id = m->remote_comm_id,
				      .remote_comm_id = m->local_comm_id};

	if (m->attribute == AV_CM_DREQ)
		(void)av_cm_send(&way, &reply);
	else if (m->attribute == AV_CM_REP)
		av_cm_refuse(&way, m, 1, AV_CM_INVALID_COMM_ID);
}

/* The peer goes on: it has not heard of the end, or answers what is late. */
static void after_end(struct av_cm_conn *c, const struct av_net_path *path,
		      const struct av_cm_message *m)
{
	if (m->attribute == AV_CM_REP && c->sent.attribute == AV_CM_REJ)
		av_cm_conn_again(c);
	else
		reply_unknown_conn(path, m);
}

/* It has no number for this end yet. Else a refusal without one is late, or somebody else's. */
static bool may_lack_number(const struct av_cm_conn *c, const struct av_cm_message *m)
{
	return m->attribute == AV_CM_REJ && m->local_comm_id == 0 && c->state == AV_CM_REP_SENT;
}

/* Until the answer to a request, the peer's number is not known. */
static bool is_peer(const struct av_cm_conn *c, const struct av_net_path *path,
		    const struct av_cm_message *m)
{
	return memcmp(c->way.path.dst, path->dst, sizeof(path->dst)) == 0 &&
	       (c->remote_comm == 0 || m->attribute == AV_CM_SIDR_REP ||
		c->remote_comm == m->local_comm_id || may_lack_number(c, m));
}

static void answered(const struct av_net_path *path, const struct av_cm_message *m)
{
	uint32_t comm = m->attribute == AV_CM_SIDR_REP ? m->local_comm_id : m->remote_comm_id;
	struct av_cm_conn *c = av_cm_conn_find(comm);

	if (!c && m->attribute == AV_CM_REJ && m->remote_comm_id == 0)
		c = av_cm_conn_same(path, m->local_comm_id, false, NULL);
	if (!c || !is_peer(c, path, m)) {
		reply_unknown_conn(path, m);
		return;
	}
	if (c->state == AV_CM_ENDED) {
		after_end(c, path, m);
		return;
	}
	switch (m->attribute) {
	case AV_CM_REP:
		replied(c, m);
		break;
	case AV_CM_RTU:
		handle_rtu(c);
		break;
	case AV_CM_REJ:
		rejected(c, m);
		break;
	case AV_CM_MRA:
		is_slow(c, m);
		break;
	case AV_CM_DREQ:
		disconnected(c, m);
		break;
	case AV_CM_DREP:
		is_disconnected(c);
		break;
	case AV_CM_SIDR_REP:
		sidr_replied(c, m);
		break;
	case AV_CM_LAP:
		asked_for_path(c, m);
		break;
	default:
		break;
	}
}

void av_cm_arrived(const struct av_net_path *path, const struct av_cm_message *m)
{
	av_cm_lock();
	if (m->attribute == AV_CM_REQ)
		requested(path, m);
	else if (m->attribute == AV_CM_SIDR_REQ)
		sidr_requested(path, m);
	else
		answered(path, m);
	av_cm_unlock();
}
