/* SPDX-License-Identifier: MIT */
/*
 * Acknowledgements that wait for the program's answer, and are carried by it: when, for how long,
 * and what if the packet that carries one is lost, doubled, late or damaged. docs/WIRE.md
 */
#include <string.h>

#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "registry/directory.h"
#include "transport/transport.h"
#include "unit/transport/link_parts.h"

#define ANSWER_NS 50000u
#define PAYS_NOT  -62
#define BOTH	  3u
#define NAK	  0x60

/* What has been sent since begin(). */
static unsigned int requests, carried, acks, fillers;
static uint64_t acked_ns; /* when the last acknowledgement was */

static void note(const struct link_packet *p)
{
	requests += p->net->packet.opcode != AV_OPCODE_ACK;
	carried += p->net->packet.carries;
	acks += p->net->packet.opcode == AV_OPCODE_ACK;
	fillers += p->net->packet.filler > 0;
	if (p->net->packet.opcode == AV_OPCODE_ACK)
		acked_ns = turned_clock_ns();
}

static void begin(void)
{
	requests = carried = acks = fillers = 0;
	link_on_sent = note;
}

static struct av_wire *wire_of(unsigned int host)
{
	return av_wire_at(link_side[host].seg, link_side[host].end.qp->index);
}

/* --- whatever happens to packets --------------------------------------------------- */

#define TURNS                                                                              \
	POST(SEND, 8), BACK(SEND, 9), POST(SEND, 0), BACK(SEND, 251), POST(SEND_IMM, 252), \
		BACK(SEND, 253), POST(SEND, 1), BACK(SEND, 256)

static const struct link_exchange rows[] = {
	{.name = "in turns", .patient = BOTH, .turns = true, .request = {TURNS}},
	{.name = "host 1 is plain", .patient = BOTH, .plain = 2, .turns = true, .request = {TURNS}},
	{.name = "host 0 is plain", .patient = BOTH, .plain = 1, .turns = true, .request = {TURNS}},
	{.name = "host 1 does not wait", .patient = 1, .turns = true, .request = {TURNS}},
	{.name = "a shared receive queue",
	 .patient = BOTH,
	 .srq = true,
	 .turns = true,
	 .request = {POST(SEND, 8), BACK(SEND, 8), POST(SEND, 8), BACK(SEND, 8), POST(SEND, 8),
		     BACK(SEND, 8)}},
	{.name = "WRITE with immediate data",
	 .patient = BOTH,
	 .turns = true,
	 .request = {POST(SEND, 1), BACK(WRITE_IMM, 8), POST(WRITE_IMM, 0), BACK(WRITE_IMM, 300),
		     POST(SEND_INV, 3), BACK(WRITE_IMM, 5), POST(WRITE_IMM, 2)}},
	{.name = "receive requests come late",
	 .patient = BOTH,
	 .turns = true,
	 .late_ns = 3 * LINK_RNR_NS,
	 .request = {POST(SEND, 1), BACK(SEND, 1), POST(SEND, 1), BACK(SEND, 1), POST(SEND, 1),
		     BACK(SEND, 1)}},
	{.name = "both at once",
	 .patient = BOTH,
	 .request = {POST(SEND, 8), BACK(SEND, 8), POST(WRITE, 600), BACK(SEND, 300), POST(FAA, 8),
		     BACK(READ, 300), POST(SEND, 1), BACK(WRITE, 1)}},
	{.name = "in turns, of several packets",
	 .patient = BOTH,
	 .turns = true,
	 .request = {POST(SEND, 700), BACK(WRITE_IMM, 768), POST(SEND_IMM, 768), BACK(SEND, 768),
		     POST(WRITE_IMM, 768), BACK(SEND_IMM, 767), POST(SEND, 256)}},
	{.name = "one after the other",
	 .patient = BOTH,
	 .apart = true,
	 .request = {POST(SEND, 8), BACK(SEND, 8), POST(READ, 300), BACK(SEND, 8), POST(SEND, 8),
		     BACK(WRITE, 600), POST(SEND, 8)}},
};

