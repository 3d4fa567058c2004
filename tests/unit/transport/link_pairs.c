/* SPDX-License-Identifier: MIT */
/* The two hosts and their queue pairs. */
#include <stdlib.h>
#include <sys/mman.h>

#include "unit/transport/link_parts.h"

#include "base/limits.h"
#include "lib/check.h"
#include "lib/turned_clock.h"
#include "memory/key.h"
#include "queue/rq.h"
#include "transport/execution.h"
#include "transport/transport.h"
#include "transport/wire_qp.h"

#define PD     7u
#define DOMAIN 9u /* of XRC */
#define ID     1u
#define INLINE 600u

#define RIGHTS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | AV_ACCESS_FLUSH_GLOBAL)

struct link_side link_side[LINK_HOSTS];

static enum ibv_qp_type type_at(unsigned int host)
{
	return link_now->type == IBV_QPT_XRC_SEND && host ? IBV_QPT_XRC_RECV : link_now->type;
}

static uint32_t make_shared_queue(struct link_side *s)
{
	struct av_rq_request req = {.capacity = DEPTH, .max_sge = ELEMENTS, .pd = PD, .id = ID};
	uint32_t index;

	if (link_now->type == IBV_QPT_XRC_SEND) {
		req.xrcd = DOMAIN;
		req.cq = s->recv_cq;
	}
	index = av_rq_init(s->seg, &req);
	CHECK(index);
	if (link_now->type == IBV_QPT_XRC_SEND) {
		int number = av_dir_qpn_add(s->seg->ref, index, AV_MAX_QP);

		CHECK(number > 0);
		s->srqn = (uint32_t)number;
		av_rq_at(s->seg, index)->srqn = s->srqn;
	}
	return index;
}

void link_make_side(unsigned int host)
{
	struct link_side *s = &link_side[host];
	struct av_qp_request req = {
		.type = type_at(host),
		.pd = PD,
		.send_cq = s->send_cq,
		.recv_cq = s->recv_cq,
		.xrcd = type_at(host) == IBV_QPT_XRC_RECV ? DOMAIN : 0,
		.cap = {.max_send_wr = link_now->depth ? link_now->depth : DEPTH,
			.max_recv_wr = DEPTH,
			ELEMENTS,
			ELEMENTS,
			INLINE},
		.limit = AV_MAX_QP,
	};
	uint32_t index;

	s->posted = s->completed = s->received = 0;
	s->srqn = 0;
	s->rq = link_now->srq || type_at(host) == IBV_QPT_XRC_RECV ? make_shared_queue(s) : 0;
	if (link_now->srq)
		req.srq = s->rq;
	if (link_now->type == IBV_QPT_XRC_SEND)
		req.cap.max_recv_wr = 0;
	index = av_qp_init(s->seg, &req);
	CHECK(index);
	s->end = (struct av_qp_ref){s->seg, av_qp_at(s->seg, index)};
	if (!s->rq)
		s->rq = s->end.qp->rq;
	s->seg->head->mtu = (uint8_t)link_mtu_code();
}

static void enter(const struct av_qp_ref *end, enum ibv_qp_state from, enum ibv_qp_state to)
{
	CHECK(av_qp_quiesce(end) == 0);
	av_qp_apply_state(end, from, to);
	if (to == IBV_QPS_RTR || (from == IBV_QPS_RTR && to == IBV_QPS_RTS) || to == IBV_QPS_RESET)
		av_wire_begin(end, to);
	av_qp_resume(end);
}

void link_enter(unsigned int host, enum ibv_qp_state to)
{
	const struct av_qp_ref *end = &link_side[host].end;

	link_run_as(host);
	enter(end, (enum ibv_qp_state)atomic_load(&end->qp->state), to);
	av_sq_progress(end, NULL);
}

static struct ibv_qp_attr attributes(unsigned int host)
{
	uint8_t rd_atomic = link_now->rd_atomic ? link_now->rd_atomic : 4;

	return (struct ibv_qp_attr){
		.cap = link_side[host].end.qp->attr.cap,
		.path_mtu = link_mtu_code(),
		.qkey = QKEY,
		.rq_psn = link_flow[!host].first,
		.sq_psn = link_flow[host].first,
		.dest_qp_num = atomic_load(&link_side[!host].end.qp->qpn),
		.qp_access_flags = RIGHTS,
		.ah_attr = {.is_global = 1, .grh = {.dgid = link_gid(!host), .hop_limit = 64}},
		.max_rd_atomic = rd_atomic,
		.max_dest_rd_atomic = rd_atomic,
		.min_rnr_timer = LINK_RNR_TIMER,
		.timeout = link_now->endless		   ? 0
			   : link_now->patient >> host & 1 ? LINK_PATIENT
							   : LINK_TIMEOUT,
		.retry_cnt = link_now->retry_cnt ? link_now->retry_cnt - 1 : LINK_RETRIES,
		.rnr_retry = link_now->rnr_retry ? link_now->rnr_retry - 1 : 7,
	};
}

