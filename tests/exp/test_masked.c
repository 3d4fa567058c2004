/* SPDX-License-Identifier: MIT */
/*
 * Extended and masked atomics: every operation and size of operands, on every kind of region,
 * within a process and between two; where the result goes, what is refused when posted, and how
 * errors end. What becomes of the operand is compared with the model, and its surroundings must
 * stay.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/exp_objects.h"
#include "lib/expect.h"
#include "lib/extended.h"
#include "lib/probe.h"
#include "lib/two_sides.h"

#define QP_PEER	   0 /* to the other process */
#define QP_SELF	   1 /* of this process with itself */
#define QP_SMALL   2 /* operands of up to 4 bytes */
#define QP_PLAIN   3 /* none but the plain ones */
#define QP_UC	   4
#define QP_INLINE  6	    /* with inline receive */
#define BLOCK_AT   0x30000u /* of the target in the arenas */
#define BLOCK	   96u	    /* its bytes */
#define OPERAND_AT 32u	    /* in the block */
#define ROOM_AT	   0x40000u /* for what is read back */
#define RESULT_AT  0x50000u
#define ROUNDS	   (TEST_SANITIZED ? 4 : 16)
#define SUCCESS	   IBV_WC_SUCCESS
#define RIGHTS                                                                                   \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ | \
	 IBV_EXP_ACCESS_REMOTE_ATOMIC)

static struct node *n;

static const uint32_t sizes[] = {1, 2, 4, 8, 16, 32};

/* --- regions of other kinds, in either process ----------------------------------- */

enum kind { KIND_ODP, KIND_IMPLICIT, KIND_DEVICE, KIND_N };

static struct ibv_mr *made[KIND_N];
static struct ibv_exp_dm *dm;

static struct ibv_mr *make(struct node *me, enum kind kind)
{
	struct ibv_exp_reg_mr_in in = {
		.pd = me->pd, .addr = me->arena, .length = NODE_ARENA, .exp_access = RIGHTS};
	struct ibv_exp_alloc_dm_attr alloc = {.length = 4096};

	if (kind == KIND_DEVICE) {
		dm = ibv_exp_alloc_dm(me->ctx, &alloc);
		in.comp_mask = IBV_EXP_REG_MR_DM;
		in.dm = dm;
		in.addr = NULL;
		in.length = 4096;
	} else {
		in.exp_access |= IBV_EXP_ACCESS_ON_DEMAND;
	}
	if (kind == KIND_IMPLICIT) {
		in.addr = NULL;
		in.length = IBV_EXP_IMPLICIT_MR_SIZE;
	}
	made[kind] = ibv_exp_reg_mr(&in);
	NEED(made[kind]);
	return made[kind];
}

static void unmake_all(void)
{
	for (enum kind kind = 0; kind < KIND_N; kind++)
		NEED(ibv_dereg_mr(made[kind]) == 0);
	NEED(ibv_exp_free_dm(dm) == 0);
}

/* arg[0]: the kind; KIND_N: the end of all. Return: its rkey */
static uint64_t agent(struct node *me, const struct side_job *job)
{
	if (job->arg[0] < KIND_N)
		return make(me, (enum kind)job->arg[0])->rkey;
	unmake_all();
	return 0;
}

static uint32_t ask_rkey(enum kind kind)
{
	struct side_job job = {{kind}};

	side_begin(&b, &job);
	return (uint32_t)side_end(&b);
}

/* --- targets --------------------------------------------------------------------- */

struct target {
	const char *name;
	int qp;
	uint32_t rkey;
	uint64_t addr; /* of the block */
};

static struct target of_key(const char *name, int qp, const struct side *s, enum key key)
{
	return (struct target){name, qp, s->info.key[key], s->info.base[key] + BLOCK_AT};
}

static struct ibv_sge at(uint64_t offset, uint32_t bytes)
{
	return side_sge(&a, KEY_FULL, offset, bytes);
}

