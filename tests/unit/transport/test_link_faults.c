/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand (anyverbs_faults(5)) in what nobody answers. A request that is lost succeeds at
 * its sender, and is never sent; one that is delayed keeps those behind it waiting. A packet that
 * is struck as it arrives is missing there, or comes behind the next one.
 */
#include "base/compiler.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "segment/observers.h"
#include "transport/observed.h"
#include "transport/transport.h"
#include "unit/transport/link_parts.h"

#define DELAY_NS 1000000u

static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};

static unsigned int packets;
static uint64_t sent_ns[3]; /* the first packets */

static void note(const struct link_packet *p)
{
	if (packets < AV_ARRAY_SIZE(sent_ns))
		sent_ns[packets] = turned_clock_ns();
	packets++;
}

static void set_rules(const char *text)
{
	unsigned int told;

	assert_int_equal(av_faults_write("any0", text, &told), 0);
	assert_int_equal(told, LINK_HOSTS);
}

/* What is never sent takes no PSN. */
static void judge_without_second(const struct link_packet *p)
{
	if (p->number == 1)
		link_flow[0].at[1] = link_flow[0].at[2];
	link_judge_sent(p);
}

static unsigned int arrived;
static struct av_net_packet second;

static void judge_all_but_second(const struct link_arrival *a)
{
	if (arrived++ != 1)
		link_judge_arrival(a);
}

static void judge_second_behind_third(const struct link_arrival *a)
{
	if (arrived == 1)
		second = *a->net;
	judge_all_but_second(a);
	if (arrived == 3)
		link_judge_arrival(&(struct link_arrival){a->from, &second});
}

/* Three messages of a packet each; the second is struck. */
static void run(enum ibv_qp_type type, const char *rules, void (*sent)(const struct link_packet *p),
		void (*arrives)(const struct link_arrival *a))
{
	const struct link_exchange e = {.name = rules,
					.type = type,
					.fails = true,
					.request = {POST(SEND, 1), POST(SEND, 2), POST(SEND, 3)}};
	struct link_setting *setting;

	set_rules(rules);
	packets = arrived = 0;
	link_on_sent = note;
	setting = link_open(&e, NULL, 0);
	setting->sent = sent;
	setting->arrives = arrives;
	link_post();
	link_poll();
	while (link_step())
		link_poll();
	link_on_sent = NULL;
	set_rules("");
	for (unsigned int r = 0; r < 3; r++)
		assert_int_equal(link_status(r), IBV_WC_SUCCESS);
	link_close();
}

TEST(lost)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(types); i++) {
		run(types[i], "lose nth 2", judge_without_second, link_judge_arrival);
		assert_int_equal(packets, 2);
		assert_int_equal(link_side[1].received, 2);
	}
}

TEST(delayed)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(types); i++) {
		run(types[i], "delay 1ms nth 2", link_judge_sent, link_judge_arrival);
		assert_int_equal(packets, 3);
		assert_int_equal(link_side[1].received, 3);
		assert_in_range(sent_ns[1] - sent_ns[0], DELAY_NS, DELAY_NS + LINK_NS);
		assert_in_range(sent_ns[2] - sent_ns[1], 0, LINK_NS);
	}
}

TEST(struck_as_it_arrives)
{
	static const char *const rules[] = {"drop nth 2", "corrupt nth 2"};

	for (size_t i = 0; i < AV_ARRAY_SIZE(types); i++)
		for (size_t k = 0; k < AV_ARRAY_SIZE(rules); k++) {
			run(types[i], rules[k], link_judge_sent, judge_all_but_second);
			assert_int_equal(packets, 3);
			assert_int_equal(link_side[1].received, 2);
		}
}

TEST(overtaken)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(types); i++) {
		run(types[i], "reorder nth 2", link_judge_sent, judge_second_behind_third);
		assert_int_equal(packets, 3);
		assert_int_equal(link_side[1].received, 3);
	}
}

/* --- a port ----------------------------------------------------------------------- */

#define AFTER_NS 50000000u  /* that long after the rule has been written */
#define DOWN_NS	 100000000u /* it is down for that long */

static unsigned int changes;
static uint64_t changed_ns[2];

static void note_port(bool down)
{
	assert_in_range(changes, 0, 1);
	assert_int_equal(down, changes == 0);
	changed_ns[changes++] = turned_clock_ns();
}

TEST(a_port_that_is_down_for_a_while)
{
	struct av_seg *seg = link_side[0].seg;
	uint64_t begun = turned_clock_ns(), next;

	changes = 0;
	link_on_port = note_port;
	set_rules("port-down 100ms after 50ms");
	while ((next = av_timer_look_at_faults(seg)) != UINT64_MAX)
		turned_clock_to(next);
	link_on_port = NULL;
	set_rules("");
	assert_int_equal(changes, 2);
	assert_int_equal(changed_ns[0] - begun, AFTER_NS);
	assert_int_equal(changed_ns[1] - changed_ns[0], DOWN_NS);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
