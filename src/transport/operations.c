/* SPDX-License-Identifier: MIT */
#include "transport/execution.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/limits.h"
#include "base/newer_verbs.h"
#include "memory/key.h"
#include "memory/region.h"
#include "memory/translate.h"
#include "observe/check.h"
#include "registry/directory.h"
#include "transport/rules.h"

/*
 * Does the responder's queue pair permit the request, which needs these rights of it? Requests that
 * are answered take a resource of it, too.
 * Return:  AV_FAULT_NONE, AV_FAULT_REM_NO_RD_ATOMIC, AV_FAULT_REM_OP_DENIED
 */
static enum av_fault work_permitted(const struct av_work *w, uint32_t rights)
{
	const struct ibv_qp_attr *attr = &w->rsp->qp->attr;

	if (w->opcode->answered && attr->max_dest_rd_atomic == 0)
		return AV_FAULT_REM_NO_RD_ATOMIC;
	return (attr->qp_access_flags & rights) == rights ? AV_FAULT_NONE : AV_FAULT_REM_OP_DENIED;
}

/* The memory of a request under execution. */

static enum av_fault buffers_of(const struct av_qp_ref *req, const struct av_sq_wqe *wqe,
				uint32_t access, struct av_spans *to)
{
	enum av_check found;

	if (wqe->flags & IBV_SEND_INLINE) {
		av_spans_local(to, req->seg, (void *)(uintptr_t)wqe->data, wqe->bytes);
		if (av_likely(wqe->bytes <= AV_MAX_INLINE))
			return AV_FAULT_NONE;
		av_diag_note(AV_CHECK_REQUEST_LENGTH, wqe->bytes, AV_MAX_INLINE);
		return AV_FAULT_LOC_LEN;
	}
	found = av_mem_get_list(req->seg, req->qp->pd, access, wqe->sge, wqe->count, wqe->bytes,
				to);
	return av_likely(found == AV_CHECK_NONE)
		       ? AV_FAULT_NONE
		       : av_mr_explain_element(req->seg, req->qp->pd, access,
					       &wqe->sge[to->refused], to->bytes, found,
					       AV_FAULT_LOC_PROT);
}

enum av_fault av_work_local(struct av_work *w, uint32_t access)
{
	if (av_likely(!w->fragment))
		return buffers_of(w->req, w->wqe, access, &w->local);
	av_spans_local(&w->local, w->rsp->seg, w->fragment->bytes, w->wqe->bytes);
	return AV_FAULT_NONE;
}

enum av_fault av_request_buffers(const struct av_qp_ref *req, const struct av_sq_wqe *wqe,
				 uint32_t access, struct av_spans *to)
{
	enum av_fault fault;
	uint64_t until = 0;

	while ((fault = buffers_of(req, wqe, access, to)) == AV_FAULT_BUSY && !av_timed_out(&until))
		sched_yield();
	return fault == AV_FAULT_BUSY ? AV_FAULT_LOC_PROT : fault;
}

enum av_fault av_work_read_first(const struct av_work *w, const struct av_spans *from)
{
	uint64_t mtu = av_mtu_bytes(w->req->qp->attr.path_mtu);

	return av_xfer_read(from, from->bytes < mtu ? from->bytes : mtu, w->now_ns);
}

/*
 * The responder's memory that the request names by rkey, address and length. @access: enum
 * ibv_access_flags
 */
static struct av_mem_request work_request(const struct av_work *w, uint32_t access)
{
	return (struct av_mem_request){
		.key = w->wqe->rkey,
		.pd = w->pd,
		.access = access,
		.qpn = w->qpn,
		.remote = true,
		.addr = w->wqe->remote_addr,
		.length = w->wqe->bytes,
	};
}

/**
 * work_remote() - translate such a range
 * @remote: out, one span; on AV_FAULT_NONE give its pin to av_pin_end(), else nothing is held
 *
 * Context: as av_mem_get().
 * Return:  AV_FAULT_NONE, AV_FAULT_BUSY, AV_FAULT_REM_ACCESS, or AV_FAULT_TUNNELED: the payload is
 * commands, not data
 */
