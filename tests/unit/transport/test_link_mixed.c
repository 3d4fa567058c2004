/* SPDX-License-Identifier: MIT */
/* Requests of all kinds on one connection, whatever happens to their packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "all kinds",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_WRITE, 300), POST(IBV_WR_SEND, 1), POST(IBV_WR_RDMA_READ, 300), POST(IBV_WR_ATOMIC_FETCH_AND_ADD, 8), POST(IBV_WR_RDMA_WRITE_WITH_IMM, 1), POST(AV_WR_FLUSH, 300), POST(AV_WR_ATOMIC_WRITE, 8), POST(IBV_WR_SEND_WITH_IMM, 0)}},
	{.name = "all kinds both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_READ, 300), BACK(IBV_WR_RDMA_WRITE, 300), POST(IBV_WR_SEND, 300), BACK(IBV_WR_ATOMIC_FETCH_AND_ADD, 8), POST(IBV_WR_ATOMIC_CMP_AND_SWP, 8), BACK(IBV_WR_RDMA_READ, 1)}},
	{.name = "twenty packets",
	 .type = IBV_QPT_RC,
	 .request = {POST(IBV_WR_RDMA_WRITE, 1025), POST(IBV_WR_RDMA_READ, 769), POST(IBV_WR_SEND, 769), POST(IBV_WR_ATOMIC_FETCH_AND_ADD, 8), POST(IBV_WR_RDMA_WRITE, 513)}},
	{.name = "congested",
	 .type = IBV_QPT_RC,
	 .congested = true,
	 .request = {POST(IBV_WR_RDMA_WRITE, 600), POST(IBV_WR_RDMA_READ, 600), POST(IBV_WR_SEND, 300), POST(IBV_WR_ATOMIC_FETCH_AND_ADD, 8)}},
};

static void several(void **state)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several),
	};

	return cmocka_run_group_tests(tests, link_set_up, link_tear_down);
}
