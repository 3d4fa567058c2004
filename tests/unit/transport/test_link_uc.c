/* SPDX-License-Identifier: MIT */
/* Unreliable connections: what is lost is lost as a whole, and nobody is told. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "several kinds",
	 .type = IBV_QPT_UC,
	 .request = {POST(SEND, 1), POST(WRITE, 600), POST(SEND_IMM, 300), POST(WRITE_IMM, 513),
		     POST(SEND, 0)}},
	{.name = "both ways",
	 .type = IBV_QPT_UC,
	 .request = {POST(SEND, 600), BACK(WRITE, 300), POST(WRITE_IMM, 300), BACK(SEND_IMM, 1)}},
	{.name = "through a full interface",
	 .type = IBV_QPT_UC,
	 .room = 1,
	 .request = {POST(SEND, 700), POST(WRITE, 700)}},
	{.name = "one after the other",
	 .type = IBV_QPT_UC,
	 .apart = true,
	 .request = {POST(SEND, 300), POST(WRITE, 513), POST(SEND_IMM, 1)}},
};

TEST(send)
{
	link_each_size(IBV_QPT_UC, SEND);
}

TEST(send_with_immediate_data)
{
	link_each_size(IBV_QPT_UC, SEND_IMM);
}

TEST(write)
{
	link_each_size(IBV_QPT_UC, WRITE);
}

TEST(write_with_immediate_data)
{
	link_each_size(IBV_QPT_UC, WRITE_IMM);
}

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

/* Of more packets than a window. */
TEST(longer_than_a_window)
{
	static const struct link_exchange e = {
		.name = "longer than a window",
		.type = IBV_QPT_UC,
		.narrow = true,
		.request = {POST(WRITE_IMM, 9000), POST(WRITE, 3000)}};

	link_each(&e);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