static enum av_fault work_remote(const struct av_work *w, const struct av_mem_request *req,
				 struct av_spans *remote)
{
	enum av_check found = av_mem_get(w->to.seg, req, &remote->at[0]);

	remote->count = 1;
	remote->bytes = req->length;
	return av_likely(found == AV_CHECK_NONE)
		       ? AV_FAULT_NONE
		       : av_mr_explain(w->to.seg, req, found, AV_FAULT_REM_ACCESS);
}

static enum av_fault check_announced(const struct av_work *w, const struct av_mem_request *fragment)
{
	struct av_mem_request all = *fragment;
	struct av_spans remote;
	enum av_fault fault;

	if (w->fragment->whole <= fragment->length)
		return AV_FAULT_NONE;
	all.length = w->fragment->whole;
	fault = work_remote(w, &all, &remote);
	if (fault == AV_FAULT_NONE)
		av_pin_end(remote.at[0].pin);
	return fault;
}

/*
 * The same for a fragment of a message. Of the first one, the responder must permit all that it
 * announces: a message in several packets is refused before its first byte is moved.
 * @req: the fragment's range. Context: the request came in packets.
 */
static enum av_fault work_fragment(const struct av_work *w, const struct av_mem_request *req,
				   struct av_spans *remote)
{
	enum av_fault fault = check_announced(w, req);

	if (fault == AV_FAULT_NONE)
		fault = work_remote(w, req, remote);
	if (fault == AV_FAULT_NONE)
		av_spans_are_part(remote, w->fragment->message);
	return fault;
}

enum av_fault av_work_gone(struct av_work *w)
{
	w->result.gone = true;
	av_work_wait(w, AV_WAIT_NO_ANSWER);
	return AV_FAULT_NONE;
}

/**
 * work_moved() - the fault that a request has when a copy for it @copied so
 * @src, @dst: the faults for missing memory on that side
 *
 * If memory is gone because its process is gone, the request has no answer at all.
 * Return:  the fault, as an operation's
 */
static enum av_fault work_moved(struct av_work *w, enum av_fault copied, enum av_fault src,
				enum av_fault dst)
{
	enum av_fault fault = av_fault_at(copied, src, dst);

	if (copied == AV_FAULT_GONE || (fault != copied && !av_seg_alive_now(w->rsp->seg)))
		return av_work_gone(w);
	return fault;
}

/* --- what a request brings back ---------------------------------------------------- */

/**
 * work_answer() - copy an answer to the request's buffers
 * @from: the answer, in the responder's memory or in the executor's own
 *
 * Context and return as an operation's; the fault of @from is AV_FAULT_REM_ACCESS, and comes first:
 * a responder that cannot read its memory gives no answer to be placed.
 */
static enum av_fault work_answer(struct av_work *w, const struct av_spans *from)
{
	enum av_fault fault = av_work_local(w, IBV_ACCESS_LOCAL_WRITE);

	if (fault == AV_FAULT_NONE) {
		fault = work_moved(w, av_xfer_copy(&w->local, from, w->now_ns), AV_FAULT_REM_ACCESS,
				   AV_FAULT_LOC_PROT);
		av_mem_put_list(&w->local);
	}
	if (av_unlikely(fault == AV_FAULT_LOC_PROT) &&
	    av_work_read_first(w, from) == AV_FAULT_SRC) {
		av_diag_drop();
		fault = work_moved(w, AV_FAULT_SRC, AV_FAULT_REM_ACCESS, AV_FAULT_NONE);
	}
	w->in_vain = fault == AV_FAULT_LOC_PROT;
	return fault;
}

/* A requester's own keys. */

enum av_fault av_op_bind(struct av_work *w)
{
	struct av_window_bind bind = {
		.window = w->wqe->window,
		.rkey = w->wqe->rkey,
		.region = w->wqe->region,
		.access = w->wqe->access,
		.pd = w->req->qp->pd,
		.qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
		.addr = w->wqe->remote_addr,
		.length = w->wqe->compare_add,
	};
	enum av_check found = av_window_bind(w->req->seg, &bind);

	if (found == AV_CHECK_NONE)
		return AV_FAULT_NONE;
	av_window_explain(w->req->seg, &bind, found);
	return AV_FAULT_MW_BIND;
}

