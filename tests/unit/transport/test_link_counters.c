/* SPDX-License-Identifier: MIT */
/*
 * What counters say of packets that are lost or come twice, by the names that the kernel's drivers
 * mlx5 and rxe have for them.
 */
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/counters.h"
#include "segment/observers.h"
#include "unit/transport/link_parts.h"

#define BYTES 1100u   /* five packets */
#define LONG  196608u /* 48 large ones, asked for in three parts */

enum { NAKS, IMPLIED, TIMEOUTS, SENT, AHEAD, TWICE, MARKED, TELLS, TOLD, DAMAGED, COUNTERS };

static const struct {
	const char *name, *alias; /* another name of the same */
} counters[COUNTERS] = {
	[NAKS] = {"packet_seq_err", "rcvd_seq_err"},
	[IMPLIED] = {"implied_nak_seq_err", NULL},
	[TIMEOUTS] = {"local_ack_timeout_err", "completer_retry_err"},
	[SENT] = {"port_xmit_packets", "sent_pkts"},
	[AHEAD] = {"out_of_sequence", "out_of_seq_request"},
	[TWICE] = {"duplicate_request", NULL},
	[MARKED] = {"np_ecn_marked_roce_packets", NULL},
	[TELLS] = {"np_cnp_sent", NULL},
	[TOLD] = {"rp_cnp_handled", NULL},
	[DAMAGED] = {"rx_icrc_encapsulated", NULL},
};

#define NOTHING                     \
	{                           \
		.packet = LINK_NONE \
	}
#define LINK_NONE UINT32_MAX
#define LOST(n)                                \
	{                                      \
		.packet = n, .what = LINK_LOSE \
	}
#define TWO(n)                                   \
	{                                        \
		.packet = n, .what = LINK_DOUBLE \
	}
#define SPOILED(n)                                           \
	{                                                    \
		.packet = n, .what = LINK_DAMAGE, .byte = -1 \
	}

/* What is not named is 0. */
static const struct {
	uint32_t op, bytes;
	enum { PLAIN, LARGE, MARKS } route;
	struct link_fault fault;
	uint64_t at_a[COUNTERS], at_b[COUNTERS];
} rows[] = {
	{WRITE, BYTES, PLAIN, NOTHING, {[SENT] = 5}, {0}},
	{READ, BYTES, PLAIN, NOTHING, {[SENT] = 1}, {[SENT] = 5}},
	{FAA, 8, PLAIN, NOTHING, {[SENT] = 1}, {[SENT] = 1}},
	/* The third to the fifth come ahead of the second. One NAK, then four packets once more. */
	{WRITE, BYTES, PLAIN, LOST(1), {[NAKS] = 1, [SENT] = 9}, {[AHEAD] = 3}},
	{SEND, BYTES, PLAIN, LOST(4), {[NAKS] = 1, [SENT] = 7}, {[AHEAD] = 1}},
	/* Nothing is behind the last. All come once more: no acknowledgement was asked for. */
	{WRITE, BYTES, PLAIN, LOST(4), {[TIMEOUTS] = 1, [SENT] = 10}, {[TWICE] = 4}},
	{SEND, 8, PLAIN, LOST(0), {[TIMEOUTS] = 1, [SENT] = 2}, {0}},
	{READ, BYTES, PLAIN, LOST(0), {[TIMEOUTS] = 1, [SENT] = 2}, {[SENT] = 5}},
	/* The acknowledgement is lost. */
	{WRITE, BYTES, PLAIN, LOST(5), {[TIMEOUTS] = 1, [SENT] = 10}, {[TWICE] = 5}},
	{SEND, 8, PLAIN, LOST(1), {[TIMEOUTS] = 1, [SENT] = 2}, {[TWICE] = 1}},
	/* An answer is lost. */
	{READ, BYTES, PLAIN, LOST(1), {[IMPLIED] = 1, [SENT] = 2}, {[TWICE] = 1, [SENT] = 5}},
	{READ, BYTES, PLAIN, LOST(5), {[TIMEOUTS] = 1, [SENT] = 2}, {[TWICE] = 1, [SENT] = 5}},
	{FAA, 8, PLAIN, LOST(1), {[TIMEOUTS] = 1, [SENT] = 2}, {[TWICE] = 1, [SENT] = 1}},
	/* What comes twice. */
	{WRITE, BYTES, PLAIN, TWO(2), {[SENT] = 5}, {[TWICE] = 1}},
	{FAA, 8, PLAIN, TWO(0), {[SENT] = 1}, {[TWICE] = 1, [SENT] = 1}},
	{READ, BYTES, PLAIN, TWO(2), {[SENT] = 1}, {[SENT] = 5}},
	/* Damaged is lost. */
	{READ,
	 BYTES,
	 PLAIN,
	 SPOILED(2),
	 {[IMPLIED] = 1, [SENT] = 2, [DAMAGED] = 1},
	 {[TWICE] = 1, [SENT] = 5}},
	{WRITE, BYTES, PLAIN, SPOILED(1), {[NAKS] = 1, [SENT] = 9}, {[AHEAD] = 3, [DAMAGED] = 1}},
	/* Each packet has met congestion, those that tell of it, too. */
	{WRITE,
	 BYTES,
	 MARKS,
	 NOTHING,
	 {[SENT] = 5, [MARKED] = 2, [TELLS] = 1, [TOLD] = 1},
	 {[MARKED] = 6, [TELLS] = 1, [TOLD] = 1}},
	{READ,
	 BYTES,
	 MARKS,
	 NOTHING,
	 {[SENT] = 1, [MARKED] = 6, [TELLS] = 1, [TOLD] = 1},
	 {[SENT] = 5, [MARKED] = 2, [TELLS] = 1, [TOLD] = 1}},
	/* Answers are asked for in parts; the next one shows what is missing at the end of one. */
	{READ, LONG, LARGE, LOST(33), {[IMPLIED] = 1, [SENT] = 4}, {[TWICE] = 3, [SENT] = 48}},
};

