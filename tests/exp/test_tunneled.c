/* SPDX-License-Identifier: MIT */
/*
 * Tunneled atomics: an RDMA WRITE to a region registered for them does what its payload says. Every
 * operation, size and byte order, on every kind of region, by every way of writing; several commands;
 * payloads that are none; rights; and what else may be done with such a region. This process asks, of itself
 * and of another one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/extended.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/switches.h"

#define QP_PEER	   0	    /* to the other process */
#define QP_SELF	   1	    /* of this process with itself */
#define QP_UC	   2	    /* likewise, unreliable */
#define QP_MORTAL  3	    /* to one that is killed */
#define BLOCK_AT   0x30000u /* of the target in the arenas */
#define BLOCK	   64u	    /* its bytes */
#define OPERAND_AT 16u	    /* in the block */
#define SOURCE_AT  0x40000u
#define HOLE_AT	   0x100000u
#define PAGE	   4096u
#define COMMAND	   ((uint32_t)sizeof(struct anyverbs_tunneled_atomic))
#define ROUNDS	   (TEST_SANITIZED ? 2 : 6)
#define SUCCESS	   IBV_WC_SUCCESS
#define TUNNELED   IBV_EXP_ACCESS_TUNNELED_ATOMIC
#define LOCAL	   (TUNNELED | IBV_EXP_ACCESS_LOCAL_WRITE)
#define RIGHTS \
	(LOCAL | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_REMOTE_ATOMIC)

static struct side a, b, mortal; /* a is here, and asks */
static struct node *n;

/* --- regions, in either process --- */

enum kind {
	KIND_PLAIN,
	KIND_ODP,
	KIND_IMPLICIT,
	KIND_NO_WRITE,
	KIND_OTHER_PD,
	KIND_TAIL, /* ends with the operand */
	KIND_HOLE, /* on demand, and its last page is not mapped */
	KIND_N
};

static struct ibv_mr *made[KIND_N];

static struct ibv_mr *make(struct node *me, enum kind kind)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = me->pd, .addr = me->arena, .length = NODE_ARENA, .exp_access = RIGHTS};

	if (kind == KIND_ODP || kind == KIND_IMPLICIT || kind == KIND_HOLE)
		in.exp_access |= IBV_EXP_ACCESS_ON_DEMAND;
	if (kind == KIND_IMPLICIT) {
		in.addr = NULL;
		in.length = IBV_EXP_IMPLICIT_MR_SIZE;
	}
	if (kind == KIND_NO_WRITE)
		in.exp_access &= ~(uint64_t)IBV_EXP_ACCESS_REMOTE_WRITE;
	if (kind == KIND_OTHER_PD)
		in.pd = me->other_pd;
	if (kind == KIND_TAIL)
		in.length = BLOCK_AT + OPERAND_AT + 8;
	made[kind] = ibv_exp_reg_mr(&in);
	if (!made[kind])
		DIE("ibv_exp_reg_mr %d: errno %d", (int)kind, errno);
	if (kind == KIND_HOLE && munmap(me->arena + HOLE_AT + PAGE, PAGE))
		DIE("munmap");
	return made[kind];
}

static uint64_t agent(struct node *me, const struct side_job *job)
{
	if (job->arg[0] < KIND_N)
		return make(me, (enum kind)job->arg[0])->rkey;
	for (enum kind kind = 0; kind < KIND_N; kind++)
		if (ibv_dereg_mr(made[kind]))
			DIE("ibv_dereg_mr");
	return 0;
}

static uint32_t rkey[KIND_N]; /* of the other process' regions */

static void ask_all(void)
{
	for (enum kind kind = 0; kind < KIND_N; kind++) {
		struct side_job job = {{kind}};

		side_begin(&b, &job);
		rkey[kind] = (uint32_t)side_end(&b);
	}
}

/* --- one WRITE --- */

enum way { WAY_WRITE, WAY_INLINE, WAY_LIST, WAY_IMM, WAY_EXP, WAY_N };

static const char *const way_name[] = {"WRITE", "inline", "from a list", "with immediate",
				       "ibv_exp_post_send"};

