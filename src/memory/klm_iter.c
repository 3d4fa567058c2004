/* SPDX-License-Identifier: MIT */
#include "memory/klm_iter.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/limits.h"
#include "memory/key.h"
#include "memory/linger.h"
#include "segment/alloc.h"

uint64_t av_klm_alloc(struct av_seg *seg, uint32_t capacity)
{
	uint64_t at = av_seg_alloc(seg, av_klm_bytes(capacity));
	struct av_klm_list *list = at ? av_seg_at(seg, at, av_klm_bytes(capacity)) : NULL;

	if (list)
		list->capacity = capacity;
	return at;
}

void av_klm_free(struct av_seg *seg, uint64_t list, uint32_t capacity)
{
	av_linger_free_memory(seg, list, av_klm_bytes(capacity));
}

/* Do all addresses of an element fit 64 bits? */
static bool entry_fits(const struct av_klm_entry *e, uint64_t rounds)
{
	uint64_t last;

	if (e->length == 0)
		return true;
	return !__builtin_mul_overflow(rounds - 1, e->stride, &last) &&
	       !__builtin_add_overflow(last, e->addr, &last) && !av_range_wraps(last, e->length);
}

int av_klm_layout(struct av_klm_entry *entries, uint32_t count, uint64_t rounds, uint64_t base)
{
	uint64_t round = 0, total;

	for (uint32_t i = 0; i < count; i++) {
		entries[i].start = round;
		if (!entry_fits(&entries[i], rounds) ||
		    __builtin_add_overflow(round, entries[i].length, &round))
			return EINVAL;
	}
	if (__builtin_mul_overflow(round, rounds, &total) || av_range_wraps(base, total))
		return EINVAL;
	return 0;
}

static uint64_t round_of(const struct av_klm_fill *fill)
{
	const struct av_klm_entry *last = fill->count ? &fill->entries[fill->count - 1] : NULL;

	return last ? last->start + last->length : 0;
}

/* Context: the key's lock is held, the key is withdrawn, and nobody uses it. */
static void replace_klm_list(struct av_key *k, struct av_klm_list *list,
			     const struct av_klm_fill *fill)
{
	list->count = fill->count;
	list->round = round_of(fill);
	if (fill->count)
		memcpy(list->at, fill->entries, fill->count * sizeof(fill->entries[0]));
	k->access = fill->access;
	k->base = fill->base;
	k->length = list->round * fill->rounds;
}

static int fill_locked(struct av_seg *seg, struct av_key *k, const struct av_klm_fill *fill)
{
	struct av_klm_list *list;
	uint64_t place;
	bool drained;

	if (atomic_load(&k->held) != fill->key || k->kind != AV_KEY_UMR || k->pd != fill->pd)
		return EINVAL;
	place = __atomic_load_n(&k->addr, __ATOMIC_RELAXED);
	list = av_seg_at(seg, place, sizeof(*list));
	if (!list || fill->count > list->capacity ||
	    !av_seg_at(seg, place, av_klm_bytes(fill->count)))
		return EINVAL;
	atomic_store(&k->key, 0);
	drained = av_pin_drain(seg, fill->key);
	if (drained)
		replace_klm_list(k, list, fill);
	atomic_store_explicit(&k->key, fill->key, memory_order_release);
	return drained ? 0 : EINVAL;
}

int av_klm_fill(struct av_seg *seg, const struct av_klm_fill *fill)
{
	struct av_key *k = fill->key ? av_key_entry(seg, fill->key) : NULL;
	int ret;

	/* Check first: this may be a window by now, whose lock may be held for long. */
	if (!k || atomic_load(&k->held) != fill->key)
		return EINVAL;
	if (av_peer_lock(seg, &k->lock, AV_RANK_KEY_RIGHT) == AV_LOCK_BUSY)
		return EINVAL;
	ret = fill_locked(seg, k, fill);
	av_lock_release(&k->lock);
	return ret;
}

/* From UMR keys down their lists to the bytes. */

static_assert(AV_KLM_PINS > AV_KLM_DEPTH + 1, "the keys on the way to one piece");

static void release_klm_pins(struct av_klm_pins *pins)
{
	for (uint32_t i = 0; i < pins->count; i++)
		av_pin_end(pins->at[i].pin);
	pins->count = 0;
}

/*
 * Pin a key, unless it is pinned already.
 * Return:  NULL: no pin is left for it
 */
static struct av_pin *pin_key(struct av_klm_pins *pins, struct av_seg *seg, uint32_t key)
{
	struct av_pin *pin;

	for (uint32_t i = pins->count; i-- > 0;)
		if (pins->at[i].key == key && pins->at[i].seg == seg)
			return pins->at[i].pin;
	pin = pins->count < AV_KLM_PINS ? av_pin_begin(seg, key) : NULL;
	if (!pin)
		return NULL;
	pins->at[pins->count].seg = seg;
	pins->at[pins->count].key = key;
	pins->at[pins->count++].pin = pin;
	return pin;
}

