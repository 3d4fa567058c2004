/* SPDX-License-Identifier: MIT */
/* Requests of all kinds on one connection, whatever happens to their packets. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "all kinds",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 300), POST(SEND, 1), POST(READ, 300), POST(FAA, 8),
		     POST(WRITE_IMM, 1), POST(FLUSH, 300), POST(ATOMIC_WRITE, 8),
		     POST(SEND_IMM, 0)}},
	{.name = "all kinds both ways",
	 .type = IBV_QPT_RC,
	 .request = {POST(READ, 300), BACK(WRITE, 300), POST(SEND, 300), BACK(FAA, 8), POST(CAS, 8),
		     BACK(READ, 1)}},
	{.name = "twenty packets",
	 .type = IBV_QPT_RC,
	 .request = {POST(WRITE, 1025), POST(READ, 769), POST(SEND, 769), POST(FAA, 8),
		     POST(WRITE, 513)}},
	{.name = "congested",
	 .type = IBV_QPT_RC,
	 .congested = true,
	 .request = {POST(WRITE, 600), POST(READ, 600), POST(SEND, 300), POST(FAA, 8)}},
	{.name = "all kinds without completions",
	 .type = IBV_QPT_RC,
	 .unsignaled = true,
	 .request = {POST(READ, 300), POST(SEND, 300), POST(FAA, 8), POST(WRITE, 300),
		     POST(READ, 1), POST(WRITE, 1)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
