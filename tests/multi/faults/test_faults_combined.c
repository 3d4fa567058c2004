/* SPDX-License-Identifier: MIT */
/* Two faults at once, and what looks like a fault and is none. */
#include "faults_fixture.h"

/*
 * A request that brings something back, with a bad lkey and @r: the requester looks where the
 * answer goes when there is one.
 */
static void fetch_row(struct fault_row r)
{
	r.lkey = KEY_WRONG;
	r.bytes = 8;
	r.receives = 2;
	r.receive = IBV_WC_WR_FLUSH_ERR;
	r.responder_fails = true;
	fault_run(&r);
}

static void combined_rows(void)
{
	static const enum ibv_wr_opcode remote_first[] = {READ, CAS, FAA};

	fetch_row((struct fault_row){.name = "misaligned, and a bad lkey",
				     .op = FAA,
				     .remote_by = 4,
				     .requester = IBV_WC_REM_INV_REQ_ERR,
				     .event = IBV_EVENT_QP_REQ_ERR,
				     .event2 = IBV_EVENT_QP_ACCESS_ERR});
	fault_run(&(struct fault_row){.name = "bad lkey and bad rkey: the local one",
				      .op = WRITE,
				      .bytes = 8,
				      .lkey = KEY_WRONG,
				      .rkey = KEY_WRONG,
				      .receives = 2,
				      .requester = IBV_WC_LOC_PROT_ERR,
				      .receive = NONE,
				      .event = NONE});
	for (size_t i = 0; i < COUNT_OF(remote_first); i++)
		fetch_row((struct fault_row){.name = "bad lkey and bad rkey",
					     .op = remote_first[i],
					     .rkey = KEY_WRONG,
					     .requester = IBV_WC_REM_ACCESS_ERR,
					     .event = IBV_EVENT_QP_ACCESS_ERR});
	fault_run(&(struct fault_row){.name = "bad lkey and no receive posted: the local one",
				      .op = SEND,
				      .bytes = 8,
				      .lkey = KEY_WRONG,
				      .requester = IBV_WC_LOC_PROT_ERR,
				      .receive = NONE,
				      .event = NONE});
	for (size_t i = 0; i < COUNT_OF(remote_first); i++)
		fault_run(&(struct fault_row){.name = "max_rd_atomic 0 at the requester",
					      .op = remote_first[i],
					      .bytes = 8,
					      .no_rd_atomic = true,
					      .receives = 2,
					      .requester = IBV_WC_LOC_QP_OP_ERR,
					      .receive = NONE,
					      .event = NONE});
}

static void no_fault_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "inline: the lkey is not looked at",
		 .op = SEND,
		 .bytes = 8,
		 .flags = IBV_SEND_INLINE,
		 .lkey = KEY_WRONG},
		{.name = "inline: the lkey is not looked at",
		 .op = WRITE,
		 .bytes = 8,
		 .flags = IBV_SEND_INLINE,
		 .lkey = KEY_ZERO},
		{.name = "source without any rights",
		 .op = SEND,
		 .bytes = 8,
		 .lkey = KEY_READ_ONLY},
		{.name = "source without any rights",
		 .op = WRITE,
		 .bytes = 40000,
		 .lkey = KEY_READ_ONLY},
		{.name = "zero length, bad keys",
		 .op = SEND,
		 .lkey = KEY_WRONG,
		 .recv_key = KEY_WRONG},
		{.name = "zero length, no elements", .op = SENDI, .elements = -1},
		{.name = "zero length, bad keys",
		 .op = WRITE,
		 .lkey = KEY_WRONG,
		 .rkey = KEY_WRONG},
		{.name = "zero length, address of nothing",
		 .op = WRITE,
		 .elements = -1,
		 .rkey = KEY_ZERO,
		 .remote_by = INT64_MIN},
		{.name = "zero length, bad keys",
		 .op = WRITI,
		 .lkey = KEY_WRONG,
		 .rkey = KEY_WRONG},
		{.name = "zero length, bad keys", .op = READ, .lkey = KEY_WRONG, .rkey = KEY_WRONG},
		{.name = "zero length, no elements", .op = READ, .elements = -1, .rkey = KEY_DEAD},
		{.name = "atomics need no other remote right",
		 .op = CAS,
		 .bytes = 8,
		 .rkey = KEY_ATOMIC_ONLY},
		{.name = "atomics need no other remote right",
		 .op = FAA,
		 .bytes = 8,
		 .rkey = KEY_ATOMIC_ONLY},
		{.name = "offset in a zero-based region",
		 .op = WRITE,
		 .bytes = 8,
		 .rkey = KEY_ZERO_BASED},
		{.name = "address of the program's choice",
		 .op = READ,
		 .bytes = 8,
		 .rkey = KEY_IOVA,
		 .lkey = KEY_IOVA},
		{.name = "receive longer than the message",
		 .op = SEND,
		 .bytes = 8,
		 .recv_bytes = 4000},
		{.name = "receive longer than its region, the message fits",
		 .op = SEND,
		 .bytes = 8,
		 .recv_bytes = (uint32_t)(FULL_END)},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fault_row r = rows[i];

		r.receives = 2;
		r.requester = IBV_WC_SUCCESS;
		r.receive = request_receives(r.op) ? IBV_WC_SUCCESS : ANY;
		r.event = NONE;
		if (!request_receives(r.op))
			r.recv_bytes = 8;
		fault_run(&r);
	}
}

static void run(void)
{
	combined_rows();
	no_fault_rows();
}

int main(int argc, char **argv)
{
	return faults_test(argc, argv, run);
}
