/* SPDX-License-Identifier: MIT */
/* RDMA READ whose packets have little room, whatever happens to them. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "unit/transport/link_fixture.h"

static const struct link_exchange rows[] = {
	{.name = "through a full interface",
	 .type = IBV_QPT_RC,
	 .room = 1,
	 .request = {POST(READ, 1100), POST(READ, 300)}},
	{.name = "through a narrow window",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_4096,
	 .narrow = true,
	 .request = {POST(READ, 16385), POST(READ, 4096)}},
	{.name = "around an MTU of 2048",
	 .type = IBV_QPT_RC,
	 .mtu = IBV_MTU_2048,
	 .request = {POST(READ, 2047), POST(READ, 2048), POST(READ, 2049)}},
};

TEST(several)
{
	link_all(rows, AV_ARRAY_SIZE(rows));
}

#define FIRST  5u /* packets of the first answer, */
#define SECOND 2u /* and of the second */

static uint32_t psn[4 * (FIRST + SECOND)]; /* of answers, in the order they are sent in */
static unsigned int answers, number;	   /* number: of the packet that asks for the second one */

static void note(const struct link_packet *p)
{
	const struct av_packet *b = &p->net->packet;

	if (p->from == 0) {
		if (number == 0)
			number = p->number;
		return;
	}
	assert_in_range(answers, 0, AV_ARRAY_SIZE(psn) - 1);
	if (b->payload_bytes)
		psn[answers++] = b->psn;
}

static void begin(void)
{
	answers = number = 0;
	link_on_sent = note;
}

/* Two READs that come again while there is little room: the first is answered to its end. */
TEST(one_answer_after_the_other)
{
	static const struct link_exchange e = {.name = "both come again",
					       .type = IBV_QPT_RC,
					       .room = 1,
					       .fails = true,
					       .request = {POST(READ, 1100), POST(READ, 300)}};
	struct link_fault late[2];

	begin();
	(void)link_run(&e, NULL, 0);
	for (unsigned int i = 0; i < 2; i++)
		late[i] = (struct link_fault){.packet = i ? number : 0,
					      .what = LINK_ECHO,
					      .delay_ns = LINK_TIMEOUT_NS * 8};
	begin();
	(void)link_run(&e, late, 2);
	link_on_sent = NULL;
	assert_in_range(answers, 2 * FIRST + SECOND, 2 * (FIRST + SECOND));
	for (unsigned int i = 0; i < FIRST; i++)
		assert_int_equal(psn[FIRST + SECOND + i], psn[i]);
}

int main(void)
{
	return run_cases(link_set_up, link_tear_down);
}
