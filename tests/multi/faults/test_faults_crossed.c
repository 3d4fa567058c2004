/* SPDX-License-Identifier: MIT */
/*
 * Each fault at the requester crossed with each at the responder, for each operation: which is
 * found first, what becomes of both, and of the next request. The rows hold for both ways alike, on
 * one host and in packets.
 *
 * Two rules. A source is read before anything is sent: nobody hears of a bad one. The buffer for an
 * answer is looked at when the answer is there: what the responder refuses comes before it, and
 * what the responder does is done. Source: IBTA volume 1, 9.9.2, 9.9.3.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "faults_fixture.h"
#include "lib/newer_verbs.h"

#define LARGE 40000u
#define PAGE  4096u
#define PAGES 16u
#define BAD   8u /* of the pages */

/* What is wrong at the requester. */
enum at_requester { BUFFER_FINE, BUFFER_BAD, BUFFER_READABLE, LENGTH_BAD, NO_RD_ATOMIC };

static const struct {
	const char *name;
	enum at_requester what;
	enum key lkey;
	int64_t by;
} local[] = {
	{"fine", BUFFER_FINE, KEY_FULL, 0},
	{"lkey of a deregistered region", BUFFER_BAD, KEY_DEAD, 0},
	{"lkey of another domain", BUFFER_BAD, KEY_OTHER_PD, 0},
	{"buffer ends behind its region", BUFFER_BAD, KEY_FULL, (int64_t)(FULL_END - LOCAL_AT - 4)},
	{"buffer that is no longer there", BUFFER_BAD, KEY_GONE, 0},
	{"buffer without LOCAL_WRITE", BUFFER_READABLE, KEY_READ_ONLY, 0},
	{"operand of 9 bytes", LENGTH_BAD, KEY_DEAD, 0},
	{"max_rd_atomic 0", NO_RD_ATOMIC, KEY_DEAD, 0},
};

/* Which operations a fault at the responder is one for. */
enum {
	SENDS = 1,
	WRITES = 2,
	READS = 4,
	ATOMICS = 8,
	TAKERS = 16,
	RDMA = WRITES | READS | ATOMICS
};

static const struct {
	const char *name;
	unsigned int of;
	struct fault_row row; /* what differs from a good one, and what comes of it */
} remote[] = {
	{"fine", SENDS | RDMA, {.requester = IBV_WC_SUCCESS}},
	{"rkey of a deregistered region",
	 RDMA,
	 {.rkey = KEY_DEAD, .requester = IBV_WC_REM_ACCESS_ERR}},
	{"rkey of another domain",
	 RDMA,
	 {.rkey = KEY_OTHER_PD, .requester = IBV_WC_REM_ACCESS_ERR}},
	{"region without remote rights",
	 RDMA,
	 {.rkey = KEY_LOCAL, .requester = IBV_WC_REM_ACCESS_ERR}},
	{"range behind the region",
	 RDMA,
	 {.remote_by = (int64_t)(FULL_END - REMOTE_AT), .requester = IBV_WC_REM_ACCESS_ERR}},
	{"range that wraps around",
	 RDMA,
	 {.rkey = KEY_ZERO_BASED,
	  .remote_by = -(int64_t)REMOTE_AT - 8,
	  .requester = IBV_WC_REM_ACCESS_ERR}},
	{"memory that is no longer there",
	 RDMA,
	 {.rkey = KEY_GONE, .requester = IBV_WC_REM_ACCESS_ERR}},
	{"misaligned", ATOMICS, {.remote_by = 4, .requester = IBV_WC_REM_INV_REQ_ERR}},
	{"QP without rights", RDMA, {.denied = PROBE_ALL, .requester = IBV_WC_REM_INV_REQ_ERR}},
	{"max_dest_rd_atomic 0",
	 READS | ATOMICS,
	 {.no_dest_rd_atomic = true, .requester = IBV_WC_REM_INV_REQ_ERR}},
	{"receive that is too short",
	 SENDS,
	 {.recv_bytes = 4,
	  .requester = IBV_WC_REM_INV_REQ_ERR,
	  .receive = IBV_WC_LOC_LEN_ERR,
	  .event = NONE,
	  .may_write = true}},
	{"receive lkey of a deregistered region",
	 SENDS,
	 {.recv_key = KEY_DEAD,
	  .requester = IBV_WC_REM_OP_ERR,
	  .receive = IBV_WC_LOC_PROT_ERR,
	  .event = NONE}},
	{"no receive", TAKERS, {.requester = IBV_WC_RNR_RETRY_EXC_ERR}},
	{"no responder", SENDS | RDMA, {.no_responder = true, .requester = IBV_WC_RETRY_EXC_ERR}},
};

