/* SPDX-License-Identifier: MIT */
/* Programs that change what they send before the device has read it. */
#include "lib/to_rts.h"
#include "wrong_fixture.h"

#define SAID "changed these bytes within"

/* Send slot 0, and change it at once or when it is sent. */
static bool send_and_clear(enum ibv_qp_type type, enum ibv_wr_opcode opcode, bool wait)
{
	bool datagram = type == IBV_QPT_UD;
	size_t bytes = datagram ? BYTES / 8 : BYTES;

	begin(type);
	fill(scene.src, 0, BYTES);
	if (opcode != IBV_WR_RDMA_WRITE)
		NEED(post_recv(0) == 0);
	send_slot(opcode, 0);
	if (wait && !is_sent())
		return false;
	memset(scene.src, 0, BYTES);
	if (!wait && !is_sent())
		return false;
	/* What is lost is not wrong. */
	if (opcode != IBV_WR_RDMA_WRITE && !is_received())
		return type != IBV_QPT_RC;
	return is_filled(scene.dst + (datagram ? GRH : 0), 0, bytes);
}

#define SEND_AND_CLEAR(name, type, opcode)                  \
	static bool name##_wrong(void)                      \
	{                                                   \
		return send_and_clear(type, opcode, false); \
	}                                                   \
	static bool name##_right(void)                      \
	{                                                   \
		return send_and_clear(type, opcode, true);  \
	}
SEND_AND_CLEAR(send, IBV_QPT_RC, IBV_WR_SEND)
SEND_AND_CLEAR(send_imm, IBV_QPT_RC, IBV_WR_SEND_WITH_IMM)
SEND_AND_CLEAR(write, IBV_QPT_RC, IBV_WR_RDMA_WRITE)
SEND_AND_CLEAR(write_imm, IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM)
SEND_AND_CLEAR(uc_send, IBV_QPT_UC, IBV_WR_SEND)
SEND_AND_CLEAR(ud_send, IBV_QPT_UD, IBV_WR_SEND)

/* One buffer for all messages, filled again for each. */
static bool loop(bool wait)
{
	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < 4; i++)
		NEED(post_recv(i) == 0);
	for (unsigned int i = 0; i < 4; i++) {
		fill(scene.src, i, BYTES);
		send_slot(IBV_WR_SEND, 0);
		if (wait && !is_sent())
			return false;
	}
	for (unsigned int i = 0; i < 4; i++)
		if (!is_received() || !is_filled(scene.dst + (size_t)i * BYTES, i, BYTES))
			return false;
	return true;
}

static bool loop_wrong(void)
{
	return loop(false);
}

static bool loop_right(void)
{
	return loop(true);
}

/* A ring of two buffers: the completion of the last but one message is not enough. */
static bool ring(unsigned int in_flight)
{
	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < 5; i++)
		NEED(post_recv(i) == 0);
	for (unsigned int i = 0; i < 5; i++) {
		if (i >= in_flight && !is_sent())
			return false;
		fill(scene.src + (size_t)(i % 2) * BYTES, i, BYTES);
		send_slot(IBV_WR_SEND, i % 2);
	}
	for (unsigned int i = 0; i < 5; i++)
		if (!is_received() || !is_filled(scene.dst + (size_t)i * BYTES, i, BYTES))
			return false;
	return true;
}

static bool ring_wrong(void)
{
	return ring(3);
}

static bool ring_right(void)
{
	return ring(2);
}

/* A pool whose blocks come back when the message is posted, or when it is sent. */
static unsigned int pool[2], free_blocks;

static uint8_t *take_block(unsigned int *block)
{
	*block = pool[--free_blocks];
	return scene.src + (size_t)*block * BYTES;
}

static bool use_pool(bool wait)
{
	unsigned int block;

	begin(IBV_QPT_RC);
	pool[free_blocks++] = 0;
	pool[free_blocks++] = 1;
	for (unsigned int i = 0; i < 2; i++)
		NEED(post_recv(i) == 0);
	for (unsigned int i = 0; i < 2; i++) {
		fill(take_block(&block), i, BYTES);
		send_slot(IBV_WR_SEND, block);
		if (!wait || is_sent())
			pool[free_blocks++] = block;
	}
	for (unsigned int i = 0; i < 2; i++)
		if (!is_received() || !is_filled(scene.dst + (size_t)i * BYTES, i, BYTES))
			return false;
	return true;
}

static bool pool_wrong(void)
{
	return use_pool(false);
}

static bool pool_right(void)
{
	return use_pool(true);
}

/* A function's own array is another function's soon. A sanitizer would keep them apart. */
#define ON_STACK __attribute__((noinline, no_sanitize("address")))

static ON_STACK struct ibv_mr *send_local(bool is_inline)
{
	uint8_t message[64];
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(IBV_WR_SEND, 0, &sge);
	struct ibv_mr *mr = ibv_reg_mr(scene.pd, message, sizeof(message), 0);

	NEED(mr);
	fill(message, 7, sizeof(message));
	sge = (struct ibv_sge){(uintptr_t)message, sizeof(message), mr->lkey};
	wr.send_flags |= is_inline ? IBV_SEND_INLINE : 0;
	NEED(post(&wr) == 0);
	return mr;
}

static ON_STACK void use_stack(void)
{
	volatile uint8_t others[4096];

	for (size_t i = 0; i < sizeof(others); i++)
		others[i] = 0;
}

