/* SPDX-License-Identifier: MIT */
/* FLUSH and ATOMIC WRITE, whatever happens to their packets. Source: IBTA volume 1, annex A19. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "ATOMIC WRITE",
	 .type = IBV_QPT_RC,
	 .request = {POST(ATOMIC_WRITE, 8), POST(ATOMIC_WRITE, 8)}},
	{.name = "each",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 300), POST(FLUSH, 300), POST(ATOMIC_WRITE, 8)}},
	{.name = "one at a time",
	 .type = IBV_QPT_RC,
	 .rd_atomic = 1,
	 .request = {POST(WRITE, 1), POST(FLUSH, 1), POST(ATOMIC_WRITE, 8), POST(FLUSH, 0)}},
	{.name = "one after the other",
	 .type = IBV_QPT_RC,
	 .apart = true,
	 .request = {POST(FLUSH, 300), POST(ATOMIC_WRITE, 8), POST(SEND, 1)}},
	{.name = "both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(ATOMIC_WRITE, 8), BACK(FLUSH, 300), POST(FLUSH, 1),
		     BACK(ATOMIC_WRITE, 8)}},
	{.name = "among others",
	 .type = IBV_QPT_RC,
	 .request = {POST(ATOMIC_WRITE, 8), POST(FAA, 8), POST(FLUSH, 600), POST(READ, 300),
		     POST(ATOMIC_WRITE, 8)}},
};

TEST(flush)
{
	link_each_size(IBV_QPT_RC, FLUSH);
}

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
