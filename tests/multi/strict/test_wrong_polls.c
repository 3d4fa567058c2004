/* SPDX-License-Identifier: MIT */
/* Programs that look at memory instead of completions, and at keys that only look right. */
#include "wrong_fixture.h"

#define WRITE_SAID "the order of a WRITE's bytes is not defined"
#define READ_SAID  "the order of a READ's bytes is not defined"
#define USED_SAID  "and somebody stored there"
#define RECV_SAID  "in a receive buffer full of garbage"
#define ERROR_SAID "of this receive request's buffer"
#define LKEY_SAID  "is the region's lkey, and its rkey is needed"
#define OLD_SAID   "who still has that, reaches this region"
#define RKEY_SAID  "is the region's rkey, and its lkey is needed"

/* --- polling memory -------------------------------------------------------------- */

static bool poll_write(enum ibv_qp_type type, enum ibv_wr_opcode opcode, unsigned int last)
{
	begin(type);
	NEED(post_recv(1) == 0);
	fill(scene.src, 0, BYTES);
	send_slot(opcode, 0);
	return becomes_set(scene.dst + BYTES - last) && is_filled(scene.dst, 0, BYTES);
}

/* The receiver waits for a completion: of immediate data, or of a message behind the WRITE. */
static bool await_write(enum ibv_qp_type type, enum ibv_wr_opcode opcode)
{
	begin(type);
	NEED(post_recv(1) == 0);
	fill(scene.src, 0, BYTES);
	send_slot(opcode, 0);
	if (opcode == IBV_WR_RDMA_WRITE)
		send_slot(IBV_WR_SEND, 1);
	return (is_received() || type == IBV_QPT_UC) && (is_sent() || type == IBV_QPT_UC) &&
	       (type == IBV_QPT_UC || is_filled(scene.dst, 0, BYTES));
}

#define POLL(name, type, opcode, last)                 \
	static bool name##_wrong(void)                 \
	{                                              \
		return poll_write(type, opcode, last); \
	}                                              \
	static bool name##_right(void)                 \
	{                                              \
		return await_write(type, opcode);      \
	}
POLL(last_byte, IBV_QPT_RC, IBV_WR_RDMA_WRITE, 1)
POLL(last_word, IBV_QPT_RC, IBV_WR_RDMA_WRITE, 8)
POLL(imm, IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, 1)
POLL(uc, IBV_QPT_UC, IBV_WR_RDMA_WRITE, 1)

/* A payload and a trailer, gathered into one WRITE. */
static bool trailer(bool wait)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr;

	begin(IBV_QPT_RC);
	wr = request(IBV_WR_RDMA_WRITE, 0, sge);
	fill(scene.src, 0, BYTES);
	fill(scene.src + BYTES, 1, 8);
	sge[1] = (struct ibv_sge){(uintptr_t)scene.src + BYTES, 8, scene.src_mr->lkey};
	wr.sg_list = sge;
	wr.num_sge = 2;
	NEED(post(&wr) == 0);
	if (wait && !is_sent())
		return false;
	return becomes_set(scene.dst + BYTES + 7) && is_filled(scene.dst, 0, BYTES);
}

static bool trailer_wrong(void)
{
	return trailer(false);
}

static bool trailer_right(void)
{
	return trailer(true);
}

/* Read by the peer at once, as if ibv_post_send() had written it. */
static bool at_once(bool wait)
{
	begin(IBV_QPT_RC);
	fill(scene.src, 0, BYTES);
	send_slot(IBV_WR_RDMA_WRITE, 0);
	return (!wait || is_sent()) && is_filled(scene.dst, 0, BYTES);
}

static bool at_once_wrong(void)
{
	return at_once(false);
}

static bool at_once_right(void)
{
	return at_once(true);
}

/* A flag at the end of a message, which is cleared for the next one. */
static bool clear_flag(enum ibv_wr_opcode opcode, bool wait)
{
	uint8_t *flag = (opcode == IBV_WR_RDMA_READ ? scene.src : scene.dst) + BYTES - 1;

	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	fill(opcode == IBV_WR_RDMA_READ ? scene.dst : scene.src, 0, BYTES);
	send_slot(opcode, 0);
	if ((wait && !is_sent()) || !becomes_set(flag))
		return false;
	*flag = 0;
	return (wait || is_sent()) && !*flag;
}

#define CLEAR(name, opcode)                       \
	static bool name##_wrong(void)            \
	{                                         \
		return clear_flag(opcode, false); \
	}                                         \
	static bool name##_right(void)            \
	{                                         \
		return clear_flag(opcode, true);  \
	}
