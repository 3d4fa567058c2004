/* SPDX-License-Identifier: MIT */

#include <sched.h>

#include "memory/region.h"

static uint64_t klm_list_bytes(uint32_t capacity)
{
	return sizeof(struct av_klm_list) + (uint64_t)capacity * sizeof(struct av_klm_entry);
}

uint64_t av_klm_alloc(struct av_seg *seg, uint32_t capacity)
{
	uint64_t at = av_seg_alloc(seg, klm_list_bytes(capacity));
	struct av_klm_list *list = at ? av_seg_at(seg, at, klm_list_bytes(capacity)) : NULL;

	if (list)
		list->capacity = capacity;
	return at;
}

void av_klm_free(struct av_seg *seg, uint64_t list, uint32_t capacity)
{
	av_deferred_free(seg, list, klm_list_bytes(capacity));
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
	    !av_seg_at(seg, place, klm_list_bytes(fill->count)))
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
	if (av_peer_lock(seg, &k->lock, AV_RANK_KEY_CHANGE) == AV_LOCK_BUSY)
		return EINVAL;
	ret = fill_locked(seg, k, fill);
	av_lock_release(&k->lock);
	return ret;
}

/*
 * Expansion of a UMR span into runs of bytes, a few at a time. The span's pin keeps the UMR key; a
 * struct run pins the keys between it and the bytes while its pieces are in use, at most
 * AV_KLM_PINS. So a region may be deregistered, or a key filled, during a long transfer, which then
 * fails at that piece. A corrupt peer may have written the lists: offsets and counts are checked,
 * and there are at most AV_KLM_DEPTH steps down.
 */

#define RUN_PIECES 64u /* a whole copy is on the executor's stack */

struct klm_pins {
	uint32_t count;
	struct {
		struct av_seg *seg;
		uint32_t key;
		struct av_pin *pin;
	} at[AV_KLM_PINS];
};

/*
 * The next pieces of a span, none behind a UMR key. Their pins are @pins, or those of a span that
 * is itself not behind a UMR key.
 */
struct run {
	uint32_t count;
	uint64_t bytes;
	struct klm_pins pins;
	struct av_span at[RUN_PIECES];
};

static_assert(AV_KLM_PINS > AV_KLM_DEPTH + 1, "the keys on the way to one piece");

static void release_klm_pins(struct klm_pins *pins)
{
	for (uint32_t i = 0; i < pins->count; i++)
		av_pin_end(pins->at[i].pin);
	pins->count = 0;
}

/* Pin a key, unless it is pinned already. Return: NULL: no pin is left for it */
static struct av_pin *pin_key(struct klm_pins *pins, struct av_seg *seg, uint32_t key)
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

	if (count == 0 || round == 0 || !av_seg_at(span->seg, place, klm_list_bytes(count)))
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
static enum av_check first_piece(const struct av_span *span, struct klm_pins *pins,
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
	struct klm_pins pins = {0};
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

static void drop_run(struct run *run)
{
	release_klm_pins(&run->pins);
	run->count = 0;
}

/*
 * The first pieces of [offset, offset + bytes) of a span of any kind. @run: out; on AV_CHECK_NONE
 * at least one piece, for drop_run(); else nothing is held. Return: as av_mem_get(). On
 * AV_CHECK_BUSY the caller drops every other run and retries for a bounded time. Then it unpins
 * everything and executes the request again: two such callers could wait for each other
 * (docs/concurrency/HANDSHAKES.md).
 */
static enum av_check expand_span(const struct av_span *span, uint64_t offset, uint64_t bytes,
				 struct run *run)
{
	run->count = 0;
	run->bytes = 0;
	run->pins.count = 0;
	if (!span->umr) {
		run->at[run->count++] = slice_span(span, offset, bytes);
		run->bytes = bytes;
		return AV_CHECK_NONE;
	}
	while (run->bytes < bytes && run->count < RUN_PIECES) {
		struct av_span rest = slice_span(span, offset + run->bytes, bytes - run->bytes);
		enum av_check found = first_piece(&rest, &run->pins, &run->at[run->count]);

		if (found != AV_CHECK_NONE && run->count > 0)
			break; /* the next call finds it again */
		if (found != AV_CHECK_NONE) {
			drop_run(run);
			return found;
		}
		run->bytes += run->at[run->count++].length;
	}
	return AV_CHECK_NONE;
}

/* Copies to and from UMR spans, and atomics. */

#define SMALL	     1024u /* from this size on, a system call per piece costs little */
#define PAIRS	     64u
#define BOUNCE_BYTES 4096u
#define LOOKS	     64u /* looks at a key that is being changed before all pins are put */

/* A piece of the destination, and the source bytes for it. */
struct pair {
	const struct av_span *d, *s;
	uint64_t doff, soff, bytes;
};

/* Small pieces, to be copied by one call, to or from @runs of memory in the other process. */
struct batch {
	uint32_t count, runs;
	uint64_t used; /* of the bounce buffer */
	struct pair pair[PAIRS];
	struct iovec remote[PAIRS];
	uint8_t *at[PAIRS];	/* where each piece is in the buffer, */
	uint8_t *run_at[PAIRS]; /* and each run */
	struct iovec local[PAIRS * AV_PIECES_MAX];
	uint8_t room[BOUNCE_BYTES + AV_PIECES_LINE] AV_ALIGNED(AV_PIECES_LINE);
};

static bool is_small(const struct pair *p)
{
	return p->bytes <= SMALL && !p->d->local != !p->s->local && !p->d->odp && !p->s->odp &&
	       !p->d->null && !p->s->null;
}

/* Cut each run into pieces as copy/copy.h requires. Return: number of pieces of the buffer */
static size_t cut_runs(struct batch *b)
{
	struct av_pieces cut;
	size_t count = 0;

	for (uint32_t i = 0; i < b->runs; i++) {
		av_pieces_cut(&cut, (uintptr_t)b->remote[i].iov_base, b->run_at[i],
			      b->remote[i].iov_len);
		for (size_t k = 0; k < cut.count; k++)
			b->local[count++] = cut.at[k];
	}
	return count;
}

/* What keeps the other process's pieces: mostly one key. Return: number of pins */
static size_t pins_of(const struct batch *b, bool write, struct av_pin **pins)
{
	size_t count = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		struct av_pin *pin = write ? b->pair[i].d->pin : b->pair[i].s->pin;

		if (count == 0 || pins[count - 1] != pin)
			pins[count++] = pin;
	}
	return count;
}

