/* SPDX-License-Identifier: MIT */
/* Operations on the requester's own keys, of which no responder hears: only the requester's
 * execution right is held. */
#ifndef AV_TRANSPORT_DIRECT_LOCAL_H
#define AV_TRANSPORT_DIRECT_LOCAL_H

#include "transport/direct_work.h"

av_operation av_direct_bind;
av_operation av_direct_local_inv;
av_operation av_direct_nop;

/* User-mode registration: the list is in the request, or elsewhere in the requester's segment. */
av_operation av_direct_umr_fill;
av_operation av_direct_umr_invalidate;

#endif
