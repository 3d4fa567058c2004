/* SPDX-License-Identifier: MIT */
/* Taking completions and placing what came with them. */
#include "transport/poll.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "registry/directory.h"
#include "memory/pin.h"
#include "memory/plain.h"
#include "memory/xfer.h"
#include "queue/qp.h"
#include "queue/stage.h"
#include "transport/assist.h"
#include "transport/drive.h"
#include "transport/report.h"
#include "transport/rnr.h"

/*
 * Polls in vain before a thread gives up its core for once. Measured: pure spinning collapses when
 * peers share a core, yielding always beside a hog; and where nobody wants the core a message waits
 * for the system call to end. So the less of it the less it brings.
 */
#define PATIENCE_MIN  128u
#define PATIENCE_MAX  8192u
#define OTHERS_RAN_NS 2000u /* a yield that took so long let somebody else run */

/* A completion taken off the ring whose payload has to be placed: everything that needs, off shared
 * memory.
 */
struct placement {
	struct av_cqe cqe;
	uint32_t pd;
	uint32_t count;
	struct ibv_sge sge[AV_MAX_SGE];
	uint8_t payload[AV_MAX_INLINE_RECV]; /* what was in the request's slot */
};

static bool has_payload(const struct av_cqe *cqe)
{
	return cqe->data_len || cqe->stage || (cqe->flags & AV_CQE_IN_SLOT);
}

/* Place @n of an array that need not be there. */
static uint64_t *stamp_of(uint64_t *stamp_ns, int n)
{
	return stamp_ns ? stamp_ns + n : NULL;
}

/* @stamp_ns: its time, NULL: nobody asks */
static void fill_wc(struct ibv_wc *wc, uint64_t *stamp_ns, const struct av_cqe *cqe)
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
	if (stamp_ns)
		*stamp_ns = cqe->stamp_ns;
}

/* Payload beside a receive request, before its slot is free. A peer wrote the completion: its
 * length is checked. */
static void fetch_payload(struct av_seg *seg, const struct av_rq_shared *rq,
			  const struct av_cqe *cqe, struct placement *place)
{
	const uint8_t *from = av_rq_payload(seg, rq, cqe->wqe);
	uint32_t room =
		rq->inline_bytes < AV_MAX_INLINE_RECV ? rq->inline_bytes : AV_MAX_INLINE_RECV;

	if (from && cqe->stage_len <= room)
		memcpy(place->payload, from, cqe->stage_len);
}

/* Elements of a request, no more than there can be: peers may write to the segment, so it is read
 * once. */
static uint32_t count_of(const uint32_t *count)
{
	uint32_t n = __atomic_load_n(count, __ATOMIC_RELAXED);

	return n <= AV_MAX_SGE ? n : 0;
}

/* A request's elements, mostly one. */
static void keep_elements(struct placement *place, const struct ibv_sge *sge, uint32_t count)
{
	place->count = count;
	if (av_likely(count == 1))
		place->sge[0] = sge[0];
	else
		memcpy(place->sge, sge, count * sizeof(sge[0]));
}

/* Free the slot of a completed receive request, after taking what its payload needs. */
static void free_receive_slot(struct av_seg *seg, const struct av_cqe *cqe, struct placement *place)
{
	struct av_rq_shared *rq = av_rq_at(seg, cqe->queue);
	const struct av_rq_wqe *request;

	if (!rq)
		return;
	AV_CAME_BY_PEER(&rq->tail);	 /* the posted request: a peer may have taken it, */
	AV_CAME_BY_PEER(&rq->take_lock); /* after threads of this process had taken theirs */
	request = av_rq_wqe(seg, rq, cqe->wqe);
	if (!request)
		return;
	if (place) {
		place->pd = rq->pd;
		keep_elements(place, request->sge, count_of(&request->count));
		if (cqe->flags & AV_CQE_IN_SLOT)
			fetch_payload(seg, rq, cqe, place);
	}
	av_rq_freed(seg, rq, cqe->wqe);
}

/* Where the answer to a send request is wanted. */
static void fetch_elements(struct av_seg *seg, struct av_qp_shared *qp, const struct av_cqe *cqe,
			   struct placement *place)
{
	const struct av_sq_wqe *wqe = av_sq_slot(&(struct av_qp_end){seg, qp}, cqe->wqe);

	place->pd = qp->pd;
	place->count = 0;
	if (wqe)
		keep_elements(place, wqe->sge, count_of(&wqe->count));
}

