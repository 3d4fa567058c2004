/* SPDX-License-Identifier: MIT */
/* Atomic operations on a reliable connection, whatever happens to their packets. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "fetch and add", .type = IBV_QPT_RC, .request = {POST(FAA, 8), POST(FAA, 8)}},
	{.name = "compare and swap", .type = IBV_QPT_RC, .request = {POST(CAS, 8), POST(CAS, 8)}},
	{.name = "each",
	 .type = IBV_QPT_RC,
	 .request = {POST(FAA, 8), POST(CAS, 8), POST(CAS, 8), POST(FAA, 8)}},
	{.name = "more than the responder keeps",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 2,
	 .request = {POST(FAA, 8), POST(FAA, 8), POST(FAA, 8), POST(FAA, 8), POST(FAA, 8),
		     POST(FAA, 8)}},
	{.name = "one at a time",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 1,
	 .request = {POST(FAA, 8), POST(CAS, 8), POST(FAA, 8)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(FAA, 8), POST(CAS, 8), POST(FAA, 8)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(FAA, 8), BACK(CAS, 8), POST(CAS, 8), BACK(FAA, 8)}},
	{.name = "among others",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 300), POST(FAA, 8), POST(SEND, 1), POST(CAS, 8), POST(READ, 300)}},
	{.name = "fenced",
	 .type = IBV_QPT_RC,
	 .request = {POST(FAA, 8), POST_WITH(SEND, 300, IBV_SEND_FENCE), POST(CAS, 8)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
