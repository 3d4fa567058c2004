/* SPDX-License-Identifier: MIT */
/*
 * A lock like struct av_lock that costs the thread which nearly always takes it no locked
 * instruction.
 *
 * After enough turns in a row the lock is that thread's (@thread): it says so in @inside, looks
 * whether the lock is still its own, and goes in; the way out is a store. Everybody else takes
 * @lock, and finding the lock to be somebody's, takes it from that thread (av_barrier_heavy_for()
 * is the barrier that thread saves), then waits for @inside. That costs some microseconds, so each
 * time more turns are wanted until the lock is anybody's own again: in the long run it is a small
 * part of what was saved in between.
 *
 * Who holds it, dies, waits or repairs: as base/lock.h has it. Rules: as there.
 */
#ifndef AV_BASE_BIASED_LOCK_H
#define AV_BASE_BIASED_LOCK_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/barrier.h"
#include "base/compiler.h"
#include "base/lock.h"

/* All zeros: free, and nobody's own. */
struct av_biased_lock {
	_Atomic uint64_t thread; /* whose own it is; or, with one of the flags below; 0. Written
				    under @lock */
	struct av_lock lock;	 /* for all others */
	_Atomic uint32_t
		inside; /* identity of the process whose thread holds it as its own, 0: none */
	/* Written under @lock by who has it. */
	uint32_t turns; /* of the candidate, in a row; of an owner, past or present: identity of its
			   process */
	uint8_t lost;	/* how often it was taken from its thread */
	uint8_t shared; /* it is held, and not as one's own; whoever finds that so repairs */
	uint8_t asked;	/* turns since the former owner's process was asked whether it lives */
};
static_assert(sizeof(struct av_biased_lock) == 24, "room of the locks in shared structures");

/*
 * Turns in a row until the lock is somebody's own; twice as many whenever it was taken away, up to
 * some thousand: what taking it away costs then is little beside them. Where checkers look, it
 * shall happen often.
 */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define AV_BIAS_TURNS 4u
#else
#define AV_BIAS_TURNS 256u
#endif
#define AV_BIAS_LOST_MAX 5u

#define AV_BIAS_CANDIDATE 1ull /* who took it last */
#define AV_BIAS_FORMER	  2ull /* who lost it, and may not have noticed */

/* This thread's name: different from all others' on the machine, without those flags; or 1: none
 * yet. */
extern _Thread_local uint64_t av_bias_self AV_TLS_FAST;

/* The parts that may wait, or do what is seldom. */
enum av_lock_result av_biased_acquire_shared(struct av_biased_lock *b);
enum av_lock_result av_biased_try_shared(struct av_biased_lock *b);
void av_biased_end_turn(struct av_biased_lock *b);

/*
 * Guests: threads of another process than the one whose threads the lock may belong to. They take
 * it by the two functions above, and let it go by this one, with a full barrier behind it; it never
 * becomes a guest's own. A thread keeps its name while its process leaves the directory and joins
 * again under another identity, and nobody could tell any more whether the owner lives.
 */
void av_biased_leave_fence(struct av_biased_lock *b);

/* A forked child's only thread must not have its parent's name. */
void av_biased_forked(void);

/* Is it this thread's own, and free? Then it is taken. */
static inline bool av_biased_enter(struct av_biased_lock *b)
{
	uint64_t self = av_bias_self;

	if (av_unlikely(atomic_load_explicit(&b->thread, memory_order_relaxed) != self ||
			atomic_load_explicit(&b->inside, memory_order_relaxed)))
		return false;
	atomic_store_explicit(&b->inside, av_lock_self, memory_order_relaxed);
	atomic_signal_fence(
		memory_order_seq_cst); /* only this process' threads that are light get here */
	if (av_likely(atomic_load_explicit(&b->thread, memory_order_acquire) == self))
		return true;
	atomic_store_explicit(&b->inside, 0, memory_order_release);
	return false;
}

/**
 * av_biased_acquire() - take the lock, waiting for it
 * Return: AV_LOCK_TAKEN or AV_LOCK_REPAIR
 */
AV_MUST_USE static inline enum av_lock_result av_biased_acquire(struct av_biased_lock *b)
{
	return av_likely(av_biased_enter(b)) ? AV_LOCK_TAKEN : av_biased_acquire_shared(b);
}

/* For locks whose protected data is consistent at every instruction. */
static inline void av_biased_acquire_plain(struct av_biased_lock *b)
{
	(void)!av_biased_acquire(b);
}

/**
 * av_biased_try() - take the lock if nobody (living) holds it
 *
 * Found busy, its holder lets it go later than this call, or the call is repeated: what was
 * published before it, is seen by who looks after av_biased_release_fence().
 */
AV_MUST_USE static inline enum av_lock_result av_biased_try(struct av_biased_lock *b)
{
	return av_likely(av_biased_enter(b)) ? AV_LOCK_TAKEN : av_biased_try_shared(b);
}

/* The process that holds it; 0: free. A hint, but about the own process. */
static inline uint32_t av_biased_holder(const struct av_biased_lock *b)
{
	uint32_t inside = atomic_load_explicit(&b->inside, memory_order_relaxed);

	return inside ? inside : atomic_load_explicit(&b->lock.owner, memory_order_relaxed);
}

/*
 * The other process, dead or alive, that has a part in holding the lock; 0: none. Who has @lock and
 * waits for a thread of ours inside is one, too: whoever found the lock busy may have found him.
 */
static inline uint32_t av_biased_other(const struct av_biased_lock *b)
{
	uint32_t owner =
		atomic_load_explicit(&b->lock.owner, memory_order_acquire); /* before @inside */
	uint32_t inside = atomic_load_explicit(&b->inside, memory_order_relaxed);

	if (owner && owner != av_lock_self)
		return owner;
	return inside == av_lock_self ? 0 : inside;
}

/*
 * Does this process hold it, and no other besides? Of a lock that was found busy: does its holder
 * look for work after that, for as long as this process lives?
 */
static inline bool av_biased_mine(const struct av_biased_lock *b)
{
	return av_biased_other(b) == 0 && av_biased_holder(b) == av_lock_self;
}

/* How the caller got it does not follow from @inside: a thread that lost the lock may have been
 * about to enter, and takes that back. */
static inline void av_biased_release(struct av_biased_lock *b)
{
	if (av_likely(!b->shared)) {
		atomic_store_explicit(&b->inside, 0, memory_order_release);
		return;
	}
	av_biased_end_turn(b);
	av_lock_release(&b->lock);
}

/*
 * Release with a full barrier behind it, as av_lock_release_fence(); of a lock that is the thread's
 * own, who takes it away or finds it busy makes that barrier.
 */
static inline void av_biased_release_fence(struct av_biased_lock *b)
{
	if (av_unlikely(b->shared)) {
		av_biased_end_turn(b);
		av_lock_release_fence(&b->lock);
		return;
	}
	atomic_store_explicit(&b->inside, 0, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	if (av_unlikely(atomic_load_explicit(&b->thread, memory_order_acquire) != av_bias_self))
		av_barrier_full(); /* it was taken away meanwhile: see find_inside() */
}

#endif
