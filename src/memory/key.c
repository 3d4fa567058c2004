/* SPDX-License-Identifier: MIT */
#include "memory/key.h"

#include <sched.h>

#include "base/thread.h"
#include "base/wait.h"
#include "observe/freedom.h"

/* Claiming pin words, and waiting until they are free. */

/*
 * A SEND within one context pins each element of both sides, and the keys on the way through a UMR
 * key. With fewer words it would wait for ever.
 */
static_assert(AV_PINS >= 2 * AV_MAX_SGE + AV_KLM_PINS, "words for one request");

_Thread_local uint32_t av_pin_place AV_TLS_FAST;
static _Atomic uint32_t places;

static struct av_pin *claim_free_pin(struct av_seg *seg, uint64_t word)
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
static void clear_dead_pins(struct av_seg *seg, uint32_t key)
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
	pin = claim_free_pin(seg, word);
	if (av_likely(pin != NULL))
		return pin;
	clear_dead_pins(seg, 0);
	return claim_free_pin(seg, word);
}

/*
 * Waits @ns, see av_timed_out_after(); 0: as long as it takes. Once @until is set, others have had
 * their turns, whichever word was waited for then. Return: false: in vain
 */
static bool wait_pin_release(struct av_pin *pin, uint64_t word, uint64_t *until, uint64_t ns)
{
	uint64_t dead = word;

	for (unsigned int turn = 0; atomic_load_explicit(&pin->word, memory_order_acquire) == word;
	     turn++) {
		if (av_backoff_enough(turn) || *until) {
			if (!av_dir_proc_alive((uint32_t)(word >> 32)))
				atomic_compare_exchange_strong(&pin->word, &dead, 0);
			else if (ns && av_timed_out_after(until, ns))
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

/* First taken word from number @i on, or AV_PINS. By blocks: a deregistration's hot spot. */
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

/* @ns: how long it waits for peers */
static bool drain(struct av_seg *seg, av_pin_chosen *chosen, const void *arg, uint64_t *until,
		  uint64_t ns)
{
	AV_UNCANCELLED;
	struct av_pin *pins = seg->head->pin;
	bool ret = true;

	atomic_thread_fence(memory_order_seq_cst); /* pairs with av_pin_begin()'s */
	for (uint32_t i = taken(pins, 0); i < AV_PINS; i = taken(pins, i + 1)) {
		uint64_t word = atomic_load_explicit(&pins[i].word, memory_order_acquire);

		bool mine = seg->own && word >> 32 == av_lock_self;

		if (word != 0 && chosen(seg, (uint32_t)word, arg) &&
		    !wait_pin_release(&pins[i], word, until, mine ? 0 : ns))
			ret = false;
	}
	return ret;
}

static bool is_that(struct av_seg *seg, uint32_t key, const void *that)
{
	return key == *(const uint32_t *)that;
}

bool av_pin_drain(struct av_seg *seg, uint32_t key)
{
	uint64_t until = 0;

	return drain(seg, is_that, &key, &until, AV_PEER_TIMEOUT_NS);
}

bool av_pin_try_drain(struct av_seg *seg, uint32_t key)
{
	uint64_t until = 0;

	return drain(seg, is_that, &key, &until, AV_STOPPED_NS);
}

static bool is_used_by_stopped(struct av_seg *seg, av_pin_chosen *chosen, const void *arg)
{
	AV_UNCANCELLED;
	const struct av_pin *pins = seg->head->pin;

	for (uint32_t i = taken(pins, 0); i < AV_PINS; i = taken(pins, i + 1)) {
		uint64_t word = atomic_load(&pins[i].word);

		if (word && chosen(seg, (uint32_t)word, arg) &&
		    av_thread_is_stopped(av_dir_proc_pid((uint32_t)(word >> 32))))
			return true;
	}
	return false;
}

bool av_pin_drain_chosen(struct av_seg *seg, av_pin_chosen *chosen, const void *arg,
			 uint64_t *until)
{
	uint64_t soon = 0;

	for (; !drain(seg, chosen, arg, &soon, AV_STOPPED_NS); soon = 0)
		if (av_timed_out(until) || is_used_by_stopped(seg, chosen, arg))
			return false;
	return true;
}

bool av_pin_is_held(struct av_seg *seg, uint32_t key)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with av_pin_begin()'s */
	clear_dead_pins(seg, key);
	for (uint32_t i = 0; i < AV_PINS; i++)
		if ((uint32_t)atomic_load(&seg->head->pin[i].word) == key)
			return true;
	return false;
}

/* 0 has index 0, which no key has. */
static_assert(AV_SLAB_CHUNKS * AV_KEY_CHUNK <= AV_KEY_INDEX(0xdeadbeefu), "numbers of no key");

/* The first tag differs between contexts, so that a key of one is rarely a key of another. */
static uint8_t first_tag(const struct av_seg *seg, uint32_t index)
{
	return (uint8_t)((seg->ref * 0x9e3779b1u ^ index * 0x85ebca6bu) >> 24);
}

AV_RACY bool av_key_was_given(const struct av_seg *seg, uint32_t key)
{
	const struct av_key *k = av_key_entry(seg, key);
	uint8_t first = first_tag(seg, AV_KEY_INDEX(key));

	if (!k || key == 0 || k->kind == AV_KEY_NONE)
		return false;
	return k->kind == AV_KEY_WINDOW || (uint8_t)(key - first - 1) < (uint8_t)(k->tag - first);
}

static void fill_key_entry(struct av_key *k, const struct av_key *what)
{
	k->pd = what->pd;
	k->access = what->access;
	k->base = what->base;
	k->length = what->length;
	k->addr = what->addr;
	k->in_origin = what->in_origin;
	atomic_store_explicit(&k->intact, what->intact, memory_order_relaxed);
	if (k->kind != AV_KEY_WINDOW)
		k->heap = what->heap;
}

void av_key_describe(const struct av_key *k, struct av_key *what)
{
	*what = (struct av_key){.kind = k->kind};
	fill_key_entry(what, k);
}

static bool names_region(uint8_t kind, uint8_t window_type)
{
	return av_kind_of(kind)->is & AV_KIND_BINDABLE ||
	       (kind == AV_KEY_WINDOW && window_type == AV_WINDOW_RKEY);
}

/*
 * The tag of a new key. A strict device gives a dead region's number to the next one, to the byte:
 * whoever still has it reaches that.
 */
static uint8_t next_tag(const struct av_seg *seg, const struct av_key *k, uint32_t index,
			const struct av_key *what)
{
	static _Atomic uint64_t last;
	struct av_flight_record r = {
		.kind = AV_FLIGHT_EVENT,
		.check = AV_CHECK_STRICT_KEYS,
		.has = AV_HAS_OBJECT,
		.object = AV_OBJECT_MR,
		.number = index << 8 | k->tag,
	};

	if (k->kind == AV_KEY_NONE)
		return first_tag(seg, index) + 1;
	if (!(seg->head->strict & AV_FREEDOM_BIT(AV_FREEDOM_KEYS)) || !k->was_region ||
	    !names_region(what->kind, what->window_type))
		return k->tag + 1;
	av_flight_replace(&last, av_report_beside(&r));
	return k->tag;
}

uint32_t av_key_create(struct av_seg *seg, const struct av_key *what, uint32_t limit)
{
	uint32_t index = av_slab_alloc(seg, AV_SLAB_KEY, limit);
	struct av_key *k = index ? av_key_entry(seg, index << 8) : NULL;
	uint32_t key;

	if (!k)
		return 0;
	k->tag = next_tag(seg, k, index, what);
	key = index << 8 | k->tag;
	k->kind = what->kind;
	k->qpn = k->windows = 0;
	fill_key_entry(k, what);
	av_region_count_begin(seg, key, what->kind == AV_KEY_ODP);
	if (what->kind == AV_KEY_WINDOW)
		k->window_type = what->window_type;
	if (what->kind != AV_KEY_WINDOW) { /* a window's key gives no access until it is bound */
		atomic_store(&k->held, key);
		atomic_store_explicit(&k->key, key, memory_order_release);
	}
	return key;
}

#define TURNS 3 /* of counting windows while they change */

static void begin_window_count(struct av_key *region)
{
	av_lock_acquire_plain(&region->lock, AV_RANK_KEY);
	region->windows |= AV_WINDOWS_COUNTING;
	av_lock_release(&region->lock);
}

/* Return: false: the count has changed meanwhile */
static bool commit_window_count(struct av_key *region, uint32_t bound)
{
	bool unchanged;

	av_lock_acquire_plain(&region->lock, AV_RANK_KEY);
	unchanged = region->windows & AV_WINDOWS_COUNTING;
	if (unchanged)
		region->windows = bound;
	av_lock_release(&region->lock);
	return unchanged;
}

/*
 * Add @k to *@bound if it is a window bound to that region. Waits for a binder: then its window is
 * in the region's count, or will never be. Return: false: not had in time
 */
static bool count_bound_window(struct av_key *k, uint32_t region, uint64_t until_ns,
			       uint32_t *bound)
{
	if (atomic_load(&k->kind) != AV_KEY_WINDOW)
		return true;
	if (av_lock_acquire_until(&k->lock, AV_RANK_KEY_CHANGE, until_ns) == AV_LOCK_BUSY)
		return false;
	if (k->kind == AV_KEY_WINDOW && atomic_load(&k->key) && k->region == region)
		++*bound;
	av_lock_release(&k->lock);
	return true;
}

/* Walks the table itself: a program that deallocates a window names it no more. */
static bool count_bound_windows(struct av_seg *seg, uint32_t region, uint64_t until_ns,
				uint32_t *bound)
{
	*bound = 0;
	for (uint32_t n = 0; n < AV_SLAB_CHUNKS; n++) {
		struct av_key *k = av_key_entry(seg, n * AV_KEY_CHUNK << 8);

		for (uint32_t i = 0; k && i < AV_KEY_CHUNK; i++)
			if (!count_bound_window(&k[i], region, until_ns, bound))
				return false;
	}
	return true;
}

/*
 * Recount an own region's windows. Waits AV_PEER_TIMEOUT_NS at most for binds under way. Return:
 * true: none is bound. false: one is; the count kept changing; or a bind did not end in time
 */
static bool no_window_bound(struct av_seg *seg, uint32_t region)
{
	struct av_key *r = av_key_entry(seg, region);
	uint64_t until_ns = av_now_ns() + AV_PEER_TIMEOUT_NS;
	uint32_t bound;

	for (int i = 0; i < TURNS; i++) {
		begin_window_count(r);
		if (!count_bound_windows(seg, region, until_ns, &bound))
			return false;
		if (commit_window_count(r, bound))
			return bound == 0;
	}
	return false;
}

/* On success the key's lock is held. Return: false: windows are bound to it */
static bool withdraw_key(struct av_seg *seg, uint32_t key, bool for_good)
{
	struct av_key *k = av_key_entry(seg, key);

	av_lock_acquire_plain(&k->lock, AV_RANK_KEY);
	if (k->windows) {
		av_lock_release(&k->lock);
		if (!no_window_bound(seg, key))
			return false;
		av_lock_acquire_plain(&k->lock, AV_RANK_KEY);
	}
	if (k->windows) { /* since then */
		av_lock_release(&k->lock);
		return false;
	}
	if (for_good)
		atomic_store(&k->held, 0);
	atomic_store(&k->key, 0);
	return true;
}

static void restore_withdrawn_key(struct av_key *k, uint32_t key)
{
	atomic_store(&k->held, key);
	atomic_store_explicit(&k->key, key, memory_order_release);
}

int av_key_destroy(struct av_seg *seg, uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);

	if (!withdraw_key(seg, key, true))
		return EBUSY;
	k->tag = key & 0xff;
	k->was_region = names_region(k->kind, 0);
	av_lock_release(&k->lock);
	if (!av_pin_try_drain(seg, key)) {
		if (av_deferred_key(seg, key))
			return 0;
		if (!av_pin_drain(seg, key)) {
			restore_withdrawn_key(k, key);
			return ETIMEDOUT;
		}
	}
	av_slab_free(seg, AV_SLAB_KEY, AV_KEY_INDEX(key));
	return 0;
}

void av_key_kill(struct av_seg *seg, uint32_t key)
{
	struct av_key *k = av_key_entry(seg, key);

	if (!k || !atomic_compare_exchange_strong(&k->held, &(uint32_t){key}, 0))
		return;
	atomic_store(&k->key, 0);
	(void)av_pin_drain(seg, key);
}

int av_key_change(struct av_seg *seg, uint32_t key, const struct av_key *what)
{
	struct av_key *k = av_key_entry(seg, key);

	if (!withdraw_key(seg, key, false))
		return EBUSY;
	av_lock_release(&k->lock);
	if (!av_pin_drain(seg, key)) {
		restore_withdrawn_key(k, key);
		return ETIMEDOUT;
	}
	av_lock_acquire_plain(&k->lock, AV_RANK_KEY); /* for readers without a pin */
	fill_key_entry(k, what);
	k->kind = what->kind;
	av_lock_release(&k->lock);
	atomic_store_explicit(&k->key, key, memory_order_release);
	return 0;
}

bool av_key_retry(uint64_t *until)
{
	sched_yield();
	return !until || !av_timed_out(until);
}

struct av_key *av_key_lock_region(struct av_seg *seg, uint32_t key)
{
	struct av_key *k = key ? av_key_entry(seg, key) : NULL;
	uint64_t until = 0;

	/* Check first: a window's lock may be held for long. */
	while (k && atomic_load(&k->held) == key) {
		if (av_peer_lock(seg, &k->lock, AV_RANK_KEY) == AV_LOCK_BUSY)
			return NULL;
		if (atomic_load(&k->key) == key)
			return k;
		av_lock_release(&k->lock);
		if (!av_seg_alive(seg) || !av_key_retry(seg->own ? NULL : &until))
			return NULL;
	}
	return NULL;
}

bool av_key_is_on_demand(struct av_seg *seg, uint32_t key)
{
	const struct av_key *k = key ? av_key_entry(seg, key) : NULL;

	return k && atomic_load(&k->held) == key && atomic_load(&k->kind) == AV_KEY_ODP &&
	       atomic_load(&k->held) == key;
}
