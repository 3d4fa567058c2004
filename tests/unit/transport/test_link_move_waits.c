/* SPDX-License-Identifier: MIT */
/* Connections of one host that move to the wire while a message waits for its turn or receiver. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

#define FROM(r) ((r) + 1) /* the kernel refuses from that request on */
#define LATE_NS (3 * LINK_RNR_NS / 2)

static const struct link_exchange rows[] = {
	{.name = "a SEND waits for its receiver meanwhile",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {0, FROM(1)},
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 300), BACK(WRITE, 300), POST(WRITE, 1)}},
	{.name = "the same of a shared queue",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .srq = true,
	 .refused = {0, FROM(1)},
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 600), BACK(WRITE, 300), POST(SEND, 1)}},
	{.name = "who waits is refused when the receiver is there",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .refused = {FROM(0), FROM(0)},
	 .late_ns = LATE_NS,
	 .request = {POST(SEND, 600), POST(WRITE, 1)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .apart = true,
	 .refused = {FROM(1)},
	 .request = {POST(SEND, 300), POST(WRITE, 300), POST(SEND, 300), POST(READ, 1)}},
	{.name = "one retry",
	 .type = IBV_QPT_RC,
	 .near = true,
	 .retry_cnt = 2 + 1,
	 .refused = {FROM(1)},
	 .request = {POST(WRITE, 300), POST(READ, 300), POST(SEND, 300)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
