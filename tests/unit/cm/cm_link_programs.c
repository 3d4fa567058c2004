/* SPDX-License-Identifier: MIT */
/* What the programs of exchanges do, and what their queue pairs are given. */
#include "unit/cm/cm_link_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/check.h"
#include "lib/turned_clock.h"

#define DOINGS 16u

/* Parameters of both programs. Each end hears what the other one says. */
const struct rdma_ucm_conn_param cm_link_parameters[LINK_HOSTS] = {
	{.qp_num = 0x1a2b3c,
	 .srq = 0,
	 .responder_resources = 3,
	 .initiator_depth = 5,
	 .flow_control = 1,
	 .retry_count = 6,
	 .rnr_retry_count = 2,
	 .valid = 1},
	{.qp_num = 0x4d5e6f,
	 .srq = 1,
	 .responder_resources = 4,
	 .initiator_depth = 2,
	 .rnr_retry_count = 5,
	 .valid = 1},
};

/* What programs will do. */
static struct doing {
	enum cm_link_act act;
	uint64_t due_ns;
	unsigned int host, id;
} doings[DOINGS];
static unsigned int doing_count;

uint16_t cm_link_space(void)
{
	return cm_link_now.exchange->ps ? cm_link_now.exchange->ps : RDMA_PS_TCP;
}

bool cm_link_is_datagrams(void)
{
	return cm_link_space() == RDMA_PS_UDP;
}

int cm_link_connect(struct cm_link_id *x)
{
	struct rdma_ucm_connect c = {.conn_param = cm_link_parameters[0], .id = x->number};

	c.conn_param.private_data_len = cm_link_say(
		cm_link_is_datagrams() ? AV_CM_SIDR_REQ : AV_CM_REQ, c.conn_param.private_data);
	return cm_do(cm_link_now.fd[0], RDMA_USER_CM_CMD_CONNECT, &c, sizeof(c), 0);
}

static int accept_it(struct cm_link_id *x)
{
	struct rdma_ucm_accept c = {
		.uid = x->uid, .conn_param = cm_link_parameters[1], .id = x->number};

	c.conn_param.qkey = CM_LINK_QKEY + 1;
	c.conn_param.private_data_len = cm_link_say(
		cm_link_is_datagrams() ? AV_CM_SIDR_REP : AV_CM_REP, c.conn_param.private_data);
	x->accepted = true;
	return cm_do(cm_link_now.fd[1], RDMA_USER_CM_CMD_ACCEPT, &c, sizeof(c), 0);
}

static int reject_it(struct cm_link_id *x)
{
	uint8_t data[256];
	uint8_t bytes = cm_link_say(cm_link_is_datagrams() ? AV_CM_SIDR_REP : AV_CM_REJ, data);

	x->rejected = true;
	return cm_reject(cm_link_now.fd[x->host], x->number, 0, data, bytes);
}

static int notify(struct cm_link_id *x)
{
	struct rdma_ucm_notify c = {.id = x->number, .event = IBV_EVENT_COMM_EST};

	return cm_do(cm_link_now.fd[x->host], RDMA_USER_CM_CMD_NOTIFY, &c, sizeof(c), 0);
}

static struct ib_uverbs_qp_attr attr_of(const struct cm_link_id *x, uint32_t state)
{
	struct ib_uverbs_qp_attr attr = {0};
	struct rdma_ucm_init_qp_attr c = {
		.response = (uintptr_t)&attr, .id = x->number, .qp_state = state};

	MUST_BE(cm_do(cm_link_now.fd[x->host], RDMA_USER_CM_CMD_INIT_QP_ATTR, &c, sizeof(c),
		      sizeof(attr)),
		0);
	return attr;
}

/* 12.7.31: each message says at which PSN its receiver is to begin. */
static uint64_t psn_of(unsigned int host)
{
	return cm_link_get(cm_link_first_said(host, host ? AV_CM_REP : AV_CM_REQ) + HEADER +
				   (host ? 20 : 44),
			   3);
}

/*
 * What its queue pair is to be given, once the end is connected: the numbers of both, and what the
 * cm_link_now.listener has cm_link_now.said of READs, which the asker answers. rdma_accept(3)
 */
void cm_link_judge_queue_pair(const struct cm_link_id *x)
{
	const struct rdma_ucm_conn_param *p = &cm_link_parameters[1];
	struct ib_uverbs_qp_attr rtr = attr_of(x, IBV_QPS_RTR), rts = attr_of(x, IBV_QPS_RTS);

	MUST_BE(rtr.dest_qp_num, cm_link_parameters[1 - x->host].qp_num);
	MUST_BE(rtr.rq_psn, psn_of(x->host));
	MUST_BE(rts.sq_psn, psn_of(1 - x->host));
	MUST_BE(rtr.max_dest_rd_atomic, x->host ? p->responder_resources : p->initiator_depth);
	MUST_BE(rts.max_rd_atomic, x->host ? p->initiator_depth : p->responder_resources);
}

