/* SPDX-License-Identifier: MIT */
/* Which operation an opcode has; operations on the requester's keys, READ, FLUSH, and atomics. */
#include "transport/execution.h"

#include "memory/region.h"

/* A requester's own keys. */

static enum av_fault bind_window(struct av_work *w)
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

static enum av_fault local_invalidate(struct av_work *w)
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

static enum av_fault no_operation(struct av_work *w)
{
	return AV_FAULT_NONE;
}

static enum av_fault umr_fill(struct av_work *w)
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

static enum av_fault umr_invalidate(struct av_work *w)
{
	struct av_klm_fill nothing = {.key = w->wqe->rkey, .pd = w->req->qp->pd};

	return av_klm_fill(w->req->seg, &nothing) ? AV_FAULT_MW_BIND : AV_FAULT_NONE;
}

/* --- READ ------------------------------------------------------------------------ */

/*
 * Copy an answer @from the responder's memory, or the executor's own, to the request's buffers.
 * Context and return as an operation's; the fault of @from is AV_FAULT_REM_ACCESS, and comes first:
 * a responder that cannot read its memory gives no answer to be placed.
 */
static enum av_fault work_answer(struct av_work *w, const struct av_spans *from)
{
	enum av_fault fault =
		av_find_buffers(w->req, w->fragment, w->wqe, IBV_ACCESS_LOCAL_WRITE, &w->local);

	if (fault == AV_FAULT_NONE) {
		fault = av_work_moved(w, av_xfer_copy(&w->local, from, w->now_ns),
				      AV_FAULT_REM_ACCESS, AV_FAULT_LOC_PROT);
		av_mem_put_list(&w->local);
	}
	if (av_unlikely(fault == AV_FAULT_LOC_PROT) &&
	    av_work_read_first(w, from) == AV_FAULT_SRC) {
		av_diag_drop();
		fault = av_work_moved(w, AV_FAULT_SRC, AV_FAULT_REM_ACCESS, AV_FAULT_NONE);
	}
	w->in_vain = fault == AV_FAULT_LOC_PROT;
	return fault;
}

static enum av_fault read_bytes(struct av_work *w)
{
	struct av_mem_request req = {
		.access = IBV_ACCESS_REMOTE_READ,
		.addr = w->wqe->remote_addr,
		.length = w->wqe->bytes,
	};
	struct av_spans remote;
	enum av_fault fault = av_work_remote(w, &req, 0, &remote);

	return fault == AV_FAULT_NONE && w->wqe->bytes ? work_answer(w, &remote) : fault;
}

/* --- FLUSH ----------------------------------------------------------------------- */

/* The access rights that a FLUSH needs, of the queue pair and of the key. */
static uint32_t flush_rights(uint32_t placement)
{
	return (placement & AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_GLOBAL : 0) |
	       (placement & ~(uint32_t)AV_FLUSH_GLOBAL ? AV_ACCESS_FLUSH_PERSISTENT : 0);
}

static enum av_fault flush(struct av_work *w)
{
	struct av_mem_request req = {
		.access = flush_rights(w->wqe->placement),
		.addr = w->wqe->remote_addr,
		.length = w->wqe->compare_add,
	};
	struct av_spans remote;
	enum av_fault fault;

	req.whole = w->wqe->selectivity == AV_FLUSH_MR || req.length == 0;
	fault = av_work_remote(w, &req, 1, &remote);
	if (fault == AV_FAULT_NONE)
		atomic_thread_fence(memory_order_seq_cst);
	return fault;
}

/* Atomic operations, requested as such or by the payload of an RDMA WRITE. */

/*
 * Execute one atomic operation on the operand at @addr that the key names.
 * @access: enum ibv_access_flags needed
 * @old: out, the original value; NULL: only check whether the operation is permitted
 * Context and return as an operation's, but it holds no pin. The operand is unchanged unless the
 * result is AV_FAULT_NONE and nothing has to wait.
 */
static enum av_fault op_operand(struct av_work *w, uint64_t addr, uint32_t access,
				const struct av_atomic *atomic, struct av_operand *old)
{
	struct av_mem_request req = {.access = access, .addr = addr, .length = atomic->bytes};
	struct av_spans remote;
	enum av_fault fault = av_work_remote(w, &req, atomic->bytes, &remote);

	if (fault != AV_FAULT_NONE)
		return fault;
	/* Aligned in key space only: the region's first byte is not aligned. */
	if (remote.at[0].addr & (atomic->bytes - 1))
		fault = AV_FAULT_REM_MISALIGNED;
	else if (old)
		fault = av_work_moved(w, av_xfer_atomic(&remote.at[0], atomic, old, w->now_ns),
				      AV_FAULT_REM_ACCESS, AV_FAULT_REM_ACCESS);
	av_pin_end(w->pin);
	w->pin = NULL;
	return fault;
}

/* Return the original value to the request's buffers, unless there is a @fault. */
static enum av_fault answer_operand(struct av_work *w, enum av_fault fault, struct av_operand *old)
{
	struct av_spans from;

	if (fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE)
		return fault;
	av_spans_local(&from, NULL, old, w->wqe->bytes);
	do /* not from the beginning, whose memory is changed already */
		fault = work_answer(w, &from);
	while (fault == AV_FAULT_BUSY && av_key_retry(NULL));
	return fault;
}

static enum av_fault atomic_request(struct av_work *w, const struct av_atomic *atomic)
{
	struct av_operand old;
	enum av_fault fault =
		op_operand(w, w->wqe->remote_addr, IBV_ACCESS_REMOTE_ATOMIC, atomic, &old);

	return answer_operand(w, fault, &old);
}

