/* SPDX-License-Identifier: MIT */
#include "transport/wire_faults.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "net/address.h"
#include "observe/diagnosis.h"
#include "segment/observers.h"
#include "transport/rules.h"
#include "transport/timer.h"
#include "transport/wire_qp.h"

static struct av_setting wire_only = {.variable = "ANYVERBS_TRANSPORT", .value = "wire"};
static struct av_setting direct_only = {.variable = "ANYVERBS_TRANSPORT", .value = "direct"};

bool av_wire_is_forced(void)
{
	return av_setting_is(&wire_only);
}

bool av_wire_is_allowed(void)
{
	return !av_setting_is(&direct_only);
}

bool av_wire_is_possible(const struct av_seg *seg)
{
	return seg->head->link_layer == IBV_LINK_LAYER_ETHERNET && av_wire_is_allowed();
}

bool av_wire_may_connect(const struct av_seg *seg, const struct ibv_ah_attr *ah)
{
	return av_wire_is_possible(seg) && ah->is_global;
}

/*
 * A packet that others are to overtake, in the list of its context. The receiver's turn guards the
 * list.
 */
struct kept {
	struct av_late late;
	struct av_net_packet packet;
	uint8_t payload[];
};

/* In the place of the list of a context that is being closed. */
static struct av_overtaken ended;

static struct av_overtaken *faults_of(struct av_seg *seg)
{
	struct av_overtaken *w = atomic_load(&seg->late);

	if (w)
		return w == &ended ? NULL : w;
	w = calloc(1, sizeof(*w));
	atomic_store(&seg->late, w);
	return w;
}

static struct av_faults_verdict
decide_packet_faults(struct av_seg *seg, const struct av_net_packet *packet, uint64_t now)
{
	struct av_opcode info = {.name = NULL};
	struct av_faults_occasion o = {
		.kind = AV_FAULTS_PACKET,
		.now_ns = now,
		.qpn = packet->packet.dest_qpn,
	};
	struct av_faults_verdict v;

	(void)av_opcode_info(packet->packet.opcode, &info);
	o.opcode = info.response ? UINT32_MAX : av_packet_wr_opcode(&info);
	v = av_faults_arrival(av_faults_of(seg), seg->head->device, &o, packet->packet.psn);
	if (v.damaged) {
		av_net_count(AV_NET_BAD_CRC, 1);
		av_wire_damaged(packet->packet.dest_qpn);
	}
	return v;
}

/* --- waiting for others ---------------------------------------------------------- */

/* Return: false: it does not wait */
static bool hold_packet(struct av_seg *seg, struct av_overtaken *w,
			const struct av_net_packet *packet, const struct av_faults_verdict *v,
			uint64_t now)
{
	uint32_t bytes = packet->packet.payload_bytes;
	struct kept *k = av_overtaken_add(w, sizeof(*k) + bytes, v, now);

	if (!k)
		return false;
	k->packet = *packet;
	if (bytes)
		memcpy(k->payload, packet->packet.payload, bytes);
	k->packet.packet.payload = k->payload;
	av_timer_start(seg);
	av_seg_wake_timer(seg);
	return true;
}

static void replay_packet(const struct av_net_packet *packet, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		av_wire_handle(packet, true);
}

/* Handle those that have waited long enough. */
static void release_due_packets(struct av_overtaken *w, uint64_t now)
{
	struct kept *k;

	while ((k = av_overtaken_take(w, now))) {
		replay_packet(&k->packet, k->late.times);
		free(k);
	}
}

bool av_wire_faults_strike(struct av_seg *seg, const struct av_net_packet *packet)
{
	struct av_overtaken *w = faults_of(seg);
	struct av_net_packet p = *packet;
	uint64_t now = av_now_ns();
	struct av_faults_verdict v;

	if (!w)
		return false;
	v = decide_packet_faults(seg, packet, now);
	p.congested |= v.marked;
	if (!v.lost && !v.after) {
		replay_packet(&p, v.times);
		av_overtaken_pass(w);
	}
	release_due_packets(w, now);
	if (!v.lost && v.after && !hold_packet(seg, w, &p, &v, now))
		replay_packet(&p, v.times);
	return true;
}

/* --- without others -------------------------------------------------------------- */

struct late_poll {
	struct av_seg *seg;
	uint64_t next_ns;
};

static void poll_late_packets(void *arg)
{
	struct late_poll *l = arg;
	struct av_overtaken *w = atomic_load(&l->seg->late);

	release_due_packets(w, av_now_ns());
	l->next_ns = av_overtaken_next(w);
}

uint64_t av_wire_faults_look(struct av_seg *seg)
{
	struct late_poll l = {seg, av_now_ns() + AV_OVERTAKEN_NS};

	if (!atomic_load(&seg->late))
		return UINT64_MAX;
	(void)av_net_in_turn(poll_late_packets, &l, false);
	return l.next_ns;
}

static void free_late_packets(void *arg)
{
	struct av_seg *seg = arg;
	struct av_overtaken *w = atomic_exchange(&seg->late, &ended);
	void *k;

	while (w && (k = av_overtaken_take(w, UINT64_MAX)))
		free(k);
	if (w != &ended)
		free(w);
}

void av_wire_faults_end(struct av_seg *seg)
{
	(void)av_net_in_turn(free_late_packets, seg, true);
}