static uint64_t value(const char *name, unsigned int host)
{
	struct av_counted counted = {.link_downed = 0};

	av_count_add(counted.total.qp, &link_side[host].end.qp->counters, AV_QP_COUNTERS);
	for (unsigned int i = 0; i < av_counter_count; i++)
		if (strcmp(av_counter_info[i].name, name) == 0)
			return av_counter_value(&av_counter_info[i], &counted);
	fail_msg("%s is no counter", name);
	return 0;
}

static void read_all(uint64_t values[LINK_HOSTS][COUNTERS])
{
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (unsigned int i = 0; i < COUNTERS; i++) {
			values[h][i] = value(counters[i].name, h);
			if (counters[i].alias)
				assert_int_equal(value(counters[i].alias, h), values[h][i]);
		}
}

/* Queue pairs go on counting where those before them have ended. */
static void expect_counted(uint64_t before[LINK_HOSTS][COUNTERS], const uint64_t *const want[])
{
	uint64_t now[LINK_HOSTS][COUNTERS];

	read_all(now);
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		for (unsigned int i = 0; i < COUNTERS; i++)
			if (now[h][i] - before[h][i] != want[h][i])
				link_fail("host %u: %s: %llu, not %llu", h, counters[i].name,
					  (unsigned long long)(now[h][i] - before[h][i]),
					  (unsigned long long)want[h][i]);
}

/* @marks: each packet meets congestion */
static void run(const struct link_exchange *e, const struct link_fault *fault, bool marks,
		const uint64_t *at_a, const uint64_t *at_b)
{
	uint64_t before[LINK_HOSTS][COUNTERS];

	link_open(e, fault, fault != NULL)->congested = marks;
	read_all(before);
	link_post();
	link_poll();
	while (link_step())
		link_poll();
	for (unsigned int h = 0; h < LINK_HOSTS; h++)
		link_check_side(h);
	expect_counted(before, (const uint64_t *const[]){at_a, at_b});
	link_close();
}

TEST(on_the_way)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		const struct link_exchange e = {.name = "a request",
						.type = IBV_QPT_RC,
						.mtu = rows[i].route == LARGE ? IBV_MTU_4096 : 0,
						.congested = rows[i].route == MARKS,
						.request = {POST(rows[i].op, rows[i].bytes)}};

		run(&e, rows[i].fault.packet == LINK_NONE ? NULL : &rows[i].fault, e.congested,
		    rows[i].at_a, rows[i].at_b);
	}
}

/* --- faults on demand ------------------------------------------------------------- */

#define SECOND "opcode rdma-write nth 2"

static const struct {
	const char *rules;
	uint64_t at_a[COUNTERS], at_b[COUNTERS];
} on_demand[] = {
	{"mark " SECOND, {[SENT] = 5, [TOLD] = 1}, {[MARKED] = 1, [TELLS] = 1}},
	{"duplicate 3 " SECOND, {[SENT] = 5}, {[TWICE] = 3}},
	{"corrupt " SECOND, {[NAKS] = 1, [SENT] = 9}, {[AHEAD] = 3, [DAMAGED] = 1}},
	/* What was dropped before cannot be damaged. */
	{"drop " SECOND "; corrupt " SECOND, {[NAKS] = 1, [SENT] = 9}, {[AHEAD] = 3}},
};

TEST(by_rules)
{
	unsigned int told;

	for (size_t i = 0; i < AV_ARRAY_SIZE(on_demand); i++) {
		const struct link_exchange e = {.name = on_demand[i].rules,
						.type = IBV_QPT_RC,
						.congested = true, /* it may be */
						.request = {POST(WRITE, BYTES)}};

		assert_int_equal(av_faults_write("any0", on_demand[i].rules, &told), 0);
		run(&e, NULL, false, on_demand[i].at_a, on_demand[i].at_b);
	}
	assert_int_equal(av_faults_write("any0", "", &told), 0);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
