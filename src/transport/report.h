/* SPDX-License-Identifier: MIT */
/*
 * Flight records (observe/flight.h) of what failed in the transport. What nobody has noted is
 * looked up after the fact. Context: any of the transport's; takes no lock.
 */
#ifndef AV_TRANSPORT_REPORT_H
#define AV_TRANSPORT_REPORT_H

#include "observe/diagnosis.h"
#include "queue/qp.h"
#include "transport/rules.h"

struct av_failed {
	const struct av_qp_ref *req, *rsp; /* @rsp: .qp is NULL if there is no responder */
	const struct av_sq_wqe *wqe;
	enum av_fault fault;
	bool silent; /* @rsp lives and did not answer: its right @resp is held */
};

/*
 * A request completes with an error.
 * Context: @req's right @exec is held; @rsp's right @resp only if @silent.
 */
AV_COLD void av_report_request(const struct av_failed *failed);

/* Its responder fails, too; called first. Context: @rsp's right @resp is held. */
AV_COLD void av_report_responder(const struct av_failed *failed);

/* A message of an unreliable service is lost at @at, for the reason that has been noted. */
struct av_dropped {
	const struct av_qp_ref *at;
	bool at_sender;	  /* there is nobody to receive it; else, the sender: */
	uint32_t src_qpn; /* its number, */
	int32_t src_pid;  /* and its process; 0: on another host */
	uint32_t opcode;
};
AV_COLD void av_report_dropped(const struct av_dropped *dropped);

/* The same, and @at fails, since the fault is its own. Context: @at's right @resp is held. */
AV_COLD void av_report_receiver(const struct av_dropped *dropped, enum av_fault fault);

/* A message of an unreliable connection, which its responder cannot take. Context: as above */
AV_COLD void av_report_lost(const struct av_failed *failed);

/* The same, and nobody has taken it: a record of its requester. Context: as av_report_request() */
AV_COLD void av_report_unheard(const struct av_failed *failed);

/*
 * @count requests of a queue were flushed. Nothing is recorded of 0, nor if the program itself has
 * moved the queue pair to the error state: so connections end.
 */
AV_COLD void av_report_flush(const struct av_qp_ref *end, uint32_t count, bool receives);

/* A queue pair had an event (or AV_EVENT_NONE) without a request that failed. */
AV_COLD void av_report_event(const struct av_qp_ref *end, enum av_check check, int event,
			     uint64_t limit);

/* A queue pair fails because the completion of a successful request did not fit its CQ. */
AV_COLD void av_report_send_cq(const struct av_qp_ref *end);

/* The payload of a message could not be placed when its completion was polled. */
AV_COLD void av_report_placement(const struct av_seg *seg, const struct ibv_wc *wc);

/* The device of a context has failed. */
AV_COLD void av_report_fatal(const struct av_seg *seg);

#endif
