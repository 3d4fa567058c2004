/* SPDX-License-Identifier: MIT */
/* Programs that use more of a queue pair than they asked for. */
#include "wrong_fixture.h"

#define ASKED 5u

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

static const struct wrong rows[] = {
	ROW(sends, "posts 8 sends, and asked for 5", "5"),
	ROW(one_more, "posts 6 sends, and asked for 5", "5"),
	ROW(unsignalled, "signals each 8th of 5 sends", "5"),
	ROW(recvs, "posts 8 receive requests, and asked for 5", "5"),
	ROW(inline_data, "sends 64 B inline, and asked for none", "0"),
};

int main(int argc, char **argv)
{
	return wrong_run(argc, argv, rows, COUNT_OF(rows));
}