/* Free the slot of the completed request. Its queue exists: completions are purged before it goes.
 */
static void free_slot(struct av_seg *seg, const struct av_cqe *cqe, struct placement *place)
{
	struct av_qp_shared *qp;

	if (cqe->flags & AV_CQE_RECV) {
		free_receive_slot(seg, cqe, place);
		return;
	}
	qp = av_qp_at(seg, cqe->queue);
	if (!qp)
		return;
	AV_CAME_BY_PEER(&qp->sq_tail);	 /* the posted request: a peer may have executed it, */
	AV_CAME_BY_PEER(&qp->exec.lock); /* after threads of this process had tried to */
	if (av_unlikely(place != NULL))
		fetch_elements(seg, qp, cqe, place);
	atomic_store_explicit(&qp->sq_freed, cqe->wqe + 1, memory_order_release);
}

/* The entry, off shared memory; its second cache line only if there is payload in it. */
static void keep(struct placement *place, const struct av_cqe *cqe)
{
	memcpy(&place->cqe, cqe, offsetof(struct av_cqe, data));
	av_cqe_copy_data(place->cqe.data, cqe->data, place->cqe.data_len);
}

/* Take completions until @count, or one with payload to place. Return: how many were written to
 * @wc. */
static int take(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
		uint64_t *stamp_ns, struct placement *place)
{
	const struct av_cqe *cqe;
	int n = 0;

	place->cqe.data_len = 0;
	place->cqe.stage = 0;
	place->cqe.flags = 0;
	av_biased_acquire_plain(&cq->poll_lock);
	while (n < count && (cqe = av_cq_peek(seg, cq))) {
		bool payload = has_payload(cqe);

		fill_wc(&wc[n], stamp_of(stamp_ns, n), cqe);
		n++;
		free_slot(seg, cqe, payload ? place : NULL);
		if (payload)
			keep(place, cqe);
		av_cq_take(cq);
		if (payload)
			break;
	}
	av_biased_release(&cq->poll_lock);
	return n;
}

static enum av_xfer place_chain(struct av_seg *seg, struct av_spans *to, const struct av_cqe *cqe)
{
	struct av_spans from, rest = *to;
	uint32_t link = cqe->stage;

	for (uint64_t left = cqe->stage_len; left > 0;) {
		uint64_t n = left < AV_STAGE_BYTES ? left : AV_STAGE_BYTES;
		enum av_xfer ret;

		av_spans_local(&from, NULL, av_stage_buffer(seg, link), n);
		if (!from.at[0].local)
			return AV_XFER_SRC_FAULT;
		ret = av_xfer_copy_part(&rest, &from, n);
		if (ret != AV_XFER_OK)
			return ret;
		av_spans_skip(&rest, n);
		left -= n;
		link = av_stage_next(seg, link);
	}
	return AV_XFER_OK;
}

/* Where the payload is in this process' own memory; NULL: in staging buffers. */
static uint8_t *payload_here(struct placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data;
	return p->cqe.flags & AV_CQE_IN_SLOT ? p->payload : NULL;
}

/* Its length. Return: 0: more than there can be; a peer wrote the completion */
static uint64_t payload_bytes(const struct placement *p)
{
	if (p->cqe.data_len)
		return p->cqe.data_len <= AV_CQE_DATA ? p->cqe.data_len : 0;
	return p->cqe.flags & AV_CQE_IN_SLOT && p->cqe.stage_len > AV_MAX_INLINE_RECV
		       ? 0
		       : p->cqe.stage_len;
}

static enum av_xfer place_once(struct av_seg *seg, struct placement *p)
{
	uint64_t bytes = payload_bytes(p);
	uint8_t *here = payload_here(p);
	struct av_spans to, from;
	enum av_xfer ret;
	enum av_mem_fault found;

	if (bytes == 0)
		return AV_XFER_DST_FAULT;
	found = av_mem_get_list(seg, p->pd, IBV_ACCESS_LOCAL_WRITE, p->sge, p->count, bytes, &to);
	if (found != AV_MEM_OK)
		return found == AV_MEM_BUSY ? AV_XFER_BUSY : AV_XFER_DST_FAULT;
	if (here) {
		av_spans_local(&from, NULL, here, bytes);
		ret = av_xfer_copy(&to, &from);
	} else {
		ret = place_chain(seg, &to, &p->cqe);
	}
	av_mem_put_list(&to);
	return ret;
}

