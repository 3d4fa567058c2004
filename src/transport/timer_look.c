/* SPDX-License-Identifier: MIT */
/* What the timer thread does when it looks. */
#include "base/clock.h"
#include "transport/drive.h"
#include "transport/fatal.h"
#include "transport/inject.h"
#include "transport/timer.h"
#include "transport/wire_faults.h"

static uint64_t look_at_requests(const struct av_qp_end *end, uint64_t now)
{
	uint32_t other = av_lock_other(&end->qp->exec);

	if (other) {
		if (!av_lock_owner_alive(other))
			av_drive(end, NULL); /* takes the right over */
		return now + AV_DRIVEN_NS;
	}
	if (atomic_load(&end->qp->park) == AV_PARK_NOT)
		return UINT64_MAX;
	if (atomic_load(&end->qp->deadline_ns) <= now || atomic_load(&end->qp->kick))
		av_drive(end, NULL);
	return atomic_load(&end->qp->park) ? atomic_load(&end->qp->deadline_ns) : UINT64_MAX;
}

uint64_t av_timer_look(const struct av_qp_end *end)
{
	uint64_t now = av_now_ns(), next;

	if (atomic_load(&end->qp->overdue))
		av_drive(end, NULL);
	next = look_at_requests(end, now);
	return atomic_load(&end->qp->overdue) && next > now + AV_DRIVEN_NS ? now + AV_DRIVEN_NS
									   : next;
}

uint64_t av_timer_look_at_faults(struct av_seg *seg)
{
	bool fatal = false;
	uint64_t next = av_inject_look(seg, &fatal), packets = av_wire_faults_look(seg);

	if (fatal)
		av_context_fatal(seg);
	return packets < next ? packets : next;
}
