/* SPDX-License-Identifier: MIT */

#include <sched.h>

#include "memory/odp.h"
#include "memory/region.h"

/* --- numbers of several words ---------------------------------------------------- */

static unsigned int words(uint32_t bytes)
{
	return bytes <= sizeof(uint64_t) ? 1 : bytes / (unsigned int)sizeof(uint64_t);
}

/* The bits of a word that belong to an operand of this size. */
static uint64_t used(uint32_t bytes)
{
	return bytes < sizeof(uint64_t) ? (1ull << (8 * bytes)) - 1 : UINT64_MAX;
}

static struct av_operand reversed(const struct av_operand *value, uint32_t bytes)
{
	unsigned int n = words(bytes);
	struct av_operand out;

	for (unsigned int i = 0; i < n; i++)
		out.word[n - 1 - i] = __builtin_bswap64(value->word[i]);
	if (bytes < sizeof(uint64_t))
		out.word[0] >>= 64 - 8 * bytes;
	return out;
}

/* a < b? Inverting both sign bits makes the comparison a signed one. */
static bool less(const struct av_operand *a, const struct av_operand *b, uint32_t bytes,
		 bool with_sign)
{
	uint64_t sign = with_sign ? (used(bytes) >> 1) + 1 : 0;

	for (unsigned int i = words(bytes); i-- > 0; sign = 0) {
		uint64_t x = (a->word[i] & used(bytes)) ^ sign,
			 y = (b->word[i] & used(bytes)) ^ sign;

		if (x != y)
			return x < y;
	}
	return false;
}

static bool equal(const struct av_operand *a, const struct av_operand *b,
		  const struct av_operand *mask, uint32_t bytes)
{
	uint64_t differ = 0;

	for (unsigned int i = 0; i < words(bytes); i++)
		differ |= (a->word[i] ^ b->word[i]) & used(bytes) &
			  (mask ? mask->word[i] : UINT64_MAX);
	return differ == 0;
}

/* --- the operations: old value in, new value out --------------------------------- */

typedef bool operation(const struct av_atomic *a, const struct av_operand *old,
		       struct av_operand *new);

/*
 * Fields are added without their top bits, so that nothing is carried out of a field. Then each top
 * bit is the carry-less sum of both addends' top bits and the carry into it.
 */
static bool add_operand_fields(const struct av_atomic *a, const struct av_operand *old,
			       struct av_operand *new)
{
	uint64_t carry = 0;

	for (unsigned int i = 0; i < words(a->bytes); i++) {
		uint64_t x = old->word[i], y = a->value.word[i], top = a->mask.word[i], sum;
		uint64_t carried = __builtin_add_overflow(x & ~top, y & ~top, &sum);

		carried += __builtin_add_overflow(sum, carry, &sum);
		new->word[i] = sum ^ ((x ^ y) & top);
		carry = carried;
	}
	return true;
}

#define BITWISE(name, operator)                                                   \
	static bool name(const struct av_atomic *a, const struct av_operand *old, \
			 struct av_operand *new)                                  \
	{                                                                         \
		for (unsigned int i = 0; i < words(a->bytes); i++)                \
			new->word[i] = old->word[i] operator a->value.word[i];    \
		return true;                                                      \
	}
BITWISE(bit_xor, ^)
BITWISE(bit_or, |)
BITWISE(bit_and, &)

static bool swap(const struct av_atomic *a, const struct av_operand *old, struct av_operand *new)
{
	for (unsigned int i = 0; i < words(a->bytes); i++)
		new->word[i] = a->value.word[i];
	return true;
}

static bool extreme(const struct av_atomic *a, const struct av_operand *old, struct av_operand *new)
{
	bool with_sign = a->op == AV_ATOMIC_MAX_SIGNED || a->op == AV_ATOMIC_MIN_SIGNED;
	bool largest = a->op == AV_ATOMIC_MAX_UNSIGNED || a->op == AV_ATOMIC_MAX_SIGNED;
	bool replaced = largest ? less(old, &a->value, a->bytes, with_sign)
				: less(&a->value, old, a->bytes, with_sign);

	*new = *(replaced ? &a->value : old);
	return true;
}