CLEAR(clear_written, IBV_WR_RDMA_WRITE)
CLEAR(clear_read, IBV_WR_RDMA_READ)
CLEAR(clear_received, IBV_WR_SEND)

/* --- READ ------------------------------------------------------------------------ */

enum how { POLL_LAST, POLL_WORD, USE_NOW, WAIT };

static bool read_slot(enum how how)
{
	begin(IBV_QPT_RC);
	fill(scene.dst, 0, BYTES);
	send_slot(IBV_WR_RDMA_READ, 0);
	if (how == WAIT && !is_sent())
		return false;
	if (how == POLL_LAST || how == POLL_WORD)
		(void)becomes_set(scene.src + BYTES - (how == POLL_LAST ? 1 : 8));
	return is_filled(scene.src, 0, BYTES);
}

static bool read_last_wrong(void)
{
	return read_slot(POLL_LAST);
}

static bool read_word_wrong(void)
{
	return read_slot(POLL_WORD);
}

static bool read_now_wrong(void)
{
	return read_slot(USE_NOW);
}

static bool read_right(void)
{
	return read_slot(WAIT);
}

/* --- receive buffers ------------------------------------------------------------- */

/* Look at a receive buffer when its byte @at is there, or when it is complete. */
static bool receive(size_t at, bool wait)
{
	begin(IBV_QPT_RC);
	NEED(post_recv(0) == 0);
	fill(scene.src, 0, BYTES);
	send_slot(IBV_WR_SEND, 0);
	if (wait ? !is_received() : !becomes_set(scene.dst + at))
		return false;
	return is_filled(scene.dst, 0, BYTES);
}

static bool recv_last_wrong(void)
{
	return receive(BYTES - 1, false);
}

static bool recv_first_wrong(void)
{
	return receive(0, false);
}

static bool recv_right(void)
{
	return receive(0, true);
}

/* What a buffer holds goes on being useful, if its receive request is flushed. */
static bool keep(bool fill_again)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;

	begin(IBV_QPT_RC);
	fill(scene.dst, 5, BYTES);
	NEED(post_recv(0) == 0);
	NEED(ibv_modify_qp(scene.b, &attr, IBV_QP_STATE) == 0);
	NEED(next_wc(scene.recv_cq, &wc) && wc.status == IBV_WC_WR_FLUSH_ERR);
	if (fill_again)
		fill(scene.dst, 5, BYTES);
	return is_filled(scene.dst, 5, BYTES);
}

static bool keep_wrong(void)
{
	return keep(false);
}

static bool keep_right(void)
{
	return keep(true);
}

/* --- keys ------------------------------------------------------------------------ */

static bool one_sided(enum ibv_wr_opcode opcode, uint32_t key)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(opcode, 0, &sge);

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = (uintptr_t)scene.dst;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = key;
	} else {
		wr.wr.rdma.rkey = key;
	}
	NEED(post(&wr) == 0);
	return is_sent();
}

#define KEYS(name, opcode)                                    \
	static bool name##_wrong(void)                        \
	{                                                     \
		begin(IBV_QPT_RC);                            \
		return one_sided(opcode, scene.dst_mr->lkey); \
	}                                                     \
	static bool name##_right(void)                        \
	{                                                     \
		begin(IBV_QPT_RC);                            \
		return one_sided(opcode, scene.dst_mr->rkey); \
	}
KEYS(write_key, IBV_WR_RDMA_WRITE)
KEYS(read_key, IBV_WR_RDMA_READ)
KEYS(atomic_key, IBV_WR_ATOMIC_FETCH_AND_ADD)

/* The memory is registered for the next client. The one before still has the key of its region. */
static bool is_refused(enum ibv_wr_opcode opcode, bool told)
{
	uint32_t old = scene.dst_mr->rkey;

	begin(IBV_QPT_RC);
	NEED(ibv_dereg_mr(scene.dst_mr) == 0);
	scene.dst_mr = ibv_reg_mr(scene.pd, scene.dst, (size_t)SLOTS * BYTES, ALL_ACCESS);
	NEED(scene.dst_mr);
	return !one_sided(opcode, told ? scene.dst_mr->rkey : old);
}

#define OLD_KEY(name, opcode)                     \
	static bool name##_wrong(void)            \
	{                                         \
		return is_refused(opcode, false); \
	}                                         \
	static bool name##_right(void)            \
	{                                         \
		return !is_refused(opcode, true); \
	}
