/* SPDX-License-Identifier: MIT */
/* The slow part of the cross-process lock: wait, and check whether the owner lives. */
#include "base/lock.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/uncancelled.h"

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

static bool is_dead(uint32_t owner)
{
	return owner != 0 && owner != av_lock_self && time_to_ask() && !av_lock_owner_alive(owner);
}

/*
 * Take the lock over if its owner is dead.
 * Return:  does the caller hold it now?
 */
static bool take_over(struct av_lock *lock, uint32_t owner)
{
	return is_dead(owner) && atomic_compare_exchange_strong(&lock->owner, &owner, av_lock_self);
}

enum av_lock_result av_lock_wait(struct av_lock *lock)
{
	return av_lock_wait_until(lock, UINT64_MAX);
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
		if (turn >= AV_BACKOFF_SPINS && take_over(lock, owner))
			return AV_LOCK_REPAIR;
		if (av_backoff_enough(turn) && av_now_ns() >= until_ns)
			return AV_LOCK_BUSY;
		av_backoff(turn);
	}
}

enum av_lock_result av_lock_try_dead(struct av_lock *lock)
{
	return take_over(lock, av_lock_other(lock)) ? AV_LOCK_REPAIR : AV_LOCK_BUSY;
}