/* The block is written and read by the device, too, whatever it is made of. */
static void transfer(const struct target *t, enum ibv_exp_wr_opcode opcode, uint64_t offset)
{
	struct ibv_sge sge = at(offset, BLOCK);
	struct ibv_exp_send_wr wr = {.exp_opcode = opcode, .sg_list = &sge, .num_sge = 1};
	struct ibv_exp_wc wc;

	wr.wr.rdma.remote_addr = t->addr;
	wr.wr.rdma.rkey = t->rkey;
	wc = extended_do(n, t->qp, &wr);
	if (wc.status != SUCCESS)
		DIE("%s: the block: '%s'", t->name, ibv_wc_status_str(wc.status));
}

/* Opcode of the completion, by masked and adds. */
static const enum ibv_exp_wc_opcode done_opcode[2][2] = {
	{IBV_EXP_WC_COMP_SWAP, IBV_EXP_WC_FETCH_ADD},
	{IBV_EXP_WC_MASKED_COMP_SWAP, IBV_EXP_WC_MASKED_FETCH_ADD},
};

static void expect_result(const uint8_t *block, const struct av_operand *old, uint32_t bytes)
{
	const uint8_t *result = n->arena + RESULT_AT;

	EXPECT(memcmp(n->arena + ROOM_AT, block, BLOCK) == 0,
	       "the memory is not what the model has");
	EXPECT(memcmp(result, old, bytes) == 0, "not the old value");
	EXPECT(result[bytes] == 0xcc, "more than the old value was written");
}

static void one_operation(const struct target *t, struct av_atomic *atomic, bool masked)
{
	uint8_t *block = n->arena + ROOM_AT + BLOCK, *room = n->arena + ROOM_AT;
	unsigned int place =
		OPERAND_AT + (unsigned int)rand() % (32 / atomic->bytes) * atomic->bytes;
	struct ibv_sge sge = at(RESULT_AT, atomic->bytes);
	struct ibv_exp_send_wr wr;
	struct av_operand old;
	struct ibv_exp_wc wc;

	model_random(atomic, &old);
	if (!masked) {
		memset(&atomic->mask, atomic->op == AV_ATOMIC_ADD ? 0 : 0xff, sizeof(atomic->mask));
		memset(&atomic->compare_mask, 0xff, sizeof(atomic->compare_mask));
	}
	memset(room, 0x5a, BLOCK);
	memcpy(room + place, &old, atomic->bytes);
	transfer(t, IBV_EXP_WR_RDMA_WRITE, ROOM_AT);
	memcpy(block, room, BLOCK);
	model_atomic(atomic, block + place);
	memset(n->arena + RESULT_AT, 0xcc, 64);
	extended_request(&wr, atomic, masked, t->addr + place, t->rkey, &sge, 1);
	wc = extended_do(n, t->qp, &wr);
	EXPECT(wc.status == SUCCESS, "'%s'", ibv_wc_status_str(wc.status));
	EXPECT(wc.exp_opcode == done_opcode[masked][atomic->op == AV_ATOMIC_ADD], "opcode %d",
	       wc.exp_opcode);
	EXPECT(wc.byte_len == atomic->bytes, "%u bytes", wc.byte_len);
	memset(room, 0, BLOCK);
	transfer(t, IBV_EXP_WR_RDMA_READ, ROOM_AT);
	expect_result(block, &old, atomic->bytes);
}

static void target_rows(const struct target *t)
{
	static const enum av_atomic_op ops[] = {AV_ATOMIC_CMP_SWAP, AV_ATOMIC_ADD};

	for (int i = 0; i < 4 * (int)COUNT_OF(sizes); i++) {
		struct av_atomic atomic = {.op = ops[i & 1], .bytes = sizes[i / 4]};
		bool masked = i & 2;

		row("%s: %s%s of %u bytes", t->name, masked ? "masked " : "",
		    atomic.op == AV_ATOMIC_ADD ? "FETCH_AND_ADD" : "CMP_AND_SWP", atomic.bytes);
		for (int k = 0; k < ROUNDS; k++)
			one_operation(t, &atomic, masked);
	}
}

