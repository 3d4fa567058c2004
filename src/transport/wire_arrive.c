/* SPDX-License-Identifier: MIT */
/* Packets that have come: whose are they, and may they be believed? */
#include "transport/observed.h"
#include "transport/transport.h"

#define SERVICE_BITS   0xe0
#define PKEY_PARTITION 0x7fff /* its highest bit says full member, which this side is */

static bool is_of_partition(const struct av_packet *p)
{
	return ((p->pkey ^ AV_PKEY_DEFAULT) & PKEY_PARTITION) == 0;
}

bool av_wire_is_peer(const struct av_qp_ref *end, const struct av_net_packet *packet)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);
	const struct av_packet *p = &packet->packet;

	return w && p->dest_qpn == w->qpn && atomic_load(&end->qp->qpn) == w->qpn &&
	       (p->opcode == AV_OPCODE_CNP || (p->opcode & SERVICE_BITS) == w->service) &&
	       is_of_partition(p) &&
	       memcmp(packet->path.src, w->route.path.dst, sizeof(w->route.path.dst)) == 0 &&
	       memcmp(packet->path.dst, w->route.path.src, sizeof(w->route.path.src)) == 0;
}

/* --- congestion ------------------------------------------------------------------- */

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

static void packet_marked(const struct av_qp_ref *end, const struct av_net_packet *packet)
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
	av_lock_release(&end->qp->resp_lock);
}

static void peer_notified(const struct av_qp_ref *end, const struct av_net_packet *packet)
{
	struct av_qp_ref none = {0};
	struct av_wire *w;

	av_lock_acquire_plain(&end->qp->req_lock, AV_RANK_REQUESTER);
	w = av_wire_at(end->seg, end->qp->index);
	if (w && w->route.window && av_wire_is_peer(end, packet)) {
		av_count_req(end->qp, AV_REQ_NOTIFIED);
		av_window_lost(w->route.window);
	}
	av_sq_progress_entered(end, &none, true);
}

/* --- whose they are --------------------------------------------------------------- */

static void carried_ack_arrived(const struct av_qp_ref *end, const struct av_net_packet *packet)
{
	const struct av_packet ack = {.opcode = AV_OPCODE_ACK,
				      .syndrome = (uint8_t)(packet->packet.carried >> 24),
				      .psn = packet->packet.carried & AV_PSN_MASK};

	av_wire_answered(end, packet, 1, &ack);
}

/* Is @next a request, or an answer, like the one before it, with nothing else to it? */
static bool is_alike(const struct av_opcode *before, const struct av_net_packet *next)
{
	const struct av_opcode *info = av_opcode_info(next->packet.opcode);

	return info && info->response == before->response && info->operation != AV_OP_CNP &&
	       !next->packet.carries && !av_net_is_congested(&next->path);
}

/* Return: how many of the packets have been handled, from the first on */
static unsigned int dispatch(const struct av_qp_ref *end, const struct av_net_packet *packet,
			     unsigned int count)
{
	const struct av_opcode *info = av_opcode_info(packet->packet.opcode);
	bool marked = av_net_is_congested(&packet->path);
	unsigned int n = 1;

	if (!info)
		return 1;
	if (marked)
		packet_marked(end, packet);
	if (info->operation == AV_OP_CNP) {
		peer_notified(end, packet);
	} else {
		if (packet->packet.carries)
			carried_ack_arrived(end, packet);
		while (n < count && is_alike(info, &packet[n]))
			n++;
		if (info->response)
			av_wire_answered(end, packet, n, NULL);
		else
			av_wire_requested(end, packet, n);
	}
	return n;
}

static void dispatch_to_qp(const struct av_net_packet *packet, unsigned int count, bool struck)
{
	struct av_qp_ref end = av_qp_get_at(&packet->qp);
	bool each = end.seg && !struck && atomic_load(&end.seg->head->observers);

	/* Who has locks of one without packets may be stopped. */
	if (!end.seg || !end.seg->own || !end.qp ||
	    !atomic_load_explicit(&end.qp->wire, memory_order_relaxed))
		end.qp = NULL;
	for (unsigned int n; end.seg && end.seg->own && count > 0; packet += n, count -= n) {
		n = each ? 1 : count;
		if ((!each || !av_observed_packet(end.seg, packet)) && end.qp)
			n = dispatch(&end, packet, n);
	}
	av_seg_put(end.seg);
	if (av_wire_is_owing())
		(void)av_wire_let_leave(UINT64_MAX);
}

void av_wire_damaged(uint32_t qpn)
{
	struct av_qp_ref end = av_qp_get(qpn);

	if (end.qp && end.seg->own && av_responder_acquire_soon(&end)) {
		if (atomic_load(&end.qp->qpn) == qpn)
			av_count_rsp(end.qp, AV_RSP_DAMAGED);
		av_lock_release(&end.qp->resp_lock);
	}
	av_seg_put(end.seg);
}

static bool is_datagram(const struct av_net_packet *packet)
{
	return (packet->packet.opcode & SERVICE_BITS) == AV_SERVICE_UD &&
	       av_opcode_info(packet->packet.opcode);
}

/* A queue pair has packets of one service: what comes with those of another is dropped. */
void av_wire_handle(const struct av_net_packet *packet, unsigned int count, bool struck)
{
	if (!is_datagram(packet))
		dispatch_to_qp(packet, count, struck);
	else
		for (; count > 0; count--, packet++)
			if (is_datagram(packet) && is_of_partition(&packet->packet))
				av_datagram_arrived(packet, struck);
}

static void receive_wire_packets(const struct av_net_packet *packet, unsigned int count)
{
	av_wire_handle(packet, count, false);
}

const struct av_net_receiver av_wire_receiver = {
	.packets = receive_wire_packets,
	.settled = av_wire_let_leave,
	.seen = av_capture_seen,
	.damaged = av_wire_damaged,
};
