/* SPDX-License-Identifier: MIT */
/* Packets that have come: whose are they, and may they be believed? */
#include <string.h>

#include "device/device.h"
#include "segment/fault_rules.h"
#include "transport/capture.h"
#include "transport/capture_wire.h"
#include "transport/count.h"
#include "transport/datagram.h"
#include "transport/execute.h"
#include "transport/wire.h"
#include "transport/wire_faults.h"
#include "transport/wire_qp.h"

#define OWED_MAX       64
#define SERVICE_BITS   0xe0
#define PKEY_PARTITION 0x7fff /* its highest bit says full member, which this side is */

/* Queue pairs that owe an acknowledgement at the end of the batch. Of the receiving thread. */
static struct av_qp_end owed[OWED_MAX];
static unsigned int owed_count;

static bool is_of_partition(const struct av_packet *p)
{
	return ((p->pkey ^ AV_PKEY_DEFAULT) & PKEY_PARTITION) == 0;
}

bool av_wire_is_peer(const struct av_qp_end *end, const struct av_net_packet *packet)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);
	const struct av_packet *p = &packet->packet;

	return w && p->dest_qpn == w->qpn && atomic_load(&end->qp->qpn) == w->qpn &&
	       (p->opcode == AV_OPCODE_CNP || (p->opcode & SERVICE_BITS) == w->service) &&
	       is_of_partition(p) &&
	       memcmp(packet->path.src, w->way.path.dst, sizeof(w->way.path.dst)) == 0 &&
	       memcmp(packet->path.dst, w->way.path.src, sizeof(w->way.path.src)) == 0;
}

static void settled(void)
{
	for (unsigned int i = 0; i < owed_count; i++) {
		av_wire_acknowledge(&owed[i]);
		av_seg_put(owed[i].seg);
	}
	owed_count = 0;
}

/* Its queue pairs, and the uses of their segments, are the parent's. */
static void forked(void)
{
	owed_count = 0;
}

void av_wire_owe(const struct av_qp_end *end, struct av_wire *w)
{
	struct av_seg *seg;

	if (w->service == AV_SERVICE_UC || atomic_load(&w->owes) || owed_count == OWED_MAX)
		return;
	seg = av_seg_get(end->seg->ref); /* it may end before the batch does */
	if (!seg)
		return;
	atomic_store(&w->owes, true);
	owed[owed_count++] = (struct av_qp_end){seg, end->qp};
}

/* Does a fault on demand see to it? One load, unless the context is watched. */
static bool is_struck(struct av_seg *seg, const struct av_net_packet *packet, bool struck)
{
	return !struck && av_faults_watched(seg) && av_wire_faults_strike(seg, packet);
}

/*
 * Those that come for a queue pair without packets are nobody's, and the receiver does not wait for
 * its rights: a peer on this host may have them, and be stopped.
 */
static bool is_on_wire(const struct av_qp_shared *qp)
{
	return qp && atomic_load_explicit(&qp->wire, memory_order_relaxed);
}

static void connected(const struct av_net_packet *packet, const struct av_opcode *info, bool struck)
{
	struct av_qp_end end = av_qp_get(packet->packet.dest_qpn);

	if (end.seg && atomic_load_explicit(&end.seg->head->watched, memory_order_relaxed) &
			       AV_WATCHED_CAPTURE)
		av_capture_look(end.seg);
	if (!end.seg || !end.seg->own || is_struck(end.seg, packet, struck) || !is_on_wire(end.qp))
		end.qp = NULL;
	if (end.qp && packet->congested)
		av_wire_marked(&end, packet);
	if (end.qp && info->operation == AV_OP_CNP)
		av_wire_notified(&end, packet);
	else if (end.qp && info->response)
		av_wire_answered(&end, packet);
	else if (end.qp)
		av_wire_requested(&end, packet);
	av_seg_put(end.seg);
	if (owed_count == OWED_MAX)
		settled();
}

void av_wire_damaged(uint32_t qpn)
{
	struct av_qp_end end = av_qp_get(qpn);

	if (end.qp && end.seg->own && av_responder_acquire_soon(&end)) {
		if (atomic_load(&end.qp->qpn) == qpn)
			av_count_rsp(end.qp, AV_RSP_DAMAGED);
		av_lock_release(&end.qp->resp);
	}
	av_seg_put(end.seg);
}

void av_wire_handle(const struct av_net_packet *packet, bool struck)
{
	struct av_opcode info;

	if (!av_opcode_info(packet->packet.opcode, &info))
		return;
	if ((packet->packet.opcode & SERVICE_BITS) != AV_SERVICE_UD)
		connected(packet, &info, struck);
	else if (is_of_partition(&packet->packet))
		av_datagram_arrived(packet, struck);
}

static void arrived(const struct av_net_packet *packet)
{
	av_wire_handle(packet, false);
}

const struct av_net_receiver av_wire_receiver = {
	.packet = arrived,
	.settled = settled,
	.seen = av_capture_seen,
	.damaged = av_wire_damaged,
	.forked = forked,
};
