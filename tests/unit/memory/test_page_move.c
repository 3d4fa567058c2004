/* SPDX-License-Identifier: MIT */
/* Pages move when nobody uses them, behind no key of any context of the process. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "memory/key.h"
#include "memory/region.h"
#include "unit/memory/fake_heap.h"

#define DEAD  0x7ffffffu /* identity of no process */
#define BEGIN 0x100000ul /* the pages that move */
#define END   0x104000ul

static struct fake_heap heap[2]; /* two contexts */
static uint32_t *peer;		 /* identity of a process that lives */
static pid_t peer_pid;

static int start_peer(void **state)
{
	peer = mmap(NULL, sizeof(*peer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (own_directory_join(state) || peer == MAP_FAILED)
		return -1;
	peer_pid = fork();
	if (peer_pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody running */
		if (av_dir_join(NULL))
			_exit(1);
		__atomic_store_n(peer, av_lock_self, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	alarm(60); /* if it cannot join */
	while (!__atomic_load_n(peer, __ATOMIC_ACQUIRE))
		sched_yield();
	return 0;
}

static int end_peer(void **state)
{
	kill(peer_pid, SIGKILL);
	waitpid(peer_pid, NULL, 0);
	return own_directory_leave(state);
}

static int set_up(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(heap); i++) {
		fake_heap_open(&heap[i]);
		av_mm_quiesce_add(&heap[i].fake.seg);
	}
	return 0;
}

static int tear_down(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(heap); i++) {
		av_mm_quiesce_remove(&heap[i].fake.seg);
		fake_heap_close(&heap[i]);
	}
	return 0;
}

static void expect_moving(uint32_t moving)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(heap); i++)
		assert_int_equal(atomic_load(&heap[i].fake.seg.head->moving), moving);
}

/* A peer uses a key of such memory in these contexts. */
static const struct {
	uint64_t addr, length;
	bool used[2], lives, moves;
} rows[] = {
	{BEGIN, 1, {false, false}, true, true}, /* nobody does */
	{BEGIN, 1, {true, false}, true, false},
	{BEGIN, 1, {false, true}, true, false},
	{BEGIN, 1, {true, true}, true, false},
	{BEGIN, 1, {true, true}, false, true}, /* it is dead */
	{END - 1, 1, {true, false}, true, false},
	{END, 1, {true, true}, true, true},
	{BEGIN - 1, 1, {true, true}, true, true},
	{BEGIN - 1, 2, {false, true}, true, false},
	{0, 2 * END, {true, false}, true, false},
};

static uint32_t use(size_t i, size_t context)
{
	struct av_seg *seg = &heap[context].fake.seg;
	const struct av_key region = {
		.kind = AV_KEY_REGION, .addr = rows[i].addr, .length = rows[i].length};
	uint32_t key = av_key_create(seg, &region, 100), user = rows[i].lives ? *peer : DEAD;

	assert_int_not_equal(key, 0);
	atomic_store(&seg->head->pin[0].word,
		     rows[i].used[context] ? (uint64_t)user << 32 | key : 0);
	return key;
}

TEST_WITH(pages_move_when_no_context_has_a_user, set_up, tear_down)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		uint32_t key[2] = {use(i, 0), use(i, 1)};

		if (av_mm_quiesce_begin(BEGIN, END) != rows[i].moves)
			fail_msg("row %zu", i);
		expect_moving(rows[i].moves);
		if (rows[i].moves)
			av_mm_quiesce_end();
		expect_moving(0);
		for (size_t c = 0; c < AV_ARRAY_SIZE(heap); c++) {
			atomic_store(&heap[c].fake.seg.head->pin[0].word, 0);
			assert_int_equal(av_key_destroy(&heap[c].fake.seg, key[c], NULL), 0);
		}
	}
}

int main(void)
{
	return run_cases(start_peer, end_peer);
}
