/* SPDX-License-Identifier: MIT */
/*
 * A lock for memory that several processes map. It survives the death of its holder.
 *
 * The word holds the identity of the owning *process* (av_lock_self); 0 is free. A waiter spins,
 * yields, then sleeps in short naps, and from time to time checks whether the owner still lives. A
 * waiter takes over the lock of a dead owner, and is told so: it repairs what the lock protects. A
 * release wakes nobody, so it is a single store.
 *
 * Why not a robust pthread mutex: uncontended it costs four times as much (two atomic operations
 * and the robust list). These locks are taken on paths whose whole budget is about 100 ns.
 *
 * The same word serves as an execution right: queue/qp.h says what may be done while it is held.
 *
 * Rules for locks: not recursive. A lock is held for bounded work only. While one is held, no
 * memory of the program is touched and nothing is waited for. Taking one names its rank
 * (base/lock_order.h).
 */
#ifndef AV_BASE_LOCK_H
#define AV_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/lock_order.h"

struct av_lock {
	_Atomic uint32_t owner; /* process identity of the holder, 0: free */
};

enum av_lock_result {
	AV_LOCK_BUSY = -1,  /* av_lock_try(), av_lock_wait_until(): held by a living process */
	AV_LOCK_TAKEN = 0,  /* now held by the caller */
	AV_LOCK_REPAIR = 1, /* the same, and its last holder died holding it: repair first */
};

/*
 * This process's identity. Set by av_process_join() before any lock is taken, and again in a forked
 * child.
 */
extern uint32_t av_lock_self;

/*
 * Is the process with this identity alive? Set together with av_lock_self. May be slow (system
 * calls).
 */
extern bool (*av_lock_owner_alive)(uint32_t owner);

/* The slow part of av_lock_acquire(). */
enum av_lock_result av_lock_wait(struct av_lock *lock);

/* The same, up to that moment of av_now_ns(). Return: also AV_LOCK_BUSY */
enum av_lock_result av_lock_wait_until(struct av_lock *lock, uint64_t until_ns);

/* The slow part of av_lock_try(). */
enum av_lock_result av_lock_try_dead(struct av_lock *lock);

/*
 * Make the caller's atomic read-modify-write, just before, a full barrier. On x86 it already is
 * one. Elsewhere later accesses might be performed before its store.
 */
#if defined(__x86_64__)
#define av_barrier_behind_rmw() atomic_signal_fence(memory_order_seq_cst)
#else
#define av_barrier_behind_rmw() atomic_thread_fence(memory_order_seq_cst)
#endif

/**
 * av_lock_acquire() - take the lock, and wait for it
 * Return:  AV_LOCK_TAKEN or AV_LOCK_REPAIR
 */
AV_MUST_USE static inline enum av_lock_result av_lock_acquire(struct av_lock *lock,
							      enum av_lock_rank rank)
{
	uint32_t free = 0;

	av_lock_order_wait(lock, rank);
	return av_likely(atomic_compare_exchange_strong(&lock->owner, &free, av_lock_self))
		       ? AV_LOCK_TAKEN
		       : av_lock_wait(lock);
}

/* The same, up to that moment. Return: also AV_LOCK_BUSY */
AV_MUST_USE static inline enum av_lock_result
av_lock_acquire_until(struct av_lock *lock, enum av_lock_rank rank, uint64_t until_ns)
{
	enum av_lock_result got;

	av_lock_order_wait(lock, rank);
	got = av_lock_wait_until(lock, until_ns);
	if (got == AV_LOCK_BUSY)
		av_lock_order_released(lock);
	return got;
}

/* For locks whose data is consistent at every instruction: taking over needs no repair. */
static inline void av_lock_acquire_plain(struct av_lock *lock, enum av_lock_rank rank)
{
	(void)!av_lock_acquire(lock, rank);
}

/**
 * av_lock_try() - take the lock if no living process holds it
 *
 * Each thread checks a busy lock's owner only once in a few milliseconds, so a loop around this
 * function stays cheap. A failure is ordered like a success, on which av_publish_before_try()
 * relies.
 */
AV_MUST_USE static inline enum av_lock_result av_lock_try(struct av_lock *lock,
							  enum av_lock_rank rank)
{
	uint32_t free = 0;
	enum av_lock_result got =
		av_likely(atomic_compare_exchange_strong(&lock->owner, &free, av_lock_self))
			? AV_LOCK_TAKEN
			: av_lock_try_dead(lock);

	if (got != AV_LOCK_BUSY)
		av_lock_order_taken(lock, rank);
	return got;
}

/* Take the lock if it is free. Does not check whether its holder lives. */
AV_MUST_USE static inline bool av_lock_try_free(struct av_lock *lock, enum av_lock_rank rank)
{
	uint32_t free = 0;
	bool got = atomic_compare_exchange_strong(&lock->owner, &free, av_lock_self);

	if (got)
		av_lock_order_taken(lock, rank);
	return got;
}

/* The other process, dead or alive, that holds the lock; 0: free, or held by this process. */
static inline uint32_t av_lock_other(const struct av_lock *lock)
{
	uint32_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);

	return owner == av_lock_self ? 0 : owner;
}

/* Does this process hold the lock? */
static inline bool av_lock_mine(const struct av_lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == av_lock_self;
}

static inline void av_lock_release(struct av_lock *lock)
{
	av_lock_order_released(lock);
	atomic_store_explicit(&lock->owner, 0, memory_order_release);
}

/*
 * Release, followed by a full barrier: a load after this call is not performed before the lock is
 * seen free. For "release, then look whether somebody left work while I held it".
 */
static inline void av_lock_release_fence(struct av_lock *lock)
{
	av_lock_order_released(lock);
	atomic_exchange_explicit(&lock->owner, 0, memory_order_seq_cst);
	av_barrier_behind_rmw();
}

/*
 * Publish @value at @word before trying a lock. Either the try succeeds, or the holder sees the
 * value after its av_lock_release_fence(). On x86 the try's locked instruction is the barrier in
 * between, whether it succeeds or not; a second one would cost as much again.
 */
static inline void av_publish_before_try(_Atomic uint32_t *word, uint32_t value)
{
#if defined(__x86_64__)
	atomic_store_explicit(word, value, memory_order_release);
#else
	atomic_store(word, value);
#endif
}

/* Two adjacent locks, as the one instruction sees them that takes both. */
typedef uint64_t __attribute__((may_alias)) av_lock_both;

/**
 * av_lock_try_both() - take @first and the adjacent lock behind it, if both are free
 * @first: aligned to 8 bytes; either lock is also taken and released alone
 *
 * Does not check whether a holder lives.
 */
AV_MUST_USE static inline bool av_lock_try_both(struct av_lock *first, enum av_lock_rank rank_first,
						enum av_lock_rank rank_second)
{
	av_lock_both free = 0, self = (uint64_t)av_lock_self << 32 | av_lock_self;

	if (av_unlikely(!__atomic_compare_exchange_n((av_lock_both *)(void *)first, &free, self,
						     false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)))
		return false;
	AV_CAME_BY_PEER(&first[1].owner); /* the checker knows this lock by its own address */
	av_lock_order_taken(&first[0], rank_first);
	av_lock_order_taken(&first[1], rank_second);
	return true;
}

#endif
