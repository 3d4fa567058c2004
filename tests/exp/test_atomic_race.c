/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations of every kind and size on one block of memory at a time: of two other
 * processes, and of threads of the one whose memory it is. Nothing is lost, also when one of the
 * processes is killed.
 *
 * The block is counters of 16 bits. Each worker adds 1 to a counter of its own and to one that all
 * have in common, by all operations in turn.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/exp_objects.h"
#include "lib/expect.h"
#include "lib/extended.h"
#include "lib/probe.h"
#include "lib/sandbox.h"
#include "lib/side.h"
#include "lib/switches_in_force.h"

#define BLOCK_AT  0x30000u /* of the block in the target's arena */
#define BLOCK	  32u
#define COUNTERS  (BLOCK / 2)
#define COMMON	  5u /* the counter of all; worker i has counter 2i too */
#define RESULT_AT 0x50000u
#define SOURCE_AT 0x60000u
#define THREADS	  2
#define WORKERS	  4 /* the others are processes */
#define VICTIM	  4
#define ROUNDS	  (TEST_SANITIZED ? 500u : 10000u) /* times WORKERS: less than 65536 */
#define KILLS	  (TEST_SANITIZED ? 3 : 10)

/* Where the block is. */
struct target {
	uint64_t addr;
	uint32_t rkey;
	uint32_t tunneled_rkey; /* 0: none */
};

/* --- one addition ---------------------------------------------------------------- */

enum way { WAY_PLAIN, WAY_SIZED, WAY_MASKED, WAY_EXCHANGE, WAY_TUNNELED };

static const struct kind {
	enum way way;
	uint32_t bytes;
} kinds[] = {
	{WAY_PLAIN, 8},	    {WAY_SIZED, 2},    {WAY_SIZED, 4},	  {WAY_SIZED, 16},
	{WAY_SIZED, 32},    {WAY_MASKED, 2},   {WAY_MASKED, 4},	  {WAY_MASKED, 8},
	{WAY_MASKED, 16},   {WAY_MASKED, 32},  {WAY_EXCHANGE, 2}, {WAY_EXCHANGE, 8},
	{WAY_EXCHANGE, 32}, {WAY_TUNNELED, 4}, {WAY_TUNNELED, 8},
};

static struct ibv_sge sge_of(const struct node *n, uint32_t at, uint32_t bytes)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)n->arena + at, .length = bytes, .lkey = n->info.lkey[KEY_FULL]};
}

static void finish(struct node *n, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_wc wc = extended_do(n, 0, wr);

	if (wc.status != IBV_WC_SUCCESS)
		DIE("'%s'", ibv_wc_status_str(wc.status));
}

static void add_plain(struct node *n, const struct target *t, const struct av_atomic *a,
		      uint32_t off)
{
	struct ibv_sge sge = sge_of(n, RESULT_AT, 8);
	struct ibv_exp_send_wr wr = {
		.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1};

	wr.wr.atomic.remote_addr = t->addr + off;
	wr.wr.atomic.rkey = t->rkey;
	wr.wr.atomic.compare_add = a->value.word[0];
	finish(n, &wr);
}

static void add_tunneled(struct node *n, const struct target *t, const struct av_atomic *a,
			 uint32_t off)
{
	struct anyverbs_tunneled_atomic c = tunneled_command(a, off);
	struct ibv_sge sge = sge_of(n, SOURCE_AT, sizeof(c));
	struct ibv_exp_send_wr wr = {
		.exp_opcode = IBV_EXP_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};

	memcpy(n->arena + SOURCE_AT, &c, sizeof(c));
	wr.wr.rdma.remote_addr = t->addr;
	wr.wr.rdma.rkey = t->tunneled_rkey;
	finish(n, &wr);
}