static bool cmp_swap(const struct av_atomic *a, const struct av_operand *old,
		     struct av_operand *new)
{
	if (!equal(old, &a->compare, &a->compare_mask, a->bytes))
		return false;
	for (unsigned int i = 0; i < words(a->bytes); i++)
		new->word[i] =
			(old->word[i] & ~a->mask.word[i]) | (a->value.word[i] & a->mask.word[i]);
	return true;
}

static bool cmp_swap_ne(const struct av_atomic *a, const struct av_operand *old,
			struct av_operand *new)
{
	return !equal(old, &a->compare, NULL, a->bytes) && swap(a, old, new);
}

static operation *const row[] = {
	[AV_ATOMIC_ADD] = add_operand_fields,
	[AV_ATOMIC_XOR] = bit_xor,
	[AV_ATOMIC_OR] = bit_or,
	[AV_ATOMIC_AND] = bit_and,
	[AV_ATOMIC_MAX_UNSIGNED] = extreme,
	[AV_ATOMIC_MAX_SIGNED] = extreme,
	[AV_ATOMIC_MIN_UNSIGNED] = extreme,
	[AV_ATOMIC_MIN_SIGNED] = extreme,
	[AV_ATOMIC_SWAP] = swap,
	[AV_ATOMIC_CMP_SWAP] = cmp_swap,
	[AV_ATOMIC_CMP_SWAP_NE] = cmp_swap_ne,
};
_Static_assert(AV_ARRAY_SIZE(row) == AV_ATOMIC_OP_N, "a row for each operation");

/*
 * An operand's @new value from the @old, both in its byte order in memory. Beyond the operand's
 * size nothing is read (@atomic may be uninitialized), and @new is undefined.
 * Return: false: a comparison failed, and @new equals @old
 */
static bool apply_atomic(const struct av_atomic *atomic, const struct av_operand *old,
			 struct av_operand *new)
{
	struct av_operand number =
		atomic->how == AV_ATOMIC_SWAPPED ? reversed(old, atomic->bytes) : *old;

	if (!row[atomic->op](atomic, &number, new)) {
		*new = *old;
		return false;
	}
	if (atomic->how == AV_ATOMIC_SWAPPED)
		*new = reversed(new, atomic->bytes);
	return true;
}

/* Copies between translated lists, and atomics. */

#define PAGE	     4096u
#define BOUNCE_BYTES 8192u
#define STEP_NS	     20000u   /* between read and write of an atomic in steps */
#define STRIPE_NS    1000000u /* how long one waits for a stripe at a time */

static enum av_fault report_vm_refused(struct av_seg *seg)
{
	if (!atomic_exchange(&seg->vm_refused, true))
		av_log(AV_LOG_WARN,
		       "the kernel does not let this process read and write the memory of process "
		       "%d (Yama, seccomp, another PID or user namespace, or a non-dumpable "
		       "program): what needs it travels in packets, which is slower, or fails if "
		       "there can be none; see 'anyverbs doctor'",
		       (int)seg->pid);
	return AV_FAULT_FORBIDDEN;
}

/* What a failed call stands for. @local: where this process's end, with @write the source, ended */
static enum av_fault vm_failure(int err, bool write, struct av_seg *seg, const void *local)
{
	bool local_bad;

	switch (err) {
	case EFAULT:
		local_bad = av_copy_probe(local, !write) == AV_COPY_FAULT;
		return local_bad == write ? AV_FAULT_SRC : AV_FAULT_DST;
	case EPERM:
	case ENOSYS:
		return report_vm_refused(seg);
	case ESRCH:
		return AV_FAULT_GONE;
	case EAGAIN:
		return AV_FAULT_BUSY;
	default: /* ENOMEM: the kernel failed; counts as the remote side's fault */
		return write ? AV_FAULT_DST : AV_FAULT_SRC;
	}
}

static struct av_vm_remote remote_part(const struct av_span *span, uint64_t offset, uint64_t bytes)
{
	return (struct av_vm_remote){
		.seg = span->seg, .pin = span->pin, .addr = span->addr + offset, .bytes = bytes};
}

