/* SPDX-License-Identifier: MIT */
#include "transport/transport.h"

#include <errno.h>
#include <sched.h>

#include "base/clock.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "registry/directory.h"
#include "transport/execution.h"
#include "transport/rules.h"

/* Resuming requesters that wait for receive requests. */

#define BATCH_MIN 8u
#define BATCH_MAX 64u

/* An eighth of the queue makes it worth resuming a requester. 1: resume it for each */
static uint32_t batch(const struct av_rq_shared *rq)
{
	uint32_t share = rq->capacity / 8;

	if (share < BATCH_MIN)
		return 1;
	return share < BATCH_MAX ? share : BATCH_MAX;
}

/* The requester of an own queue pair may go on, if it waits. */
static void resume_peer(const struct av_qp_ref *end, struct av_rq_shared *rq)
{
	if (!atomic_exchange(&rq->waiting, 0))
		return;
	if (end->qp->wire)
		av_wire_tell_credits(end);
	else
		av_sq_progress_peer(end);
}

/* The same, of queue pair @index; 0: none. */
static void resume_owed(struct av_seg *seg, uint32_t index)
{
	struct av_qp_ref end = {seg, index ? av_qp_at(seg, index) : NULL};
	struct av_rq_shared *rq = end.qp ? av_rq_at(seg, end.qp->rq) : NULL;

	if (rq)
		resume_peer(&end, rq);
}

void av_rnr_posted(const struct av_qp_ref *end, struct av_rq_shared *rq)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->recv_cq);

	if (batch(rq) == 1 || av_rq_ready(rq) >= batch(rq) || !cq || !av_cq_peek(end->seg, cq))
		resume_peer(end, rq);
	else if (atomic_load_explicit(&cq->owed, memory_order_relaxed) != end->qp->index)
		resume_owed(end->seg, atomic_exchange(&cq->owed, end->qp->index));
}

/* An own queue pair waits for its peer, or did so: execute it if it has been kicked. */
static void resume_waiting_qp(struct av_seg *seg, struct av_cq_shared *cq, uint32_t index)
{
	struct av_qp_ref end = {seg, av_qp_at(seg, index)};

	if (!end.qp ||
	    atomic_load_explicit(&end.qp->wait_reason, memory_order_relaxed) != AV_WAIT_RNR)
		(void)!atomic_compare_exchange_strong(&cq->waiting, &index, 0);
	else if (atomic_load_explicit(&end.qp->kick, memory_order_relaxed))
		av_sq_progress(&end, NULL);
}

void av_rnr_polled_check(struct av_seg *seg, struct av_cq_shared *cq, bool long_since)
{
	uint32_t waiting = atomic_load_explicit(&cq->waiting, memory_order_relaxed);

	if (av_unlikely(waiting))
		resume_waiting_qp(seg, cq, waiting);
	if (long_since && atomic_load_explicit(&cq->owed, memory_order_relaxed))
		resume_owed(seg, atomic_exchange(&cq->owed, 0));
}

/* Taking completions and placing what came with them. */

/*
 * Polls in vain before a thread yields its core once. Measured: pure spinning collapses when peers
 * share a core, and so does constant yielding beside a thread that never yields. Where nobody wants
 * the core, a message waits for the system call to end. So a thread yields less often the less its
 * yields help.
 */
#define YIELD_AFTER_MIN 128u
#define YIELD_AFTER_MAX 8192u
#define OTHERS_RAN_NS	2000u /* a yield that took this long let another thread run */

static void fill_wc(struct ibv_wc *wc, const struct av_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = (enum ibv_wc_status)cqe->status;
	wc->opcode = (enum ibv_wc_opcode)cqe->opcode;
	wc->vendor_err = 0;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm;
	wc->qp_num = cqe->qpn;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = cqe->wc_flags;
	wc->pkey_index = 0;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = 0;
}

/*
 * Take completions into @wc[@n] and so on until there are @count, or one has payload to place.
 * Return:  how many there are now
 */
