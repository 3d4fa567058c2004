/* SPDX-License-Identifier: MIT */
/* What becomes of both sides when a request has been executed, or refused, or lost. */
#ifndef AV_TRANSPORT_DIRECT_SETTLE_H
#define AV_TRANSPORT_DIRECT_SETTLE_H

#include "transport/direct_work.h"

/**
 * av_direct_settle() - give an operation's outcome its effects
 *
 * On success the PSNs of both sides advance; a fault is looked up in the table of outcomes
 * (transport/rules.h) for what it does to the responder, and to the receive request in use; on an
 * unreliable connection it is lost instead, and @w->result says success. Context: both execution
 * rights are held, no lock; does not wait.
 */
void av_direct_settle(struct av_work *w);

/* The responder is not there, or does not answer: what is sent over an unreliable connection is
 * lost, the others wait. Context: the requester's execution right is held. */
void av_direct_unheard(struct av_work *w);

#endif