/* To (@write) or from another process. Both ends are equally aligned. */
static enum av_fault vm_copy_aligned(bool write, struct av_vm_remote there, uint8_t *here)
{
	struct av_pieces pieces;

	while (there.bytes > 0) {
		ssize_t n;

		av_pieces_cut(&pieces, write ? there.addr : (uintptr_t)here, here, there.bytes);
		n = av_vm_call(write, &there, pieces.at, pieces.count);
		if (n < 0)
			return vm_failure((int)-n, write, there.seg, here);
		here += n;
		there.addr += (uint64_t)n;
		there.bytes -= (uint64_t)n;
	}
	return AV_FAULT_NONE;
}

/*
 * Through a bounce buffer aligned as the other process's end, so that its words do not tear. At
 * this one av_copy() moves whole words, the last one last.
 */
static enum av_fault vm_copy_bounced(bool write, struct av_vm_remote there, uint8_t *here)
{
	uint8_t room[BOUNCE_BYTES + AV_PIECES_LINE] AV_ALIGNED(AV_PIECES_LINE);
	uint64_t left = there.bytes;

	while (left > 0) {
		/* pieces end with a page of the destination, not within a word */
		uint64_t to = write ? there.addr : (uintptr_t)here,
			 n = BOUNCE_BYTES - (to & (PAGE - 1));
		uint8_t *bounce = room + there.addr % AV_PIECES_LINE;
		enum av_fault ret;

		there.bytes = n < left ? n : left;
		if (write && av_copy(bounce, here, there.bytes) != AV_COPY_OK)
			return AV_FAULT_SRC;
		ret = vm_copy_aligned(write, there, bounce);
		if (ret != AV_FAULT_NONE)
			return ret;
		if (!write && av_copy(here, bounce, there.bytes) != AV_COPY_OK)
			return AV_FAULT_DST;
		there.addr += there.bytes;
		here += there.bytes;
		left -= there.bytes;
	}
	return AV_FAULT_NONE;
}

/* @here: with @write it is only read. */
static enum av_fault vm_copy(bool write, struct av_vm_remote there, const void *here)
{
	uint8_t *p = (uint8_t *)(uintptr_t)here;

	return ((uintptr_t)here - there.addr) % AV_PIECES_LINE ? vm_copy_bounced(write, there, p)
							       : vm_copy_aligned(write, there, p);
}

/* Copy piece by piece from the end: ascending order would destroy the overlapping source. */
static enum av_fault own_copy_backwards(uint8_t *dst, const uint8_t *src, uint64_t bytes)
{
	uint8_t bounce[BOUNCE_BYTES];

	while (bytes > 0) {
		uint64_t n = bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;

		bytes -= n;
		if (av_copy(bounce, src + bytes, n) != AV_COPY_OK)
			return AV_FAULT_SRC;
		if (av_copy(dst + bytes, bounce, n) != AV_COPY_OK)
			return AV_FAULT_DST;
	}
	return AV_FAULT_NONE;
}

/* Did the source stop the copy? Probes each page of it: rare, and exact enough for a status. */
static bool source_is_bad(const uint8_t *src, uint64_t bytes)
{
	for (uint64_t off = 0; off < bytes; off += PAGE)
		if (av_copy_probe(src + off, 0) == AV_COPY_FAULT)
			return true;
	return av_copy_probe(src + bytes - 1, 0) == AV_COPY_FAULT;
}

static enum av_fault own_copy(uint8_t *dst, const uint8_t *src, uint64_t bytes, uint64_t now_ns)
{
	if (av_unlikely(av_xfer_destroys(dst, src, bytes)))
		return own_copy_backwards(dst, src, bytes);
	if (av_likely(av_copy_at(dst, src, bytes, now_ns) == AV_COPY_OK))
		return AV_FAULT_NONE;
	return source_is_bad(src, bytes) ? AV_FAULT_SRC : AV_FAULT_DST;
}