static bool place_payload(struct av_seg *seg, struct placement *p)
{
	enum av_xfer ret;

	while ((ret = place_once(seg, p)) == AV_XFER_BUSY)
		sched_yield();
	av_stage_give(seg, p->cqe.stage, p->cqe.stage_len);
	return ret == AV_XFER_OK;
}

/* The buffer went away between the message's arrival and now: the same end as if it had gone
 * before. */
static void placement_failed(struct av_seg *seg, struct ibv_wc *wc)
{
	struct av_qp_location location = av_dir_qpn_find(wc->qp_num);
	struct av_qp_end end = {seg, NULL};

	wc->status = IBV_WC_LOC_PROT_ERR;
	av_report_placement(seg, wc);
	if (location.ref == seg->ref)
		end.qp = av_qp_at(seg, location.index);
	if (end.qp && atomic_load(&end.qp->qpn) == wc->qp_num)
		av_fail(&end);
}

/* One answer less that waits; of a queue pair that was reset meanwhile, none does. */
static void answer_placed(struct av_seg *seg, const struct av_cqe *cqe)
{
	struct av_qp_shared *qp = cqe->flags & AV_CQE_RECV ? NULL : av_qp_at(seg, cqe->queue);
	uint32_t left = qp ? atomic_load(&qp->answers) : 0;

	while (left && !atomic_compare_exchange_weak(&qp->answers, &left, left - 1))
		;
}

/* The first answer of that queue pair in its CQ that is not placed yet, and where it is wanted. */
static bool find_answer(const struct av_qp_end *end, struct av_cq_shared *cq,
			struct placement *place, uint32_t *number)
{
	uint32_t qpn = atomic_load(&end->qp->qpn);
	const struct av_cqe *e;
	bool found = false;

	av_biased_acquire_plain(&cq->poll_lock);
	for (uint32_t i = atomic_load(&cq->head); !found && (e = av_cq_present(end->seg, cq, i));
	     i++) {
		found = e->qpn == qpn && !(e->flags & AV_CQE_RECV) && e->data_len;
		if (!found)
			continue;
		place->cqe = *e;
		fetch_elements(end->seg, end->qp, e, place);
		*number = i;
	}
	av_biased_release(&cq->poll_lock);
	return found;
}

/* Is it there still, or has a poller taken it? poll_lock is held, which keeps it as it is. */
static struct av_cqe *still_there(const struct av_qp_end *end, struct av_cq_shared *cq,
				  uint32_t number)
{
	return (int32_t)(number - atomic_load(&cq->head)) >= 0 ? av_cq_present(end->seg, cq, number)
							       : NULL;
}

/*
 * Place one that was found, unless it was taken. A poller that came now would return before the
 * bytes are there: so poll_lock is held over these few of them, which are this process' own.
 */
static enum av_xfer place_early_once(const struct av_qp_end *end, struct av_cq_shared *cq,
				     struct placement *p, uint32_t number)
{
	uint64_t bytes = payload_bytes(p);
	enum av_xfer ret = AV_XFER_DST_FAULT;
	struct av_spans to, from;
	struct av_cqe *cqe;
	enum av_mem_fault found = av_mem_get_list(end->seg, p->pd, IBV_ACCESS_LOCAL_WRITE, p->sge,
						  p->count, bytes, &to);

	if (found == AV_MEM_BUSY)
		return AV_XFER_BUSY;
	av_biased_acquire_plain(&cq->poll_lock);
	cqe = still_there(end, cq, number);
	av_spans_local(&from, NULL, p->cqe.data, bytes);
	if (cqe && found == AV_MEM_OK)
		ret = av_xfer_copy(&to, &from);
	if (cqe && ret != AV_XFER_BUSY)
		cqe->data_len = 0;
	if (cqe && ret != AV_XFER_OK && ret != AV_XFER_BUSY)
		cqe->status = IBV_WC_LOC_PROT_ERR;
	av_biased_release(&cq->poll_lock);
	if (found == AV_MEM_OK)
		av_mem_put_list(&to);
	if (cqe && ret != AV_XFER_BUSY)
		answer_placed(end->seg, &p->cqe);
	return cqe ? ret : AV_XFER_OK;
}

static bool place_early(const struct av_qp_end *end, struct av_cq_shared *cq, struct placement *p,
			uint32_t number)
{
	enum av_xfer ret;

	while ((ret = place_early_once(end, cq, p, number)) == AV_XFER_BUSY)
		sched_yield();
	return ret == AV_XFER_OK;
}

