/* SPDX-License-Identifier: MIT */
/*
 * Packets of a message that arrive together are one access to memory. What comes later is another:
 * in between, the responder holds nothing of it.
 */
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "lib/turned_clock.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "unit/transport/link_parts.h"

#define PACKET	256u /* bytes of payload */
#define LATE_NS 5000u

/* As ibv_rereg_mr() does, which waits for pins. */
static void take_rights(void)
{
	const struct av_key key = {.kind = AV_KEY_REGION, .length = ARENA};
	struct link_side *s = &link_side[1];

	link_unbind_windows();
	assert_false(av_pin_is_held(s->seg, s->key));
	assert_int_equal(av_key_change(s->seg, s->key, &key), 0);
}

static void judge_nothing(const struct link_arrival *a)
{
}

/* More packets in a batch than one access has pieces, and as many. */
TEST(longer_than_an_access)
{
	static const struct {
		enum ibv_qp_type type;
		uint32_t opcode;
	} rows[] = {
		{IBV_QPT_RC, WRITE},	{IBV_QPT_RC, WRITE_IMM}, {IBV_QPT_RC, SEND},
		{IBV_QPT_RC, SEND_IMM}, {IBV_QPT_RC, READ},	 {IBV_QPT_UC, WRITE},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		for (uint32_t n = AV_MAX_SGE - 1; n <= AV_MAX_SGE + 2; n++) {
			const struct link_exchange e = {
				.name = "long",
				.type = rows[i].type,
				.request = {POST(rows[i].opcode, n * PACKET),
					    POST(rows[i].opcode, n * PACKET - 1)}};

			(void)link_run(&e, NULL, 0);
		}
}

/* After the first packet of three, and before the other two. The last test: the key stays so. */
TEST(a_key_changes_between_batches)
{
	const struct link_exchange e = {.name = "key changes",
					.type = IBV_QPT_RC,
					.fails = true,
					.request = {POST(WRITE, 3 * PACKET)}};
	const struct link_fault late[] = {
		{.packet = 1, .what = LINK_DELAY, .delay_ns = LATE_NS},
		{.packet = 2, .what = LINK_DELAY, .delay_ns = LATE_NS},
	};
	struct link_setting *setting = link_open(&e, late, AV_ARRAY_SIZE(late));
	const uint8_t *there = link_side[1].arena + link_known[0].there.at;

	setting->arrives = judge_nothing;
	link_call_at(turned_clock_ns() + LINK_NS + LATE_NS / 2, take_rights);
	link_post();
	while (link_step())
		link_poll();
	assert_int_equal(link_status(0), IBV_WC_REM_ACCESS_ERR);
	for (uint32_t i = 0; i < 3 * PACKET; i++)
		assert_int_equal(there[i], i < PACKET ? link_pattern(0, i) : UNTOUCHED);
	link_close();
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
