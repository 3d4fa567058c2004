/* SPDX-License-Identifier: MIT */
/* RDMA READ on a reliable connection, whatever happens to its packets. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "short and long ones",
	 .type = IBV_QPT_RC,
	 .request = {POST(READ, 1), POST(READ, 600), POST(READ, 0), POST(READ, 256)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(READ, 300), POST(READ, 513), POST(READ, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(READ, 300), BACK(READ, 300), POST(READ, 0), BACK(READ, 600)}},
	{.name = "one at a time",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 1,
	 .request = {POST(READ, 300), POST(READ, 600), POST(READ, 1)}},
	{.name = "behind what needs no answer",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 300), POST(READ, 600), POST(WRITE, 1), POST(SEND, 300)}},
	{.name = "fenced",
	 .type = IBV_QPT_RC,
	 .request = {POST(READ, 300), POST_WITH(WRITE, 300, IBV_SEND_FENCE), POST(READ, 1)}},
	{.name = "buffers of three elements",
	 .type = IBV_QPT_RC,
	 .split = true,
	 .request = {POST(READ, 700), POST(READ, 300)}},
	{.name = "without completions",
	 .type = IBV_QPT_RC,
	 .unsignaled = true,
	 .request = {POST(READ, 300), POST(READ, 1), POST(READ, 513), POST(READ, 1)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

static uint32_t most; /* bytes that one packet has asked for */

static void note_length(const struct link_packet *p)
{
	if (p->from == 0 && p->net->packet.length > most)
		most = p->net->packet.length;
}

/* Half of what may be on its way: the answer to one shows what is missing of the one before. */
TEST(in_parts)
{
	static const struct link_exchange e = {.name = "in parts",
					       .type = IBV_QPT_RC,
					       .mtu = IBV_MTU_1024,
					       .narrow = true,
					       .request = {POST(READ, 32769)}};

	most = 0;
	link_on_sent = note_length;
	(void)link_run(&e, NULL, 0);
	link_on_sent = NULL;
	assert_int_equal(most, 4096);
}

static unsigned int asked;

static void note_request(const struct link_packet *p)
{
	asked += p->net->packet.opcode == 0x0c;
}

/*
 * A long answer is given in turns. What comes behind it meanwhile has to come again, and the answer
 * has not.
 */
TEST(before_what_is_behind)
{
	static const uint32_t behind[] = {WRITE, WRITE_IMM};

	for (size_t i = 0; i < AV_ARRAY_SIZE(behind); i++) {
		const struct link_exchange e = {
			.name = "before what is behind",
			.type = IBV_QPT_RC,
			.onto = true,
			.room = 1,
			.request = {POST(READ, 2300), POST(behind[i], 2300)}};

		asked = 0;
		link_on_sent = note_request;
		(void)link_run(&e, NULL, 0);
		link_on_sent = NULL;
		assert_int_equal(asked, 1);
	}
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
