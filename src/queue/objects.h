/* SPDX-License-Identifier: MIT */
/*
 * The objects of a context, found in its segment by any process. Reports join no directory; they
 * open files. What is changing at this moment may be left out, or shown half changed. Context: any
 * thread, no lock held.
 */
#ifndef AV_QUEUE_OBJECTS_H
#define AV_QUEUE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/cq_shared.h"
#include "queue/qp.h"
#include "queue/rq_shared.h"

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