void cm_link_end_id(struct cm_link_id *x)
{
	int ret = cm_destroy(cm_link_now.fd[x->host], x->number);

	x->there = false;
	MUST_BE(ret,
		x->count - (x->host == 1)); /* the request was the cm_link_now.listener's event */
}

void cm_link_listen(void)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons(CM_LINK_PORT)};
	struct rdma_ucm_bind c = {.addr_size = sizeof(at)};
	union ibv_gid gid = link_gid(cm_link_now.exchange->together ? 0 : 1);

	link_be(1);
	MUST_BE(cm_create(cm_link_now.fd[1], CM_LINK_LISTENER, cm_link_space(),
			  &cm_link_now.listener),
		0);
	c.id = cm_link_now.listener;
	memcpy(&at.sin6_addr, &gid, sizeof(gid));
	memcpy(&c.addr, &at, sizeof(at));
	MUST_BE(cm_do(cm_link_now.fd[1], RDMA_USER_CM_CMD_BIND, &c, sizeof(c), 0), 0);
	MUST_BE(cm_listen(cm_link_now.fd[1], cm_link_now.listener, 0), 0);
}

void cm_link_end_listen(void)
{
	link_be(1);
	if (cm_link_now.listener)
		MUST(cm_destroy(cm_link_now.fd[1], cm_link_now.listener) >= 0);
	cm_link_now.listener = 0;
}

static bool has_ended(const struct cm_link_id *x)
{
	uint8_t last = x->count ? x->heard[x->count - 1] : 0;

	return last == CM_REJECTED || last == CM_UNREACHABLE || last == CM_DISCONNECTED ||
	       last == CM_TIMEWAIT_EXIT;
}

static int act_on(struct cm_link_id *x, enum cm_link_act act)
{
	switch (act) {
	case ACCEPT:
		return accept_it(x);
	case READY:
		x->ready = true;
		if (cm_link_now.fault_count < 2)
			cm_link_judge_queue_pair(x);
		return cm_ready(cm_link_now.fd[x->host], x->number);
	case REJECT:
		return reject_it(x);
	case DISCONNECT:
		return cm_disconnect(cm_link_now.fd[x->host], x->number);
	case NOTIFY:
		return notify(x);
	default:
		cm_link_end_id(x);
		return 0;
	}
}

/* Whoever answers may hear then that the asker has taken its request back, or has died. */
static bool may_fail(const struct cm_link_id *x)
{
	return x->host == 1 && (cm_link_now.peer_dead || cm_link_now.ids[0].rejected ||
				!cm_link_now.ids[0].there || has_ended(&cm_link_now.ids[0]));
}

static void move(unsigned int host)
{
	cm_link_now.setting.moved[host] = true;
	link_be(host);
	manager_host_changes();
}

/* What befalls a host. Return: is it that? */
static bool befall(unsigned int host, enum cm_link_act act)
{
	if (act == LISTEN)
		cm_link_listen();
	else if (act == UNLISTEN)
		cm_link_end_listen();
	else if (act == DIE)
		manager_peer_dies();
	else if (act == MOVE)
		move(host);
	cm_link_now.peer_dead |= act == DIE;
	cm_link_now.setting.cut[host] |= act == DIE || act == CUT;
	return act >= LISTEN;
}

static void act(unsigned int host, unsigned int i, enum cm_link_act act)
{
	struct cm_link_id *x = &cm_link_now.ids[i];
	int ret;

	if (cm_link_now.traces)
		printf("  %10.3f ms %u: does %d\n", (double)cm_link_since_begun() / 1e6, host, act);
	if (befall(host, act) || i >= cm_link_now.id_count || !x->there)
		return;
	if (has_ended(x) && act != DESTROY && act != DISCONNECT)
		return;
	if (act == NOTIFY && !cm_link_now.ids[0].ready) /* nobody has sent a packet */
		return;
	link_be(host);
	ret = act_on(x, act);
	if (!(ret == -EINVAL && may_fail(x)))
		MUST_BE(ret, 0);
}

void cm_link_plan(unsigned int host, unsigned int id, struct cm_link_do what)
{
	if (what.act == STAY)
		return;
	CHECK(doing_count < DOINGS);
	doings[doing_count++] =
		(struct doing){what.act, turned_clock_ns() + what.after_ns, host, id};
}

uint64_t cm_link_next_doing(void)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < doing_count; i++)
		if (doings[i].due_ns < next)
			next = doings[i].due_ns;
	return next;
}

/* In the order in which they were planned. */
void cm_link_do_due(void)
{
	for (unsigned int i = 0; i < doing_count; i++) {
		struct doing d = doings[i];

		if (d.due_ns > turned_clock_ns())
			continue;
		doing_count--;
		memmove(&doings[i], &doings[i + 1], (doing_count - i) * sizeof(d));
		act(d.host, d.id, d.act);
		i--;
	}
}

void cm_link_do_nothing_more(void)
{
	doing_count = 0;
}
