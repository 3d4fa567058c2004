/* SPDX-License-Identifier: MIT */
/*
 * A request that its responder refuses, whatever happens to packets. Source: IBTA volume 1, 9.7.5.2
 * (NAK codes), 9.9.2, 9.9.3. The responder's queue pair fails, and answers nothing any more: if the
 * NAK is lost, the requester gives up.
 */
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "queue/rq.h"
#include "unit/transport/link_fixture.h"

/* What was acknowledged before; one failure; then nothing but flushed requests. */
static void judge(const struct link_exchange *e)
{
	unsigned int wrong = e->wrong_key - 1, r = 0;

	while (e->request[r].there && link_status(r) == IBV_WC_SUCCESS)
		r++;
	if (r > wrong)
		link_fail("request %u has succeeded", wrong);
	if (link_status(r) != IBV_WC_RETRY_EXC_ERR &&
	    (r != wrong || link_status(r) != IBV_WC_REM_ACCESS_ERR))
		link_fail("request %u: status %d", r, link_status(r));
	for (unsigned int i = r + 1; e->request[i].there; i++)
		if (link_status(i) != IBV_WC_WR_FLUSH_ERR)
			link_fail("request %u: status %d", i, link_status(i));
	for (unsigned int i = wrong; e->request[i].there; i++)
		if (!link_is_untouched(i))
			link_fail("request %u has been executed", i);
	if (atomic_load(&link_side[0].end.qp->state) != IBV_QPS_ERR ||
	    atomic_load(&link_side[1].end.qp->state) != IBV_QPS_ERR)
		link_fail("a queue pair has not failed");
	if (atomic_load(&link_side[0].end.qp->wait_reason) != AV_WAIT_NONE ||
	    av_wire_at(link_side[0].seg, link_side[0].end.qp->index)->active)
		link_fail("something is under way");
}

static const struct link_exchange rows[] = {
	{.name = "RDMA WRITE",
	 .type = IBV_QPT_RC,
	 .wrong_key = 1,
	 .fails = true,
	 .request = {POST(WRITE, 600), POST(WRITE, 1)}},
	{.name = "RDMA READ behind an RDMA WRITE",
	 .type = IBV_QPT_RC,
	 .wrong_key = 2,
	 .fails = true,
	 .request = {POST(WRITE, 300), POST(READ, 600), POST(WRITE, 1)}},
	{.name = "an atomic operation among others",
	 .type = IBV_QPT_RC,
	 .wrong_key = 2,
	 .fails = true,
	 .request = {POST(FAA, 8), POST(FAA, 8), POST(FAA, 8)}},
	{.name = "RDMA WRITE with immediate data",
	 .type = IBV_QPT_RC,
	 .wrong_key = 1,
	 .fails = true,
	 .request = {POST(WRITE_IMM, 300), POST(SEND, 1)}},
};

TEST(refused)
{
	link_judge = judge;
	link_all(rows, AV_ARRAY_SIZE(rows));
	link_judge = NULL;
}

static unsigned int refusals, behind;

static void note_refusals(const struct link_packet *p)
{
	if (p->from == 0)
		return;
	behind += refusals;
	refusals += (p->net->packet.syndrome & 0xe0) == 0x60;
}

/* With nothing lost, the requester hears at once what was wrong, and nothing else then. */
TEST(heard_at_once)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		refusals = behind = 0;
		link_on_sent = note_refusals;
		(void)link_run(&rows[i], NULL, 0);
		link_on_sent = NULL;
		assert_int_equal(refusals, 1);
		assert_int_equal(behind, 0);
		assert_int_equal(link_status(rows[i].wrong_key - 1), IBV_WC_REM_ACCESS_ERR);
	}
}

/* A shared queue of another XRC domain than its receiver's. */
TEST(of_another_domain)
{
	static const struct link_exchange e = {.name = "another XRC domain",
					       .type = IBV_QPT_XRC_SEND,
					       .fails = true,
					       .request = {POST(SEND, 300)}};

	(void)link_open(&e, NULL, 0);
	av_rq_at(link_side[1].seg, link_side[1].rq)->xrcd++;
	link_post();
	while (link_step())
		link_poll();
	assert_int_equal(link_side[1].received, 0);
	assert_int_equal(link_status(0), IBV_WC_REM_INV_REQ_ERR);
	link_close();
}

/* --- a request that comes again ---------------------------------------------------- */

/* The key permits nothing any more, as soon as the request is complete. */
static void withdraw(const struct link_arrival *a)
{
	if (link_status(0) == IBV_WC_SUCCESS)
		av_key_entry(link_side[1].seg, link_side[1].key)->access = IBV_ACCESS_MW_BIND;
}

static void judge_late(const struct link_exchange *e)
{
	if (link_status(0) != IBV_WC_SUCCESS)
		link_fail("status %d", link_status(0));
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		if (atomic_load(&link_side[h].end.qp->state) != IBV_QPS_RTS)
			link_fail("the queue pair of host %u has failed", h);
}

