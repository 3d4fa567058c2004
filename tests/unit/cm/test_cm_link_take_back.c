/* SPDX-License-Identifier: MIT */
/* Requests and answers that are taken back, whatever happens to messages. IBTA volume
 * 1, 12.6.7, 12.9. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

/* The listener's REP is refused. */
TEST(answer_refused)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "the asker refuses the answer",
		 .on = {{[CM_CONNECT_RESPONSE] = {REJECT, 0}},
			{[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		 .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_REJECTED}}}}},
		{.name = "the asker's id ends",
		 .on = {{[CM_CONNECT_RESPONSE] = {DESTROY, 0}},
			{[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		 .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_REJECTED}}}}},
		{.name = "the listener takes its answer back",
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		 .then = {{STAY, 0}, {REJECT, 50 * MS}},
		 .cases = {{{{CM_CONNECT_RESPONSE, CM_REJECTED}, {CM_CONNECT_REQUEST}}},
			   {{{CM_REJECTED}, {CM_CONNECT_REQUEST}}},
			   {{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

/* The asker does not wait for an answer. Who has not accepted yet has no name, and hears nothing.
 */
TEST(taken_back)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "the asker's id ends before there is an answer",
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 400 * MS}}},
		 .then = {{DESTROY, 50 * MS}},
		 .reason = 4, /* timeout: what Linux says */
		 .cases = {{{{0}, {CM_CONNECT_REQUEST}}},
			   {{{0}, {0}}},
			   {{{0}, {CM_CONNECT_REQUEST, CM_REJECTED}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
