/* SPDX-License-Identifier: MIT */
/*
 * Adopted memory that somebody writes while its pages move: a thread of the program, or a peer, who
 * may be killed in the middle. No store is lost.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adopt_fixture.h"
#include "lib/userfaultfd.h"

/* --- threads --------------------------------------------------------------------- */

static struct {
	_Atomic uint64_t *word;
	_Atomic bool stop;
	_Atomic uint64_t turns;
} writer;

static void *write_all_the_time(void *arg)
{
	while (!atomic_load(&writer.stop)) {
		for (size_t i = 0; i < BYTES / sizeof(uint64_t); i++)
			atomic_fetch_add_explicit(&writer.word[i], 1, memory_order_relaxed);
		atomic_fetch_add(&writer.turns, 1);
	}
	return NULL;
}

static void await_turn(void)
{
	uint64_t turns = atomic_load(&writer.turns);

	while (atomic_load(&writer.turns) < turns + 2)
		sched_yield();
}

static void expect_all_counted(const char *when)
{
	uint64_t turns, wrong = 0;

	atomic_store(&writer.stop, true);
	turns = atomic_load(&writer.turns);
	for (size_t i = 0; i < BYTES / sizeof(uint64_t); i++)
		wrong += atomic_load(&writer.word[i]) != turns;
	EXPECT(wrong == 0, "%lu words have lost a store, %s", (unsigned long)wrong, when);
}

static void start_writer(pthread_t *thread, uint8_t *p)
{
	writer.word = (void *)p;
	atomic_store(&writer.stop, false);
	atomic_store(&writer.turns, 0);
	if (pthread_create(thread, NULL, write_all_the_time, NULL))
		DIE("pthread_create");
	await_turn();
}

static void thread_before_row(void)
{
	uint8_t *p = map_private(BYTES);
	pthread_t thread;

	row("a process with two threads is left alone");
	start_writer(&thread, p);
	for (int i = 0; i < 20; i++) {
		struct ibv_mr *mr = reg(p, BYTES);

		expect_adopted(p, false);
		dereg(mr);
	}
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	expect_all_counted("registered 20 times");
	munmap(p, BYTES);
}

/* Threads that came after the registration go on while the pages move back. */
static void thread_after_row(bool by_fork)
{
	uint8_t *p = map_private(BYTES);
	struct ibv_mr *mr;
	pthread_t thread;

	row("a thread writes while the pages move back%s", by_fork ? " for a fork" : "");
	mr = reg_adopted(p, BYTES);
	start_writer(&thread, p);
	if (by_fork) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		waitpid(child, NULL, 0);
	} else {
		dereg(mr);
	}
	expect_adopted(p, false);
	await_turn();
	atomic_store(&writer.stop, true);
	pthread_join(thread, NULL);
	expect_all_counted("moved back");
	EXPECT(madvise(p, BYTES, MADV_DONTNEED) == 0 && p[0] == 0 && p[BYTES - 1] == 0,
	       "discarding afterwards");
	if (by_fork)
		dereg(mr);
	munmap(p, BYTES);
}

/* --- peers ----------------------------------------------------------------------- */

/* A request of 8 bytes from or to @at, and its end. */
static bool transfer(struct node *n, enum ibv_wr_opcode opcode, void *at, uint64_t remote,
		     uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)at, 8, n->mr[KEY_FULL]->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	if (ibv_post_send(n->qp[0], &wr, &bad))
		return false;
	while (ibv_poll_cq(n->cq[0], 1, &wc) == 0)
		;
	return wc.status == IBV_WC_SUCCESS;
}

/* READ each page's number, which was written a turn ago, and WRITE the next. Return: how often it
 * was the one
 */
static uint64_t count_up(struct node *n, const struct side_job *job)
{
	uint64_t *number = (void *)n->arena, good = 0;

	for (uint64_t i = 1; i <= job->arg[2]; i++) {
		for (size_t page = 0; page < PAGES - 1; page++) {
			uint64_t at = job->arg[0] + page * PAGE;

			number[0] = i;
			number[8] = 0;
			if (!transfer(n, IBV_WR_RDMA_READ, &number[8], at, (uint32_t)job->arg[1]) ||
			    !transfer(n, IBV_WR_RDMA_WRITE, &number[0], at, (uint32_t)job->arg[1]))
				return good;
			good += number[8] == i - 1;
		}
	}
	return good;
}

/*
 * The other process writes through one region, another region on the same memory comes and goes,
 * and with it the pages: no store is lost.
 */
static void peer_row(void)
{
	const uint64_t turns = TEST_SANITIZED ? 500 : 5000;
	const size_t bytes = 512 * PAGE; /* that many, so that moving takes long */
	uint8_t *p = map_private(bytes), *locked = map_private(PAGE);
	struct side_job job = {.arg = {(uintptr_t)p, 0, turns}};
	unsigned int moved = 0;
	struct ibv_mr *steady;
	uint64_t done, until;

	row("pages move while another process writes there");
	dereg(reg_adopted(p, bytes));
	if (syscall(SYS_mlock, locked, PAGE)) /* so this one is left alone */
		return;
	steady = reg(p, bytes);
	munmap(locked, PAGE);
	expect_adopted(p, false);
	job.arg[1] = steady->rkey;
	side_begin(&b, &job);
	/* They stay for once while the writer has no core in the middle of an access. */
	for (until = now_ms() + PATIENCE; moved < 50 && now_ms() < until;) {
		struct ibv_mr *mr = reg(p, bytes - PAGE);

		moved += !pages_private(p);
		dereg(mr);
	}
	done = side_end(&b);
	EXPECT(moved == 50, "moved %u times", moved);
	EXPECT(done == turns * (PAGES - 1), "%lu writes were there", (unsigned long)done);
	dereg(steady);
	munmap(p, bytes);
}

/* What a killed reader of the memory leaves behind must not stop its owner. */
static void kill_row(void)
{
	uint8_t *p = map_private(BYTES);
	struct side_job job = {.arg = {(uintptr_t)p, 0, 1u << 30}};
	struct ibv_mr *mr;

	row("the peer is killed in the middle");
	mr = reg(p, BYTES);
	job.arg[1] = mr->rkey;
	side_begin(&b, &job);
	while (atomic_load((_Atomic uint64_t *)(void *)p) < 100)
		sched_yield();
	side_kill(&b);
	dereg(mr);
	expect_adopted(p, false);
	munmap(p, BYTES);
}

static void run(void)
{
	thread_before_row();
	thread_after_row(false);
	thread_after_row(true);
	peer_row();
	kill_row();
}

int main(int argc, char **argv)
{
	need_userfaultfd();
	side_work = count_up;
	return adopt_test(argc, argv, run);
}
