/* SPDX-License-Identifier: MIT */
#include "queue/objects.h"

#include "memory/region.h"

#define WHOLE_SPACE (1ull << 47)

/* --- walking ---------------------------------------------------------------------- */

/* Defines the walk over a table in @chunk entries each, of which those in use have @mark. */
#define NEXT(name, type, at, chunk, mark)                                              \
	const struct type *name(const struct av_seg *seg, uint32_t *index)             \
	{                                                                              \
		while (*index < AV_SLAB_CHUNKS * (chunk)) {                            \
			const struct type *o = at(seg, *index);                        \
                                                                                       \
			*index += o ? 1 : (chunk) - *index % (chunk);                  \
			if (o && atomic_load_explicit(&o->mark, memory_order_acquire)) \
				return o;                                              \
		}                                                                      \
		return NULL;                                                           \
	}

NEXT(av_qp_next, av_qp_shared, av_qp_at, AV_OBJ_CHUNK, qpn)
NEXT(av_cq_next, av_cq_shared, av_cq_at, AV_OBJ_CHUNK, id)
NEXT(av_srq_next, av_rq_shared, av_rq_at, AV_RQ_CHUNK, id)

/* --- users ------------------------------------------------------------------------- */

/* A table of @count users. The index comes from a segment. */
struct users {
	uint32_t *of, count;
};

static void add_user(const struct users *users, uint32_t index)
{
	if (index < users->count)
		users->of[index]++;
}

/* Of each CQ, by its index: the caller frees the array. NULL: out of memory */
static uint32_t *cq_users(const struct av_seg *seg)
{
	struct users users = {.count = AV_SLAB_CHUNKS * AV_OBJ_CHUNK};
	const struct av_qp_shared *qp;
	const struct av_rq_shared *srq;
	uint32_t at = 0;

	users.of = calloc(users.count, sizeof(*users.of));
	if (!users.of)
		return NULL;
	while ((qp = av_qp_next(seg, &at))) {
		add_user(&users, qp->send_cq);
		add_user(&users, qp->recv_cq);
	}
	for (at = 0; (srq = av_srq_next(seg, &at));)
		if (srq->xrcd)
			add_user(&users, srq->cq);
	return users.of;
}

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
	uint32_t at = 0, *users = cq_users(seg);
	const struct av_cq_shared *cq;

	while ((cq = av_cq_next(seg, &at))) {
		struct av_cq_info info = {
			.pid = seg->head->pid,
			.context = seg->head->ref,
			.number = at - 1,
			.users = users ? users[at - 1] : 0,
		};
		const struct av_cq_producer *in = &cq->producer[av_cq_used(cq)];
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

/* --- processes ------------------------------------------------------------------- */

struct processes {
	struct av_process_info *list; /* with room for one of each context */
	unsigned int count;
};

static struct av_process_info *find_or_add_process(struct processes *all,
						   const struct av_seg_head *head)
{
	for (unsigned int i = 0; i < all->count; i++)
		if (all->list[i].pid == head->pid && all->list[i].pidns == head->pidns)
			return &all->list[i];
	all->list[all->count] = (struct av_process_info){.pid = head->pid, .pidns = head->pidns};
	return &all->list[all->count++];
}

static void add_context(const struct av_seg *seg, void *arg)
{
	struct av_process_info *info = find_or_add_process(arg, seg->head);

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

/* --- domains ---------------------------------------------------------------------- */

static void region_uses(const struct av_region_info *info, void *arg)
{
	add_user(arg, info->pd);
}

/* The table stays empty if memory runs out. */
static struct users pd_users(const struct av_seg *seg)
{
	struct users users = {.count = AV_MAX_PD + 1};
	const struct av_qp_shared *qp;
	const struct av_rq_shared *srq;
	uint32_t at = 0;

	users.of = calloc(users.count, sizeof(*users.of));
	if (!users.of)
		return (struct users){.count = 0};
	while ((qp = av_qp_next(seg, &at)))
		add_user(&users, qp->pd);
	for (at = 0; (srq = av_srq_next(seg, &at));)
		add_user(&users, srq->pd);
	av_region_report_of(seg, region_uses, &users);
	return users;
}

/* --- reports ----------------------------------------------------------------------- */

static void visit_contexts(const struct av_seg *seg, av_report_context *visit, void *arg)
{
	const struct av_context_info info = {.pid = seg->head->pid, .context = seg->head->ref};

	visit(&info, arg);
}

static void visit_pds(const struct av_seg *seg, av_report_pd *visit, void *arg)
{
	const struct users users = pd_users(seg);

	for (uint32_t i = 0; i <= AV_MAX_PD; i++) {
		struct av_pd_info info = {
			.pid = seg->head->pid,
			.context = seg->head->ref,
			.number = i,
			.users = i < users.count ? users.of[i] : 0,
		};

		if (atomic_load(&seg->head->pds[i / 64]) & 1ull << i % 64)
			visit(&info, arg);
	}
	free(users.of);
}

static void visit_srqs(const struct av_seg *seg, av_report_srq *visit, void *arg)
{
	const struct av_rq_shared *rq;
	uint32_t at = 0;

	while ((rq = av_srq_next(seg, &at))) {
		struct av_srq_info info = {
			.pid = seg->head->pid,
			.context = seg->head->ref,
			.number = at - 1,
			.pd = rq->pd,
			.xrc = rq->xrcd != 0,
			.cq = rq->cq,
			.seg = seg,
		};

		visit(&info, arg);
	}
}

struct each {
	void (*visit)(void);
	void *arg;
};

/* Defines av_report_KINDs(): the same for all contexts of a device. */
#define REPORT(kind)                                                                              \
	static void kind##s_of(const struct av_seg *seg, void *arg)                               \
	{                                                                                         \
		const struct each *each = arg;                                                    \
                                                                                                  \
		visit_##kind##s(seg, (av_report_##kind *)each->visit, each->arg);                 \
	}                                                                                         \
                                                                                                  \
	void av_report_##kind##s(const char *device, av_report_##kind *visit, void *arg)          \
	{                                                                                         \
		av_seg_view_each(device, kind##s_of, &(struct each){(void (*)(void))visit, arg}); \
	}

REPORT(qp)
REPORT(cq)
REPORT(context)
REPORT(pd)
REPORT(srq)

uint32_t av_srq_qp(const struct av_srq_info *srq, uint32_t *index)
{
	const struct av_qp_shared *qp;

	while ((qp = av_qp_next(srq->seg, index)))
		if (qp->srq && qp->rq == srq->number)
			return atomic_load(&qp->qpn);
	return 0;
}
