/* SPDX-License-Identifier: MIT */
/* Retry timers and counters. */
#include "transport/retry.h"

#include "base/clock.h"
#include "transport/rules.h"

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

struct av_patience av_patience_of(const struct ibv_qp_attr *attr, enum av_park why)
{
	if (why == AV_PARK_RNR)
		return (struct av_patience){.endless = attr->rnr_retry >= ALWAYS,
					    .retries = attr->rnr_retry,
					    .interval_ns = RNR_LOOK_AGAIN};
	if (why == AV_PARK_FULL)
		return (struct av_patience){.endless = true, .interval_ns = FULL_LOOK_AGAIN};
	return (struct av_patience){
		.endless = attr->timeout == 0,
		.retries = attr->retry_cnt + 1u,
		.interval_ns = attr->timeout ? 4096ull << (attr->timeout & 31) : LOOK_AGAIN,
	};
}

enum av_fault av_retry(const struct av_qp_end *end, const struct av_outcome *result,
		       uint64_t now_ns)
{
	enum av_fault fault =
		result->park == AV_PARK_RNR ? AV_FAULT_RNR_EXHAUSTED : AV_FAULT_RETRY_EXHAUSTED;
	struct av_patience p = av_patience_of(&end->qp->attr, result->park);
	struct av_qp_shared *qp = end->qp;

	AV_ASSERT_HELD(&end->qp->exec);
	if (result->park == AV_PARK_RNR && !p.endless)
		p.interval_ns = av_rnr_timer_ns(result->rnr_timer);
	if (result->moves && p.interval_ns < AV_PATIENCE_NS)
		p.interval_ns = AV_PATIENCE_NS; /* nothing is lost: threads have to wake up */
	/* Nobody will ever answer, and no timer would end the wait. */
	if (result->gone && p.endless)
		return fault;
	if (atomic_load(&qp->park) != result->park) {
		if (result->park == AV_PARK_RNR)
			av_count_req(qp, AV_REQ_RNR);
		if (p.retries == 0 && !p.endless)
			return fault;
		qp->retries = p.retries;
		atomic_store(&qp->deadline_ns, now_ns + p.interval_ns);
		atomic_store(&qp->park, result->park);
		return AV_FAULT_NONE;
	}
	if (now_ns < atomic_load(&qp->deadline_ns))
		return AV_FAULT_NONE;
	if (result->park != AV_PARK_FULL)
		av_count_req(qp, result->park == AV_PARK_RNR ? AV_REQ_RNR : AV_REQ_TIMEOUT);
	if (!p.endless && --qp->retries == 0)
		return fault;
	atomic_store(&qp->deadline_ns, now_ns + p.interval_ns);
	return AV_FAULT_NONE;
}