static void all_targets(void)
{
	static const char *const name[KIND_N] = {"on demand", "implicit on demand",
						 "device memory"};
	struct target t[] = {
		of_key("the other process", QP_PEER, &b, KEY_FULL),
		of_key("the other process, zero based", QP_PEER, &b, KEY_ZERO_BASED),
		of_key("the other process, other addresses", QP_PEER, &b, KEY_IOVA),
		of_key("this process", QP_SELF, &a, KEY_FULL),
	};

	for (size_t i = 0; i < COUNT_OF(t); i++)
		target_rows(&t[i]);
	for (enum kind kind = 0; kind < KIND_N; kind++) {
		bool device = kind == KIND_DEVICE;

		t[0] = (struct target){name[kind], QP_PEER, ask_rkey(kind),
				       device ? 32 : b.info.base[KEY_FULL] + BLOCK_AT};
		target_rows(&t[0]);
		t[0] = (struct target){name[kind], QP_SELF, make(n, kind)->rkey,
				       device ? 32 : a.info.base[KEY_FULL] + BLOCK_AT};
		target_rows(&t[0]);
	}
}

/* --- windows --------------------------------------------------------------------- */

static void window_rows(void)
{
	struct ibv_mr *mr = ibv_reg_mr(n->pd, n->arena, NODE_ARENA,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(n->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {.mr = mr,
						 .addr = (uintptr_t)n->arena + BLOCK_AT,
						 .length = BLOCK,
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE |
								    IBV_ACCESS_REMOTE_READ |
								    IBV_ACCESS_REMOTE_ATOMIC}};
	struct target t = {"a window", QP_SELF, 0, (uintptr_t)n->arena + BLOCK_AT};
	struct ibv_wc wc;

	row("a window");
	if (!mr || !mw || ibv_bind_mw(n->qp[QP_SELF], mw, &bind) ||
	    node_poll(n, 0, 1, PROBE_PATIENCE, &wc) != 1 || wc.status != SUCCESS)
		DIE("window: errno %d", errno);
	t.rkey = mw->rkey;
	target_rows(&t);
	EXPECT(ibv_dealloc_mw(mw) == 0 && ibv_dereg_mr(mr) == 0, "the end");
}

/* --- where the result goes ------------------------------------------------------- */

static const struct {
	uint32_t bytes;
	uint32_t piece[4];
} list_row[] = {
	{1, {0, 1}},	   {2, {1, 1}},	 {4, {3, 0, 1}},       {8, {3, 5}},
	{8, {1, 2, 4, 1}}, {16, {8, 8}}, {32, {1, 15, 0, 16}}, {32, {16, 16}},
};

static void list_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(list_row); i++) {
		struct av_atomic atomic = {
			.op = AV_ATOMIC_ADD, .bytes = list_row[i].bytes, .value = {{1}}};
		struct ibv_sge sge[4];
		struct ibv_exp_send_wr wr;
		uint64_t offset = RESULT_AT;
		unsigned int done = 0;

		row("%u bytes into a list, row %zu", list_row[i].bytes, i);
		side_fill(&b, BLOCK_AT, 64, PROBE_SEED, 0);
		memset(n->arena + RESULT_AT, 0xcc, 512);
		for (int k = 0; k < 4; k++, offset += 100)
			sge[k] = at(offset, list_row[i].piece[k]);
		extended_request(&wr, &atomic, true, b.info.base[KEY_FULL] + BLOCK_AT,
				 b.info.key[KEY_FULL], sge, 4);
		EXPECT(extended_do(n, QP_PEER, &wr).status == SUCCESS, "status");
		for (int k = 0; k < 4; k++) {
			const uint8_t *p = n->arena + RESULT_AT + 100 * k;

			EXPECT(pattern_check(p, list_row[i].piece[k], PROBE_SEED, done) == -1,
			       "piece %d", k);
			EXPECT(p[list_row[i].piece[k]] == 0xcc, "behind piece %d", k);
			done += list_row[i].piece[k];
		}
	}
}

/* Through the plain call of polling: the same numbers. */
static void plain_poll_rows(void)
{
	for (int masked = 0; masked < 2; masked++)
		for (int adds = 0; adds < 2; adds++) {
			struct av_atomic atomic = {.op = adds ? AV_ATOMIC_ADD : AV_ATOMIC_CMP_SWAP,
						   .bytes = 4};
			struct ibv_sge sge = at(RESULT_AT, 4);
			struct ibv_exp_send_wr wr, *bad;
			struct ibv_wc wc;

			row("ibv_poll_cq: %s %d", masked ? "masked" : "with a size", adds);
			extended_request(&wr, &atomic, masked, b.info.base[KEY_FULL] + BLOCK_AT,
					 b.info.key[KEY_FULL], &sge, 1);
			wr.exp_send_flags |= IBV_EXP_SEND_SIGNALED;
			EXPECT(ibv_exp_post_send(n->qp[QP_PEER], &wr, &bad) == 0, "refused");
			EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == SUCCESS,
			       "status");
			EXPECT((int)wc.opcode == (int)done_opcode[masked][adds] && wc.byte_len == 4,
			       "opcode %d, %u bytes", (int)wc.opcode, wc.byte_len);
		}
}