static void extended(struct node *n, const struct target *t, const struct av_atomic *a, bool masked,
		     uint32_t off)
{
	struct ibv_sge sge = sge_of(n, RESULT_AT, a->bytes);
	struct ibv_exp_send_wr wr;

	extended_request(&wr, a, masked, t->addr + off, t->rkey, &sge, 1);
	finish(n, &wr);
}

/* Exchange until nobody came between. The first guess is as good as any. */
static void add_by_exchange(struct node *n, const struct target *t, const struct av_atomic *add,
			    uint32_t off)
{
	struct av_atomic a = {.op = AV_ATOMIC_CMP_SWAP, .bytes = add->bytes};
	struct av_operand seen = {{0}};

	memset(&a.mask, 0xff, sizeof(a.mask));
	memset(&a.compare_mask, 0xff, sizeof(a.compare_mask));
	do {
		a.compare = a.value = seen;
		model_atomic(add, &a.value);
		extended(n, t, &a, true, off);
		memcpy(&seen, n->arena + RESULT_AT, a.bytes);
	} while (memcmp(&seen, &a.compare, a.bytes));
}

/* Add 1 to a counter. */
static void add_one(struct node *n, const struct target *t, const struct kind *kind,
		    uint32_t counter)
{
	uint32_t off = counter * 2 / kind->bytes * kind->bytes, in = counter * 2 - off;
	struct av_atomic a = {.op = AV_ATOMIC_ADD, .bytes = kind->bytes};
	enum way way = kind->way == WAY_TUNNELED && !t->tunneled_rkey ? WAY_SIZED : kind->way;

	a.value.word[in / 8] = 1ull << 8 * (in % 8);
	if (way == WAY_MASKED)
		for (unsigned int i = 0; i < AV_ATOMIC_WORDS; i++)
			a.mask.word[i] = 0x8000800080008000;
	switch (way) {
	case WAY_PLAIN:
		add_plain(n, t, &a, off);
		break;
	case WAY_EXCHANGE:
		add_by_exchange(n, t, &a, off);
		break;
	case WAY_TUNNELED:
		add_tunneled(n, t, &a, off);
		break;
	default:
		extended(n, t, &a, way == WAY_MASKED, off);
	}
}

/* --- workers: in any process ----------------------------------------------------- */

enum order { ORDER_OPEN, ORDER_ADD, ORDER_ADD_WIDE };

/* arg: the order and the worker's number; address; keys; rounds. */
static struct side_job order(enum order what, unsigned int worker, const struct target *t,
			     uint64_t rounds)
{
	return (struct side_job){
		{what | worker << 8, t->addr, t->rkey | (uint64_t)t->tunneled_rkey << 32, rounds}};
}

/* Counters at the ends of both halves of the block by one operation. */
static void add_wide(struct node *n, const struct target *t, uint64_t rounds)
{
	struct av_atomic a = {
		.op = AV_ATOMIC_ADD, .bytes = BLOCK, .value = {{1, 1ull << 48, 1, 1ull << 48}}};

	for (uint64_t i = 0; i < rounds; i++)
		extended(n, t, &a, true, 0);
}

static uint64_t work(struct node *n, const struct side_job *job)
{
	struct target t = {job->arg[1], (uint32_t)job->arg[2], (uint32_t)(job->arg[2] >> 32)};
	uint32_t worker = (uint32_t)job->arg[0] >> 8;

	switch (job->arg[0] & 0xff) {
	case ORDER_OPEN:
		return (uint64_t)extended_create_qp(n, 0, IBV_QPT_RC, BLOCK);
	case ORDER_ADD_WIDE:
		add_wide(n, &t, job->arg[3]);
		return 0;
	default:
		for (uint32_t i = 0; i < job->arg[3]; i++) {
			add_one(n, &t, &kinds[(i + worker * 3) % COUNT_OF(kinds)], 2 * worker);
			add_one(n, &t, &kinds[(i * 7 + worker) % COUNT_OF(kinds)], COMMON);
		}
		return 0;
	}
}

