/* SPDX-License-Identifier: MIT */
/* Claiming pin words and waiting for them. */
#include "memory/pin.h"

#include <sched.h>
#include <time.h>

<<<<<<< HEAD
=======
#include "base/fork.h"
#include "base/lock.h"
#include "registry/directory.h"
>>>>>>> w-typed
#include "base/limits.h"
#include "registry/directory.h"

/* A SEND within one context pins each element of both sides and the keys on the way through a UMR
 * key. It waits for ever if there are not as many words. */
static_assert(AV_PINS >= 2 * AV_MAX_SGE + AV_KLM_PINS, "words for one request");

_Thread_local uint32_t av_pin_place AV_TLS_FAST;
static _Atomic uint32_t places;

static struct av_pin *find_free(struct av_seg *seg, uint64_t word)
{
<<<<<<< HEAD
	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *pin = &seg->head->pin[(av_pin_place + i) % AV_PINS];
=======
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
>>>>>>> w-typed
		uint64_t free = 0;

		if (atomic_load_explicit(&pin->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&pin->word, &free, word)) {
			av_barrier_behind_rmw(); /* before the key is looked at */
			return pin;
		}
	}
	return NULL;
}

/* Words of processes that died with them. */
static void clear_dead(struct av_seg *seg)
{
	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *pin = &seg->head->pin[i];
		uint64_t word = atomic_load(&pin->word);

		if (word && !av_dir_proc_alive((uint32_t)(word >> 32)))
			atomic_compare_exchange_strong(&pin->word, &word, 0);
	}
}

struct av_pin *av_pin_search(struct av_seg *seg, uint64_t word)
{
	struct av_pin *pin;

	if (av_unlikely(av_pin_place == 0)) /* threads, and processes, begin some words apart */
		av_pin_place = atomic_fetch_add(&places, 1) * 7 + av_lock_self * 13 + 1;
	pin = find_free(seg, word);
	if (av_likely(pin != NULL))
		return pin;
	clear_dead(seg);
	return find_free(seg, word);
}

static void wait_for(struct av_pin *pin, uint64_t word)
{
	struct timespec nap = {.tv_nsec = 50000};

	for (unsigned int turn = 0; atomic_load_explicit(&pin->word, memory_order_acquire) == word;
	     turn++) {
		if (turn < 100)
			av_pause();
		else if (turn < 300)
			sched_yield();
		else if (!av_dir_proc_alive((uint32_t)(word >> 32)))
			atomic_compare_exchange_strong(&pin->word, &word, 0);
		else
			nanosleep(&nap, NULL);
	}
}

/* Wait for those who use @key; 0: any key. */
static void drain(struct av_seg *seg, uint32_t key)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with av_pin_begin()'s */
	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *pin = &seg->head->pin[i];
		uint64_t word = atomic_load_explicit(&pin->word, memory_order_acquire);

		if (word != 0 && (key == 0 || (uint32_t)word == key))
			wait_for(pin, word);
	}
}

void av_pin_drain(struct av_seg *seg, uint32_t key)
{
	drain(seg, key);
}

void av_pin_drain_all(struct av_seg *seg)
{
	drain(seg, 0);
}
