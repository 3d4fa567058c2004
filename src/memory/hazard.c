/* SPDX-License-Identifier: MIT */
/* Claiming hazard words and waiting for them. */
#include "memory/hazard.h"

#include <sched.h>
#include <time.h>

#include "base/lock.h"
#include "hca/directory.h"

/* Where this thread looks for a free word first: its own place in most programs. 0: not chosen yet. */
static _Thread_local uint32_t my_place AV_TLS_FAST;
static _Atomic uint32_t places;

static uint64_t word_of(uint32_t proc, uint32_t key)
{
	return (uint64_t)proc << 32 | key;
}

/* One turn over all words. Return: the one taken, or NULL. */
static struct av_hazard *find_free(struct av_hazard *all, uint64_t word)
{
	for (uint32_t i = 0; i < AV_HAZARDS; i++) {
		struct av_hazard *h = &all[(my_place + i) % AV_HAZARDS];
		uint64_t free = 0;

		if (atomic_compare_exchange_strong(&h->word, &free, word))
			return h;
	}
	return NULL;
}

/* Words of processes that died with them. */
static void clear_dead(struct av_hazard *all)
{
	for (uint32_t i = 0; i < AV_HAZARDS; i++) {
		uint64_t word = atomic_load(&all[i].word);

		if (word && !av_dir_proc_alive((uint32_t)(word >> 32)))
			atomic_compare_exchange_strong(&all[i].word, &word, 0);
	}
}

struct av_hazard *av_hazard_begin(struct av_seg *seg, uint32_t key)
{
	struct av_hazard *all = seg->head->hazard, *h;

	if (av_unlikely(my_place == 0))
		my_place = atomic_fetch_add(&places, 1) * 7 + av_lock_self * 13 + 1;
	h = find_free(all, word_of(av_lock_self, key));
	if (av_likely(h != NULL))
		return h;
	clear_dead(all);
	return find_free(all, word_of(av_lock_self, key));
}

static void wait_for(struct av_hazard *h, uint64_t word)
{
	struct timespec nap = {.tv_nsec = 50000};

	for (unsigned int turn = 0; atomic_load_explicit(&h->word, memory_order_acquire) == word; turn++) {
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

void av_hazard_drain(struct av_seg *seg, uint32_t key)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the exchange in av_hazard_begin() */
	for (uint32_t i = 0; i < AV_HAZARDS; i++) {
		struct av_hazard *h = &seg->head->hazard[i];
		uint64_t word = atomic_load_explicit(&h->word, memory_order_acquire);

		if (word != 0 && (uint32_t)word == key)
			wait_for(h, word);
	}
}

void av_hazard_drain_all(struct av_seg *seg)
{
	atomic_thread_fence(memory_order_seq_cst); /* as above */
	for (uint32_t i = 0; i < AV_HAZARDS; i++) {
		struct av_hazard *h = &seg->head->hazard[i];
		uint64_t word = atomic_load_explicit(&h->word, memory_order_acquire);

		if (word != 0)
			wait_for(h, word);
	}
}
