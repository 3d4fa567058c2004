/* SPDX-License-Identifier: MIT */
/* What is said of each opcode of a send request, and that nothing is said of all other values. */
#include <string.h>

#include "base/compiler.h"
#include "lib/unit.h"
#include "observe/wr_opcode.h"

/*
 * @is: I: may be inline; L: local; R: takes a receive request; A: answered; S: its buffers are
 * sent; W: of 8 bytes; C: of UC, too; D: of UD, too
 */
/* clang-format off */
static const struct row {
	uint32_t opcode;
	const char *name, *word, *brief;
	enum av_wr_form form;
	const char *is;
	enum av_traffic_kind traffic;
	struct av_packet_kind packet;
	uint32_t rights, builder, completion;
} rows[] = {
	{IBV_WR_RDMA_WRITE, "RDMA WRITE", "RDMA_WRITE", "WRITE", AV_FORM_RDMA, "ISC", AV_TRAFFIC_WRITE, {AV_OP_WRITE, AV_TAIL_NONE, AV_OP_ACK}, IBV_ACCESS_REMOTE_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, IBV_WC_RDMA_WRITE},
	{IBV_WR_RDMA_WRITE_WITH_IMM, "RDMA WRITE WITH IMMEDIATE", "RDMA_WRITE_WITH_IMM", NULL, AV_FORM_RDMA, "IRSC", AV_TRAFFIC_WRITE, {AV_OP_WRITE, AV_TAIL_IMM, AV_OP_ACK}, IBV_ACCESS_REMOTE_WRITE, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
	{IBV_WR_SEND, "SEND", "SEND", NULL, AV_FORM_MESSAGE, "IRSCD", AV_TRAFFIC_SEND, {AV_OP_SEND, AV_TAIL_NONE, AV_OP_ACK}, 0, IBV_QP_EX_WITH_SEND, IBV_WC_SEND},
	{IBV_WR_SEND_WITH_IMM, "SEND WITH IMMEDIATE", "SEND_WITH_IMM", NULL, AV_FORM_MESSAGE, "IRSCD", AV_TRAFFIC_SEND, {AV_OP_SEND, AV_TAIL_IMM, AV_OP_ACK}, 0, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WC_SEND},
	{IBV_WR_RDMA_READ, "RDMA READ", "RDMA_READ", "READ", AV_FORM_RDMA, "A", AV_TRAFFIC_READ, {AV_OP_READ, AV_TAIL_NONE, AV_OP_READ_RESPONSE}, IBV_ACCESS_REMOTE_READ, IBV_QP_EX_WITH_RDMA_READ, IBV_WC_RDMA_READ},
	{IBV_WR_ATOMIC_CMP_AND_SWP, "COMPARE AND SWAP", "ATOMIC_CMP_AND_SWP", "CMP_AND_SWP", AV_FORM_ATOMIC, "AW", AV_TRAFFIC_ATOMIC, {AV_OP_CMP_SWAP, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}, IBV_ACCESS_REMOTE_ATOMIC, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, "FETCH AND ADD", "ATOMIC_FETCH_AND_ADD", "FETCH_AND_ADD", AV_FORM_ATOMIC, "AW", AV_TRAFFIC_ATOMIC, {AV_OP_FETCH_ADD, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}, IBV_ACCESS_REMOTE_ATOMIC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
	{IBV_WR_LOCAL_INV, "LOCAL INVALIDATE", "LOCAL_INV", NULL, AV_FORM_LOCAL, "LC", 0, {0}, 0, IBV_QP_EX_WITH_LOCAL_INV, IBV_WC_LOCAL_INV},
	{IBV_WR_BIND_MW, "BIND", "BIND_MW", NULL, AV_FORM_BIND, "LC", 0, {0}, 0, IBV_QP_EX_WITH_BIND_MW, IBV_WC_BIND_MW},
	{IBV_WR_SEND_WITH_INV, "SEND WITH INVALIDATE", "SEND_WITH_INV", NULL, AV_FORM_MESSAGE, "IRS", AV_TRAFFIC_SEND, {AV_OP_SEND, AV_TAIL_INVALIDATE, AV_OP_ACK}, 0, IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WC_SEND},
	{AV_WR_FLUSH, "FLUSH", "FLUSH", NULL, AV_FORM_NONE, "A", AV_TRAFFIC_FLUSH, {AV_OP_FLUSH, AV_TAIL_NONE, AV_OP_READ_RESPONSE}, AV_ACCESS_FLUSH_GLOBAL, AV_QP_EX_WITH_FLUSH, AV_WC_FLUSH},
	{AV_WR_ATOMIC_WRITE, "ATOMIC WRITE", "ATOMIC_WRITE", NULL, AV_FORM_RDMA, "IASW", AV_TRAFFIC_ATOMIC, {AV_OP_ATOMIC_WRITE, AV_TAIL_NONE, AV_OP_READ_RESPONSE}, IBV_ACCESS_REMOTE_WRITE, AV_QP_EX_WITH_ATOMIC_WRITE, AV_WC_ATOMIC_WRITE},
	{AV_WR_SIZED_CMP_AND_SWP, "COMPARE AND SWAP", "ATOMIC_CMP_AND_SWP", "CMP_AND_SWP", AV_FORM_OPERANDS, "A", AV_TRAFFIC_ATOMIC, {AV_OP_CMP_SWAP, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}, IBV_ACCESS_REMOTE_ATOMIC, 0, IBV_WC_COMP_SWAP},
	{AV_WR_SIZED_FETCH_AND_ADD, "FETCH AND ADD", "ATOMIC_FETCH_AND_ADD", "FETCH_AND_ADD", AV_FORM_OPERANDS, "A", AV_TRAFFIC_ATOMIC, {AV_OP_FETCH_ADD, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}, IBV_ACCESS_REMOTE_ATOMIC, 0, IBV_WC_FETCH_ADD},
	{AV_WR_MASKED_CMP_AND_SWP, "MASKED COMPARE AND SWAP", "EXT_MASKED_ATOMIC_CMP_AND_SWP", NULL, AV_FORM_OPERANDS, "A", AV_TRAFFIC_ATOMIC, {AV_OP_CMP_SWAP, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}, IBV_ACCESS_REMOTE_ATOMIC, 0, AV_WC_MASKED_CMP_AND_SWP},
	{AV_WR_MASKED_FETCH_AND_ADD, "MASKED FETCH AND ADD", "EXT_MASKED_ATOMIC_FETCH_AND_ADD", NULL, AV_FORM_OPERANDS, "A", AV_TRAFFIC_ATOMIC, {AV_OP_FETCH_ADD, AV_TAIL_NONE, AV_OP_ATOMIC_ACK}, IBV_ACCESS_REMOTE_ATOMIC, 0, AV_WC_MASKED_FETCH_AND_ADD},
	{AV_WR_NOP, "NOP", "NOP", NULL, AV_FORM_NONE, "L", 0, {0}, 0, 0, IBV_WC_SEND},
	{AV_WR_UMR_FILL, "UMR", NULL, NULL, AV_FORM_NONE, "L", 0, {0}, 0, 0, AV_WC_UMR},
	{AV_WR_UMR_INVALIDATE, "UMR INVALIDATE", NULL, NULL, AV_FORM_NONE, "L", 0, {0}, 0, 0, AV_WC_UMR},
};
/* clang-format on */

static const struct row none = {.is = ""};

static const struct row *row_of(uint32_t opcode)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		if (rows[i].opcode == opcode)
			return &rows[i];
	return &none;
}

static void check_text(const char *a, const char *b)
{
	if (a && b)
		assert_string_equal(a, b);
	assert_int_equal(!a, !b);
}

static void check_services(const struct av_wr_opcode *o, const struct row *r)
{
	static const struct {
		uint32_t type;
		char letter;
	} services[] = {{IBV_QPT_UC, 'C'}, {IBV_QPT_UD, 'D'}};

	assert_false(av_wr_opcode_is_of(o, IBV_QPT_DRIVER));
	for (uint32_t type = 0; type <= 31; type++) {
		bool of = r->name && (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND);

		for (size_t i = 0; i < AV_ARRAY_SIZE(services); i++)
			of |= type == services[i].type && strchr(r->is, services[i].letter);
		assert_int_equal(av_wr_opcode_is_of(o, type), of);
	}
}

static void check_row(const struct av_wr_opcode *o, const struct row *r)
{
	check_text(o->name, r->name);
	check_text(o->rule_words[0], r->word);
	check_text(o->rule_words[1], r->brief);
	assert_int_equal(o->form, r->form);
	assert_int_equal(o->traffic, r->traffic);
	assert_memory_equal(&o->packet, &r->packet, sizeof(r->packet));
	assert_int_equal(o->rights, r->rights);
	assert_int_equal(o->builder, r->builder);
	assert_int_equal(o->completion, r->completion);
	assert_int_equal(o->may_inline, strchr(r->is, 'I') != NULL);
	assert_int_equal(o->local, strchr(r->is, 'L') != NULL);
	assert_int_equal(o->receives, strchr(r->is, 'R') != NULL);
	assert_int_equal(o->answered, strchr(r->is, 'A') != NULL);
	assert_int_equal(o->source, strchr(r->is, 'S') != NULL);
	assert_int_equal(o->is_word, strchr(r->is, 'W') != NULL);
	check_services(o, r);
}

TEST(each_value_is_an_opcode_or_none)
{
	for (uint32_t opcode = 0; opcode <= AV_WR_OPCODES; opcode++)
		check_row(av_wr_opcode(opcode), row_of(opcode));
}

TEST(no_large_value_is_an_opcode)
{
	static const uint32_t values[] = {AV_WR_OPCODES, 1u << 31, UINT32_MAX};

	for (size_t i = 0; i < AV_ARRAY_SIZE(values); i++) {
		check_row(av_wr_opcode(values[i]), &none);
		assert_null(av_packet_kind(values[i]));
	}
}

/* A packet is that of the first opcode that sends such packets. */
TEST(packets_come_back)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		const struct av_packet_kind *kind = av_packet_kind(rows[i].opcode);
		struct av_opcode info = {.operation = (uint8_t)rows[i].packet.operation,
					 .tail = (uint8_t)rows[i].packet.tail};

		assert_int_equal(kind == NULL, strchr(rows[i].is, 'L') != NULL);
		if (kind && rows[i].form != AV_FORM_OPERANDS)
			assert_int_equal(av_packet_wr_opcode(&info), rows[i].opcode);
	}
}

TEST(answers_are_of_no_opcode)
{
	static const enum av_operation answers[] = {AV_OP_READ_RESPONSE, AV_OP_ACK,
						    AV_OP_ATOMIC_ACK, AV_OP_CNP};

	for (size_t i = 0; i < AV_ARRAY_SIZE(answers); i++) {
		struct av_opcode info = {.operation = (uint8_t)answers[i]};

		assert_int_equal(av_packet_wr_opcode(&info), AV_WR_OPCODES);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