OLD_KEY(old_write, IBV_WR_RDMA_WRITE)
OLD_KEY(old_read, IBV_WR_RDMA_READ)
OLD_KEY(old_atomic, IBV_WR_ATOMIC_FETCH_AND_ADD)

static bool local_keys(uint32_t send_key, uint32_t recv_key)
{
	struct ibv_sge to = {(uintptr_t)scene.dst, BYTES, recv_key}, from;
	struct ibv_recv_wr recv = {.sg_list = &to, .num_sge = 1}, *bad;
	struct ibv_send_wr wr;

	begin(IBV_QPT_RC);
	NEED(ibv_post_recv(scene.b, &recv, &bad) == 0);
	wr = request(IBV_WR_SEND, 0, &from);
	from.lkey = send_key;
	NEED(post(&wr) == 0);
	return is_sent() && is_received();
}

static bool send_key_wrong(void)
{
	return local_keys(scene.src_mr->rkey, scene.dst_mr->lkey);
}

static bool recv_key_wrong(void)
{
	return local_keys(scene.src_mr->lkey, scene.dst_mr->rkey);
}

static bool local_key_right(void)
{
	return local_keys(scene.src_mr->lkey, scene.dst_mr->lkey);
}

/* A buffer that knows one key only, for both. */
static bool one_key(bool both)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	begin(IBV_QPT_RC);
	NEED(post_recv(1) == 0);
	wr = request(IBV_WR_SEND, 0, &sge);
	sge.lkey = both ? scene.src_mr->lkey : scene.src_mr->rkey;
	NEED(post(&wr) == 0);
	if (!is_sent() || !is_received())
		return false;
	wr = request(IBV_WR_RDMA_WRITE, 0, &sge);
	wr.wr.rdma.remote_addr = (uintptr_t)scene.src + BYTES;
	wr.wr.rdma.rkey = scene.src_mr->rkey;
	NEED(post(&wr) == 0);
	return is_sent();
}

static bool one_key_wrong(void)
{
	return one_key(false);
}

static bool one_key_right(void)
{
	return one_key(true);
}

static const struct wrong rows[] = {
	ROW(last_byte, "polls the last byte of a WRITE", WRITE_SAID),
	ROW(last_word, "polls the last word of a WRITE", WRITE_SAID),
	ROW(imm, "polls the last byte of a WRITE with immediate data", WRITE_SAID),
	ROW(uc, "polls the last byte of a WRITE of UC", WRITE_SAID),
	ROW(trailer, "polls the trailer of a WRITE", WRITE_SAID),
	ROW(at_once, "uses what a WRITE wrote before its completion", WRITE_SAID),
	ROW(clear_written, "clears the flag of a WRITE before its completion", USED_SAID),
	ROW(clear_read, "clears the flag of a READ before its completion", USED_SAID),
	ROW(clear_received, "clears the flag of a SEND before its completion", USED_SAID),
	{"polls the last byte of a READ", READ_SAID, read_last_wrong, read_right, NULL},
	{"polls the last word of a READ", READ_SAID, read_word_wrong, read_right, NULL},
	{"uses what a READ read after ibv_post_send()", READ_SAID, read_now_wrong, read_right,
	 NULL},
	{"polls the last byte of a receive buffer", RECV_SAID, recv_last_wrong, recv_right, NULL},
	{"polls the first byte of a receive buffer", RECV_SAID, recv_first_wrong, recv_right, NULL},
	ROW(keep, "keeps data in a buffer that is flushed", ERROR_SAID),
	ROW(write_key, "sends its lkey for a WRITE", LKEY_SAID),
	ROW(read_key, "sends its lkey for a READ", LKEY_SAID),
	ROW(atomic_key, "sends its lkey for an atomic", LKEY_SAID),
	ROW(old_write, "has a WRITE by a dead key refused", OLD_SAID),
	ROW(old_read, "has a READ by a dead key refused", OLD_SAID),
	ROW(old_atomic, "has an atomic by a dead key refused", OLD_SAID),
	{"sends by the rkey", RKEY_SAID, send_key_wrong, local_key_right, NULL},
	{"receives by the rkey", RKEY_SAID, recv_key_wrong, local_key_right, NULL},
	ROW(one_key, "keeps one key of a buffer", RKEY_SAID),
};

int main(int argc, char **argv)
{
	return wrong_run(argc, argv, rows, COUNT_OF(rows));
}
