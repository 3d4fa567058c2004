/* SPDX-License-Identifier: MIT */
/* Programs that use more of a device than they asked for, or only what one device has. */
#include "lib/to_rts.h"
#include "wrong_fixture.h"

#define ASKED	  5u
#define LOST_SAID "lost on its way, and to be sent again after the timeout"

/* Post @n sends before any is complete. */
static bool post_sends(unsigned int n)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	unsigned int posted = 0;

	for (unsigned int i = 0; i < n; i++) {
		wr = request(IBV_WR_RDMA_WRITE, 0, &sge);
		posted += post(&wr) == 0;
	}
	return posted == n;
}

static bool post_recvs(unsigned int n)
{
	unsigned int posted = 0;

	for (unsigned int i = 0; i < n; i++)
		posted += post_recv(i % SLOTS) == 0;
	return posted == n;
}

static bool post_inline(uint32_t bytes)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 0, &sge);

	wr.send_flags |= IBV_SEND_INLINE;
	sge.length = bytes;
	return post(&wr) == 0 && is_sent();
}

static struct ibv_qp_cap asked(void)
{
	struct ibv_qp_cap cap = {ASKED, ASKED, 1, 1, 0};

	begin_with(IBV_QPT_RC, &cap);
	return cap;
}

static bool sends_wrong(void)
{
	asked();
	return post_sends(8);
}

static bool sends_right(void)
{
	return post_sends(asked().max_send_wr);
}

static bool recvs_wrong(void)
{
	asked();
	return post_recvs(8);
}

static bool recvs_right(void)
{
	return post_recvs(asked().max_recv_wr);
}

static bool inline_data_wrong(void)
{
	asked();
	return post_inline(64);
}

static bool inline_data_right(void)
{
	return post_inline(asked().max_inline_data);
}

/* The queue is one larger than asked for: no, it need not be. */
static bool one_more_wrong(void)
{
	asked();
	return post_sends(ASKED + 1);
}

static bool one_more_right(void)
{
	asked();
	return post_sends(ASKED);
}

/* Unsignalled, and reaped by the eighth's completion; or by the fourth's. */
static bool unsignalled(unsigned int every)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr;

	asked();
	for (unsigned int i = 1; i <= 16; i++) {
		wr = request(IBV_WR_RDMA_WRITE, 0, &sge);
		wr.send_flags = i % every ? 0 : IBV_SEND_SIGNALED;
		if (post(&wr) || (i % every == 0 && !is_sent()))
			return false;
	}
	return true;
}

static bool unsignalled_wrong(void)
{
	return unsignalled(8);
}

static bool unsignalled_right(void)
{
	return unsignalled(4);
}

/* Have 4 READs and atomics in flight; or as many as the device has, though 4 would be nice. */
static bool read_atomic(bool ask)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct ibv_device_attr device;

	begin(IBV_QPT_RC);
	NEED(ibv_query_device(scene.ctx, &device) == 0);
	NEED(ibv_modify_qp(scene.a, &attr, IBV_QP_STATE) == 0);
	attr = attr_to(scene.b);
	attr.max_rd_atomic = 4;
	if (ask && device.max_qp_init_rd_atom < attr.max_rd_atomic)
		attr.max_rd_atomic = (uint8_t)device.max_qp_init_rd_atom;
	if (connect_qp(scene.a, attr))
		return false;
	send_slot(IBV_WR_RDMA_READ, 0);
	return is_sent();
}

static bool read_atomic_wrong(void)
{
	return read_atomic(false);
}

static bool read_atomic_right(void)
{
	return read_atomic(true);
}

/* Gather 8 elements; or as many as the device has, though 8 would be nice. */
static bool gather(bool ask)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = scene.send_cq,
		.recv_cq = scene.recv_cq,
		.cap = {ASKED, ASKED, 8, 1, 0},
	};
	struct ibv_device_attr device;

	NEED(ibv_query_device(scene.ctx, &device) == 0);
	if (ask && device.max_sge < 8)
		init.cap.max_send_sge = (uint32_t)device.max_sge;
	return ibv_create_qp(scene.pd, &init) != NULL;
}

static bool gather_wrong(void)
{
	return gather(false);
}

static bool gather_right(void)
{
	return gather(true);
}

/* Send on, one request after the other, over a network that loses nothing; or may. */
static bool send_many(uint8_t timeout, uint8_t retries)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	begin(IBV_QPT_RC);
	NEED(ibv_modify_qp(scene.a, &attr, IBV_QP_STATE) == 0);
	attr = attr_to(scene.b);
	attr.timeout = timeout;
	attr.retry_cnt = retries;
	NEED(connect_qp(scene.a, attr) == 0);
	for (unsigned int i = 0; i < 40; i++) {
		send_slot(IBV_WR_RDMA_WRITE, 0);
		if (!is_sent())
			return false;
	}
	return true;
}

static bool no_timeout_wrong(void)
{
	return send_many(0, 7);
}

static bool no_retry_wrong(void)
{
	return send_many(8, 0);
}

static bool send_many_right(void)
{
	return send_many(8, 7);
}

/* Index 0 of the GID table, or one that is not empty. */
static bool gid(uint8_t row)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};

	begin(IBV_QPT_RC);
	NEED(ibv_modify_qp(scene.a, &attr, IBV_QP_STATE) == 0);
	attr = attr_to(scene.b);
	attr.ah_attr.grh.sgid_index = row;
	return connect_qp(scene.a, attr) == 0;
}

static bool gid_wrong(void)
{
	return gid(0);
}

static bool gid_right(void)
{
	return gid(scene.gid_row);
}

/* A LID in a byte, as small ones fit; or in two. */
static bool lid(uint16_t bits)
{
	struct ibv_ah_attr attr = {.port_num = 1};
	struct ibv_port_attr port;

	NEED(ibv_query_port(scene.ctx, 1, &port) == 0);
	begin(IBV_QPT_UD);
	attr.dlid = port.lid & bits;
	scene.ah = ibv_create_ah(scene.pd, &attr);
	NEED(scene.ah);
	for (unsigned int i = 0; i < 5; i++) { /* some may be lost */
		NEED(post_recv(0) == 0);
		send_slot(IBV_WR_SEND, 0);
	}
	return is_received();
}

static bool lid_wrong(void)
{
	return lid(0xff);
}

static bool lid_right(void)
{
	return lid(0xffff);
}

static const struct wrong rows[] = {
	ROW(sends, "posts 8 sends, and asked for 5", "5"),
	ROW(one_more, "posts 6 sends, and asked for 5", "5"),
	ROW(unsignalled, "signals each 8th of 5 sends", "5"),
	ROW(recvs, "posts 8 receive requests, and asked for 5", "5"),
	ROW(read_atomic, "has 4 READs in flight, and has not asked",
	    "max_rd_atomic 4 is above the device's 1"),
	ROW(gather, "gathers 8 elements, and has not asked",
	    "max_send_sge 8 is above the device's"),
	ROW(inline_data, "sends 64 B inline, and asked for none", "0"),
	{"has no timeout", LOST_SAID, no_timeout_wrong, send_many_right, NULL},
	{"never sends again", LOST_SAID, no_retry_wrong, send_many_right, NULL},
	ROW(gid, "takes row 0 of the GID table", "row 0 of the GID table is empty"),
	{"keeps a LID in a byte", NULL, lid_wrong, lid_right, ":link=infiniband"},
};

int main(int argc, char **argv)
{
	return wrong_run(argc, argv, rows, COUNT_OF(rows));
}
