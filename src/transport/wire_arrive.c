/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/device.h"
#include "device/port.h"
#include "observe/flight.h"
#include "registry/tables.h"
#include "segment/observers.h"
#include "transport/execution.h"
#include "transport/observed.h"
#include "transport/rules.h"
#include "transport/transport.h"
#include "transport/wire_qp.h"

/* Own datagram queue pairs on the wire: the addresses that they receive at. */

/* @w: NULL: the queue pair has no packets */
static bool is_open(const struct av_wire *w, const uint8_t address[16])
{
	for (uint32_t i = 0; w && i < w->addresses; i++)
		if (memcmp(w->address[i], address, sizeof(w->address[i])) == 0)
			return true;
	return false;
}

/* Have packets for one address come, unless it is open already. */
static void open_wire_address(struct av_wire *w, const union ibv_gid *gid)
{
	int err;

	if (is_open(w, gid->raw))
		return;
	err = av_net_open(gid->raw);
	if (err) {
		w->unopened = err;
		if (err == -EBUSY) /* it would not even receive, and its program hears nothing */
			av_net_warn(gid->raw, err);
		return;
	}
	memcpy(w->address[w->addresses++], gid->raw, sizeof(gid->raw));
	(void)!av_net_own(gid->raw, w->qpn);
}

static void open_addresses(const struct av_qp_ref *end, struct av_wire *w)
{
	uint32_t port = end->seg->head->port;

	for (uint32_t row = 0; row < AV_GID_MAX; row++) {
		union ibv_gid gid;

		if (av_port_has_row(port, row) &&
		    av_port_gid(port, row, &gid) == IBV_GID_TYPE_ROCE_V2)
			open_wire_address(w, &gid);
	}
}

void av_wire_open_datagrams(const struct av_qp_ref *end)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	if (!av_wire_is_possible(end->seg) || (w && w->qpn == atomic_load(&end->qp->qpn)))
		return;
	if (av_wire_close(end)) /* what another queue pair, which had this place before, has left */
		return;
	w = av_wire_new(end, AV_GID_MAX);
	if (!w)
		return;
	open_addresses(end, w);
	if (av_wire_keep(end, w))
		av_wire_delete(w);
	else
		av_wire_join_all(w);
}

bool av_wire_sends(const struct av_qp_ref *end)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	return w && w->addresses;
}

static void tell_unsent(const struct av_wire *w, const uint8_t src[16])
{
	if (w && w->unopened)
		av_net_warn(src, w->unopened);
	else if (w)
		av_warn_once("an address has come since a datagram queue pair entered RTR: to and "
			     "from other hosts, its datagrams there are lost until it is reset");
}

struct av_net_burst *av_wire_burst(const struct av_qp_ref *end, const struct av_net_path *path)
{
	const struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	AV_ASSERT_HELD(&end->qp->exec);
	if (is_open(w, path->src))
		return av_net_burst(path, end->seg->head->device);
	tell_unsent(w, path->src);
	return NULL;
}

bool av_wire_has_room(const struct av_qp_ref *end, const struct av_net_path *path)
{
	AV_ASSERT_HELD(&end->qp->exec);
	return !is_open(av_wire_at(end->seg, end->qp->index), path->src) || av_net_has_room(path);
}

/*
 * Own datagram queue pairs on the wire: the groups that they receive for. The directory says which
 * a queue pair is attached to, whatever its state; here is what has been joined, and must be left.
 */

static bool is_group(const struct av_wire_joined *j, const uint8_t group[16])
{
	return memcmp(j->group, group, sizeof(j->group)) == 0;
}

static bool has_joined(const struct av_wire *w, const uint8_t address[16], const uint8_t group[16])
{
	for (uint32_t i = 0; i < w->joined_count; i++)
		if (is_group(&w->joined[i], group) &&
		    memcmp(w->joined[i].address, address, sizeof(w->joined[i].address)) == 0)
			return true;
	return false;
}

/* Return: false: no memory */
static bool record_membership(struct av_wire *w, const uint8_t address[16], const uint8_t group[16])
{
	struct av_wire_joined *more = realloc(w->joined, (w->joined_count + 1) * sizeof(*more));

	if (!more)
		return false;
	w->joined = more;
	more += w->joined_count++;
	memcpy(more->address, address, sizeof(more->address));
	memcpy(more->group, group, sizeof(more->group));
	return true;
}

/* @group: NULL: any */
static void drop_memberships(struct av_wire *w, const uint8_t *group)
{
	for (uint32_t i = 0; i < w->joined_count;) {
		struct av_wire_joined j = w->joined[i];

		if (group && !is_group(&j, group)) {
			i++;
			continue;
		}
		w->joined[i] = w->joined[--w->joined_count];
		av_net_leave(j.address, j.group);
	}
}

/* Addresses of the other family join nothing. */
static void add_memberships(struct av_wire *w, const uint8_t group[16])
{
	for (uint32_t i = 0; i < w->addresses; i++)
		if (!has_joined(w, w->address[i], group) &&
		    av_net_join(w->address[i], group) == 0 &&
		    !record_membership(w, w->address[i], group))
			av_net_leave(w->address[i], group);
}

