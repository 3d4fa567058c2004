/* SPDX-License-Identifier: MIT */
#include "transport/after.h"

#include "net/net.h"

void av_after_do(struct av_after *after)
{
	if (after->bell.event)
		av_cq_ring(after->seg, &after->bell);
	av_xrc_end(&after->srq);
	if (after->burst)
		(void)av_net_send(after->burst); /* what is not sent is lost, as datagrams may be */
}
