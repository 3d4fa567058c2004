/* SPDX-License-Identifier: MIT */
/* RDMA WRITE on a reliable connection, whatever happens to its packets. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "short and long ones",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 1), POST(WRITE, 600), POST(WRITE_IMM, 0), POST(WRITE, 0),
		     POST(WRITE, 256)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(WRITE, 300), POST(WRITE_IMM, 513), POST(WRITE, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 300), BACK(WRITE_IMM, 300), POST(WRITE_IMM, 0), BACK(WRITE, 600)}},
	{.name = "through a full interface",
	 .type = IBV_QPT_RC,
	 .room = 2,
	 .request = {POST(WRITE, 1100), POST(WRITE, 300)}},
	{.name = "through a narrow window",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_4096,
	 .narrow = true,
	 .request = {POST(WRITE, 12289), POST(WRITE_IMM, 4096)}},
	{.name = "fourteen packets",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 1793), POST(WRITE_IMM, 1400)}},
	{.name = "buffers of three elements",
	 .type = IBV_QPT_RC,
	 .split = true,
	 .request = {POST(WRITE, 700), POST(WRITE_IMM, 300)}},
	{.name = "inline",
	 .type = IBV_QPT_RC,
	 .request = {POST_WITH(WRITE, 513, IBV_SEND_INLINE),
		     POST_WITH(WRITE_IMM, 1, IBV_SEND_INLINE)}},
	{.name = "without completions",
	 .type = IBV_QPT_RC,
	 .unsignaled = true,
	 .request = {POST(WRITE, 300), POST(WRITE, 1), POST(WRITE, 513), POST(WRITE, 1)}},
	{.name = "around an MTU of 4096",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_4096,
	 .request = {POST(WRITE, 4095), POST(WRITE, 4096), POST(WRITE, 4097)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
