/* SPDX-License-Identifier: MIT */
/*
 * The counters of a device, of the processes that use it, and of their queue pairs and CQs. Joins
 * no directory; opens files. What is changing at this moment may be left out, or shown half
 * changed. Context: any thread, no lock held.
 */
#ifndef AV_QUEUE_COUNTS_H
#define AV_QUEUE_COUNTS_H

#include <stdint.h>

#include "memory/odp_counters.h"
#include "observe/counters.h"

struct av_qp_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t qpn;
	uint32_t type;	/* enum ibv_qp_type */
	uint32_t state; /* enum ibv_qp_state */
	uint32_t dest_qpn;
	uint32_t send_cq, recv_cq; /* numbers, as in struct av_cq_info */
	uint32_t pd;		   /* number, as in struct av_pd_info (queue/objects.h) */
	uint32_t sq_psn, rq_psn;   /* as ibv_query_qp() says them */
	uint8_t path_mig_state;	   /* enum ibv_mig_state */
	uint8_t port;		   /* 0: not chosen yet */
	struct av_counted counted;
};

struct av_cq_info {
	int32_t pid;
	uint32_t context; /* its reference in the directory */
	uint32_t number;  /* in its context */
	uint32_t users;	  /* av_cq_users() (queue/objects.h) */
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

#endif
