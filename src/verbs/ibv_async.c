/* SPDX-License-Identifier: MIT */
/* Asynchronous events, and the counts of events that an object's destruction waits for. */
#include <time.h>
#include <unistd.h>

#include "segment/doorbell.h"
#include "verbs/between.h"
#include "verbs/misuse.h"
#include "verbs/next.h"

#define SAY_AFTER_S 1 /* report a wait for acknowledgements after this time */

void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle)
{
	pthread_mutex_lock(&ctx->verbs.context.mutex);
	av_table_clear(table, handle);
	pthread_mutex_unlock(&ctx->verbs.context.mutex);
}

void av_event_acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			  uint32_t n)
{
	pthread_mutex_lock(mutex);
	*completed += n;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

/* Lets a program learn why it hangs: a forgotten acknowledgement. Context: @mutex held. */
static void wait_and_say(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
			 const uint32_t *delivered, const struct av_misuse_object *of)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += SAY_AFTER_S;
	while (*completed != *delivered && !pthread_cond_timedwait(cond, mutex, &until))
		;
	if (*completed != *delivered)
		av_misuse_waits(of, *delivered - *completed);
}

void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, const struct av_misuse_object *of)
{
	pthread_mutex_lock(mutex);
	if (av_misuse_on())
		wait_and_say(mutex, cond, completed, delivered, of);
	while (*completed != *delivered)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

static void count_async_delivered(pthread_mutex_t *mutex, uint32_t *delivered)
{
	pthread_mutex_lock(mutex);
	(*delivered)++;
	pthread_mutex_unlock(mutex);
}

/* Turn a record into an event. Return: false if the object has been destroyed. */
static bool deliver_async_event(struct av_context *ctx, const struct av_doorbell_record *record,
				struct ibv_async_event *event)
{
	struct av_srq *srq;
	struct av_qp *qp;
	struct av_cq *cq;

	event->event_type = (enum ibv_event_type)record->event;
	switch (record->kind) {
	case AV_SLAB_QP:
		qp = av_table_get(&ctx->qps, record->index);
		if (!qp || qp->ibv.qp_num != record->id)
			return false;
		count_async_delivered(&qp->ibv.mutex, &qp->async_delivered);
		event->element.qp = &qp->ibv;
		return true;
	case AV_SLAB_CQ:
		cq = av_table_get(&ctx->cqs, record->index);
		if (!cq || cq->id != record->id)
			return false;
		count_async_delivered(&cq->ibv.mutex, &cq->async_delivered);
		event->element.cq = &cq->ibv;
		return true;
	case AV_SLAB_RQ:
		srq = av_table_get(&ctx->srqs, record->index);
		if (!srq || srq->id != record->id)
			return false;
		count_async_delivered(&srq->ibv.mutex, &srq->async_delivered);
		event->element.srq = &srq->ibv;
		return true;
	default:
		event->element.port_num = (int)record->index;
		return true;
	}
}

AV_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct av_doorbell_record record;
	bool delivered;
	ssize_t n;

	if (!av_ours(context))
		return AV_NEXT(ibv_get_async_event, "IBVERBS_1.1")(context, event);
	do {
		n = read(context->async_fd, &record, sizeof(record));
		if (n != (ssize_t)sizeof(record)) {
			if (n >= 0)
				errno = EIO;
			return -1;
		}
		pthread_mutex_lock(&context->mutex);
		delivered = deliver_async_event(av_context_of(context), &record, event);
		pthread_mutex_unlock(&context->mutex);
	} while (!delivered);
	if (av_explaining())
		av_explain_others();
	return 0;
}

/* The event does not name its context, so take that of its object. */
static struct ibv_context *context_of(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return event->element.cq->context;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return event->element.qp->context;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return event->element.srq->context;
	case IBV_EVENT_WQ_FATAL:
		return event->element.wq->context;
	default:
		return NULL;
	}
}

AV_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_context *context = context_of(event);

	if (!context)
		return; /* events of a port or the device are not counted */
	if (!av_ours(context))
		AV_NEXT(ibv_ack_async_event, "IBVERBS_1.1")(event);
	else if (event->event_type == IBV_EVENT_CQ_ERR)
		av_event_acknowledge(&event->element.cq->mutex, &event->element.cq->cond,
				     &event->element.cq->async_events_completed, 1);
	else if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED ||
		 event->event_type == IBV_EVENT_SRQ_ERR)
		av_event_acknowledge(&event->element.srq->mutex, &event->element.srq->cond,
				     &event->element.srq->events_completed, 1);
	else
		av_event_acknowledge(&event->element.qp->mutex, &event->element.qp->cond,
				     &event->element.qp->events_completed, 1);
}
