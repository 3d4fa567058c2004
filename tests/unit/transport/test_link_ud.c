/* SPDX-License-Identifier: MIT */
/* Datagrams, whatever happens to their packets. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/flight.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "short and long ones",
	 .type = IBV_QPT_UD,
	 .request = {POST(SEND, 1), POST(SEND, 256), POST(SEND_IMM, 0), POST(SEND_IMM, 255)}},
	{.name = "both ways",
	 .type = IBV_QPT_UD,
	 .request = {POST(SEND, 1), BACK(SEND, 256), POST(SEND_IMM, 0), BACK(SEND_IMM, 255)}},
	{.name = "around an MTU of 4096",
	 .type = IBV_QPT_UD,
	 .mtu = IBV_MTU_4096,
	 .request = {POST(SEND, 4095), POST(SEND_IMM, 4096)}},
	{.name = "through a full interface",
	 .type = IBV_QPT_UD,
	 .room = 1,
	 .request = {POST(SEND, 1), POST(SEND, 256)}},
};

static void each_size(uint32_t opcode)
{
	for (unsigned int i = 0; i < link_size_count && link_sizes[i] <= 256; i++) {
		struct link_exchange e = {
			.name = "each size",
			.type = IBV_QPT_UD,
			.request = {POST(opcode, link_sizes[i]), POST(opcode, link_sizes[i])}};

		link_all(&e, 1);
	}
}

TEST(send)
{
	each_size(SEND);
}

TEST(send_with_immediate_data)
{
	each_size(SEND_IMM);
}

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

/* A queue pair whose send queue is drained takes datagrams all the same. */
TEST(drained)
{
	static const struct link_exchange e = {.name = "to a drained queue pair",
					       .type = IBV_QPT_UD,
					       .fails = true,
					       .request = {POST(SEND, 100)}};

	(void)link_open(&e, NULL, 0);
	link_enter(1, IBV_QPS_SQD);
	link_post();
	while (link_step())
		link_poll();
	assert_int_equal(link_side[1].received, 1);
	link_close();
}

/* Who drops a datagram records whose it was. */
TEST(dropped)
{
	static const struct link_exchange e = {.name = "without a receive request",
					       .type = IBV_QPT_UD,
					       .late_ns = 1000000000u,
					       .fails = true,
					       .request = {POST(SEND, 100)}};
	const struct av_flight_file *file = av_flight_own();
	uint32_t sender, receiver;
	struct av_flight_record r;

	assert_non_null(file);
	(void)link_open(&e, NULL, 0);
	sender = atomic_load(&link_side[0].end.qp->qpn);
	receiver = atomic_load(&link_side[1].end.qp->qpn);
	link_post();
	(void)link_step();
	link_close();
	assert_true(av_flight_read(file, av_flight_next(file) - 1, &r));
	av_flight_own_end();
	assert_int_equal(r.check, AV_CHECK_NO_RECV);
	assert_int_equal(r.number, receiver);
	assert_true(r.has & AV_HAS_PEER);
	assert_int_equal(r.peer_qp, sender);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
