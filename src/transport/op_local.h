/* SPDX-License-Identifier: MIT */
/*
 * Operations on the requester's own keys, without a responder.
 * Context: only the requester's right @exec is held.
 */
#ifndef AV_TRANSPORT_OP_LOCAL_H
#define AV_TRANSPORT_OP_LOCAL_H

#include "transport/work.h"

av_operation av_op_bind;
av_operation av_op_local_inv;
av_operation av_op_nop;

/* User-mode registration: the list is in the request, or elsewhere in the requester's segment. */
av_operation av_op_umr_fill;
av_operation av_op_umr_invalidate;

#endif
