/* SPDX-License-Identifier: MIT */
#include <anyverbs/as_notify.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "verbs/misuse.h"

/* --- reading ------------------------------------------------------------------------ */

/* Return: 0, or -1 and errno. */
static int read_record(int fd, struct av_doorbell_record *record)
{
	ssize_t n = read(fd, record, sizeof(*record));

	if (n == (ssize_t)sizeof(*record))
		return 0;
	if (n >= 0)
		errno = EIO;
	return -1;
}

static bool take_kept(struct av_channel *channel, struct av_doorbell_record *record)
{
	uint32_t left;

	if (av_likely(atomic_load(&channel->kept_count) == 0))
		return false;
	AV_LOCKED(&channel->mutex);
	if (atomic_load(&channel->kept_count) == 0)
		return false;
	left = atomic_fetch_sub(&channel->kept_count, 1) - 1;
	*record = channel->kept[0];
	memmove(channel->kept, channel->kept + 1, left * sizeof(*channel->kept));
	return true;
}

/* Has a thread sorted the records since then, or does it now? If so, waits until it has ended. */
static bool sorted_since(struct av_channel *channel, uint32_t sorts)
{
	if (sorts % 2 == 0 && atomic_load(&channel->sorts) == sorts)
		return false;
	AV_LOCKED(&channel->mutex);
	return true;
}

/*
 * Reads the next record, and blocks if the channel's descriptor does. Context: any thread, no lock
 * held; a cancellation point. Return: 0, or -1 and errno
 */
static int channel_read(struct av_channel *channel, struct av_doorbell_record *record)
{
	uint32_t sorts;

	do {
		sorts = atomic_load(&channel->sorts);
		if (take_kept(channel, record) || read_record(channel->ibv.fd, record) == 0)
			return 0;
	} while (errno == EAGAIN && sorted_since(channel, sorts));
	return -1;
}

/* --- sorting; the mutex is held ---------------------------------------------------- */

static uint32_t pending(int fd)
{
	int bytes = 0;

	return ioctl(fd, FIONREAD, &bytes) ? 0
					   : (uint32_t)bytes / sizeof(struct av_doorbell_record);
}

/* Appends the FIFO's records to @list. Others may read some. Return: entries of @list */
static uint32_t drain_channel_fifo(int fd, struct av_doorbell_record *list, uint32_t count,
				   uint32_t capacity)
{
	while (count < capacity && read_record(fd, &list[count]) == 0)
		count++;
	return count;
}

/* Drops a CQ's records from @list. Return: entries that are left */
static uint32_t without(struct av_doorbell_record *list, uint32_t count, uint32_t cq_index,
			uint32_t cq_id)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < count; i++)
		if (list[i].index != cq_index || list[i].id != cq_id)
			list[left++] = list[i];
	return left;
}

/* Return: entries that found room in the FIFO */
static uint32_t write_back(int fd, const struct av_doorbell_record *list, uint32_t count)
{
	uint32_t n = 0;

	while (n < count && write(fd, &list[n], sizeof(*list)) == (ssize_t)sizeof(*list))
		n++;
	return n;
}

/*
 * Removes the records of a CQ. @fd: the FIFO, not blocking. @others: out, records of other CQs.
 * Return: how many it removed; without memory 0, and the records stay
 */
static uint32_t channel_sort_out(struct av_channel *channel, int fd, const struct av_cq *cq,
				 uint32_t *others)
{
	AV_UNCANCELLED;
	uint32_t kept, count = 0, back;
	struct av_doorbell_record *list;

	AV_LOCKED(&channel->mutex);
	atomic_fetch_add(&channel->sorts, 1);
	kept = atomic_load(&channel->kept_count);
	*others = kept + pending(fd);
	list = *others ? malloc(*others * sizeof(*list)) : NULL;
	if (list) {
		if (kept)
			memcpy(list, channel->kept, kept * sizeof(*list));
		count = drain_channel_fifo(fd, list, kept, *others);
		*others = without(list, count, cq->ibv.handle, cq->id);
		back = write_back(fd, list, *others);
		memmove(list, list + back, (*others - back) * sizeof(*list));
		free(channel->kept);
		channel->kept = list;
		atomic_store(&channel->kept_count, *others - back);
		count -= *others;
	}
	atomic_fetch_add(&channel->sorts, 1);
	return count;
}