/* The last element that begins at or before byte @at of a round, and is not empty. */
static uint32_t find_klm_element(const struct av_klm_list *list, uint32_t count, uint64_t at)
{
	uint32_t first = 0, behind = count;

	while (behind - first > 1) {
		uint32_t middle = first + (behind - first) / 2;

		if (list->at[middle].start <= at)
			first = middle;
		else
			behind = middle;
	}
	return first;
}

/* One step down: the piece that a UMR span begins with, as far as it is contiguous. */
static bool descend(const struct av_span *span, struct av_mem_request *to)
{
	const struct av_key *k = span->umr;
	uint64_t place = __atomic_load_n(&k->addr, __ATOMIC_RELAXED);
	const struct av_klm_list *list = av_seg_at(span->seg, place, sizeof(*list));
	uint64_t offset = span->addr - k->base, at;
	uint64_t round = list ? __atomic_load_n(&list->round, __ATOMIC_RELAXED) : 0;
	uint32_t count = list ? __atomic_load_n(&list->count, __ATOMIC_RELAXED) : 0;
	struct av_klm_entry e;

	if (count == 0 || round == 0 || !av_seg_at(span->seg, place, av_klm_bytes(count)))
		return false;
	at = offset % round;
	e = list->at[find_klm_element(list, count, at)];
	AV_COPIED();
	if (at < e.start || at - e.start >= e.length)
		return false; /* the list is inconsistent */
	at -= e.start;
	to->key = e.key;
	to->addr = e.addr + offset / round * e.stride + at;
	to->length = e.length - at < span->length ? e.length - at : span->length;
	return true;
}

/* All steps down: the bytes that a UMR span begins with. */
static enum av_check first_piece(const struct av_span *span, struct av_klm_pins *pins,
				 struct av_span *piece)
{
	uint32_t access = span->writes ? IBV_ACCESS_LOCAL_WRITE : 0;

	*piece = *span;
	for (unsigned int depth = 0; depth < AV_KLM_DEPTH; depth++) {
		struct av_mem_request req = {.pd = piece->umr->pd, .access = access};
		enum av_check found;
		struct av_pin *pin;
		struct av_seg *seg;

		if (!descend(piece, &req))
			return AV_CHECK_KEY_PIECE;
		seg = av_mem_key_owner(piece->seg, req.key);
		if (!seg || !av_key_entry(seg, req.key))
			return AV_CHECK_LKEY_UNKNOWN;
		pin = pin_key(pins, seg, req.key);
		if (!pin)
			return AV_CHECK_BUSY;
		found = av_mem_resolve(seg, &req, piece);
		piece->pin = pin;
		piece->message = span->message;
		if (found != AV_CHECK_NONE)
			return found;
		if (!piece->umr)
			return AV_CHECK_NONE;
	}
	return AV_CHECK_KEY_PIECE;
}

static struct av_span slice_span(const struct av_span *span, uint64_t offset, uint64_t bytes)
{
	struct av_span part = *span;

	if (part.local)
		part.local = (uint8_t *)part.local + offset;
	part.addr += offset;
	part.length = bytes;
	return part;
}

enum av_check av_klm_iter_check(const struct av_span *span)
{
	enum av_check found = AV_CHECK_NONE;
	struct av_klm_pins pins = {0};
	struct av_span piece;

	for (uint64_t done = 0; done < span->length && found == AV_CHECK_NONE;
	     done += piece.length) {
		struct av_span rest = slice_span(span, done, span->length - done);

		found = first_piece(&rest, &pins, &piece);
		if (found == AV_CHECK_BUSY &&
		    pins.count > 0) { /* perhaps our own pins keep it busy */
			release_klm_pins(&pins);
			found = first_piece(&rest, &pins, &piece);
		}
	}
	release_klm_pins(&pins);
	return found;
}

enum av_check av_klm_iter_expand(const struct av_span *span, uint64_t offset, uint64_t bytes,
				 struct av_run *run)
{
	run->count = 0;
	run->bytes = 0;
	run->pins.count = 0;
	if (!span->umr) {
		run->at[run->count++] = slice_span(span, offset, bytes);
		run->bytes = bytes;
		return AV_CHECK_NONE;
	}
	while (run->bytes < bytes && run->count < AV_RUN_PIECES) {
		struct av_span rest = slice_span(span, offset + run->bytes, bytes - run->bytes);
		enum av_check found = first_piece(&rest, &run->pins, &run->at[run->count]);

		if (found != AV_CHECK_NONE && run->count > 0)
			break; /* the next call finds it again */
		if (found != AV_CHECK_NONE) {
			av_klm_iter_drop(run);
			return found;
		}
		run->bytes += run->at[run->count++].length;
	}
	return AV_CHECK_NONE;
}

void av_klm_iter_drop(struct av_run *run)
{
	release_klm_pins(&run->pins);
	run->count = 0;
}
