/* SPDX-License-Identifier: MIT */
/* RDMA WRITE on a reliable connection, whatever happens to its packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "short and long ones",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_WRITE, 1), POST(IBV_WR_RDMA_WRITE, 600), POST(IBV_WR_RDMA_WRITE_WITH_IMM, 0), POST(IBV_WR_RDMA_WRITE, 0), POST(IBV_WR_RDMA_WRITE, 256)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(IBV_WR_RDMA_WRITE, 300), POST(IBV_WR_RDMA_WRITE_WITH_IMM, 513), POST(IBV_WR_RDMA_WRITE, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_WRITE, 300), BACK(IBV_WR_RDMA_WRITE_WITH_IMM, 300), POST(IBV_WR_RDMA_WRITE_WITH_IMM, 0), BACK(IBV_WR_RDMA_WRITE, 600)}},
	{.name = "through a full interface",
	 .type = IBV_QPT_RC,
	 .room = 2,
	 .request = {POST(IBV_WR_RDMA_WRITE, 1100), POST(IBV_WR_RDMA_WRITE, 300)}},
	{.name = "through a narrow window",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_4096,
	 .narrow = true,
	 .request = {POST(IBV_WR_RDMA_WRITE, 12289), POST(IBV_WR_RDMA_WRITE_WITH_IMM, 4096)}},
	{.name = "fourteen packets",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_WRITE, 1793), POST(IBV_WR_RDMA_WRITE_WITH_IMM, 1400)}},
};

static void each_size(void **state)
{
	link_each_size(IBV_QPT_RC, IBV_WR_RDMA_WRITE);
}

static void with_immediate_data(void **state)
{
	link_each_size(IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void several(void **state)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size),
		cmocka_unit_test(with_immediate_data),
		cmocka_unit_test(several),
	};

	return cmocka_run_group_tests(tests, link_set_up, link_tear_down);
}
