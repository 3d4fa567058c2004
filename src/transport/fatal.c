/* SPDX-License-Identifier: MIT */
/* Failing a device. */
#include "transport/fatal.h"

#include <string.h>

#include "segment/doorbell.h"
#include "registry/directory.h"
#include "transport/drive.h"
#include "transport/report.h"

static void fail_queue_pairs(struct av_seg *seg)
{
	for (uint32_t i = 1; i < AV_MAX_QP + AV_OBJ_CHUNK; i++) {
		struct av_qp_end end = {seg, av_qp_at(seg, i)};

		if (end.qp && atomic_load(&end.qp->qpn) &&
		    atomic_load(&end.qp->state) != IBV_QPS_RESET)
			av_fail(&end);
	}
}

bool av_context_fatal(struct av_seg *seg)
{
	struct av_doorbell_record record = {.event = IBV_EVENT_DEVICE_FATAL, .kind = AV_SLAB_N};
	uint32_t well = 0;

	if (!atomic_compare_exchange_strong(&seg->head->fatal, &well, av_dir_failures_add()))
		return false;
	av_report_fatal(seg);
	fail_queue_pairs(seg);
	av_seg_call(seg);
	return av_doorbell_ring(seg, AV_DOORBELL_ASYNC, &record) == 0;
}

static bool is_of(struct av_seg *seg, const char *device)
{
	return strncmp(seg->head->device, device, sizeof(seg->head->device)) == 0 &&
	       av_seg_alive(seg);
}

unsigned int av_device_fatal(const char *device)
{
	unsigned int failed = 0;
	uint32_t slot = 0, ref;

	while ((ref = av_dir_context_at(&slot))) {
		struct av_seg *seg = av_seg_get(ref);

		if (seg && is_of(seg, device))
			failed += av_context_fatal(seg);
		av_seg_put(seg);
	}
	return failed;
}
