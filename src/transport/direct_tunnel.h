/* SPDX-License-Identifier: MIT */
/* An RDMA WRITE whose payload is not written, but carried out: tunneled atomics. */
#ifndef AV_TRANSPORT_DIRECT_TUNNEL_H
#define AV_TRANSPORT_DIRECT_TUNNEL_H

#include <stdbool.h>

#include "transport/direct_work.h"

/**
 * av_direct_tunneled() - carry out the commands in the payload, or only look whether that could be
 * done
 *
 * The payload is read once, and nothing is done before all of it has been looked at. The
 * requester's buffers have been translated, and are given back as soon as something is done: then
 * they are empty. Context and return as an operation's; AV_FAULT_REM_NO_COMMAND: the payload is no
 * list of commands
 */
AV_MUST_USE enum av_fault av_direct_tunneled(struct av_work *w, bool apply);

#endif
