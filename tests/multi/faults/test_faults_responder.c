/* SPDX-License-Identifier: MIT */
/* Faults at the responder: its memory, and requests that its queue pair does not accept. */
#include "faults_fixture.h"

/* --- faults at the responder's memory -------------------------------------------- */

/* Does the packet that is refused take a receive? The last one does, and the first is refused. */
static bool takes_receive(const struct fault_row *r)
{
	return r->op == WRITI && r->bytes <= 4096;
}

static void remote_row(struct fault_row r)
{
	r.receives = 2;
	r.requester = IBV_WC_REM_ACCESS_ERR;
	r.receive = takes_receive(&r) ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR;
	r.responder_fails = true;
	r.event = IBV_EVENT_QP_ACCESS_ERR;
	fault_run(&r);
}

static void remote_rows(void)
{
	static const struct {
		const char *name;
		enum key rkey;
		int64_t by;
		uint32_t bytes;
	} faults[] = {
		{"rkey never given out", KEY_WRONG, 0, 8},
		{"rkey 0", KEY_ZERO, 0, 8},
		{"rkey of a deregistered region", KEY_DEAD, 0, 8},
		{"rkey of another protection domain", KEY_OTHER_PD, 0, 8},
		{"region without remote rights", KEY_LOCAL, 0, 8},
		{"region without any rights", KEY_READ_ONLY, 0, 8},
		{"range ends 8 bytes behind the region", KEY_FULL, (int64_t)(FULL_END - REMOTE_AT),
		 8},
		{"range begins 8 bytes before the region", KEY_FULL, -(int64_t)REMOTE_AT - 8, 8},
		{"range wraps around the address space", KEY_ZERO_BASED, -(int64_t)REMOTE_AT - 8,
		 8},
		{"address far away", KEY_FULL, INT64_MIN, 8},
		{"virtual address where the region has its own", KEY_IOVA, 0x100000000, 8},
		{"memory that is no longer there", KEY_GONE, 0, 8},
		{"much memory that is no longer there", KEY_GONE, 0, 40000},
	};
	static const enum ibv_wr_opcode ops[] = {WRITE, WRITI, READ, CAS, FAA};

	for (size_t f = 0; f < COUNT_OF(faults); f++)
		for (size_t o = 0; o < COUNT_OF(ops); o++)
			remote_row((struct fault_row){
				.name = faults[f].name,
				.op = ops[o],
				.rkey = faults[f].rkey,
				.remote_by = faults[f].by,
				.bytes = request_is_atomic(ops[o]) ? 8 : faults[f].bytes});
	remote_row((struct fault_row){.name = "region without REMOTE_WRITE",
				      .op = WRITE,
				      .rkey = KEY_NO_WRITE,
				      .bytes = 8});
	remote_row((struct fault_row){.name = "region without REMOTE_WRITE",
				      .op = WRITI,
				      .rkey = KEY_NO_WRITE,
				      .bytes = 8});
	remote_row((struct fault_row){
		.name = "region without REMOTE_READ", .op = READ, .rkey = KEY_NO_READ, .bytes = 8});
	remote_row((struct fault_row){.name = "region without REMOTE_ATOMIC",
				      .op = CAS,
				      .rkey = KEY_NO_ATOMIC,
				      .bytes = 8});
	remote_row((struct fault_row){.name = "region without REMOTE_ATOMIC",
				      .op = FAA,
				      .rkey = KEY_NO_ATOMIC,
				      .bytes = 8});
	remote_row((struct fault_row){.name = "range ends one byte behind the region",
				      .op = READ,
				      .bytes = 9,
				      .remote_by = (int64_t)(FULL_END - REMOTE_AT - 8)});
	remote_row((struct fault_row){.name = "range ends one byte behind the region",
				      .op = WRITE,
				      .bytes = 70000,
				      .remote_by = (int64_t)(FULL_END - REMOTE_AT - 69999)});
}

static void write_imm_without_receive_row(void)
{
	const struct fault_row r = {
		.name = "bad rkey and no receive posted",
		.op = WRITI,
		.rkey = KEY_WRONG,
		.bytes = 8,
		.requester = IBV_WC_REM_ACCESS_ERR,
		.responder_fails = true,
		.event = IBV_EVENT_QP_ACCESS_ERR,
	};

	fault_run(&r);
}

/* --- requests the responder's queue pair does not accept ------------------------- */

static void invalid_request_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "QP without REMOTE_WRITE",
		 .op = WRITE,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_WRITE},
		{.name = "QP without REMOTE_WRITE",
		 .op = WRITI,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_WRITE},
		{.name = "QP without REMOTE_READ",
		 .op = READ,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_READ},
		{.name = "QP without REMOTE_ATOMIC",
		 .op = CAS,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_ATOMIC},
		{.name = "QP without REMOTE_ATOMIC",
		 .op = FAA,
		 .bytes = 8,
		 .denied = IBV_ACCESS_REMOTE_ATOMIC},
		{.name = "QP without access flags",
		 .op = READ,
		 .bytes = 40000,
		 .denied = PROBE_ALL},
		{.name = "QP without REMOTE_WRITE, and a bad rkey",
		 .op = WRITE,
		 .bytes = 8,
		 .rkey = KEY_WRONG,
		 .denied = IBV_ACCESS_REMOTE_WRITE},
		{.name = "max_dest_rd_atomic 0", .op = READ, .bytes = 8, .no_dest_rd_atomic = true},
		{.name = "max_dest_rd_atomic 0", .op = CAS, .bytes = 8, .no_dest_rd_atomic = true},
		{.name = "max_dest_rd_atomic 0", .op = FAA, .bytes = 8, .no_dest_rd_atomic = true},
		{.name = "misaligned by 1", .op = FAA, .bytes = 8, .remote_by = 1},
		{.name = "misaligned by 4", .op = CAS, .bytes = 8, .remote_by = 4},
		{.name = "misaligned, and a bad rkey",
		 .op = CAS,
		 .bytes = 8,
		 .remote_by = 4,
		 .rkey = KEY_WRONG},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fault_row r = rows[i];

		r.receives = 2;
		r.requester = IBV_WC_REM_INV_REQ_ERR;
		r.receive = IBV_WC_WR_FLUSH_ERR;
		r.responder_fails = true;
		r.event = IBV_EVENT_QP_REQ_ERR;
		r.event2 = IBV_EVENT_QP_ACCESS_ERR;
		fault_run(&r);
	}
}

static void run(void)
{
	remote_rows();
	write_imm_without_receive_row();
	invalid_request_rows();
}

int main(int argc, char **argv)
{
	return faults_test(argc, argv, run);
}
