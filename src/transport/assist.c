/* SPDX-License-Identifier: MIT */
/* Messages that both sides copy. */
#include "transport/assist.h"

#include <string.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "base/limits.h"
#include "memory/pin.h"
#include "memory/plain.h"
#include "transport/connect.h"

static_assert(AV_MAX_MSG_BYTES / AV_ASSIST_PIECE + 1 < 1u << 16,
	      "pieces of a message count in 16 bits");
static_assert(AV_ASSIST_MIN > AV_ASSIST_PIECE + AV_ASSIST_REST, "there is something to share");

/* A wait for a poller that has lost its core, or is stopped: longer than any piece takes. What is
 * lost so is kept in bounds, see wait_for_piece(). */
#define LONG_NS	    100000u
#define REST_FACTOR 16u

/* --- pieces ---------------------------------------------------------------------- */

/*
 * They are cut where cache lines of the destination begin, so that no two cores write to one line,
 * and each word of the destination is stored whole.
 */
static uint64_t line_of(uint64_t addr)
{
	return addr & ~(uint64_t)(AV_CACHE_LINE - 1);
}

/* Bytes of a message that are shared out. @to: where it goes */
static uint64_t shared_bytes(uint64_t to, uint64_t bytes)
{
	return line_of(to + bytes - AV_ASSIST_REST) - to;
}

static uint32_t count_pieces(uint64_t to, uint64_t bytes)
{
	uint64_t span = shared_bytes(to, bytes) + (to - line_of(to));

	return (uint32_t)((span + AV_ASSIST_PIECE - 1) / AV_ASSIST_PIECE);
}

struct piece {
	uint64_t at, bytes; /* in the message */
};

static struct piece cut(uint64_t to, uint64_t bytes, uint32_t number)
{
	uint64_t shared = shared_bytes(to, bytes), skew = to - line_of(to);
	uint64_t begin = (uint64_t)number * AV_ASSIST_PIECE, end = begin + AV_ASSIST_PIECE - skew;

	begin -= number ? skew : 0;
	return (struct piece){begin, (end < shared ? end : shared) - begin};
}

static bool claim_first(struct av_assist *a, uint32_t *number)
{
	uint32_t left = atomic_load_explicit(&a->left, memory_order_relaxed);

	do {
		if (!av_assist_wanted(left))
			return false;
	} while (!atomic_compare_exchange_weak(&a->left, &left, left + 1));
	*number = left & 0xffff;
	return true;
}

/* The last one, which is @number unless the message is closed meanwhile; by the holder of @piece.
 */
static bool claim_last(struct av_assist *a, uint32_t number)
{
	uint32_t left = atomic_load_explicit(&a->left, memory_order_relaxed);

	do {
		if (!av_assist_wanted(left) || (left >> 16) - 1 != number)
			return false;
	} while (!atomic_compare_exchange_weak(&a->left, &left, left - (1u << 16)));
	return true;
}

/* --- the sender ------------------------------------------------------------------ */

/*
 * Take @piece, waiting for whoever is copying one. Who waits long for a poller without a core asks
 * nobody for so much time that little of it can be lost so. Return: of av_lock_acquire()
 */
static enum av_lock_result wait_for_piece(struct av_assist *a)
{
	enum av_lock_result got;
	uint64_t begin, now;

	if (av_lock_try_free(&a->piece))
		return AV_LOCK_TAKEN;
	begin = av_now_ns();
	got = av_lock_acquire(&a->piece);
	now = av_now_ns();
	if (now - begin > LONG_NS)
		atomic_store_explicit(&a->alone_until_ns, now + REST_FACTOR * (now - begin),
				      memory_order_relaxed);
	return got;
}

/* No more claims, and wait for the piece that is under way. Return: has everything claimed been
 * copied? */
static bool close_message(struct av_assist *a)
{
	bool died;

	atomic_store(&a->left, 0);
	died = wait_for_piece(a) == AV_LOCK_REPAIR;
	av_lock_release(&a->piece);
	return !died && !atomic_load_explicit(&a->failed, memory_order_relaxed);
}

/* Return: false: another sender's message is there */
static bool take_place(struct av_assist *a)
{
	enum av_lock_result got = av_lock_try(&a->sender);

	if (got == AV_LOCK_REPAIR)
		(void)close_message(a); /* that of a process that died */
	return got != AV_LOCK_BUSY;
}

/* Can a poller reach the source? And is it worth while to ask? */
static bool may_ask(const struct av_assist *a, const struct av_assist_message *m)
{
	const struct av_key *k = av_key_entry(m->here, m->from.lkey);

	return k && k->adopted &&
	       m->now_ns >= atomic_load_explicit(&a->alone_until_ns, memory_order_relaxed);
}

static void open_message(struct av_assist *a, const struct av_assist_message *m)
{
	a->job = (struct av_assist_job){
		.qp = m->rsp->index,
		.bytes = m->from.length,
		.from_key = m->from.lkey,
		.to_key = m->to.lkey,
		.from = m->from.addr,
		.to = m->to.addr,
	};
	atomic_store_explicit(&a->failed, 0, memory_order_relaxed);
	atomic_store_explicit(&a->left, count_pieces(m->to.addr, m->from.length) << 16,
			      memory_order_release);
}

