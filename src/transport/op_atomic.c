/* SPDX-License-Identifier: MIT */
/* Atomic operations, requested as such or by the payload of an RDMA WRITE. */
#include "transport/op_atomic.h"

#include <sched.h>
#include <string.h>

#include "base/compiler.h"
#include "base/patience.h"
#include "memory/key.h"
#include "memory/xfer.h"
#include "observe/diagnosis.h"

enum av_fault av_op_operand(struct av_work *w, const struct av_mem_request *req,
			    const struct av_atomic *atomic, struct av_operand *old)
{
	struct av_spans remote;
	enum av_fault fault;

	if (req->addr & (req->length - 1))
		return AV_FAULT_REM_MISALIGNED;
	fault = av_work_remote(w, req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	/* Aligned in key space only: the region's first byte is not aligned. */
	if (remote.at[0].addr & (req->length - 1))
		fault = AV_FAULT_REM_MISALIGNED;
	else if (old)
		fault = av_work_moved(w, av_xfer_atomic(&remote.at[0], atomic, old, w->now_ns),
				      AV_FAULT_REM_ACCESS, AV_FAULT_REM_ACCESS);
	av_pin_end(remote.at[0].pin);
	return fault;
}

/* Copy the original value to the request's buffers. The remote memory is already changed. */
static enum av_fault return_original(struct av_work *w, struct av_operand *old)
{
	struct av_spans from;
	enum av_fault fault;

	av_spans_local(&from, NULL, old, w->wqe->bytes);
	while ((fault = av_work_answer(w, &from)) == AV_FAULT_BUSY)
		sched_yield(); /* no pin is held; the memory is changed: do not start over */
	return fault;
}

static enum av_fault atomic_request(struct av_work *w, const struct av_atomic *atomic)
{
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_ATOMIC);
	enum av_fault fault = av_work_permitted(w, IBV_ACCESS_REMOTE_ATOMIC);
	struct av_operand old;

	if (fault != AV_FAULT_NONE)
		return fault;
	fault = av_op_operand(w, &req, atomic, &old);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	return return_original(w, &old);
}

enum av_fault av_op_fetch_add(struct av_work *w)
{
	const struct av_atomic atomic = {
		.op = AV_ATOMIC_ADD,
		.bytes = sizeof(uint64_t),
		.value = {{w->wqe->compare_add}},
	};

	return atomic_request(w, &atomic);
}

enum av_fault av_op_cmp_swap(struct av_work *w)
{
	const struct av_atomic atomic = {
		.op = AV_ATOMIC_CMP_SWAP,
		.bytes = sizeof(uint64_t),
		.value = {{w->wqe->swap}},
		.compare = {{w->wqe->compare_add}},
		.mask = {{UINT64_MAX}},
		.compare_mask = {{UINT64_MAX}},
	};

	return atomic_request(w, &atomic);
}

enum av_fault av_op_with_operands(struct av_work *w)
{
	const struct av_atomic *atomic = av_sq_operands(w->req, w->wqe);

	if (!atomic || atomic->op >= AV_ATOMIC_OP_N || !av_atomic_size_valid(atomic->bytes))
		return AV_FAULT_LOC_QP_OP;
	if (w->wqe->bytes == atomic->bytes)
		return atomic_request(w, atomic);
	av_diag_note(AV_CHECK_REQUEST_ATOMIC, w->wqe->bytes, atomic->bytes);
	return AV_FAULT_LOC_LEN;
}

