/* SPDX-License-Identifier: MIT */
/*
 * What is counted, and under which names it is shown.
 *
 * Data path counters lie in the shared objects themselves, in cache lines that whoever executes the
 * work has dirty anyway, and are plain additions by the holder of the object's token or lock. A
 * place in a table of objects goes on counting when the next object takes it: so the sum over the
 * places of a context is all that was ever counted there, and never falls; of one object it is the
 * difference to what the place had counted before (@before in struct av_qp_shared and struct
 * av_cq_shared). What contexts had counted that have ended is added to their device's totals in the
 * directory (registry/ended_totals.c).
 *
 * Regions count no accesses: one looks at a key and writes nothing there, so counting would take
 * the line from core to core. They count what is no success: faults, invalidations, refusals
 * (memory/region_count.h).
 */
#ifndef AV_OBSERVE_COUNTERS_H
#define AV_OBSERVE_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Kinds of messages. */
enum av_traffic_kind {
	AV_TRAFFIC_SEND,
	AV_TRAFFIC_WRITE,
	AV_TRAFFIC_READ,
	AV_TRAFFIC_LONG, /* those above may have several packets */
	AV_TRAFFIC_ATOMIC = AV_TRAFFIC_LONG,
	AV_TRAFFIC_FLUSH,
	AV_TRAFFIC_N
};

/* Of requests that one side has carried out: the packets of a message are one more than
 * @more_packets says.
 */
struct av_traffic {
	uint64_t messages[AV_TRAFFIC_N];
	uint64_t bytes[AV_TRAFFIC_N]; /* of the payload; of READs and atomics, that of the answer */
	uint64_t more_packets[AV_TRAFFIC_LONG];
};

enum av_req_event {
	AV_REQ_RNR,	       /* the receiver was not ready: RNR NAK received */
	AV_REQ_TIMEOUT,	       /* no answer in time */
	AV_REQ_MULTICAST,      /* datagrams sent to a group */
	AV_REQ_FLUSHED,	       /* requests completed as flushed */
	AV_REQ_RNR_EXCEEDED,   /* requests failed: RNR retries, */
	AV_REQ_RETRY_EXCEEDED, /* transport retries, */
	AV_REQ_REM_ACCESS,     /* NAK: remote access error, */
	AV_REQ_REM_INVALID,    /* invalid request, */
	AV_REQ_REM_OP,	       /* operational error, */
	AV_REQ_LOCAL,	       /* what was wrong was found here */
	AV_REQ_N
};

enum av_rsp_event {
	AV_RSP_RNR,	    /* a message found no receive request */
	AV_RSP_MULTICAST,   /* datagrams received as member of a group */
	AV_RSP_DROPPED,	    /* messages of unreliable services lost here */
	AV_RSP_FLUSHED,	    /* receive requests completed as flushed */
	AV_RSP_RECV_FAILED, /* receive requests completed in error */
	AV_RSP_ACCESS,	    /* requests refused: rkey, */
	AV_RSP_INVALID,	    /* operation, */
	AV_RSP_LENGTH,	    /* receive request too short, */
	AV_RSP_OPERATION,   /* receive buffers or completion queue */
	AV_RSP_N
};

/* Of one queue pair: the requester's, guarded by @exec, and the responder's, guarded by @resp. */
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

/* Of one CQ, guarded by its lock. */
struct av_cq_counters {
	uint64_t completions; /* entries appended */
	uint64_t lost;	      /* those that found no room */
};

#define AV_QP_COUNTERS (sizeof(struct av_qp_counters) / sizeof(uint64_t))
#define AV_CQ_COUNTERS (sizeof(struct av_cq_counters) / sizeof(uint64_t))

/* Sums over queue pairs and CQs, word by word. */
struct av_totals {
	uint64_t qp[AV_QP_COUNTERS];
	uint64_t cq[AV_CQ_COUNTERS];
};

/* Add what @count words hold that somebody may be counting in at this moment. */
static inline void av_count_add(uint64_t *sum, const void *words, size_t count)
{
	const uint64_t *from = words;

	for (size_t i = 0; i < count; i++)
		sum[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* Of a memory region: what it counts; and from AV_MR_GAUGES what there is of it now. */
enum av_mr_counter {
	AV_MR_FAULTS,		  /* page fault events, */
	AV_MR_FAULT_PAGES,	  /* pages that became valid by them, */
	AV_MR_INVALIDATIONS,	  /* events that took valid pages away, */
	AV_MR_INVALIDATION_PAGES, /* and those pages */
	AV_MR_PREFETCH_PAGES,	  /* pages that became valid by prefetching */
	AV_MR_REFUSED,		  /* requests that were refused for what its key permits */
	AV_MR_REREGISTERED,
	AV_MR_GAUGES,
	AV_MR_VALID_PAGES = AV_MR_GAUGES, /* pages that the device has */
	AV_MR_ADOPTED_BYTES,		  /* of it, that all processes reach */
	AV_MR_WINDOWS,			  /* bound to it */
	AV_MR_N
};

/* --- what is shown --------------------------------------------------------------- */

/* What there is now, beside what was counted. */
enum av_gauge {
	AV_GAUGE_PROCESSES, /* that have the device open */
	AV_GAUGE_CONTEXTS,
	AV_GAUGE_QPS,
	AV_GAUGE_CQS,
	AV_GAUGE_MRS,
	AV_GAUGE_MR_BYTES, /* sum of their lengths, but of those that are the whole address space */
	AV_GAUGE_POSTED,   /* of a queue pair: send requests that wait to be carried out */
	AV_GAUGE_CAPACITY, /* of a CQ: entries it can hold, */
	AV_GAUGE_WAITING,  /* those it holds, */
	AV_GAUGE_PEAK,	   /* and the most seen at a time; at 64 and below, found by samples */
	AV_GAUGE_N
};

/* Everything known of something that counts; what does not apply to it is 0. */
struct av_counted {
	struct av_totals total;
	uint64_t gauge[AV_GAUGE_N];
	uint64_t link_downed;
	uint64_t mr[AV_MR_N];
};
#define AV_COUNTED_WORDS (sizeof(struct av_counted) / sizeof(uint64_t))

/* Of what a counter is shown. */
enum av_scope {
	AV_SCOPE_DEVICE = 1,
	AV_SCOPE_PROCESS = 2,
	AV_SCOPE_QP = 4,
	AV_SCOPE_CQ = 8,
	AV_SCOPE_PORT = 16, /* in the port's folder "counters" of sysfs, */
	AV_SCOPE_HW = 32,   /* and in "hw_counters" */
	AV_SCOPE_MR = 64,
};

#define AV_COUNTER_TERMS 12

/* The value is the sum of words of struct av_counted, numbered from 1. */
struct av_counter_info {
	const char *name, *unit, *help;
	uint8_t scope;		      /* enum av_scope, several */
	bool gauge;		      /* what there is now: it may fall */
	uint8_t divide;		      /* the sum is divided by this; 0: it is not */
	uint8_t less;		      /* a word that is taken from the sum; 0: none */
	uint8_t of[AV_COUNTER_TERMS]; /* ended by 0 */
};

extern const struct av_counter_info av_counter_info[];
extern const unsigned int av_counter_count;

/* The value of a row of the table. */
uint64_t av_counter_value(const struct av_counter_info *info, const struct av_counted *counted);

#endif