/* --- refused when posted --------------------------------------------------------- */

static const struct {
	const char *name;
	int qp, want;
	uint32_t log, bytes_of_result;
	int num_sge;
	uint64_t add_flags, drop_flags;
} refused[] = {
	{"no EXT_ATOMIC_INLINE", QP_PEER, EINVAL, 3, 8, 1, 0, IBV_EXP_SEND_EXT_ATOMIC_INLINE},
	{"64 bytes", QP_PEER, EINVAL, 6, 64, 1, 0, 0},
	{"2^31 bytes", QP_PEER, EINVAL, 31, 8, 1, 0, 0},
	{"2^32 bytes", QP_PEER, EINVAL, 32, 8, 1, 0, 0},
	{"2^64-1 bytes", QP_PEER, EINVAL, UINT32_MAX, 8, 1, 0, 0},
	{"more than the queue pair has", QP_SMALL, EINVAL, 3, 8, 1, 0, 0},
	{"a queue pair without", QP_PLAIN, EINVAL, 0, 1, 1, 0, 0},
	{"an unreliable connection", QP_UC, EINVAL, 0, 1, 1, 0, 0},
	{"no element", QP_PEER, EINVAL, 3, 8, 0, 0, 0},
	{"-1 elements", QP_PEER, EINVAL, 3, 8, -1, 0, 0},
	{"too many elements", QP_PEER, ENOMEM, 3, 8, 1000, 0, 0},
	{"inline data", QP_PEER, EINVAL, 3, 8, 1, IBV_EXP_SEND_INLINE, 0},
	{"a calculation", QP_PEER, EINVAL, 3, 8, 1, IBV_EXP_SEND_WITH_CALC, 0},
	{"an unknown flag", QP_PEER, EINVAL, 3, 8, 1, 1 << 4, 0},
};

/* The refused one comes after one that is not, and before one more. */
static void expect_refused(int qp, struct ibv_exp_send_wr *wr, int want)
{
	struct ibv_exp_send_wr first = {.exp_opcode = IBV_EXP_WR_RDMA_WRITE,
					.exp_send_flags = IBV_EXP_SEND_SIGNALED,
					.next = wr},
			       last = first, *bad = NULL;
	struct ibv_exp_wc wc[3];
	int ret;

	wr->next = &last;
	last.next = NULL;
	errno = 0;
	ret = ibv_exp_post_send(n->qp[qp], &first, &bad);
	EXPECT(ret == want && errno == want, "%d, errno %d", ret, errno);
	EXPECT(bad == wr, "bad_wr");
	for (uint64_t end = now_ms() + PROBE_PATIENCE;
	     ibv_exp_poll_cq(n->cq[0], 3, wc, sizeof(wc[0])) != 1;)
		if (now_ms() > end)
			DIE("no completion of the first");
	EXPECT(wc[0].status == SUCCESS, "'%s'", ibv_wc_status_str(wc[0].status));
}

static void refused_rows(void)
{
	static struct ibv_sge sge[1000];
	struct av_atomic atomic = {.op = AV_ATOMIC_ADD, .bytes = 1};

	for (size_t i = 0; i < COUNT_OF(refused); i++)
		for (int way = 0; way < 4; way++) {
			bool masked = way & 1;
			struct ibv_exp_send_wr wr;

			atomic.op = way & 2 ? AV_ATOMIC_ADD : AV_ATOMIC_CMP_SWAP;
			row("refused, way %d: %s", way, refused[i].name);
			sge[0] = at(RESULT_AT, refused[i].bytes_of_result);
			extended_request(&wr, &atomic, masked, b.info.base[KEY_FULL] + BLOCK_AT,
					 b.info.key[KEY_FULL], sge, refused[i].num_sge);
			wr.ext_op.masked_atomics.log_arg_sz = refused[i].log;
			wr.exp_send_flags |= refused[i].add_flags;
			wr.exp_send_flags &= ~refused[i].drop_flags;
			if (!masked && refused[i].drop_flags) /* then it is a plain one */
				continue;
			expect_refused(refused[i].qp, &wr, refused[i].want);
		}
}