enum av_fault av_op_atomic_write(struct av_work *w)
{
	enum av_fault fault = av_work_permitted(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_mem_request req = av_work_request(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_atomic atomic = {.op = AV_ATOMIC_SWAP, .bytes = sizeof(uint64_t)};
	struct av_operand none;
	struct av_spans to;

	if (fault == AV_FAULT_NONE)
		fault = av_work_local(w, 0);
	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_local(&to, NULL, &atomic.value, sizeof(uint64_t));
	fault = av_work_moved(w, av_xfer_copy(&to, &w->local, w->now_ns), AV_FAULT_LOC_PROT,
			      AV_FAULT_LOC_PROT);
	av_mem_put_list(&w->local);
	if (fault != AV_FAULT_NONE || w->result.park != AV_PARK_NOT)
		return fault;
	return av_op_operand(w, &req, &atomic, &none);
}

/* --- tunneled: commands in a payload --------------------------------------------- */

_Static_assert(sizeof(struct anyverbs_tunneled_atomic) == 48, "a command");

enum { USES_COMPARE = 1, USES_MASK = 2, USES_COMPARE_MASK = 4 }; /* all use the value */

/* One row per operation of the encoding. */
static const struct {
	enum av_atomic_op op;
	unsigned int uses;
} row[] = {
	[ANYVERBS_TUNNELED_ADD] = {AV_ATOMIC_ADD, USES_MASK},
	[ANYVERBS_TUNNELED_XOR] = {AV_ATOMIC_XOR, 0},
	[ANYVERBS_TUNNELED_OR] = {AV_ATOMIC_OR, 0},
	[ANYVERBS_TUNNELED_AND] = {AV_ATOMIC_AND, 0},
	[ANYVERBS_TUNNELED_MAX_UNSIGNED] = {AV_ATOMIC_MAX_UNSIGNED, 0},
	[ANYVERBS_TUNNELED_MAX_SIGNED] = {AV_ATOMIC_MAX_SIGNED, 0},
	[ANYVERBS_TUNNELED_MIN_UNSIGNED] = {AV_ATOMIC_MIN_UNSIGNED, 0},
	[ANYVERBS_TUNNELED_MIN_SIGNED] = {AV_ATOMIC_MIN_SIGNED, 0},
	[ANYVERBS_TUNNELED_SWAP] = {AV_ATOMIC_SWAP, 0},
	[ANYVERBS_TUNNELED_CMP_SWAP] = {AV_ATOMIC_CMP_SWAP,
					USES_COMPARE | USES_MASK | USES_COMPARE_MASK},
	[ANYVERBS_TUNNELED_CMP_SWAP_NE] = {AV_ATOMIC_CMP_SWAP_NE, USES_COMPARE},
};
_Static_assert(AV_ARRAY_SIZE(row) == ANYVERBS_TUNNELED_OPERATIONS, "a row for each operation");

unsigned int av_tunnel_count(uint64_t bytes)
{
	uint64_t n = bytes / sizeof(struct anyverbs_tunneled_atomic);

	if (bytes % sizeof(struct anyverbs_tunneled_atomic) || n > ANYVERBS_TUNNELED_MAX)
		return 0;
	return (unsigned int)n;
}

static bool header_valid(const struct anyverbs_tunneled_atomic *c)
{
	return c->magic == ANYVERBS_TUNNELED_MAGIC && c->version == ANYVERBS_TUNNELED_VERSION &&
	       c->operation < ANYVERBS_TUNNELED_OPERATIONS && (c->bytes == 4 || c->bytes == 8) &&
	       c->order <= ANYVERBS_TUNNELED_BIG_ENDIAN;
}

/* Are the operands no longer than @bytes, and is none given that the operation does not have? */
static bool operands_valid(const struct anyverbs_tunneled_atomic *c)
{
	uint64_t beyond = c->bytes == 4 ? ~(uint64_t)UINT32_MAX : 0;
	unsigned int uses = row[c->operation].uses;

	return !(c->value & beyond) &&
	       !(c->compare & (uses & USES_COMPARE ? beyond : UINT64_MAX)) &&
	       !(c->mask & (uses & USES_MASK ? beyond : UINT64_MAX)) &&
	       !(c->compare_mask & (uses & USES_COMPARE_MASK ? beyond : UINT64_MAX));
}

bool av_tunnel_decode(const struct anyverbs_tunneled_atomic *c, struct av_atomic *atomic)
{
	if (!header_valid(c) || !operands_valid(c))
		return false;
	*atomic = (struct av_atomic){
		.op = row[c->operation].op,
		.bytes = c->bytes,
		.swapped = c->order == ANYVERBS_TUNNELED_BIG_ENDIAN,
		.value = {{c->value}},
		.compare = {{c->compare}},
		.mask = {{c->mask}},
		.compare_mask = {{c->compare_mask}},
	};
	return true;
}

/* Execute a tunneled atomic. @apply: false: only check it */
static enum av_fault tunneled(struct av_work *w, const struct anyverbs_tunneled_atomic *command,
			      bool apply)
{
	struct av_mem_request req =
		av_work_request(w, IBV_ACCESS_REMOTE_WRITE | AV_ACCESS_TUNNELED);
	struct av_atomic atomic;
	struct av_operand old;

	if (!av_tunnel_decode(command, &atomic))
		return AV_FAULT_REM_NO_COMMAND;
	req.addr += command->offset;
	req.length = atomic.bytes;
	return av_op_operand(w, &req, &atomic, apply ? &old : NULL);
}

/* While the region is being re-registered, repeats this command only: earlier ones are done. */
static enum av_fault do_tunneled(struct av_work *w, const struct anyverbs_tunneled_atomic *command)
{
	uint64_t until = 0;
	enum av_fault fault;

	while ((fault = tunneled(w, command, true)) == AV_FAULT_BUSY &&
	       (w->to.seg->own || av_patient(&until)))
		sched_yield(); /* no pin is held */
	return fault == AV_FAULT_BUSY ? AV_FAULT_REM_ACCESS : fault;
}

enum av_fault av_op_tunneled(struct av_work *w, bool apply)
{
	struct anyverbs_tunneled_atomic command[ANYVERBS_TUNNELED_MAX];
	unsigned int count = av_tunnel_count(w->wqe->bytes);
	struct av_spans to;
	enum av_fault fault;

	if (count == 0)
		return AV_FAULT_REM_NO_COMMAND;
	av_spans_local(&to, NULL, command, w->wqe->bytes);
	fault = av_work_moved(w, av_xfer_copy(&to, &w->local, w->now_ns), AV_FAULT_LOC_PROT,
			      AV_FAULT_LOC_PROT);
	if (w->result.park != AV_PARK_NOT)
		return fault;
	for (unsigned int i = 0; i < count && fault == AV_FAULT_NONE; i++)
		fault = tunneled(w, &command[i], false);
	if (fault != AV_FAULT_NONE || !apply)
		return fault;
	av_mem_put_list(&w->local);
	for (unsigned int i = 0;
	     i < count && fault == AV_FAULT_NONE && w->result.park == AV_PARK_NOT; i++)
		fault = do_tunneled(w, &command[i]);
	return fault;
}
