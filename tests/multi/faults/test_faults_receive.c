/* SPDX-License-Identifier: MIT */
/* Receives that cannot take the message. */
#include "faults_fixture.h"

static void short_receive_rows(void)
{
	static const struct {
		uint32_t sent, room;
	} sizes[] = {{1, UINT32_MAX}, {9, 8}, {65, 64}, {1000, 999}, {16385, 16384}, {70000, 10}};
	static const enum ibv_wr_opcode ops[] = {SEND, SENDI};

	for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(ops); i++) {
		const struct fault_row r = {
			.name = "receive buffer too short",
			.op = ops[i % COUNT_OF(ops)],
			.bytes = sizes[i / 2].sent,
			.recv_bytes = sizes[i / 2].room,
			.receives = 2,
			.requester = IBV_WC_REM_INV_REQ_ERR,
			.receive = IBV_WC_LOC_LEN_ERR,
			.responder_fails = true,
			.event = NONE,
			.may_write = true,
		};

		fault_run(&r);
	}
}

/*
 * Between processes of a host a small message is placed when its completion is polled: only then is
 * the buffer missed.
 */
static bool small_are_placed_by_poll(void)
{
	return !b.node && !on_the_wire();
}

static bool placed_by_poll(const struct fault_row *r)
{
	return small_are_placed_by_poll() && r->recv_key == KEY_GONE && r->bytes <= 16384;
}

static void buffer_missed_late(uint32_t bytes)
{
	const struct fault_row r = {
		.name = "receive buffer is missed when the completion is polled",
		.op = SEND,
		.bytes = bytes,
		.recv_key = KEY_GONE,
		.receives = 1,
		.requester = IBV_WC_SUCCESS};
	struct node_send send;
	struct ibv_wc wc[2];

	row("[%s] %s of %u bytes", faults_mode, r.name, bytes);
	send = fault_begin(&r);
	EXPECT(side_post_send(&a, 0, &send, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
	       "the sender has success");
	EXPECT(side_poll(&b, 1, 2, 100, wc) == 1 && wc[0].wr_id == 11 &&
		       wc[0].status == IBV_WC_LOC_PROT_ERR,
	       "the receiver's completion");
	EXPECT(side_state(&b, 0) == IBV_QPS_ERR, "responder in state %d", (int)side_state(&b, 0));
	fault_end();
}

static void bad_receive_rows(void)
{
	static const struct {
		const char *name;
		enum key key;
		int64_t by;
	} faults[] = {
		{"receive lkey never given out", KEY_WRONG, 0},
		{"receive lkey 0", KEY_ZERO, 0},
		{"receive lkey of a deregistered region", KEY_DEAD, 0},
		{"receive lkey of another protection domain", KEY_OTHER_PD, 0},
		{"receive buffer without LOCAL_WRITE", KEY_READ_ONLY, 0},
		{"receive buffer behind the region", KEY_FULL, (int64_t)FULL_END},
		{"receive buffer before the region", KEY_FULL, -(int64_t)RECV_AT - 1},
		{"receive buffer that is no longer there", KEY_GONE, 0},
	};
	static const uint32_t sizes[] = {8, 1000, 16384, 40000};

	for (size_t i = 0; i < COUNT_OF(faults) * COUNT_OF(sizes); i++) {
		const struct fault_row r = {
			.name = faults[i / 4].name,
			.op = i % 2 ? SEND : SENDI,
			.bytes = sizes[i % 4],
			.recv_key = faults[i / 4].key,
			.recv_by = faults[i / 4].by,
			.receives = 2,
			.requester = IBV_WC_REM_OP_ERR,
			.receive = IBV_WC_LOC_PROT_ERR,
			.responder_fails = true,
			.event = NONE,
			.may_write = true,
		};

		if (!placed_by_poll(&r))
			fault_run(&r);
	}
}

static void receive_rows(void)
{
	static const struct fault_row rows[] = {
		{.name = "short receive with a bad lkey: either",
		 .op = SEND,
		 .bytes = 100,
		 .recv_bytes = 50,
		 .recv_key = KEY_WRONG,
		 .receives = 2,
		 .requester = IBV_WC_REM_INV_REQ_ERR,
		 .requester2 = IBV_WC_REM_OP_ERR,
		 .receive = IBV_WC_LOC_LEN_ERR,
		 .receive2 = IBV_WC_LOC_PROT_ERR,
		 .responder_fails = true,
		 .event = NONE,
		 .may_write = true},
		{.name = "no receive posted",
		 .op = SEND,
		 .bytes = 8,
		 .requester = IBV_WC_RNR_RETRY_EXC_ERR,
		 .event = NONE},
		{.name = "no receive posted",
		 .op = SENDI,
		 .bytes = 40000,
		 .requester = IBV_WC_RNR_RETRY_EXC_ERR,
		 .event = NONE},
		{.name = "no receive posted",
		 .op = WRITI,
		 .bytes = 8,
		 .requester = IBV_WC_RNR_RETRY_EXC_ERR,
		 .event = NONE,
		 .may_write = true},
		{.name = "key that cannot be invalidated: no answer",
		 .op = IBV_WR_SEND_WITH_INV,
		 .bytes = 8,
		 .receives = 2,
		 .requester = IBV_WC_RETRY_EXC_ERR,
		 .receive = ANY,
		 .responder_fails = true,
		 .event = NONE,
		 .may_write = true},
	};

	for (size_t i = 0; i < COUNT_OF(rows); i++)
		fault_run(&rows[i]);
}

static void run(void)
{
	short_receive_rows();
	bad_receive_rows();
	for (uint32_t bytes = 8; bytes <= 16384 && small_are_placed_by_poll(); bytes *= 16)
		buffer_missed_late(bytes);
	receive_rows();
}

int main(int argc, char **argv)
{
	return faults_test(argc, argv, run);
}