static uint64_t move_batch(struct batch *b)
{
	bool write = !b->pair[0].d->local;
	struct av_seg *seg = write ? b->pair[0].d->seg : b->pair[0].s->seg;
	struct av_pin *pins[PAIRS];
	ssize_t n;

	n = av_vm_call_many(write, seg, pins, pins_of(b, write, pins), b->local, cut_runs(b),
			    b->remote, b->runs);
	return n > 0 ? (uint64_t)n : 0;
}

/* Bytes that were read go to their destination in order, in whole words. Written ones are there. */
static bool placed(const struct batch *b, uint32_t i)
{
	const struct pair *p = &b->pair[i];

	return !p->d->local ||
	       av_copy((uint8_t *)p->d->local + p->doff, b->at[i], p->bytes) == AV_COPY_OK;
}

/* Copy the batch with one call, and what is left piece by piece, which finds the fault. */
static enum av_fault flush_klm_batch(struct batch *b)
{
	uint64_t moved = b->count > 0 ? move_batch(b) : 0;
	enum av_fault ret = AV_FAULT_NONE;

	for (uint32_t i = 0; i < b->count && ret == AV_FAULT_NONE; i++) {
		const struct pair *p = &b->pair[i];

		if (moved >= p->bytes && placed(b, i)) {
			moved -= p->bytes;
			continue;
		}
		moved = 0;
		ret = av_xfer_copy_span(p->d, p->doff, p->s, p->soff, p->bytes, av_now_coarse_ns());
	}
	b->count = b->runs = 0;
	b->used = 0;
	return ret;
}

/* Room in the buffer at the same offset in a 64-byte line as there: a run's bytes stay adjacent. */
static uint8_t *reserve_bounce_bytes(struct batch *b, uint64_t remote, uint64_t bytes)
{
	uint8_t *at = b->room + b->used + ((remote - b->used) & (AV_PIECES_LINE - 1));

	b->used = (uint64_t)(at - b->room) + bytes;
	return at;
}

/* Add a piece's bytes in the other process. They extend the last run if they are adjacent to it. */
static void append_batch_piece(struct batch *b, const struct pair *p, uint64_t remote, uint8_t *at)
{
	struct iovec *last = b->runs ? &b->remote[b->runs - 1] : NULL;

	b->at[b->count] = at;
	b->pair[b->count++] = *p;
	if (last && (uintptr_t)last->iov_base + last->iov_len == remote) {
		last->iov_len += p->bytes;
		return;
	}
	b->run_at[b->runs] = at;
	b->remote[b->runs++] =
		(struct iovec){.iov_base = (void *)(uintptr_t)remote, .iov_len = p->bytes};
}

