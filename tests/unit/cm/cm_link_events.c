/* SPDX-License-Identifier: MIT */
/* What the programs of exchanges hear: each event is judged when it is read. */
#include "unit/cm/cm_link_parts.h"

#include <errno.h>
#include <stdio.h>

#include "cm/id.h"
#include "lib/check.h"

struct cm_link_heard cm_link_heard[CM_LINK_EVENTS];
unsigned int cm_link_events;

/* What one end begins, the other one answers. */
static void judge_parameters(const struct rdma_ucm_conn_param *p, unsigned int of)
{
	const struct rdma_ucm_conn_param *said_there = &cm_link_parameters[of];

	MUST_BE(p->qp_num, said_there->qp_num);
	MUST_BE(p->responder_resources, said_there->initiator_depth);
	MUST_BE(p->initiator_depth, said_there->responder_resources);
	MUST_BE(p->flow_control, said_there->flow_control);
	MUST_BE(p->retry_count, said_there->retry_count);
	MUST_BE(p->rnr_retry_count, said_there->rnr_retry_count);
	MUST_BE(p->srq, said_there->srq);
}

static void judge_private(const uint8_t *data, uint8_t bytes, uint16_t attribute, bool own)
{
	MUST_BE(bytes, cm_link_private_bytes(attribute));
	MUST(cm_link_is_said(attribute, data, own));
}

bool cm_link_refuses(unsigned int host)
{
	return cm_link_now.exchange->on[host][CM_CONNECT_REQUEST].act == REJECT ||
	       cm_link_now.exchange->then[host].act == REJECT;
}

static void judge_rejected(const struct cm_link_id *x, const struct rdma_ucm_event_resp *e)
{
	const struct rdma_ucm_conn_param *p = &e->param.conn;

	if (!(x->host == 1 && cm_link_now.fault_count && e->status == UNKNOWN))
		MUST_BE(e->status,
			cm_link_now.exchange->reason ? cm_link_now.exchange->reason : REASON);
	MUST(cm_link_is_said(AV_CM_REJ, p->private_data, true) ||
	     cm_link_is_said(AV_CM_REJ, p->private_data, false));
	if (x->host == 0 && !cm_link_now.exchange->reason && !cm_link_now.peer_dead)
		judge_private(p->private_data, p->private_data_len, AV_CM_REJ, cm_link_refuses(1));
}

static void judge_sidr(const struct rdma_ucm_event_resp *e)
{
	const struct rdma_ucm_ud_param *p = &e->param.ud;

	if (e->event == CM_ESTABLISHED) {
		MUST_BE(p->qp_num, cm_link_parameters[1].qp_num);
		MUST_BE(p->qkey, CM_LINK_QKEY + 1);
		judge_private(p->private_data, p->private_data_len, AV_CM_SIDR_REP, true);
	} else if (e->event == CM_CONNECT_REQUEST) {
		judge_private(p->private_data, p->private_data_len, AV_CM_SIDR_REQ, true);
	} else if (e->event == CM_UNREACHABLE && cm_link_now.exchange->reason) {
		MUST_BE(e->status, cm_link_now.exchange->reason);
	} else if (e->event == CM_UNREACHABLE && e->status == 2) { /* 12.11.2.2: rejected */
		judge_private(p->private_data, p->private_data_len, AV_CM_SIDR_REP,
			      cm_link_refuses(1));
	} else {
		MUST_BE((int)e->status, (unsigned long long)-ETIMEDOUT);
	}
}

static void judge_contents_of(const struct cm_link_id *x, const struct rdma_ucm_event_resp *e)
{
	const struct rdma_ucm_conn_param *p = &e->param.conn;
	bool request = e->event == CM_CONNECT_REQUEST;

	if (cm_link_is_datagrams()) {
		judge_sidr(e);
	} else if (request || e->event == CM_CONNECT_RESPONSE) {
		judge_parameters(p, 1 - x->host);
		judge_private(p->private_data, p->private_data_len, request ? AV_CM_REQ : AV_CM_REP,
			      true);
		MUST_BE(e->status, 0);
	} else if (e->event == CM_REJECTED) {
		judge_rejected(x, e);
	} else if (e->event == CM_UNREACHABLE) {
		MUST_BE((int)e->status, (unsigned long long)-ETIMEDOUT);
	} else {
		MUST(e->status == 0 ||
		     (e->event == CM_DISCONNECTED && (int)e->status == -ETIMEDOUT));
	}
}

static struct cm_link_id *id_of(unsigned int host, const struct rdma_ucm_event_resp *e)
{
	for (unsigned int i = 0; i < cm_link_now.id_count; i++)
		if (cm_link_now.ids[i].host == host && cm_link_now.ids[i].uid == e->uid &&
		    cm_link_now.ids[i].number == e->id && cm_link_now.ids[i].there)
			return &cm_link_now.ids[i];
	return NULL;
}

/* A request: its id has no uid before it is accepted. */
static struct cm_link_id *new_id(const struct rdma_ucm_event_resp *e)
{
	struct cm_link_id *x = &cm_link_now.ids[cm_link_now.id_count];

	CHECK(cm_link_now.id_count < CM_LINK_IDS);
	MUST_BE(e->uid, CM_LINK_LISTENER);
	*x = (struct cm_link_id){
		.host = 1, .number = e->id, .uid = 10 + cm_link_now.id_count++, .there = true};
	return x;
}

static void hear(unsigned int host, const struct rdma_ucm_event_resp *e)
{
	struct cm_link_id *x =
		e->event == CM_CONNECT_REQUEST && host == 1 ? new_id(e) : id_of(host, e);

	if (cm_link_now.traces)
		printf("  %10.3f ms %u: hears %u, status %d\n", (double)cm_link_since_begun() / 1e6,
		       host, e->event, (int)e->status);
	CHECK(cm_link_events < CM_LINK_EVENTS);
	cm_link_heard[cm_link_events++] = (struct cm_link_heard){.host = host,
								 .kind = (uint8_t)e->event,
								 .status = (int)e->status,
								 .ns = cm_link_since_begun()};
	if (!x || e->event >= CM_KINDS || x->count == CM_HISTORY) {
		cm_link_fail("host %u hears %u", host, e->event);
		return;
	}
	x->heard[x->count++] = (uint8_t)e->event;
	if (e->event == CM_ESTABLISHED && !cm_link_is_datagrams() && cm_link_now.fault_count < 2 &&
	    TAILQ_EMPTY(&cm_link_now.channel[host]->events)) /* else it is over at once */
		cm_link_judge_queue_pair(x);
	judge_contents_of(x, e);
	cm_link_plan(host, (unsigned int)(x - cm_link_now.ids),
		     cm_link_now.exchange->on[host][e->event]);
}

void cm_link_hear_all(void)
{
	struct rdma_ucm_event_resp e;

	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		while (!TAILQ_EMPTY(&cm_link_now.channel[h]->events)) {
			link_be(h);
			CHECK(cm_next(cm_link_now.fd[h], &e) == 0);
			hear(h, &e);
		}
}

uint64_t cm_link_heard_ns(unsigned int host, uint8_t kind)
{
	for (unsigned int i = 0; i < cm_link_events; i++)
		if (cm_link_heard[i].host == host && cm_link_heard[i].kind == kind)
			return cm_link_heard[i].ns;
	return UINT64_MAX;
}
