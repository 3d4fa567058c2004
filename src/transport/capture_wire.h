/* SPDX-License-Identifier: MIT */
/* Captures of packets on the wire: as they were sent, and as they came. */
#ifndef AV_TRANSPORT_CAPTURE_WIRE_H
#define AV_TRANSPORT_CAPTURE_WIRE_H

#include "net/net.h"

/*
 * Write them to the captures that cover this process and the device; packets for none of its queue
 * pairs to all that cover the process. Context: as struct av_net_receiver's @seen; waits for files;
 * keeps errno
 */
void av_capture_seen(const struct av_net_seen *seen);

#endif
