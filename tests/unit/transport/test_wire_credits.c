/* SPDX-License-Identifier: MIT */
/*
 * End-to-end flow control: what a responder tells of its receive queue, and what a requester sends
 * by that. Nobody gets the packets.
 */
#include <pthread.h>
#include <stdlib.h>

#include <string.h>

#include "base/lock.h"
#include "lib/unit.h"
#include "queue/qp.h"
#include "queue/rq.h"
#include "transport/transport.h"
#include "transport/wire_qp.h"
#include "unit/memory/fake_seg.h"
#include "wire/packet.h"

#define INDEX 1u
#define QPN   0x11u
#define MTU   256u
#define SLOTS 32u
#define RING  ((uint64_t)1 << 31)
#define FIRST 0xfffffcu /* PSN: some are on the other side of 0 */
#define NONE  AV_CREDITS_NONE_CODE
#define RNR   AV_SYNDROME_RNR_NAK
#define NAK   0x60u

static struct fake_seg f;
static struct av_qp_ref end;
static struct av_wire w;
static struct av_table table;
static struct av_wire_begun begun[SLOTS];

static void set_up(enum av_service service)
{
	static const uint8_t there[16] = {2};

	fake_open(&f, 1);
	fake_tables(&f);
	end = (struct av_qp_ref){&f.seg, av_qp_at(&f.seg, INDEX)};
	end.qp->index = INDEX;
	end.qp->type = service == AV_SERVICE_UC ? IBV_QPT_UC : IBV_QPT_RC;
	end.qp->attr = (struct ibv_qp_attr){
		.path_mtu = IBV_MTU_256, .rnr_retry = 7, .max_rd_atomic = SLOTS};
	end.qp->sq_ring = RING;
	end.qp->sq_mask = SLOTS - 1;
	end.qp->sq_stride = AV_SQ_STRIDE_MAX;
	end.qp->next_psn = FIRST;
	end.qp->wire = 1;
	atomic_store(&end.qp->qpn, QPN);
	atomic_store(&end.qp->state, IBV_QPS_RTS);
	w = (struct av_wire){
		.qpn = QPN, .service = service, .mtu = MTU, .request = begun, .acked = FIRST};
	w.sent = FIRST;
	w.route.window = av_window_join(there);
	assert_non_null(w.route.window);
	memset(&table, 0, sizeof(table));
	assert_int_equal(av_table_set(&table, INDEX, &w), 0);
	atomic_store(&f.seg.wires, &table);
}

static void tear_down(void)
{
	av_timer_stop(&f.seg);
	free(atomic_load(&f.seg.timer)); /* as its segment does */
	if (w.active)
		av_window_active(w.route.window, false);
	av_window_leave(w.route.window);
	av_table_fini(&table);
	fake_close(&f);
}

/* --- the responder --------------------------------------------------------------- */

static const struct {
	uint32_t type, srq, posted, taken;
	bool receiving; /* a message has come in part */
	uint8_t code;
} told[] = {
	{IBV_QPT_RC, 0, 0, 0, false, 0},	  {IBV_QPT_RC, 0, 1, 0, false, 1},
	{IBV_QPT_RC, 0, 5, 0, false, 4},	  {IBV_QPT_RC, 0, 6, 0, false, 5},
	{IBV_QPT_RC, 0, 9, 4, false, 4},	  {IBV_QPT_RC, 0, 9, 9, false, 0},
	{IBV_QPT_RC, 0, 9, 9, true, 1},		  {IBV_QPT_RC, 0, 2, UINT32_MAX, false, 3},
	{IBV_QPT_RC, 1, 9, 4, false, NONE},	  {IBV_QPT_XRC_RECV, 1, 9, 4, false, NONE},
	{IBV_QPT_XRC_RECV, 0, 9, 4, false, NONE},
};

TEST(a_responder_tells)
{
	struct av_rq_shared *rq;

	for (size_t i = 0; i < AV_ARRAY_SIZE(told); i++) {
		set_up(AV_SERVICE_RC);
		rq = av_rq_at(&f.seg, 2);
		end.qp->rq = 2;
		end.qp->type = told[i].type;
		end.qp->srq = told[i].srq;
		end.qp->receiving = told[i].receiving;
		atomic_store(&rq->tail, told[i].posted);
		atomic_store(&rq->head, told[i].taken);
		CHECK(av_lock_try(&end.qp->resp_lock, AV_RANK_RESPONDER) == AV_LOCK_TAKEN);
		CHECK_EQUAL(av_wire_credits(&end), told[i].code);
		av_lock_release(&end.qp->resp_lock);
		tear_down();
	}
}

/* --- the requester --------------------------------------------------------------- */

enum what {
	END,
	SEND,	/* is posted, of @packets */
	IMM,	/* RDMA WRITE with immediate data */
	WRITE,	/* RDMA WRITE */
	ANSWER, /* to the packet that is @psn behind the first one, with @syndrome */
	TIME,	/* is over that an answer may take, or that an RNR NAK has asked for */
};

struct step {
	enum what what;
	uint32_t packets;
	int32_t psn;
	uint8_t syndrome;
	uint32_t next; /* packets that have been sent then, but for those to be sent again */
};

#define POST(what, packets, next)         \
	{                                 \
		what, packets, 0, 0, next \
	}
#define GOT(psn, syndrome, next)               \
	{                                      \
		ANSWER, 0, psn, syndrome, next \
	}
#define TIME_IS_OVER(next)          \
	{                           \
		TIME, 0, 0, 0, next \
	}
#define LATER 0 /* the syndrome of an acknowledgement without a receive */

