/* SPDX-License-Identifier: MIT */
/*
 * The express lane: requests of the kind that nearly all are, in few instructions.
 *
 * That is: a SEND, RDMA WRITE, READ or 8-byte atomic of a reliable connection, from one element or
 * inline, whose buffers this process reaches itself, posted here, and with nothing in its way.
 * Whatever differs, and whatever turns out not to be in order, is left to transport/direct.h
 * without having happened: that one finds out what it is called. So there are no rules here, only
 * the knowledge that none is broken.
 */
#ifndef AV_TRANSPORT_EXPRESS_H
#define AV_TRANSPORT_EXPRESS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "queue/qp.h"
#include "transport/rules.h"

/**
 * av_express() - execute one request, if it is of that kind
 * @req: the requester, its @exec execution right held, in a state that executes, of a context that
 * nobody watches (enum av_watched); @rsp: the responder, .qp NULL if there is none
 * @wqe: the request, in the requester's ring
 * @fault: out, if executed: AV_FAULT_NONE, or AV_FAULT_LOC_PROT: the answer to an atomic could not
 * be stored
 *
 * Takes the responder's execution right meanwhile if it is free. May wait for pages of the
 * program's memory, holding no other lock. Return: executed, as by av_direct_execute(); the
 * requester's completion is the caller's. false: nothing has happened
 */
AV_MUST_USE bool av_express(const struct av_qp_end *req, const struct av_qp_end *rsp,
			    const struct av_sq_wqe *wqe, enum av_fault *fault);

#endif