/* --- completion channels --------------------------------------------------------- */

#define NS_PER_S       1000000000
#define MAX_CHANNELS   65535u
#define OTHERS_NAP_NS  1000000u
#define LONGEST_NAP_NS 1000000000000u /* the maximum of a single sleep */

/* NULL: it has none. */
static struct av_channel *channel_of(const struct av_cq *cq)
{
	return cq->ibv.channel ? av_container_of(cq->ibv.channel, struct av_channel, ibv) : NULL;
}

static struct av_channel *channel_find(struct ibv_comp_channel *ibv)
{
	struct av_channel *channel = av_container_of(ibv, struct av_channel, ibv);

	return av_table_get(&av_context_of(ibv->context)->channels.table, channel->doorbell) ==
			       channel
		       ? channel
		       : NULL;
}

AV_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	AV_BEGIN_OR_PASS_ON(context, ibv_create_comp_channel, "IBVERBS_1.0", context);
	struct av_context *ctx = av_context_of(context);
	int err = ctx->forked ? 0 : av_verb_err(ctx, AV_VERB_CREATE_COMP_CHANNEL), fd = -ENOMEM;
	struct av_channel *channel =
		av_object_new(AV_VERB_CREATE_COMP_CHANNEL, err, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->doorbell = ctx->forked ? 0 : av_handles_add(&ctx->channels, channel, MAX_CHANNELS);
	if (channel->doorbell)
		fd = av_doorbell_create(ctx->seg, channel->doorbell);
	if (fd < 0) {
		if (channel->doorbell)
			av_handles_remove(&ctx->channels, channel->doorbell);
		return av_object_fail(AV_VERB_CREATE_COMP_CHANNEL, channel, -fd);
	}
	pthread_mutex_init(&channel->mutex, NULL);
	channel->ibv.context = context;
	channel->ibv.fd = fd;
	channel->made_at = __builtin_return_address(0);
	return &channel->ibv;
}

AV_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	AV_OURS_OR_NEXT(av_fail_errno, DESTROY_COMP_CHANNEL, ibv_destroy_comp_channel,
			"IBVERBS_1.0", ibv);
	AV_FAIL_ON_DEMAND(av_fail_errno, DESTROY_COMP_CHANNEL, ibv->context, 0, 0);
	struct av_context *ctx = av_context_of(ibv->context);
	struct av_channel *channel = channel_find(ibv);
	int busy;

	if (!channel)
		return av_fail_errno(AV_VERB_DESTROY_COMP_CHANNEL, ENOENT);
	pthread_mutex_lock(&ctx->verbs.context.mutex);
	busy = ibv->refcnt;
	pthread_mutex_unlock(&ctx->verbs.context.mutex);
	if (busy) {
		(void)av_refuse(EBUSY, AV_CHECK_CHANNEL_BUSY, (uint64_t)busy, 0);
		return av_misuse_busy(AV_VERB_DESTROY_COMP_CHANNEL,
				      (struct av_misuse_object){ctx, "completion channel",
								channel->doorbell,
								channel->made_at});
	}
	if (!ctx->forked)
		av_doorbell_remove(ctx->seg, channel->doorbell);
	close(ibv->fd);
	av_handles_remove(&ctx->channels, channel->doorbell);
	pthread_mutex_destroy(&channel->mutex);
	free(channel->kept);
	free(channel);
	return 0;
}

/* Counts @n acknowledgements of events, for which the object's destruction waits. */
static void acknowledge_events(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed,
			       uint32_t n)
{
	AV_LOCKED(mutex);
	*completed += n;
	pthread_cond_signal(cond);
}

static void count_delivered(pthread_mutex_t *mutex, uint32_t *delivered)
{
	AV_LOCKED(mutex);
	(*delivered)++;
}

/* Counts a record as delivered to its CQ. Return: NULL: that CQ has been destroyed */
static struct av_cq *deliver_cq_record(struct av_context *ctx,
				       const struct av_doorbell_record *record)
{
	AV_LOCKED(&ctx->verbs.context.mutex);
	struct av_cq *cq = av_table_get(&ctx->cqs, record->index);

	if (!cq || cq->id != record->id)
		return NULL;
	count_delivered(&cq->ibv.mutex, &cq->comp_delivered);
	return cq;
}

