/* SPDX-License-Identifier: MIT */
/* Claiming pin words, keeping them, and waiting for them. */
#include "memory/pin.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/fork.h"
#include "base/lock.h"
#include "registry/directory.h"
#include "base/limits.h"
#include "memory/klm_iter.h"

/*
 * The others are for those who find none to keep. They suffice for the request that needs most of
 * them: a SEND within one context, of and into all the elements there can be, one an UMR key's. It
 * would wait for ever for more, since what is kept is not given back.
 */
#define KEPT_MAX (AV_PINS / 2)
static_assert(AV_PINS - KEPT_MAX >= 2 * AV_MAX_SGE + AV_RUN_HOLDS, "words that are not kept");

#define DRAINS_SELDOM                                                                         \
	64u /* heavy barriers that a context makes for the ends of keys, at some microseconds \
	     */

/* Where this thread looks for a free word first: its own place in most programs. 0: not chosen yet.
 */
static _Thread_local uint32_t my_place AV_TLS_FAST;
static _Atomic uint32_t places;

static uint64_t word_of(uint32_t proc, uint32_t key)
{
	return (uint64_t)proc << 32 | key;
}

/* --- words that threads keep ----------------------------------------------------- */

_Thread_local uint32_t av_pin_thread AV_TLS_FAST = AV_PIN_THREADS;

static struct {
	pthread_once_t once;
	pthread_key_t key; /* its destructor gives the place back */
	bool made;
	_Atomic uint32_t taken; /* places of threads that live */
} keepers = {.once = PTHREAD_ONCE_INIT};
static_assert(AV_PIN_THREADS < 32, "bits");

static void leave_place(void *place)
{
	av_pin_thread = AV_PIN_THREADS;
	atomic_fetch_and(&keepers.taken, ~(1u << ((uintptr_t)place - 1)));
}

/* The forking thread is the only one there. */
static void after_fork_in_child(void)
{
	atomic_store(&keepers.taken, av_pin_thread < AV_PIN_THREADS ? 1u << av_pin_thread : 0);
}

static const struct av_fork_handlers fork_handlers = {.child = after_fork_in_child};

static void make_key(void)
{
	keepers.made = pthread_key_create(&keepers.key, leave_place) == 0 &&
		       av_fork_register(AV_FORK_PINS, &fork_handlers) == 0;
}

/* A place for this thread, if there is one. */
static void take_place(void)
{
	uint32_t taken = atomic_load(&keepers.taken), place;

	pthread_once(&keepers.once, make_key);
	if (!keepers.made)
		return;
	do {
		place = (uint32_t)__builtin_ctz(~taken | 1u << AV_PIN_THREADS);
		if (place >= AV_PIN_THREADS)
			return;
	} while (!atomic_compare_exchange_weak(&keepers.taken, &taken, taken | 1u << place));
	if (pthread_setspecific(keepers.key, (void *)((uintptr_t)place + 1)))
		atomic_fetch_and(&keepers.taken, ~(1u << place));
	else
		av_pin_thread = place;
}

/* One turn over the first @count words. Return: the one taken, or NULL. */
static struct av_pin *find_free(struct av_pin *all, uint32_t count, uint64_t word)
{
	for (uint32_t i = 0; i < count; i++) {
		struct av_pin *h = &all[(my_place + i) % count];
		uint64_t free = 0;

		if (atomic_compare_exchange_strong(&h->word, &free, word)) {
			av_barrier_behind_rmw(); /* before the key is looked at */
			return h;
		}
	}
	return NULL;
}

/* Words of processes that died with them. */
static void clear_dead(struct av_pin *all)
{
	for (uint32_t i = 0; i < AV_PINS; i++) {
		uint64_t word = atomic_load(&all[i].word);

		if (word && !av_dir_proc_alive((uint32_t)(word >> 32)))
			atomic_compare_exchange_strong(&all[i].word, &word, 0);
	}
}

static struct av_pin *claim(struct av_pin *all, uint32_t count, uint64_t word)
{
	struct av_pin *h;

