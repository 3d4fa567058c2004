/* SPDX-License-Identifier: MIT */
/*
 * Small messages gather while others are under way: the first leaves at once, and those behind it
 * with packets that come, which is what the first one does to the other host of this process, with
 * a poll, when the queue is full, or after 30 us.
 */
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

#define GATHER_NS 30000u
#define LATE_NS	  (10 * GATHER_NS)
#define SMALL	  256u /* the MTU of these exchanges: a message is a packet */

static uint64_t begun_ns, left_ns[LINK_REQUESTS];
static unsigned int left; /* packets of host 0 */

static void note(const struct link_packet *p)
{
	if (p->from != 0 || left == LINK_REQUESTS)
		return;
	if (left == 0)
		begun_ns = turned_clock_ns();
	left_ns[left++] = turned_clock_ns() - begun_ns;
}

/* When they leave, after the first one. */
static const struct {
	struct link_exchange e;
	unsigned int first; /* packets that leave at once; the others: */
	uint64_t ns;
	struct link_fault fault;
} rows[] = {
	{{.name = "with packets that come",
	  .type = IBV_QPT_RC,
	  .request = {POST(WRITE, 1), POST(WRITE, SMALL), POST(WRITE, 0)}},
	 1,
	 LINK_NS,
	 {.packet = LINK_REQUESTS}},
	{{.name = "after a time",
	  .type = IBV_QPT_RC,
	  .request = {POST(WRITE, 1), POST(WRITE, 1), POST(WRITE, 1)}},
	 1,
	 GATHER_NS,
	 {.packet = 0, .what = LINK_DELAY, .delay_ns = LATE_NS}},
	{{.name = "nothing comes", .type = IBV_QPT_RC, .request = {POST(WRITE, 1), POST(WRITE, 1)}},
	 1,
	 GATHER_NS,
	 {.packet = 0, .what = LINK_LOSE}},
	{{.name = "a READ, which has an answer",
	  .type = IBV_QPT_RC,
	  .request = {POST(WRITE, 1), POST(WRITE, 1), POST(READ, 1)}},
	 3,
	 0,
	 {.packet = LINK_REQUESTS}},
	{{.name = "no small one",
	  .type = IBV_QPT_RC,
	  .request = {POST(WRITE, 1), POST(WRITE, 1), POST(WRITE, 2049)}},
	 11,
	 0,
	 {.packet = LINK_REQUESTS}},
	{{.name = "unreliable: nothing is known to be under way",
	  .type = IBV_QPT_UC,
	  .request = {POST(WRITE, 1), POST(WRITE, 1), POST(WRITE, 1)}},
	 3,
	 0,
	 {.packet = LINK_REQUESTS}},
};

TEST(when_they_leave)
{
	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		unsigned int k;

		left = 0;
		link_on_sent = note;
		(void)link_open(&rows[i].e, &rows[i].fault, 1);
		link_post();
		while (link_step()) /* and nobody polls */
			;
		link_poll();
		link_on_sent = NULL;
		link_close();
		for (k = 0; k < rows[i].first; k++)
			if (left <= k || left_ns[k] != 0)
				link_fail("%s: packet %u leaves late", rows[i].e.name, k);
		if (rows[i].ns && (left <= k || left_ns[k] != rows[i].ns))
			link_fail("%s: packet %u leaves after %lu ns", rows[i].e.name, k,
				  (unsigned long)left_ns[k]);
	}
}

/* A poll that finds nothing, of whichever queue pair's CQ. */
TEST(with_a_poll)
{
	static const struct link_exchange e = {
		.name = "a poll",
		.type = IBV_QPT_RC,
		.request = {POST(WRITE, 1), POST(WRITE, 1), POST(WRITE, 1)}};

	(void)state;
	left = 0;
	link_on_sent = note;
	(void)link_open(&e, NULL, 0);
	link_post();
	assert_int_equal(left, 1);
	link_poll();
	assert_int_equal(left, 3);
	while (link_step())
		link_poll();
	link_on_sent = NULL;
	link_close();
}

/* Whatever happens to a packet or to two: lost, doubled, late, behind the next, damaged. */
TEST(whatever_happens)
{
	static const struct link_exchange whatever[] = {
		{.name = "one way",
		 .type = IBV_QPT_RC,
		 .request = {POST(SEND, 1), POST(SEND, 1), POST(WRITE, 8), POST(SEND, 300)}},
		{.name = "both ways",
		 .type = IBV_QPT_RC,
		 .request = {POST(SEND, 1), BACK(SEND, 1), POST(SEND, 1), BACK(SEND, 1)}},
		{.name = "with answers between them",
		 .type = IBV_QPT_RC,
		 .request = {POST(WRITE, 1), POST(FAA, 8), POST(WRITE, 1), POST(WRITE, 1)}},
		{.name = "no receive request at first",
		 .type = IBV_QPT_RC,
		 .late_ns = LINK_RNR_NS / 2,
		 .request = {POST(SEND, 1), POST(SEND, 1), POST(SEND, 1)}},
		{.name = "XRC",
		 .type = IBV_QPT_XRC_SEND,
		 .request = {POST(SEND, 1), POST(SEND, 1), POST(SEND, 1)}},
	};

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(whatever); i++) {
		link_each(&whatever[i]);
		link_each_two(&whatever[i]);
	}
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
