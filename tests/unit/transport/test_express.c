/* SPDX-License-Identifier: MIT */
/*
 * Which requests the express lane takes, and that it leaves the others as if it had never seen
 * them. What they come to, and that this is what the direct transport would have made of them, is
 * multi/test_express.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "copy/copy.h"
#include "registry/directory.h"
#include "memory/key.h"
#include "queue/qp.h"
#include "transport/express.h"
#include "lib/own_directory.h"
#include "unit/memory/fake_seg.h"

#define RQ_AT	  (7ull << 26)
#define CQ_AT	  (8ull << 26)
#define INDEX	  1u
#define SLOTS	  8u
#define PD	  3u
#define KEY	  (INDEX << 8 | 7)
#define REQUESTER 77u
#define RESPONDER 78u
#define PSN	  5u
#define BYTES	  8192u

static struct fake_seg f[2];
static struct av_qp_end req, rsp;
static struct av_cq_shared *cq; /* the responder's */
static struct av_rq_shared *rq;
static uint8_t local[BYTES] AV_ALIGNED(64), remote[BYTES] AV_ALIGNED(64);

/* Which process the responder belongs to. */
enum where { OTHERS, OURS };

struct express_row {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum where where;
	uint32_t bytes;
	bool taken;
	void (*change)(struct av_sq_wqe *wqe); /* of what has been set up; NULL: nothing */
};

/* --- what is set up -------------------------------------------------------------- */

static int group_setup(void **state)
{
	return own_directory_join(state) || av_copy_init();
}

static void set_up_key(struct av_seg *seg, uint8_t *memory)
{
	struct av_key *k = av_key_entry(seg, KEY);

	CHECK(k);
	k->kind = AV_KEY_REGION;
	k->pd = PD;
	k->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		    IBV_ACCESS_REMOTE_ATOMIC;
	k->base = k->addr = (uintptr_t)memory;
	k->length = BYTES;
	atomic_store(&k->key, KEY);
}

static struct av_qp_end set_up_qp(struct av_seg *seg, uint32_t number, uint32_t other)
{
	struct av_qp_end end = {seg, av_qp_at(seg, INDEX)};

	end.qp->type = IBV_QPT_RC;
	end.qp->index = INDEX;
	end.qp->pd = PD;
	end.qp->rq = end.qp->send_cq = end.qp->recv_cq = INDEX;
	end.qp->next_psn = end.qp->expected_psn = PSN;
	end.qp->attr.dest_qp_num = other;
	end.qp->attr.path_mtu = IBV_MTU_1024;
	end.qp->attr.max_rd_atomic = end.qp->attr.max_dest_rd_atomic = 1;
	end.qp->attr.qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	atomic_store(&end.qp->state, IBV_QPS_RTS);
	atomic_store(&end.qp->qpn, number);
	return end;
}

static void set_up_queues(struct av_seg *seg)
{
	rq = av_rq_at(seg, INDEX);
	rq->ring = RQ_AT;
	rq->mask = SLOTS - 1;
	rq->max_sge = 2;
	rq->stride = AV_CACHE_LINE;
	rq->capacity = SLOTS;
	rq->pd = PD;
	cq = av_cq_at(seg, INDEX);
	cq->ring = CQ_AT;
	cq->mask = SLOTS - 1;
	cq->capacity = SLOTS;
}

