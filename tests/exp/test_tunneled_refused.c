/* SPDX-License-Identifier: MIT */
/*
 * Tunneled atomics that are refused, and then change nothing: payloads that are no commands, keys
 * and queue pairs without rights, ranges beyond the region, memory that is not there. On unreliable
 * connections they are lost.
 */
#include <string.h>

#include "tunneled_fixture.h"

/* Two commands, of which the second is spoilt. */
static struct anyverbs_tunneled_atomic pair[2];

static void spoil_magic(void)
{
	pair[1].magic ^= 1;
}

static void spoil_version(void)
{
	pair[1].version = 2;
}

static void spoil_operation(void)
{
	pair[1].operation = ANYVERBS_TUNNELED_OPERATIONS;
}

static void spoil_size(void)
{
	pair[1].bytes = 16;
}

static void spoil_order(void)
{
	pair[1].order = 2;
}

static void spoil_operand(void)
{
	pair[1].compare = 1;
}

static void spoil_value(void)
{
	pair[1].bytes = 4;
	pair[1].value = 1ull << 32;
}

static void spoil_all(void)
{
	memset(pair, 0, sizeof(pair));
}

static void spoil_alignment(void)
{
	pair[1].offset = 4;
}

static void spoil_small_alignment(void)
{
	pair[1].bytes = 4;
	pair[1].offset = 2;
}

static void spoil_range(void)
{
	pair[1].offset = NODE_ARENA - BLOCK_AT;
}

static void spoil_range_before(void)
{
	pair[1].offset = -(uint64_t)(BLOCK_AT + OPERAND_AT) - 8;
}

static void spoil_nothing(void)
{
}

static const struct {
	const char *name;
	void (*spoil)(void);
	enum kind kind;
	uint32_t bytes;
	enum ibv_wc_status want;
} bad_row[] = {
	{"magic", spoil_magic, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"version", spoil_version, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"operation", spoil_operation, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"size", spoil_size, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"byte order", spoil_order, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"an operand too many", spoil_operand, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"a value too long", spoil_value, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"zeros", spoil_all, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"a byte too few", spoil_nothing, KIND_PLAIN, 95, IBV_WC_REM_INV_REQ_ERR},
	{"a byte too many", spoil_nothing, KIND_PLAIN, 97, IBV_WC_REM_INV_REQ_ERR},
	{"an ordinary word", spoil_nothing, KIND_PLAIN, 8, IBV_WC_REM_INV_REQ_ERR},
	{"a byte", spoil_nothing, KIND_PLAIN, 1, IBV_WC_REM_INV_REQ_ERR},
	{"misaligned 8 bytes", spoil_alignment, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"misaligned 4 bytes", spoil_small_alignment, KIND_PLAIN, 96, IBV_WC_REM_INV_REQ_ERR},
	{"beyond the region", spoil_range, KIND_PLAIN, 96, IBV_WC_REM_ACCESS_ERR},
	{"before the region", spoil_range_before, KIND_PLAIN, 96, IBV_WC_REM_ACCESS_ERR},
	{"no REMOTE_WRITE", spoil_nothing, KIND_NO_WRITE, 96, IBV_WC_REM_ACCESS_ERR},
	{"another protection domain", spoil_nothing, KIND_OTHER_PD, 96, IBV_WC_REM_ACCESS_ERR},
	{"magic, without rights", spoil_magic, KIND_NO_WRITE, 96, IBV_WC_REM_ACCESS_ERR},
};

static void bad_rows(void)
{
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	uint8_t block[BLOCK];

	blank(block);
	for (size_t i = 0; i < COUNT_OF(bad_row); i++)
		for (enum way way = 0; way < WAY_N; way++) {
			struct target t = peer("the other process", bad_row[i].kind);
			enum ibv_wc_status got;

			row("refused, %s: %s", way_name[way], bad_row[i].name);
			set_block(&t, block);
			pair[0] = pair[1] = tunneled_command(&one, 0);
			bad_row[i].spoil();
			put_commands(pair, 2);
			if (way == WAY_IMM && bad_row[i].want == IBV_WC_REM_ACCESS_ERR)
				continue; /* its receive request ends otherwise: below */
			got = write_payload(&t, way, t.addr + OPERAND_AT, bad_row[i].bytes);
			EXPECT(got == bad_row[i].want, "'%s'", ibv_wc_status_str(got));
			expect_block(&t, block);
			EXPECT(side_state(&b, QP_PEER) == IBV_QPS_ERR, "the responder goes on");
			recover(&t);
		}
}

/* A key that does not permit the WRITE with immediate data ends the receive request, as of any
 * region. */
static void immediate_row(void)
{
	struct target t = peer("the other process", KIND_NO_WRITE);
	struct node_send s = write_request(&t, WAY_IMM, t.addr, COMMAND);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct ibv_wc wc;

	row("with immediate, without rights");
	pair[0] = tunneled_command(&one, 0);
	put_commands(pair, 1);
	side_recv_one(&b, QP_PEER, 1, 0, 0);
	EXPECT(side_post_send(&a, QP_PEER, &s, 1).ret == 0 &&
		       side_poll(&a, 0, 1, PROBE_PATIENCE, &wc) == 1 &&
		       wc.status == IBV_WC_REM_ACCESS_ERR,
	       "status");
	EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status != SUCCESS, "received");
	recover(&t);
}

