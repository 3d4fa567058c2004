/* SPDX-License-Identifier: MIT */
/*
 * The counters, and the names under which users see them.
 *
 * A slot of an object table keeps its counters for the next object, so the sum of all never falls.
 * An object's count is the slot's value minus that at its creation (@before). A context that ends
 * adds its counts to the device's totals (registry/context_rows.c).
 *
 * Regions count page faults, invalidations and refusals (memory/key.h), but no successful accesses:
 * those only read the key, and a counter would move the key's cache line between cores.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum av_traffic_kind {
	AV_TRAFFIC_SEND,
	AV_TRAFFIC_WRITE,
	AV_TRAFFIC_READ,
	AV_TRAFFIC_LONG, /* only messages of the kinds above may have several packets */
	AV_TRAFFIC_ATOMIC = AV_TRAFFIC_LONG,
	AV_TRAFFIC_FLUSH,
	AV_TRAFFIC_N
};

/* The messages that one side has executed. */
struct av_traffic {
	uint64_t messages[AV_TRAFFIC_N];
	uint64_t bytes[AV_TRAFFIC_N]; /* of payload; for READs and atomics, the answer's */
	uint64_t more_packets[AV_TRAFFIC_LONG]; /* packets of each message after its first */
};

enum av_req_event {
	AV_REQ_RNR,	       /* RNR NAK received */
	AV_REQ_TIMEOUT,	       /* no answer in time */
	AV_REQ_SEQUENCE_NAK,   /* NAK: PSN sequence error */
	AV_REQ_ANSWER_LOST,    /* an answer arrived, but one before it is missing */
	AV_REQ_REPEATED,       /* packets retransmitted */
	AV_REQ_NOTIFIED,       /* congestion notifications received from the peer's host */
	AV_REQ_MULTICAST,      /* datagrams sent to a group */
	AV_REQ_FLUSHED,	       /* requests completed as flushed */
	AV_REQ_RNR_EXCEEDED,   /* requests failed: RNR retries exhausted */
	AV_REQ_RETRY_EXCEEDED, /* requests failed: transport retries exhausted */
	AV_REQ_REM_ACCESS,     /* NAK: remote access error */
	AV_REQ_REM_INVALID,    /* NAK: remote invalid request */
	AV_REQ_REM_OP,	       /* NAK: remote operational error */
	AV_REQ_LOCAL,	       /* requests failed on the requester's side */
	AV_REQ_N
};

enum av_rsp_event {
	AV_RSP_RNR,	    /* a message found no receive request */
	AV_RSP_AHEAD,	    /* packets whose PSN is ahead of the expected one */
	AV_RSP_MARKED,	    /* packets, of requests and answers, with a congestion mark */
	AV_RSP_DAMAGED,	    /* packets with a wrong ICRC */
	AV_RSP_NOTIFIES,    /* congestion notifications sent to the peer */
	AV_RSP_DUPLICATE,   /* packets of requests that arrived before */
	AV_RSP_MULTICAST,   /* datagrams received as member of a group */
	AV_RSP_DROPPED,	    /* messages of unreliable services that were lost here */
	AV_RSP_FLUSHED,	    /* receive requests completed as flushed */
	AV_RSP_RECV_FAILED, /* receive requests completed in error */
	AV_RSP_ACCESS,	    /* requests refused: bad rkey */
	AV_RSP_INVALID,	    /* requests refused: invalid operation */
	AV_RSP_LENGTH,	    /* requests refused: receive request too short */
	AV_RSP_OPERATION,   /* requests refused: receive buffers or completion queue failed */
	AV_RSP_N
};

/* Counters of one queue pair. @req_lock guards the requester's half, @resp_lock the responder's. */
struct av_qp_counters {
	struct {
		struct av_traffic traffic;
		uint64_t event[AV_REQ_N];
	} req AV_ALIGNED(AV_CACHE_LINE);
	struct {
		struct av_traffic traffic;
		uint64_t event[AV_RSP_N];
	} rsp AV_ALIGNED(AV_CACHE_LINE);
};

