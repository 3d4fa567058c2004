/* SPDX-License-Identifier: MIT */
/*
 * A connection between two hosts gets another address vector while it is drained (SQD):
 * ibv_modify_qp(3); IBTA 1, 10.3.1.5 and table 91.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/to_rts.h"
#include "lib/two_hosts.h"

#define PATIENCE 30000u /* ms */
#define BYTES	 20000u
#define TARGET	 0x100000u

static struct side a, b;

#define PATIENT	  18 /* a second */
#define IMPATIENT 10 /* 4 ms */

static union ibv_gid gid_of(const uint8_t net[3], int host)
{
	return (union ibv_gid){
		.raw = {[10] = 0xff, 0xff, net[0], net[1], net[2], (uint8_t)(host + 1)}};
}

static const uint8_t first[3] = {192, 0, 2}, second[3] = {198, 51, 100};

static void start(const char *name, uint8_t timeout)
{
	struct node_link l = link_default();

	row("%s", name);
	l.timeout = timeout;
	two_hosts_start(&a, 0, "");
	two_hosts_start(&b, 1, "");
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, &l, &b, 0, &l);
}

static void stop(void)
{
	pair_destroy(&a, 0, &b, 0);
	side_stop(&b);
	side_stop(&a);
}

/* @gid_row: of the own address. Return: errno */
static int change(struct side *s, uint8_t gid_row, union ibv_gid to)
{
	struct ibv_qp_attr attr = {
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = to, .sgid_index = gid_row, .hop_limit = 64}},
	};

	return side_modify(s, 0, &attr, IBV_QP_AV);
}

static void post(struct side *from, struct side *to, uint64_t seed)
{
	struct node_send wr =
		side_rdma_to(IBV_WR_RDMA_WRITE, side_sge(from, KEY_FULL, 0, BYTES), to, TARGET);

	side_fill(from, 0, BYTES, seed, 0);
	side_fill(to, TARGET, BYTES, 1, 0);
	EXPECT(side_post_send(from, 0, &wr, 1).ret == 0, "post_send");
}

static void expect_done(struct side *from, struct side *to, uint64_t seed)
{
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	EXPECT(side_poll(from, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "status %d", wc.status);
	EXPECT(side_check(to, TARGET, BYTES, seed, 0) == -1, "bytes");
}

static void expect_traffic(uint64_t seed)
{
	post(&a, &b, seed);
	expect_done(&a, &b, seed);
	post(&b, &a, seed + 1);
	expect_done(&b, &a, seed + 1);
}

static void command(int host, const char *text)
{
	two_hosts_be(host);
	if (system(text) != 0)
		DIE("%s", text);
	two_hosts_be(0);
}

static void both_in(enum ibv_qp_state state)
{
	EXPECT(side_set_state(&a, 0, state) == 0, "a to state %d", state);
	EXPECT(side_set_state(&b, 0, state) == 0, "b to state %d", state);
}

/* What was posted meanwhile takes the new way, and so does what follows: the old one is gone. */
static void both_ends_move(void)
{
	start("both ends move to their second addresses", PATIENT);
	expect_traffic(10);
	both_in(IBV_QPS_SQD);
	post(&a, &b, 20);
	EXPECT(change(&a, 1, gid_of(second, 1)) == 0, "a");
	EXPECT(change(&b, 1, gid_of(second, 0)) == 0, "b");
	command(0, "ip addr del 192.0.2.1/24 dev v0");
	command(1, "ip addr del 192.0.2.2/24 dev v1");
	both_in(IBV_QPS_RTS);
	expect_done(&a, &b, 20);
	expect_traffic(30);
	stop();
	command(0, "ip addr del 198.51.100.1/24 dev v0 && ip addr add 192.0.2.1/24 dev v0 && "
		   "ip addr add 198.51.100.1/24 dev v0");
	command(1, "ip addr del 198.51.100.2/24 dev v1 && ip addr add 192.0.2.2/24 dev v1 && "
		   "ip addr add 198.51.100.2/24 dev v1");
}

/* Its packets do not come from where the peer expects them. */
static void one_end_moves(void)
{
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	start("one end moves alone", IMPATIENT);
	EXPECT(side_set_state(&a, 0, IBV_QPS_SQD) == 0, "to SQD");
	EXPECT(change(&a, 1, gid_of(second, 1)) == 0, "a");
	EXPECT(side_set_state(&a, 0, IBV_QPS_RTS) == 0, "to RTS");
	post(&a, &b, 40);
	EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_RETRY_EXC_ERR,
	       "status %d", wc.status);
	stop();
}

static void there_and_back(void)
{
	start("there and back again", PATIENT);
	for (uint64_t i = 0; i < 20; i++) {
		const uint8_t *net = i % 2 ? first : second;

		both_in(IBV_QPS_SQD);
		EXPECT(change(&a, net == second, gid_of(net, 1)) == 0, "a");
		EXPECT(change(&b, net == second, gid_of(net, 0)) == 0, "b");
		both_in(IBV_QPS_RTS);
		expect_traffic(100 + 2 * i);
	}
	stop();
}

/* A refused change leaves the way as it is. */
static void refused(void)
{
	start("a change that is refused", PATIENT);
	EXPECT(change(&a, 1, gid_of(second, 1)) == EINVAL, "in RTS");
	expect_traffic(200);
	both_in(IBV_QPS_SQD);
	EXPECT(change(&a, 15, gid_of(second, 1)) == EINVAL, "from an empty row");
	both_in(IBV_QPS_RTS);
	expect_traffic(210);
	stop();
}

int main(int argc, char **argv)
{
	two_hosts_open(argc, argv);
	command(0, "ip addr add 198.51.100.1/24 dev v0");
	command(1, "ip addr add 198.51.100.2/24 dev v1");
	both_ends_move();
	one_end_moves();
	there_and_back();
	refused();
	return summary();
}
