/* SPDX-License-Identifier: MIT */
/* Retry timers and counters. */
#include "transport/retry.h"

#include "transport/count.h"

#define ALWAYS	   7u		/* rnr_retry: retry for ever */
#define LOOK_AGAIN 100000000ull /* without a timer, how often to check that the peer lives */
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

struct patience {
	uint64_t interval_ns;
	uint32_t retries;
	bool endless;
};

static struct patience patience(const struct ibv_qp_attr *attr, const struct av_outcome *result)
{
	struct patience p;

	if (result->park == AV_PARK_RNR) {
		p.endless = attr->rnr_retry >= ALWAYS;
		p.retries = attr->rnr_retry;
		p.interval_ns = av_rnr_timer_ns(result->rnr_timer);
	} else {
		p.endless = attr->timeout == 0;
		p.retries = attr->retry_cnt + 1u; /* the first transmission has its timeout, too */
		p.interval_ns = 4096ull << (attr->timeout & 31);
	}
	if (p.endless)
		p.interval_ns = result->park == AV_PARK_RNR ? RNR_LOOK_AGAIN : LOOK_AGAIN;
	return p;
}

enum av_fault av_retry(const struct av_qp_end *end, const struct av_outcome *result,
		       uint64_t now_ns)
{
	enum av_fault fault =
		result->park == AV_PARK_RNR ? AV_FAULT_RNR_EXHAUSTED : AV_FAULT_RETRY_EXHAUSTED;
	struct patience p = patience(&end->qp->attr, result);
	struct av_qp_shared *qp = end->qp;

	AV_ASSERT_HELD(&end->qp->exec);
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
	av_count_req(qp, result->park == AV_PARK_RNR ? AV_REQ_RNR : AV_REQ_TIMEOUT);
	if (!p.endless && --qp->retries == 0)
		return fault;
	atomic_store(&qp->deadline_ns, now_ns + p.interval_ns);
	return AV_FAULT_NONE;
}
