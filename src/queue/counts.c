/* SPDX-License-Identifier: MIT */
#include "queue/counts.h"

#include <stdlib.h>
#include <string.h>

#include "registry/directory.h"
#include "segment/segment_view.h"
#include "segment/totals.h"
#include "memory/region_report.h"
#include "queue/objects.h"

#define WHOLE_SPACE (1ull << 47)

/* --- the objects of one context -------------------------------------------------- */

/* Add what an object has counted: its counters less those of earlier objects at its index. */
static void add_difference(uint64_t *sum, const void *counters, const void *before, size_t words)
{
	const uint64_t *then = before;

	av_count_add(sum, counters, words);
	for (size_t i = 0; i < words; i++)
		sum[i] -= then[i] < sum[i] ? then[i] : sum[i];
}

static void visit_qps(const struct av_seg *seg, av_report_qp *visit, void *arg)
{
	const struct av_qp_shared *qp;
	uint32_t at = 0;

	while ((qp = av_qp_next(seg, &at))) {
		struct av_qp_info info = {
			.pid = seg->head->pid,
			.context = seg->head->ref,
			.qpn = atomic_load(&qp->qpn),
			.type = qp->type,
			.state = atomic_load(&qp->state),
			.dest_qpn = qp->attr.dest_qp_num,
			.send_cq = qp->send_cq,
			.recv_cq = qp->recv_cq,
			.pd = qp->pd,
			.sq_psn = qp->attr.sq_psn,
			.rq_psn = qp->attr.rq_psn,
			.path_mig_state = (uint8_t)qp->attr.path_mig_state,
			.port = qp->attr.port_num,
		};

		info.counted.gauge[AV_GAUGE_POSTED] = atomic_load(&qp->sq_tail) - qp->sq_next;
		add_difference(info.counted.total.qp, &qp->counters, &qp->before, AV_QP_COUNTERS);
		visit(&info, arg);
	}
}

static void visit_cqs(const struct av_seg *seg, av_report_cq *visit, void *arg)
{
	uint32_t at = 0, *users = av_cq_users(seg);
	const struct av_cq_shared *cq;

	while ((cq = av_cq_next(seg, &at))) {
		struct av_cq_info info = {
			.pid = seg->head->pid,
			.context = seg->head->ref,
			.number = at - 1,
			.users = users ? users[at - 1] : 0,
		};
		const struct av_cq_inlet *in = &cq->inlet[av_cq_used(cq)];
		const struct av_cq_counters counters = av_cq_counted(cq);
		uint32_t head = atomic_load(&cq->head), waiting = atomic_load(&in->tail) - head;

		info.counted.gauge[AV_GAUGE_CAPACITY] = cq->capacity;
		info.counted.gauge[AV_GAUGE_WAITING] = waiting;
		info.counted.gauge[AV_GAUGE_PEAK] = in->peak > waiting ? in->peak : waiting;
		add_difference(info.counted.total.cq, &counters, &cq->before, AV_CQ_COUNTERS);
		visit(&info, arg);
	}
	free(users);
}

/* --- gauges ---------------------------------------------------------------------- */

static void count_qp(const struct av_qp_info *info, void *arg)
{
	((struct av_counted *)arg)->gauge[AV_GAUGE_QPS]++;
}

static void count_cq(const struct av_cq_info *info, void *arg)
{
	((struct av_counted *)arg)->gauge[AV_GAUGE_CQS]++;
}

static void count_region(const struct av_region_info *info, void *arg)
{
	struct av_counted *counted = arg;

	counted->gauge[AV_GAUGE_MRS]++;
	if (info->memory != AV_REGION_NULL && info->length < WHOLE_SPACE)
		counted->gauge[AV_GAUGE_MR_BYTES] += info->length;
}

static void add_gauges(const struct av_seg *seg, struct av_counted *counted)
{
	counted->gauge[AV_GAUGE_CONTEXTS]++;
	visit_qps(seg, count_qp, counted);
	visit_cqs(seg, count_cq, counted);
	av_region_report_of(seg, count_region, counted);
}

/* --- all contexts of a device ---------------------------------------------------- */

struct each {
	av_report_qp *qp;
	av_report_cq *cq;
	void *arg;
};

static void qps_of(const struct av_seg *seg, void *arg)
{
	const struct each *each = arg;

	visit_qps(seg, each->qp, each->arg);
}

static void cqs_of(const struct av_seg *seg, void *arg)
{
	const struct each *each = arg;

	visit_cqs(seg, each->cq, each->arg);
}

void av_report_qps(const char *device, av_report_qp *visit, void *arg)
{
	av_seg_view_each(device, qps_of, &(struct each){.qp = visit, .arg = arg});
}

void av_report_cqs(const char *device, av_report_cq *visit, void *arg)
{
	av_seg_view_each(device, cqs_of, &(struct each){.cq = visit, .arg = arg});
}

/* --- processes ------------------------------------------------------------------- */

struct processes {
	struct av_process_info *list; /* with room for one of each context */
	unsigned int count;
};

/* The entry of a context's process. */
static struct av_process_info *process_of(struct processes *all, const struct av_seg_head *head)
{
	for (unsigned int i = 0; i < all->count; i++)
		if (all->list[i].pid == head->pid && all->list[i].pidns == head->pidns)
			return &all->list[i];
	all->list[all->count] = (struct av_process_info){.pid = head->pid, .pidns = head->pidns};
	return &all->list[all->count++];
}

static void add_context(const struct av_seg *seg, void *arg)
{
	struct av_process_info *info = process_of(arg, seg->head);

	av_totals_add(seg, &info->counted.total);
	add_gauges(seg, &info->counted);
	for (int i = 0; i < AV_ODP_COUNTER_N; i++)
		info->odp[i] += atomic_load_explicit(&seg->head->counter[i], memory_order_relaxed);
}

void av_report_processes(const char *device, av_report_process *visit, void *arg)
{
	struct processes all = {.list = calloc(AV_REF_SLOTS, sizeof(*all.list))};

	if (all.list)
		av_seg_view_each(device, add_context, &all);
	for (unsigned int i = 0; i < all.count; i++)
		visit(&all.list[i], arg);
	free(all.list);
}

/* --- the device ------------------------------------------------------------------ */

static void add_process(const struct av_process_info *info, void *arg)
{
	struct av_counted *counted = arg;

	for (int i = 0; i < AV_GAUGE_N; i++)
		counted->gauge[i] += info->counted.gauge[i];
	counted->gauge[AV_GAUGE_PROCESSES]++;
}

void av_report_device(const char *device, struct av_counted *counted)
{
	memset(counted, 0, sizeof(*counted));
	av_totals_read(device, &counted->total, &counted->link_downed);
	av_report_processes(device, add_process, counted);
}
