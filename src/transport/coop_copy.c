/* SPDX-License-Identifier: MIT */
/* Messages that both sides copy. */
#include "transport/execution.h"

static_assert(AV_MAX_MSG_BYTES / AV_COOP_CHUNK + 1 < 1u << 16,
	      "chunks of a message count in 16 bits");
static_assert(AV_COOP_MIN > AV_COOP_CHUNK + AV_COOP_REST, "there is something to share");

/*
 * A wait this long is longer than any chunk takes: the poller is stopped or has lost its core.
 * wait_for_chunk() limits what such waits cost.
 */
#define LONG_NS	    100000u
#define REST_FACTOR 16u

/* --- chunks ---------------------------------------------------------------------- */

/*
 * Chunks are cut at cache lines of the destination. So no two cores write to one line, and each
 * word of the destination is stored whole.
 */
static uint64_t align_to_cache_line(uint64_t addr)
{
	return addr & ~(uint64_t)(AV_CACHE_LINE - 1);
}

/* Bytes of a message that are divided into chunks. @to: its destination */
static uint64_t count_coop_bytes(uint64_t to, uint64_t bytes)
{
	return align_to_cache_line(to + bytes - AV_COOP_REST) - to;
}

static uint32_t count_chunks(uint64_t to, uint64_t bytes)
{
	uint64_t span = count_coop_bytes(to, bytes) + (to - align_to_cache_line(to));

	return (uint32_t)((span + AV_COOP_CHUNK - 1) / AV_COOP_CHUNK);
}

struct chunk {
	uint64_t at, bytes; /* in the message */
};

static struct chunk compute_coop_chunk(uint64_t to, uint64_t bytes, uint32_t number)
{
	uint64_t shared = count_coop_bytes(to, bytes), skew = to - align_to_cache_line(to);
	uint64_t begin = (uint64_t)number * AV_COOP_CHUNK, end = begin + AV_COOP_CHUNK - skew;

	begin -= number ? skew : 0;
	return (struct chunk){begin, (end < shared ? end : shared) - begin};
}

/* Is there a chunk that no thread has claimed? */
static bool has_unclaimed(uint32_t left)
{
	return (left & 0xffff) < left >> 16;
}

/* Claim the first chunk, which is @number unless the word is a peer's nonsense. */
static bool claim_first(struct av_coop_copy *a, uint32_t number)
{
	uint32_t left = atomic_load_explicit(&a->left, memory_order_relaxed);

	do {
		if (!has_unclaimed(left) || (left & 0xffff) != number)
			return false;
	} while (!atomic_compare_exchange_weak(&a->left, &left, left + 1));
	return true;
}

/* Claim the last chunk, which is @number unless the message was closed. Context: @chunk is held. */
static bool claim_last(struct av_coop_copy *a, uint32_t number)
{
	uint32_t left = atomic_load_explicit(&a->left, memory_order_relaxed);

	do {
		if (!has_unclaimed(left) || (left >> 16) - 1 != number)
			return false;
	} while (!atomic_compare_exchange_weak(&a->left, &left, left - (1u << 16)));
	return true;
}

/* --- the sender ------------------------------------------------------------------ */

/*
 * Take @chunk, and wait for whoever is copying one. After a long wait for a poller without a core,
 * asks nobody for help for a multiple of that time. So such waits cost little in all.
 * Return: as av_peer_lock()
 */
static enum av_lock_result wait_for_chunk(struct av_seg *seg, struct av_coop_copy *a)
{
	enum av_lock_result got;
	uint64_t begin, now;

	if (av_lock_try_free(&a->chunk, AV_RANK_CHUNK))
		return AV_LOCK_TAKEN;
	begin = av_now_ns();
	got = av_peer_lock(seg, &a->chunk, AV_RANK_CHUNK);
	now = av_now_ns();
	if (now - begin > LONG_NS)
		atomic_store_explicit(&a->alone_until_ns, now + REST_FACTOR * (now - begin),
				      memory_order_relaxed);
	return got;
}

/* Allow no more claims, and wait for the chunk in work. Return: is everything claimed copied? */
static enum av_coop_result close_message(struct av_seg *seg, struct av_coop_copy *a)
{
	enum av_lock_result got;