bool av_poll_place_answers(const struct av_qp_end *end)
{
	struct av_cq_shared *cq = av_cq_at(end->seg, end->qp->send_cq);
	struct placement place;
	uint32_t number;
	bool ok = true;

	while (cq && ok && atomic_load(&end->qp->answers)) {
		if (find_answer(end, cq, &place, &number))
			ok = place_early(end, cq, &place, number);
		else
			sched_yield(); /* a poller is placing it */
	}
	return ok;
}

/* --- the short way: a message in its completion, for one element ----------------- */

struct carried {
	const struct av_cqe *cqe;
	uint32_t queue, wqe; /* as the completion said when they were followed */
	struct av_rq_shared *rq;
	const struct av_rq_wqe *request;
	struct av_pin *pin;
	struct ibv_sge to;
	uint8_t bytes; /* as they were confirmed; a peer wrote the completion, and may write it
			  again */
};

/* Bytes that are carried, 0: none, or more than there can be. Read once. */
static AV_RACY uint8_t carried_bytes(const struct av_cqe *cqe)
{
	uint8_t bytes = __atomic_load_n(&cqe->data_len, __ATOMIC_RELAXED);

	return bytes <= AV_CQE_DATA && cqe->flags & AV_CQE_RECV ? bytes : 0;
}

/* Look where a completion's payload belongs, and announce that key. No lock is held: a guess. */
static AV_RACY bool guess(struct av_seg *seg, const struct av_cqe *cqe, struct carried *c)
{
	c->cqe = cqe;
	if (!carried_bytes(cqe))
		return false;
	c->queue = __atomic_load_n(&c->cqe->queue, __ATOMIC_RELAXED);
	c->wqe = __atomic_load_n(&c->cqe->wqe, __ATOMIC_RELAXED);
	c->rq = av_rq_at(seg, c->queue);
	c->request = c->rq ? av_rq_guess(seg, c->rq, c->wqe, &c->to) : NULL;
	c->pin = c->request ? av_pin_kept(seg, AV_PIN_LOCAL) : NULL;
	if (!c->pin)
		return false;
	AV_CAME_BY_PEER(&c->rq->tail); /* as in free_receive_slot() */
	AV_CAME_BY_PEER(&c->rq->take_lock);
	av_pin_announce(c->pin, c->to.lkey);
	return true;
}

/*
 * Was the guess right, and is the key in order? poll_lock is held. A receive queue stays where it
 * is, its ring may be another one's by now. Return: where the payload belongs, or NULL
 */
static uint8_t *confirm(struct av_seg *seg, struct av_cq_shared *cq, struct carried *c)
{
	const struct ibv_sge *now = c->request->sge;

	c->bytes = carried_bytes(c->cqe);
	if (av_cq_peek(seg, cq) != c->cqe || !c->bytes || c->cqe->queue != c->queue ||
	    c->cqe->wqe != c->wqe || av_rq_wqe(seg, c->rq, c->wqe) != c->request ||
	    c->request->count != 1 || now->lkey != c->to.lkey || now->addr != c->to.addr ||
	    now->length != c->to.length || c->bytes > c->to.length)
		return NULL;
	return av_plain_at(seg, c->to.lkey, c->rq->pd, IBV_ACCESS_LOCAL_WRITE, c->to.addr, c->bytes)
		.local;
}

/* Take such a completion, which was the oldest a moment ago, and place its payload. Return: false:
 * it is another one, or not that easy; nothing has been taken */
static bool take_carried(struct av_seg *seg, struct av_cq_shared *cq, const struct av_cqe *cqe,
			 struct ibv_wc *wc, uint64_t *stamp_ns)
{
	uint8_t data[AV_CQE_DATA], *to;
	struct carried c;
	bool ok = true;

	if (!guess(seg, cqe, &c))
		return false;
	av_biased_acquire_plain(&cq->poll_lock);
	av_pin_barrier_light(seg);
	to = confirm(seg, cq, &c);
	if (av_likely(to != NULL)) {
		fill_wc(wc, stamp_ns, c.cqe);
		av_cqe_copy_data(data, c.cqe->data, c.bytes);
		av_rq_freed(seg, c.rq, c.wqe);
		av_cq_take(cq);
	}
	av_biased_release(&cq->poll_lock);
	if (av_likely(to != NULL))
		ok = av_copy(to, data, c.bytes) == AV_COPY_OK;
	av_pin_rest(c.pin);
	if (av_unlikely(!ok))
		placement_failed(seg, wc);
	return to != NULL;
}

