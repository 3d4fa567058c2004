/* SPDX-License-Identifier: MIT */
/* XRC, whatever happens to its packets. Source: IBTA volume 1, annex A14. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "several kinds",
	 .type = IBV_QPT_XRC_SEND,
	 .request = {POST(SEND, 1), POST(WRITE, 600), POST(READ, 300), POST(SEND_IMM, 300),
		     POST(FAA, 8), POST(WRITE_IMM, 1)}},
	{.name = "one after the other",
	 .type = IBV_QPT_XRC_SEND,
	 .apart = true,
	 .request = {POST(SEND, 300), POST(READ, 513), POST(WRITE_IMM, 1)}},
};

TEST(send)
{
	link_each_size(IBV_QPT_XRC_SEND, SEND);
}

TEST(write_with_immediate_data)
{
	link_each_size(IBV_QPT_XRC_SEND, WRITE_IMM);
}

TEST(read)
{
	link_each_size(IBV_QPT_XRC_SEND, READ);
}

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