	atomic_store(&a->left, 0);
	got = wait_for_chunk(seg, a);
	if (got == AV_LOCK_BUSY)
		return AV_COOP_STUCK;
	av_lock_release(&a->chunk);
	return got == AV_LOCK_TAKEN && !atomic_load_explicit(&a->failed, memory_order_relaxed)
		       ? AV_COOP_COPIED
		       : AV_COOP_NOT;
}

/* Return:  false: another sender's message is in the CQ */
static bool try_open(struct av_seg *seg, struct av_coop_copy *a)
{
	enum av_lock_result got = av_lock_try(&a->sender, AV_RANK_SENDER);

	if (got == AV_LOCK_REPAIR)
		(void)close_message(seg, a); /* the message of a process that died */
	return got != AV_LOCK_BUSY;
}

/* Can a poller reach the source, and is it worth asking for help? */
static bool may_share(const struct av_coop_copy *a, const struct av_coop_source *source)
{
	const struct av_key *k = av_key_entry(source->req->seg, source->sge.lkey);

	return k && k->heap &&
	       av_now_coarse_ns() >= atomic_load_explicit(&a->alone_until_ns, memory_order_relaxed);
}

static void open_message(struct av_coop_copy *a, const struct av_coop_source *source,
			 const struct av_qp_ref *rsp, const struct ibv_sge *recv)
{
	a->job = (struct av_coop_job){
		.qp = rsp->qp->index,
		.bytes = source->sge.length,
		.from_key = source->sge.lkey,
		.to_key = recv->lkey,
		.from = source->sge.addr,
		.to = recv->addr,
	};
	atomic_store_explicit(&a->failed, 0, memory_order_relaxed);
	atomic_store_explicit(&a->left, count_chunks(recv->addr, source->sge.length) << 16,
			      memory_order_release);
}

static bool copy_coop_chunk(uint8_t *to, const uint8_t *from, struct chunk p, uint64_t whole)
{
	return av_copy_part_at(to + p.at, from + p.at, p.bytes, whole, av_now_coarse_ns()) ==
	       AV_COPY_OK;
}

enum av_coop_result av_coop_copy(const struct av_coop_source *source, const struct av_qp_ref *rsp,
				 const struct ibv_sge *recv, uint8_t *to, const uint8_t *from)
{
	struct av_cq_shared *cq = av_cq_at(rsp->seg, rsp->qp->recv_cq);
	uint64_t bytes = source->sge.length, shared = count_coop_bytes(recv->addr, bytes);
	struct av_coop_copy *a = cq ? &cq->coop : NULL;
	uint32_t number, count = count_chunks(recv->addr, bytes);
	enum av_coop_result closed;
	bool ok = true;

	AV_ASSERT_HELD(&rsp->qp->resp_lock);
	if (!a || av_xfer_destroys(to, from, bytes) || !may_share(a, source) ||
	    !try_open(rsp->seg, a))
		return AV_COOP_NOT;
	open_message(a, source, rsp, recv);
	for (number = 0; ok && number < count && claim_first(a, number); number++)
		ok = copy_coop_chunk(to, from, compute_coop_chunk(recv->addr, bytes, number),
				     bytes);
	closed = close_message(rsp->seg, a);
	av_lock_release(&a->sender);
	if (closed != AV_COOP_COPIED)
		return closed;
	ok = ok && copy_coop_chunk(to, from, (struct chunk){shared, bytes - shared}, bytes);
	return ok ? AV_COOP_COPIED : AV_COOP_NOT;
}

void av_coop_abandon(const struct av_qp_ref *rsp)
{
	struct av_cq_shared *cq = av_cq_at(rsp->seg, rsp->qp->recv_cq);

	if (!cq)
		return;
	if (av_peer_lock(rsp->seg, &cq->coop.chunk, AV_RANK_CHUNK) == AV_LOCK_BUSY)
		return;
	if (atomic_load(&cq->coop.left) && cq->coop.job.qp == rsp->qp->index)
		atomic_store(&cq->coop.left, 0);
	av_lock_release(&cq->coop.chunk);
}