struct target {
	const char *name;
	int qp;
	struct side *side; /* whose memory */
	uint32_t rkey;
	uint64_t addr; /* of the block */
};

static struct node_send write_request(const struct target *t, enum way way, uint64_t addr, uint32_t bytes)
{
	struct node_send s = {
		.opcode = way == WAY_IMM ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		.flags = IBV_SEND_SIGNALED | (way == WAY_INLINE ? IBV_SEND_INLINE : 0),
		.imm = htonl(0xfeed),
		.remote_addr = addr,
		.rkey = t->rkey,
		.num_sge = bytes > 0,
		.sge = {side_sge(&a, KEY_READ_ONLY, SOURCE_AT, bytes)},
	};

	if (way == WAY_LIST && bytes > 10) {
		s.num_sge = 3;
		s.sge[0].length = 3;
		s.sge[1] = side_sge(&a, KEY_FULL, SOURCE_AT + 3, 7);
		s.sge[2] = side_sge(&a, KEY_READ_ONLY, SOURCE_AT + 10, bytes - 10);
	}
	return s;
}

static enum ibv_wc_status write_exp(const struct target *t, uint64_t addr, uint32_t bytes)
{
	struct ibv_sge sge = side_sge(&a, KEY_FULL, SOURCE_AT, bytes);
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = t->rkey;
	return extended_do(n, t->qp, &wr).status;
}

static void expect_immediate(const struct target *t, uint32_t bytes, enum ibv_wc_status want)
{
	struct ibv_wc wc;

	if (!EXPECT(side_poll(t->side, 1, 1, PROBE_PATIENCE, &wc) == 1, "nothing received"))
		return;
	EXPECT(wc.status == want, "received '%s'", ibv_wc_status_str(wc.status));
	if (wc.status == SUCCESS)
		EXPECT(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == htonl(0xfeed) &&
			       wc.byte_len == bytes,
		       "completion");
}

/* The payload is at SOURCE_AT. */
static enum ibv_wc_status write_payload(const struct target *t, enum way way, uint64_t addr, uint32_t bytes)
{
	struct node_send s = write_request(t, way, addr, bytes);
	struct ibv_wc wc;

	if (way == WAY_EXP)
		return write_exp(t, addr, bytes);
	if (way == WAY_IMM)
		side_recv_one(t->side, t->side == &b ? QP_PEER : t->qp, 1, 0, 0);
	if (side_post_send(&a, t->qp, &s, 1).ret || side_poll(&a, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("%s: no completion", row_name());
	if (way == WAY_IMM)
		expect_immediate(t, bytes, wc.status == SUCCESS ? SUCCESS : IBV_WC_WR_FLUSH_ERR);
	return wc.status;
}

static void recover(const struct target *t)
{
	if (t->side == &b)
		probe_reconnect(&a, &b, t->qp);
	else
		probe_reconnect(&a, &a, t->qp);
}

static void put_commands(const struct anyverbs_tunneled_atomic *c, unsigned int count)
{
	memcpy(n->arena + SOURCE_AT, c, count * sizeof(*c));
}

/* --- the block, by way of another key, or of none --- */

static void set_block(const struct target *t, const uint8_t *block)
{
	for (unsigned int i = 0; i < BLOCK; i += 8) {
		uint64_t word;

		memcpy(&word, block + i, 8);
		side_poke(t->side, BLOCK_AT + i, word);
	}
}

static void expect_block(const struct target *t, const uint8_t *block)
{
	for (unsigned int i = 0; i < BLOCK; i += 8) {
		uint64_t word = side_peek(t->side, BLOCK_AT + i), want;

		memcpy(&want, block + i, 8);
		EXPECT(word == want, "bytes %u.. are 0x%llx, not 0x%llx", i, (unsigned long long)word,
		       (unsigned long long)want);
	}
}

static void blank(uint8_t *block)
{
	memset(block, 0x5a, BLOCK);
}

/* --- operations --- */

static void one_operation(const struct target *t, enum way way, struct av_atomic *atomic)
{
	unsigned int place = OPERAND_AT + (unsigned int)rand() % (16 / atomic->bytes) * atomic->bytes;
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
					.op = op, .bytes = form & 1 ? 4 : 8, .swapped = form / 2};

				row("%s, %s: operation %d on %u bytes%s", t->name, way_name[way], (int)op,
				    atomic.bytes, form / 2 ? ", big endian" : "");
				for (int i = 0; i < ROUNDS; i++)
					one_operation(t, way, &atomic);
			}
}