TEST(whatever_happens)
{
	struct link_exchange e;

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		e = rows[i];
		e.type = IBV_QPT_RC;
		link_all(&e, 1);
	}
}

/* --- which packets ----------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned int carried, acks;
	struct link_exchange e;
	uint32_t packets;     /* of each message; 0: one, which is short */
	unsigned int fillers; /* of the packets behind one that carries */
} counts[] = {
	/* At first, it is not known yet that there will be an answer; to the last, there is none.
	 */
	{"in turns", 5, 3 + 1, {.patient = BOTH, .turns = true}, 0, 0},
	{"host 1 is plain", 0, 9, {.patient = BOTH, .plain = 2, .turns = true}, 0, 0},
	{"host 0 is plain", 0, 9, {.patient = BOTH, .plain = 1, .turns = true}, 0, 0},
	{"host 1 does not wait", 2, 7, {.patient = 1, .turns = true}, 0, 0},
	{"neither waits", 0, 9, {.turns = true}, 0, 0},
	{"at once", 0, 4, {.patient = BOTH}, 0, 0},
	/* The first of each side comes in two parts: there is no credit for it yet. */
	{"of three packets", 4, 6 + 1, {.patient = BOTH, .turns = true}, 3, 2 * 4},
	{"of one whole packet", 5, 3 + 1, {.patient = BOTH, .turns = true}, 1, 0},
	{"each packet by itself", 0, 11, {.patient = BOTH, .turns = true, .each = true}, 3, 0},
};

TEST(what_is_carried)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(counts); i++) {
		struct link_exchange e = counts[i].e;
		uint32_t packets = counts[i].packets ? counts[i].packets : 1;
		uint32_t bytes = counts[i].packets ? 256 * packets : 8;

		for (unsigned int r = 0; r < 9; r++)
			e.request[r] = (struct link_request){true, SEND, bytes, 0, r % 2};
		e.name = counts[i].name;
		e.type = IBV_QPT_RC;
		begin();
		(void)link_run(&e, NULL, 0);
		link_on_sent = NULL;
		MUST_BE(requests, 9 * packets);
		MUST_BE(carried, counts[i].carried);
		MUST_BE(acks, counts[i].acks);
		MUST_BE(fillers, counts[i].fillers);
	}
}

/* --- how long --------------------------------------------------------------------- */

static uint64_t arrived_ns;

static void note_arrival(const struct link_arrival *a)
{
	if (a->net->packet.opcode != AV_OPCODE_ACK)
		arrived_ns = turned_clock_ns();
}

static const struct link_exchange turns = {
	.name = "in turns",
	.type = IBV_QPT_RC,
	.patient = BOTH,
	.turns = true,
	.fails = true,
	.request = {POST(SEND, 8), BACK(SEND, 8), POST(SEND, 8), BACK(SEND, 8), POST(SEND, 8),
		    BACK(SEND, 8), POST(SEND, 8)},
};

/* Until the sixth message has arrived, and is not answered. */
static void run_to_last(void)
{
	begin();
	(void)link_open(&turns, NULL, 0);
	do {
		link_post();
		MUST(link_step());
		link_poll();
	} while (link_side[0].received < 3);
	MUST_BE(acks, 3);
	MUST_BE(carried, 2);
	MUST(atomic_load(&wire_of(0)->ack_pending));
}

static void finish(void)
{
	while (link_step())
		link_poll();
	link_on_sent = NULL;
	link_on_arrival = NULL;
	link_close();
}

/* It waits so long, and no longer; and then none waits for a while. */
TEST(in_vain)
{
	link_on_arrival = note_arrival;
	run_to_last();
	while (acks < 4 && link_step())
		;
	assert_int_equal(acked_ns - arrived_ns, ANSWER_NS);
	assert_int_equal(wire_of(0)->pays, PAYS_NOT);
	finish();
	assert_int_equal(acks, 4);
}