	if (av_unlikely(my_place == 0))
		my_place = atomic_fetch_add(&places, 1) * 7 + av_lock_self * 13 + 1;
	h = find_free(all, count, word);
	if (av_likely(h != NULL))
		return h;
	clear_dead(all);
	return find_free(all, count, word);
}

struct av_pin *av_pin_begin(struct av_seg *seg, uint32_t key)
{
	return claim(seg->head->pin, AV_PINS, word_of(av_lock_self, key));
}

struct av_pin *av_pin_keep(struct av_seg *seg, enum av_pin_use use)
{
	struct av_pin *h;

	if (av_pin_thread >= AV_PIN_THREADS)
		take_place();
	if (av_pin_thread >= AV_PIN_THREADS)
		return NULL;
	h = seg->kept[av_pin_thread][use]; /* of a thread that had the place before */
	if (h || atomic_load_explicit(&seg->none_to_keep, memory_order_relaxed))
		return h;
	h = claim(seg->head->pin, KEPT_MAX, word_of(av_lock_self, 0));
	if (!h)
		atomic_store_explicit(&seg->none_to_keep, true, memory_order_relaxed);
	seg->kept[av_pin_thread][use] = h;
	return h;
}

static void wait_for(struct av_pin *h, uint64_t word)
{
	struct timespec nap = {.tv_nsec = 50000};

	for (unsigned int turn = 0; atomic_load_explicit(&h->word, memory_order_acquire) == word;
	     turn++) {
		if (turn < 100)
			av_pause();
		else if (turn < 300)
			sched_yield();
		else if (!av_dir_proc_alive((uint32_t)(word >> 32)))
			atomic_compare_exchange_strong(&h->word, &word, 0);
		else
			nanosleep(&nap, NULL);
	}
}

/* May who has that word be of those that leave the barrier to us: another thread of this process?
 */
static bool is_light(const struct av_seg *seg, const struct av_pin *h, uint64_t word)
{
	uint32_t thread = av_pin_thread;

	if ((uint32_t)(word >> 32) != av_lock_self)
		return false;
	return thread >= AV_PIN_THREADS ||
	       (h != seg->kept[thread][AV_PIN_LOCAL] && h != seg->kept[thread][AV_PIN_REMOTE]);
}

/* Wait for those who use @key, or any, @key being 0. Return: are there some that leave the barrier
 * to us? */
static bool wait_for_users(struct av_seg *seg, uint32_t key)
{
	bool light = false;

	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *h = &seg->head->pin[i];
		uint64_t word = atomic_load_explicit(&h->word, memory_order_acquire);

		if (word == 0)
			continue;
		light = light || is_light(seg, h, word);
		if ((uint32_t)word != 0 && (key == 0 || (uint32_t)word == key))
			wait_for(h, word);
	}
	return light;
}

/*
 * Have what our other threads announced before now be seen, and what they look at after announcing
 * be what is there now. When this was needed often, they are told to make barriers of their own: by
 * one last heavy one, after which there is nobody who has not been told. A refused one is often
 * enough.
 */
static void have_announced(struct av_seg *seg)
{
	bool last =
		atomic_fetch_add_explicit(&seg->drains, 1, memory_order_relaxed) >= DRAINS_SELDOM;

	if (last)
		atomic_store(&seg->head->fenced, 1);
	if (!av_barrier_heavy_own())
		atomic_store_explicit(&seg->drains, DRAINS_SELDOM, memory_order_relaxed);
	if (last)
		atomic_store(&seg->users_fence, true);
}

/* A word that is claimed while we look is claimed by a full barrier; one that is kept may have been
 * seen as it was before its thread announced the key. */
static void drain(struct av_seg *seg, uint32_t key)
{
	bool users_fence = atomic_load(&seg->users_fence);

	atomic_thread_fence(memory_order_seq_cst); /* pairs with theirs */
	if (!wait_for_users(seg, key) || users_fence)
		return;
	have_announced(seg);
	(void)wait_for_users(seg, key);
}

void av_pin_drain(struct av_seg *seg, uint32_t key)
{
	drain(seg, key);
}

void av_pin_drain_all(struct av_seg *seg)
{
	drain(seg, 0);
}