static struct target peer(const char *name, enum kind kind)
{
	return (struct target){name, QP_PEER, &b, rkey[kind], b.info.base[KEY_FULL] + BLOCK_AT};
}

static struct target self(const char *name, uint32_t key)
{
	return (struct target){name, QP_SELF, &a, key, a.info.base[KEY_FULL] + BLOCK_AT};
}

static void all_targets(void)
{
	const struct target t[] = {
		peer("the other process", KIND_PLAIN),
		peer("the other process, on demand", KIND_ODP),
		peer("the other process, implicit", KIND_IMPLICIT),
		self("this process", make(n, KIND_PLAIN)->rkey),
		self("this process, on demand", make(n, KIND_ODP)->rkey),
		self("this process, implicit", make(n, KIND_IMPLICIT)->rkey),
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

/* --- several commands --- */

static struct av_atomic operation(enum av_atomic_op op, uint32_t bytes, uint64_t value)
{
	return (struct av_atomic){.op = op, .bytes = bytes, .value = {{value}}};
}

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
			EXPECT(write_payload(&t[k], way, t[k].addr + OPERAND_AT, sizeof(c)) == SUCCESS,
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

/* --- what is refused, and then changes nothing --- */

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

/* A key that does not permit the WRITE with immediate data ends the receive request, as of any region. */
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
	EXPECT(side_post_send(&a, QP_PEER, &s, 1).ret == 0 && side_poll(&a, 0, 1, PROBE_PATIENCE, &wc) == 1 &&
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
	EXPECT(write_payload(&t, WAY_WRITE, t.addr + OPERAND_AT + 8, COMMAND) == IBV_WC_REM_ACCESS_ERR,
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

/* --- what else is done with such a region --- */

static void empty_rows(void)
{
	struct target t = peer("the other process", KIND_PLAIN);
	uint8_t block[BLOCK];

	blank(block);
	row("WRITE of length 0");
	set_block(&t, block);
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, 0) == SUCCESS, "status");
	row("WRITE of length 0 with immediate");
	EXPECT(write_payload(&t, WAY_IMM, t.addr, 0) == SUCCESS, "status");
	expect_block(&t, block);
}

static void other_operation_rows(void)
{
	uint64_t addr = b.info.base[KEY_FULL] + BLOCK_AT;

	row("READ");
	side_fill(&b, BLOCK_AT, BLOCK, PROBE_SEED, 0);
	EXPECT_PROBE(&a, &b, QP_PEER, IBV_WR_RDMA_READ, addr, rkey[KIND_PLAIN], BLOCK, SUCCESS);
	EXPECT(side_check(&a, PROBE_AT, BLOCK, PROBE_SEED, 0) == -1, "payload");
	row("FETCH_AND_ADD");
	side_poke(&b, BLOCK_AT, 41);
	EXPECT_PROBE(&a, &b, QP_PEER, IBV_WR_ATOMIC_FETCH_AND_ADD, addr, rkey[KIND_PLAIN], 8, SUCCESS);
	EXPECT(side_peek(&b, BLOCK_AT) == 42 && side_peek(&a, PROBE_AT) == 41, "values");
	row("ATOMIC_WRITE");
	side_poke(&a, PROBE_AT, 99);
	EXPECT_PROBE(&a, &b, QP_PEER, IBV_WR_ATOMIC_WRITE, addr, rkey[KIND_PLAIN], 8, SUCCESS);
	EXPECT(side_peek(&b, BLOCK_AT) == 99, "value");
}

/* To its own process it is memory like any other: it receives, and is the source and destination of requests.
 */
static void local_row(void)
{
	struct node_recv r = {.wr_id = 1,
			      .num_sge = 1,
			      .sge = {{.addr = (uintptr_t)n->arena + BLOCK_AT,
				       .length = BLOCK,
				       .lkey = made[KIND_PLAIN]->lkey}}};
	struct node_send s = {.opcode = IBV_WR_SEND,
			      .flags = IBV_SEND_SIGNALED,
			      .num_sge = 1,
			      .sge = {side_sge(&b, KEY_FULL, BLOCK_AT, BLOCK)}};
	struct ibv_wc wc;

	row("SEND to it");
	side_fill(&b, BLOCK_AT, BLOCK, PROBE_SEED, 0);
	EXPECT(side_post_recv(&a, QP_PEER, &r, 1).ret == 0 && side_post_send(&b, QP_PEER, &s, 1).ret == 0,
	       "posting");
	EXPECT(side_poll(&b, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS, "sent");
	EXPECT(side_poll(&a, 1, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS, "received");
	EXPECT(side_check(&a, BLOCK_AT, BLOCK, PROBE_SEED, 0) == -1, "payload");
	row("READ into it, and WRITE from it");
	s.opcode = IBV_WR_RDMA_WRITE;
	s.sge[0] = r.sge[0];
	s.remote_addr = b.info.base[KEY_FULL] + BLOCK_AT;
	s.rkey = b.info.key[KEY_FULL];
	side_fill(&b, BLOCK_AT, BLOCK, 0, 0);
	EXPECT(probe_request(&a, &b, QP_PEER, &s) == SUCCESS, "WRITE");
	EXPECT(side_check(&b, BLOCK_AT, BLOCK, PROBE_SEED, 0) == -1, "payload of the WRITE");
	side_fill(&b, BLOCK_AT, BLOCK, PROBE_SEED + 1, 0);
	s.opcode = IBV_WR_RDMA_READ;
	EXPECT(probe_request(&a, &b, QP_PEER, &s) == SUCCESS, "READ");
	EXPECT(side_check(&a, BLOCK_AT, BLOCK, PROBE_SEED + 1, 0) == -1, "payload of the READ");
}

/* With immediate data, and no receive request: it waits, and the other process executes it, once. */
static void waiting_row(enum way way)
{
	struct target t = peer("the other process", KIND_PLAIN);
	struct node_send s = write_request(&t, WAY_IMM, t.addr, COMMAND);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct node_link patient = link_default();
	struct ibv_wc wc;

	row("waiting for a receive request, %s", way_name[way]);
	patient.rnr_retry = 7;
	side_set_state(&a, QP_PEER, IBV_QPS_RESET);
	side_set_state(&b, QP_PEER, IBV_QPS_RESET);
	pair_connect(&a, QP_PEER, &patient, &b, QP_PEER, NULL);
	pair[0] = tunneled_command(&one, 0);
	put_commands(pair, 1);
	side_poke(&b, BLOCK_AT, 41);
	if (way == WAY_INLINE)
		s.flags |= IBV_SEND_INLINE;
	EXPECT(side_post_send(&a, QP_PEER, &s, 1).ret == 0, "refused");
	EXPECT(side_peek(&b, BLOCK_AT) == 41, "executed before it could be received");
	side_recv_one(&b, QP_PEER, 1, 0, 0);
	EXPECT(side_poll(&a, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS, "status");
	expect_immediate(&t, COMMAND, SUCCESS);
	EXPECT(side_peek(&b, BLOCK_AT) == 42, "%llu", (unsigned long long)side_peek(&b, BLOCK_AT));
	recover(&t);
}

static void *kill_soon(void *arg)
{
	usleep(20000);
	if (kill(*(const pid_t *)arg, SIGKILL))
		DIE("kill");
	return NULL;
}

/* The other process is killed while commands come. */
static void kill_row(void)
{
	struct target t = {.name = "a process that is killed", .qp = QP_MORTAL, .side = &mortal};
	struct target other = peer("the other process", KIND_PLAIN);
	struct side_job job = {{KIND_PLAIN}};
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	enum ibv_wc_status got;
	pthread_t thread;
	int status;

	row("%s", t.name);
	side_start(&mortal);
	pair_create(&a, QP_MORTAL, &mortal, QP_PEER, NULL);
	pair_connect(&a, QP_MORTAL, NULL, &mortal, QP_PEER, NULL);
	side_begin(&mortal, &job);
	t.rkey = (uint32_t)side_end(&mortal);
	t.addr = mortal.info.base[KEY_FULL] + BLOCK_AT;
	pair[0] = pair[1] = tunneled_command(&one, 0);
	put_commands(pair, 2);
	if (pthread_create(&thread, NULL, kill_soon, &mortal.pid))
		DIE("pthread_create");
	while ((got = write_payload(&t, WAY_WRITE, t.addr, 2 * COMMAND)) == SUCCESS)
		;
	EXPECT(got == IBV_WC_RETRY_EXC_ERR, "'%s'", ibv_wc_status_str(got));
	pthread_join(thread, NULL);
	waitpid(mortal.pid, &status, 0);
	close(mortal.sock);
	EXPECT(side_destroy_qp(&a, QP_MORTAL) == 0, "ibv_destroy_qp");
	EXPECT(write_payload(&other, WAY_WRITE, other.addr, COMMAND) == SUCCESS, "the others do not go on");
}

/* --- the unreliable connection --- */

static void connect_uc(void)
{
	if (extended_create_qp(n, QP_UC, IBV_QPT_UC, 0))
		DIE("no queue pair");
	side_connect_uc_to_itself(&a, QP_UC, IBV_ACCESS_REMOTE_WRITE);
}

/* What is refused there is lost, and neither side hears of it. */
static void uc_rows(void)
{
	struct target t = self("this process, UC", made[KIND_PLAIN]->rkey);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	uint8_t block[BLOCK];

	connect_uc();
	t.qp = QP_UC;
	target_rows(&t);
	for (size_t i = 0; i < COUNT_OF(bad_row); i++) {
		if (bad_row[i].kind != KIND_PLAIN)
			continue;
		row("lost on UC: %s", bad_row[i].name);
		blank(block);
		set_block(&t, block);
		pair[0] = pair[1] = tunneled_command(&one, 0);
		bad_row[i].spoil();
		put_commands(pair, 2);
		EXPECT(write_payload(&t, WAY_WRITE, t.addr + OPERAND_AT, bad_row[i].bytes) == SUCCESS,
		       "status");
		expect_block(&t, block);
		EXPECT(side_state(&a, QP_UC) == IBV_QPS_RTS, "failed");
	}
	row("UC goes on");
	pair[0] = tunneled_command(&one, 0);
	put_commands(pair, 1);
	side_poke(&a, BLOCK_AT, 41);
	EXPECT(write_payload(&t, WAY_IMM, t.addr, COMMAND) == SUCCESS && side_peek(&a, BLOCK_AT) == 42,
	       "value");
	EXPECT(side_destroy_qp(&a, QP_UC) == 0, "ibv_destroy_qp");
}

/* --- registering --- */

static const struct {
	const char *name;
	uint64_t access;
	bool device;
	int want; /* with the switch on */
} reg_row[] = {
	{"alone", TUNNELED, false, EINVAL},
	{"REMOTE_WRITE without LOCAL_WRITE", TUNNELED | IBV_EXP_ACCESS_REMOTE_WRITE, false, EINVAL},
	{"LOCAL_WRITE", LOCAL, false, 0},
	{"LOCAL_WRITE and REMOTE_WRITE", LOCAL | IBV_EXP_ACCESS_REMOTE_WRITE, false, 0},
	{"all rights", RIGHTS | IBV_EXP_ACCESS_MW_BIND, false, 0},
	{"on demand", RIGHTS | IBV_EXP_ACCESS_ON_DEMAND, false, 0},
	{"a right that is unknown", RIGHTS | 1ull << 62, false, EINVAL},
	{"device memory", RIGHTS, true, EINVAL},
};

static void reg_rows(struct ibv_context *ctx, bool on)
{
	static uint8_t memory[2 * PAGE];
	struct ibv_exp_alloc_dm_attr alloc = {.length = PAGE};
	struct ibv_exp_dm *dm = ibv_exp_alloc_dm(ctx, &alloc);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);

	for (size_t i = 0; i < COUNT_OF(reg_row); i++) {
		struct ibv_exp_reg_mr_in in = {
			.pd = pd, .addr = memory, .length = PAGE, .exp_access = reg_row[i].access};
		int want = on ? reg_row[i].want : EINVAL;
		struct ibv_mr *mr;

		row("registering, switch %s: %s", on ? "on" : "off", reg_row[i].name);
		if (reg_row[i].device) {
			in.comp_mask = IBV_EXP_REG_MR_DM;
			in.dm = dm;
			in.addr = NULL;
		}
		errno = 0;
		mr = ibv_exp_reg_mr(&in);
		EXPECT(mr ? want == 0 : errno == want, "%p, errno %d", (void *)mr, errno);
		EXPECT(!mr || ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	}
	EXPECT(ibv_exp_free_dm(dm) == 0 && ibv_dealloc_pd(pd) == 0, "the end");
}

/* No bit of the plain verbs means it. */
static void plain_reg_rows(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena, PAGE, IBV_ACCESS_LOCAL_WRITE);

	for (unsigned int bit = 10; bit < 32; bit++) {
		unsigned int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | 1u << bit;
		bool optional = access & IBV_ACCESS_OPTIONAL_RANGE;
		struct ibv_mr *one;

		row("ibv_reg_mr: bit %u", bit);
		errno = 0;
		one = ibv_reg_mr_iova2(n->pd, n->arena, PAGE, (uintptr_t)n->arena, access);
		EXPECT(optional ? one != NULL : !one && errno == EINVAL, "%p, errno %d", (void *)one, errno);
		EXPECT(!one || ibv_dereg_mr(one) == 0, "ibv_dereg_mr");
		row("ibv_rereg_mr: bit %u", bit);
		EXPECT(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)access) == optional,
		       "result");
	}
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

/* The right comes and goes with re-registration, and stays if that is of something else. */
static void rereg_rows(void)
{
	struct ibv_exp_reg_mr_in in = {.pd = n->pd,
				       .addr = n->arena,
				       .length = NODE_ARENA,
				       .exp_access = RIGHTS & ~(uint64_t)TUNNELED};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	struct target t = self("this process", mr->rkey);
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);

	pair[0] = tunneled_command(&one, 0);
	put_commands(pair, 1);
	row("re-registered for tunneled atomics");
	side_poke(&a, BLOCK_AT, 41);
	EXPECT(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS, NULL) == 0,
	       "refused");
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == SUCCESS && side_peek(&a, BLOCK_AT) == 42,
	       "value");
	row("re-registered elsewhere");
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, n->arena + BLOCK_AT, BLOCK, 0) == 0,
	       "refused");
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == SUCCESS && side_peek(&a, BLOCK_AT) == 43,
	       "value");
	row("re-registered without the right to write");
	EXPECT(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, TUNNELED, NULL) == EINVAL,
	       "accepted");
	row("re-registered without");
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) == 0,
	       "refused");
	EXPECT(write_payload(&t, WAY_WRITE, t.addr, COMMAND) == SUCCESS &&
		       memcmp(n->arena + BLOCK_AT, pair, COMMAND) == 0,
	       "not stored");
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