static const struct {
	enum ibv_wr_opcode op;
	unsigned int is;
	bool source; /* it reads its buffers */
} ops[] = {
	{SEND, SENDS | TAKERS, true}, {SENDI, SENDS | TAKERS, true},
	{WRITE, WRITES, true},	      {WRITI, WRITES | TAKERS, true},
	{READ, READS, false},	      {CAS, ATOMICS, false},
	{FAA, ATOMICS, false},	      {(enum ibv_wr_opcode)WR_ATOMIC_WRITE, ATOMICS, true},
};

/* --- what is right --------------------------------------------------------------- */

/* Nothing comes of it at the responder. */
static void only_requester(struct fault_row *r, int status)
{
	r->requester = status;
	r->receive = r->event = NONE;
	r->responder_fails = r->lost = r->may_write = false;
}

static void at_responder(struct fault_row *r)
{
	bool fails =
		r->requester != IBV_WC_RNR_RETRY_EXC_ERR && r->requester != IBV_WC_RETRY_EXC_ERR;

	r->responder_fails = fails;
	if (!fails)
		r->receive = r->event = NONE;
	if (!fails || r->event == NONE)
		return;
	/* The last packet takes the receive, and the first is refused. */
	r->receive = r->op == WRITI && r->bytes < LARGE && r->requester == IBV_WC_REM_ACCESS_ERR
			     ? IBV_WC_LOC_ACCESS_ERR
			     : IBV_WC_WR_FLUSH_ERR;
	r->event = r->requester == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR
							 : IBV_EVENT_QP_REQ_ERR;
}

/* On an unreliable connection the message is lost; but a receiver's own fault fails the receiver.
 */
static void unreliable(struct fault_row *r)
{
	bool receivers = r->requester == IBV_WC_REM_OP_ERR;

	if (r->requester == IBV_WC_SUCCESS)
		return;
	r->requester = IBV_WC_SUCCESS;
	r->lost = true;
	r->responder_fails = receivers;
	r->receive = receivers ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
	r->event = NONE;
}

static void good(struct fault_row *r)
{
	r->receive = request_receives(r->op) ? IBV_WC_SUCCESS : ANY;
	r->event = NONE;
}

/* --- the rows -------------------------------------------------------------------- */

static void cell(enum ibv_qp_type service, size_t o, uint32_t bytes, size_t l, size_t f)
{
	bool source = ops[o].source, atomic = ops[o].is == ATOMICS;
	enum at_requester what = local[l].what;
	struct fault_row r = remote[f].row;
	bool bad = what == BUFFER_BAD || (what == BUFFER_READABLE && !source);
	char name[128];

	snprintf(name, sizeof(name), "%s, %u bytes: %s, %s", service == IBV_QPT_UC ? "UC" : "RC",
		 bytes, local[l].name, remote[f].name);
	r.name = name;
	r.service = service;
	r.op = ops[o].op;
	r.bytes = what == LENGTH_BAD ? 9 : bytes;
	r.lkey = local[l].lkey;
	r.local_by = local[l].by;
	r.no_rd_atomic = what == NO_RD_ATOMIC;
	r.later = true;
	r.receives = r.requester == IBV_WC_RNR_RETRY_EXC_ERR || r.no_responder ? 0 : 2;
	r.may_write |= r.requester == IBV_WC_RNR_RETRY_EXC_ERR && r.op == WRITI && bytes == LARGE;
	if (r.requester == IBV_WC_SUCCESS)
		good(&r);
	else
		at_responder(&r);
	if (service == IBV_QPT_UC)
		unreliable(&r);
	if (what == LENGTH_BAD)
		only_requester(&r, IBV_WC_LOC_LEN_ERR);
	else if (what == NO_RD_ATOMIC)
		only_requester(&r, IBV_WC_LOC_QP_OP_ERR);
	else if (bad && (source || f == 0)) {
		only_requester(&r, IBV_WC_LOC_PROT_ERR);
		r.must_write = atomic && !source;
	}
	fault_run(&r);
}

