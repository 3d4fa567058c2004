/* SPDX-License-Identifier: MIT */
/*
 * Records of what failed in the transport (observe/flight.h): requests and what became of their
 * responders, flushed queues, events. What nobody has said by then is looked up here, after the
 * fact.
 *
 * Context: any of the transport's; takes no lock.
 */
#ifndef AV_TRANSPORT_REPORT_H
#define AV_TRANSPORT_REPORT_H

#include "observe/diagnosis.h"
#include "queue/qp.h"
#include "transport/rules.h"

struct av_failed {
	const struct av_qp_end *req, *rsp; /* @rsp: without a queue pair if there is nobody */
	const struct av_sq_wqe *wqe;
	enum av_fault fault;
	bool silent; /* @rsp lives and did not answer: its execution right is held */
};

/* A request completes without success. @req's execution right is held, @rsp's only if @silent. */
AV_COLD void av_report_request(const struct av_failed *failed);

/* Its responder fails with it; before av_report_request(). @rsp's execution right is held. */
AV_COLD void av_report_responder(const struct av_failed *failed);

/* So many requests of a queue were flushed. 0: nothing is recorded */
AV_COLD void av_report_flush(const struct av_qp_end *end, uint32_t count, bool receives);

/* Something happened to a queue pair by itself. @event: enum ibv_event_type, or AV_EVENT_NONE */
AV_COLD void av_report_event(const struct av_qp_end *end, enum av_check check, int event,
			     uint64_t limit);

/* The completion of a request that succeeded did not fit its CQ: the queue pair fails. */
AV_COLD void av_report_send_cq(const struct av_qp_end *end);

/* The payload of a message could not be placed when its completion was polled. */
AV_COLD void av_report_placement(const struct av_seg *seg, const struct ibv_wc *wc);

/* The device of a context has failed. */
AV_COLD void av_report_fatal(const struct av_seg *seg);

#endif
