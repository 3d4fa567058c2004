/* SPDX-License-Identifier: MIT */
/* Programs that share a word or a buffer with the device, expect its pages there, or its order. */
#include "lib/to_rts.h"
#include "wrong_fixture.h"

#define PAGED_SAID "its memory is on demand, and had to be paged in"
#define FENCE_SAID "without a fence, the two have no order"
#define LENT_SAID  "in a receive buffer full of garbage"
#define STORE_SAID "between its read and its write the program stored to these 8 B"

/* --- atomics --------------------------------------------------------------------- */

#define ROUNDS 64u
#define LOOKS  1000u

static void change(uint64_t *word, enum ibv_wr_opcode opcode, uint64_t compare_add)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(opcode, 0, &sge);

	sge.length = sizeof(*word);
	wr.wr.atomic.remote_addr = (uintptr_t)word;
	wr.wr.atomic.rkey = scene.dst_mr->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = 2;
	NEED(post(&wr) == 0);
}

static bool is_done(void)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(scene.send_cq, 1, &wc) == 0)
		return false;
	NEED(wc.status == IBV_WC_SUCCESS);
	return true;
}

/* The device and the processor count in one word, or in one each. */
static bool count(bool apart)
{
	uint64_t *word = (uint64_t *)scene.dst, *own = apart ? word + 1 : word, added = 0;

	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		change(word, IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
		do {
			__atomic_fetch_add(own, 1, __ATOMIC_SEQ_CST);
			added++;
		} while (!is_done());
	}
	return *word + (apart ? *own : 0) == ROUNDS + added;
}

static bool count_wrong(void)
{
	return count(false);
}

static bool count_right(void)
{
	return count(true);
}

/* The processor takes a lock, and looks whether it keeps it. */
static bool keeps_lock(uint64_t *word)
{
	uint64_t is = 0;
	bool kept = true;

	if (!__atomic_compare_exchange_n(word, &is, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return true; /* it has not taken it */
	for (unsigned int i = 0; i < LOOKS; i++)
		kept = kept && __atomic_load_n(word, __ATOMIC_SEQ_CST) == 1;
	is = 1;
	(void)__atomic_compare_exchange_n(word, &is, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return kept;
}

/* A lock that peers take, and the processor too; or only peers. */
static bool lock(bool both)
{
	uint64_t *word = (uint64_t *)scene.dst;
	bool kept = true;

	begin(IBV_QPT_RC);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		*word = 0;
		change(word, IBV_WR_ATOMIC_CMP_AND_SWP, 0);
		do
			kept = kept && (!both || keeps_lock(word));
		while (!is_done());
	}
	return kept && (both || *word == 2);
}

static bool lock_wrong(void)
{
	return lock(true);
}

static bool lock_right(void)
{
	return lock(false);
}

/* --- pages on demand ------------------------------------------------------------- */

/* The peer's memory is. */
static void begin_on_demand(void)
{
	scene.dst_mr = ibv_reg_mr(scene.pd, scene.dst, (size_t)SLOTS * BYTES,
				  ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
	NEED(scene.dst_mr);
	begin(IBV_QPT_RC);
}

/* If it is not ready, try again so often. */
static bool on_demand(enum ibv_wr_opcode opcode, uint8_t times)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	begin_on_demand();
	NEED(ibv_modify_qp(scene.a, &attr, IBV_QP_STATE) == 0);
	attr = attr_to(scene.b);
	attr.rnr_retry = times;
	NEED(connect_qp(scene.a, attr) == 0);
	NEED(post_recv(0) == 0);
	send_slot(opcode, 0);
	return is_sent() && (opcode != IBV_WR_SEND || is_received());
}

#define ON_DEMAND(name, opcode)              \
	static bool name##_wrong(void)       \
	{                                    \
		return on_demand(opcode, 0); \
	}                                    \
	static bool name##_right(void)       \
	{                                    \
		return on_demand(opcode, 7); \
	}
ON_DEMAND(send, IBV_WR_SEND)
ON_DEMAND(read, IBV_WR_RDMA_READ)

/* Sends what is in the buffer that is to receive it, or in another one. */
static bool send_lent(bool lent)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	begin_on_demand();
	wr = request(IBV_WR_SEND, 0, &sge);
	if (lent)
		sge = (struct ibv_sge){(uintptr_t)scene.dst, BYTES, scene.dst_mr->lkey};
	fill((void *)(uintptr_t)sge.addr, 0, BYTES);
	NEED(post_recv(0) == 0 && post(&wr) == 0);
	return is_sent() && is_received() && is_filled(scene.dst, 0, BYTES);
}

static bool lent_wrong(void)
{
	return send_lent(true);
}

static bool lent_right(void)
{
	return send_lent(false);
}

/* --- order ----------------------------------------------------------------------- */

/* A READ, and behind it a WRITE of slot @from to the peer's slot @to; both at once. */
static bool read_write(unsigned int from, unsigned int to, int flags)
{
	struct ibv_send_wr wr[2];
	struct ibv_sge sge[2];

	begin(IBV_QPT_RC);
	wr[0] = request(IBV_WR_RDMA_READ, 0, &sge[0]);
	wr[0].next = &wr[1];
	wr[1] = request(IBV_WR_RDMA_WRITE, from, &sge[1]);
	wr[1].wr.rdma.remote_addr = (uintptr_t)scene.dst + (size_t)to * BYTES;
	wr[1].send_flags |= (unsigned int)flags;
	fill(scene.dst, 3, BYTES);
	fill(scene.src + BYTES, 4, BYTES);
	NEED(post(wr) == 0);
	return is_sent() && is_sent();
}

/* What has been read is written to somebody else. */
static bool hand_on_wrong(void)
{
	return read_write(0, 1, 0) && is_filled(scene.dst + BYTES, 3, BYTES);
}

static bool hand_on_right(void)
{
	return read_write(0, 1, IBV_SEND_FENCE) && is_filled(scene.dst + BYTES, 3, BYTES);
}

/* What has been read is overwritten. */
static bool exchange_wrong(void)
{
	return read_write(1, 0, 0) && is_filled(scene.src, 3, BYTES);
}

static bool exchange_right(void)
{
	return read_write(1, 0, IBV_SEND_FENCE) && is_filled(scene.src, 3, BYTES);
}

static const struct wrong rows[] = {
	ROW(count, "counts in a word in which the device does", STORE_SAID),
	ROW(lock, "takes a lock that the device takes", STORE_SAID),
	ROW(send, "does not try again to send to memory on demand", PAGED_SAID),
	ROW(read, "does not try again to READ memory on demand", PAGED_SAID),
	ROW(lent, "sends from a buffer that is posted to receive", LENT_SAID),
	ROW(hand_on, "writes what it reads, without a fence", FENCE_SAID),
	ROW(exchange, "overwrites what it reads, without a fence", FENCE_SAID),
};

int main(int argc, char **argv)
{
	return wrong_run(argc, argv, rows, COUNT_OF(rows));
}
