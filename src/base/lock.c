/* SPDX-License-Identifier: MIT */
#include "base/lock.h"

#include "base/thread.h"
#include "base/wait.h"

/* The checker of the lock order, in builds that have it. */

#if defined(AV_CHECK_LOCKS)

#include <stdio.h>
#include <stdlib.h>

#define HELD_MAX 32u /* both queue pair locks and a few locks below them */

static _Thread_local struct {
	unsigned int count;
	struct {
		const void *lock;
		enum av_lock_rank rank;
	} at[HELD_MAX];
} held;

static const char *const name[] = {
	[AV_RANK_APPEND] = "append",	   [AV_RANK_REQUESTER] = "req_lock",
	[AV_RANK_RESPONDER] = "resp_lock", [AV_RANK_SENDER] = "coop.sender",
	[AV_RANK_CHUNK] = "coop.chunk",	   [AV_RANK_KEY_CHANGE] = "change of a key",
	[AV_RANK_POLL] = "poll_lock",	   [AV_RANK_CQ] = "CQ",
	[AV_RANK_POST_RECV] = "post_lock", [AV_RANK_TAKE_RECV] = "take_lock",
	[AV_RANK_ATOMIC] = "atomic",	   [AV_RANK_KEY] = "key",
};

static __attribute__((noreturn)) void abort_lock_order(const char *what, const char *first,
						       const char *second)
{
	fprintf(stderr, "anyverbs: lock order: %s: %s, %s\n", what, first, second);
	abort();
}

void av_lock_order_taken(const void *lock, enum av_lock_rank rank)
{
	if (held.count == HELD_MAX)
		abort_lock_order("too many locks held", name[rank], "the last one taken");
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
			abort_lock_order("held while another is waited for", name[held.at[i].rank],
					 name[rank]);
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
	abort_lock_order("released, not held", "by this thread", "a lock");
}

void av_lock_order_assert(const void *lock, const char *where)
{
	for (unsigned int i = 0; i < held.count; i++)
		if (held.at[i].lock == lock)
			return;
	abort_lock_order("not held", "by this thread", where);
}

void av_lock_order_forked(void)
{
	held.count = 0;
}

#endif

/* The slow part of the cross-process lock: wait, and check whether the owner lives. */

#define LIVENESS_NS 2000000u /* check at most this often, since it costs a system call */

static bool nobody_else(uint32_t owner)
{
	return false;
}

uint32_t av_lock_self = 1;
bool (*av_lock_owner_alive)(uint32_t owner) = nobody_else;

static _Thread_local uint64_t asked_ns;

static bool time_to_ask(void)
{
	uint64_t now = av_now_coarse_ns();

	if (now - asked_ns < LIVENESS_NS)
		return false;
	asked_ns = now;
	return true;
}

/* Take the lock over if its owner is dead. Return: does the caller hold it? */
static bool seize_dead_lock(struct av_lock *lock, uint32_t owner)
{
	return owner != 0 && owner != av_lock_self && time_to_ask() &&
	       !av_lock_owner_alive(owner) &&
	       atomic_compare_exchange_strong(&lock->owner, &owner, av_lock_self);
}

enum av_lock_result av_lock_wait_until(struct av_lock *lock, uint64_t until_ns)
{
	AV_UNCANCELLED;

	for (unsigned int turn = 0;; turn++) {
		uint32_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

		if (owner == 0) {
			if (atomic_compare_exchange_strong(&lock->owner, &owner, av_lock_self))
				return AV_LOCK_TAKEN;
			continue;
		}
		if (turn >= AV_BACKOFF_SPINS && seize_dead_lock(lock, owner))
			return AV_LOCK_REPAIR;
		if (av_backoff_enough(turn) && av_now_ns() >= until_ns)
			return AV_LOCK_BUSY;
		av_backoff(turn);
	}
}

enum av_lock_result av_lock_try_dead(struct av_lock *lock)
{
	return seize_dead_lock(lock, av_lock_other(lock)) ? AV_LOCK_REPAIR : AV_LOCK_BUSY;
}
