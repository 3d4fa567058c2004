/* SPDX-License-Identifier: MIT */
/*
 * Tunneled atomics: an RDMA WRITE to a region registered for them does what its payload says. Every
 * operation, size and byte order, on every kind of region, by every way of writing, on reliable and
 * unreliable connections; several commands in order, and as many as there may be.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tunneled_fixture.h"

#define ROUNDS (TEST_SANITIZED ? 2 : 6)

/* --- operations ------------------------------------------------------------------ */

static void one_operation(const struct target *t, enum way way, struct av_atomic *atomic)
{
	unsigned int place =
		OPERAND_AT + (unsigned int)rand() % (16 / atomic->bytes) * atomic->bytes;
	uint64_t offset = rand() & 1 ? place : (uint64_t)0;
	struct anyverbs_tunneled_atomic c;
	struct av_operand old;
	uint8_t block[BLOCK];
	enum ibv_wc_status got;

	model_random(atomic, &old);
	blank(block);
	memcpy(block + place, &old, atomic->bytes);
	set_block(t, block);
	model_atomic(atomic, block + place);
	c = tunneled_command(atomic, offset);
	put_commands(&c, 1);
	got = write_payload(t, way, t->addr + place - offset, COMMAND);
	EXPECT(got == SUCCESS, "'%s'", ibv_wc_status_str(got));
	expect_block(t, block);
}

static void target_rows(const struct target *t)
{
	for (enum av_atomic_op op = 0; op < AV_ATOMIC_OP_N; op++)
		for (enum way way = 0; way < WAY_N; way++)
			for (int form = 0; form < 4; form++) {
				struct av_atomic atomic = {
					.op = op, .bytes = form & 1 ? 4 : 8, .how = form / 2};

				row("%s, %s: operation %d on %u bytes%s", t->name, way_name[way],
				    (int)op, atomic.bytes, form / 2 ? ", big endian" : "");
				for (int i = 0; i < ROUNDS; i++)
					one_operation(t, way, &atomic);
			}
}

static void all_targets(void)
{
	const struct target t[] = {
		peer("the other process", KIND_PLAIN),
		peer("the other process, on demand", KIND_ODP),
		peer("the other process, implicit", KIND_IMPLICIT),
		self("this process", made[KIND_PLAIN]->rkey),
		self("this process, on demand", made[KIND_ODP]->rkey),
		self("this process, implicit", made[KIND_IMPLICIT]->rkey),
	};

	for (size_t i = 0; i < COUNT_OF(t); i++)
		target_rows(&t[i]);
}

/* A window onto such a region is one of such a region. */
static void window_rows(enum ibv_mw_type type)
{
	struct ibv_exp_reg_mr_in in = {.pd = n->pd,
				       .addr = n->arena,
				       .length = NODE_ARENA,
				       .exp_access = LOCAL | IBV_EXP_ACCESS_MW_BIND};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, type);
	struct ibv_mw_bind_info info = {.mr = mr,
					.addr = (uintptr_t)n->arena + BLOCK_AT,
					.length = BLOCK,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct target t = self("a window", 0);
	struct ibv_wc wc;
	int ret;

	row("a window of type %d", (int)type);
	if (!mr || !mw)
		DIE("region or window: errno %d", errno);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = info;
	ret = type == IBV_MW_TYPE_1 ? ibv_bind_mw(n->qp[QP_SELF], mw, &bind)
				    : ibv_post_send(n->qp[QP_SELF], &wr, &bad);
	if (ret || node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1 || wc.status != SUCCESS)
		DIE("bind");
	t.rkey = mw->rkey;
	target_rows(&t);
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0, "the end");
}

static void uc_rows(void)
{
	struct target t = self("this process, UC", made[KIND_PLAIN]->rkey);

	open_uc();
	t.qp = QP_UC;
	target_rows(&t);
	EXPECT(side_destroy_qp(&a, QP_UC) == 0, "ibv_destroy_qp");
}

/* --- several commands ------------------------------------------------------------ */

/* In order: each finds what the one before it left. Some are elsewhere, before and behind. */
static void order_rows(void)
{
	const struct target t[] = {peer("the other process", KIND_PLAIN),
				   self("this process", made[KIND_PLAIN]->rkey)};
	const struct {
		struct av_atomic atomic;
		int64_t offset;
	} step[] = {
		{operation(AV_ATOMIC_SWAP, 8, 5), 0},
		{operation(AV_ATOMIC_ADD, 8, 3), 0},
		{operation(AV_ATOMIC_MAX_UNSIGNED, 4, 100), 0},
		{operation(AV_ATOMIC_XOR, 8, 0xff00), 0},
		{operation(AV_ATOMIC_SWAP, 4, 77), -12},
		{operation(AV_ATOMIC_ADD, 4, 1), -12},
		{operation(AV_ATOMIC_OR, 8, 1), 24},
		{operation(AV_ATOMIC_ADD, 8, 1), 0},
	};
	struct anyverbs_tunneled_atomic c[COUNT_OF(step)];
	uint8_t block[BLOCK];

	for (size_t k = 0; k < COUNT_OF(t); k++)
		for (enum way way = 0; way < WAY_N; way++) {
			row("%zu commands, %s, %s", COUNT_OF(step), t[k].name, way_name[way]);
			blank(block);
			set_block(&t[k], block);
			for (size_t i = 0; i < COUNT_OF(step); i++) {
				c[i] = tunneled_command(&step[i].atomic, (uint64_t)step[i].offset);
				model_atomic(&step[i].atomic, block + OPERAND_AT + step[i].offset);
			}
			put_commands(c, COUNT_OF(step));
			EXPECT(write_payload(&t[k], way, t[k].addr + OPERAND_AT, sizeof(c)) ==
				       SUCCESS,
			       "status");
			expect_block(&t[k], block);
		}
}

static void count_rows(void)
{
	struct target t = peer("the other process", KIND_PLAIN);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct anyverbs_tunneled_atomic c[ANYVERBS_TUNNELED_MAX + 1];

	for (unsigned int count = 0; count <= COUNT_OF(c); count += count < 62 ? 31 : 1) {
		bool fits = count <= ANYVERBS_TUNNELED_MAX;

		row("%u commands", count);
		for (unsigned int i = 0; i < count; i++)
			c[i] = tunneled_command(&one, 0);
		put_commands(c, count);
		side_poke(&b, BLOCK_AT, 1000);
		EXPECT(write_payload(&t, WAY_WRITE, t.addr, count * COMMAND) ==
			       (fits ? SUCCESS : IBV_WC_REM_INV_REQ_ERR),
		       "status");
		EXPECT(side_peek(&b, BLOCK_AT) == 1000 + (fits ? count : 0), "%llu",
		       (unsigned long long)side_peek(&b, BLOCK_AT));
		if (!fits)
			recover(&t);
	}
}

static void run(void)
{
	all_targets();
	window_rows(IBV_MW_TYPE_1);
	window_rows(IBV_MW_TYPE_2);
	uc_rows();
	order_rows();
	count_rows();
}

int main(int argc, char **argv)
{
	return tunneled_test(argc, argv, NULL, run);
}