void av_wire_join_all(struct av_wire *w)
{
	struct av_multicast_member member;
	uint32_t at = 0;

	while (av_multicast_next(NULL, w->qpn, &at, &member))
		add_memberships(w, member.gid.raw);
}

void av_wire_leave_all(struct av_wire *w)
{
	drop_memberships(w, NULL);
	free(w->joined);
	w->joined = NULL;
}

void av_wire_join(const struct av_qp_ref *end, const union ibv_gid *group)
{
	struct av_wire *w;

	av_wire_open_datagrams(end);
	w = av_wire_at(end->seg, end->qp->index);
	if (w)
		add_memberships(w, group->raw);
}

void av_wire_leave(const struct av_qp_ref *end, const union ibv_gid *group)
{
	struct av_wire *w = av_wire_at(end->seg, end->qp->index);

	if (w)
		drop_memberships(w, group->raw);
}

/* Packets that have come: whose are they, and may they be believed? */

#define OWED_MAX       64
#define SERVICE_BITS   0xe0
#define PKEY_PARTITION 0x7fff /* its highest bit says full member, which this side is */

/* Queue pairs that owe an acknowledgement at the end of the batch. Of the receiving thread. */
static struct av_qp_ref owed[OWED_MAX];
static unsigned int owed_count;

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

static void settled(void)
{
	for (unsigned int i = 0; i < owed_count; i++) {
		av_wire_acknowledge(&owed[i]);
		av_seg_put(owed[i].seg);
	}
	owed_count = 0;
}

/* Its queue pairs, and the uses of their segments, are the parent's. */
static void reset_owed_in_child(void)
{
	owed_count = 0;
}

void av_wire_owe(const struct av_qp_ref *end, struct av_wire *w)
{
	struct av_seg *seg;

	if (w->service == AV_SERVICE_UC || atomic_load(&w->ack_pending) || owed_count == OWED_MAX)
		return;
	seg = av_seg_get(end->seg->ref); /* it may end before the batch does */
	if (!seg)
		return;
	atomic_store(&w->ack_pending, true);
	owed[owed_count++] = (struct av_qp_ref){seg, end->qp};
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
	av_lock_release(&end->qp->resp);
}

static void peer_notified(const struct av_qp_ref *end, const struct av_net_packet *packet)
{
	struct av_qp_ref none = {0};
	struct av_wire *w;

	av_lock_acquire_plain(&end->qp->exec, AV_RANK_EXEC);
	w = av_wire_at(end->seg, end->qp->index);
	if (w && w->route.window && av_wire_is_peer(end, packet)) {
		av_count_req(end->qp, AV_REQ_NOTIFIED);
		av_window_lost(w->route.window);
	}
	av_sq_progress_entered(end, &none, true);
}

/* --- whose they are --------------------------------------------------------------- */

/*
 * Those that come for a queue pair without packets are nobody's, and the receiver does not wait for
 * its rights: a peer on this host may have them, and be stopped.
 */
static bool is_on_wire(const struct av_qp_shared *qp)
{
	return qp && atomic_load_explicit(&qp->wire, memory_order_relaxed);
}

static void dispatch_to_qp(const struct av_net_packet *packet, const struct av_opcode *info,
			   bool struck)
{
	struct av_qp_ref end = av_qp_get_at(&packet->qp);

	if (!end.seg || !end.seg->own || (!struck && av_observed_packet(end.seg, packet)) ||
	    !is_on_wire(end.qp))
		end.qp = NULL;
	if (end.qp && av_net_is_congested(&packet->path))
		packet_marked(&end, packet);
	if (end.qp && info->operation == AV_OP_CNP)
		peer_notified(&end, packet);
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
	struct av_qp_ref end = av_qp_get(qpn);

	if (end.qp && end.seg->own && av_responder_acquire_soon(&end)) {
		if (atomic_load(&end.qp->qpn) == qpn)
			av_count_rsp(end.qp, AV_RSP_DAMAGED);
		av_lock_release(&end.qp->resp);
	}
	av_seg_put(end.seg);
}

void av_wire_handle(const struct av_net_packet *packet, bool struck)
{
	const struct av_opcode *info = av_opcode_info(packet->packet.opcode);

	if (!info)
		return;
	if ((packet->packet.opcode & SERVICE_BITS) != AV_SERVICE_UD)
		dispatch_to_qp(packet, info, struck);
	else if (is_of_partition(&packet->packet))
		av_datagram_arrived(packet, struck);
}

static void receive_wire_packet(const struct av_net_packet *packet)
{
	av_wire_handle(packet, false);
}

const struct av_net_receiver av_wire_receiver = {
	.packet = receive_wire_packet,
	.settled = settled,
	.seen = av_capture_seen,
	.damaged = av_wire_damaged,
	.forked = reset_owed_in_child,
};
