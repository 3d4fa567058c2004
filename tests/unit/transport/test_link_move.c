/* SPDX-License-Identifier: MIT */
/*
 * Connections of one host that move to the wire, since the kernel refuses a process the other's
 * memory: who is refused, what is under way then, and whatever happens to packets.
 */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

#define FROM(r)	 ((r) + 1) /* the kernel refuses from that request on */
#define FOR_LONG (LINK_TIMEOUT_NS * 5)

static const struct link_exchange rows[] = {
	{.name = "nobody is refused",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .request = {POST(WRITE, 600), POST(SEND, 300), BACK(READ, 600), POST(FAA, 8)}},
	{.name = "what the other asks for, too",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0)},
	 .request = {POST(WRITE, 300), BACK(READ, 600), BACK(FAA, 8), BACK(SEND, 300)}},
	{.name = "both are refused at once",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0), FROM(0)},
	 .request = {POST(WRITE, 300), BACK(WRITE, 300), POST(SEND, 300), BACK(READ, 600)}},
	{.name = "who moves first is not expected yet",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0), FROM(0)},
	 .call_ns = {LINK_NS / 2, 0},
	 .request = {POST(READ, 300), BACK(READ, 600), BACK(FAA, 8), BACK(SEND, 300)}},
	{.name = "and is not for long",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0), FROM(0)},
	 .call_ns = {FOR_LONG, 0},
	 .request = {POST(WRITE, 300), BACK(READ, 600), BACK(FAA, 8), BACK(SEND, 300)}},
	{.name = "nor in the middle of its message",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0), FROM(0)},
	 .call_ns = {LINK_NS / 2, 0},
	 .room = 1,
	 .request = {POST(WRITE, 1), BACK(WRITE, 1100), BACK(SEND, 600)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