/* Longer operands are addresses, and none of them may be missing. */
static void pointer_rows(void)
{
	struct av_atomic atomic = {.bytes = 16};

	for (int way = 0; way < 8; way++) {
		struct ibv_sge sge = at(RESULT_AT, 16);
		struct ibv_exp_send_wr wr;
		uint64_t *field;

		row("no address of operand %d", way);
		atomic.op = way < 4 ? AV_ATOMIC_CMP_SWAP : AV_ATOMIC_ADD;
		extended_request(&wr, &atomic, way < 6, b.info.base[KEY_FULL] + BLOCK_AT,
				 b.info.key[KEY_FULL], &sge, 1);
		field = &wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap.compare_mask;
		if (way < 6)
			field[way < 4 ? way : way - 4] = 0;
		else
			wr.wr.atomic.compare_add = 0;
		expect_refused(QP_PEER, &wr, EINVAL);
	}
}

/* The library's own opcodes are nothing for the plain call. */
static void plain_post_rows(void)
{
	for (unsigned int opcode = 16; opcode < 256; opcode++) {
		struct ibv_sge sge = at(RESULT_AT, 8);
		struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)opcode,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .send_flags = IBV_SEND_SIGNALED},
				   *bad = NULL;

		row("ibv_post_send: opcode %u", opcode);
		wr.wr.atomic.remote_addr = b.info.base[KEY_FULL] + BLOCK_AT;
		wr.wr.atomic.rkey = b.info.key[KEY_FULL];
		wr.wr.atomic.compare_add = 8;
		EXPECT(ibv_post_send(n->qp[QP_PEER], &wr, &bad) == EINVAL && bad == &wr,
		       "accepted");
	}
}

/* --- errors ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum key key;
	int64_t off;	 /* from the operand */
	uint32_t result; /* bytes; 0: as many as the operand */
	enum key lkey;
	enum ibv_wc_status want;
	bool changed;
} fault_row[] = {
	{"REMOTE_ATOMIC alone", KEY_ATOMIC_ONLY, 0, 0, KEY_FULL, SUCCESS, true},
	{"no REMOTE_WRITE", KEY_NO_WRITE, 0, 0, KEY_FULL, SUCCESS, true},
	{"no REMOTE_ATOMIC", KEY_NO_ATOMIC, 0, 0, KEY_FULL, IBV_WC_REM_ACCESS_ERR, false},
	{"nothing remote", KEY_LOCAL, 0, 0, KEY_FULL, IBV_WC_REM_ACCESS_ERR, false},
	{"another protection domain", KEY_OTHER_PD, 0, 0, KEY_FULL, IBV_WC_REM_ACCESS_ERR, false},
	{"a dead key", KEY_DEAD, 0, 0, KEY_FULL, IBV_WC_REM_ACCESS_ERR, false},
	{"a wrong key", KEY_WRONG, 0, 0, KEY_FULL, IBV_WC_REM_ACCESS_ERR, false},
	{"beyond the region", KEY_FULL, NODE_ARENA - BLOCK_AT, 0, KEY_FULL, IBV_WC_REM_ACCESS_ERR,
	 false},
	{"before the region", KEY_FULL, -(int64_t)BLOCK_AT - 32, 0, KEY_FULL, IBV_WC_REM_ACCESS_ERR,
	 false},
	{"a result of one byte more", KEY_FULL, 0, 33, KEY_FULL, IBV_WC_LOC_LEN_ERR, false},
	{"a result of 3 bytes", KEY_FULL, 0, 3, KEY_FULL, IBV_WC_LOC_LEN_ERR, false},
	{"no right to store the result", KEY_FULL, 0, 0, KEY_READ_ONLY, IBV_WC_LOC_PROT_ERR, true},
	{"a dead lkey", KEY_FULL, 0, 0, KEY_DEAD, IBV_WC_LOC_PROT_ERR, true},
	{"a bad lkey, and a bad rkey", KEY_WRONG, 0, 0, KEY_DEAD, IBV_WC_REM_ACCESS_ERR, false},
};

