/* SPDX-License-Identifier: MIT */
/* Locks between processes, and the order in which a thread takes them. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/compiler.h"

/*
 * The order of locks: docs/concurrency/ORDER.md. A thread that waits for one
 * holds only those of lower ranks, so no cycle of waiters can form. Trying never waits: exempt.
 *
 * Builds with AV_CHECK_LOCKS (sanitizers') keep a list per thread, and abort at a violation.
 */

enum av_lock_rank {
	AV_RANK_APPEND,	   /* av_qp_shared.append: writing requests into the send ring */
	AV_RANK_REQUESTER, /* av_qp_shared.req_lock: executing the send ring */
	AV_RANK_RESPONDER, /* av_qp_shared.resp_lock: a request against this queue pair */
	AV_RANK_SENDER, /* av_coop_copy.sender: the large message that a CQ's pollers help with */
	AV_RANK_CHUNK,	/* av_coop_copy.chunk: copying one chunk of it */
	AV_RANK_KEY_CHANGE, /* of a window or a UMR key: its holder changes the key */
	AV_RANK_POLL,	    /* av_cq_shared.poll_lock */
	AV_RANK_CQ,	    /* av_cq_shared.lock */
	AV_RANK_POST_RECV,  /* av_rq_shared.post_lock */
	AV_RANK_TAKE_RECV,  /* av_rq_shared.take_lock */
	AV_RANK_ATOMIC,	    /* one stripe of the directory: one read-modify-write */
	AV_RANK_KEY,	    /* the lock of a region's key */
};

#if defined(AV_CHECK_LOCKS)

/* This thread is about to wait for @lock, which aborts if a cycle could form. */
void av_lock_order_wait(const void *lock, enum av_lock_rank rank);
/* It got @lock by trying; it has released @lock. */
void av_lock_order_taken(const void *lock, enum av_lock_rank rank);
void av_lock_order_released(const void *lock);

/* Aborts unless this thread holds @lock. @where: for the message */
void av_lock_order_assert(const void *lock, const char *where);

/* In a forked child, whose thread holds no shared locks. */
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
 * A lock in memory that several processes map. It survives the death of its holder.
 *
 * The word is the identity of the owning *process* (av_lock_self); 0: free. A waiter spins, yields,
 * then naps, and sometimes checks whether the owner lives. If not, it takes the lock over, and
 * repairs what it protects. A release wakes nobody: it is a single store.
 *
 * Locks are not recursive. A holder does bounded work: it touches no memory of the program, and
 * waits for nothing. A long lock is such a word, too: queue/qp.h.
 */

struct av_lock {
	_Atomic uint32_t owner; /* process identity of the holder, 0: free */
};

enum av_lock_result {
	AV_LOCK_BUSY = -1,  /* a living process holds it */
	AV_LOCK_TAKEN = 0,  /* the caller holds it now */
	AV_LOCK_REPAIR = 1, /* the same, but its last holder died: repair first */
};

/* This process' identity, also a forked child's: av_dir_join() sets it before any lock is taken. */
extern uint32_t av_lock_self;

/* Is the process with this identity alive? Makes system calls. Set together with av_lock_self. */
extern bool (*av_lock_owner_alive)(uint32_t owner);

/* The slow part of av_lock_acquire_until(); UINT64_MAX: of av_lock_acquire(). */
enum av_lock_result av_lock_wait_until(struct av_lock *lock, uint64_t until_ns);

/* The slow part of av_lock_try(). */
enum av_lock_result av_lock_try_dead(struct av_lock *lock);

/* Make the preceding atomic read-modify-write a full barrier, as it is on x86 but not elsewhere. */
#if defined(__x86_64__)
#define av_barrier_behind_rmw() atomic_signal_fence(memory_order_seq_cst)
#else
#define av_barrier_behind_rmw() atomic_thread_fence(memory_order_seq_cst)
#endif

