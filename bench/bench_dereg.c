/* SPDX-License-Identifier: MIT */
/*
 * Does deregistration wait for unrelated traffic? Registers and deregisters a page, first alone,
 * then while a thread of this process and another process write large messages through other keys
 * of the same context. Waiting for such a message would show: it takes as long as many
 * deregistrations.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "lib/expect.h"
#include "lib/wait.h"
#include "measure.h"

#define PAGE	    4096u
#define BYTES	    (1u << 20) /* of one message */
#define SAMPLES	    4001
#define PATIENCE_MS 60000u

/* Shared by the two processes. */
struct meeting {
	_Atomic uint32_t ready[2]; /* the QP number */
	union ibv_gid gid[2];
	_Atomic uint64_t target; /* where the other process writes, and the rkey */
	_Atomic uint32_t rkey;
	_Atomic bool run; /* keep traffic running */
	_Atomic bool quit;
	_Atomic uint64_t messages; /* messages sent so far */
};

static struct meeting *meeting;
static struct end e;

static void wait_while_zero(_Atomic uint32_t *word)
{
	if (!WAIT_UNTIL(atomic_load(word) != 0, PATIENCE_MS))
		DIE("the other process does not come");
}

static void meet(int me)
{
	meeting->gid[me] = e.gid;
	atomic_store(&meeting->ready[me], e.qp[0]->qp_num);
	wait_while_zero(&meeting->ready[!me]);
	end_connect(e.qp[0], atomic_load(&meeting->ready[!me]), &meeting->gid[!me]);
}

/* --- traffic --------------------------------------------------------------------- */

/* Write while traffic is wanted, until told to stop. */
static void write_on(struct end *from, struct ibv_qp *qp, const struct transfer *t)
{
	while (!atomic_load(&meeting->quit)) {
		if (!atomic_load(&meeting->run)) {
			wait_moment();
			continue;
		}
		end_transfer(from, qp, t);
		atomic_fetch_add(&meeting->messages, 1);
	}
}

static int other_process(void)
{
	void *at = bench_map(BYTES, PROT_READ | PROT_WRITE, MAP_POPULATE);
	struct transfer t = {.opcode = IBV_WR_RDMA_WRITE, .local = (uintptr_t)at, .bytes = BYTES};
	struct ibv_mr *mr;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	time_limit(120);
	end_open(&e);
	mr = end_reg(&e, at, BYTES, END_RIGHTS);
	end_add_qp(&e, 16);
	meet(1);
	wait_while_zero(&meeting->rkey);
	t.lkey = mr->lkey;
	t.remote = atomic_load(&meeting->target);
	t.rkey = atomic_load(&meeting->rkey);
	write_on(&e, e.qp[0], &t);
	end_dereg(mr);
	end_close(&e);
	return 0;
}

/* The same within this process, on queue pairs and a CQ of its own in the same context. */
static void *other_thread(void *arg)
{
	struct end mine = {.ctx = e.ctx, .pd = e.pd, .gid = e.gid};

	mine.cq = ibv_create_cq(e.ctx, 16, NULL, NULL, 0);
	if (!mine.cq)
		DIE("ibv_create_cq");
	end_add_pairs(&mine, 2, 16);
	write_on(&mine, mine.qp[0], arg);
	while (mine.qps)
		end_drop_qp(&mine);
	free(mine.qp);
	if (ibv_destroy_cq(mine.cq))
		DIE("ibv_destroy_cq");
	return NULL;
}

/* --- deregistering --------------------------------------------------------------- */

/* Median over single deregistrations. */
static double dereg_ns(void *at)
{
	static double ns[SAMPLES];
	int samples = bench_count(SAMPLES, 5);

	for (int i = 0; i < samples; i++) {
		struct ibv_mr *mr = end_reg(&e, at, PAGE, END_RIGHTS);
		uint64_t begin = now_ns();

		end_dereg(mr);
		ns[i] = ns_each(begin, 1);
	}
	return median_of(ns, samples);
}

static void wait_for_messages(uint64_t number)
{
	if (!WAIT_UNTIL(atomic_load(&meeting->messages) >= number, PATIENCE_MS))
		DIE("no traffic");
}

static double dereg_in_traffic_ns(void *at)
{
	double ns;

	atomic_store(&meeting->run, true);
	wait_for_messages(atomic_load(&meeting->messages) + 4);
	ns = dereg_ns(at);
	wait_for_messages(atomic_load(&meeting->messages) +
			  4); /* proves that traffic ran all the time */
	atomic_store(&meeting->run, false);
	return ns;
}

static double message_ns(const struct transfer *t)
{
	struct end mine = {.ctx = e.ctx, .pd = e.pd, .gid = e.gid, .cq = e.cq};
	double ns;

	end_add_pairs(&mine, 2, 16);
	ns = end_transfer_ns(&mine, mine.qp[0], t, bench_count(20, 1));
	end_drop_qp(&mine);
	end_drop_qp(&mine);
	free(mine.qp);
	return ns;
}

static struct series quiet, busy, ratio, part;

/* @at: a page that nobody writes to; @t: what the thread writes. */
static void run(void *at, const struct transfer *t)
{
	double message = message_ns(t), alone = dereg_ns(at), among = dereg_in_traffic_ns(at);

	series_add(&quiet, alone);
	series_add(&busy, among);
	series_add(&ratio, among / alone);
	series_add(&part, among / message);
}

static pid_t start_process(void)
{
	pid_t pid;

	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (meeting == MAP_FAILED)
		DIE("no memory");
	pid = fork();
	if (pid < 0)
		DIE("fork");
	if (pid == 0)
		exit(other_process());
	return pid;
}

int main(void)
{
	pid_t pid = start_process();
	struct transfer t = {.opcode = IBV_WR_RDMA_WRITE, .bytes = BYTES};
	uint8_t *at = bench_map(4 * BYTES, PROT_READ | PROT_WRITE, MAP_POPULATE);
	struct ibv_mr *mr;
	pthread_t thread;
	int status;

	time_limit(600);
	end_open(&e);
	end_add_qp(&e, 16);
	meet(0);
	mr = end_reg(&e, at, 3 * BYTES, END_RIGHTS);
	t.lkey = t.rkey = mr->lkey;
	t.local = (uintptr_t)at;
	t.remote = (uintptr_t)at + BYTES;
	atomic_store(&meeting->target, (uintptr_t)at + 2 * BYTES);
	atomic_store(&meeting->rkey, mr->rkey);
	if (pthread_create(&thread, NULL, other_thread, &t))
		DIE("pthread_create");
	for (int i = 0; i < BENCH_RUNS; i++)
		run(at + 3 * BYTES, &t);
	atomic_store(&meeting->quit, true);
	pthread_join(thread, NULL);
	if (waitpid(pid, &status, 0) != pid || status)
		DIE("the other process failed");
	series_print(&quiet, "dereg_ns", "4KiB");
	series_print(&busy, "dereg_in_traffic_ns", "4KiB");
	series_print_most(&ratio, "dereg_in_traffic/alone", "4KiB", 3);
	series_print_most(&part, "dereg/message_of_others", "1MiB", 0.05);
	end_dereg(mr);
	end_close(&e);
	return 0;
}
