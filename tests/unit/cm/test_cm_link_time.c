/* SPDX-License-Identifier: MIT */
/* When messages come again, and when one gives up: docs/CM.md, "Messages". */
#include <errno.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/cm/cm_link_fixture.h"

#define LONGEST	 (4295 * MS)
#define PATIENCE 4294967296ull /* what an MRA asks for: 4.096 us << 20 */
#define HOST_0            \
	{                 \
		{         \
			0 \
		}         \
	}

/* Twice as long each time, up to the longest. Return: when one gives up */
static uint64_t repeated(uint16_t attribute, uint64_t first_ns, unsigned int times)
{
	uint64_t at = cm_link_sent_ns(attribute, 0), after = first_ns;

	assert_int_equal(cm_link_sent_count(attribute), times);
	for (unsigned int i = 1; i <= times; i++) {
		at += after;
		after = 2 * after < LONGEST ? 2 * after : LONGEST;
		if (i < times)
			assert_int_equal(cm_link_sent_ns(attribute, i), at);
	}
	return at;
}

/* 12 times in all: 30 s. The peer hears that nobody waits for its answer any more. */
TEST(nobody_answers)
{
	const struct cm_link_exchange row = {
		.name = "nobody answers",
		.on = {HOST_0, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		.then = {{STAY, 0}, {CUT, 0}},
		.reason = 4, /* timeout */
		.cases = {{{{CM_UNREACHABLE}, {CM_CONNECT_REQUEST, CM_REJECTED}}}}};
	struct cm_link_exchange together = row;

	for (unsigned int i = 0; i < 2; i++) {
		(void)cm_link_run(i ? &together : &row, NULL, 0);
		assert_int_equal(cm_link_heard_ns(0, CM_UNREACHABLE),
				 repeated(AV_CM_REQ, 100 * MS, 12));
		assert_int_equal(cm_link_sent_ns(AV_CM_REJ, 0),
				 cm_link_heard_ns(0, CM_UNREACHABLE));
		together.together = true;
	}
	assert_in_range(cm_link_heard_ns(0, CM_UNREACHABLE), 30 * SECOND, 33 * SECOND);
}

/* Whoever has accepted waits for the RTU as long. */
TEST(nobody_is_ready)
{
	const struct cm_link_exchange row = {.name = "nobody is ready",
					     .on = {HOST_0, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
					     .then = {{CUT, LINK_NS / 2}, {STAY, 0}},
					     .cases = {{{{CM_CONNECT_RESPONSE, CM_REJECTED},
							 {CM_CONNECT_REQUEST, CM_UNREACHABLE}}}},
					     .reason = 4};

	(void)cm_link_run(&row, NULL, 0);
	assert_int_equal(cm_link_heard_ns(1, CM_UNREACHABLE), repeated(AV_CM_REP, 100 * MS, 12));
}

/* 7 times: 10 s. Then the connection is over all the same. */
TEST(nobody_parts)
{
	const struct cm_link_exchange row = {
		.name = "nobody parts",
		.on = {IS_READY_AND_PARTS, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		.then = {{DISCONNECT, SECOND}, {STAY, 0}},
		.cases = {
			{{{ASKER_HEARS}, {CM_CONNECT_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED}}}}};
	uint64_t over;

	(void)cm_link_run(&row, NULL, 0);
	assert_int_equal(cm_link_sent_ns(AV_CM_DREQ, 0), SECOND);
	over = repeated(AV_CM_DREQ, 100 * MS, 7);
	assert_int_equal(cm_link_heard_ns(0, CM_DISCONNECTED), over);
	assert_int_equal(cm_link_heard_ns(0, CM_TIMEWAIT_EXIT), over + 500 * MS);
	for (unsigned int i = 0; i < cm_link_events; i++)
		if (cm_link_heard[i].host == 0 && cm_link_heard[i].kind == CM_DISCONNECTED)
			assert_int_equal(cm_link_heard[i].status, -ETIMEDOUT);
}

/* Answered, each end waits for packets that are late. */
TEST(timewait)
{
	const struct cm_link_exchange row = {.name = "parted",
					     .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
					     .then = {{DISCONNECT, SECOND}, {STAY, 0}},
					     .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}};

	(void)cm_link_run(&row, NULL, 0);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		assert_int_equal(cm_link_heard_ns(h, CM_TIMEWAIT_EXIT),
				 cm_link_heard_ns(h, CM_DISCONNECTED) + 500 * MS);
	assert_int_equal(cm_link_heard_ns(1, CM_DISCONNECTED), SECOND + LINK_NS);
	assert_int_equal(cm_link_heard_ns(0, CM_DISCONNECTED), SECOND + 2 * LINK_NS);
}

/* Another host is asked for datagrams 7 times, each 4.3 s later; a process of this one as often. */
TEST(nobody_serves)
{
	const struct cm_link_exchange row = {.name = "nobody serves",
					     .ps = RDMA_PS_UDP,
					     .then = {{STAY, 0}, {CUT, 0}},
					     .cases = {{{{CM_UNREACHABLE}, {CM_CONNECT_REQUEST}}}}};
	struct cm_link_exchange together = row;

	(void)cm_link_run(&row, NULL, 0);
	assert_int_equal(cm_link_heard_ns(0, CM_UNREACHABLE), repeated(AV_CM_SIDR_REQ, LONGEST, 7));
	together.together = true;
	(void)cm_link_run(&together, NULL, 0);
	assert_int_equal(cm_link_heard_ns(0, CM_UNREACHABLE),
			 repeated(AV_CM_SIDR_REQ, 100 * MS, 12));
}

/* What each end hears where all messages of a kind are lost: docs/CM.md. */
TEST(all_lost)
{
	static const struct cm_link_exchange rows[] = {
		{.name = "REQ",
		 .lost = AV_CM_REQ,
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .cases = {{{{CM_UNREACHABLE}}}}},
		{.name = "REP", /* the listener is the first to give up */
		 .lost = AV_CM_REP,
		 .reason = 4,
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, SECOND}}},
		 .cases = {{{{CM_REJECTED}, {CM_CONNECT_REQUEST, CM_UNREACHABLE}}}}},
		{.name = "RTU",
		 .lost = AV_CM_RTU,
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .cases = {{{{ASKER_HEARS}, {CM_CONNECT_REQUEST, CM_UNREACHABLE}}}}},
		{.name = "RTU, and the asker leaves",
		 .lost = AV_CM_RTU,
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .then = {{DISCONNECT, SECOND}, {STAY, 0}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
		{.name = "DREQ",
		 .lost = AV_CM_DREQ,
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .then = {{DISCONNECT, SECOND}, {STAY, 0}},
		 .cases = {{{{ASKER_HEARS}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}},
		{.name = "DREP",
		 .lost = AV_CM_DREP,
		 .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		 .then = {{DISCONNECT, SECOND}, {STAY, 0}},
		 .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}},
		{.name = "MRA",
		 .lost = AV_CM_MRA,
		 .on = {IS_READY_AND_PARTS, {[CM_CONNECT_REQUEST] = {ACCEPT, 20 * SECOND}}},
		 .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}},
		{.name = "SIDR_REP",
		 .lost = AV_CM_SIDR_REP,
		 .ps = RDMA_PS_UDP,
		 .on = {{{0}}, {[CM_CONNECT_REQUEST] = {ACCEPT, 0}}},
		 .cases = {{{{CM_UNREACHABLE}, {CM_CONNECT_REQUEST}}}}},
	};

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct cm_link_exchange together = rows[i];

		(void)cm_link_run(&rows[i], NULL, 0);
		together.together = true;
		(void)cm_link_run(&together, NULL, 0);
	}
}

