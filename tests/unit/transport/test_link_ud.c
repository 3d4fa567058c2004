/* SPDX-License-Identifier: MIT */
/* Datagrams, whatever happens to their packets. */
#include <sched.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "lib/turned_clock.h"
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

/* A withdrawn key returns when the library has let others run twice, the first time for long. */
static struct av_key *withdrawn;
static unsigned int yields;

int sched_yield(void)
{
	if (withdrawn && ++yields == 1)
		turned_clock_to(turned_clock_ns() + 2 * AV_PEER_TIMEOUT_NS);
	if (withdrawn && yields == 2)
		atomic_store(&withdrawn->key, link_side[0].key);
	return (int)syscall(SYS_sched_yield);
}

/* A region's change may take long, because a peer uses it. No request fails for that. */
TEST(from_a_region_that_changes)
{
	static const struct link_exchange e = {.name = "while the region changes",
					       .type = IBV_QPT_UD,
					       .request = {POST(SEND, 100)}};

	(void)link_open(&e, NULL, 0);
	withdrawn = av_key_entry(link_side[0].seg, link_side[0].key);
	atomic_store(&withdrawn->key, 0);
	link_post();
	withdrawn = NULL;
	while (link_step())
		link_poll();
	link_close();
	assert_int_equal(yields, 2);
	assert_int_equal(link_status(0), IBV_WC_SUCCESS);
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
