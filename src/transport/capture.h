/* SPDX-License-Identifier: MIT */
/* Captures: what is captured, as which packets, and the files that they are written to. */
#ifndef AV_TRANSPORT_CAPTURE_H
#define AV_TRANSPORT_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "net/net.h"
#include "observe/pcapng.h"
#include "queue/qp.h"
#include "transport/execute.h"
#include "wire/frame.h"

/*
 * The files of captures that this process has open. Frames are collected in batches, and a batch is
 * appended at once. Nothing here fails for the caller: what cannot be written is counted, and a
 * full disk ends the capture.
 *
 * Thread-safety: any number of batches at a time; one mutex is held while a batch is being written.
 */

struct av_capture_batch {
	unsigned int number; /* of the capture: registry/capture_table.h */
	uint32_t stamp, snaplen;
	uint8_t *blocks; /* NULL: nothing can be written */
	size_t used;
	uint64_t frames;
};

/* Captures of packets on the wire: as they were sent, and as they came. */

/*
 * Write them to the captures that cover this process and the device; packets for none of its queue
 * pairs to all that cover the process. Context: as struct av_net_receiver's @seen; waits for files;
 * keeps errno
 */
void av_capture_seen(const struct av_net_seen *seen);

/*
 * Capture: write down the packets that a request would have been on a wire, as it is executed on
 * this host; those on the wire are written as they are (capture.h). The frames are RoCEv2 on
 * any link layer, as an adapter would send them. They are the requester's packets, cut by path MTU
 * and numbered by PSN, and the responder's answer. A request that fails is written as far as it
 * gets.
 *
 * The executor calls av_capture_mark() before a request and av_capture_request() after it, before
 * the program may reuse the request's buffers. A capture never fails a request and never changes
 * its outcome.
 */

/* The state before a request was executed. */
struct av_capture_mark {
	bool on;
	uint32_t psn;
	uint32_t wait_reason; /* enum av_wait */
	uint64_t time_ns;     /* CLOCK_REALTIME */
};

/*
 * Note the state before a request of a context that a capture watches (AV_WATCHED_CAPTURE).
 * Context: @req's right @exec is held.
 */
void av_capture_mark(struct av_capture_mark *mark, const struct av_qp_ref *req);

/**
 * av_capture_request() - write down the outcome of a request
 * @mark: from av_capture_mark(), .on
 * @req: the requester; the request is not completed yet
 * @rsp: as of av_execute(); ignored for datagrams
 *
 * A request that waits is written when it begins to wait, and again when its timer has gone off.
 * Context: @req's right @exec is held, no other right or lock. Reads the program's memory; waits
 * for its pages and for the file.
 */
void av_capture_request(const struct av_capture_mark *mark, const struct av_qp_ref *req,
			const struct av_qp_ref *rsp, const struct av_sq_wqe *wqe,
			const struct av_outcome *result);

/* End looking at requests of a watched context if no capture covers it any more. */
void av_capture_look(struct av_seg *seg);

/*
 * A context has been opened: begin the capture that ANYVERBS_CAPTURE asks for. Thread-safe; keeps
 * errno.
 */
void av_capture_context_opened(struct av_seg *seg);

#endif
