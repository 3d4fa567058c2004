/* SPDX-License-Identifier: MIT */
/* Two processes and their regions for tunneled atomics. */
#include "tunneled_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/sandbox.h"
#include "lib/switches_in_force.h"

struct side a, b;
struct node *n;
struct ibv_mr *made[KIND_N];
uint32_t rkey[KIND_N];

const char *const way_name[] = {"WRITE", "inline", "from a list", "with immediate",
				"ibv_exp_post_send"};

/* --- regions, in either process -------------------------------------------------- */

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
		NEED(ibv_dereg_mr(made[kind]) == 0);
	return 0;
}

uint32_t ask(struct side *s, enum kind kind)
{
	struct side_job job = {{kind}};

	side_begin(s, &job);
	return (uint32_t)side_end(s);
}

/* --- one WRITE ------------------------------------------------------------------- */

struct node_send write_request(const struct target *t, enum way way, uint64_t addr, uint32_t bytes)
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
	struct ibv_exp_send_wr wr = {
		.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = t->rkey;
	return extended_do(n, t->qp, &wr).status;
}

void expect_immediate(const struct target *t, uint32_t bytes, enum ibv_wc_status want)
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

enum ibv_wc_status write_payload(const struct target *t, enum way way, uint64_t addr,
				 uint32_t bytes)
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

void recover(const struct target *t)
{
	if (t->side == &b)
		probe_reconnect(&a, &b, t->qp);
	else
		probe_reconnect(&a, &a, t->qp);
}

void open_uc(void)
{
	if (extended_create_qp(n, QP_UC, IBV_QPT_UC, 0))
		DIE("no queue pair");
	side_connect_uc_to_itself(&a, QP_UC, IBV_ACCESS_REMOTE_WRITE);
}

struct av_atomic operation(enum av_atomic_op op, uint32_t bytes, uint64_t value)
{
	return (struct av_atomic){.op = op, .bytes = bytes, .value = {{value}}};
}

void put_commands(const struct anyverbs_tunneled_atomic *c, unsigned int count)
{
	memcpy(n->arena + SOURCE_AT, c, count * sizeof(*c));
}

/* --- the block ------------------------------------------------------------------- */

void set_block(const struct target *t, const uint8_t *block)
{
	for (unsigned int i = 0; i < BLOCK; i += 8) {
		uint64_t word;

		memcpy(&word, block + i, 8);
		side_poke(t->side, BLOCK_AT + i, word);
	}
}

void expect_block(const struct target *t, const uint8_t *block)
{
	for (unsigned int i = 0; i < BLOCK; i += 8) {
		uint64_t word = side_peek(t->side, BLOCK_AT + i), want;

		memcpy(&want, block + i, 8);
		EXPECT(word == want, "bytes %u.. are 0x%llx, not 0x%llx", i,
		       (unsigned long long)word, (unsigned long long)want);
	}
}

void blank(uint8_t *block)
{
	memset(block, 0x5a, BLOCK);
}

struct target peer(const char *name, enum kind kind)
{
	return (struct target){name, QP_PEER, &b, rkey[kind], b.info.base[KEY_FULL] + BLOCK_AT};
}

struct target self(const char *name, uint32_t key)
{
	return (struct target){name, QP_SELF, &a, key, a.info.base[KEY_FULL] + BLOCK_AT};
}

/* --- */

static void open_pairs(void)
{
	struct node_qp_spec spec = spec_default();

	if (extended_create_qp(n, QP_PEER, IBV_QPT_RC, 8) ||
	    extended_create_qp(n, QP_SELF, IBV_QPT_RC, 8) ||
	    side_create_qp(&b, QP_PEER, &spec, NULL))
		DIE("queue pairs: errno %d", errno);
	pair_connect(&a, QP_PEER, NULL, &b, QP_PEER, NULL);
	pair_connect(&a, QP_SELF, NULL, &a, QP_SELF, NULL);
}

static void make_all(void)
{
	for (enum kind kind = 0; kind <= KIND_IMPLICIT; kind++)
		make(n, kind);
	for (enum kind kind = 0; kind < KIND_N; kind++)
		rkey[kind] = ask(&b, kind);
}

static void open_all(void)
{
	switches_in_force("IBM_TUNNELED_ATOMIC_EN");
	side_open(&a, NULL);
	side_start(&b);
	n = a.node;
	open_pairs();
	make_all();
}

static void close_all(void)
{
	struct side_job end = {{KIND_N}};

	for (enum kind kind = 0; kind <= KIND_IMPLICIT; kind++)
		EXPECT(ibv_dereg_mr(made[kind]) == 0, "ibv_dereg_mr");
	side_begin(&b, &end);
	side_end(&b);
	side_destroy_qp(&a, QP_SELF);
	pair_destroy(&a, QP_PEER, &b, QP_PEER);
	side_stop(&b);
	side_stop(&a);
	switches_in_force(NULL);
}

int tunneled_test(int argc, char **argv, void (*off)(void), void (*run)(void))
{
	side_work = agent;
	sides_begin(argc, argv, 220);
	switches_in_force(NULL);
	if (off)
		off();
	open_all();
	run();
	close_all();
	return sandbox_end();
}