/* A request that comes again is answered again, though the answer's own time has not come. */
TEST(answered_again)
{
	const struct cm_link_exchange row = {
		.name = "asked again",
		.on = {IS_READY_AND_PARTS, {[CM_CONNECT_REQUEST] = {ACCEPT, 50 * MS}}},
		.cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}};
	const struct link_fault answer_lost = {.packet = 1, .what = LINK_LOSE};

	(void)cm_link_run(&row, &answer_lost, 1);
	assert_int_equal(cm_link_heard_ns(0, CM_CONNECT_RESPONSE), 100 * MS + 2 * LINK_NS);
}

/* So is a goodbye: in TIMEWAIT, and by whoever has said one of its own. */
TEST(parted_again)
{
	const struct cm_link_exchange one = {.name = "one leaves",
					     .on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
					     .then = {{DISCONNECT, SECOND}, {STAY, 0}},
					     .cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}};
	const struct cm_link_exchange both = {
		.name = "both leave",
		.on = {IS_READY_AND_PARTS,
		       {[CM_CONNECT_REQUEST] = {ACCEPT, 0},
			[CM_ESTABLISHED] = {DISCONNECT, SECOND - 3 * LINK_NS}}},
		.then = {{DISCONNECT, SECOND}, {STAY, 0}},
		.cases = {{{{ASKER_HEARS}, {LISTENER_HEARS}}}}};
	const struct link_fault answer_lost = {.packet = 4, .what = LINK_LOSE};
	const struct link_fault first_lost = {.packet = 3, .what = LINK_LOSE};

	(void)cm_link_run(&one, &answer_lost, 1);
	assert_int_equal(cm_link_heard_ns(0, CM_DISCONNECTED), SECOND + 100 * MS + 2 * LINK_NS);
	(void)cm_link_run(&both, &first_lost, 1);
	assert_int_equal(cm_link_heard_ns(0, CM_DISCONNECTED), SECOND + LINK_NS);
	assert_int_equal(cm_link_heard_ns(1, CM_DISCONNECTED), SECOND + 2 * LINK_NS);
}

