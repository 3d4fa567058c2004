/* SPDX-License-Identifier: MIT */
/*
 * What both sides do when packets have met congestion on their way. Source: IBTA volume 1, annex
 * A17.9 (ECN and congestion notification packets of RoCEv2).
 */
#include "base/clock.h"
#include "device/device.h"
#include "transport/count.h"
#include "transport/drive.h"
#include "transport/execute.h"
#include "transport/to_packets.h"
#include "transport/wire_qp.h"
#include "transport/wire_window.h"

#define NOTIFY_NS 50000u /* between two notifications to a peer, as adapters keep it */

/* It is of no service, and has no sequence. A lost one is sent again for the next mark. */
static void notify(const struct av_qp_end *end, const struct av_wire *w)
{
	struct av_net_burst *burst = av_net_burst(&w->way.path, end->seg->head->device);
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

void av_wire_marked(const struct av_qp_end *end, const struct av_net_packet *packet)
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

void av_wire_notified(const struct av_qp_end *end, const struct av_net_packet *packet)
{
	struct av_qp_end none = {0};
	struct av_wire *w;

	av_drive_enter(end);
	w = av_wire_at(end->seg, end->qp->index);
	if (w && w->way.window && av_wire_is_peer(end, packet)) {
		av_count_req(end->qp, AV_REQ_NOTIFIED);
		av_window_lost(w->way.window);
	}
	av_drive_entered(end, &none, true);
}
