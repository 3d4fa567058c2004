/* SPDX-License-Identifier: MIT */
/* Faults at the requester: the responder notices nothing. */
#include "faults_fixture.h"

static void requester_rows(void)
{
	static const struct {
		const char *name;
		enum key lkey;
		int64_t by;
		uint32_t bytes;
		bool readable_suffices; /* a fault only for what writes to the buffer */
	} faults[] = {
		{"lkey never given out", KEY_WRONG, 0, 8, false},
		{"lkey 0", KEY_ZERO, 0, 8, false},
		{"lkey of a deregistered region", KEY_DEAD, 0, 8, false},
		{"lkey of another protection domain", KEY_OTHER_PD, 0, 8, false},
		{"buffer ends one byte behind the region", KEY_FULL,
		 (int64_t)(FULL_END - LOCAL_AT - 7), 8, false},
		{"buffer begins before the region", KEY_FULL, -(int64_t)LOCAL_AT - 1, 8, false},
		{"buffer far away", KEY_FULL, INT64_MIN, 8, false},
		{"offset in a zero-based region beyond its end", KEY_ZERO_BASED,
		 (int64_t)(FULL_END - LOCAL_AT), 8, false},
		{"buffer that is no longer there", KEY_GONE, 0, 8, false},
		{"large buffer that is no longer there", KEY_GONE, 0, 40000, false},
		{"buffer without LOCAL_WRITE", KEY_READ_ONLY, 0, 8, true},
	};
	static const enum ibv_wr_opcode ops[] = {SEND, SENDI, WRITE, WRITI, READ, CAS, FAA};

	for (size_t f = 0; f < COUNT_OF(faults); f++) {
		for (size_t o = 0; o < COUNT_OF(ops); o++) {
			bool fetches = ops[o] == READ || request_is_atomic(ops[o]);
			struct fault_row r = {
				.name = faults[f].name,
				.op = ops[o],
				.bytes = request_is_atomic(ops[o]) ? 8 : faults[f].bytes,
				.lkey = faults[f].lkey,
				.local_by = faults[f].by,
				.receives = 2,
				.requester = IBV_WC_LOC_PROT_ERR,
				.receive = NONE,
				.event = NONE,
				.may_write = request_is_atomic(ops[o]),
			};

			if (!faults[f].readable_suffices || fetches)
				fault_run(&r);
		}
	}
}

static void requester_length_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "buffer of 4 bytes", .op = FAA, .bytes = 4},
		{.name = "buffer of 9 bytes", .op = FAA, .bytes = 9},
		{.name = "two buffers of 8 bytes", .op = CAS, .bytes = 8, .elements = 2},
		{.name = "no buffer", .op = CAS, .elements = -1},
		{.name = "message of 3 GiB",
		 .op = SEND,
		 .bytes = 0x60000000,
		 .elements = 2,
		 .recv_bytes = 8},
		{.name = "message of 60 GiB",
		 .op = WRITE,
		 .bytes = 0x7fffffff,
		 .elements = 32,
		 .recv_bytes = 8},
		{.name = "message of 4 GiB, which is 0 in 32 bits",
		 .op = READ,
		 .bytes = 0x80000000,
		 .elements = 2,
		 .recv_bytes = 8},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		struct fault_row r = rows[i];

		r.receives = 2;
		r.requester = IBV_WC_LOC_LEN_ERR;
		r.receive = r.event = NONE;
		fault_run(&r);
	}
}

static void run(void)
{
	requester_rows();
	requester_length_rows();
}

int main(int argc, char **argv)
{
	return faults_test(argc, argv, run);
}
