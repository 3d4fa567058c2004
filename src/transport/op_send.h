/* SPDX-License-Identifier: MIT */
/*
 * Requests that consume one of the responder's receive requests, and wait if there is none: SENDs,
 * and RDMA WRITE with immediate data. How the bytes and the completion get there is in
 * transport/receive.h.
 */
#ifndef AV_TRANSPORT_OP_SEND_H
#define AV_TRANSPORT_OP_SEND_H

#include "transport/work.h"

/* SEND, with immediate data or a key to invalidate if the opcode says so. */
av_operation av_op_send;

/* The rkey is checked before a receive request is taken, and the bytes move after: a fault must
 * find the request. */
av_operation av_op_write_imm;

#endif