static void post_receive(struct av_seg *seg)
{
	struct ibv_sge sge = {.addr = (uintptr_t)remote, .length = BYTES, .lkey = KEY};
	struct ibv_recv_wr wr = {.wr_id = 42, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(av_rq_post(seg, rq, &wr, &bad), 0);
}

static void set_up(const struct express_row *r)
{
	for (uint32_t i = 0; i < 2; i++) {
		fake_open(&f[i], i + 1);
		f[i].seg.proc = i + 1;
		fake_tables(&f[i]);
	}
	f[1].seg.own = r->where == OURS;
	atomic_store(&f[1].seg.alive_ns, av_now_coarse_ns());
	set_up_key(&f[0].seg, local);
	set_up_key(&f[1].seg, remote);
	req = set_up_qp(&f[0].seg, REQUESTER, RESPONDER);
	rsp = set_up_qp(&f[1].seg, RESPONDER, REQUESTER);
	set_up_queues(&f[1].seg);
	post_receive(&f[1].seg);
	memset(local, 0x11, sizeof(local));
	memset(remote, 0x22, sizeof(remote));
}

static void fill_request(const struct express_row *r, struct av_sq_wqe *wqe)
{
	wqe->opcode = r->opcode;
	wqe->bytes = r->bytes;
	wqe->count = 1;
	wqe->sge[0] = (struct ibv_sge){.addr = (uintptr_t)local, .length = r->bytes, .lkey = KEY};
	wqe->remote_addr = (uintptr_t)remote;
	wqe->rkey = KEY;
	wqe->compare_add = 1;
}

/* --- the changes ----------------------------------------------------------------- */

/* A line each. */
/* clang-format off */

static struct av_rq_wqe *receive(void)
{
	return (struct av_rq_wqe *)((uint8_t *)f[1].seg.head + RQ_AT);
}

static void no_qp(struct av_sq_wqe *w) { rsp.qp = NULL; }
static void inlined(struct av_sq_wqe *w)
{
	w->flags = IBV_SEND_INLINE;
	w->count = 0;
	memset(w->data, 0x11, w->bytes);
}
static void two_elements(struct av_sq_wqe *w) { w->count = 2; }
static void unreliable(struct av_sq_wqe *w) { req.qp->type = rsp.qp->type = IBV_QPT_UC; }
static void dead_lkey(struct av_sq_wqe *w) { w->sge[0].lkey ^= 1; }
static void read_only_lkey(struct av_sq_wqe *w)
{
	av_key_entry(&f[0].seg, KEY)->access &= ~(uint32_t)IBV_ACCESS_LOCAL_WRITE;
}
static void beyond_lkey(struct av_sq_wqe *w) { w->sge[0].addr += BYTES - w->bytes + 1; }
static void wrapping_lkey(struct av_sq_wqe *w) { w->sge[0].addr = UINT64_MAX - 1; }
static void other_pd(struct av_sq_wqe *w) { av_key_entry(&f[0].seg, KEY)->pd++; }
static void local_moving(struct av_sq_wqe *w) { atomic_store(&f[0].seg.head->moving, 1); }
static void local_unmapped(struct av_sq_wqe *w) { atomic_store(&f[0].seg.head->odp_seq, 2); }
static void local_on_demand(struct av_sq_wqe *w) { av_key_entry(&f[0].seg, KEY)->kind = AV_KEY_ODP; }
static void dead_rkey(struct av_sq_wqe *w) { w->rkey ^= 1; }
static void beyond_rkey(struct av_sq_wqe *w) { w->remote_addr += BYTES - w->bytes + 1; }
static void rkey_without_rights(struct av_sq_wqe *w)
{
	av_key_entry(&f[1].seg, KEY)->access = IBV_ACCESS_LOCAL_WRITE;
}
static void qp_without_rights(struct av_sq_wqe *w) { rsp.qp->attr.qp_access_flags = 0; }
static void remote_moving(struct av_sq_wqe *w) { atomic_store(&f[1].seg.head->moving, 1); }
static void unaligned(struct av_sq_wqe *w) { w->remote_addr += 4; }
static void no_reads(struct av_sq_wqe *w) { req.qp->attr.max_rd_atomic = 0; }
static void no_reads_there(struct av_sq_wqe *w) { rsp.qp->attr.max_dest_rd_atomic = 0; }
static void no_receive(struct av_sq_wqe *w) { atomic_store(&rq->tail, 0); }
static void short_receive(struct av_sq_wqe *w) { receive()->sge[0].length = (uint32_t)w->bytes - 1; }
static void exact_receive(struct av_sq_wqe *w) { receive()->sge[0].length = (uint32_t)w->bytes; }
static void receive_of_two(struct av_sq_wqe *w) { receive()->count = 2; }
static void receive_of_none(struct av_sq_wqe *w) { receive()->count = 0; }
static void receive_dead_key(struct av_sq_wqe *w) { receive()->sge[0].lkey ^= 1; }
static void receive_read_only(struct av_sq_wqe *w)
{
	av_key_entry(&f[1].seg, KEY)->access &= ~(uint32_t)IBV_ACCESS_LOCAL_WRITE;
}
static void shared_queue(struct av_sq_wqe *w) { rsp.qp->srq = 1; }
static void inline_receive(struct av_sq_wqe *w) { rsp.qp->inline_recv = 64; }
static void cq_full(struct av_sq_wqe *w) { atomic_store(&cq->tail, SLOTS); }
static void cq_broken(struct av_sq_wqe *w) { atomic_store(&cq->overrun, 1); }
static void no_cq(struct av_sq_wqe *w) { rsp.qp->recv_cq = AV_SLAB_CHUNKS * AV_OBJ_CHUNK; }
static void another_psn(struct av_sq_wqe *w) { rsp.qp->expected_psn++; }
static void another_peer(struct av_sq_wqe *w) { rsp.qp->attr.dest_qp_num++; }
static void another_qp(struct av_sq_wqe *w) { atomic_store(&rsp.qp->qpn, RESPONDER + 1); }
static void another_kind(struct av_sq_wqe *w) { rsp.qp->type = IBV_QPT_XRC_RECV; }
static void responder_init(struct av_sq_wqe *w) { atomic_store(&rsp.qp->state, IBV_QPS_INIT); }
static void responder_error(struct av_sq_wqe *w) { atomic_store(&rsp.qp->state, IBV_QPS_ERR); }
static void responder_drains(struct av_sq_wqe *w) { atomic_store(&rsp.qp->state, IBV_QPS_SQD); }
static void responder_rtr(struct av_sq_wqe *w) { atomic_store(&rsp.qp->state, IBV_QPS_RTR); }
static void responder_established(struct av_sq_wqe *w)
{
	responder_rtr(w);
	rsp.qp->established = 1;
}
static void responder_busy(struct av_sq_wqe *w) { av_lock_acquire_plain(&rsp.qp->resp); }
static void peer_closed(struct av_sq_wqe *w) { atomic_store(&f[1].seg.head->closed, 1); }
static void peer_gone(struct av_sq_wqe *w) { atomic_store(&f[1].seg.gone, true); }
static void peer_not_seen(struct av_sq_wqe *w) { atomic_store(&f[1].seg.alive_ns, 0); }
static void posted_elsewhere(struct av_sq_wqe *w) { f[0].seg.own = false; }
static void there_imported(struct av_sq_wqe *w) { f[1].seg.head->origin = 9; }

static const struct express_row rows[] = {
	{"SEND of 1 byte",			IBV_WR_SEND, OTHERS, 1, true, NULL},
	{"SEND of 8",				IBV_WR_SEND, OTHERS, 8, true, NULL},
	{"SEND of 9",				IBV_WR_SEND, OTHERS, 9, true, NULL},
	{"SEND that a completion just carries",	IBV_WR_SEND, OTHERS, AV_CQE_DATA, true, NULL},
	{"a byte more, memory not in reach",	IBV_WR_SEND, OTHERS, AV_CQE_DATA + 1, false, NULL},
	{"SEND with immediate",			IBV_WR_SEND_WITH_IMM, OTHERS, 8, true, NULL},
	{"inline",				IBV_WR_SEND, OTHERS, 8, true, inlined},
	{"inline, nothing",			IBV_WR_SEND, OTHERS, 0, false, inlined},
	{"nothing",				IBV_WR_SEND, OTHERS, 0, false, NULL},
	{"within one process",			IBV_WR_SEND, OURS, 8, false, NULL},
	{"two elements",			IBV_WR_SEND, OTHERS, 8, false, two_elements},
	{"no responder",			IBV_WR_SEND, OTHERS, 8, false, no_qp},
	{"of a foreign process",		IBV_WR_SEND, OTHERS, 8, false, posted_elsewhere},
	{"unreliable connection",		IBV_WR_SEND, OTHERS, 8, false, unreliable},
	{"dead lkey",				IBV_WR_SEND, OTHERS, 8, false, dead_lkey},
	{"read-only lkey",			IBV_WR_SEND, OTHERS, 8, true, read_only_lkey},
	{"beyond the region",			IBV_WR_SEND, OTHERS, 8, false, beyond_lkey},
	{"end of the address space",		IBV_WR_SEND, OTHERS, 8, false, wrapping_lkey},
	{"another domain",			IBV_WR_SEND, OTHERS, 8, false, other_pd},
	{"pages being moved",			IBV_WR_SEND, OTHERS, 8, false, local_moving},
	{"something was unmapped",		IBV_WR_SEND, OTHERS, 8, false, local_unmapped},
	{"on demand",				IBV_WR_SEND, OTHERS, 8, false, local_on_demand},
	{"no receive",				IBV_WR_SEND, OTHERS, 8, false, no_receive},
	{"receive a byte too short",		IBV_WR_SEND, OTHERS, 8, false, short_receive},
	{"receive just long enough",		IBV_WR_SEND, OTHERS, 8, true, exact_receive},
	{"receive of two elements",		IBV_WR_SEND, OTHERS, 8, false, receive_of_two},
	{"receive of none",			IBV_WR_SEND, OTHERS, 8, false, receive_of_none},
	{"receive of a dead key",		IBV_WR_SEND, OTHERS, 8, false, receive_dead_key},
	{"receive that may not be written",	IBV_WR_SEND, OTHERS, 8, false, receive_read_only},
	{"receive whose pages are moved",	IBV_WR_SEND, OTHERS, 8, false, remote_moving},
	{"receive of an importing context",	IBV_WR_SEND, OTHERS, 8, false, there_imported},
	{"shared receive queue",		IBV_WR_SEND, OTHERS, 8, false, shared_queue},
	{"inline receive",			IBV_WR_SEND, OTHERS, 8, false, inline_receive},
	{"CQ full",				IBV_WR_SEND, OTHERS, 8, false, cq_full},
	{"CQ broken",				IBV_WR_SEND, OTHERS, 8, false, cq_broken},
	{"no such CQ",				IBV_WR_SEND, OTHERS, 8, false, no_cq},
	{"another PSN",				IBV_WR_SEND, OTHERS, 8, false, another_psn},
	{"another peer is expected",		IBV_WR_SEND, OTHERS, 8, false, another_peer},
	{"another queue pair by now",		IBV_WR_SEND, OTHERS, 8, false, another_qp},
	{"another service",			IBV_WR_SEND, OTHERS, 8, false, another_kind},
	{"responder in INIT",			IBV_WR_SEND, OTHERS, 8, false, responder_init},
	{"responder in ERR",			IBV_WR_SEND, OTHERS, 8, false, responder_error},
	{"responder in SQD",			IBV_WR_SEND, OTHERS, 8, true, responder_drains},
	{"responder in RTR, first message",	IBV_WR_SEND, OTHERS, 8, false, responder_rtr},
	{"responder in RTR, a later one",	IBV_WR_SEND, OTHERS, 8, true, responder_established},
	{"responder's token held",		IBV_WR_SEND, OTHERS, 8, false, responder_busy},
	{"context closed",			IBV_WR_SEND, OTHERS, 8, false, peer_closed},
	{"process gone",			IBV_WR_SEND, OTHERS, 8, false, peer_gone},
	{"not seen for a while, and dead",	IBV_WR_SEND, OTHERS, 8, false, peer_not_seen},
	{"WRITE",				IBV_WR_RDMA_WRITE, OURS, 4096, true, NULL},
	{"WRITE, inline",			IBV_WR_RDMA_WRITE, OURS, 100, true, inlined},
	{"WRITE, memory not in reach",		IBV_WR_RDMA_WRITE, OTHERS, 8, false, NULL},
	{"WRITE, dead rkey",			IBV_WR_RDMA_WRITE, OURS, 8, false, dead_rkey},
	{"WRITE, beyond the region",		IBV_WR_RDMA_WRITE, OURS, 8, false, beyond_rkey},
	{"WRITE, region without the right",	IBV_WR_RDMA_WRITE, OURS, 8, false, rkey_without_rights},
	{"WRITE, queue pair without the right",	IBV_WR_RDMA_WRITE, OURS, 8, false, qp_without_rights},
	{"WRITE with immediate",		IBV_WR_RDMA_WRITE_WITH_IMM, OURS, 8, false, NULL},
	{"READ",				IBV_WR_RDMA_READ, OURS, 4096, true, NULL},
	{"READ, inline",			IBV_WR_RDMA_READ, OURS, 8, false, inlined},
	{"READ, lkey may not be written",	IBV_WR_RDMA_READ, OURS, 8, false, read_only_lkey},
	{"READ, region without the right",	IBV_WR_RDMA_READ, OURS, 8, false, rkey_without_rights},
	{"READ, queue pair without the right",	IBV_WR_RDMA_READ, OURS, 8, false, qp_without_rights},
	{"READ, requester has none",		IBV_WR_RDMA_READ, OURS, 8, false, no_reads},
	{"READ, responder has none",		IBV_WR_RDMA_READ, OURS, 8, false, no_reads_there},
	{"fetch and add",			IBV_WR_ATOMIC_FETCH_AND_ADD, OURS, 8, true, NULL},
	{"compare and swap",			IBV_WR_ATOMIC_CMP_AND_SWP, OURS, 8, true, NULL},
	{"atomic of 4 bytes",			IBV_WR_ATOMIC_FETCH_AND_ADD, OURS, 4, false, NULL},
	{"atomic, operand not aligned",		IBV_WR_ATOMIC_FETCH_AND_ADD, OURS, 8, false, unaligned},
	{"atomic, answer may not be written",	IBV_WR_ATOMIC_FETCH_AND_ADD, OURS, 8, false, read_only_lkey},
	{"atomic, region without the right",	IBV_WR_ATOMIC_CMP_AND_SWP, OURS, 8, false, rkey_without_rights},
	{"atomic, responder has none",		IBV_WR_ATOMIC_CMP_AND_SWP, OURS, 8, false, no_reads_there},
	{"invalidating SEND",			IBV_WR_SEND_WITH_INV, OTHERS, 8, false, NULL},
	{"local invalidation",			IBV_WR_LOCAL_INV, OTHERS, 8, false, NULL},
	{"binding a window",			IBV_WR_BIND_MW, OTHERS, 8, false, NULL},
	{"an opcode that is none",		(enum ibv_wr_opcode)4711, OTHERS, 8, false, NULL},
};
/* clang-format on */

/* --- judging --------------------------------------------------------------------- */

static bool sends(const struct express_row *r)
{
	return r->opcode == IBV_WR_SEND || r->opcode == IBV_WR_SEND_WITH_IMM;
}

static void expect_bytes(const char *name, const uint8_t *at, uint8_t byte, uint32_t from,
			 uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		if (at[i] != byte)
			fail_msg("%s: byte %u is %#x, not %#x", name, i, at[i], byte);
}

static uint64_t key_in_use(const struct av_seg *seg)
{
	for (unsigned int i = 0; i < AV_PINS; i++)
		if ((uint32_t)atomic_load(&seg->head->pin[i].word))
			return atomic_load(&seg->head->pin[i].word);
	return 0;
}

static void expect_completion(const struct express_row *r)
{
	const struct av_cqe *e = av_cq_peek(&f[1].seg, cq);

	if (!e || e->wr_id != 42 || e->status != IBV_WC_SUCCESS || e->byte_len != r->bytes ||
	    e->data_len != r->bytes || e->qpn != RESPONDER || e->src_qp != REQUESTER)
		fail_msg("%s: no such completion", r->name);
	expect_bytes(r->name, e->data, 0x11, 0, r->bytes);
}

static void expect_done(const struct express_row *r)
{
	const uint32_t n = r->bytes > 1024 ? r->bytes / 1024 : 1;

	if (req.qp->next_psn != PSN + n || rsp.qp->expected_psn != PSN + n || rsp.qp->msn != 1)
		fail_msg("%s: PSN %u and %u, MSN %u", r->name, req.qp->next_psn,
			 rsp.qp->expected_psn, rsp.qp->msn);
	if (sends(r))
		expect_completion(r);
	else if (r->opcode == IBV_WR_RDMA_WRITE)
		expect_bytes(r->name, remote, 0x11, 0, r->bytes);
	else
		expect_bytes(r->name, local, 0x22, 0, r->bytes);
}

static void expect_untouched(const struct express_row *r, const struct av_cq_shared *cq_before,
			     const struct av_rq_shared *rq_before, uint32_t psn)
{
	if (req.qp->next_psn != PSN || (rsp.qp && (rsp.qp->expected_psn != psn || rsp.qp->msn)))
		fail_msg("%s: PSNs have moved", r->name);
	if (atomic_load(&cq->tail) != atomic_load(&cq_before->tail) ||
	    atomic_load(&cq->lock.owner) ||
	    cq->counters.completions != cq_before->counters.completions)
		fail_msg("%s: a CQ was touched", r->name);
	if (atomic_load(&rq->head) != atomic_load(&rq_before->head))
		fail_msg("%s: a receive is gone", r->name);
	expect_bytes(r->name, local, 0x11, 0, BYTES);
	expect_bytes(r->name, remote, 0x22, 0, BYTES);
}

/* Was the row left alone because its process did not run for so long that the peer may have died?
 */
static bool came_too_late(const struct express_row *r, bool taken)
{
	return r->taken && !taken && !av_seg_known_alive(&f[1].seg, av_now_coarse_ns());
}

/* Return: false: it has to be done once more */
static bool one_row(const struct express_row *r)
{
	uint8_t slot[sizeof(struct av_sq_wqe) + 256] AV_ALIGNED(64) = {0};
	struct av_sq_wqe *wqe = (struct av_sq_wqe *)slot;
	enum av_fault fault = AV_FAULT_NONE;
	struct av_cq_shared cq_before;
	struct av_rq_shared rq_before;
	uint32_t psn, holder;
	bool taken, late;

	set_up(r);
	fill_request(r, wqe);
	if (r->change)
		r->change(wqe);
	cq_before = *cq;
	rq_before = *rq;
	psn = rsp.qp ? rsp.qp->expected_psn : 0;
	holder = rsp.qp ? atomic_load(&rsp.qp->resp.owner) : 0;
	taken = av_express(&req, &rsp, wqe, &fault);
	late = came_too_late(r, taken);
	if (!late && (taken != r->taken || fault != AV_FAULT_NONE))
		fail_msg("%s: %s, fault %d", r->name, taken ? "taken" : "left alone", fault);
	if (taken)
		expect_done(r);
	else
		expect_untouched(r, &cq_before, &rq_before, psn);
	if (key_in_use(&f[0].seg) || key_in_use(&f[1].seg))
		fail_msg("%s: a key is still in use", r->name);
	if (rsp.qp && (rsp.qp->receiving || atomic_load(&rsp.qp->resp.owner) != holder))
		fail_msg("%s: the responder is still at it", r->name);
	fake_close(&f[0]);
	fake_close(&f[1]);
	return !late;
}

static void each_is_taken_or_left_as_it_was(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++)
		while (!one_row(&rows[i]))
			;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_taken_or_left_as_it_was),
	};

	return cmocka_run_group_tests(tests, group_setup, own_directory_leave);
}