/* Whoever looks for what has come before an answer is late sends what waits. */
TEST(before_an_answer_is_late)
{
	run_to_last();
	assert_true(av_net_catch_up());
	assert_int_equal(acks, 4);
	assert_false(atomic_load(&wire_of(0)->ack_pending));
	finish();
	assert_int_equal(acks, 4);
}

static const enum ibv_qp_state ends[] = {
	IBV_QPS_RESET,
	IBV_QPS_SQD,
	IBV_QPS_ERR,
};

/* Its queue pair ends: the peer hears that the message was there, whatever it ends in. */
TEST(queue_pair_ends)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(ends); i++) {
		run_to_last();
		link_enter(0, ends[i]);
		finish();
		assert_int_equal(acks, 4);
		assert_int_equal(link_status(5), IBV_WC_SUCCESS);
	}
}

/* What the program sends too late, by the coarse clock, carries it still, but has not paid. */
TEST(late_answer)
{
	run_to_last();
	turned_clock_to(turned_clock_ns() + ANSWER_NS + TURNED_TICK_NS);
	link_post();
	assert_int_equal(carried, 3);
	assert_int_equal(wire_of(0)->pays, PAYS_NOT);
	finish();
}

/* --- what is believed --------------------------------------------------------------- */

static const struct {
	const char *name;
	unsigned int plain; /* hosts */
	uint8_t syndrome;
	uint32_t bytes; /* of the message that comes */
} strangers[] = {
	{"read", 0, 0x1f, 8},
	{"with credits", 0, 0x05, 8},
	{"a sequence NAK", 0, NAK, 12},
	{"an RNR NAK", 0, 0x21, 12},
	{"a reserved one", 0, 0xff, 12},
	{"to who does not read them", 2, 0x1f, 12},
};

/* The packet that host 0 might send to host 1, with @syndrome behind 8 bytes. */
static void receive_carrying(uint8_t syndrome)
{
	const struct av_qp_ref *to = &link_side[1].end;
	struct av_packet p = {.opcode = 0x04,
			      .carries = true,
			      .pkey = 0xffff,
			      .dest_qpn = atomic_load(&to->qp->qpn),
			      .psn = to->qp->expected_psn,
			      .payload_bytes = 8,
			      .carried = (uint32_t)syndrome << 24 | 0x76};
	uint8_t bytes[64] = {0}, *payload = bytes + av_packet_put_headers(&p, bytes);
	size_t size = (size_t)(av_packet_put_behind(&p, payload + p.payload_bytes) - bytes);
	struct av_net_packet net = {0};

	assert_int_equal(av_packet_get(&net.packet, bytes, size), AV_PACKET_OK);
	memcpy(net.path.src, link_gid(0).raw, sizeof(net.path.src));
	memcpy(net.path.dst, link_gid(1).raw, sizeof(net.path.dst));
	net.qp = av_dir_qpn_find(net.packet.dest_qpn);
	av_wire_handle(&net, 1, false);
}

/* Else its four bytes are payload. */
TEST(only_acknowledgements_to_who_reads_them)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(strangers); i++) {
		const struct link_exchange e = {.name = strangers[i].name,
						.type = IBV_QPT_RC,
						.patient = BOTH,
						.plain = strangers[i].plain,
						.fails = true,
						.request = {POST(SEND, 100)}};
		struct ibv_wc wc;

		(void)link_open(&e, NULL, 0);
		receive_carrying(strangers[i].syndrome);
		MUST_BE(av_poll(link_side[1].seg, av_cq_at(link_side[1].seg, link_side[1].recv_cq),
				1, &wc, NULL),
			1);
		MUST_BE(wc.status, IBV_WC_SUCCESS);
		MUST_BE(wc.byte_len, strangers[i].bytes);
		assert_true(av_net_catch_up());
		link_close();
	}
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