static struct ibv_mr *restless;
static atomic_bool rest;

static void *rereg_always(void *arg)
{
	uint64_t access = RIGHTS;

	while (!atomic_load(&rest)) {
		access ^= IBV_EXP_ACCESS_MW_BIND;
		if (ibv_exp_rereg_mr(restless, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access, NULL))
			DIE("ibv_exp_rereg_mr");
	}
	return NULL;
}

/* A region that is re-registered all the while: no command is lost, and none done twice. */
static void restless_row(void)
{
	enum { PAYLOADS = TEST_SANITIZED ? 200 : 3000 };
	struct ibv_exp_reg_mr_in in = {
		.pd = n->pd, .addr = n->arena, .length = NODE_ARENA, .exp_access = RIGHTS};
	struct anyverbs_tunneled_atomic c[ANYVERBS_TUNNELED_MAX];
	struct av_atomic one = operation(AV_ATOMIC_ADD, 8, 1);
	struct target t;
	pthread_t thread;

	row("a region that is being re-registered");
	restless = ibv_exp_reg_mr(&in);
	t = self("this process", restless->rkey);
	for (unsigned int i = 0; i < ANYVERBS_TUNNELED_MAX; i++)
		c[i] = tunneled_command(&one, 0);
	put_commands(c, ANYVERBS_TUNNELED_MAX);
	side_poke(&a, BLOCK_AT, 0);
	if (pthread_create(&thread, NULL, rereg_always, NULL))
		DIE("pthread_create");
	for (int i = 0; i < PAYLOADS; i++)
		EXPECT(write_payload(&t, WAY_WRITE, t.addr, sizeof(c)) == SUCCESS, "status");
	atomic_store(&rest, true);
	pthread_join(thread, NULL);
	EXPECT(side_peek(&a, BLOCK_AT) == PAYLOADS * ANYVERBS_TUNNELED_MAX, "%llu, not %u",
	       (unsigned long long)side_peek(&a, BLOCK_AT), PAYLOADS * ANYVERBS_TUNNELED_MAX);
	EXPECT(ibv_dereg_mr(restless) == 0, "ibv_dereg_mr");
}