/* 64 bytes of zeros, to which the operation adds 1. */
static void expect_changed(bool changed)
{
	EXPECT(side_peek(&b, BLOCK_AT) == changed, "the operand is %llu",
	       (unsigned long long)side_peek(&b, BLOCK_AT));
	for (unsigned int i = 8; i < 64; i += 8)
		EXPECT(side_peek(&b, BLOCK_AT + i) == 0, "word %u changed", i / 8);
}

static void add_one(uint32_t bytes, uint32_t rkey, uint64_t addr, struct ibv_sge sge,
		    enum ibv_wc_status want)
{
	struct av_atomic atomic = {.op = AV_ATOMIC_ADD, .bytes = bytes, .value = {{1}}};
	struct ibv_exp_send_wr wr;
	struct ibv_exp_wc wc;

	for (unsigned int i = 0; i < 64; i += 8)
		side_poke(&b, BLOCK_AT + i, 0);
	extended_request(&wr, &atomic, true, addr, rkey, &sge, 1);
	wc = extended_do(n, QP_PEER, &wr);
	EXPECT(wc.status == want, "'%s', not '%s'", ibv_wc_status_str(wc.status),
	       ibv_wc_status_str(want));
	if (wc.status != SUCCESS)
		probe_reconnect(&a, &b, QP_PEER);
}

static void fault_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(fault_row); i++)
		for (size_t s = 0; s < COUNT_OF(sizes); s++) {
			uint32_t bytes = sizes[s];
			enum key key = fault_row[i].key;
			uint32_t result = fault_row[i].result ? fault_row[i].result : bytes;

			row("%u bytes: %s", bytes, fault_row[i].name);
			add_one(bytes, b.info.key[key],
				b.info.base[key] + BLOCK_AT + (uint64_t)fault_row[i].off,
				side_sge(&a, fault_row[i].lkey, RESULT_AT, result),
				fault_row[i].want);
			expect_changed(fault_row[i].changed);
		}
}

static void misaligned_rows(void)
{
	for (size_t s = 1; s < COUNT_OF(sizes); s++)
		for (uint32_t off = 1; off < sizes[s]; off *= 2) {
			row("%u bytes, misaligned by %u", sizes[s], off);
			add_one(sizes[s], b.info.key[KEY_FULL],
				b.info.base[KEY_FULL] + BLOCK_AT + off, at(RESULT_AT, sizes[s]),
				IBV_WC_REM_INV_REQ_ERR);
			expect_changed(false);
			row("%u bytes, misaligned by %u, and a wrong key", sizes[s], off);
			add_one(sizes[s], b.info.key[KEY_WRONG],
				b.info.base[KEY_FULL] + BLOCK_AT + off, at(RESULT_AT, sizes[s]),
				IBV_WC_REM_INV_REQ_ERR);
			expect_changed(false);
		}
}

static void gone_rows(void)
{
	for (size_t s = 0; s < COUNT_OF(sizes); s++) {
		row("%u bytes in memory that cannot be reached", sizes[s]);
		add_one(sizes[s], b.info.key[KEY_GONE], b.info.base[KEY_GONE],
			at(RESULT_AT, sizes[s]), IBV_WC_REM_ACCESS_ERR);
	}
}

static const struct {
	const char *name;
	unsigned int access;
	uint8_t rd_atomic, dest_rd_atomic;
	enum ibv_wc_status want;
} qp_row[] = {
	{"REMOTE_ATOMIC alone", IBV_ACCESS_REMOTE_ATOMIC, 1, 1, SUCCESS},
	{"no REMOTE_ATOMIC", IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, 1, 1,
	 IBV_WC_REM_INV_REQ_ERR},
	{"max_dest_rd_atomic 0", IBV_ACCESS_REMOTE_ATOMIC, 1, 0, IBV_WC_REM_INV_REQ_ERR},
	{"max_rd_atomic 0", IBV_ACCESS_REMOTE_ATOMIC, 0, 1, IBV_WC_LOC_QP_OP_ERR},
};

