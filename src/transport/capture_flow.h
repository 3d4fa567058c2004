/* SPDX-License-Identifier: MIT */
/*
 * The headers in front of a captured packet: the addresses and ports that it comes from and goes
 * to.
 */
#ifndef AV_TRANSPORT_CAPTURE_FLOW_H
#define AV_TRANSPORT_CAPTURE_FLOW_H

#include "queue/qp.h"
#include "wire/frame.h"

/* Headers of the requester's frames on a connection. @rsp: .qp is NULL if there is no responder */
void av_capture_flow(struct av_frame *f, const struct av_qp_end *req, const struct av_qp_end *rsp);

/* Headers of the responder's frames. @rsp: exists */
void av_capture_flow_back(struct av_frame *f, const struct av_qp_end *req,
			  const struct av_qp_end *rsp);

/* Headers of a datagram's frame. */
void av_capture_flow_datagram(struct av_frame *f, const struct av_qp_end *req,
			      const struct av_sq_wqe *wqe);

#endif
