/* SPDX-License-Identifier: MIT */
/* Copies to and from UMR spans, and atomics. */
#include "memory/klm_copy.h"

#include <sched.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "memory/klm_iter.h"
#include "memory/vm.h"

#define SMALL	     1024u /* from this size on, a system call per piece costs little */
#define PAIRS	     64u
#define BOUNCE_BYTES 4096u
#define PATIENCE     64u /* looks at a key that is being changed before all pins are put */

/* A piece of the destination, and the source bytes for it. */
struct pair {
	const struct av_span *d, *s;
	uint64_t doff, soff, bytes;
};

/*
 * Small pieces that wait to be copied by one call, to or from @runs of memory in the other process.
 */
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

/*
 * Cut each run into pieces as copy/copy.h requires.
 * Return:  number of pieces of the buffer
 */
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

/*
 * Bytes that were read are copied to their destination in order, in whole words. Bytes that were
 * written are there already.
 */
static bool placed(const struct batch *b, uint32_t i)
{
	const struct pair *p = &b->pair[i];

	return !p->d->local ||
	       av_copy((uint8_t *)p->d->local + p->doff, b->at[i], p->bytes) == AV_COPY_OK;
}

/*
 * Copy the batch with one call. What it leaves undone is copied piece by piece, which finds the
 * fault.
 */
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

/*
 * Room in the buffer at the same offset in a 64-byte line as the other process's bytes. So the
 * bytes of one run are adjacent in the buffer, too.
 */
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

static enum av_fault add_write(struct batch *b, const struct pair *p)
{
	uint64_t to = p->d->addr + p->doff;
	uint8_t *at = reserve_bounce_bytes(b, to, p->bytes);

	if (av_copy(at, (const uint8_t *)p->s->local + p->soff, p->bytes) != AV_COPY_OK) {
		enum av_fault ret = flush_klm_batch(b);

		return ret == AV_FAULT_NONE ? av_xfer_copy_span(p->d, p->doff, p->s, p->soff,
								p->bytes, av_now_coarse_ns())
					    : ret;
	}
	append_batch_piece(b, p, to, at);
	return AV_FAULT_NONE;
}

static enum av_fault queue_klm_pair(struct batch *b, const struct pair *p)
{
	bool full = b->count == PAIRS || b->used + AV_PIECES_LINE + p->bytes > BOUNCE_BYTES;
	enum av_fault ret = AV_FAULT_NONE;

	if (!is_small(p)) {
		ret = flush_klm_batch(b);
		return ret == AV_FAULT_NONE ? av_xfer_copy_span(p->d, p->doff, p->s, p->soff,
								p->bytes, av_now_coarse_ns())
					    : ret;
	}
	if (full)
		ret = flush_klm_batch(b);
	if (ret != AV_FAULT_NONE)
		return ret;
	if (!p->d->local)
		return add_write(b, p);
	append_batch_piece(b, p, p->s->addr + p->soff,
			   reserve_bounce_bytes(b, p->s->addr + p->soff, p->bytes));
	return AV_FAULT_NONE;
}

/* Copy the first @bytes of one run to another. Both have that many. */
static enum av_fault copy_runs(const struct av_run *d, const struct av_run *s, uint64_t bytes)
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
static enum av_fault expand(const struct pair *p, struct av_run *d, struct av_run *s)
{
	enum av_fault ret =
		av_fault_of(av_klm_iter_expand(p->d, p->doff, p->bytes, d), AV_FAULT_DST);

	if (ret != AV_FAULT_NONE)
		return ret;
	ret = av_fault_of(av_klm_iter_expand(p->s, p->soff, p->bytes, s), AV_FAULT_SRC);
	if (ret != AV_FAULT_NONE)
		av_klm_iter_drop(d);
	return ret;
}

enum av_fault av_klm_copy(const struct av_span *d, uint64_t doff, const struct av_span *s,
			  uint64_t soff, uint64_t bytes)
{
	struct pair p = {d, s, doff, soff, bytes};
	struct av_run to, from;
	unsigned int looks = 0;

	while (p.bytes > 0) {
		enum av_fault ret = expand(&p, &to, &from);
		uint64_t n;

		if (ret == AV_FAULT_BUSY && ++looks < PATIENCE) {
			sched_yield();
			continue;
		}
		if (ret != AV_FAULT_NONE)
			return ret;
		n = to.bytes < from.bytes ? to.bytes : from.bytes;
		ret = copy_runs(&to, &from, n);
		av_klm_iter_drop(&to);
		av_klm_iter_drop(&from);
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
	struct av_run run;
	enum av_fault ret =
		av_fault_of(av_klm_iter_expand(span, 0, span->length, &run), AV_FAULT_DST);
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
	av_klm_iter_drop(&run);
	return ret;
}
