/* SPDX-License-Identifier: MIT */
/* XRC: a request names the shared receive queue of the receiving side. IBTA volume 1, annex A14. */
#ifndef AV_TRANSPORT_XRC_H
#define AV_TRANSPORT_XRC_H

#include "transport/deliver.h"

/**
 * av_xrc_receiver() - where a request with this SRQ number is received
 * @rsp: the XRC_RECV queue pair; the SRQ must be of the same XRC domain
 * @to:  out, on success
 * Return: the SRQ's segment, to be given back with av_seg_put(); NULL: there is no such SRQ
 */
struct av_seg *av_xrc_receiver(const struct av_qp_end *rsp, uint32_t srqn, struct av_receiver *to);

#endif
