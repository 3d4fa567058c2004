/* SPDX-License-Identifier: MIT */
/*
 * A source that cannot be read, on one host. Its requester reads it before it sends: so that is
 * what its completion says, whatever the responder finds, and whether or not the message arrives.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/rq.h"
#include "unit/transport/link_parts.h"

#define NEVER_NS 1000000000ull

static const struct {
	uint32_t receive; /* bytes of a receive request; 0: there is none */
	struct link_exchange e;
} rows[] = {
	{0,
	 {.name = "its responder has no such key", .wrong_key = 1, .request = {POST(WRITE, 300)}}},
	{0, {.name = "a message without a receive request", .request = {POST(SEND, 300)}}},
	{100, {.name = "a message longer than its receive request", .request = {POST(SEND, 300)}}},
	{0, {.name = "a datagram without one", .type = IBV_QPT_UD, .request = {POST(SEND, 200)}}},
	{100, {.name = "a long datagram", .type = IBV_QPT_UD, .request = {POST(SEND, 200)}}},
};

static void post_receive(uint32_t bytes)
{
	const struct link_side *s = &link_side[1];
	struct ibv_sge sge = {link_address_of(1, 0), bytes, s->key};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	MUST_BE(av_rq_post(s->seg, av_rq_at(s->seg, s->rq), &s->end.qp->state, &wr, &bad), 0);
}

TEST(is_told_first)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct link_exchange e = rows[i].e;

		e.type = e.type ? e.type : IBV_QPT_RC;
		e.near = e.fails = true;
		e.late_ns = NEVER_NS;
		(void)link_open(&e, NULL, 0);
		if (rows[i].receive)
			post_receive(rows[i].receive);
		MUST_BE(mprotect(link_side[0].arena, ARENA, PROT_NONE), 0);
		link_post();
		MUST_BE(mprotect(link_side[0].arena, ARENA, PROT_READ | PROT_WRITE), 0);
		link_poll();
		MUST_BE(link_status(0), IBV_WC_LOC_PROT_ERR);
		MUST_BE(atomic_load(&link_side[1].end.qp->state), IBV_QPS_RTS);
		link_close();
	}
}

static int set_up(void **state)
{
	return link_set_up(state) || unsetenv("ANYVERBS_TRANSPORT");
}

int main(void)
{
	return run_cases(set_up, link_tear_down);
}