static struct av_atomic fetch_add_of(const struct av_sq_wqe *wqe)
{
	return (struct av_atomic){
		.op = AV_ATOMIC_ADD,
		.bytes = sizeof(uint64_t),
		.value = {{wqe->compare_add}},
	};
}

static enum av_fault fetch_add(struct av_work *w)
{
	const struct av_atomic atomic = fetch_add_of(w->wqe);

	return atomic_request(w, &atomic);
}

static struct av_atomic compare_swap_of(const struct av_sq_wqe *wqe)
{
	return (struct av_atomic){
		.op = AV_ATOMIC_CMP_SWAP,
		.bytes = sizeof(uint64_t),
		.value = {{wqe->swap}},
		.compare = {{wqe->compare_add}},
		.mask = {{UINT64_MAX}},
		.compare_mask = {{UINT64_MAX}},
	};
}

static enum av_fault compare_swap(struct av_work *w)
{
	const struct av_atomic atomic = compare_swap_of(w->wqe);

	return atomic_request(w, &atomic);
}

enum av_fault av_op_in_steps(struct av_work *w)
{
	struct av_atomic atomic = w->wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
					  ? fetch_add_of(w->wqe)
					  : compare_swap_of(w->wqe);
	struct av_operand old = {{0}};
	enum av_fault fault;

	atomic.how = AV_ATOMIC_IN_STEPS;
	fault = op_operand(w, w->wqe->remote_addr, IBV_ACCESS_REMOTE_ATOMIC, &atomic, &old);
	if (old.word[1])
		(void)av_report_freedom(w->req, w->wqe, AV_CHECK_STRICT_ATOMICS, 0, 0);
	return answer_operand(w, fault, &old);
}

static enum av_fault with_operands(struct av_work *w)
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

static enum av_fault atomic_write(struct av_work *w)
{
	enum av_fault fault = av_find_buffers(w->req, w->fragment, w->wqe, 0, &w->local);
	struct av_atomic atomic = {.op = AV_ATOMIC_SWAP, .bytes = sizeof(uint64_t)};
	struct av_operand none;
	struct av_spans to;

	if (fault != AV_FAULT_NONE)
		return fault;
	av_spans_local(&to, NULL, &atomic.value, sizeof(uint64_t));
	fault = av_work_moved(w, av_xfer_copy(&to, &w->local, w->now_ns), AV_FAULT_LOC_PROT,
			      AV_FAULT_LOC_PROT);
	av_mem_put_list(&w->local);
	if (fault != AV_FAULT_NONE || w->result.wait_reason != AV_WAIT_NONE)
		return fault;
	return op_operand(w, w->wqe->remote_addr, IBV_ACCESS_REMOTE_WRITE, &atomic, &none);
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
		.how = c->order == ANYVERBS_TUNNELED_BIG_ENDIAN ? AV_ATOMIC_SWAPPED
								: AV_ATOMIC_NATIVE,
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
	struct av_atomic atomic;
	struct av_operand old;

	if (!av_tunnel_decode(command, &atomic))
		return AV_FAULT_REM_NO_COMMAND;
	return op_operand(w, w->wqe->remote_addr + command->offset,
			  IBV_ACCESS_REMOTE_WRITE | AV_ACCESS_TUNNELED, &atomic,
			  apply ? &old : NULL);
}

/* While the region is being re-registered, repeats this command only: earlier ones are done. */
static enum av_fault do_tunneled(struct av_work *w, const struct anyverbs_tunneled_atomic *command)
{
	uint64_t until = 0;
	enum av_fault fault;

	do
		fault = tunneled(w, command, true);
	while (fault == AV_FAULT_BUSY && av_key_retry(w->to.seg->own ? NULL : &until));
	return fault == AV_FAULT_BUSY ? AV_FAULT_REM_ACCESS : fault;
}

enum av_fault av_op_tunneled(struct av_work *w, bool apply)
{
	struct anyverbs_tunneled_atomic command[ANYVERBS_TUNNELED_MAX];
	unsigned int count = av_tunnel_count(w->wqe->bytes);
	struct av_spans to;
	enum av_fault fault;

	if (count == 0 || (w->fragment && w->fragment->payloads > 1))
		return AV_FAULT_REM_NO_COMMAND;
	av_spans_local(&to, NULL, command, w->wqe->bytes);
	fault = av_work_moved(w, av_xfer_copy(&to, &w->local, w->now_ns), AV_FAULT_LOC_PROT,
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

/* --- the opcodes ----------------------------------------------------------------- */

av_operation *const av_operations[AV_WR_OPCODES + 1] = {
	[IBV_WR_RDMA_WRITE] = av_op_write,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = av_op_write_imm,
	[IBV_WR_SEND] = av_op_send,
	[IBV_WR_SEND_WITH_IMM] = av_op_send,
	[IBV_WR_SEND_WITH_INV] = av_op_send,
	[IBV_WR_RDMA_READ] = read_bytes,
	[AV_WR_FLUSH] = flush,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = compare_swap,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = fetch_add,
	[AV_WR_ATOMIC_WRITE] = atomic_write,
	[AV_WR_SIZED_CMP_AND_SWP] = with_operands,
	[AV_WR_SIZED_FETCH_AND_ADD] = with_operands,
	[AV_WR_MASKED_CMP_AND_SWP] = with_operands,
	[AV_WR_MASKED_FETCH_AND_ADD] = with_operands,
	[IBV_WR_LOCAL_INV] = local_invalidate,
	[IBV_WR_BIND_MW] = bind_window,
	[AV_WR_NOP] = no_operation,
	[AV_WR_UMR_FILL] = umr_fill,
	[AV_WR_UMR_INVALIDATE] = umr_invalidate,
};