static void caps_row(struct ibv_context *ctx, bool on)
{
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC,
					   .tunneled_atomic_caps = 0xee};

	row("tunneled_atomic_caps, switch %s", on ? "on" : "off");
	EXPECT(ibv_exp_query_device(ctx, &attr) == 0 &&
		       attr.comp_mask == IBV_EXP_DEVICE_ATTR_TUNNELED_ATOMIC &&
		       attr.tunneled_atomic_caps == (on ? IBV_EXP_TUNNELED_ATOMIC_SUPPORTED : 0),
	       "0x%x", attr.tunneled_atomic_caps);
}

static void switched_off(void)
{
	struct ibv_context *ctx = node_open_device();

	caps_row(ctx, false);
	reg_rows(ctx, false);
	ibv_close_device(ctx);
}

/* --- */

static void open_pairs(void)
{
	struct node_qp_spec spec = spec_default();

	if (extended_create_qp(n, QP_PEER, IBV_QPT_RC, 8) || extended_create_qp(n, QP_SELF, IBV_QPT_RC, 8) ||
	    side_create_qp(&b, QP_PEER, &spec, NULL))
		DIE("queue pairs: errno %d", errno);
	pair_connect(&a, QP_PEER, NULL, &b, QP_PEER, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
}

static void run(void)
{
	caps_row(n->ctx, true);
	reg_rows(n->ctx, true);
	plain_reg_rows();
	all_targets();
	window_rows(IBV_MW_TYPE_1);
	window_rows(IBV_MW_TYPE_2);
	order_rows();
	count_rows();
	bad_rows();
	immediate_row();
	tail_row();
	hole_row();
	requester_rows();
	qp_right_row();
	empty_rows();
	other_operation_rows();
	local_row();
	waiting_row(WAY_WRITE);
	waiting_row(WAY_INLINE);
	kill_row();
	uc_rows();
	rereg_rows();
	restless_row();
}

int main(int argc, char **argv)
{
	struct side_job end = {{KIND_N}};

	side_work = agent;
	side_agent_main(argc, argv);
	time_limit(220);
	sandbox_enter();
	switches_in_force(NULL);
	switched_off();
	switches_in_force("IBM_TUNNELED_ATOMIC_EN");
	side_open(&a, NULL);
	side_start(&b);
	n = a.node;
	open_pairs();
	ask_all();
	run();
	for (enum kind kind = 0; kind <= KIND_IMPLICIT; kind++)
		EXPECT(ibv_dereg_mr(made[kind]) == 0, "ibv_dereg_mr");
	side_begin(&b, &end);
	side_end(&b);
	side_destroy_qp(&a, QP_SELF);
	pair_destroy(&a, QP_PEER, &b, QP_PEER);
	side_stop(&b);
	side_stop(&a);
	switches_in_force(NULL);
	sandbox_leave();
	return summary();
}
