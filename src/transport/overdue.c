/* SPDX-License-Identifier: MIT */
#include "transport/overdue.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "transport/execute.h"
#include "transport/receive.h"
#include "transport/state.h"
#include "transport/timer.h"

/* In the queue pair's @overdue. */
enum overdue {
	FLUSH = 1,
	END = 2, /* and tell of it, where the queue is shared */
};

static void leave(const struct av_qp_end *end, enum overdue what)
{
	atomic_fetch_or(&end->qp->overdue, what);
	av_timer_watch(end, av_now_ns() + AV_OVERDUE_NS);
}

void av_overdue_error(const struct av_qp_end *end)
{
	if (av_responder_acquire_soon(end)) {
		av_responder_error(end);
		av_lock_release(&end->qp->resp);
		return;
	}
	leave(end, atomic_exchange(&end->qp->state, IBV_QPS_ERR) == IBV_QPS_ERR ? FLUSH : END);
}

void av_overdue_flush(const struct av_qp_end *end)
{
	if (!av_responder_acquire_soon(end)) {
		leave(end, FLUSH);
		return;
	}
	av_receive_flush(end);
	av_lock_release(&end->qp->resp);
}

void av_overdue_look(const struct av_qp_end *end)
{
	enum av_lock_result got;
	uint32_t what;

	if (av_likely(atomic_load(&end->qp->overdue) == 0))
		return;
	got = av_lock_try(&end->qp->resp, AV_RANK_RESP);
	if (got == AV_LOCK_BUSY)
		return;
	if (got == AV_LOCK_REPAIR)
		av_responder_repair(end);
	what = atomic_exchange(&end->qp->overdue, 0);
	if (atomic_load(&end->qp->state) == IBV_QPS_ERR && what & END)
		av_responder_end_receives(end);
	else if (atomic_load(&end->qp->state) == IBV_QPS_ERR && what)
		av_receive_flush(end);
	av_lock_release(&end->qp->resp);
}