static bool copy(const struct av_assist_message *m, uint8_t *to, const uint8_t *from,
		 struct piece p)
{
	return av_copy_part_at(to + p.at, from + p.at, p.bytes, m->from.length, m->now_ns) ==
	       AV_COPY_OK;
}

bool av_assist_copy(const struct av_assist_message *m, uint8_t *to, const uint8_t *from)
{
	struct av_cq_shared *cq = av_cq_at(m->there, m->rsp->recv_cq);
	uint64_t bytes = m->from.length, shared = shared_bytes(m->to.addr, bytes);
	uint32_t number;
	bool ok = true;

	if (!cq || !may_ask(&cq->assist, m) || !take_place(&cq->assist))
		return copy(m, to, from, (struct piece){0, bytes});
	open_message(&cq->assist, m);
	while (ok && claim_first(&cq->assist, &number))
		ok = copy(m, to, from, cut(m->to.addr, bytes, number));
	ok = close_message(&cq->assist) && ok;
	av_lock_release(&cq->assist.sender);
	return ok && copy(m, to, from, (struct piece){shared, bytes - shared});
}

void av_assist_abandon(const struct av_qp_end *rsp)
{
	struct av_cq_shared *cq = av_cq_at(rsp->seg, rsp->qp->recv_cq);

	if (!cq)
		return;
	av_lock_acquire_plain(&cq->assist.piece);
	if (atomic_load(&cq->assist.left) && cq->assist.job.qp == rsp->qp->index)
		atomic_store(&cq->assist.left, 0);
	av_lock_release(&cq->assist.piece);
}

/* --- the poller ------------------------------------------------------------------ */

/* What to copy, of a message that is open. Another process has written it: it is copied first. */
static bool read_job(const struct av_assist *a, struct av_assist_job *job, uint32_t *number,
		     struct piece *p)
{
	uint32_t left = atomic_load_explicit(&a->left, memory_order_acquire);

	if (!av_assist_wanted(left))
		return false;
	memcpy(job, &a->job, sizeof(*job));
	if (job->bytes < AV_ASSIST_MIN || job->bytes > AV_MAX_MSG_BYTES)
		return false;
	*number = (left >> 16) - 1;
	*p = cut(job->to, job->bytes, *number);
	return *number < count_pieces(job->to, job->bytes);
}

/* The keys are announced. */
static void copy_piece(const struct av_qp_end *rsp, const struct av_qp_end *req,
		       struct av_assist *a, const struct av_assist_job *job, uint32_t number,
		       struct piece p)
{
	const struct av_rq_shared *rq = av_rq_at(rsp->seg, rsp->qp->rq);
	uint8_t *to, *from;

	if (!rq)
		return;
	to = av_plain_at(rsp->seg, job->to_key, rq->pd, IBV_ACCESS_LOCAL_WRITE, job->to + p.at,
			 p.bytes)
		     .local;
	from = av_plain_at(req->seg, job->from_key, req->qp->pd, 0, job->from + p.at, p.bytes)
		       .local;
	if (!to || !from || !claim_last(a, number) ||
	    av_copy_part_at(to, from, p.bytes, job->bytes, av_now_coarse_ns()) == AV_COPY_OK)
		return;
	atomic_store_explicit(&a->failed, 1, memory_order_relaxed);
	atomic_store(&a->left, 0); /* the rest would be for nothing */
}

/* @piece is held: the message stays what it is, if it is open. */
static void help(const struct av_qp_end *rsp, const struct av_qp_end *req, struct av_assist *a)
{
	struct av_pin *local = av_pin_kept(rsp->seg, AV_PIN_LOCAL);
	struct av_pin *remote = av_pin_kept(req->seg, AV_PIN_REMOTE);
	struct av_assist_job job;
	struct piece p;
	uint32_t number;

	if (!local || !remote || !read_job(a, &job, &number, &p))
		return;
	if (job.qp != rsp->qp->index || rsp->qp->attr.dest_qp_num != atomic_load(&req->qp->qpn))
		return;
	av_pin_announce(local, job.to_key);
	av_pin_announce_alone(remote, job.from_key);
	av_pin_barrier();
	copy_piece(rsp, req, a, &job, number, p);
	av_pin_rest(remote);
	av_pin_rest(local);
}

void av_assist_help_with(const struct av_qp_end *rsp, const struct av_qp_end *req,
			 struct av_cq_shared *cq)
{
	if (!av_lock_try_free(&cq->assist.piece))
		return;
	help(rsp, req, &cq->assist);
	av_lock_release(&cq->assist.piece);
}

void av_assist_help(struct av_seg *seg, struct av_cq_shared *cq)
{
	struct av_qp_end rsp = {seg, av_qp_at(seg, __atomic_load_n(&cq->assist.job.qp,
								   __ATOMIC_RELAXED))},
			 req = {0};

	if (!rsp.qp)
		return;
	av_connect(&rsp, &req); /* a guess until the lock is held; what is found stays there */
	if (req.qp && !req.seg->own)
		av_assist_help_with(&rsp, &req, cq);
	av_disconnect(&req);
}
