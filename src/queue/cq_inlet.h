/* SPDX-License-Identifier: MIT */
/*
 * The lock of a CQ, and what happens when its holder is stopped (SIGSTOP, a debugger): others
 * append to the CQ, too, and are not to wait for that one.
 *
 * A stopped process cannot be kept from storing when it goes on. So the owner leaves the inlet
 * behind, with its ring, and goes on with the other inlet and another ring, to which it has copied
 * the entries. What the stopped appender still stores goes where nobody looks. When it goes on, it
 * sees that its inlet is not the used one, and appends once more. The owner then frees what was
 * left behind; it leaves only one inlet behind at a time.
 *
 * The appender stores, then looks which inlet is used. The owner changes that, then looks what was
 * stored. A full barrier in between, at both, makes one of them see the other.
 */
#ifndef AV_QUEUE_CQ_INLET_H
#define AV_QUEUE_CQ_INLET_H

#include "queue/cq_shared.h"

/*
 * Take the lock of the used inlet. An entry that a dead holder had published is counted. While it
 * waits for a peer's, it has the owner look, with an event, if the owner may sleep for one.
 * @polls: the caller holds poll_lock
 * Return: the inlet's number; -1: that of a peer's CQ was not had in time (AV_PATIENCE_NS)
 */
AV_MUST_USE int av_cq_lock(struct av_seg *seg, uint32_t index, bool polls);

/*
 * Of an appender, which has stored the entry @number where it was left behind, and the owner, which
 * has polled it before or copies it, one gets it. Return: the caller
 */
static inline bool av_cqe_claim(struct av_cqe *e, uint32_t number)
{
	uint32_t there = AV_CQE_THERE(number);

	return atomic_compare_exchange_strong(&e->there, &there, 0);
}

/*
 * A look now and then at an own CQ that has nothing to poll: does somebody hold its lock without
 * end, or can what was left behind be freed? Context: no lock of it is held
 */
void av_cq_inlet_look(struct av_seg *seg, struct av_cq_shared *cq);

/* Free what was left behind. Context: the owner; poll_lock. Return: false: it is in use still */
bool av_cq_inlet_settle(struct av_seg *seg, struct av_cq_shared *cq);

#endif
