/* SPDX-License-Identifier: MIT */
/* The checker of the lock order, in builds that have it. */
#include "base/lock_order.h"

#if defined(AV_CHECK_LOCKS)

#include <stdio.h>
#include <stdlib.h>

#define HELD_MAX 32u /* both execution rights and a few locks below them */

static _Thread_local struct {
	unsigned int count;
	struct {
		const void *lock;
		enum av_lock_rank rank;
	} at[HELD_MAX];
} held;

static const char *const name[] = {
	[AV_RANK_APPEND] = "append",	   [AV_RANK_EXEC] = "exec",
	[AV_RANK_RESP] = "resp",	   [AV_RANK_SENDER] = "assist.sender",
	[AV_RANK_PIECE] = "assist.piece",  [AV_RANK_KEY_RIGHT] = "right to a key",
	[AV_RANK_POLL] = "poll_lock",	   [AV_RANK_CQ] = "CQ",
	[AV_RANK_POST_RECV] = "post_lock", [AV_RANK_TAKE_RECV] = "take_lock",
	[AV_RANK_ATOMIC] = "atomic",	   [AV_RANK_KEY] = "key",
};

static __attribute__((noreturn)) void fail(const char *what, const char *first, const char *second)
{
	fprintf(stderr, "anyverbs: lock order: %s: %s, %s\n", what, first, second);
	abort();
}

void av_lock_order_taken(const void *lock, enum av_lock_rank rank)
{
	if (held.count == HELD_MAX)
		fail("too many locks held", name[rank], "the last one taken");
	held.at[held.count].lock = lock;
	held.at[held.count++].rank = rank;
}

/* A program may build requests on several queue pairs at once: ibv_wr_start(3). */
static bool may_wait(enum av_lock_rank have, enum av_lock_rank want)
{
	return have < want || (have == AV_RANK_APPEND && want == AV_RANK_APPEND);
}

void av_lock_order_wait(const void *lock, enum av_lock_rank rank)
{
	for (unsigned int i = 0; i < held.count; i++)
		if (!may_wait(held.at[i].rank, rank))
			fail("held while another is waited for", name[held.at[i].rank], name[rank]);
	av_lock_order_taken(lock, rank);
}

void av_lock_order_released(const void *lock)
{
	for (unsigned int i = held.count; i-- > 0;) {
		if (held.at[i].lock != lock)
			continue;
		for (held.count--; i < held.count; i++)
			held.at[i] = held.at[i + 1];
		return;
	}
	fail("released, not held", "by this thread", "a lock");
}

void av_lock_order_assert(const void *lock, const char *where)
{
	for (unsigned int i = 0; i < held.count; i++)
		if (held.at[i].lock == lock)
			return;
	fail("not held", "by this thread", where);
}

void av_lock_order_forked(void)
{
	held.count = 0;
}

#endif
