/* SPDX-License-Identifier: MIT */
/* Requests that wait: retry timers and counters, and what the timer thread does for them. */

#include "base/thread.h"
#include "transport/observed.h"
#include "transport/transport.h"

#define ALWAYS		7u	     /* rnr_retry: retry for ever */
#define LOOK_AGAIN	100000000ull /* without a timer, how often to check that the peer lives */
#define FULL_LOOK_AGAIN 100000ull    /* for the interface to have sent something */
/* How often to look for a receive posted without a wake-up: about a usual RNR timer. */
#define RNR_LOOK_AGAIN 2000000ull

/* Microseconds by code; IBTA volume 1, table "RNR NAK timer field encoding". */
static const uint32_t rnr_us[32] = {
	655360, 10,    20,    30,    40,    60,	    80,	    120,    160,    240,    320,
	480,	640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
	20480,	30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

uint64_t av_rnr_timer_ns(unsigned int code)
{
	return (uint64_t)rnr_us[code & 31] * 1000;
}

struct av_retry_limits av_retry_limits_of(const struct ibv_qp_attr *attr, enum av_wait why)
{
	if (why == AV_WAIT_RNR)
		return (struct av_retry_limits){
			RNR_LOOK_AGAIN, attr->rnr_retry < ALWAYS ? attr->rnr_retry + 1u : 0};
	if (why == AV_WAIT_FULL)
		return (struct av_retry_limits){FULL_LOOK_AGAIN, 0};
	if (attr->timeout == 0)
		return (struct av_retry_limits){LOOK_AGAIN, 0};
	return (struct av_retry_limits){4096ull << (attr->timeout & 31), attr->retry_cnt + 1u};
}

void av_sq_wait_until(const struct av_qp_ref *end, enum av_wait why, uint64_t deadline_ns)
{
	AV_ASSERT_HELD(&end->qp->req_lock);
	atomic_store(&end->qp->deadline_ns, deadline_ns);
	atomic_store(&end->qp->wait_reason, why);
	av_timer_arm(end, deadline_ns);
}

bool av_retry_is_early(const struct av_qp_shared *qp, enum av_wait why, uint64_t now_ns)
{
	return atomic_load(&qp->wait_reason) == why && now_ns < atomic_load(&qp->deadline_ns);
}

bool av_retry_is_last(const struct av_qp_shared *qp)
{
	struct av_retry_limits p = av_retry_limits_of(&qp->attr, AV_WAIT_NO_ANSWER);

	return p.tries && qp->timeout_spent + AV_TRY >= p.tries * AV_TRY;
}

enum av_fault av_retry_count(const struct av_qp_ref *end, enum av_wait why, uint32_t parts)
{
	uint32_t tries = av_retry_limits_of(&end->qp->attr, why).tries, *spent;
	bool rnr = why == AV_WAIT_RNR;

	AV_ASSERT_HELD(&end->qp->req_lock);
	av_count_req(end->qp, rnr ? AV_REQ_RNR : AV_REQ_TIMEOUT);
	spent = rnr ? &end->qp->rnr_spent : &end->qp->timeout_spent;
	*spent += tries ? parts : 0;
	if (tries == 0 || *spent < tries * AV_TRY)
		return AV_FAULT_NONE;
	return rnr ? AV_FAULT_RNR_EXHAUSTED : AV_FAULT_RETRY_EXHAUSTED;
}

enum av_fault av_retry(const struct av_qp_ref *end, const struct av_outcome *result)
{
	struct av_retry_limits p = av_retry_limits_of(&end->qp->attr, result->wait_reason);
	bool begins = atomic_load(&end->qp->wait_reason) != result->wait_reason;
	enum av_fault fault = AV_FAULT_NONE;
	uint64_t now = av_now_ns();

	AV_ASSERT_HELD(&end->qp->req_lock);
	if (result->gone && p.tries == 0) /* no timer would end the wait */
		return AV_FAULT_RETRY_EXHAUSTED;
	if (av_retry_is_early(end->qp, result->wait_reason, now))
		return AV_FAULT_NONE;
	if (begins)
		end->qp->rnr_spent = end->qp->timeout_spent = 0;
	/* An RNR NAK comes at once. No answer has come when the time for it is over. */
	if (result->wait_reason == AV_WAIT_RNR ||
	    (result->wait_reason == AV_WAIT_NO_ANSWER && !begins))
		fault = av_retry_count(end, result->wait_reason, AV_TRY);
	if (result->wait_reason == AV_WAIT_RNR && p.tries)
		p.interval_ns = av_rnr_timer_ns(result->rnr_timer);
	if (result->moves && p.interval_ns < AV_PEER_TIMEOUT_NS)
		p.interval_ns = AV_PEER_TIMEOUT_NS; /* nothing is lost: threads have to wake up */
	if (fault == AV_FAULT_NONE)
		av_sq_wait_until(end, result->wait_reason, now + p.interval_ns);
	return fault;
}

/* What the timer thread does when it looks. */

#define BUSY_NS 1000000u /* until another thread may have taken what has come */

/* Is the time for an answer over, and none has come? @now: may be late, for want of a core */
static bool is_unanswered(const struct av_qp_ref *end, uint64_t now, bool *busy)
{
	*busy = false;
	if (atomic_load(&end->qp->deadline_ns) > now)
		return false;
	if (atomic_load(&end->qp->wait_reason) == AV_WAIT_FULL) /* nobody answers that */
		return true;
	*busy = !av_wire_catch_up(end);
	return !*busy && atomic_load(&end->qp->deadline_ns) <= now;
}

/* Return: when messages will have gathered long enough */
static uint64_t look_at_gathered(const struct av_qp_ref *end, uint64_t now)
{
	uint64_t until = atomic_load(&end->qp->gather_ns);

	if (until > now)
		return until;
	av_gather_end(end);
	return UINT64_MAX;
}

static uint64_t look_at_requests(const struct av_qp_ref *end, uint64_t now)
{
	bool busy;

	if (atomic_load(&end->qp->wait_reason) == AV_WAIT_NONE)
		return UINT64_MAX;
	if (is_unanswered(end, now, &busy) || atomic_load(&end->qp->kick))
		av_sq_progress(end, NULL);
	if (busy)
		return now + BUSY_NS;
	return atomic_load(&end->qp->wait_reason) ? atomic_load(&end->qp->deadline_ns) : UINT64_MAX;
}

uint64_t av_timer_look(const struct av_qp_ref *end)
{
	uint64_t now = av_now_ns(), next, read, gathered;
	bool soon = !av_wire_move(end);

	if (atomic_load(&end->qp->flush_due))
		av_sq_progress(end, NULL);
	read = av_wire_read_on(end);
	gathered = look_at_gathered(end, now);
	next = look_at_requests(end, now);
	next = gathered < next ? gathered : next;
	next = read < next ? read : next;
	soon = soon || atomic_load(&end->qp->flush_due);
	return soon && next > now + AV_FLUSH_DUE_NS ? now + AV_FLUSH_DUE_NS : next;
}
