/* SPDX-License-Identifier: MIT */
/*
 * The kind of queue pair in messages, number by number: what one build writes, another reads. IBTA
 * volume 1, 12.7.11 and annex A14.
 */
#include <infiniband/verbs.h>

#include "base/compiler.h"
#include "cm/id.h"
#include "lib/unit.h"

#define QPN 77

static const struct {
	uint8_t asking, transport, ext_transport;
} asked[] = {
	{IBV_QPT_RC, 0, 0},
	{IBV_QPT_UC, 1, 0},
	{IBV_QPT_XRC_SEND, 3, 1},
};

TEST(written)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(asked); i++) {
		struct av_cm_message m = {.attribute = AV_CM_REQ};

		av_cm_kind_put(&m, asked[i].asking);
		assert_int_equal(m.transport, asked[i].transport);
		assert_int_equal(m.ext_transport, asked[i].ext_transport);
	}
}

/* All that the fields can say. @ext_transport counts only where @transport says so. */
static uint8_t wanted(uint8_t transport, uint8_t ext_transport)
{
	switch (transport) {
	case 0:
		return IBV_QPT_RC;
	case 1:
		return IBV_QPT_UC;
	case 3:
		return ext_transport == 1 ? IBV_QPT_XRC_RECV : AV_CM_ANY_KIND;
	default:
		return AV_CM_ANY_KIND;
	}
}

TEST(read_back)
{
	for (uint8_t transport = 0; transport < 4; transport++)
		for (uint8_t ext = 0; ext < 8; ext++) {
			struct av_cm_message m = {.attribute = AV_CM_REQ,
						  .transport = transport,
						  .ext_transport = ext};

			assert_int_equal(av_cm_kind_wanted(&m), wanted(transport, ext));
			m.attribute = AV_CM_SIDR_REQ;
			assert_int_equal(av_cm_kind_wanted(&m), IBV_QPT_UD);
		}
}

/* An XRC target's number is in the place of an EE context; it has an SRQ. */
TEST(numbers)
{
	static const struct {
		uint8_t answers, asks;
		uint32_t qpn, eecn;
		bool srq;
	} rows[] = {
		{IBV_QPT_RC, IBV_QPT_RC, QPN, 0, false},
		{IBV_QPT_UC, IBV_QPT_UC, QPN, 0, false},
		{IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, 0, QPN, true},
	};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		struct av_cm_message m = {.attribute = AV_CM_REP};

		av_cm_kind_put_qpn(&m, rows[i].answers, QPN);
		assert_int_equal(m.qpn, rows[i].qpn);
		assert_int_equal(m.eecn, rows[i].eecn);
		assert_int_equal(m.srq, rows[i].srq);
		assert_int_equal(av_cm_kind_qpn(&m, rows[i].asks), QPN);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
