/* SPDX-License-Identifier: MIT */
/*
 * Reports on a device, its processes, and their objects, for any process, in the directory or not.
 * @visit is called once for each object; one that changes may be missing, or half changed.
 * Context: any thread; no lock held. Opens files; waits AV_PEER_TIMEOUT_NS at most per context.
 */
#pragma once

#include "queue/qp.h"

struct av_qp_info {
	int32_t pid;
	uint32_t context; /* the context's reference in the directory */
	uint32_t qpn;
	uint32_t type;	/* enum ibv_qp_type */
	uint32_t state; /* enum ibv_qp_state */
	uint32_t dest_qpn;
	uint32_t send_cq, recv_cq; /* numbers, as in struct av_cq_info */
	uint32_t pd;		   /* number, as in struct av_pd_info */
	uint32_t sq_psn, rq_psn;   /* as ibv_query_qp() reports them */
	uint8_t path_mig_state;	   /* enum ibv_mig_state */
	uint8_t port;		   /* 0: not chosen yet */
	struct av_counted counted;
};

struct av_cq_info {
	int32_t pid;
	uint32_t context; /* the context's reference in the directory */
	uint32_t number;  /* index in its context */
	uint32_t users;	  /* queue pairs, twice if for both queues, and XRC receive queues */
	struct av_counted counted;
};

struct av_process_info {
	int32_t pid;
	uint64_t pidns;			/* inode number of @pid's PID namespace */
	struct av_counted counted;	/* of the contexts that it has open */
	uint64_t odp[AV_ODP_COUNTER_N]; /* of the same contexts, without gauges */
};

/* A device's counters since its reset, also of dead processes; its gauges, of the living only. */
void av_report_device(const char *device, struct av_counted *counted);

typedef void av_report_qp(const struct av_qp_info *info, void *arg);
typedef void av_report_cq(const struct av_cq_info *info, void *arg);
typedef void av_report_process(const struct av_process_info *info, void *arg);

void av_report_qps(const char *device, av_report_qp *visit, void *arg);
void av_report_cqs(const char *device, av_report_cq *visit, void *arg);

/* When a context is closed, its process's sums lose its counts. The device's do not. */
void av_report_processes(const char *device, av_report_process *visit, void *arg);

/* Walk the objects of a context. Works on a segment, and on a view of one, in any process. */

/* The first object at or after @index. Sets @index behind it. NULL: there is none. */
const struct av_qp_shared *av_qp_next(const struct av_seg *seg, uint32_t *index);
const struct av_cq_shared *av_cq_next(const struct av_seg *seg, uint32_t *index);
const struct av_rq_shared *av_srq_next(const struct av_seg *seg, uint32_t *index);

struct av_context_info {
	int32_t pid;
	uint32_t context; /* the context's reference in the directory */
};

struct av_pd_info {
	int32_t pid;
	uint32_t context;
	uint32_t number; /* handle in its context */
	uint32_t users;	 /* queue pairs, shared receive queues and regions in it */
};

struct av_srq_info {
	int32_t pid;
	uint32_t context;
	uint32_t number; /* index in its context */
	uint32_t pd;	 /* number, as in struct av_pd_info */
	bool xrc;
	uint32_t cq;		  /* XRC: number of its CQ, as in struct av_cq_info */
	const struct av_seg *seg; /* valid during the visit, for av_srq_qp() */
};

typedef void av_report_context(const struct av_context_info *info, void *arg);
typedef void av_report_pd(const struct av_pd_info *info, void *arg);
typedef void av_report_srq(const struct av_srq_info *info, void *arg);

void av_report_contexts(const char *device, av_report_context *visit, void *arg);

/* Omits the own domains of a context that imports another's objects: only that one knows them. */
void av_report_pds(const char *device, av_report_pd *visit, void *arg);
void av_report_srqs(const char *device, av_report_srq *visit, void *arg);

/* First queue pair, at or after @index, that receives from it; sets @index behind it. 0: none */
uint32_t av_srq_qp(const struct av_srq_info *srq, uint32_t *index);