/* --- the poller ------------------------------------------------------------------ */

/* Read the job of an open message. Another process writes it: it is copied before it is checked. */
static bool read_job(const struct av_coop_copy *a, struct av_coop_job *job, uint32_t *number,
		     struct chunk *p)
{
	uint32_t left = atomic_load_explicit(&a->left, memory_order_acquire);

	if (!has_unclaimed(left))
		return false;
	memcpy(job, &a->job, sizeof(*job));
	AV_COPIED();
	if (job->bytes < AV_COOP_MIN || job->bytes > AV_MAX_MSG_BYTES)
		return false;
	*number = (left >> 16) - 1;
	*p = compute_coop_chunk(job->to, job->bytes, *number);
	return *number < count_chunks(job->to, job->bytes);
}

/* Translate one side's part, and pin its key. NULL: not in memory that every process maps */
static uint8_t *get_bytes(struct av_seg *seg, const struct av_mem_request *req,
			  struct av_span *span)
{
	if (av_mem_get(seg, req, span) != AV_CHECK_NONE)
		return NULL;
	if (span->local && !span->odp)
		return span->local;
	av_pin_end(span->pin);
	return NULL;
}

/* @to and @from are addresses in this process, under pins. */
static void claim_and_copy_chunk(struct av_coop_copy *a, const struct av_coop_job *job,
				 uint32_t number, struct chunk p, uint8_t *to, const uint8_t *from)
{
	if (!claim_last(a, number) ||
	    av_copy_part_at(to, from, p.bytes, job->bytes, av_now_coarse_ns()) == AV_COPY_OK)
		return;
	atomic_store_explicit(&a->failed, 1, memory_order_relaxed);
	atomic_store(&a->left, 0); /* copying the rest would be useless */
}

/* Context: @chunk is held, so an open message does not change. */
static void help(const struct av_qp_ref *rsp, const struct av_qp_ref *req, struct av_coop_copy *a)
{
	const struct av_rq_shared *rq = av_rq_at(rsp->seg, rsp->qp->rq);
	struct av_mem_request dst, src;
	struct av_coop_job job;
	struct av_span to, from;
	uint8_t *dst_at, *src_at;
	uint32_t number;
	struct chunk p;

	if (!rq || !read_job(a, &job, &number, &p) || job.qp != rsp->qp->index ||
	    rsp->qp->attr.dest_qp_num != atomic_load(&req->qp->qpn))
		return;
	dst = (struct av_mem_request){.key = job.to_key,
				      .pd = rq->pd,
				      .access = IBV_ACCESS_LOCAL_WRITE,
				      .addr = job.to + p.at,
				      .length = p.bytes};
	src = (struct av_mem_request){
		.key = job.from_key, .pd = req->qp->pd, .addr = job.from + p.at, .length = p.bytes};
	dst_at = get_bytes(rsp->seg, &dst, &to);
	if (!dst_at)
		return;
	src_at = get_bytes(req->seg, &src, &from);
	if (src_at) {
		claim_and_copy_chunk(a, &job, number, p, dst_at, src_at);
		av_pin_end(from.pin);
	}
	av_pin_end(to.pin);
}

void av_coop_help_with(const struct av_qp_ref *rsp, const struct av_qp_ref *req,
		       struct av_cq_shared *cq)
{
	if (!av_lock_try_free(&cq->coop.chunk, AV_RANK_CHUNK))
		return;
	help(rsp, req, &cq->coop);
	av_lock_release(&cq->coop.chunk);
}

void av_coop_help(struct av_seg *seg, struct av_cq_shared *cq)
{
	struct av_qp_ref rsp = {seg,
				av_qp_at(seg, __atomic_load_n(&cq->coop.job.qp, __ATOMIC_RELAXED))},
			 req = {0};

	if (!rsp.qp)
		return;
	/* A guess, checked by help() under @chunk. The peer stays mapped until av_disconnect() */
	av_connect(&rsp, &req);
	if (req.qp && !req.seg->own)
		av_coop_help_with(&rsp, &req, cq);
	av_disconnect(&req);
}