/* Write the bytes of a null region, which has no memory to read. */
static enum av_fault write_zeros(const struct av_span *d, uint64_t doff, uint64_t bytes,
				 uint64_t now_ns)
{
	static const uint8_t zeros[BOUNCE_BYTES];

	while (bytes > 0) {
		uint64_t n = bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;
		enum av_fault ret = d->local
					    ? own_copy((uint8_t *)d->local + doff, zeros, n, now_ns)
					    : vm_copy(true, remote_part(d, doff, n), zeros);

		if (ret != AV_FAULT_NONE)
			return ret;
		doff += n;
		bytes -= n;
	}
	return AV_FAULT_NONE;
}

static enum av_fault move_piece(const struct av_span *d, uint64_t doff, const struct av_span *s,
				uint64_t soff, uint64_t bytes, uint64_t now_ns)
{
	uint8_t *dl = d->local ? (uint8_t *)d->local + doff : NULL;
	const uint8_t *sl = s->local ? (const uint8_t *)s->local + soff : NULL;

	if (av_unlikely(d->null))
		return AV_FAULT_NONE;
	if (av_unlikely(s->null))
		return write_zeros(d, doff, bytes, now_ns);
	if (dl && sl)
		return own_copy(dl, sl, bytes, now_ns);
	if (dl)
		return vm_copy(false, remote_part(s, soff, bytes), dl);
	if (sl)
		return vm_copy(true, remote_part(d, doff, bytes), sl);
	return AV_FAULT_FORBIDDEN;
}

/* The same, and counts page fault events of memory that is paged on demand. */
enum av_fault av_xfer_copy_span(const struct av_span *d, uint64_t doff, const struct av_span *s,
				uint64_t soff, uint64_t bytes, uint64_t now_ns)
{
	struct av_odp_access write, read;
	enum av_fault ret;

	if (av_likely(!d->odp && !s->odp))
		return move_piece(d, doff, s, soff, bytes, now_ns);
	if (d->odp)
		av_odp_begin(d->seg, d->addr + doff, bytes, true, d->message, &write);
	if (s->odp)
		av_odp_begin(s->seg, s->addr + soff, bytes, false, s->message, &read);
	ret = move_piece(d, doff, s, soff, bytes, now_ns);
	if (s->odp && (ret == AV_FAULT_NONE || ret == AV_FAULT_SRC))
		av_odp_end(&read, ret == AV_FAULT_NONE);
	if (d->odp && (ret == AV_FAULT_NONE || ret == AV_FAULT_DST))
		av_odp_end(&write, ret == AV_FAULT_NONE);
	return ret;
}

static enum av_fault copy_span_piece(const struct av_span *d, uint64_t doff,
				     const struct av_span *s, uint64_t soff, uint64_t bytes,
				     uint64_t now_ns)
{
	if (av_unlikely(d->umr || s->umr))
		return av_klm_copy(d, doff, s, soff, bytes);
	return av_xfer_copy_span(d, doff, s, soff, bytes, now_ns);
}

enum av_fault av_xfer_copy_part(const struct av_spans *dst, const struct av_spans *src,
				uint64_t bytes, uint64_t now_ns)
{
	uint64_t left = bytes, doff = 0, soff = 0;
	const struct av_span *d = dst->at, *s = src->at;

	while (left > 0) {
		uint64_t n =
			d->length - doff < s->length - soff ? d->length - doff : s->length - soff;
		enum av_fault ret;

		if (n > left)
			n = left;
		ret = copy_span_piece(d, doff, s, soff, n, now_ns);
		if (ret != AV_FAULT_NONE)
			return ret;
		left -= n;
		doff += n;
		soff += n;
		if (doff == d->length) {
			d++;
			doff = 0;
		}
		if (soff == s->length) {
			s++;
			soff = 0;
		}
	}
	return AV_FAULT_NONE;
}

enum av_fault av_xfer_read(const struct av_spans *src, uint64_t bytes, uint64_t now_ns)
{
	uint8_t piece[PAGE];
	const struct av_span to = {.local = piece, .length = sizeof(piece)};
	enum av_fault ret = AV_FAULT_NONE;