/* --- the short way: a request of this process' that left nothing to be placed ---- */

/* Without poll_lock that is a guess. */
static AV_RACY bool is_sent(const struct av_cqe *cqe)
{
	return cqe->status == IBV_WC_SUCCESS && !(cqe->flags & AV_CQE_RECV) && !cqe->data_len &&
	       !cqe->stage;
}

/* Take such completions, until @count, if @oldest is one. Return: how many were written to @wc */
static int take_sent(struct av_seg *seg, struct av_cq_shared *cq, const struct av_cqe *oldest,
		     int count, struct ibv_wc *wc, uint64_t *stamp_ns)
{
	const struct av_cqe *cqe;
	int n = 0;

	if (!is_sent(oldest))
		return 0;
	av_biased_acquire_plain(&cq->poll_lock);
	while (n < count && (cqe = av_cq_peek(seg, cq)) && is_sent(cqe)) {
		fill_wc(&wc[n], stamp_of(stamp_ns, n), cqe);
		free_slot(seg, cqe, NULL);
		av_cq_take(cq);
		n++;
	}
	av_biased_release(&cq->poll_lock);
	return n;
}

/* Let others have the core, and learn from whether there are any. */
static void yield(struct av_cq_shared *cq)
{
	uint32_t patience = atomic_load_explicit(&cq->patience, memory_order_relaxed);
	uint64_t before = av_now_ns();

	sched_yield();
	if (av_now_ns() - before >= OTHERS_RAN_NS || patience < PATIENCE_MIN)
		patience = PATIENCE_MIN;
	else if (patience < PATIENCE_MAX)
		patience *= 2;
	atomic_store_explicit(&cq->patience, patience, memory_order_relaxed);
}

static int nothing(struct av_seg *seg, struct av_cq_shared *cq)
{
	uint32_t polls = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
	bool out_of_patience = polls > atomic_load_explicit(&cq->patience, memory_order_relaxed);

	atomic_store_explicit(&cq->empty_polls, out_of_patience ? 0 : polls, memory_order_relaxed);
	av_rnr_polled(seg, cq, polls % PATIENCE_MIN == 0);
	av_assist_polled(seg, cq);
	if (av_unlikely(out_of_patience))
		yield(cq);
	return av_unlikely(atomic_load_explicit(&cq->overrun, memory_order_relaxed)) ? -EIO : 0;
}

/* Take what is there, in whatever way. Apart, since it needs room that the others do not. */
static __attribute__((noinline)) int take_any(struct av_seg *seg, struct av_cq_shared *cq,
					      int count, struct ibv_wc *wc, uint64_t *stamp_ns,
					      bool *payload)
{
	struct placement place;
	int n = take(seg, cq, count, wc, stamp_ns, &place);

	if (av_unlikely(n > 0 && wc[n - 1].status != IBV_WC_SUCCESS) && av_explaining())
		av_explain_others();
	*payload = has_payload(&place.cqe);
	if (!*payload)
		return n;
	if (!place_payload(seg, &place))
		placement_failed(seg, &wc[n - 1]);
	answer_placed(seg, &place.cqe);
	return n;
}

int av_poll(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc)
{
	return av_poll_stamped(seg, cq, count, wc, NULL);
}

int av_poll_stamped(struct av_seg *seg, struct av_cq_shared *cq, int count, struct ibv_wc *wc,
		    uint64_t *stamp_ns)
{
	const struct av_cqe *cqe;
	bool payload = true;
	int n = 0;

	if (av_unlikely(count < 0))
		return -EINVAL;
	cqe = av_cq_peek(seg, cq);
	if (!cqe)
		return nothing(seg, cq);
	atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	if (av_unlikely(count == 0))
		return 0;
	do {
		uint64_t *stamp = stamp_of(stamp_ns, n);
		int sent = take_sent(seg, cq, cqe, count - n, wc + n, stamp);

		if (sent)
			n += sent;
		else if (take_carried(seg, cq, cqe, wc + n, stamp))
			n++;
		else
			n += take_any(seg, cq, count - n, wc + n, stamp, &payload);
	} while (n < count && payload && (cqe = av_cq_peek(seg, cq)));
	return n;
}