/* --- here ------------------------------------------------------------------------ */

static struct side a, workers[WORKERS], victim;
static struct target memory, device;
static struct ibv_exp_dm *dm;
static struct ibv_mr *plain_mr, *tunneled_mr, *device_mr;

static struct ibv_mr *need_mr(struct ibv_exp_reg_mr_in in, uint64_t rights)
{
	in.pd = a.node->pd;
	in.exp_access = rights | IBV_EXP_ACCESS_LOCAL_WRITE;
	return exp_need_mr(in);
}

static void open_targets(void)
{
	struct ibv_exp_alloc_dm_attr alloc = {.length = 4096};
	struct ibv_exp_reg_mr_in in = {.addr = a.node->arena, .length = NODE_ARENA};

	plain_mr = need_mr(in, IBV_EXP_ACCESS_REMOTE_ATOMIC);
	tunneled_mr = need_mr(in, IBV_EXP_ACCESS_TUNNELED_ATOMIC | IBV_EXP_ACCESS_REMOTE_WRITE);
	memory = (struct target){(uintptr_t)a.node->arena + BLOCK_AT, plain_mr->rkey,
				 tunneled_mr->rkey};
	dm = ibv_exp_alloc_dm(a.node->ctx, &alloc);
	in = (struct ibv_exp_reg_mr_in){.length = 4096, .comp_mask = IBV_EXP_REG_MR_DM, .dm = dm};
	device_mr = need_mr(in, IBV_EXP_ACCESS_REMOTE_ATOMIC);
	device = (struct target){64, device_mr->rkey, 0};
}

static void read_counters(const struct target *t, uint16_t *counter)
{
	struct ibv_exp_memcpy_dm_attr copy = {.memcpy_dir = IBV_EXP_DM_CPY_TO_HOST,
					      .host_addr = counter,
					      .dm_offset = t->addr,
					      .length = BLOCK};

	if (t != &device)
		memcpy(counter, a.node->arena + BLOCK_AT, BLOCK);
	else if (ibv_exp_memcpy_dm(dm, &copy))
		DIE("ibv_exp_memcpy_dm");
}

static void clear_counters(const struct target *t)
{
	uint16_t zeros[COUNTERS] = {0};
	struct ibv_exp_memcpy_dm_attr copy = {.memcpy_dir = IBV_EXP_DM_CPY_TO_DEVICE,
					      .host_addr = zeros,
					      .dm_offset = t->addr,
					      .length = BLOCK};

	if (t != &device)
		memset(a.node->arena + BLOCK_AT, 0, BLOCK);
	else if (ibv_exp_memcpy_dm(dm, &copy))
		DIE("ibv_exp_memcpy_dm");
}

struct thread {
	pthread_t id;
	struct node *node;
	struct side_job job;
};

static void *run_thread(void *arg)
{
	struct thread *t = arg;

	(void)work(t->node, &t->job);
	return NULL;
}

/* @counter: what they should be */
static void expect_counters(const struct target *t, const uint16_t *want)
{
	uint16_t counter[COUNTERS];

	read_counters(t, counter);
	for (unsigned int i = 0; i < COUNTERS; i++)
		EXPECT(counter[i] == want[i], "counter %u is %u, not %u", i, counter[i], want[i]);
}

