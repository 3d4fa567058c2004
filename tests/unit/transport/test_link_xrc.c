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

static void send(void **state)
{
	link_each_size(IBV_QPT_XRC_SEND, SEND);
}

static void write_with_immediate_data(void **state)
{
	link_each_size(IBV_QPT_XRC_SEND, WRITE_IMM);
}

static void read(void **state)
{
	link_each_size(IBV_QPT_XRC_SEND, READ);
}

static void several(void **state)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send),
		cmocka_unit_test(write_with_immediate_data),
		cmocka_unit_test(read),
		cmocka_unit_test(several),
	};

	return cmocka_run_group_tests(tests, link_set_up, link_tear_down);
}
