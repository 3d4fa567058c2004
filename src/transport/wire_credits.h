/* SPDX-License-Identifier: MIT */
/*
 * End-to-end flow control of reliable connections: a responder tells how many receive requests it
 * has, and its requester sends no more messages than will find one. Without any, the requester
 * sends the first packet of one message, and waits for its answer: it brings a new number, or is an
 * RNR NAK. Source: IBTA volume 1, 9.7.7.2.
 */
#ifndef AV_TRANSPORT_WIRE_CREDITS_H
#define AV_TRANSPORT_WIRE_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/qp.h"
#include "transport/wire_qp.h"

/*
 * The responder's syndrome of an acknowledgement. Who shares its receive queue does not count.
 * Context: @resp is held
 */
uint8_t av_wire_credits(const struct av_qp_end *end);

/*
 * The requester's half. Context: @exec is held.
 *
 * av_wire_credit(): as many packets of the request at @next have credit, and are not sent yet.
 * @takes: it takes a receive request. @first: PSN of its first packet
 */
int32_t av_wire_credit(const struct av_wire *w, bool takes, uint32_t first);

/*
 * The peer has told its number, by that code, after it had executed at least all that has been
 * acknowledged.
 */
void av_wire_credited(struct av_wire *w, uint8_t code);

#endif
