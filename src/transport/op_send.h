/* SPDX-License-Identifier: MIT */
/*
 * SEND, and RDMA WRITE with immediate data: they consume one of the responder's receive requests,
 * and wait if there is none. transport/receive.h brings their bytes and completion there.
 */
#ifndef AV_TRANSPORT_OP_SEND_H
#define AV_TRANSPORT_OP_SEND_H

#include "transport/work.h"

/* SEND, with immediate data or a key to invalidate if the opcode says so. */
av_operation av_op_send;

/*
 * Checks the rkey before it takes a receive request, and moves the bytes afterwards: a fault leaves
 * the receive request queued.
 */
av_operation av_op_write_imm;

#endif
