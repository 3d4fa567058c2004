/* SPDX-License-Identifier: MIT */
/*
 * Capture: what a request would have been on a wire, written down as it is executed. The frames are
 * those that an adapter would send, RoCEv2 on any link layer: the requester's packets, by path MTU
 * and PSN, and the responder's answer; or as far as they get.
 *
 * The executor calls av_capture_request_begin() before a request and av_capture_request() after it,
 * while the request's buffers are still what they were. Nothing here fails or changes what becomes
 * of the request.
 */
#ifndef AV_TRANSPORT_CAPTURE_H
#define AV_TRANSPORT_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "queue/qp.h"
#include "transport/execute.h"

/* How things were before a request was executed. */
struct av_capture_mark {
	bool on;
	uint32_t psn;
	uint32_t park;	  /* enum av_park */
	uint64_t time_ns; /* CLOCK_REALTIME */
};

/* For contexts that are watched; av_capture_request_begin() is what executors call. */
void av_capture_mark(struct av_capture_mark *mark, const struct av_qp_end *req);

/* @mark: out; of the usual request nothing but .on is written. */
static inline void av_capture_request_begin(struct av_capture_mark *mark,
					    const struct av_qp_end *req)
{
	uint32_t watched = atomic_load_explicit(&req->seg->head->watched, memory_order_relaxed);

	mark->on = watched & AV_WATCHED_CAPTURE;
	if (av_unlikely(mark->on))
		av_capture_mark(mark, req);
}

/**
 * av_capture_request() - write down what became of a request
 * @mark: from before, .on
 * @req: the requester, its @exec execution right still held, and the request not completed yet;
 * @rsp: as of av_execute(), not looked at for datagrams
 * @answer: with result->answer_bytes
 *
 * A request that waits is written when it begins to, and again when its timer has gone off.
 * Context: no other execution right or lock held; reads the program's memory, and waits for its
 * pages and for the file.
 */
void av_capture_request(const struct av_capture_mark *mark, const struct av_qp_end *req,
			const struct av_qp_end *rsp, const struct av_sq_wqe *wqe,
			const struct av_outcome *result, const uint8_t *answer);

/* A context has been opened: begins what ANYVERBS_CAPTURE asks for. Thread-safe; keeps errno. */
void av_capture_context_opened(struct av_seg *seg);

#endif
