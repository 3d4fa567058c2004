/* SPDX-License-Identifier: MIT */
/* anyverbs_cq_wait(): waits on the CQ itself, or on its completion channel. */
#include <anyverbs/as_notify.h>

#include "base/clock.h"
#include "queue/notify.h"
#include "verbs/fail.h"
#include "verbs/ibv_channel.h"

#define NS_PER_S 1000000000

/* The time to give up. Return: 0 or EINVAL. */
static int deadline(const struct timespec *timeout, uint64_t *until_ns)
{
	uint64_t now = av_now_ns();

	*until_ns = UINT64_MAX;
	if (!timeout)
		return 0;
	if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= NS_PER_S)
		return EINVAL;
	if ((uint64_t)timeout->tv_sec < (UINT64_MAX - now) / NS_PER_S - 1)
		*until_ns = now + (uint64_t)timeout->tv_sec * NS_PER_S + (uint64_t)timeout->tv_nsec;
	return 0;
}

/* An event that arrived before the first wait went to the channel; remove it there. */
static int wait_directly(struct av_context *ctx, struct av_cq *cq, uint64_t until_ns)
{
	bool first = av_cq_notify_waits(ctx->seg, cq->shared);

	if (first && cq->ibv.channel)
		av_channel_forget(av_container_of(cq->ibv.channel, struct av_channel, ibv),
				  cq->ibv.handle, cq->id);
	return av_cq_wait(ctx->seg, cq->ibv.handle, until_ns);
}

static int wait_for_event(struct av_cq *cq, uint64_t until_ns)
{
	struct av_context *ctx = av_context_of(cq->ibv.context);

	if (av_cq_notifies(cq->shared))
		return wait_directly(ctx, cq, until_ns);
	if (!cq->ibv.channel)
		return EINVAL;
	return av_channel_wait(av_container_of(cq->ibv.channel, struct av_channel, ibv), cq,
			       until_ns);
}

AV_EXPORT int anyverbs_cq_wait(struct ibv_cq *ibv, const struct timespec *timeout)
{
	struct av_cq *cq;
	uint64_t until_ns;
	int err;

	if (!av_ours(ibv->context))
		return av_fail_errno(AV_VERB_CQ_WAIT, ENOSYS);
	cq = av_cq_find(ibv);
	if (!cq || av_context_of(ibv->context)->forked)
		return av_fail_errno(AV_VERB_CQ_WAIT, cq ? EPERM : ENOENT);
	err = deadline(timeout, &until_ns);
	if (err)
		return av_fail_errno(AV_VERB_CQ_WAIT, err);
	atomic_fetch_add(&cq->waiting, 1);
	err = wait_for_event(cq, until_ns);
	atomic_fetch_sub(&cq->waiting, 1);
	return err ? av_fail_errno(AV_VERB_CQ_WAIT, err) : 0;
}