	for (const struct av_span *s = src->at; s < src->at + src->count; s++)
		for (uint64_t at = 0, n; at < s->length && bytes > 0; at += n, bytes -= n) {
			n = s->length - at < PAGE ? s->length - at : PAGE;
			if (n > bytes)
				n = bytes;
			ret = copy_span_piece(&to, 0, s, at, n, now_ns);
			if (ret != AV_FAULT_NONE)
				return ret;
		}
	return ret;
}

/* --- atomics --------------------------------------------------------------------- */

static bool all_ones(const struct av_operand *mask)
{
	return mask->word[0] == UINT64_MAX;
}

/*
 * Operands within a word: exchange the aligned word around it, so that no store to its rest is
 * lost. It is in one page, and in the same block of the lock as the operand.
 */
static enum av_copy_result own_in_word(uint8_t *p, const struct av_atomic *a,
				       struct av_operand *old, uint64_t now_ns)
{
	unsigned int shift = 8 * (unsigned int)((uintptr_t)p % sizeof(uint64_t));
	uint64_t bits = UINT64_MAX >> (64 - 8 * a->bytes) << shift, seen, was;
	uint8_t *word = p - (uintptr_t)p % sizeof(uint64_t);
	struct av_operand new;
	enum av_copy_result ret = av_copy(&was, word, sizeof(was));

	do {
		if (ret != AV_COPY_OK)
			return ret;
		seen = was;
		old->word[0] = (seen & bits) >> shift;
		(void)!apply_atomic(a, old, &new);
		ret = av_copy_cmp_swap(word, seen, (seen & ~bits) | ((new.word[0] << shift) & bits),
				       &was, now_ns);
	} while (ret != AV_COPY_OK || was != seen);
	return AV_COPY_OK;
}

/* Let the program's threads run before the write. Return: has a store of theirs changed the word?
 */
static uint64_t step(const uint8_t *p, uint64_t old)
{
	uint64_t until = av_now_ns() + STEP_NS, now = old;

	do
		sched_yield();
	while (av_now_ns() < until);
	return av_copy(&now, p, sizeof(now)) == AV_COPY_OK && now != old;
}

/* Operands of several words, or in steps: the lock makes them atomic among each other. */
static enum av_copy_result own_wide(uint8_t *p, const struct av_atomic *a, struct av_operand *old)
{
	struct av_operand new;

	if (av_copy(old, p, a->bytes) != AV_COPY_OK)
		return AV_COPY_FAULT;
	if (!apply_atomic(a, old, &new))
		return av_copy_probe(p, 1); /* memory that is not writable is always a fault */
	if (a->how == AV_ATOMIC_IN_STEPS)
		old->word[1] = step(p, old->word[0]);
	return av_copy(p, &new, a->bytes);
}

static enum av_fault own_atomic(void *p, const struct av_atomic *a, struct av_operand *old,
				uint64_t now_ns)
{
	enum av_copy_result ret;

	if (a->bytes > sizeof(uint64_t))
		ret = own_wide(p, a, old);
	else if (a->bytes < sizeof(uint64_t) || a->how)
		ret = a->how == AV_ATOMIC_IN_STEPS ? own_wide(p, a, old)
						   : own_in_word(p, a, old, now_ns);
	else if (a->op == AV_ATOMIC_ADD && a->mask.word[0] == 0)
		ret = av_copy_fetch_add(p, a->value.word[0], &old->word[0], now_ns);
	else if (a->op == AV_ATOMIC_CMP_SWAP && all_ones(&a->mask) && all_ones(&a->compare_mask))
		ret = av_copy_cmp_swap(p, a->compare.word[0], a->value.word[0], &old->word[0],
				       now_ns);
	else
		ret = own_in_word(p, a, old, now_ns);
	return ret == AV_COPY_OK ? AV_FAULT_NONE : AV_FAULT_DST;
}

/*
 * Read the operand if the result depends on it, modify, write. @known: @old has been read, and
 * nobody has changed it since. Context: the operand's stripe is held.
 */
