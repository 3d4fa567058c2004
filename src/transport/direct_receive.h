/* SPDX-License-Identifier: MIT */
/*
 * Requests that consume one of the responder's receive requests, and wait if there is none: SENDs,
 * and RDMA WRITE with immediate data. How the bytes and the completion get there is in
 * transport/deliver.h.
 */
#ifndef AV_TRANSPORT_DIRECT_RECEIVE_H
#define AV_TRANSPORT_DIRECT_RECEIVE_H

#include "transport/direct_work.h"

/* SEND, with immediate data or a key to invalidate if the opcode says so. */
av_operation av_direct_send;

/* The rkey is checked before a receive request is taken, and the bytes move after: a fault must
 * find the request. */
av_operation av_direct_write_imm;

#endif