enum av_fault av_op_local_inv(struct av_work *w)
{
	struct av_window_bind what = {
		.rkey = w->wqe->imm,
		.pd = w->req->qp->pd,
		.qpn = atomic_load_explicit(&w->req->qp->qpn, memory_order_relaxed),
	};
	enum av_check found = av_window_invalidate(w->req->seg, what.rkey, what.qpn);

	if (found == AV_CHECK_NONE)
		return AV_FAULT_NONE;
	av_invalidate_explain(w->req->seg, &what, found);
	return found == AV_CHECK_INVALIDATE_UNBOUND ? AV_FAULT_MW_BIND : AV_FAULT_LOC_QP_OP;
}

enum av_fault av_op_nop(struct av_work *w)
{
	return AV_FAULT_NONE;
}

enum av_fault av_op_umr_fill(struct av_work *w)
{
	struct av_klm_fill fill = {
		.key = w->wqe->rkey,
		.pd = w->req->qp->pd,
		.access = w->wqe->rights,
		.base = w->wqe->umr.base,
		.rounds = w->wqe->umr.rounds,
		.entries = av_sq_list(w->req, w->wqe),
		.count = w->wqe->count,
	};

	return fill.entries && av_klm_fill(w->req->seg, &fill) == 0 ? AV_FAULT_NONE
								    : AV_FAULT_MW_BIND;
}

enum av_fault av_op_umr_invalidate(struct av_work *w)
{
	struct av_klm_fill nothing = {.key = w->wqe->rkey, .pd = w->req->qp->pd};

	return av_klm_fill(w->req->seg, &nothing) ? AV_FAULT_MW_BIND : AV_FAULT_NONE;
}

/* RDMA WRITE, RDMA READ and FLUSH. */

/* --- WRITE ----------------------------------------------------------------------- */

static enum av_fault op_tunneled(struct av_work *w, bool apply);

/*
 * Copy to the memory that the rkey names; without @copy, only check whether that could be done. A
 * part of larger operations. The length is not 0, and the requester's buffers have been translated.
 * The caller checks the queue pair's access flags. Context and return as an operation's.
 */
static enum av_fault op_write_bytes(struct av_work *w, bool copy)
{
	struct av_mem_request req = work_request(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_spans remote;
	enum av_fault fault;

	req.payload = true;
	fault = av_unlikely(w->fragment != NULL) ? work_fragment(w, &req, &remote)
						 : work_remote(w, &req, &remote);
	if (av_unlikely(fault == AV_FAULT_TUNNELED)) /* the payload is commands */
		return op_tunneled(w, copy);
	if (fault != AV_FAULT_NONE)
		return fault;
	if (copy)
		fault = av_xfer_copy(&remote, &w->local, w->now_ns);
	if (av_unlikely(fault != AV_FAULT_NONE))
		fault = work_moved(w, fault, AV_FAULT_LOC_PROT, AV_FAULT_REM_ACCESS);
	av_pin_end(remote.at[0].pin);
	return fault;
}

enum av_fault av_op_write(struct av_work *w)
{
	enum av_fault fault = av_work_local(w, 0);

	if (fault != AV_FAULT_NONE)
		return fault;
	fault = work_permitted(w, IBV_ACCESS_REMOTE_WRITE);
	if (fault == AV_FAULT_NONE && w->wqe->bytes > 0)
		fault = op_write_bytes(w, true);
	av_mem_put_list(&w->local);
	return fault;
}

/* --- READ ------------------------------------------------------------------------ */

enum av_fault av_op_read(struct av_work *w)
{
	struct av_mem_request req = work_request(w, IBV_ACCESS_REMOTE_READ);
	enum av_fault fault = work_permitted(w, IBV_ACCESS_REMOTE_READ);
	struct av_spans remote;