/* The network has kept it for long; its first copy has been answered. */
TEST(fails_nothing)
{
	static const uint32_t opcodes[] = {READ, FAA, WRITE, FLUSH};
	static const struct link_fault late = {
		.packet = 0, .what = LINK_ECHO, .delay_ns = LINK_TIMEOUT_NS};
	struct av_key *key = av_key_entry(link_side[1].seg, link_side[1].key);
	uint32_t access = key->access;

	for (size_t i = 0; i < AV_ARRAY_SIZE(opcodes); i++) {
		const struct link_exchange e = {.name = "comes again when its key is gone",
						.type = IBV_QPT_RC,
						.fails = true,
						.request = {POST(opcodes[i], 300)}};

		link_on_arrival = withdraw;
		link_judge = judge_late;
		(void)link_run(&e, &late, 1);
		link_on_arrival = NULL;
		link_judge = NULL;
		key->access = access;
	}
}

/* The key permits no READ any more, as soon as the READ is complete. */
static void withdraw_from_reads(const struct link_arrival *a)
{
	if (link_status(0) == IBV_WC_SUCCESS)
		av_key_entry(link_side[1].seg, link_side[1].key)->access = IBV_ACCESS_LOCAL_WRITE;
}

static uint64_t begun_ns;

static void hurry(void)
{
	turned_clock_to(turned_clock_ns() + LINK_NS);
}

/* What is on its way when the SEND is under way arrives together with it. */
static void gather(const struct link_packet *p)
{
	if (p->number == 0)
		begun_ns = turned_clock_ns();
	if (p->from == 0 && p->net->packet.opcode == 0x04)
		link_call_at(turned_clock_ns() + LINK_NS / 2, hurry);
}

/* Behind a SEND, in one batch: the refusal takes the acknowledgement of the SEND from nobody. */
TEST(acknowledges_nothing)
{
	static const struct link_exchange e = {.name = "a READ comes again behind a SEND",
					       .type = IBV_QPT_RC,
					       .apart = true,
					       .fails = true,
					       .request = {POST(READ, 300), POST(SEND, 1)}};
	static const struct link_fault late = {
		.packet = 0, .what = LINK_ECHO, .delay_ns = 2 * LINK_NS + 1};
	struct av_key *key = av_key_entry(link_side[1].seg, link_side[1].key);
	uint32_t access = key->access;

	link_on_sent = gather;
	link_on_arrival = withdraw_from_reads;
	link_judge = judge_late;
	(void)link_run(&e, &late, 1);
	link_on_sent = NULL;
	link_on_arrival = NULL;
	link_judge = NULL;
	key->access = access;
	assert_int_equal(link_status(1), IBV_WC_SUCCESS);
	assert_true(link_side[0].last_ns - begun_ns < LINK_TIMEOUT_NS);
}

/* --- a request that its own requester refuses ----------------------------------------- */

/* Those before it complete first; neither it nor what is behind it is sent. */
TEST(by_its_requester)
{
	static const uint32_t opcodes[] = {WRITE, SEND};

	for (size_t i = 0; i < AV_ARRAY_SIZE(opcodes); i++) {
		const struct link_exchange e = {.name = "the key of its own buffer is wrong",
						.type = IBV_QPT_RC,
						.own_wrong_key = 3,
						.fails = true,
						.request = {POST(READ, 300), POST(opcodes[i], 300),
							    POST(opcodes[i], 300),
							    POST(opcodes[i], 1)}};

		(void)link_run(&e, NULL, 0);
		assert_int_equal(link_status(0), IBV_WC_SUCCESS);
		assert_int_equal(link_status(1), IBV_WC_SUCCESS);
		assert_int_equal(link_status(2), IBV_WC_LOC_PROT_ERR);
		assert_int_equal(link_status(3), IBV_WC_WR_FLUSH_ERR);
		assert_true(link_is_untouched(2) && link_is_untouched(3));
	}
}

/* Nobody answers on an unreliable connection; and yet one completion says all of it. */
TEST(by_its_unreliable_requester)
{
	static const struct link_exchange e = {
		.name = "unreliable, with a wrong key of its own",
		.type = IBV_QPT_UC,
		.own_wrong_key = 2,
		.fails = true,
		.request = {POST(WRITE, 300), POST(WRITE, 300), POST(WRITE, 1), POST(WRITE, 2)}};
	unsigned int packets = link_run(&e, NULL, 0);

	assert_int_equal(packets, 2); /* of the first one */
	assert_int_equal(link_status(0), IBV_WC_SUCCESS);
	assert_int_equal(link_status(1), IBV_WC_LOC_PROT_ERR);
	assert_int_equal(link_status(2), IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(link_status(3), IBV_WC_WR_FLUSH_ERR);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
