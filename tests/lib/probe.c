/* SPDX-License-Identifier: MIT */
#include "lib/newer_verbs.h"
#include "lib/probe.h"

#include "lib/expect.h"

const char *probe_name(enum ibv_wr_opcode op)
{
	static const char *const name[] = {
		[IBV_WR_RDMA_WRITE] = "WRITE",
		[IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
		[IBV_WR_SEND] = "SEND",
		[IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
		[IBV_WR_RDMA_READ] = "READ",
		[IBV_WR_ATOMIC_CMP_AND_SWP] = "CMP_AND_SWP",
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_AND_ADD",
		[IBV_WR_LOCAL_INV] = "LOCAL_INV",
		[IBV_WR_BIND_MW] = "BIND_MW",
		[IBV_WR_SEND_WITH_INV] = "SEND_WITH_INV",
		[WR_ATOMIC_WRITE] = "ATOMIC_WRITE",
	};

	return (size_t)op < COUNT_OF(name) && name[op] ? name[op] : "?";
}

void probe_open(struct side *from, struct side *to, int qp)
{
	pair_create(from, qp, to, qp, NULL);
	pair_connect(from, qp, NULL, to, qp, NULL);
}

void probe_close(struct side *from, struct side *to, int qp)
{
	pair_destroy(from, qp, to, qp);
}

static void forget(struct side *s)
{
	struct ibv_wc wc[NODE_LIST];

	while (side_async(s, 0).any)
		;
	for (int cq = 0; cq < 2; cq++)
		while (side_poll(s, cq, NODE_LIST, 0, wc) > 0)
			;
}

void probe_reconnect(struct side *from, struct side *to, int qp)
{
	if (side_set_state(from, qp, IBV_QPS_RESET) || side_set_state(to, qp, IBV_QPS_RESET))
		DIE("to RESET");
	forget(from);
	forget(to);
	pair_connect(from, qp, NULL, to, qp, NULL);
}

enum ibv_wc_status probe_request(struct side *from, struct side *to, int qp,
				 const struct node_send *request)
{
	struct node_posted posted = side_post_send(from, qp, request, 1);
	struct ibv_wc wc;

	if (!EXPECT(posted.ret == 0, "ibv_post_send: %d", posted.ret))
		return IBV_WC_GENERAL_ERR;
	if (side_poll(from, 0, 1, PROBE_PATIENCE, &wc) != 1)
		DIE("no completion of a %s", probe_name(request->opcode));
	if (wc.status != IBV_WC_SUCCESS)
		probe_reconnect(from, to, qp);
	return wc.status;
}

enum ibv_wc_status probe(struct side *from, struct side *to, int qp, enum ibv_wr_opcode op,
			 uint64_t addr, uint32_t rkey, uint32_t bytes)
{
	struct node_send request = {
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = addr,
		.rkey = rkey,
		.compare_add = 1,
		.num_sge = bytes > 0,
		.sge = {side_sge(from, KEY_FULL, PROBE_AT, bytes)},
	};

	if (op == IBV_WR_RDMA_WRITE)
		side_fill(from, PROBE_AT, bytes, PROBE_SEED, 0);
	return probe_request(from, to, qp, &request);
}

void probe_messages(struct side *from, struct side *to, int qp, int count, unsigned int flags)
{
	struct node_send s = {.opcode = IBV_WR_SEND, .flags = flags | IBV_SEND_SIGNALED};
	struct ibv_wc wc;

	for (int i = 0; i < count; i++) {
		side_recv_one(to, qp, 1, 0, 8);
		EXPECT(side_post_send(from, qp, &s, 1).ret == 0, "ibv_post_send");
		EXPECT(side_poll(from, 0, 1, PROBE_PATIENCE, &wc) == 1, "not sent");
	}
}