/* The operation has to fit the region, not the payload. */
static void tail_row(void)
{
	struct target t = peer("the other process", KIND_TAIL);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);

	row("the last word of a region");
	pair[0] = tunneled_command(&one, 0);
	put_commands(pair, 1);
	side_poke(&b, BLOCK_AT + OPERAND_AT, 41);
	EXPECT(write_payload(&t, WAY_WRITE, t.addr + OPERAND_AT, COMMAND) == SUCCESS, "status");
	EXPECT(side_peek(&b, BLOCK_AT + OPERAND_AT) == 42, "value");
	EXPECT(write_payload(&t, WAY_WRITE, t.addr + OPERAND_AT + 8, COMMAND) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "beyond");
	recover(&t);
}

/* Memory that is not mapped is found out when it is wanted: what came before is done. */
static void hole_row(void)
{
	struct target t = peer("the other process", KIND_HOLE);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct anyverbs_tunneled_atomic c[3];

	row("a hole in the memory");
	c[0] = c[2] = tunneled_command(&one, 0);
	c[1] = tunneled_command(&one, PAGE);
	put_commands(c, 3);
	side_poke(&b, HOLE_AT, 41);
	EXPECT(write_payload(&t, WAY_WRITE, b.info.base[KEY_FULL] + HOLE_AT, sizeof(c)) ==
		       IBV_WC_REM_ACCESS_ERR,
	       "status");
	EXPECT(side_peek(&b, HOLE_AT) == 42, "value");
	recover(&t);
}

static void requester_rows(void)
{
	static const struct {
		const char *name;
		enum key key;
		uint64_t at;
	} rows[] = {
		{"a dead lkey", KEY_DEAD, SOURCE_AT},
		{"lkey of another protection domain", KEY_OTHER_PD, SOURCE_AT},
		{"memory that cannot be read", KEY_GONE, 0},
	};
	struct target t = peer("the other process", KIND_PLAIN);
	uint8_t block[BLOCK];

	blank(block);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct node_send s = write_request(&t, WAY_WRITE, t.addr, COMMAND);

		row("source: %s", rows[i].name);
		set_block(&t, block);
		s.sge[0] = side_sge(&a, rows[i].key, rows[i].at, COMMAND);
		EXPECT(probe_request(&a, &b, QP_PEER, &s) == IBV_WC_LOC_PROT_ERR, "status");
		expect_block(&t, block);
	}
}

static void qp_right_row(void)
{
	struct target t = peer("the other process", KIND_PLAIN);
	struct node_link theirs = link_default();
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);

	row("a queue pair without REMOTE_WRITE");
	theirs.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	side_set_state(&a, QP_PEER, IBV_QPS_RESET);
	side_set_state(&b, QP_PEER, IBV_QPS_RESET);
	pair_connect(&a, QP_PEER, NULL, &b, QP_PEER, &theirs);
	pair[0] = tunneled_command(&one, 0);
	put_commands(pair, 1);
	side_poke(&b, BLOCK_AT, 41);
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == IBV_WC_REM_INV_REQ_ERR, "status");
	EXPECT(side_peek(&b, BLOCK_AT) == 41, "value");
	row("a queue pair with REMOTE_WRITE alone, and no responder resources");
	theirs.access = IBV_ACCESS_REMOTE_WRITE;
	theirs.dest_rd_atomic = 0;
	side_set_state(&a, QP_PEER, IBV_QPS_RESET);
	side_set_state(&b, QP_PEER, IBV_QPS_RESET);
	pair_connect(&a, QP_PEER, NULL, &b, QP_PEER, &theirs);
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == SUCCESS, "status");
	EXPECT(side_peek(&b, BLOCK_AT) == 42, "value");
	recover(&t);
}

/* --- the unreliable connection --------------------------------------------------- */

/* What is refused there is lost, and neither side hears of it. */
static void uc_rows(void)
{
	struct target t = self("this process, UC", made[KIND_PLAIN]->rkey);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	uint8_t block[BLOCK];

	open_uc();
	t.qp = QP_UC;
	for (size_t i = 0; i < COUNT_OF(bad_row); i++) {
		if (bad_row[i].kind != KIND_PLAIN)
			continue;
		row("lost on UC: %s", bad_row[i].name);
		blank(block);
		set_block(&t, block);
		pair[0] = pair[1] = tunneled_command(&one, 0);
		bad_row[i].spoil();
		put_commands(pair, 2);
		EXPECT(write_payload(&t, WAY_WRITE, t.addr + OPERAND_AT, bad_row[i].bytes) ==
			       SUCCESS,
		       "status");
		expect_block(&t, block);
		EXPECT(side_state(&a, QP_UC) == IBV_QPS_RTS, "failed");
	}
	row("UC goes on");
	pair[0] = tunneled_command(&one, 0);
	put_commands(pair, 1);
	side_poke(&a, BLOCK_AT, 41);
	EXPECT(write_payload(&t, WAY_IMM, t.addr, COMMAND) == SUCCESS &&
		       side_peek(&a, BLOCK_AT) == 42,
	       "value");
	EXPECT(side_destroy_qp(&a, QP_UC) == 0, "ibv_destroy_qp");
}

static void run(void)
{
	bad_rows();
	immediate_row();
	tail_row();
	hole_row();
	requester_rows();
	qp_right_row();
	uc_rows();
}

int main(int argc, char **argv)
{
	return tunneled_test(argc, argv, NULL, run);
}