static int poll_completions(struct av_seg *seg, struct av_cq_shared *cq, int n, int count,
			    struct ibv_wc *wc, uint64_t *stamp_ns, struct av_placement *place,
			    bool *payload)
{
	const struct av_cqe *cqe;

	*payload = false;
	(void)!av_lock_acquire(&cq->poll_lock, AV_RANK_POLL);
	while (n < count && !*payload && (cqe = av_cq_peek(seg, cq))) {
		*payload = AV_CQE_HAS_PAYLOAD(cqe);
		if (stamp_ns)
			stamp_ns[n] = cqe->stamp_ns;
		fill_wc(&wc[n++], cqe);
		if (*payload)
			av_place_keep(place, cqe);
		av_place_free_slot(seg, cqe, *payload ? place : NULL);
		av_cq_take(cq);
	}
	av_lock_release(&cq->poll_lock);
	return n;
}

/*
 * The buffer was removed after the message had arrived. The completion fails as if it had been
 * removed before.
 */
static void placement_failed(struct av_seg *seg, struct ibv_wc *wc)
{
	struct av_qp_location location = av_dir_qpn_find(wc->qp_num);
	struct av_qp_ref end = {seg, NULL};

	wc->status = IBV_WC_LOC_PROT_ERR;
	av_report_placement(seg, wc);
	if (location.ref == seg->ref)
		end.qp = av_qp_at(seg, location.index);
	if (end.qp && atomic_load(&end.qp->qpn) == wc->qp_num)
		av_fail(&end);
}

/* Yield the core, and learn whether another thread wanted it. */
static void yield(struct av_cq_shared *cq)
{
	uint32_t yield_after = atomic_load_explicit(&cq->yield_after, memory_order_relaxed);
	uint64_t before = av_now_ns();

	sched_yield();
	if (av_now_ns() - before >= OTHERS_RAN_NS || yield_after < YIELD_AFTER_MIN)
		yield_after = YIELD_AFTER_MIN;
	else if (yield_after < YIELD_AFTER_MAX)
		yield_after *= 2;
	atomic_store_explicit(&cq->yield_after, yield_after, memory_order_relaxed);
}

static int nothing(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t polls = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
	bool yields = polls > atomic_load_explicit(&cq->yield_after, memory_order_relaxed);

	atomic_store_explicit(&cq->empty_polls, yields ? 0 : polls, memory_order_relaxed);
	av_rnr_polled(seg, cq, polls % YIELD_AFTER_MIN == 0);
	av_coop_polled(seg, cq);
	(void)av_wire_poll();
	if (av_unlikely(yields)) {
		if (av_explaining())
			av_explain_others(); /* a dropped message has no completion */
		av_cq_producer_look(seg, cq);
		yield(cq);
	}
	return av_unlikely(atomic_load_explicit(&cq->overrun, memory_order_relaxed)) ? -EIO : 0;
}

int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
	    uint64_t *stamp_ns)
{
	struct av_placement place;
	bool payload = true;
	int n = 0;

	if (av_unlikely(count < 0))
		return -av_refused(AV_VERB_POLL_CQ,
				   av_refuse(EINVAL, AV_CHECK_POLL_COUNT, (uint64_t)count, 0));
	if (!av_cq_peek(seg, cq)) {
		n = nothing(seg, cq);
		if (n || !av_cq_peek(seg, cq)) /* others may have run for long meanwhile */
			return n;
	}
	atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	while (n < count && payload && av_cq_peek(seg, cq)) {
		n = poll_completions(seg, cq, n, count, wc, stamp_ns, &place, &payload);
		if (payload && av_unlikely(!av_place(seg, &place)))
			placement_failed(seg, &wc[n - 1]);
		if (n == 0)
			break; /* another poller was faster */
		if (av_unlikely(wc[n - 1].status != IBV_WC_SUCCESS) && av_explaining())
			av_explain_others();
	}
	return n;
}
