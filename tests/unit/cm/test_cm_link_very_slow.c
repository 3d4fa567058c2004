/* SPDX-License-Identifier: MIT */
/* Programs that take longer than a message may be on its way, whatever happens to messages. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

TEST(very_slow)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "the listener takes 20 s",
		 .on = {IS_READY_AND_PARTS,
			{[CM_CONNECT_REQUEST] = {ACCEPT, 20 * SECOND},
			 [CM_DISCONNECTED] = {DISCONNECT, 0}}},
		 .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}},
		{.name = "the asker takes 20 s",
		 .on = {{[CM_CONNECT_RESPONSE] = {READY, 20 * SECOND}}, ACCEPTS_AND_PARTS},
		 .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}},
	};

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++)
		cm_link_each(&rows[i]);
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
