/* SPDX-License-Identifier: MIT */
/* What is said of each opcode of a send request, and that nothing is said of all other values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "queue/wr_opcode.h"

/* L: local; R: takes a receive request; U: allowed on unreliable connections; W: of 8 bytes */
static const struct {
	uint32_t opcode;
	const char *said;
} rows[] = {
	{IBV_WR_RDMA_WRITE, "U"},
	{IBV_WR_RDMA_WRITE_WITH_IMM, "RU"},
	{IBV_WR_SEND, "RU"},
	{IBV_WR_SEND_WITH_IMM, "RU"},
	{IBV_WR_SEND_WITH_INV, "R"},
	{IBV_WR_RDMA_READ, ""},
	{AV_WR_FLUSH, ""},
	{IBV_WR_ATOMIC_CMP_AND_SWP, "W"},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, "W"},
	{AV_WR_ATOMIC_WRITE, "W"},
	{AV_WR_SIZED_CMP_AND_SWP, ""},
	{AV_WR_SIZED_FETCH_AND_ADD, ""},
	{AV_WR_MASKED_CMP_AND_SWP, ""},
	{AV_WR_MASKED_FETCH_AND_ADD, ""},
	{IBV_WR_LOCAL_INV, "L"},
	{IBV_WR_BIND_MW, "L"},
	{AV_WR_NOP, "L"},
	{AV_WR_UMR_FILL, "L"},
	{AV_WR_UMR_INVALIDATE, "L"},
};

/* NULL: it is no opcode */
static const char *said_of(uint32_t opcode)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		if (rows[i].opcode == opcode)
			return rows[i].said;
	return NULL;
}

static void expect(uint32_t opcode, bool is, const char *said, char letter)
{
	if (is != (strchr(said, letter) != NULL))
		fail_msg("opcode %u: %c", opcode, letter);
}

static void each_value_is_an_opcode_or_none(void **state)
{
	for (uint32_t opcode = 0; opcode <= AV_WR_OPCODES; opcode++) {
		const struct av_wr_opcode *row = AV_WR_OPCODE(opcode);
		const char *said = said_of(opcode);

		assert_int_equal(row != NULL, said != NULL);
		expect(opcode, av_opcode_is_local(opcode), said ? said : "", 'L');
		expect(opcode, av_opcode_receives(opcode), said ? said : "", 'R');
		expect(opcode, row && row->local, said ? said : "", 'L');
		expect(opcode, row && row->receives, said ? said : "", 'R');
		expect(opcode, row && row->uc, said ? said : "", 'U');
		expect(opcode, row && row->word, said ? said : "", 'W');
	}
}

static void no_large_value_is_an_opcode(void **state)
{
	static const uint32_t values[] = {AV_WR_OPCODES, 1u << 31, UINT32_MAX};

	for (size_t i = 0; i < AV_ARRAY_SIZE(values); i++) {
		assert_null(AV_WR_OPCODE(values[i]));
		assert_false(av_opcode_is_local(values[i]));
		assert_false(av_opcode_receives(values[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_value_is_an_opcode_or_none),
		cmocka_unit_test(no_large_value_is_an_opcode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
