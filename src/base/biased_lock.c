/* SPDX-License-Identifier: MIT */
/* Locks that are a thread's own: becoming it, and being taken away. */
#include "base/biased_lock.h"

#include <sys/random.h>

#define SHUT UINT8_MAX /* as @lost: nobody's own any more */

#define NAMELESS AV_BIAS_CANDIDATE /* equal to no name, and no candidate's */
#define FLAGS	 (AV_BIAS_CANDIDATE | AV_BIAS_FORMER)

_Thread_local uint64_t av_bias_self AV_TLS_FAST = NAMELESS;

void av_biased_forked(void)
{
	av_bias_self = NAMELESS;
}

/*
 * By chance, since names must differ between processes that know nothing of each other, and those
 * of threads whose process has left a directory and joins another: of 2^62, and the locks of a
 * thread that is gone are nobody else's.
 */
static bool have_name(void)
{
	uint64_t name;

	if (av_bias_self != NAMELESS)
		return true;
	if (getrandom(&name, sizeof(name), GRND_NONBLOCK) != sizeof(name))
		return false;
	name &= ~FLAGS;
	if (name)
		av_bias_self = name;
	return name != 0;
}

static bool is_owned(uint64_t thread)
{
	return thread != 0 && !(thread & FLAGS);
}

static bool is_earned(const struct av_biased_lock *b)
{
	return b->turns >= AV_BIAS_TURNS << b->lost;
}

/*
 * May the caller be the candidate? Not in place of a thread that the lock was taken from, which may
 * have been stopped anywhere in av_biased_enter(): what it writes to @inside, whenever it goes on,
 * would hide the next one. It is out of there once it has had a turn in the other way, or is dead;
 * asked seldom.
 */
static bool may_follow(struct av_biased_lock *b, uint64_t thread)
{
	if (!(thread & AV_BIAS_FORMER) || thread == (av_bias_self | AV_BIAS_FORMER))
		return true;
	return b->asked++ == 0 && av_lock_is_dead(b->turns);
}

static void count_turn(struct av_biased_lock *b)
{
	uint64_t thread = atomic_load_explicit(&b->thread, memory_order_relaxed);
	uint64_t candidate = av_bias_self | AV_BIAS_CANDIDATE;

	if (thread != candidate) {
		if (!may_follow(b, thread))
			return;
		atomic_store_explicit(&b->thread, candidate, memory_order_relaxed);
		b->turns = 0;
	}
	b->turns++;
	if (av_likely(!is_earned(b)))
		return;
	b->turns = av_lock_self;
	atomic_store_explicit(&b->thread, av_bias_self, memory_order_relaxed);
}

static void end_use(struct av_biased_lock *b)
{
	atomic_signal_fence(
		memory_order_seq_cst); /* dying from here on, one has left nothing half done */
	b->shared = 0;
	if (av_unlikely(!av_barrier_is_light))
		b->lost = SHUT; /* taking it away is dear here */
}

/* Its holder, who did not enter it as his own, is about to release it. */
void av_biased_end_turn(struct av_biased_lock *b)
{
	end_use(b);
	if (av_unlikely(b->lost == SHUT))
		return;
	if (av_likely(have_name()))
		count_turn(b);
	else
		b->lost = SHUT; /* not a system call in vain for each turn */
}

void av_biased_leave_fence(struct av_biased_lock *b)
{
	end_use(b);
	av_lock_release_fence(&b->lock);
}

/* With @lock held: from now on it is nobody's own. */
static void take_away(struct av_biased_lock *b, uint64_t thread)
{
	atomic_store_explicit(&b->thread, thread | AV_BIAS_FORMER, memory_order_relaxed);
	if (b->lost < AV_BIAS_LOST_MAX)
		b->lost++;
	if (av_unlikely(!av_barrier_heavy_for(b->turns == av_lock_self)))
		b->lost = SHUT;
}

/*
 * With @lock held: who is inside of it as its own? Nobody enters any more. The thread it was taken
 * from saw that as it entered, or is seen here; and as it leaves, either it sees that, and makes a
 * full barrier before it looks for work that was left to it, or it was seen to have left (the
 * barrier fell behind its look).
 */
static uint32_t find_inside(struct av_biased_lock *b)
{
	uint64_t thread = atomic_load_explicit(&b->thread, memory_order_relaxed);

	if (av_unlikely(is_owned(thread)))
		take_away(b, thread);
	return atomic_load_explicit(&b->inside, memory_order_acquire);
}

/* Did who is inside die there? It is taken out then. */
static bool clear_dead(struct av_biased_lock *b, uint32_t inside)
{
	return av_lock_is_dead(inside) && atomic_compare_exchange_strong(&b->inside, &inside, 0);
}

/*
 * @lock was taken, in the way that @got says. Return: did somebody die inside who had it, too? Not
 * if he only looked or waited; but then he may not have come to the barrier that goes with taking
 * the lock away.
 */
static bool died_inside(const struct av_biased_lock *b, enum av_lock_result got)
{
	if (av_unlikely(got == AV_LOCK_REPAIR))
		(void)av_barrier_heavy();
	return av_unlikely(b->shared);
}

/* @lock is held and nobody is inside: the caller is, from now on. */
static enum av_lock_result begin_turn(struct av_biased_lock *b, bool repair)
{
	b->shared = 1;
	atomic_signal_fence(
		memory_order_seq_cst); /* whoever finds it set, dead, may have left anything */
	return av_unlikely(repair) ? AV_LOCK_REPAIR : AV_LOCK_TAKEN;
}

enum av_lock_result av_biased_acquire_shared(struct av_biased_lock *b)
{
	bool repair = died_inside(b, av_lock_acquire(&b->lock));
	uint32_t inside;

	for (unsigned int turn = 0; av_unlikely((inside = find_inside(b)) != 0); turn++) {
		if (clear_dead(b, inside)) {
			repair = true;
			break;
		}
		av_lock_wait_a_little(turn);
	}
	return begin_turn(b, repair);
}

/*
 * Who finds somebody inside lets @lock go and looks once more: another one may have found @lock
 * busy meanwhile, and rely on its holder; who is still inside after that, leaves later, and looks
 * after leaving.
 */
enum av_lock_result av_biased_try_shared(struct av_biased_lock *b)
{
	do {
		enum av_lock_result got = av_lock_try(&b->lock);
		uint32_t inside;
		bool repair;

		if (got == AV_LOCK_BUSY)
			return AV_LOCK_BUSY;
		repair = died_inside(b, got);
		inside = find_inside(b);
		if (av_likely(inside == 0))
			return begin_turn(b, repair);
		if (clear_dead(b, inside))
			return begin_turn(b, true);
		av_lock_release_fence(
			&b->lock); /* and leaves @shared to say that there is to be repaired */
	} while (atomic_load_explicit(&b->inside, memory_order_relaxed) == 0);
	return AV_LOCK_BUSY;
}