static void all_at_once(const struct target *t, const char *name)
{
	struct thread thread[THREADS];
	uint16_t want[COUNTERS] = {[COMMON] = WORKERS * ROUNDS};

	row("all at once on %s", name);
	clear_counters(t);
	for (unsigned int i = THREADS; i < WORKERS; i++) {
		struct side_job job = order(ORDER_ADD, i, t, ROUNDS);

		side_begin(&workers[i], &job);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		thread[i].node = workers[i].node;
		thread[i].job = order(ORDER_ADD, i, t, ROUNDS);
		NEED(pthread_create(&thread[i].id, NULL, run_thread, &thread[i]) == 0);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(thread[i].id, NULL);
	for (unsigned int i = THREADS; i < WORKERS; i++)
		(void)side_end(&workers[i]);
	for (unsigned int i = 0; i < WORKERS; i++)
		want[2 * i] = ROUNDS;
	expect_counters(t, want);
}

/* --- one of them is killed ------------------------------------------------------- */

static void open_worker(struct side *s, int qp)
{
	struct node_qp_spec spec = spec_default();
	struct side_job job = order(ORDER_OPEN, 0, &memory, 0);
	uint64_t err;

	if (s->node) {
		err = work(s->node, &job);
	} else {
		side_begin(s, &job);
		err = side_end(s);
	}
	if (err || side_create_qp(&a, qp, &spec, NULL))
		DIE("queue pair");
	pair_connect(s, 0, NULL, &a, qp, NULL);
}

static void kill_victim(void)
{
	side_kill(&victim);
	while (side_async(&a, 0).any)
		;
	EXPECT(side_destroy_qp(&a, VICTIM) == 0, "ibv_destroy_qp");
}

/*
 * Whatever it was at, each half of its operations is done or not (DEVIATIONS.md): the counters of a
 * half are equal, and the halves differ by one operation at most. The others find nothing locked.
 */
static void expect_whole(const volatile uint16_t *counter)
{
	for (unsigned int half = 0; half < COUNTERS; half += COUNTERS / 2)
		EXPECT(counter[half] == counter[half + 7], "%u, but %u", counter[half],
		       counter[half + 7]);
	EXPECT((uint16_t)(counter[0] - counter[8] + 1) <= 2, "%u and %u", counter[0], counter[8]);
}

static void kill_row(void)
{
	const volatile uint16_t *counter = (const uint16_t *)(void *)(a.node->arena + BLOCK_AT);

	row("a process is killed");
	for (int i = 0; i < KILLS; i++) {
		struct side_job endless = order(ORDER_ADD_WIDE, VICTIM, &memory, UINT64_MAX),
				few = order(ORDER_ADD_WIDE, 0, &memory, 10);
		uint64_t end = now_ms() + 20000;

		clear_counters(&memory);
		side_start(&victim);
		open_worker(&victim, VICTIM);
		side_begin(&victim, &endless);
		while (counter[0] < 20 + 7 * (unsigned int)i)
			if (now_ms() > end)
				DIE("it does not begin");
		kill_victim();
		expect_whole(counter);
		clear_counters(&memory);
		(void)work(workers[0].node, &few);
		side_begin(&workers[THREADS], &few);
		(void)side_end(&workers[THREADS]);
		EXPECT(counter[0] == 20 && counter[15] == 20, "%u and %u", counter[0], counter[15]);
	}
}

/* --- */

int main(int argc, char **argv)
{
	side_work = work;
	sides_begin(argc, argv, 220);
	switches_in_force("IBM_TUNNELED_ATOMIC_EN");
	side_open(&a, NULL);
	for (int i = 0; i < WORKERS; i++) {
		if (i < THREADS)
			side_open(&workers[i], a.node->ctx);
		else
			side_start(&workers[i]);
		open_worker(&workers[i], i);
	}
	open_targets();
	all_at_once(&memory, "memory");
	all_at_once(&device, "device memory");
	kill_row();
	EXPECT(ibv_dereg_mr(plain_mr) == 0 && ibv_dereg_mr(tunneled_mr) == 0 &&
		       ibv_dereg_mr(device_mr) == 0 && ibv_exp_free_dm(dm) == 0,
	       "the end");
	for (int i = 0; i < WORKERS; i++)
		pair_destroy(&workers[i], 0, &a, i);
	for (int i = WORKERS - 1; i >= 0; i--)
		side_stop(&workers[i]);
	side_stop(&a);
	switches_in_force(NULL);
	return sandbox_end();
}
