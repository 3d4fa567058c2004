/* SPDX-License-Identifier: MIT */
/* SEND on a reliable connection, whatever happens to its packets. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/rq.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "short and long ones",
	 .type = IBV_QPT_RC,
	 .request = {POST(SEND, 1), POST(SEND, 600), POST(SEND_IMM, 0), POST(SEND, 256)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(SEND, 300), POST(SEND_IMM, 513), POST(SEND, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(SEND, 300), BACK(SEND_IMM, 300), POST(SEND, 0), BACK(SEND, 600)}},
	{.name = "answers",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(SEND, 300), BACK(SEND, 300), POST(SEND, 1), BACK(SEND, 1)}},
	{.name = "from a shared queue",
	 .type = IBV_QPT_RC,
	 .srq = true,
	 .request = {POST(SEND, 300), POST(SEND_IMM, 1), POST(SEND, 513)}},
	{.name = "through a full interface",
	 .type = IBV_QPT_RC,
	 .room = 1,
	 .request = {POST(SEND, 700), POST(SEND, 700)}},
	{.name = "through a narrow window",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_4096,
	 .narrow = true,
	 .request = {POST(SEND, 12289), POST(SEND_IMM, 1)}},
	{.name = "solicited",
	 .type = IBV_QPT_RC,
	 .request = {POST_WITH(SEND, 300, IBV_SEND_SOLICITED), POST(SEND, 1)}},
	{.name = "with invalidation",
	 .type = IBV_QPT_RC,
	 .request = {POST(SEND, 1), POST(SEND_INV, 600), POST(SEND, 1)}},
	{.name = "buffers of three elements",
	 .type = IBV_QPT_RC,
	 .split = true,
	 .request = {POST(SEND, 700), POST(SEND, 2)}},
	{.name = "inline",
	 .type = IBV_QPT_RC,
	 .request = {POST_WITH(SEND, 513, IBV_SEND_INLINE),
		     POST_WITH(SEND_IMM, 1, IBV_SEND_INLINE)}},
	{.name = "without completions",
	 .type = IBV_QPT_RC,
	 .unsignaled = true,
	 .request = {POST(SEND, 300), POST(SEND, 1), POST(SEND, 513), POST(SEND, 1)}},
	{.name = "around an MTU of 1024",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_1024,
	 .request = {POST(SEND, 1023), POST(SEND, 1024), POST(SEND, 1025)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

/* A shared queue keeps what was posted there when one of its queue pairs is reset. */
TEST(stays_in_a_shared_queue)
{
	static const struct link_exchange e = {.name = "its receiver is reset",
					       .type = IBV_QPT_RC,
					       .srq = true,
					       .fails = true,
					       .request = {POST(SEND, 1), POST(SEND, 300)}};
	const struct av_rq_shared *rq;

	(void)link_open(&e, NULL, 0);
	rq = av_rq_at(link_side[1].seg, link_side[1].rq);
	assert_int_equal(av_rq_ready(rq), 2);
	link_enter(1, IBV_QPS_RESET);
	assert_int_equal(av_rq_ready(rq), 2);
	link_close();
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