void link_connect_side(unsigned int host)
{
	struct link_side *s = &link_side[host];

	s->end.qp->attr = attributes(host);
	atomic_store(&s->seg->vm_refused, false);
	if (link_now->type == IBV_QPT_UD)
		av_wire_open_datagrams(&s->end);
	else if (!link_now->near)
		CHECK(av_wire_open(&s->end, &s->end.qp->attr) == 0);
	CHECK(link_now->near || av_wire_at(s->seg, s->end.qp->index) != NULL);
	enter(&s->end, IBV_QPS_INIT, IBV_QPS_RTR);
	enter(&s->end, IBV_QPS_RTR, IBV_QPS_RTS);
	if (link_now->plain >> host & 1)
		av_wire_at(s->seg, s->end.qp->index)->reads_carried = false;
}

/* Down to the least. */
void link_narrow(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		union ibv_gid gid = link_gid(h);
		struct av_window *w = av_window_join(gid.raw);

		for (int i = 0; i < 5; i++) {
			av_window_lost(w);
			turned_clock_to(turned_clock_ns() + 2000000);
		}
		av_window_leave(w);
	}
}

/* A window of type 2 at each host, for SEND with invalidation. */
void link_bind_windows(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		struct link_side *s = &link_side[h];
		struct av_window_bind bind = {
			.window = s->window,
			.rkey = (s->window & ~0xffu) | ((s->window + 1) & 0xff),
			.region = s->key,
			.access = IBV_ACCESS_REMOTE_READ,
			.pd = PD,
			.qpn = atomic_load(&s->end.qp->qpn),
			.addr = link_address_of(h, 0),
			.length = 64,
		};

		MUST_BE(av_window_bind(s->seg, &bind), 0);
		s->window = bind.rkey;
	}
}

static bool invalidates(unsigned int to)
{
	for (unsigned int r = 0; r < link_count; r++)
		if (link_now->request[r].opcode == IBV_WR_SEND_WITH_INV &&
		    link_now->request[r].from != to)
			return true;
	return false;
}

void link_unbind_windows(void)
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++) {
		struct link_side *s = &link_side[h];
		uint32_t qpn = atomic_load(&s->end.qp->qpn);
		enum av_check was = av_window_invalidate(s->seg, s->window, qpn);

		if (!link_now->fails)
			MUST_BE(was, invalidates(h) ? AV_CHECK_INVALIDATE_UNBOUND : AV_CHECK_NONE);
	}
}

void link_destroy_side(unsigned int host)
{
	struct link_side *s = &link_side[host];

	link_forget(s->seg);
	enter(&s->end, (enum ibv_qp_state)atomic_load(&s->end.qp->state), IBV_QPS_RESET);
	CHECK(av_wire_close(&s->end) == 0);
	if (s->srqn)
		av_xrc_retire(s->seg, av_rq_at(s->seg, s->rq));
	av_qp_fini(s->seg, s->end.qp->index);
	if (s->srqn || link_now->srq) {
		av_srq_purge(s->seg, s->rq);
		av_rq_fini(s->seg, s->rq);
	}
}

void link_set_up_side(unsigned int host)
{
	const struct av_seg_device device = {.name = "any0", .link_layer = IBV_LINK_LAYER_ETHERNET};
	struct link_side *s = &link_side[host];
	struct av_key key = {.kind = AV_KEY_REGION, .pd = PD, .access = RIGHTS, .length = ARENA};

	s->seg = av_seg_create(&device, 0);
	CHECK(s->seg != NULL);
	s->seg->head->port = host + 1;
	s->send_cq = av_cq_init(s->seg, 4 * DEPTH, 0, ID, AV_MAX_CQ, NULL);
	s->recv_cq = av_cq_init(s->seg, 4 * DEPTH, 0, ID + 1, AV_MAX_CQ, NULL);
	s->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	link_want[host] = malloc(ARENA);
	CHECK(s->send_cq && s->recv_cq && s->arena != MAP_FAILED && link_want[host]);
	av_seg_end_calls(s->seg); /* the fake link carries them */
	key.base = key.addr = (uintptr_t)s->arena;
	s->key = av_key_create(s->seg, &key, AV_MAX_MR);
	s->window = av_window_create(s->seg, IBV_MW_TYPE_2, PD, AV_MAX_MR);
	CHECK(s->key && s->window);
}
