/* SPDX-License-Identifier: MIT */
#include "transport/wire_faults.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/count.h"
#include "segment/fault_rules.h"
#include "transport/timer.h"
#include "transport/to_packets.h"
#include "transport/wire_qp.h"

#define KEPT_MAX 64	  /* of one context */
#define KEPT_NS	 1000000u /* how long a packet waits for others */

/* A packet that others are to overtake. */
struct kept {
	struct kept *next;
	struct av_net_packet packet;
	uint32_t times;	   /* that it is handled */
	uint32_t left;	   /* packets that go before it */
	uint64_t until_ns; /* it goes on without them */
	uint8_t payload[];
};

/* Of a context. Guarded by the receiver's turn. */
struct av_overtaken {
	struct kept *first;
	unsigned int count;
};

/* In the place of those of a context that is being closed. */
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

static struct av_faults_verdict decide(struct av_seg *seg, const struct av_net_packet *packet,
				       uint64_t now)
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

/* Without memory, or with too many that wait already, nothing overtakes it. */
static bool keep(struct av_seg *seg, struct av_overtaken *w, const struct av_net_packet *packet,
		 const struct av_faults_verdict *v, uint64_t now)
{
	uint32_t bytes = packet->packet.payload_bytes;
	struct kept *k = w->count < KEPT_MAX ? malloc(sizeof(*k) + bytes) : NULL, **at;

	if (!k)
		return false;
	k->packet = *packet;
	k->times = v->times;
	k->left = v->after;
	k->until_ns = now + KEPT_NS;
	k->next = NULL;
	if (bytes)
		memcpy(k->payload, packet->packet.payload, bytes);
	k->packet.packet.payload = k->payload;
	for (at = &w->first; *at; at = &(*at)->next)
		;
	*at = k;
	w->count++;
	av_timer_start(seg);
	av_seg_wake_timer(seg);
	return true;
}

static void handle(const struct av_net_packet *packet, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		av_wire_handle(packet, true);
}

/* Handle those that have waited long enough. Each is off the list before. */
static void let_go(struct av_overtaken *w, uint64_t now)
{
	struct kept **at = &w->first;

	while (*at) {
		struct kept *k = *at;

		if (k->left && k->until_ns > now) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		w->count--;
		handle(&k->packet, k->times);
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
	v = decide(seg, packet, now);
	p.congested |= v.marked;
	if (!v.lost && !v.after) {
		handle(&p, v.times);
		for (struct kept *k = w->first; k; k = k->next)
			k->left -= k->left > 0;
	}
	let_go(w, now);
	if (!v.lost && v.after && !keep(seg, w, &p, &v, now))
		handle(&p, v.times);
	return true;
}

/* --- without others -------------------------------------------------------------- */

struct look {
	struct av_seg *seg;
	uint64_t next_ns;
};

static void look(void *arg)
{
	struct look *l = arg;
	struct av_overtaken *w = atomic_load(&l->seg->late);

	l->next_ns = UINT64_MAX;
	let_go(w, av_now_ns());
	for (const struct kept *k = w->first; k; k = k->next)
		if (k->until_ns < l->next_ns)
			l->next_ns = k->until_ns;
}

uint64_t av_wire_faults_look(struct av_seg *seg)
{
	struct look l = {seg, av_now_ns() + KEPT_NS};

	if (!atomic_load(&seg->late))
		return UINT64_MAX;
	(void)av_net_in_turn(look, &l, false);
	return l.next_ns;
}

static void end(void *arg)
{
	struct av_seg *seg = arg;
	struct av_overtaken *w = atomic_exchange(&seg->late, &ended);

	while (w && w->first) {
		struct kept *k = w->first;

		w->first = k->next;
		free(k);
	}
	if (w != &ended)
		free(w);
}

void av_wire_faults_end(struct av_seg *seg)
{
	(void)av_net_in_turn(end, seg, true);
}