AV_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq_out,
			       void **cq_context)
{
	AV_PASS_ON(ibv->context, ibv_get_cq_event, "IBVERBS_1.1", ibv, cq_out, cq_context);
	AV_FAIL_ON_DEMAND(av_fail_fd, GET_CQ_EVENT, ibv->context, 0, 0);
	struct av_channel *channel = av_container_of(ibv, struct av_channel, ibv);
	struct av_doorbell_record record;
	struct av_cq *cq = NULL;

	while (!cq) {
		if (channel_read(channel, &record))
			return -1;
		cq = deliver_cq_record(av_context_of(ibv->context), &record);
	}
	*cq_out = &cq->ibv;
	*cq_context = cq->ibv.cq_context;
	return 0;
}

AV_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	AV_PASS_ON(cq->context, ibv_ack_cq_events, "IBVERBS_1.1", cq, nevents);
	acknowledge_events(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}

void av_channel_forget(const struct av_cq *cq)
{
	struct av_channel *channel = channel_of(cq);
	/* Not blocking: another thread may take the record that we see. */
	int fd AV_CLOSED =
		channel ? av_doorbell_peek(av_context_of(cq->ibv.context)->seg, channel->doorbell)
			: -1;
	uint32_t others;

	if (fd >= 0)
		(void)channel_sort_out(channel, fd, cq, &others);
}

/* Sleeps until the FIFO is readable; briefly if it has records of others. Return: 0 or errno */
static int wait_readable(int fd, bool others, uint64_t until_ns)
{
	uint64_t now = av_now_ns(), left = now < until_ns ? until_ns - now : 0;
	struct pollfd p = {.fd = others ? -1 : fd, .events = POLLIN};
	struct timespec t;

	if (!left)
		return ETIMEDOUT;
	if (others && left > OTHERS_NAP_NS)
		left = OTHERS_NAP_NS;
	if (left > LONGEST_NAP_NS)
		left = LONGEST_NAP_NS;
	t = av_timespec(left);
	return ppoll(&p, 1, &t, NULL) < 0 ? errno : 0;
}

static int wait_for_channel(const struct av_cq *cq, uint64_t until_ns)
{
	struct av_channel *channel = channel_of(cq);
	int fd AV_CLOSED = av_doorbell_peek(av_context_of(cq->ibv.context)->seg, channel->doorbell),
	       err = 0;
	uint32_t others, found;

	if (fd < 0)
		return -fd;
	while ((found = channel_sort_out(channel, fd, cq, &others)) == 0 && err == 0)
		err = wait_readable(fd, others, until_ns);
	return found ? 0 : err;
}

/* --- waiting for one CQ ---------------------------------------------------------- */

/* @until_ns: out, when to give up. Return: 0 or EINVAL */
static int deadline(const struct timespec *timeout, uint64_t *until_ns)
{
	uint64_t now = av_now_ns();

	*until_ns = UINT64_MAX;
	if (!timeout)
		return 0;
	if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= NS_PER_S)
		return av_refuse(EINVAL, AV_CHECK_CQ_TIMEOUT, (uint64_t)timeout->tv_sec,
				 (uint64_t)timeout->tv_nsec);
	if ((uint64_t)timeout->tv_sec < (UINT64_MAX - now) / NS_PER_S - 1)
		*until_ns = now + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec;
	return 0;
}

static int wait_for_event(struct av_cq *cq, uint64_t until_ns)
{
	struct av_seg *seg = av_context_of(cq->ibv.context)->seg;

	if (av_cq_notifies(cq->shared)) {
		/* An event from before the first wait is in the channel. */
		if (av_cq_notify_waits(seg, cq->ibv.handle))
			av_channel_forget(cq);
		return av_cq_wait(seg, cq->ibv.handle, until_ns);
	}
	return cq->ibv.channel ? wait_for_channel(cq, until_ns)
			       : av_refuse(EINVAL, AV_CHECK_CQ_NO_CHANNEL, 0, 0);
}

