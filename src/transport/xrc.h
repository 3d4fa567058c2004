/* SPDX-License-Identifier: MIT */
/* XRC: a request names the shared receive queue of the receiving side. IBTA volume 1, annex A14. */
#ifndef AV_TRANSPORT_XRC_H
#define AV_TRANSPORT_XRC_H

#include "memory/pin.h"
#include "transport/deliver.h"

/*
 * A shared receive queue in use. The pin, which names the SRQ's number instead of a key, keeps
 * av_xrc_retire() waiting.
 */
struct av_xrc_use {
	struct av_seg *seg; /* NULL: none in use */
	struct av_pin *pin;
};

enum av_xrc_found {
	AV_XRC_FOUND,
	AV_XRC_NONE, /* no such number, of another domain, or of a process that is gone */
	AV_XRC_BUSY, /* no pin is free: try again */
};

/**
 * av_xrc_begin() - where a request with this SRQ number is received
 * @rsp: the XRC_RECV queue pair; the SRQ must be of the same XRC domain
 * @use: out; to be given to av_xrc_end() whatever is returned
 * @to:  out, if found
 * Context: the responder's execution right is held; does not wait.
 */
enum av_xrc_found av_xrc_begin(const struct av_qp_end *rsp, uint32_t srqn, struct av_xrc_use *use,
			       struct av_receiver *to);
void av_xrc_end(struct av_xrc_use *use);

/**
 * av_xrc_retire() - take an own queue's number away; nobody uses the queue any more on return
 * Context: may wait as long as a copy takes; no lock held.
 */
void av_xrc_retire(struct av_seg *seg, struct av_rq_shared *rq);

#endif
