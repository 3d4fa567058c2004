/* SPDX-License-Identifier: MIT */
/* The unreliable datagram service: each request names its destination, one queue pair or a
 * multicast group.
 */
#ifndef AV_TRANSPORT_DATAGRAM_H
#define AV_TRANSPORT_DATAGRAM_H

#include "transport/execute.h"

/**
 * av_datagram_execute() - execute one request of a UD queue pair
 *
 * As av_execute(), but that the destination comes with the request, and that nothing is ever
 * waited for: what cannot be received is lost.
 */
struct av_outcome av_datagram_execute(const struct av_qp_end *req, const struct av_sq_wqe *wqe);

#endif
