/* SPDX-License-Identifier: MIT */
/* The objects of a context: which there are, who uses them, what they count. */
#ifndef AV_QUEUE_OBJECTS_H
#define AV_QUEUE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/odp_table.h"
#include "observe/counters.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "queue/rq.h"

/*
 * The counters of a device, of the processes that use it, and of their queue pairs and CQs. Joins
 * no directory; opens files. What is changing at this moment may be left out, or shown half
 * changed. Context: any thread, no lock held.
 */

struct av_qp_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t qpn;
	uint32_t type;	/* enum ibv_qp_type */
	uint32_t state; /* enum ibv_qp_state */
	uint32_t dest_qpn;
	uint32_t send_cq, recv_cq; /* numbers, as in struct av_cq_info */
	uint32_t pd;		   /* number, as in struct av_pd_info */
	uint32_t sq_psn, rq_psn;   /* as ibv_query_qp() says them */
	uint8_t path_mig_state;	   /* enum ibv_mig_state */
	uint8_t port;		   /* 0: not chosen yet */
	struct av_counted counted;
};

struct av_cq_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t number;  /* in its context */
	uint32_t users;	  /* av_cq_users() */
	struct av_counted counted;
};

struct av_process_info {
	int32_t pid;
	uint64_t pidns;			/* inode number of @pid's PID namespace */
	struct av_counted counted;	/* of the contexts it has open */
	uint64_t odp[AV_ODP_COUNTER_N]; /* of the same contexts, without the gauges */
};

/*
 * Of a device since its last reset, in all processes, living and dead; gauges: of the living only.
 */
void av_report_device(const char *device, struct av_counted *counted);

typedef void av_report_qp(const struct av_qp_info *info, void *arg);
typedef void av_report_cq(const struct av_cq_info *info, void *arg);
typedef void av_report_process(const struct av_process_info *info, void *arg);

void av_report_qps(const char *device, av_report_qp *visit, void *arg);
void av_report_cqs(const char *device, av_report_cq *visit, void *arg);

/* When a process closes a context, its own counters lose that context's; the device's do not. */
void av_report_processes(const char *device, av_report_process *visit, void *arg);

/*
 * The objects of a context, found in its segment by any process. Reports join no directory; they
 * open files. What is changing at this moment may be left out, or shown half changed. Context: any
 * thread, no lock held.
 */

/* The next object from @index on, which moves past it. NULL: there is none. */
const struct av_qp_shared *av_qp_next(const struct av_seg *seg, uint32_t *index);
const struct av_cq_shared *av_cq_next(const struct av_seg *seg, uint32_t *index);
const struct av_rq_shared *av_srq_next(const struct av_seg *seg, uint32_t *index);

/*
 * How many queue pairs and shared receive queues use each CQ, by its index; both queues of a queue
 * pair count. The caller frees it. NULL: out of memory
 */
uint32_t *av_cq_users(const struct av_seg *seg);

struct av_context_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
};

struct av_pd_info {
	int32_t pid;
	uint32_t context;
	uint32_t number; /* in its context */
	uint32_t users;	 /* queue pairs, shared receive queues and regions in it */
};

struct av_srq_info {
	int32_t pid;
	uint32_t context;
	uint32_t number; /* in its context */
	uint32_t pd;	 /* number, as in struct av_pd_info */
	bool xrc;
	uint32_t cq;		  /* of an XRC one: number, as in struct av_cq_info */
	const struct av_seg *seg; /* while it is visited: for av_srq_qp() */
};

typedef void av_report_context(const struct av_context_info *info, void *arg);
typedef void av_report_pd(const struct av_pd_info *info, void *arg);
typedef void av_report_srq(const struct av_srq_info *info, void *arg);

void av_report_contexts(const char *device, av_report_context *visit, void *arg);

/* Domains of a context that imports another one's objects are left out: only it knows them. */
void av_report_pds(const char *device, av_report_pd *visit, void *arg);
void av_report_srqs(const char *device, av_report_srq *visit, void *arg);

/* The next queue pair that receives from that queue, from @index on as above; 0: there is none */
uint32_t av_srq_qp(const struct av_srq_info *srq, uint32_t *index);

#endif
