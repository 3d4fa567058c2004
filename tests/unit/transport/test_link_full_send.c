/* SPDX-License-Identifier: MIT */
/*
 * A long message waits for room for a full send, a fourth of the window here, while
 * acknowledgements are on their way, unless all that waits has room.
 */
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "unit/transport/link_parts.h"

#define MTU    256u
#define WINDOW 128u
#define LATE   20000u /* the packets behind the first message */

static uint64_t begun_ns;
static unsigned int at_first, when_acknowledged; /* packets of host 0 that leave then */
static bool asks;				 /* the last of them, for an acknowledgement */

static void note(const struct link_packet *p)
{
	uint64_t ns = turned_clock_ns();

	if (p->from != 0)
		return;
	if (p->number == 0)
		begun_ns = ns;
	at_first += ns == begun_ns;
	if (ns == begun_ns + (uint64_t)2 * LINK_NS) {
		when_acknowledged++;
		asks = p->net->packet.ack_request;
	}
}

static const struct {
	struct link_exchange e;
	unsigned int acknowledged; /* first, so many packets */
	unsigned int leave;	   /* then */
} rows[] = {
	{{.name = "too little room for a full send",
	  .type = IBV_QPT_RC,
	  .plain = 3,
	  .request = {POST(WRITE, 5 * MTU), POST(WRITE, 200 * MTU)}},
	 5,
	 0},
	{{.name = "one packet too little",
	  .type = IBV_QPT_RC,
	  .plain = 3,
	  .request = {POST(WRITE, 31 * MTU), POST(WRITE, 200 * MTU)}},
	 31,
	 0},
	{{.name = "room for one",
	  .type = IBV_QPT_RC,
	  .plain = 3,
	  .request = {POST(WRITE, 32 * MTU), POST(WRITE, 200 * MTU)}},
	 32,
	 32},
	{{.name = "room for one, and for a part of the next",
	  .type = IBV_QPT_RC,
	  .plain = 3,
	  .request = {POST(WRITE, 80 * MTU), POST(WRITE, 170 * MTU)}},
	 80,
	 64},
	{{.name = "all has room",
	  .type = IBV_QPT_RC,
	  .plain = 3,
	  .request = {POST(WRITE, 5 * MTU), POST(WRITE, WINDOW *MTU)}},
	 5,
	 5},
	{{.name = "a request behind it has no room",
	  .type = IBV_QPT_RC,
	  .plain = 3,
	  .request = {POST(WRITE, 5 * MTU), POST(WRITE, WINDOW *MTU), POST(WRITE, 3 * MTU)}},
	 5,
	 0},
	{{.name = "to a peer like this device, from its first answer on",
	  .type = IBV_QPT_RC,
	  .request = {POST(WRITE, 5 * MTU), POST(WRITE, 250 * MTU)}},
	 5,
	 127},
	{{.name = "which does not say so",
	  .type = IBV_QPT_RC,
	  .plain = 2,
	  .request = {POST(WRITE, 5 * MTU), POST(WRITE, 250 * MTU)}},
	 5,
	 0},
	{{.name = "or to which this side is none",
	  .type = IBV_QPT_RC,
	  .plain = 1,
	  .request = {POST(WRITE, 5 * MTU), POST(WRITE, 250 * MTU)}},
	 5,
	 0},
};

/* Each late packet arrives, and the exchange ends. */
TEST(what_leaves_with_an_acknowledgement)
{
	struct link_fault late[WINDOW];

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		unsigned int n = 0;

		for (unsigned int p = rows[i].acknowledged; p < WINDOW; p++)
			late[n++] = (struct link_fault){
				.packet = p, .what = LINK_DELAY, .delay_ns = LATE};
		at_first = when_acknowledged = 0;
		asks = false;
		link_on_sent = note;
		(void)link_run(&rows[i].e, late, n);
		link_on_sent = NULL;
		if (at_first != WINDOW || when_acknowledged != rows[i].leave)
			link_fail("%s: %u packets leave at first, %u later", rows[i].e.name,
				  at_first, when_acknowledged);
		if (asks != (rows[i].leave > 0))
			link_fail("%s: nobody will acknowledge them", rows[i].e.name);
	}
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