static enum av_fault vm_atomic(struct av_vm_remote at, const struct av_atomic *a,
			       struct av_operand *old, bool known)
{
	uint8_t room[2 * AV_PIECES_LINE] AV_ALIGNED(AV_PIECES_LINE),
		*place = &room[at.addr % AV_PIECES_LINE]; /* equally aligned */
	enum av_fault ret = AV_FAULT_NONE;
	struct av_operand new;

	if (a->op != AV_ATOMIC_SWAP && !known)
		ret = vm_copy(false, at, old);
	if (ret == AV_FAULT_SRC)
		return AV_FAULT_DST;
	if (ret != AV_FAULT_NONE || !apply_atomic(a, old, &new))
		return ret;
	memcpy(place, &new, a->bytes);
	return vm_copy_aligned(true, at, place);
}

/*
 * How often the stripe has been taken, for take_stripe() to compare. While it is held, a number
 * that the count has no more: its holder may change an operand. The count is read first: whoever
 * sees that of a holder sees the stripe held, too, or what that holder has changed.
 */
static uint32_t read_stripe_count(const struct av_dir_stripe *stripe)
{
	uint32_t taken = atomic_load_explicit(&stripe->taken, memory_order_acquire);

	return taken - (atomic_load_explicit(&stripe->lock.owner, memory_order_acquire) != 0);
}

/*
 * @seen: of read_stripe_count(). @known: out: nobody has changed an operand since then.
 * Return: false: its holder is slow, perhaps stopped; the caller tries again as long as it likes
 */
static bool take_stripe(struct av_dir_stripe *stripe, uint32_t seen, bool *known)
{
	struct av_lock *lock = &stripe->lock;
	uint32_t free = 0, taken;

	av_lock_order_wait(lock, AV_RANK_ATOMIC);
	if (av_unlikely(!atomic_compare_exchange_strong(&lock->owner, &free, av_lock_self)) &&
	    av_lock_wait_until(lock, av_now_ns() + STRIPE_NS) == AV_LOCK_BUSY) {
		av_lock_order_released(lock);
		return false;
	}
	taken = atomic_load_explicit(&stripe->taken, memory_order_relaxed);
	*known = taken == seen;
	atomic_store_explicit(&stripe->taken, taken + 1, memory_order_release);
	return true;
}

static enum av_fault atomic(const struct av_span *span, const struct av_atomic *a,
			    struct av_operand *old, uint64_t now_ns)
{
	struct av_dir_stripe *stripe = span->pages_owner
					       ? av_dir_stripe(span->pages_owner, span->offset)
					       : av_dir_stripe(span->seg->proc, span->addr);
	uint32_t seen = read_stripe_count(stripe);
	enum av_fault ret;
	bool known;

	/*
	 * Fault the page in before taking the stripe: nobody waits for a page while others wait for
	 * the stripe. What a system call has read need not be read again, if nobody else came.
	 */
	if (span->local) {
		if (av_copy_probe_at(span->local, 0, now_ns) != AV_COPY_OK)
			return AV_FAULT_DST;
	} else {
		ret = vm_copy(false, remote_part(span, 0, a->bytes), old);
		if (ret != AV_FAULT_NONE)
			return ret == AV_FAULT_SRC ? AV_FAULT_DST : ret;
	}
	if (!take_stripe(stripe, seen, &known))
		return AV_FAULT_BUSY;
	if (span->local)
		ret = own_atomic(span->local, a, old, now_ns);
	else
		ret = vm_atomic(remote_part(span, 0, a->bytes), a, old, known);
	av_lock_release(&stripe->lock);
	return ret;
}

enum av_fault av_xfer_atomic(const struct av_span *span, const struct av_atomic *a,
			     struct av_operand *old, uint64_t now_ns)
{
	struct av_odp_access access;
	enum av_fault ret;

	if (av_unlikely(span->umr))
		return av_klm_atomic(span, a, old, now_ns);
	if (av_likely(!span->odp))
		return atomic(span, a, old, now_ns);
	av_odp_begin(span->seg, span->addr, span->length, true, NULL, &access);
	ret = atomic(span, a, old, now_ns);
	if (ret == AV_FAULT_NONE || ret == AV_FAULT_DST)
		av_odp_end(&access, ret == AV_FAULT_NONE);
	return ret;
}