static const struct {
	const char *name;
	enum av_service service;
	struct step step[16];
} rows[] = {
	{"one packet before anything has been told, then as many as told",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), POST(SEND, 1, 1), POST(SEND, 1, 1), POST(SEND, 1, 1), GOT(0, 2, 3),
	  GOT(1, 2, 4)}},
	{"no limit",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), POST(SEND, 1, 1), GOT(0, NONE, 2), POST(SEND, 3, 5), POST(IMM, 1, 6),
	  POST(SEND, 1, 7)}},
	{"without credits one after the other",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), POST(SEND, 1, 1), POST(SEND, 1, 1), GOT(0, LATER, 2), GOT(1, LATER, 3),
	  GOT(2, LATER, 3)}},
	{"the first packet of a message, the others when that is acknowledged",
	 AV_SERVICE_RC,
	 {POST(SEND, 3, 1), POST(SEND, 1, 1), GOT(0, LATER, 3), GOT(2, 1, 4)}},
	{"the first packet, too, of RDMA WRITE with immediate data",
	 AV_SERVICE_RC,
	 {POST(IMM, 3, 1), GOT(0, LATER, 3)}},
	{"credits while a message is on its way",
	 AV_SERVICE_RC,
	 {POST(SEND, 3, 1), POST(SEND, 2, 1), GOT(0, 2, 5)}},
	{"other requests need none, and overtake nothing",
	 AV_SERVICE_RC,
	 {POST(WRITE, 2, 2), POST(SEND, 1, 3), POST(WRITE, 1, 4), POST(SEND, 1, 4),
	  POST(WRITE, 1, 4), GOT(2, LATER, 6), POST(SEND, 1, 6), GOT(4, LATER, 7)}},
	{"only messages count that take a receive request",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), GOT(0, 2, 1), POST(WRITE, 1, 2), POST(WRITE, 1, 3), POST(SEND, 1, 4),
	  POST(IMM, 1, 5), POST(WRITE, 1, 6), POST(SEND, 1, 6), GOT(3, 2, 7)}},
	{"the last acknowledgement once more",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), GOT(0, 1, 1), POST(SEND, 1, 2), POST(SEND, 1, 2), POST(SEND, 1, 2),
	  GOT(0, 3, 4)}},
	{"earlier ones say nothing",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), GOT(0, 2, 1), POST(SEND, 1, 2), GOT(1, 1, 2), POST(SEND, 1, 3),
	  POST(SEND, 1, 3), GOT(0, 4, 3), GOT(7, 4, 3)}},
	{"a NAK says nothing",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), GOT(0, 3, 1), POST(SEND, 1, 2), POST(SEND, 1, 3), POST(SEND, 1, 4),
	  POST(SEND, 1, 4), GOT(3, NAK, 4)}},
	{"after an RNR NAK one packet, when its time is over",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), GOT(0, NONE, 1), POST(SEND, 1, 2), POST(SEND, 1, 3), GOT(1, RNR, 1),
	  TIME_IS_OVER(2), GOT(1, NONE, 3)}},
	{"or when there are credits",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), GOT(0, RNR, 0), POST(SEND, 1, 0), GOT(-1, LATER, 0), GOT(-1, NONE, 0),
	  GOT(-1, 2, 2)}},
	{"repeated within the credits",
	 AV_SERVICE_RC,
	 {POST(SEND, 1, 1), GOT(0, 2, 1), POST(SEND, 1, 2), POST(SEND, 1, 3), POST(SEND, 1, 3),
	  TIME_IS_OVER(3), GOT(1, 1, 3), GOT(2, 1, 4)}},
	{"unreliable ones have no limit",
	 AV_SERVICE_UC,
	 {POST(SEND, 1, 1), POST(SEND, 1, 2), POST(IMM, 3, 5)}},
};

static void post(const struct step *s)
{
	uint32_t number = atomic_load(&end.qp->sq_tail);
	struct av_sq_wqe *wqe = av_sq_slot(&end, number);

	CHECK(wqe != NULL);
	*wqe = (struct av_sq_wqe){.opcode = s->what == SEND  ? IBV_WR_SEND
					    : s->what == IMM ? IBV_WR_RDMA_WRITE_WITH_IMM
							     : IBV_WR_RDMA_WRITE,
				  .flags = IBV_SEND_INLINE,
				  .bytes = (s->packets - 1) * MTU};
	wqe->bytes += s->packets > 1; /* the last packet has one byte */
	atomic_store(&end.qp->sq_tail, number + 1);
	av_sq_progress(&end, NULL);
}

static void answer(const struct step *s)
{
	struct av_net_packet packet = {
		.packet = {.opcode = 0x11,
			   .pkey = 0xffff,
			   .dest_qpn = QPN,
			   .psn = AV_PSN_AFTER(FIRST, (uint32_t)s->psn & AV_PSN_MASK),
			   .syndrome = s->syndrome}};

	(void)av_wire_answered(&end, &packet, 1, NULL);
	/* A time that an RNR NAK asks for is over when the table says so. */
	if (w.waits)
		atomic_store(&end.qp->deadline_ns, UINT64_MAX);
}

TEST(a_requester_sends)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		set_up(rows[i].service);
		for (const struct step *s = rows[i].step; s->what != END; s++) {
			if (s->what == ANSWER)
				answer(s);
			else if (s->what != TIME)
				post(s);
			else
				atomic_store(&end.qp->deadline_ns, 0);
			av_sq_progress(&end, NULL);
			if (av_psn_distance(FIRST, end.qp->next_psn) != (int32_t)s->next)
				fail_msg("%s: step %zu: %d packets", rows[i].name,
					 s - rows[i].step + 1,
					 av_psn_distance(FIRST, end.qp->next_psn));
		}
		tear_down();
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