static bool stack(bool is_inline)
{
	struct ibv_mr *mr;

	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	mr = send_local(is_inline);
	use_stack();
	return is_sent() && is_received() && is_filled(scene.dst, 7, 64) && !ibv_dereg_mr(mr);
}

static bool stack_wrong(void)
{
	return stack(false);
}

static bool stack_right(void)
{
	return stack(true);
}

/* One message to two peers: the second one's completion is not the first one's. */
static bool two_peers(bool both)
{
	struct ibv_qp *first;
	struct ibv_cq *first_cq = scene.send_cq;
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	first = scene.a;
	scene.send_cq = ibv_create_cq(scene.ctx, 8, NULL, NULL, 0);
	NEED(scene.send_cq);
	begin(IBV_QPT_RC);
	NEED(post_recv(1) == 0);
	fill(scene.src, 0, BYTES);
	send_slot(IBV_WR_SEND, 0);
	scene.a = first;
	send_slot(IBV_WR_SEND, 0);
	if (!is_sent() || (both && !next_wc(first_cq, &wc)))
		return false;
	memset(scene.src, 0, BYTES);
	return (both || next_wc(first_cq, &wc)) && is_received() && is_received() &&
	       is_filled(scene.dst, 0, BYTES) && is_filled(scene.dst + BYTES, 0, BYTES);
}

static bool two_peers_wrong(void)
{
	return two_peers(false);
}

static bool two_peers_right(void)
{
	return two_peers(true);
}

/* Of two elements, the header is one for all messages. */
static bool gather(bool own_header)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr;
	uint8_t *header;

	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < 2; i++)
		NEED(post_recv(i) == 0);
	for (unsigned int i = 0; i < 2; i++) {
		wr = request(IBV_WR_SEND, 1 + i, &sge[1]);
		header = scene.src + (own_header ? (size_t)i * 64 : 0);
		fill(header, i, 64);
		fill(scene.src + (size_t)(1 + i) * BYTES, i, 64);
		sge[0] = (struct ibv_sge){(uintptr_t)header, 64, scene.src_mr->lkey};
		sge[1].length = 64;
		wr.sg_list = sge;
		wr.num_sge = 2;
		NEED(post(&wr) == 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		if (!is_received() || !is_filled(scene.dst + (size_t)i * BYTES, i, 128))
			return false;
	return true;
}

static bool gather_wrong(void)
{
	return gather(false);
}

static bool gather_right(void)
{
	return gather(true);
}

/* A word that counts, in the message that is sent, and beside it. */
static bool count(bool copy)
{
	uint64_t *word = (uint64_t *)scene.src, *sent = word, got;

	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < 2; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = request(IBV_WR_SEND, 0, &sge);

		NEED(post_recv(i) == 0);
		++*word;
		sent = copy ? word + 1 + i : word;
		*sent = *word;
		sge.addr = (uintptr_t)sent;
		sge.length = 8;
		NEED(post(&wr) == 0);
	}
	for (unsigned int i = 0; i < 2; i++) {
		if (!is_received())
			return false;
		memcpy(&got, scene.dst + (size_t)i * BYTES, 8);
		if (got != 1 + i)
			return false;
	}
	return true;
}

static bool count_wrong(void)
{
	return count(false);
}

static bool count_right(void)
{
	return count(true);
}

/* ibv_wr_set_sge() names the buffer, ibv_wr_set_inline_data() copies it. */
static bool build(bool is_inline)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = scene.send_cq,
		.recv_cq = scene.recv_cq,
		.cap = {5, 5, 1, 1, 64},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = scene.pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp_ex *ex;
	struct ibv_qp *plain;

	begin(IBV_QPT_RC);
	plain = scene.b;
	scene.b = ibv_create_qp_ex(scene.ctx, &attr);
	NEED(scene.b);
	ex = ibv_qp_to_qp_ex(scene.b);
	NEED(connect_qp(scene.b, attr_to(scene.b)) == 0 && ex && plain);
	NEED(post_recv(0) == 0);
	fill(scene.src, 3, 64);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	if (is_inline)
		ibv_wr_set_inline_data(ex, scene.src, 64);
	else
		ibv_wr_set_sge(ex, scene.src_mr->lkey, (uintptr_t)scene.src, 64);
	NEED(ibv_wr_complete(ex) == 0);
	memset(scene.src, 0, 64);
	return is_sent() && is_received() && is_filled(scene.dst, 3, 64);
}

static bool build_wrong(void)
{
	return build(false);
}

static bool build_right(void)
{
	return build(true);
}

static const struct wrong rows[] = {
	ROW(send, "clears a message after ibv_post_send()", SAID),
	ROW(send_imm, "clears a message with immediate data", SAID),
	ROW(write, "clears what an RDMA WRITE takes", SAID),
	ROW(write_imm, "clears what an RDMA WRITE with immediate data takes", SAID),
	ROW(uc_send, "clears a message of UC", SAID),
	ROW(ud_send, "clears a datagram", SAID),
	ROW(loop, "fills one buffer in a loop", SAID),
	ROW(ring, "has three requests in flight, and two buffers", SAID),
	ROW(pool, "gives a block back when it is posted", SAID),
	ROW(stack, "sends a function's own array", SAID),
	ROW(two_peers, "sends one buffer to two peers, and waits for one", SAID),
	ROW(gather, "has one header for all messages", SAID),
	ROW(count, "counts in the message itself", SAID),
	ROW(build, "changes what ibv_wr_set_sge() named", SAID),
};

int main(int argc, char **argv)
{
	return wrong_run(argc, argv, rows, COUNT_OF(rows));
}
