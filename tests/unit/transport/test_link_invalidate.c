/* SPDX-License-Identifier: MIT */
/* SEND with invalidation, whatever happens to its packets: the window is invalidated once. */
#include <stdio.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "among others",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 300), POST(SEND_INV, 513), POST(READ, 300), POST(SEND, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(SEND_INV, 300), BACK(SEND_INV, 1), POST(SEND, 0)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(SEND, 300), POST(SEND_INV, 257), POST(SEND_IMM, 1)}},
	{.name = "fenced",
	 .type = IBV_QPT_RC,
	 .request = {POST(READ, 300), POST_WITH(SEND_INV, 300, IBV_SEND_FENCE), POST(FAA, 8)}},
	{.name = "to a shared queue",
	 .type = IBV_QPT_RC,
	 .srq = true,
	 .request = {POST(SEND, 1), POST(SEND_INV, 600)}},
	{.name = "around an MTU of 512",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_512,
	 .request = {POST(SEND, 511), POST(SEND_INV, 512), POST(SEND, 513)}},
};

static void each_size(enum ibv_qp_type type)
{
	for (unsigned int i = 0; i < link_size_count; i++) {
		char name[64];
		struct link_exchange e = {
			.name = name,
			.type = type,
			.request = {POST(SEND_INV, link_sizes[i]), POST(SEND, 1)}};

		snprintf(name, sizeof(name), "%u bytes", link_sizes[i]);
		link_all(&e, 1);
	}
}

TEST(reliable_connection)
{
	each_size(IBV_QPT_RC);
}

TEST(xrc)
{
	each_size(IBV_QPT_XRC_SEND);
}

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
