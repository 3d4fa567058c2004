/* SPDX-License-Identifier: MIT */
/*
 * Connections of one host that move to the wire: each kind of request and service, whatever happens
 * to packets.
 */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

#define FROM(r) ((r) + 1) /* the kernel refuses from that request on */

static const struct link_exchange rows[] = {
	{.name = "WRITE and SEND, from the beginning",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0)},
	 .request = {POST(WRITE, 600), POST(SEND, 300), POST(WRITE_IMM, 1)}},
	{.name = "READ and atomics, from the beginning",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0)},
	 .request = {POST(READ, 600), POST(FAA, 8), POST(CAS, 8), POST(READ, 1)}},
	{.name = "FLUSH and ATOMIC WRITE, from the beginning",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0)},
	 .request = {POST(ATOMIC_WRITE, 8), POST(WRITE, 300), POST(FLUSH, 300)}},
	{.name = "behind all kinds that needed no packets",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(5)},
	 .request = {POST(WRITE, 600), POST(SEND, 300), POST(READ, 600), POST(FAA, 8),
		     BACK(SEND, 300), POST(READ, 300), POST(FAA, 8), POST(SEND_IMM, 300)}},
	{.name = "with invalidation",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(1)},
	 .request = {POST(SEND, 300), POST(WRITE, 1), POST(SEND_INV, 600), POST(SEND, 1)}},
	{.name = "fenced",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(1)},
	 .request = {POST(READ, 300), POST_WITH(WRITE, 300, IBV_SEND_FENCE), POST(READ, 1),
		     POST_WITH(SEND, 1, IBV_SEND_FENCE)}},
	{.name = "without completions",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .unsignaled = true,
	 .refused = {FROM(2)},
	 .request = {POST(WRITE, 300), POST(READ, 1), POST(SEND, 300), POST(WRITE, 1),
		     POST(READ, 300), POST(SEND, 1)}},
	{.name = "buffers of three elements",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .split = true,
	 .refused = {FROM(1)},
	 .request = {POST(SEND, 700), POST(WRITE, 700), POST(READ, 300)}},
	{.name = "one READ at a time",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .rd_atomic = 1,
	 .refused = {FROM(1)},
	 .request = {POST(READ, 300), POST(READ, 300), POST(FAA, 8), POST(READ, 1)}},
	{.name = "XRC",
	 .type = IBV_QPT_XRC_SEND,
	 .near = true,
	 .refused = {FROM(1)},
	 .request = {POST(SEND, 300), POST(WRITE, 600), POST(SEND, 300), POST(READ, 300)}},
	{.name = "unreliable",
	 .type = IBV_QPT_UC,
	 .near = true,
	 .refused = {FROM(1)},
	 .request = {POST(SEND, 300), POST(WRITE, 300), POST(SEND, 600), POST(WRITE_IMM, 1)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
