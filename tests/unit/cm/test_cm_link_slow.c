/* SPDX-License-Identifier: MIT */
/* Programs that take their time, whatever happens to messages. IBTA volume 1, 12.6.6 (MRA). */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

/* A program that takes its time is waited for: MRA. */
TEST(slow)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "the listener takes 0.4 s",
		 .on = {IS_READY_AND_PARTS,
			{[CM_CONNECT_REQUEST] = {ACCEPT, 400 * MS},
			 [CM_DISCONNECTED] = {DISCONNECT, 0}}},
		 .then = {{DISCONNECT, 60 * SECOND}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
		{.name = "the asker takes 0.4 s",
		 .on = {{[CM_CONNECT_RESPONSE] = {READY, 400 * MS},
			 [CM_DISCONNECTED] = {DISCONNECT, 0}},
			ACCEPTS_AND_PARTS},
		 .then = {{DISCONNECT, 60 * SECOND}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
