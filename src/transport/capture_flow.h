/* SPDX-License-Identifier: MIT */
/* Where the frames of a capture come from and go to: addresses, ports and the rest that is before
 * the packet.
 */
#ifndef AV_TRANSPORT_CAPTURE_FLOW_H
#define AV_TRANSPORT_CAPTURE_FLOW_H

#include "queue/qp.h"
#include "wire/frame.h"

/* What the requester's frames of a connection begin with. @rsp: .qp NULL if there is none */
void av_capture_flow(struct av_frame *f, const struct av_qp_end *req, const struct av_qp_end *rsp);

/* And those of the answers. @rsp: there is one */
void av_capture_flow_back(struct av_frame *f, const struct av_qp_end *req,
			  const struct av_qp_end *rsp);

/* What the frame of a datagram begins with. */
void av_capture_flow_datagram(struct av_frame *f, const struct av_qp_end *req,
			      const struct av_sq_wqe *wqe);

#endif