AV_EXPORT int anyverbs_cq_wait(struct ibv_cq *ibv, const struct timespec *timeout)
{
	if (!av_ours(ibv->context))
		return av_fail_errno(AV_VERB_CQ_WAIT, ENOSYS);
	AV_FAIL_ON_DEMAND(av_fail_errno, CQ_WAIT, ibv->context, 0, 0);
	struct av_cq *cq = av_cq_find(ibv);
	int err = cq ? 0 : ENOENT;
	uint64_t until_ns;

	if (cq)
		err = av_context_of(ibv->context)->forked ? EPERM : deadline(timeout, &until_ns);
	if (err == 0) {
		atomic_fetch_add(&cq->waiting, 1);
		err = wait_for_event(cq, until_ns);
		atomic_fetch_sub(&cq->waiting, 1);
	}
	return err ? av_fail_errno(AV_VERB_CQ_WAIT, err) : 0;
}

/* --- asynchronous events, and acknowledgements ----------------------------------- */

#define SAY_AFTER_S 1 /* after this time, report that we wait for acknowledgements */

void av_unlist(struct av_context *ctx, struct av_table *table, uint32_t handle)
{
	AV_LOCKED(&ctx->verbs.context.mutex);
	av_table_clear(table, handle);
}

void av_event_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
		   const uint32_t *delivered, struct av_misuse_object of)
{
	struct timespec until;

	AV_LOCKED(mutex);
	if (av_misuse_on()) { /* let the program learn why it hangs */
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += SAY_AFTER_S;
		while (*completed != *delivered && !pthread_cond_timedwait(cond, mutex, &until))
			;
		if (*completed != *delivered)
			av_misuse_waits(of, *delivered - *completed);
	}
	while (*completed != *delivered)
		pthread_cond_wait(cond, mutex);
}

/* Turns a record into an event, and counts it. Return: false: its object has been destroyed */
static bool deliver_async_event(struct av_context *ctx, const struct av_doorbell_record *record,
				struct ibv_async_event *event)
{
#define DELIVER(table, type, number, member)                                   \
	do {                                                                   \
		struct type *found = av_table_get(&ctx->table, record->index); \
		if (!found || found->number != record->id)                     \
			return false;                                          \
		count_delivered(&found->ibv.mutex, &found->async_delivered);   \
		event->element.member = &found->ibv;                           \
	} while (0)
	event->event_type = (enum ibv_event_type)record->event;
	switch (record->kind) {
	case AV_SLAB_QP:
		DELIVER(qps, av_qp, ibv.qp_num, qp);
		return true;
	case AV_SLAB_CQ:
		DELIVER(cqs, av_cq, id, cq);
		return true;
	case AV_SLAB_RQ:
		DELIVER(srqs, av_srq, id, srq);
		return true;
	default:
		event->element.port_num = (int)record->index;
		return true;
	}
#undef DELIVER
}

AV_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	AV_PASS_ON(context, ibv_get_async_event, "IBVERBS_1.1", context, event);
	AV_FAIL_ON_DEMAND(av_fail_fd, GET_ASYNC_EVENT, context, 0, 0);
	struct av_doorbell_record record;
	bool delivered;

	do {
		if (read_record(context->async_fd, &record))
			return -1;
		pthread_mutex_lock(&context->mutex);
		delivered = deliver_async_event(av_context_of(context), &record, event);
		pthread_mutex_unlock(&context->mutex);
	} while (!delivered);
	if (av_explaining())
		av_explain_others();
	return 0;
}

/* What an acknowledgement counts. An event names no context: its object does. */
struct acknowledged {
	struct ibv_context *context; /* NULL: events of a port or the device are not counted */
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *completed;
};

static struct acknowledged find_acknowledged(const struct ibv_async_event *event)
{
#define ACKNOWLEDGED(o, count) ((struct acknowledged){(o)->context, &(o)->mutex, &(o)->cond, count})
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_wq *wq = event->element.wq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return ACKNOWLEDGED(cq, &cq->async_events_completed);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ACKNOWLEDGED(qp, &qp->events_completed);
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ACKNOWLEDGED(srq, &srq->events_completed);
	case IBV_EVENT_WQ_FATAL:
		return ACKNOWLEDGED(wq, &wq->events_completed);
	default:
		return (struct acknowledged){.context = NULL};
	}
#undef ACKNOWLEDGED
}

AV_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	const struct acknowledged of = find_acknowledged(event);

	if (of.context && av_ours(of.context))
		acknowledge_events(of.mutex, of.cond, of.completed, 1);
	else if (of.context)
		AV_NEXT(ibv_ack_async_event, "IBVERBS_1.1")(event);
}