static bool applies(enum ibv_qp_type service, size_t o, size_t l)
{
	bool word = ops[o].is == ATOMICS, answered = word || ops[o].op == READ;

	if (service == IBV_QPT_UC && answered)
		return false;
	if (local[l].what == LENGTH_BAD)
		return word;
	return local[l].what != NO_RD_ATOMIC || answered;
}

static void cells(enum ibv_qp_type service, uint32_t bytes)
{
	for (size_t o = 0; o < COUNT_OF(ops); o++)
		for (size_t l = 0; l < COUNT_OF(local); l++)
			for (size_t f = 0; f < COUNT_OF(remote); f++)
				if (applies(service, o, l) && (remote[f].of & ops[o].is) &&
				    !(service == IBV_QPT_UC && remote[f].row.no_responder) &&
				    !(bytes == LARGE && ops[o].is == ATOMICS))
					cell(service, o, bytes, l, f);
}

/* --- a page that is missing in the middle ---------------------------------------- */

static void middle_row(enum ibv_wr_opcode op, uint8_t *p, const struct ibv_mr *mr)
{
	const struct fault_row r = {.op = op,
				    .bytes = PAGE,
				    .recv_bytes = PAGES * PAGE,
				    .receives = 1,
				    .requester = IBV_WC_LOC_PROT_ERR};
	struct node_send send[2];
	struct node_event e;
	struct ibv_wc wc[3];

	row("[%s] %s: a page in the middle is missing", faults_mode, probe_name(op));
	memset(p, 0, BAD * PAGE);
	send[0] = fault_begin(&r);
	send[0].sge[0] = (struct ibv_sge){(uintptr_t)p, PAGES * PAGE, mr->lkey};
	send[1] = (struct node_send){.wr_id = 2, .opcode = SEND};
	EXPECT(side_post_send(&a, 0, send, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_LOC_PROT_ERR,
	       "'%s'", ibv_wc_status_str(wc[0].status));
	EXPECT(side_post_send(&a, 0, send + 1, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 2, 0, wc) == 1 && wc[0].status == IBV_WC_WR_FLUSH_ERR,
	       "the next one");
	EXPECT(side_state(&a, 0) == IBV_QPS_ERR && side_state(&b, 0) == IBV_QPS_RTS, "states");
	EXPECT(side_poll(&b, 1, 1, 0, wc) == 0, "a receive completes");
	e = side_async(&b, 0);
	EXPECT(!e.any, "event %d", (int)e.type);
	mprotect(p + BAD * PAGE, PAGE, PROT_READ | PROT_WRITE);
	for (uint32_t i = BAD * PAGE; i < PAGES * PAGE; i++)
		if (!EXPECT(p[i] == 0, "byte %u, behind what is missing, is there", i))
			break;
	mprotect(p + BAD * PAGE, PAGE, PROT_NONE);
	fault_end();
}

static void middle_rows(void)
{
	static const enum ibv_wr_opcode large[] = {SEND, SENDI, WRITE, WRITI, READ};
	/* Not shared: peers go on with what they map (lib/node.c). */
	uint8_t *p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_mr *mr;

	NEED(p != MAP_FAILED);
	mr = ibv_reg_mr(a.node->pd, p, PAGES * PAGE, IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	mprotect(p + BAD * PAGE, PAGE, PROT_NONE);
	for (size_t i = 0; i < COUNT_OF(large); i++)
		middle_row(large[i], p, mr);
	EXPECT(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	munmap(p, PAGES * PAGE);
}

static void run(void)
{
	cells(IBV_QPT_RC, 8);
	cells(IBV_QPT_RC, LARGE);
	cells(IBV_QPT_UC, 8);
	cells(IBV_QPT_UC, LARGE);
	middle_rows();
}

int main(int argc, char **argv)
{
	return faults_test(argc, argv, run);
}