/* Copy a piece by itself, behind those that wait. */
static enum av_fault copy_alone(struct batch *b, const struct pair *p)
{
	enum av_fault ret = flush_klm_batch(b);

	return ret == AV_FAULT_NONE ? av_xfer_copy_span(p->d, p->doff, p->s, p->soff, p->bytes,
							av_now_coarse_ns())
				    : ret;
}

static enum av_fault queue_klm_pair(struct batch *b, const struct pair *p)
{
	uint64_t remote = p->d->local ? p->s->addr + p->soff : p->d->addr + p->doff;
	uint8_t *at;

	if (!is_small(p))
		return copy_alone(b, p);
	if (b->count == PAIRS || b->used + AV_PIECES_LINE + p->bytes > BOUNCE_BYTES) {
		enum av_fault ret = flush_klm_batch(b);

		if (ret != AV_FAULT_NONE)
			return ret;
	}
	at = reserve_bounce_bytes(b, remote, p->bytes);
	if (!p->d->local &&
	    av_copy(at, (const uint8_t *)p->s->local + p->soff, p->bytes) != AV_COPY_OK)
		return copy_alone(b, p);
	append_batch_piece(b, p, remote, at);
	return AV_FAULT_NONE;
}

/* Copy the first @bytes of one run to another. Both have that many. */
static enum av_fault copy_runs(const struct run *d, const struct run *s, uint64_t bytes)
{
	struct pair p = {.d = d->at, .s = s->at};
	enum av_fault ret = AV_FAULT_NONE;
	struct batch batch;

	batch.count = batch.runs = 0;
	batch.used = 0;
	while (bytes > 0 && ret == AV_FAULT_NONE) {
		uint64_t dleft = p.d->length - p.doff, sleft = p.s->length - p.soff;

		p.bytes = dleft < sleft ? dleft : sleft;
		p.bytes = p.bytes < bytes ? p.bytes : bytes;
		ret = queue_klm_pair(&batch, &p);
		bytes -= p.bytes;
		p.doff += p.bytes;
		p.soff += p.bytes;
		if (p.doff == p.d->length)
			p.d++, p.doff = 0;
		if (p.soff == p.s->length)
			p.s++, p.soff = 0;
	}
	return ret == AV_FAULT_NONE ? flush_klm_batch(&batch) : ret;
}

/* Expand the next pieces of both ends, or of neither. */
static enum av_fault expand(const struct pair *p, struct run *d, struct run *s)
{
	enum av_fault ret = av_fault_of(expand_span(p->d, p->doff, p->bytes, d), AV_FAULT_DST);

	if (ret != AV_FAULT_NONE)
		return ret;
	ret = av_fault_of(expand_span(p->s, p->soff, p->bytes, s), AV_FAULT_SRC);
	if (ret != AV_FAULT_NONE)
		drop_run(d);
	return ret;
}

enum av_fault av_klm_copy(const struct av_span *d, uint64_t doff, const struct av_span *s,
			  uint64_t soff, uint64_t bytes)
{
	struct pair p = {d, s, doff, soff, bytes};
	struct run to, from;
	unsigned int looks = 0;

	while (p.bytes > 0) {
		enum av_fault ret = expand(&p, &to, &from);
		uint64_t n;

		if (ret == AV_FAULT_BUSY && ++looks < LOOKS) {
			sched_yield();
			continue;
		}
		if (ret != AV_FAULT_NONE)
			return ret;
		n = to.bytes < from.bytes ? to.bytes : from.bytes;
		ret = copy_runs(&to, &from, n);
		drop_run(&to);
		drop_run(&from);
		if (ret != AV_FAULT_NONE)
			return ret;
		p.doff += n;
		p.soff += n;
		p.bytes -= n;
		looks = 0;
	}
	return AV_FAULT_NONE;
}

/* A null region has no memory: its operand is 0. */
enum av_fault av_klm_atomic(const struct av_span *span, const struct av_atomic *atomic,
			    struct av_operand *old, uint64_t now_ns)
{
	struct run run;
	enum av_fault ret = av_fault_of(expand_span(span, 0, span->length, &run), AV_FAULT_DST);
	const struct av_span *operand = run.at;

	if (ret != AV_FAULT_NONE)
		return ret;
	if (operand->length < span->length)
		ret = AV_FAULT_REM_MISALIGNED;
	else if (operand->null)
		*old = (struct av_operand){.word = {0}};
	else if (operand->addr & (span->length - 1))
		ret = AV_FAULT_REM_MISALIGNED;
	else
		ret = av_xfer_atomic(operand, atomic, old, now_ns);
	drop_run(&run);
	return ret;
}
