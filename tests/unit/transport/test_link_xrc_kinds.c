/* SPDX-License-Identifier: MIT */
/* The other kinds of requests on XRC, whatever happens to their packets. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "atomics",
	 .type = IBV_QPT_XRC_SEND,
	 .request = {POST(CAS, 8), POST(FAA, 8), POST(CAS, 8)}},
	{.name = "FLUSH and ATOMIC WRITE",
	 .type = IBV_QPT_XRC_SEND,
	 .request = {POST(WRITE, 300), POST(FLUSH, 300), POST(ATOMIC_WRITE, 8)}},
	{.name = "fenced",
	 .type = IBV_QPT_XRC_SEND,
	 .request = {POST(READ, 300), POST_WITH(SEND, 300, IBV_SEND_FENCE), POST(FAA, 8)}},
};

TEST(send_with_immediate_data)
{
	link_each_size(IBV_QPT_XRC_SEND, SEND_IMM);
}

TEST(write)
{
	link_each_size(IBV_QPT_XRC_SEND, WRITE);
}

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
