/* SPDX-License-Identifier: MIT */
/*
 * Connections of one host that move to the wire: the kernel keeps their processes apart (Yama,
 * seccomp, another PID namespace), and a request needs memory that only its owner can reach.
 *
 * Who is refused asks the peer to move; the peer moves first, and then asks back. So packets always
 * find somebody who expects them. Both sides have counted PSNs alike, as on the wire. From then on
 * each process executes, in its own memory, what the packets say.
 *
 * @to_wire of both queue pairs says how far they are. Each process changes its own queue pair only,
 * in its timer thread; a peer that asks sets @to_wire, and calls (av_seg_call()).
 */
#ifndef AV_TRANSPORT_WIRE_MOVE_H
#define AV_TRANSPORT_WIRE_MOVE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "queue/qp.h"

/*
 * Take the next step of an own queue pair, if there is one to take. Context: holds nothing, may
 * start a thread. Return: false: a right of the queue pair is not had, so it is still to be taken
 */
AV_MUST_USE bool av_wire_move(const struct av_qp_ref *end);

/* For av_seg_call_by(): peers ask queue pairs of an own segment to move. Must not block. */
void av_wire_move_called(struct av_seg *seg);

#endif