static void qp_rows(void)
{
	for (size_t i = 0; i < COUNT_OF(qp_row); i++) {
		struct node_link theirs = link_default(), mine = link_default();

		row("queue pair: %s", qp_row[i].name);
		theirs.access = qp_row[i].access;
		theirs.dest_rd_atomic = qp_row[i].dest_rd_atomic;
		mine.rd_atomic = qp_row[i].rd_atomic;
		side_set_state(&a, QP_PEER, IBV_QPS_RESET);
		side_set_state(&b, QP_PEER, IBV_QPS_RESET);
		pair_connect(&a, QP_PEER, &mine, &b, QP_PEER, &theirs);
		add_one(4, b.info.key[KEY_FULL], b.info.base[KEY_FULL] + BLOCK_AT, at(RESULT_AT, 4),
			qp_row[i].want);
		expect_changed(qp_row[i].want == SUCCESS);
		probe_reconnect(&a, &b, QP_PEER);
	}
}

/*
 * Behind a message that waits for its receive request: whoever posts that, in the other process,
 * executes them, and finds the operands in this process' queue.
 */
static void waiting_row(int qp, uint32_t bytes)
{
	struct av_atomic atomic = {.op = AV_ATOMIC_ADD, .bytes = bytes, .value = {{5}}};
	struct node_send message = side_message(at(ROOM_AT, 8));
	struct node_link patient = link_default();
	struct ibv_sge sge = at(RESULT_AT, bytes);
	struct ibv_exp_send_wr wr, *bad;
	struct ibv_wc wc[2];

	row("%u bytes, executed by the other process%s", bytes,
	    qp == QP_INLINE ? ", the answer inline" : "");
	patient.rnr_retry = 7;
	side_set_state(&a, qp, IBV_QPS_RESET);
	side_set_state(&b, qp, IBV_QPS_RESET);
	pair_connect(&a, qp, &patient, &b, qp, NULL);
	side_fill(&b, BLOCK_AT, 64, 0, 0);
	for (unsigned int i = 0; i < 64; i += 8)
		side_poke(&b, BLOCK_AT + i, 0);
	side_poke(&b, BLOCK_AT, 37);
	extended_request(&wr, &atomic, true, b.info.base[KEY_FULL] + BLOCK_AT, b.info.key[KEY_FULL],
			 &sge, 1);
	wr.exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	EXPECT(side_post_send(&a, qp, &message, 1).ret == 0 &&
		       ibv_exp_post_send(n->qp[qp], &wr, &bad) == 0,
	       "refused");
	EXPECT(side_peek(&b, BLOCK_AT) == 37, "executed before its turn");
	memset(n->arena + RESULT_AT, 0xcc, 64);
	side_recv_one(&b, qp, 1, ROOM_AT, 64);
	EXPECT(side_poll(&a, 0, 2, PROBE_PATIENCE, wc) == 2 && wc[0].status == SUCCESS &&
		       wc[1].status == SUCCESS,
	       "completions");
	EXPECT(side_peek(&b, BLOCK_AT) == 42, "%llu", (unsigned long long)side_peek(&b, BLOCK_AT));
	EXPECT(n->arena[RESULT_AT] == 37 && n->arena[RESULT_AT + bytes] == 0xcc, "result");
	EXPECT(side_poll(&b, 1, 1, PROBE_PATIENCE, wc) == 1, "not received");
	probe_reconnect(&a, &b, qp);
}

/* Another process leaves the old value of such a queue pair's operations for the poller. */
static void open_inline(void)
{
	struct node_qp_spec spec = spec_default();
	struct ibv_exp_qp_init_attr init = {
		.sq_sig_all = 1,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_INL_RECV | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.max_atomic_arg = 32,
		.max_inl_recv = 64,
	};

	exp_need_rc(n, QP_INLINE, &init);
	if (init.max_inl_recv != 64 || side_create_qp(&b, QP_INLINE, &spec, NULL))
		DIE("queue pairs: errno %d", errno);
	pair_connect(&a, QP_INLINE, NULL, &b, QP_INLINE, NULL);
}