/* MRA: the message comes again when the time is over that it asks for. */
TEST(asked_for_time)
{
	static const struct {
		struct cm_link_exchange row;
		uint16_t attribute;
		uint64_t begins_ns;
	} rows[] = {
		{{.name = "a slow listener",
		  .on = {IS_READY_AND_PARTS, {[CM_CONNECT_REQUEST] = {ACCEPT, 20 * SECOND}}},
		  .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}},
		 AV_CM_REQ,
		 0},
		{{.name = "a slow asker",
		  .on = {{[CM_CONNECT_RESPONSE] = {READY, 20 * SECOND}}, ACCEPTS_AND_PARTS},
		  .cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}},
		 AV_CM_REP,
		 LINK_NS},
	};

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint64_t at = rows[i].begins_ns + 100 * MS;

		(void)cm_link_run(&rows[i].row, NULL, 0);
		assert_int_equal(cm_link_sent_count(rows[i].attribute), 6);
		assert_int_equal(cm_link_sent_count(AV_CM_MRA), 5);
		for (unsigned int n = 0; n < 5; n++) {
			assert_int_equal(cm_link_sent_ns(rows[i].attribute, n + 1), at);
			assert_int_equal(cm_link_sent_ns(AV_CM_MRA, n), at + LINK_NS);
			at += 2 * LINK_NS + PATIENCE;
		}
	}
}

/* One of both programs begins a moment later: asked 7 times within 0.3 s. */
TEST(nobody_listens)
{
	static const struct {
		struct cm_link_exchange row;
		uint16_t attribute;
		uint8_t hears;
	} rows[] = {
		{{.name = "nobody listens",
		  .deaf = true,
		  .reason = 8,
		  .cases = {{{{CM_REJECTED}, {0}}}}},
		 AV_CM_REQ,
		 CM_REJECTED},
		{{.name = "nobody serves",
		  .ps = RDMA_PS_UDP,
		  .deaf = true,
		  .reason = 1,
		  .cases = {{{{CM_UNREACHABLE}, {0}}}}},
		 AV_CM_SIDR_REQ,
		 CM_UNREACHABLE},
	};

	for (unsigned int i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint64_t at = 0;

		(void)cm_link_run(&rows[i].row, NULL, 0);
		assert_int_equal(cm_link_sent_count(rows[i].attribute), 7);
		for (unsigned int n = 0; n < 7; n++) {
			assert_int_equal(cm_link_sent_ns(rows[i].attribute, n), at);
			at += 2 * LINK_NS;
			if (n < 6)
				at += (5 * MS) << n;
		}
		assert_int_equal(cm_link_heard_ns(0, rows[i].hears), at);
	}
}

/* A process without room for a message is tried again each millisecond. */
TEST(no_room)
{
	const struct cm_link_exchange row = {
		.name = "no room",
		.together = true,
		.full = 3,
		.on = {IS_READY_AND_PARTS, ACCEPTS_AND_PARTS},
		.cases = {{{{CM_CONNECT_RESPONSE}, {CM_CONNECT_REQUEST, CM_ESTABLISHED}}}}};

	(void)cm_link_run(&row, NULL, 0);
	assert_int_equal(cm_link_sent_count(AV_CM_REQ), 1);
	assert_int_equal(cm_link_sent_ns(AV_CM_REQ, 0), 3 * MS);
}

int main(void)
{
	return run_cases(cm_link_set_up, cm_link_tear_down);
}