/* Wait for the lock, and take it. Return: AV_LOCK_TAKEN or AV_LOCK_REPAIR */
AV_MUST_USE static inline enum av_lock_result av_lock_acquire(struct av_lock *lock,
							      enum av_lock_rank rank)
{
	uint32_t free = 0;

	av_lock_order_wait(lock, rank);
	return av_likely(atomic_compare_exchange_strong(&lock->owner, &free, av_lock_self))
		       ? AV_LOCK_TAKEN
		       : av_lock_wait_until(lock, UINT64_MAX);
}

/* The same, until @until_ns of av_now_ns(). Return: also AV_LOCK_BUSY */
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

/* The same for a lock whose data never needs repair. */
static inline void av_lock_acquire_plain(struct av_lock *lock, enum av_lock_rank rank)
{
	(void)!av_lock_acquire(lock, rank);
}

/*
 * Take the lock if no living process holds it. Cheap in a loop: owners of busy locks are checked
 * once in a few milliseconds. A failure is ordered like a success, for av_publish_before_try().
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

/* The same, but only if it is free: does not check whether a holder lives. */
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

static inline bool av_lock_mine(const struct av_lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == av_lock_self;
}

static inline void av_lock_release(struct av_lock *lock)
{
	av_lock_order_released(lock);
	atomic_store_explicit(&lock->owner, 0, memory_order_release);
}

/* Release with a full barrier, for "release, then look for work that came while it was held". */
static inline void av_lock_release_fence(struct av_lock *lock)
{
	av_lock_order_released(lock);
	atomic_exchange_explicit(&lock->owner, 0, memory_order_seq_cst);
	av_barrier_behind_rmw();
}

/*
 * Store @value, and then try a lock: either the try succeeds, or the holder sees the value after
 * its av_lock_release_fence(). On x86 the locked instruction of the try is the barrier in between,
 * even if it fails; a second one would take as long again.
 */
static inline void av_publish_before_try(_Atomic uint32_t *word, uint32_t value)
{
#if defined(__x86_64__)
	atomic_store_explicit(word, value, memory_order_release);
#else
	atomic_store(word, value);
#endif
}

/* Two adjacent locks, as one instruction takes them. */
typedef uint64_t __attribute__((may_alias)) av_lock_both;

/*
 * Take @first, which is aligned to 8 bytes, and the lock behind it, if both are free. Does not
 * check whether a holder lives. Either may also be taken and released alone.
 */
AV_MUST_USE static inline bool av_lock_try_both(struct av_lock *first, enum av_lock_rank rank_first,
						enum av_lock_rank rank_second)
{
	av_lock_both free = 0, self = (uint64_t)av_lock_self << 32 | av_lock_self;

	if (av_unlikely(!__atomic_compare_exchange_n((av_lock_both *)(void *)first, &free, self,
						     false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)))
		return false;
	AV_CAME_BY_PEER(&first[1].owner); /* the checker knows it by its own address */
	av_lock_order_taken(&first[0], rank_first);
	av_lock_order_taken(&first[1], rank_second);
	return true;
}

/* For av_exit_lock(). It knows its owner: a holder that exits in a signal handler fails at once. */
#define AV_EXIT_MUTEX PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP

/* Initialize it in a forked child, whoever held it in the parent. */
AV_RACY static inline void av_exit_mutex_forked(pthread_mutex_t *mutex)
{
	*mutex = (pthread_mutex_t)AV_EXIT_MUTEX;
}

/* Wait up to AV_PEER_TIMEOUT_NS for the mutex. Context: a destructor. Return: false: not taken */
AV_MUST_USE static inline bool av_exit_lock(pthread_mutex_t *mutex)
{
	struct timespec until = av_timespec(av_now_real_ns() + AV_PEER_TIMEOUT_NS);

	/* Sanitizers know this one, whose clock may be set, but not pthread_mutex_clocklock(3). */
	return pthread_mutex_timedlock(mutex, &until) == 0;
}