static void waiting_rows(void)
{
	open_inline();
	for (size_t s = 0; s < COUNT_OF(sizes); s++) {
		waiting_row(QP_PEER, sizes[s]);
		waiting_row(QP_INLINE, sizes[s]);
	}
	pair_destroy(&a, QP_INLINE, &b, QP_INLINE);
}

/* --- creating queue pairs -------------------------------------------------------- */

static void create_rows(void)
{
	for (uint32_t bytes = 0; bytes <= 64; bytes++) {
		int err = extended_create_qp(n, QP_UC + 1, IBV_QPT_RC, bytes);

		row("a queue pair with operands of up to %u bytes", bytes);
		EXPECT(err == (bytes > 32 ? EINVAL : 0), "errno %d", err);
		EXPECT(err || side_destroy_qp(&a, QP_UC + 1) == 0, "ibv_destroy_qp");
	}
}

/* In all slots of a ring whose elements and inline data leave no room to spare. */
static void ring_row(void)
{
	struct av_atomic atomic = {.op = AV_ATOMIC_ADD, .bytes = 32, .value = {{1, 2, 3, 4}}};
	uint64_t want[4] = {0};

	row("all slots of the ring");
	for (unsigned int i = 0; i < 64; i += 8)
		side_poke(&b, BLOCK_AT + i, 0);
	for (int i = 0; i < 300; i++) {
		struct ibv_sge sge[NODE_SGE];
		struct ibv_exp_send_wr wr;

		for (int k = 0; k < NODE_SGE; k++)
			sge[k] = at(RESULT_AT + (unsigned int)k, k < 32);
		extended_request(&wr, &atomic, i & 1, b.info.base[KEY_FULL] + BLOCK_AT,
				 b.info.key[KEY_FULL], sge,
				 spec_default().cap.max_send_sge < 32 ? 1 : NODE_SGE);
		if (wr.num_sge == 1)
			sge[0].length = 32;
		EXPECT(extended_do(n, QP_PEER, &wr).status == SUCCESS, "status");
		EXPECT(memcmp(n->arena + RESULT_AT, want, 32) == 0, "result %d", i);
		for (unsigned int k = 0; k < 4; k++)
			want[k] += k + 1;
	}
}

/* --- */

static void open_pairs(void)
{
	struct node_qp_spec spec = spec_default();

	if (extended_create_qp(n, QP_PEER, IBV_QPT_RC, 32) ||
	    extended_create_qp(n, QP_SELF, IBV_QPT_RC, 32) ||
	    extended_create_qp(n, QP_SMALL, IBV_QPT_RC, 4) ||
	    side_create_qp(&a, QP_PLAIN, &spec, NULL) ||
	    extended_create_qp(n, QP_UC, IBV_QPT_UC, 32) ||
	    side_create_qp(&b, QP_PEER, &spec, NULL) || side_create_qp(&b, QP_SMALL, &spec, NULL) ||
	    side_create_qp(&b, QP_PLAIN, &spec, NULL))
		DIE("queue pairs: errno %d", errno);
	pair_connect(&a, QP_PEER, NULL, &b, QP_PEER, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
	pair_connect(&a, QP_SMALL, NULL, &b, QP_SMALL, NULL);
	pair_connect(&a, QP_PLAIN, NULL, &b, QP_PLAIN, NULL);
}

static void run(void)
{
	all_targets();
	window_rows();
	list_rows();
	plain_poll_rows();
	refused_rows();
	pointer_rows();
	plain_post_rows();
	fault_rows();
	misaligned_rows();
	gone_rows();
	qp_rows();
	waiting_rows();
	create_rows();
	ring_row();
}

int main(int argc, char **argv)
{
	struct side_job end = {{KIND_N}};

	side_work = agent;
	two_sides_open(argc, argv);
	n = a.node;
	open_pairs();
	side_connect_uc_to_itself(&a, QP_UC, 0);
	run();
	unmake_all();
	side_begin(&b, &end);
	side_end(&b);
	side_destroy_qp(&a, QP_UC);
	side_destroy_qp(&a, QP_SELF);
	pair_destroy(&a, QP_PEER, &b, QP_PEER);
	pair_destroy(&a, QP_SMALL, &b, QP_SMALL);
	pair_destroy(&a, QP_PLAIN, &b, QP_PLAIN);
	return two_sides_close();
}
