/* SPDX-License-Identifier: MIT */
#include "transport/transport.h"

#include <errno.h>

#include "base/clock.h"
#include "device/device.h"
#include "segment/segment.h"
#include "transport/execution.h"
#include "transport/observed.h"
#include "transport/rules.h"
#include "transport/wire_qp.h"

/*
 * What both sides do when packets have met congestion on their way. Source: IBTA volume 1, annex
 * A17.9 (ECN and congestion notification packets of RoCEv2).
 */

#define NOTIFY_NS 50000u /* between two notifications to a peer, as adapters keep it */

/* It is of no service, and has no sequence. A lost one is sent again for the next mark. */
static void notify(const struct av_qp_ref *end, const struct av_wire *w)
{
	struct av_net_burst *burst = av_net_burst(&w->route.path, end->seg->head->device);
	struct av_packet p = {
		.opcode = AV_OPCODE_CNP,
		.becn = true,
		.pkey = AV_PKEY_DEFAULT,
		.dest_qpn = end->qp->attr.dest_qp_num,
	};

	if (!burst)
		return;
	(void)av_net_put(burst, &p);
	(void)av_net_send(burst);
}

void av_wire_marked(const struct av_qp_ref *end, const struct av_net_packet *packet)
{
	uint64_t now = av_now_ns();
	struct av_wire *w;

	if (!av_responder_acquire(end))
		return;
	w = av_wire_at(end->seg, end->qp->index);
	if (w && av_wire_is_peer(end, packet)) {
		av_count_rsp(end->qp, AV_RSP_MARKED);
		if (now - w->notified_ns >= NOTIFY_NS) {
			w->notified_ns = now;
			notify(end, w);
			av_count_rsp(end->qp, AV_RSP_NOTIFIES);
		}
	}
	av_lock_release(&end->qp->resp);
}

void av_wire_notified(const struct av_qp_ref *end, const struct av_net_packet *packet)
{
	struct av_qp_ref none = {0};
	struct av_wire *w;

	av_sq_progress_enter(end);
	w = av_wire_at(end->seg, end->qp->index);
	if (w && w->route.window && av_wire_is_peer(end, packet)) {
		av_count_req(end->qp, AV_REQ_NOTIFIED);
		av_window_lost(w->route.window);
	}
	av_sq_progress_entered(end, &none, true);
}

/* Return: has it changed? */
static bool set_to_wire_from(struct av_qp_shared *qp, enum av_to_wire from, enum av_to_wire to)
{
	uint32_t before = from;

	return atomic_compare_exchange_strong(&qp->to_wire, &before, to);
}

/* One that has moved, or knows that it cannot, is not asked again. */
static void notify_peer_to_move(const struct av_qp_ref *peer, enum av_to_wire what)
{
	if (peer->qp && (set_to_wire_from(peer->qp, AV_TO_WIRE_NOT, what) ||
			 set_to_wire_from(peer->qp, AV_TO_WIRE_WANTED, what) ||
			 set_to_wire_from(peer->qp, AV_TO_WIRE_WAITS, what)))
		av_seg_call(peer->seg);
}

/* Both ends, before anything is changed: who has a right of the queue pair may keep it. */
static int resolve_move_peer(const struct av_qp_ref *end, struct av_qp_ref *peer,
			     struct ibv_qp_attr *attr)
{
	int err = av_qp_quiesce(end);

	if (err)
		return err;
	av_connect(end, peer);
	*attr = end->qp->attr;
	av_qp_resume(end);
	return 0;
}

/* Context: both execution rights are held. Return: has it moved? */
static bool install(const struct av_qp_ref *end, struct av_wire *w)
{
	uint32_t state = atomic_load(&end->qp->state);

	if (atomic_load(&end->qp->qpn) != w->qpn || !AV_RESPONDER_ANSWERS(state) ||
	    !set_to_wire_from(end->qp, AV_TO_WIRE_ASKED, AV_TO_WIRE_MOVED))
		return false;
	if (av_wire_keep(end, w)) {
		atomic_store(&end->qp->to_wire, AV_TO_WIRE_CANNOT);
		return false;
	}
	av_wire_begin(end, IBV_QPS_RTR);
	if (state != IBV_QPS_RTR)
		av_wire_begin(end, IBV_QPS_RTS);
	atomic_store(&end->qp->wait_reason, AV_WAIT_NONE); /* what waited for the move goes on */
	return true;
}

/* Return: 0, EBUSY: a right is not had now, or another errno: it cannot move */
static int move_qp_to_wire(const struct av_qp_ref *end, const struct ibv_qp_attr *attr)
{
	struct av_wire *w = NULL;
	bool moved;
	int err;

	if (!av_wire_may_connect(end->seg, &attr->ah_attr) || av_wire_make(end, attr, &w))
		return EADDRNOTAVAIL;
	err = av_qp_quiesce(end);
	if (err) {
		av_wire_delete(w);
		return err;
	}
	moved = install(end, w);
	av_qp_resume(end);
	if (!moved)
		av_wire_delete(w);
	return moved ? 0 : EADDRNOTAVAIL;
}

/* Return: as av_wire_move() */
static bool moves(const struct av_qp_ref *end, const struct av_qp_ref *peer,
		  const struct ibv_qp_attr *attr)
{
	int err = move_qp_to_wire(end, attr);

	if (err == 0) {
		notify_peer_to_move(peer, AV_TO_WIRE_ASKED);
	} else if (err != EBUSY && set_to_wire_from(end->qp, AV_TO_WIRE_ASKED, AV_TO_WIRE_CANNOT)) {
		atomic_store(&end->qp->kick, 1);
		notify_peer_to_move(peer, AV_TO_WIRE_CANNOT);
	}
	return err != EBUSY;
}

bool av_wire_move(const struct av_qp_ref *end)
{
	uint32_t step = atomic_load(&end->qp->to_wire);
	struct av_qp_ref peer = {0};
	struct ibv_qp_attr attr;
	bool taken = true;

	if (step != AV_TO_WIRE_WANTED && step != AV_TO_WIRE_ASKED)
		return true;
	if (resolve_move_peer(end, &peer, &attr))
		return false;
	if (step == AV_TO_WIRE_ASKED)
		taken = moves(end, &peer, &attr);
	else if (set_to_wire_from(end->qp, AV_TO_WIRE_WANTED, AV_TO_WIRE_WAITS))
		notify_peer_to_move(&peer, AV_TO_WIRE_ASKED);
	av_disconnect(&peer);
	av_sq_progress(end, NULL); /* what came while the rights were held here */
	return taken;
}

void av_wire_move_called(struct av_seg *seg)
{
	struct av_qp_ref end = {.seg = seg};

	/* From the first on, there are no gaps. */
	for (uint32_t i = 1; (end.qp = av_qp_at(seg, i)) != NULL; i++) {
		uint32_t step = atomic_load(&end.qp->to_wire);

		if (step == AV_TO_WIRE_CANNOT)
			atomic_store(&end.qp->kick, 1);
		if (step != AV_TO_WIRE_ASKED && step != AV_TO_WIRE_CANNOT)
			continue;
		AV_CAME_BY_PEER(&end.qp->resp); /* that the queue pair is there */
		AV_CAME_BY_PEER(&end.qp->exec);
		av_timer_watch(&end, 0);
	}
}