	if (fault != AV_FAULT_NONE || w->wqe->bytes == 0)
		return fault;
	fault = av_unlikely(w->fragment != NULL) ? work_fragment(w, &req, &remote)
						 : work_remote(w, &req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = work_answer(w, &remote);
	av_pin_end(remote.at[0].pin);
	return fault;
}

/* --- FLUSH ----------------------------------------------------------------------- */

/* The access rights that a FLUSH needs, of the queue pair and of the key. */
static uint32_t flush_rights(uint32_t placement)
{
	return (placement & AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_GLOBAL : 0) |
	       (placement & ~(uint32_t)AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_PERSISTENT : 0);
}

enum av_fault av_op_flush(struct av_work *w)
{
	uint32_t rights = flush_rights(w->wqe->placement);
	struct av_mem_request req = work_request(w, rights);
	enum av_fault fault = work_permitted(w, rights);
	struct av_spans remote;

	req.length = w->wqe->compare_add;
	req.whole = w->wqe->selectivity == AV_FLUSH_MR || req.length == 0;
	if (fault != AV_FAULT_NONE)
		return fault;
	fault = work_remote(w, &req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	atomic_thread_fence(memory_order_seq_cst);
	av_pin_end(remote.at[0].pin);
	return AV_FAULT_NONE;
}

/* Atomic operations, requested as such or by the payload of an RDMA WRITE. */

/**
 * op_operand() - execute one atomic operation on the operand that a key names
 * @req: the operand; its length is the operation's size
 * @old: out, the original value; NULL: only check whether the operation is permitted
 *
 * Context and return as an operation's. The operand is unchanged unless the result is AV_FAULT_NONE
 * and nothing has to wait.
 */
static enum av_fault op_operand(struct av_work *w, const struct av_mem_request *req,
				const struct av_atomic *atomic, struct av_operand *old)
{
	struct av_spans remote;
	enum av_fault fault;

	if (req->addr & (req->length - 1))
		return AV_FAULT_REM_MISALIGNED;
	fault = work_remote(w, req, &remote);
	if (fault != AV_FAULT_NONE)
		return fault;
	/* Aligned in key space only: the region's first byte is not aligned. */
	if (remote.at[0].addr & (req->length - 1))
		fault = AV_FAULT_REM_MISALIGNED;
	else if (old)
		fault = work_moved(w, av_xfer_atomic(&remote.at[0], atomic, old, w->now_ns),
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
	while ((fault = work_answer(w, &from)) == AV_FAULT_BUSY)
		sched_yield(); /* no pin is held; the memory is changed: do not start over */
	return fault;
}

static enum av_fault atomic_request(struct av_work *w, const struct av_atomic *atomic)
{
	struct av_mem_request req = work_request(w, IBV_ACCESS_REMOTE_ATOMIC);
	enum av_fault fault = work_permitted(w, IBV_ACCESS_REMOTE_ATOMIC);
	struct av_operand old;

	if (fault != AV_FAULT_NONE)
		return fault;
	fault = op_operand(w, &req, atomic, &old);
	if (fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE)
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
	const struct av_atomic *operands = av_sq_operands(w->req, w->wqe);
	struct av_atomic atomic;

	if (!operands)
		return AV_FAULT_LOC_QP_OP;
	atomic = *operands; /* read once: peers can write to the ring */
	AV_COPIED();
	if (atomic.op >= AV_ATOMIC_OP_N || !av_atomic_size_valid(atomic.bytes))
		return AV_FAULT_LOC_QP_OP;
	if (w->wqe->bytes == atomic.bytes)
		return atomic_request(w, &atomic);
	av_diag_note(AV_CHECK_REQUEST_ATOMIC, w->wqe->bytes, atomic.bytes);
	return AV_FAULT_LOC_LEN;
}

enum av_fault av_op_atomic_write(struct av_work *w)
{
	enum av_fault fault = work_permitted(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_mem_request req = work_request(w, IBV_ACCESS_REMOTE_WRITE);
	struct av_atomic atomic = {.op = AV_ATOMIC_SWAP, .bytes = sizeof(uint64_t)};
	struct av_operand none;
	struct av_spans to;

	if (fault == AV_FAULT_NONE)
		fault = av_work_local(w, 0);
	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_local(&to, NULL, &atomic.value, sizeof(uint64_t));
	fault = work_moved(w, av_xfer_copy(&to, &w->local, w->now_ns), AV_FAULT_LOC_PROT,
			   AV_FAULT_LOC_PROT);
	av_mem_put_list(&w->local);
	if (fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE)
		return fault;
	return op_operand(w, &req, &atomic, &none);
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
	struct av_mem_request req = work_request(w, IBV_ACCESS_REMOTE_WRITE | AV_ACCESS_TUNNELED);
	struct av_atomic atomic;
	struct av_operand old;

	if (!av_tunnel_decode(command, &atomic))
		return AV_FAULT_REM_NO_COMMAND;
	req.addr += command->offset;
	req.length = atomic.bytes;
	return op_operand(w, &req, &atomic, apply ? &old : NULL);
}

/* While the region is being re-registered, repeats this command only: earlier ones are done. */
static enum av_fault do_tunneled(struct av_work *w, const struct anyverbs_tunneled_atomic *command)
{
	uint64_t until = 0;
	enum av_fault fault;

	while ((fault = tunneled(w, command, true)) == AV_FAULT_BUSY &&
	       (w->to.seg->own || !av_timed_out(&until)))
		sched_yield(); /* no pin is held */
	return fault == AV_FAULT_BUSY ? AV_FAULT_REM_ACCESS : fault;
}

/**
 * op_tunneled() - execute the commands in the payload, or only check them
 * @apply: false: only check
 *
 * The payload is read once. All commands are checked before the first is executed. The requester's
 * buffers must be translated; before the first command they are released and emptied. Context and
 * return as an operation's. AV_FAULT_REM_NO_COMMAND: the payload is no list of commands
 */
static enum av_fault op_tunneled(struct av_work *w, bool apply)
{
	struct anyverbs_tunneled_atomic command[ANYVERBS_TUNNELED_MAX];
	unsigned int count = av_tunnel_count(w->wqe->bytes);
	struct av_spans to;
	enum av_fault fault;

	if (count == 0)
		return AV_FAULT_REM_NO_COMMAND;
	av_spans_local(&to, NULL, command, w->wqe->bytes);
	fault = work_moved(w, av_xfer_copy(&to, &w->local, w->now_ns), AV_FAULT_LOC_PROT,
			   AV_FAULT_LOC_PROT);
	if (w->result.wait_reason != AV_WAIT_NONE)
		return fault;
	for (unsigned int i = 0; i < count && fault == AV_FAULT_NONE; i++)
		fault = tunneled(w, &command[i], false);
	if (fault != AV_FAULT_NONE || !apply)
		return fault;
	av_mem_put_list(&w->local);
	for (unsigned int i = 0;
	     i < count && fault == AV_FAULT_NONE && w->result.wait_reason == AV_WAIT_NONE; i++)
		fault = do_tunneled(w, &command[i]);
	return fault;
}

/* Consuming the responder's receive requests. */

static void message_of(const struct av_work *w, struct av_message *msg)
{
	const struct av_packet_kind *kind = &w->opcode->packet;
	bool write = kind->operation == AV_OP_WRITE;
	bool imm = kind->tail == AV_TAIL_IMM, inv = kind->tail == AV_TAIL_INVALIDATE;

	*msg = (struct av_message){
		.to = &w->to,
		.src_qpn = w->rsp->qp->attr.dest_qp_num,
		.opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.wc_flags = imm	  ? IBV_WC_WITH_IMM
			    : inv ? IBV_WC_WITH_INV
				  : 0,
		.imm = imm || inv ? w->wqe->imm : 0,
		.invalidate = inv ? w->wqe->imm : 0,
		.bytes = w->wqe->bytes + (w->fragment ? w->fragment->before : 0),
		.now_ns = w->now_ns,
		.solicited = w->wqe->flags & IBV_SEND_SOLICITED,
		.message = w->fragment ? w->fragment->message : NULL,
		.later = w->after ? &w->after->bell : NULL,
	};
}

/* The source of a large message of one element, which both sides may copy; NULL for others. */
static const struct av_coop_source *find_coop_source(const struct av_work *w,
						     struct av_coop_source *source)
{
	if (av_likely(w->wqe->bytes < AV_COOP_MIN) || w->fragment || w->wqe->count != 1 ||
	    w->to.rq != w->rsp->qp->rq || w->rsp->qp->srq || (w->wqe->flags & IBV_SEND_INLINE))
		return NULL;
	source->req = w->req;
	source->sge = w->wqe->sge[0];
	return source;
}

static enum av_fault not_ready(struct av_work *w)
{
	bool again = w->fragment ? w->fragment->refused
				 : atomic_load_explicit(&w->req->qp->wait_reason,
							memory_order_relaxed) == AV_WAIT_RNR;

	if (!again)
		av_count_rsp(w->rsp->qp, AV_RSP_RNR);
	w->result.rnr_timer = w->rsp->qp->attr.min_rnr_timer;
	av_work_wait(w, AV_WAIT_RNR);
	return AV_FAULT_NONE;
}

/* Does the message have bytes in other packets? */
static bool is_in_fragments(const struct av_work *w)
{
	return w->fragment && (w->fragment->before || w->fragment->more);
}

/* Did an earlier packet of the message take its receive request? */
static bool is_continued(const struct av_work *w)
{
	return av_unlikely(w->fragment != NULL) && w->fragment->before;
}

/* Does this fault leave the receive request for the next message? */
static bool keeps_receive_request(enum av_fault fault)
{
	return fault == AV_FAULT_LOC_PROT || fault == AV_FAULT_FORBIDDEN || fault == AV_FAULT_BUSY;
}

/*
 * Deliver the bytes.
 * Context: a receive request is taken.
 */
static enum av_fault deliver_send_payload(struct av_work *w, const struct av_rq_wqe *request)
{
	struct av_coop_source source;
	enum av_fault fault;
	struct av_message msg;

	if (w->opcode->packet.tail == AV_TAIL_INVALIDATE &&
	    av_window_may_invalidate(w->to.seg, w->wqe->imm, w->qpn) != AV_CHECK_NONE)
		return AV_FAULT_INVALIDATE;
	message_of(w, &msg);
	msg.only = find_coop_source(w, &source);
	if (av_unlikely(is_in_fragments(w)))
		fault = av_receive_fragment(&msg, &w->local, request, w->fragment->more);
	else
		fault = av_receive_message(&msg, &w->local, request);
	if (fault != AV_FAULT_NONE && !av_seg_alive_now(w->rsp->seg))
		return av_work_gone(w);
	if (fault == AV_FAULT_BUSY && is_continued(w))
		return fault;
	if (keeps_receive_request(fault) || w->result.wait_reason != AV_WAIT_NONE)
		av_receive_cancel(&w->to);
	return fault;
}

enum av_fault av_op_send(struct av_work *w)
{
	enum av_fault fault = av_work_local(w, 0);
	const struct av_rq_wqe *request;

	if (fault != AV_FAULT_NONE)
		return fault;
	request = is_continued(w) ? av_receive_taken(&w->to) : av_receive_take(&w->to);
	fault = request ? deliver_send_payload(w, request) : not_ready(w);
	av_mem_put_list(&w->local);
	return fault;
}

/*
 * Check the rkey before taking a receive request, and move the bytes afterwards: a fault leaves the
 * receive request queued.
 */
static enum av_fault write_imm(struct av_work *w)
{
	enum av_fault fault = w->wqe->bytes > 0 ? op_write_bytes(w, false) : AV_FAULT_NONE;
	const struct av_rq_wqe *request;
	struct av_message msg;

	if (fault != AV_FAULT_NONE)
		return fault;
	request = av_receive_take(&w->to);
	if (!request)
		return not_ready(w);
	if (w->wqe->bytes > 0)
		fault = op_write_bytes(w, true);
	if (keeps_receive_request(fault) || w->result.wait_reason != AV_WAIT_NONE)
		av_receive_cancel(&w->to);
	if (fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE)
		return fault;
	message_of(w, &msg);
	return av_receive_done(&msg, request);
}

enum av_fault av_op_write_imm(struct av_work *w)
{
	enum av_fault fault = av_work_local(w, 0);

	if (fault != AV_FAULT_NONE)
		return fault;
	fault = work_permitted(w, IBV_ACCESS_REMOTE_WRITE);
	if (fault == AV_FAULT_NONE)
		fault = write_imm(w);
	av_mem_put_list(&w->local);
	return fault;
}
