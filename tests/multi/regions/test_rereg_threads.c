/* SPDX-License-Identifier: MIT */
/*
 * Threads that re-register without pause while others use the same regions: receives into one that
 * changes, and writes from one to the other while both do; and two that change the same one.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <infiniband/verbs_exp.h>

#include "rereg_fixture.h"

#define RING_BYTES 16384u
#define SLACK_MS   20000u /* on a busy host a thread may be long without a core */

static struct ibv_mr *ring[2];
static atomic_bool stop;
static _Atomic uint64_t moved[2], changed[2];

static void *changer(void *arg)
{
	int me = (int)(intptr_t)arg;
	unsigned int access = PROBE_ALL | IBV_ACCESS_ZERO_BASED;

	while (!atomic_load(&stop)) {
		NEED(ibv_rereg_mr(ring[me], ACCESS, NULL, NULL, 0, (int)access) == 0);
		atomic_fetch_add(&changed[me], 1);
	}
	return NULL;
}

static void change_while(void (*work)(uint32_t bytes), uint32_t bytes)
{
	pthread_t thread;

	atomic_store(&stop, false);
	changed[0] = 0;
	ring[0] = ibv_reg_mr(n->pd, n->arena + OLD_AT, 65536, PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	pthread_create(&thread, NULL, changer, (void *)0);
	while (changed[0] <= 10)
		sched_yield();
	work(bytes);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	EXPECT(ibv_dereg_mr(ring[0]) == 0, "ibv_dereg_mr");
}

static struct node_recv changing_receive(uint32_t bytes)
{
	return (struct node_recv){.num_sge = 1,
				  .sge = {{.addr = 8, .length = bytes, .lkey = ring[0]->lkey}}};
}

static void expect_message(uint32_t bytes, uint64_t number)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (node_poll(n, 1, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("message %lu: no receive completion", number);
	EXPECT(wc.status == IBV_WC_SUCCESS, "message %lu: receive '%s'", number,
	       ibv_wc_status_str(wc.status));
	EXPECT(pattern_check(n->arena + OLD_AT + 8, bytes, number, 0) == -1, "message %lu: bytes",
	       number);
}

static void messages_from_other(uint32_t bytes)
{
	struct node_recv r = changing_receive(bytes);
	struct node_send s = side_message(side_sge(&b, KEY_FULL, PROBE_AT, bytes));
	enum ibv_wc_status got;

	for (uint64_t i = 0; (i < 500 || changed[0] < 500) && failures() == 0; i++) {
		side_fill(&b, PROBE_AT, bytes, i, 0);
		EXPECT(node_post_recv(n, 0, &r, 1).ret == 0, "ibv_post_recv");
		got = probe_request(&b, &a, 0, &s);
		if (EXPECT(got == IBV_WC_SUCCESS, "message %lu: '%s'", i, ibv_wc_status_str(got)))
			expect_message(bytes, i);
	}
}

/* Queue pair 4 sends to itself, out of the changing region as well. */
static void messages_from_self(uint32_t bytes)
{
	struct node_recv r = changing_receive(bytes);
	struct node_send s = {.opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .num_sge = 2};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	s.sge[0] = side_sge(&a, KEY_FULL, PROBE_AT, bytes - 4);
	s.sge[1] = (struct ibv_sge){.addr = 60000, .length = 4, .lkey = ring[0]->lkey};
	for (uint64_t i = 0; (i < 500 || changed[0] < 500) && failures() == 0; i++) {
		pattern_fill(n->arena + PROBE_AT, bytes - 4, i, 0);
		pattern_fill(n->arena + OLD_AT + 60000, 4, i, bytes - 4);
		EXPECT(node_post_recv(n, 4, &r, 1).ret == 0 && node_post_send(n, 4, &s, 1).ret == 0,
		       "post");
		EXPECT(node_poll(n, 0, 1, PROBE_PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
		       "message %lu: '%s'", i, ibv_wc_status_str(wc.status));
		expect_message(bytes, i);
	}
}

static void message_rows(void)
{
	static const uint32_t sizes[] = {8, 5000, 40000};

	pair_create(&a, 4, &a, 4, NULL);
	pair_connect(&a, 4, NULL, &a, 4, NULL);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		row("messages of %u bytes from another process into a region that changes all the "
		    "time",
		    sizes[i]);
		change_while(messages_from_other, sizes[i]);
		row("messages of %u bytes from and into a region that changes all the time",
		    sizes[i]);
		change_while(messages_from_self, sizes[i]);
	}
	pair_destroy(&a, 4, &a, 4);
}

/*
 * Both ends at once: who writes from one region to the other while both change must not wait in a
 * circle.
 */

static void *writer(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct node_send s = {.opcode = IBV_WR_RDMA_WRITE,
			      .flags = IBV_SEND_SIGNALED,
			      .rkey = ring[!me]->rkey,
			      .num_sge = 1,
			      .sge = {{.length = RING_BYTES, .lkey = ring[me]->lkey}}};
	struct ibv_wc wc;

	while (!atomic_load(&stop)) {
		if (node_post_send(n, 2 + me, &s, 1).ret ||
		    node_poll(n, 2 + me, 1, PROBE_PATIENCE, &wc) != 1)
			DIE("a WRITE between regions that change has no completion");
		if (wc.status != IBV_WC_SUCCESS)
			DIE("a WRITE between regions that change: '%s'",
			    ibv_wc_status_str(wc.status));
		atomic_fetch_add(&moved[me], 1);
	}
	return NULL;
}

static void ring_open(void)
{
	struct node_qp_spec spec = spec_default();

	for (uint32_t i = 0; i < 2; i++) {
		if (node_create_cq(n, 2 + (int)i, 16, false))
			DIE("ibv_create_cq");
		spec.send_cq = spec.recv_cq = 2 + i;
		if (node_create_qp(n, 2 + (int)i, &spec))
			DIE("ibv_create_qp");
		ring[i] = ibv_reg_mr(n->pd, n->arena + (i ? NEW_AT : OLD_AT), RING_BYTES,
				     PROBE_ALL | IBV_ACCESS_ZERO_BASED);
	}
	pair_connect(&a, 2, NULL, &a, 3, NULL);
}

static bool all_have_worked(void)
{
	return moved[0] > 10 && moved[1] > 10 && changed[0] > 10 && changed[1] > 10;
}

static void circle_row(void)
{
	pthread_t thread[4];
	struct timespec limit;
	uint64_t end;

	row("regions written from one to the other, both changing without pause");
	atomic_store(&stop, false);
	changed[0] = changed[1] = 0;
	ring_open();
	for (intptr_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, i < 2 ? writer : changer, (void *)(i & 1));
	end = now_ms() + 1500;
	while (now_ms() < end + SLACK_MS && (now_ms() < end || !all_have_worked()))
		sched_yield();
	atomic_store(&stop, true);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 30;
	for (int i = 0; i < 4; i++)
		if (pthread_timedjoin_np(thread[i], NULL, &limit))
			DIE("they wait for each other: %lu and %lu written, %lu and %lu changes",
			    moved[0], moved[1], changed[0], changed[1]);
	EXPECT(all_have_worked(), "%lu and %lu written, %lu and %lu changes", moved[0], moved[1],
	       changed[0], changed[1]);
	for (int i = 0; i < 2; i++)
		EXPECT(ibv_dereg_mr(ring[i]) == 0, "ibv_dereg_mr");
}

/* Each change lets go what the other's has put there: the domain, now and then memory, too. */

#define RIVAL_CHANGES 20000u
#define RIVAL_MOVES   64u /* one of so many */

static struct ibv_pd *rival_pd[2];

static void *rival(void *arg)
{
	int me = (int)(intptr_t)arg;

	for (unsigned int i = 0; i < RIVAL_CHANGES;) {
		bool moves = i % RIVAL_MOVES == 0;
		int err =
			ibv_exp_rereg_mr(ring[0], moves ? TRANSLATION | PD : PD, rival_pd[me], NULL,
					 RING_BYTES, moves ? IBV_EXP_ACCESS_ALLOCATE_MR : 0, NULL);

		if (err && err != EBUSY)
			DIE("ibv_exp_rereg_mr: %d", err);
		if (err)
			sched_yield();
		else
			i++;
	}
	return NULL;
}

static void rivals_row(void)
{
	pthread_t thread[2];

	row("two threads change one region: one of them, or EBUSY");
	ring[0] = ibv_reg_mr(n->pd, n->arena + OLD_AT, RING_BYTES, PROBE_ALL);
	for (int i = 0; i < 2; i++)
		rival_pd[i] = ibv_alloc_pd(n->ctx);
	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, rival, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	EXPECT(ibv_dereg_mr(ring[0]) == 0, "ibv_dereg_mr: errno %d", errno);
	for (int i = 0; i < 2; i++)
		EXPECT(ibv_dealloc_pd(rival_pd[i]) == 0, "ibv_dealloc_pd: errno %d", errno);
}

static void run(void)
{
	message_rows();
	circle_row();
	rivals_row();
}

int main(int argc, char **argv)
{
	return rereg_test(argc, argv, run);
}
