/* SPDX-License-Identifier: MIT */
/* Questions for datagrams, whatever happens to messages. IBTA volume 1, 12.11. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

TEST(answered)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "a service",
		 .ps = RDMA_PS_UDP,
		 .on = {{[CM_ESTABLISHED] = {DESTROY, 0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		 .cases = {{{{CM_ESTABLISHED}, {CM_CONNECT_REQUEST}}}}},
		{.name = "a service that takes 12 s",
		 .ps = RDMA_PS_UDP,
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 12 * SECOND}}},
		 .cases = {{{{CM_ESTABLISHED}, {CM_CONNECT_REQUEST}}}}},
		{.name = "the asker's id ends",
		 .ps = RDMA_PS_UDP,
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 400 * MS}}},
		 .then = {{DESTROY, 50 * MS}},
		 .cases = {{{{0}, {CM_CONNECT_REQUEST}}}, {{{0}, {0}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

TEST(refused)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "no service",
		 .ps = RDMA_PS_UDP,
		 .on = {{[CM_UNREACHABLE] = {DESTROY, 0}}, {[CM_CONNECT_REQUEST] = {REJECT, 0}}},
		 .cases = {{{{CM_UNREACHABLE}, {CM_CONNECT_REQUEST}}}}},
		{.name = "a service whose id ends",
		 .ps = RDMA_PS_UDP,
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {DESTROY, 100 * MS}}},
		 .cases = {{{{CM_UNREACHABLE}, {CM_CONNECT_REQUEST}}}}},
	};

	cm_link_all(rows, AV_ARRAY_SIZE(rows));
}

TEST(nobody_listens)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "nobody serves",
		 .ps = RDMA_PS_UDP,
		 .deaf = true,
		 .reason = 1, /* service ID not supported: 12.11.2.2 */
		 .cases = {{{{CM_UNREACHABLE}, {0}}}}},
		{.name = "somebody serves at last",
		 .ps = RDMA_PS_UDP,
		 .deaf = true,
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		 .then = {{STAY, 0}, {LISTEN, 100 * MS}},
		 .cases = {{{{CM_ESTABLISHED}, {CM_CONNECT_REQUEST}}}}},
	};

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++)
		cm_link_each(&rows[i]);
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
