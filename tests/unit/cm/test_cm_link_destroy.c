/* SPDX-License-Identifier: MIT */
/* Ids that end in the midst of a connection, whatever happens to messages. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

/* Whoever ends its id without a word leaves it to the manager to have the peer hear of it. */
TEST(destroyed)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "the asker ends its id",
		 .on = {{[CM_CONNECT_RESPONSE] = {READY, 0}}, ACCEPTS_AND_PARTS},
		 .then = {{DESTROY, SECOND}},
		 .cases = {{{{CM_CONNECT_RESPONSE}, {LISTENER_HEARS}}}}},
		{.name = "the listener ends its id",
		 .on = {IS_READY_AND_PARTS,
			{[CM_CONNECT_REQUEST] = {ACCEPT, 0}, [CM_ESTABLISHED] = {DESTROY, SECOND}}},
		 .cases = {{{{ASKER_HEARS}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}},
		{.name = "both end their ids at once",
		 .on = {{[CM_CONNECT_RESPONSE] = {READY, 0}},
			{[CM_CONNECT_REQUEST] = {ACCEPT, 0},
			 [CM_ESTABLISHED] = {DESTROY, SECOND - 3 * LINK_NS}}},
		 .then = {{DESTROY, SECOND}},
		 .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}},
			   {{{CM_CONNECT_RESPONSE},
			     {CM_CONNECT_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED}}}}},
		{.name = "the asker ends its id behind its goodbye",
		 .on = {{[CM_CONNECT_RESPONSE] = {READY, 0}, [CM_DISCONNECTED] = {DESTROY, 0}},
			{[CM_CONNECT_REQUEST] = {ACCEPT, 0}, [CM_DISCONNECTED] = {DESTROY, 0}}},
		 .then = {{DISCONNECT, SECOND}},
		 .cases = {{{{CM_CONNECT_RESPONSE, CM_DISCONNECTED},
			     {CM_CONNECT_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
