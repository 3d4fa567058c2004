/* SPDX-License-Identifier: MIT */
/* RDMA READ on a reliable connection, whatever happens to its packets. */
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
	 .request = {POST(IBV_WR_RDMA_READ, 1), POST(IBV_WR_RDMA_READ, 600), POST(IBV_WR_RDMA_READ, 0), POST(IBV_WR_RDMA_READ, 256)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(IBV_WR_RDMA_READ, 300), POST(IBV_WR_RDMA_READ, 513), POST(IBV_WR_RDMA_READ, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_READ, 300), BACK(IBV_WR_RDMA_READ, 300), POST(IBV_WR_RDMA_READ, 0), BACK(IBV_WR_RDMA_READ, 600)}},
	{.name = "one at a time",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 1,
	 .request = {POST(IBV_WR_RDMA_READ, 300), POST(IBV_WR_RDMA_READ, 600), POST(IBV_WR_RDMA_READ, 1)}},
	{.name = "behind what needs no answer",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_WRITE, 300), POST(IBV_WR_RDMA_READ, 600), POST(IBV_WR_RDMA_WRITE, 1), POST(IBV_WR_SEND, 300)}},
	{.name = "through a full interface",
	 .type = IBV_QPT_RC,
	 .room = 1,
	 .request = {POST(IBV_WR_RDMA_READ, 1100), POST(IBV_WR_RDMA_READ, 300)}},
	{.name = "through a narrow window",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_4096,
	 .narrow = true,
	 .request = {POST(IBV_WR_RDMA_READ, 16385), POST(IBV_WR_RDMA_READ, 4096)}},
	{.name = "fenced",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_READ, 300), POST_WITH(IBV_WR_RDMA_WRITE, 300, IBV_SEND_FENCE), POST(IBV_WR_RDMA_READ, 1)}},
};

static void each_size(void **state)
{
	link_each_size(IBV_QPT_RC, IBV_WR_RDMA_READ);
}

static void several(void **state)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size),
		cmocka_unit_test(several),
	};

	return cmocka_run_group_tests(tests, link_set_up, link_tear_down);
}
