/* SPDX-License-Identifier: MIT */
/* RDMA READ whose packets have little room, whatever happens to them. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "through a full interface",
	 .type = IBV_QPT_RC,
	 .room = 1,
	 .request = {POST(READ, 1100), POST(READ, 300)}},
	{.name = "through a narrow window",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_4096,
	 .narrow = true,
	 .request = {POST(READ, 16385), POST(READ, 4096)}},
	{.name = "around an MTU of 2048",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_2048,
	 .request = {POST(READ, 2047), POST(READ, 2048), POST(READ, 2049)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
