/* SPDX-License-Identifier: MIT */
/*
 * An appender that is stopped in many places, while the owner goes on with another producer ring:
 * its entry is there once, and counted once, whether the owner has polled it meanwhile or not.
 */
#include "base/clock.h"
#include "lib/skipped_clock.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "unit/memory/fake_heap.h"
#include "unit/queue/event_fixture.h"

#define CAPACITY 8u
#define PEER	 2u

static struct fake_heap heap;
static struct av_seg *const seg = &heap.fake.seg;
static uint32_t at;
static struct av_cq_shared *cq;

static void make(void)
{
	fake_heap_open(&heap);
	at = av_cq_init(seg, CAPACITY, 0, 1, 1000, NULL);
	assert_int_not_equal(at, 0);
	cq = av_cq_at(seg, at);
}

static void end(void)
{
	av_cq_fini(seg, at);
	fake_heap_close(&heap);
}

static bool all_live(uint32_t owner)
{
	return true;
}

/* In the child. */
static void append_as_peer(void)
{
	struct av_cqe e = {.wr_id = 7};

	av_lock_self = PEER;
	seg->own = false;
	CHECK(av_cq_push(seg, at, &e, NULL) == 0);
}

/* Entries of that appender, and no others. */
static unsigned int poll_all(void)
{
	const struct av_cqe *e;
	unsigned int count = 0;

	while ((e = av_cq_peek(seg, cq)) != NULL) {
		assert_int_equal(e->wr_id, 7);
		av_cq_take(cq);
		count++;
	}
	return count;
}

/* Leave producer ring @from behind, if somebody holds its lock. */
static void leave(uint32_t from)
{
	bool held = atomic_load(&cq->producer[from].lock.owner) == PEER;

	av_cq_producer_look(seg, cq);
	if (held)
		clock_skip_ns(AV_STUCK_NS);
	av_cq_producer_look(seg, cq);
	assert_int_equal(av_cq_used(cq), held ? 1 - from : from);
}

static void go_on(pid_t child)
{
	int status;

	CHECK(ptrace(PTRACE_CONT, child, NULL, NULL) == 0);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Stopped after @steps. @early: the owner polls before it leaves the producer ring. Return: it got
 * so far
 */
static bool stop(unsigned int steps, uint32_t from, bool early)
{
	pid_t child;
	bool runs = true;
	unsigned int there = 0;

	make();
	if (from == 1) { /* by one who is stopped before */
		atomic_store(&cq->producer[0].lock.owner, PEER);
		leave(0);
		atomic_store(&cq->producer[0].lock.owner, 0);
		av_cq_producer_look(seg, cq);
	}
	child = start_stopped(append_as_peer);
	for (unsigned int i = 0; i < steps && runs; i++)
		runs = step(child);
	if (early)
		there = poll_all();
	if (runs) {
		leave(from);
		go_on(child);
	}
	there += poll_all();
	assert_int_equal(there, 1);
	assert_int_equal(atomic_load(&cq->producer[av_cq_used(cq)].tail), 1);
	assert_int_equal(av_cq_counted(cq).completions, 1);
	assert_int_equal(atomic_load(&cq->producer[0].lock.owner), 0);
	assert_int_equal(atomic_load(&cq->producer[1].lock.owner), 0);
	end();
	return runs;
}

TEST(its_entry_is_there_once)
{
	unsigned int stride;

	av_lock_owner_alive = all_live;
	make();
	stride = stride_of(append_as_peer) * (SANITIZED ? 10 : 1); /* that takes much longer */
	end();
	for (unsigned int way = 0; way < 4; way++)
		for (unsigned int steps = 1; stop(steps, way / 2, way % 2); steps += stride)
			;
}

int main(void)
{
	return run_cases(NULL, NULL);
}
