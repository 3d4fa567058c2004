/* SPDX-License-Identifier: MIT */
/* Locks between processes, and the order in which a thread takes them. */
#ifndef AV_BASE_LOCK_H
#define AV_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"

/*
 * The order in which a thread takes locks and execution rights: docs/concurrency/ORDER.md.
 *
 * Every place that takes one names its rank. A thread that waits for a lock holds only locks of
 * lower ranks, so no circle of waiters can form. Trying is exempt, because it never waits.
 *
 * Builds with AV_CHECK_LOCKS (the sanitizers' presets) keep a list per thread, and abort with a
 * message at the first violation. In other builds none of this leaves an instruction.
 */

enum av_lock_rank {
	AV_RANK_APPEND, /* av_qp_shared.append: writing requests into the send ring */
	AV_RANK_EXEC,	/* av_qp_shared.exec: the requester's execution right */
	AV_RANK_RESP,	/* av_qp_shared.resp: the responder's execution right */
	AV_RANK_SENDER, /* av_coop_copy.sender: the large message that a CQ's pollers help with */
	AV_RANK_CHUNK,	/* av_coop_copy.chunk: copying one chunk of it */
	AV_RANK_KEY_RIGHT, /* the lock of a window or a UMR key: the right to change it */
	AV_RANK_POLL,	   /* av_cq_shared.poll_lock */
	AV_RANK_CQ,	   /* av_cq_shared.lock */
	AV_RANK_POST_RECV, /* av_rq_shared.post_lock */
	AV_RANK_TAKE_RECV, /* av_rq_shared.take_lock */
	AV_RANK_ATOMIC,	   /* one stripe of the directory: one read-modify-write */
	AV_RANK_KEY,	   /* the lock of a region's key */
};

#if defined(AV_CHECK_LOCKS)

/*
 * This thread is about to wait for @lock; it got @lock by trying; it has released @lock. Waiting
 * aborts if it could close a circle.
 */
void av_lock_order_wait(const void *lock, enum av_lock_rank rank);
void av_lock_order_taken(const void *lock, enum av_lock_rank rank);
void av_lock_order_released(const void *lock);

/* Aborts unless this thread holds @lock. @where: for the message */
void av_lock_order_assert(const void *lock, const char *where);

/*
 * The child's only thread, after a fork, holds the private locks that its parent's thread held, and
 * no shared ones.
 */
void av_lock_order_forked(void);

#define AV_ASSERT_HELD(lock) av_lock_order_assert(lock, __func__)

#else

#define av_lock_order_wait(lock, rank)	((void)(rank))
#define av_lock_order_taken(lock, rank) ((void)(rank))
#define av_lock_order_released(lock)	((void)(lock))
#define av_lock_order_forked()		((void)0)
#define AV_ASSERT_HELD(lock)		((void)(lock))

#endif

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
 * memory of the program is touched and nothing is waited for. Taking one names its rank.
 */

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

/*
 * Taking a lock at exit. Another thread that holds it is done in a moment, so exit waits, up to
 * AV_PEER_TIMEOUT_NS. A thread that holds it itself, and exits in a signal's handler, would wait in
 * vain: the mutex knows its owner, and refuses at once.
 */

/* A mutex that av_exit_lock() may take. */
#define AV_EXIT_MUTEX PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

/*
 * The same in a forked child, whoever held it in the parent. The child has one thread, so nobody
 * else uses the mutex. ThreadSanitizer is not asked: it remembers the parent's threads.
 */
AV_RACY static inline void av_exit_mutex_forked(pthread_mutex_t *mutex)
{
	*mutex = (pthread_mutex_t)AV_EXIT_MUTEX;
}

/* Return: false: it is not to be had. Context: a destructor */
AV_MUST_USE static inline bool av_exit_lock(pthread_mutex_t *mutex)
{
	struct timespec until = av_timespec(av_now_real_ns() + AV_PEER_TIMEOUT_NS);

	/* Sanitizers know this one, whose clock may be set, but not pthread_mutex_clocklock(3). */
	return pthread_mutex_timedlock(mutex, &until) == 0;
}

#endif
