/* SPDX-License-Identifier: MIT */
/* RDMA READ of each size around the edges of an MTU, whatever happens to its packets. */
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static void each_size(void **state)
{
	link_each_size(IBV_QPT_RC, READ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size),
	};

	return cmocka_run_group_tests(tests, link_set_up, link_tear_down);
}
