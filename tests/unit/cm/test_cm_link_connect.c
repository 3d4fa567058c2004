/* SPDX-License-Identifier: MIT */
/* Connections that come about and end, whatever happens to messages. IBTA volume 1, 12.9. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

TEST(disconnected)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "the asker leaves",
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .then = {{DISCONNECT, SECOND}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
		{.name = "the listener leaves",
		 .on = {IS_READY_AND_PARTS,
			{[CM_CONNECT_REQUEST] = {ACCEPT, 0},
			 [CM_ESTABLISHED] = {DISCONNECT, SECOND}}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
		{.name = "both leave at once",
		 .on = {IS_READY_AND_PARTS,
			{[CM_CONNECT_REQUEST] = {ACCEPT, 0},
			 [CM_ESTABLISHED] = {DISCONNECT, SECOND - 3 * LINK_NS}}},
		 .then = {{DISCONNECT, SECOND}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

/* Whoever listens is heard at an interface that is made anew, too. */
TEST(at_another_interface)
{
	const struct cm_link_exchange row = {.name = "the listener's interface is made anew",
					     .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
					     .then = {{DISCONNECT, SECOND}, {MOVE, LINK_NS / 2}},
					     .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}};

	(void)cm_link_run(&row, NULL, 0);
}

/* The first packet of the queue pair may come before the RTU. */
TEST(told_by_a_packet)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "a packet comes first",
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .then = {{DISCONNECT, SECOND}, {NOTIFY, 5 * LINK_NS / 2}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
	};

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++)
		cm_link_each(&rows[i]);
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
