/* SPDX-License-Identifier: MIT */
/* The peer's process dies: docs/CM.md, "The end of a process". */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

#define DEATH (10 * SECOND)

/* What the asker hears, and what of it within 0.25 s. */
static const struct {
	struct cm_link_exchange row;
	uint8_t hears;
} rows[] = {
	{{.name = "established",
	  .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
	  .cases = {{{{ASKER_HEARS}}}}},
	 CM_DISCONNECTED},
	{{.name = "not answered yet", .cases = {{{{CM_REJECTED}}}}}, CM_REJECTED},
	{{.name = "not ready yet",
	  .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
	  .cases = {{{{CM_CONNECT_RESPONSE, CM_REJECTED}}}}},
	 CM_REJECTED},
	{{.name = "about to part",
	  .on = {{[CM_CONNECT_RESPONSE] = {READY, 0}, [CM_TIMEWAIT_EXIT] = {DESTROY, 0}},
		 {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
	  .then = {{DISCONNECT, DEATH - MS}, {0}},
	  .cases = {{{{ASKER_HEARS}}}}},
	 CM_DISCONNECTED},
	{{.name = "left, and not parted yet",
	  .on = {{[CM_CONNECT_RESPONSE] = {READY, 0}},
		 {[CM_CONNECT_REQUEST] = {ACCEPT, 0}, [CM_ESTABLISHED] = {DISCONNECT, SECOND}}},
	  .cases = {{{{ASKER_HEARS}}}}},
	 0},
	{{.name = "asked for datagrams", .ps = RDMA_PS_UDP, .cases = {{{{CM_UNREACHABLE}}}}},
	 CM_UNREACHABLE},
};

TEST(peer_dies)
{
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct cm_link_exchange e = rows[i].row;

		e.together = true;
		e.then[1] = (struct cm_link_do){DIE, DEATH};
		(void)cm_link_run(&e, NULL, 0);
		if (rows[i].hears)
			assert_in_range(cm_link_heard_ns(0, rows[i].hears), DEATH,
					DEATH + 250 * MS);
	}
}

/* Another host says nothing: the asker notices when it parts, or by its queue pair. */
TEST(host_is_gone)
{
	const struct cm_link_exchange silent = {
		.name = "a host that is gone",
		.on = {{[CM_CONNECT_RESPONSE] = {READY, 0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		.then = {{STAY, 0}, {CUT, SECOND}},
		.cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}};

	(void)cm_link_run(&silent, NULL, 0);
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
