/* SPDX-License-Identifier: MIT */
/* Preparing a request to be resumed by another process. */
#include "transport/park.h"

#include <string.h>

#include "base/clock.h"
#include "memory/xfer.h"
#include "memory/translate.h"

#define PAYLOAD_MAX 256u /* larger payloads are cheaper to copy from where they are */

static bool worth_taking(const struct av_qp_end *end, const struct av_sq_wqe *wqe)
{
	uint64_t room = end->qp->sq_stride - sizeof(*wqe);

	return end->seg->own && !(wqe->flags & IBV_SEND_INLINE) && wqe->bytes > 0 &&
	       wqe->bytes <= room && wqe->bytes <= PAYLOAD_MAX;
}

void av_park_payload(const struct av_qp_end *end, struct av_sq_wqe *wqe)
{
	uint8_t payload[PAYLOAD_MAX]; /* a buffer between: the copy overwrites the elements that say
					 where to read */
	struct av_spans from, to;
	enum av_fault ret;

	if (!worth_taking(end, wqe) ||
	    av_mem_get_list(end->seg, end->qp->pd, 0, wqe->sge, wqe->count, wqe->bytes, &from) !=
		    AV_CHECK_NONE)
		return;
	av_spans_local(&to, NULL, payload, wqe->bytes);
	ret = av_xfer_copy(&to, &from, av_now_coarse_ns());
	av_mem_put_list(&from);
	if (ret != AV_FAULT_NONE)
		return;
	memcpy(wqe->data, payload, wqe->bytes);
	wqe->count = 0;
	wqe->flags |= IBV_SEND_INLINE;
}
