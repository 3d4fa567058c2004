/* SPDX-License-Identifier: MIT */
/* Requests that are refused, whatever happens to messages. IBTA volume 1, 12.6.7, 12.9. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

TEST(refused)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "refused",
		 .on = {{[CM_REJECTED] = {DESTROY, 0}}, {[CM_CONNECT_REQUEST] = {REJECT, 0}}},
		 .cases = {{{{CM_REJECTED}, {CM_CONNECT_REQUEST}}}}},
		{.name = "refused after 0.4 s",
		 .on = {{[CM_REJECTED] = {DESTROY, 0}},
			{[CM_CONNECT_REQUEST] = {REJECT, 400 * MS}}},
		 .cases = {{{{CM_REJECTED}, {CM_CONNECT_REQUEST}}}}},
		{.name = "the listener's id ends",
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {DESTROY, 0}}},
		 .cases = {{{{CM_REJECTED}, {CM_CONNECT_REQUEST}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

TEST(nobody_listens)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "nobody listens",
		 .deaf = true,
		 .reason = 8, /* invalid service ID: 12.6.7.2 */
		 .cases = {{{{CM_REJECTED}, {0}}}}},
		{.name = "somebody listens at last",
		 .deaf = true,
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .then = {{DISCONNECT, 60 * SECOND}, {LISTEN, 100 * MS}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
	};

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++)
		cm_link_each(&rows[i]);
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
