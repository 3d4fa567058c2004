/* SPDX-License-Identifier: MIT */
/* Claiming pin words, and waiting until they are free. */
#include "memory/pin.h"

#include "base/backoff.h"
#include "base/limits.h"
#include "base/patience.h"
#include "base/uncancelled.h"
#include "registry/directory.h"

/*
 * A SEND within one context pins each element of both sides, and the keys on the way through a UMR
 * key. With fewer words it would wait for ever.
 */
static_assert(AV_PINS >= 2 * AV_MAX_SGE + AV_KLM_PINS, "words for one request");

_Thread_local uint32_t av_pin_place AV_TLS_FAST;
static _Atomic uint32_t places;

static struct av_pin *find_free(struct av_seg *seg, uint64_t word)
{
	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *pin = &seg->head->pin[(av_pin_place + i) % AV_PINS];
		uint64_t free = 0;

		if (atomic_load_explicit(&pin->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&pin->word, &free, word)) {
			av_barrier_behind_rmw(); /* before the key is looked at */
			return pin;
		}
	}
	return NULL;
}

/* Clear the words of dead processes, those that name @key; 0: any. */
static void clear_dead(struct av_seg *seg, uint32_t key)
{
	for (uint32_t i = 0; i < AV_PINS; i++) {
		struct av_pin *pin = &seg->head->pin[i];
		uint64_t word = atomic_load(&pin->word);

		if (word && (key == 0 || (uint32_t)word == key) &&
		    !av_dir_proc_alive((uint32_t)(word >> 32)))
			atomic_compare_exchange_strong(&pin->word, &word, 0);
	}
}

struct av_pin *av_pin_search(struct av_seg *seg, uint64_t word)
{
	struct av_pin *pin;

	if (av_unlikely(av_pin_place == 0)) /* threads and processes begin at different words */
		av_pin_place = atomic_fetch_add(&places, 1) * 7 + av_lock_self * 13 + 1;
	pin = find_free(seg, word);
	if (av_likely(pin != NULL))
		return pin;
	clear_dead(seg, 0);
	return find_free(seg, word);
}

/*
 * @ns: how long it waits, see av_patient_for(); 0: as long as it takes. Others have had their turns
 * once @until is set, whichever word was waited for then. Return: false: in vain
 */
static bool wait_for(struct av_pin *pin, uint64_t word, uint64_t *until, uint64_t ns)
{
	uint64_t dead = word;

	for (unsigned int turn = 0; atomic_load_explicit(&pin->word, memory_order_acquire) == word;
	     turn++) {
		if (av_backoff_enough(turn) || *until) {
			if (!av_dir_proc_alive((uint32_t)(word >> 32)))
				atomic_compare_exchange_strong(&pin->word, &dead, 0);
			else if (ns && !av_patient_for(until, ns))
				return false;
		}
		av_backoff(turn);
	}
	return true;
}

#define BLOCK 8u
static_assert(AV_PINS % BLOCK == 0, "whole blocks");

static uint64_t block_of(const struct av_pin *pin)
{
	uint64_t words = 0;

	for (uint32_t i = 0; i < BLOCK; i++)
		words |= atomic_load_explicit(&pin[i].word, memory_order_acquire);
	return words;
}

/*
 * The first taken word at or after number @i; AV_PINS: none. Looks at whole blocks, since a
 * deregistration spends a third of its time here.
 */
static uint32_t taken(const struct av_pin *pins, uint32_t i)
{
	while (i < AV_PINS) {
		if (i % BLOCK == 0 && av_likely(block_of(&pins[i]) == 0))
			i += BLOCK;
		else if (atomic_load_explicit(&pins[i].word, memory_order_acquire))
			return i;
		else
			i++;
	}
	return AV_PINS;
}

bool av_pin_drain(struct av_seg *seg, uint32_t key)
{
	AV_UNCANCELLED;
	struct av_pin *pins = seg->head->pin;
	uint64_t until = 0;

	atomic_thread_fence(memory_order_seq_cst); /* pairs with av_pin_begin()'s */
	for (uint32_t i = taken(pins, 0); i < AV_PINS; i = taken(pins, i + 1)) {
		uint64_t word = atomic_load_explicit(&pins[i].word, memory_order_acquire);

		bool mine = seg->own && word >> 32 == av_lock_self;

		if ((uint32_t)word == key &&
		    !wait_for(&pins[i], word, &until, mine ? 0 : AV_PATIENCE_NS))
			return false;
	}
	return true;
}

bool av_pin_try_drain(struct av_seg *seg, av_pin_chosen *chosen, const void *arg, uint64_t *until)
{
	AV_UNCANCELLED;
	struct av_pin *pins = seg->head->pin;
	bool ret = true;

	atomic_thread_fence(memory_order_seq_cst); /* pairs with av_pin_begin()'s */
	for (uint32_t i = taken(pins, 0); i < AV_PINS; i = taken(pins, i + 1)) {
		uint64_t word = atomic_load_explicit(&pins[i].word, memory_order_acquire);

		if (word != 0 && chosen(seg, (uint32_t)word, arg) &&
		    !wait_for(&pins[i], word, until,
			      word >> 32 == av_lock_self ? 0 : AV_STOPPED_NS))
			ret = false;
	}
	return ret;
}

bool av_pin_is_held(struct av_seg *seg, uint32_t key)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with av_pin_begin()'s */
	clear_dead(seg, key);
	for (uint32_t i = 0; i < AV_PINS; i++)
		if ((uint32_t)atomic_load(&seg->head->pin[i].word) == key)
			return true;
	return false;
}