/* Counters of one CQ. The CQ's lock guards them. */
struct av_cq_counters {
	uint64_t completions; /* entries appended */
	uint64_t lost;	      /* entries that found the CQ full */
};

#define AV_QP_COUNTERS (sizeof(struct av_qp_counters) / sizeof(uint64_t))
#define AV_CQ_COUNTERS (sizeof(struct av_cq_counters) / sizeof(uint64_t))

/* Sums over queue pairs and CQs, word by word. */
struct av_totals {
	uint64_t qp[AV_QP_COUNTERS];
	uint64_t cq[AV_CQ_COUNTERS];
};

/* Add @count words to @sum. Other threads may count in @words meanwhile. */
static inline void av_count_add(uint64_t *sum, const void *words, size_t count)
{
	const uint64_t *from = words;

	for (size_t i = 0; i < count; i++)
		sum[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* Counters of a memory region. From AV_MR_GAUGES on: current values. A page has 4 KiB. */
enum av_mr_counter {
	AV_MR_FAULTS,		  /* page fault events */
	AV_MR_FAULT_PAGES,	  /* pages that page faults made valid */
	AV_MR_INVALIDATIONS,	  /* events that invalidated pages */
	AV_MR_INVALIDATION_PAGES, /* pages that those events invalidated */
	AV_MR_PREFETCH_PAGES,	  /* pages that prefetching made valid */
	AV_MR_REFUSED,		  /* requests refused because of the key */
	AV_MR_REREGISTERED,
	AV_MR_GAUGES,
	AV_MR_VALID_PAGES = AV_MR_GAUGES, /* pages valid in the device's table */
	AV_MR_SHARED_BYTES,		  /* bytes that every process accesses by plain copies */
	AV_MR_WINDOWS,			  /* windows bound to the region */
	AV_MR_N
};

/* --- names ----------------------------------------------------------------------- */

/* Current values that users see beside the counters. */
enum av_gauge {
	AV_GAUGE_PROCESSES, /* processes that have the device open */
	AV_GAUGE_CONTEXTS,
	AV_GAUGE_QPS,
	AV_GAUGE_CQS,
	AV_GAUGE_MRS,
	AV_GAUGE_MR_BYTES, /* sum of region lengths, without implicit regions of the whole address
			      space */
	AV_GAUGE_POSTED,   /* queue pair: send requests that wait for execution */
	AV_GAUGE_CAPACITY, /* CQ: most entries */
	AV_GAUGE_WAITING,  /* CQ: entries now */
	AV_GAUGE_PEAK,	   /* CQ: most entries so far; sampled, so maybe too low, up to 64 */
	AV_GAUGE_N
};

/* All counters and gauges of one object, process, port or device. Those it does not have are 0. */
struct av_counted {
	struct av_totals total;
	uint64_t gauge[AV_GAUGE_N];
	uint64_t link_downed;
	uint64_t mr[AV_MR_N];
};
#define AV_COUNTED_WORDS (sizeof(struct av_counted) / sizeof(uint64_t))

enum av_scope {
	AV_SCOPE_DEVICE = 1,
	AV_SCOPE_PROCESS = 2,
	AV_SCOPE_QP = 4,
	AV_SCOPE_CQ = 8,
	AV_SCOPE_PORT = 16, /* in the port's sysfs folder "counters" */
	AV_SCOPE_HW = 32,   /* in the port's sysfs folder "hw_counters" */
	AV_SCOPE_MR = 64,
};

#define AV_COUNTER_TERMS 12

/* One row of the table. Its value is a sum of words of struct av_counted. Words count from 1. */
struct av_counter_info {
	const char *name, *unit, *help;
	uint8_t scope;		      /* bits of enum av_scope */
	bool gauge;		      /* a current value, which may fall */
	uint8_t divide;		      /* divisor of the value; 0: none */
	uint8_t less;		      /* word to subtract from the sum; 0: none */
	uint8_t of[AV_COUNTER_TERMS]; /* words to add; a 0 ends the list */
};

extern const struct av_counter_info av_counter_info[];
extern const unsigned int av_counter_count;

/* The value of one row. A pure function */
uint64_t av_counter_value(const struct av_counter_info *info, const struct av_counted *counted);
