/* SPDX-License-Identifier: MIT */
/* RDMA WRITE of each size around the edges of an MTU, whatever happens to its packets. */
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

TEST(each_size)
{
	link_each_size(IBV_QPT_RC, WRITE);
}

TEST(with_immediate_data)
{
	link_each_size(IBV_QPT_RC, WRITE_IMM);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
