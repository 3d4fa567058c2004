/* SPDX-License-Identifier: MIT */
/* What the timer thread does when it looks. */
#include "base/clock.h"
#include "transport/progress.h"
#include "transport/inject.h"
#include "transport/reset.h"
#include "transport/timer.h"
#include "transport/wire.h"
#include "transport/wire_faults.h"
#include "transport/wire_move.h"

#define BUSY_NS 1000000u /* until another thread may have taken what has come */

/* Is the time for an answer over, and none has come? @now: may be late, for want of a core */
static bool is_unanswered(const struct av_qp_ref *end, uint64_t now, bool *busy)
{
	*busy = false;
	if (atomic_load(&end->qp->deadline_ns) > now)
		return false;
	if (atomic_load(&end->qp->wait_reason) == AV_WAIT_FULL) /* nobody answers that */
		return true;
	*busy = !av_wire_catch_up(end);
	return !*busy && atomic_load(&end->qp->deadline_ns) <= now;
}

static uint64_t look_at_requests(const struct av_qp_ref *end, uint64_t now)
{
	bool busy;

	if (atomic_load(&end->qp->wait_reason) == AV_WAIT_NONE)
		return UINT64_MAX;
	if (is_unanswered(end, now, &busy) || atomic_load(&end->qp->kick))
		av_sq_progress(end, NULL);
	if (busy)
		return now + BUSY_NS;
	return atomic_load(&end->qp->wait_reason) ? atomic_load(&end->qp->deadline_ns) : UINT64_MAX;
}

uint64_t av_timer_look(const struct av_qp_ref *end)
{
	uint64_t now = av_now_ns(), next, read;
	bool soon = !av_wire_move(end);

	if (atomic_load(&end->qp->flush_due))
		av_sq_progress(end, NULL);
	read = av_wire_read_on(end);
	next = look_at_requests(end, now);
	next = read < next ? read : next;
	soon = soon || atomic_load(&end->qp->flush_due);
	return soon && next > now + AV_FLUSH_DUE_NS ? now + AV_FLUSH_DUE_NS : next;
}

uint64_t av_timer_look_at_faults(struct av_seg *seg)
{
	bool fatal = false;
	uint64_t next = av_inject_look(seg, &fatal), packets = av_wire_faults_look(seg);

	if (fatal)
		av_context_fatal(seg);
	return packets < next ? packets : next;
}
