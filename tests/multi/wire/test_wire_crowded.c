/* SPDX-License-Identifier: MIT */
/*
 * A way with room for few packets. A long READ seldom waits for a timeout. If there is no room for
 * one packet of each connection, many are lost, again and again; but none gives up while its peer's
 * host answers others. When it does, unit.transport.test_link_retry judges.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/two_hosts.h"

#define PATIENCE 120000u /* ms */
#define QPS	 NODE_QPS
#define MESSAGES 16u /* of each, */
#define BYTES	 8192u
#define LONG	 (4u << 20)
#define PART	 131072u /* of a READ, at most */

static struct side a, b; /* on hosts 0 and 1 */

static void crowd(const char *how)
{
	char command[128];

	two_hosts_be(1);
	snprintf(command, sizeof(command), "tc qdisc replace dev v1 root tbf %s 2>/dev/null", how);
	if (system(command)) {
		printf("skipped: no slow interfaces here\n");
		exit(77);
	}
	two_hosts_be(0);
}

/* --- what b sends to a ------------------------------------------------------------ */

static uint64_t place_of(uint32_t qp, uint32_t message)
{
	return ((uint64_t)qp * MESSAGES + message) * BYTES;
}

static void post(struct side *s, struct side *peer, uint32_t qp, enum ibv_wr_opcode op)
{
	struct node_send list[MESSAGES];

	for (uint32_t i = 0; i < MESSAGES; i++)
		list[i] = (struct node_send){
			.wr_id = qp,
			.opcode = op,
			.flags = i + 1 == MESSAGES ? IBV_SEND_SIGNALED : 0,
			.num_sge = 1,
			.sge = {side_sge(s, KEY_FULL, place_of(qp, i), BYTES)},
			.remote_addr = peer->info.base[KEY_FULL] + place_of(qp, i),
			.rkey = peer->info.key[KEY_FULL],
		};
	EXPECT(side_post_send(s, (int)qp, list, MESSAGES).ret == 0, "post_send");
}

static void all_arrive(const char *name, struct side *s, struct side *peer, enum ibv_wr_opcode op)
{
	struct node_link link = link_default();
	struct ibv_wc wc;

	row("%s", name);
	link.mtu = IBV_MTU_4096;
	link.timeout = 16; /* 268 ms: far longer than the queue is */
	link.retry_cnt = 7;
	side_fill(&b, 0, place_of(QPS, 0), op, 0);
	side_fill(&a, 0, place_of(QPS, 0), 100 + op, 0);
	for (int i = 0; i < QPS; i++) {
		pair_create(s, i, peer, i, NULL);
		pair_connect(s, i, &link, peer, i, &link);
	}
	for (uint32_t i = 0; i < QPS; i++)
		post(s, peer, i, op);
	for (uint32_t i = 0; i < QPS; i++)
		EXPECT(side_poll(s, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
		       "queue pair %lu: status %d", wc.wr_id, wc.status);
	EXPECT(side_check(&a, 0, place_of(QPS, 0), op, 0) == -1, "bytes");
	for (int i = 0; i < QPS; i++)
		pair_destroy(s, i, peer, i);
}

/* --- a long READ ------------------------------------------------------------------- */

static uint64_t read_timeouts(struct node *n, const struct side_job *job)
{
	(void)n;
	(void)job;
	return sysfs_number("/sys/class/infiniband/any0/ports/1/hw_counters/local_ack_timeout_err");
}

static uint64_t timeouts(struct side *s)
{
	side_begin(s, &(struct side_job){{0}});
	return side_end(s);
}

/* What is lost is missed when the next part comes; but at the end, and before it is narrow. */
static void long_read(void)
{
	struct node_link link = link_default();
	struct node_send read =
		side_rdma_to(IBV_WR_RDMA_READ, side_sge(&a, KEY_FULL, 0, LONG), &b, 0);
	uint64_t before = timeouts(&a), after;
	struct ibv_wc wc;

	row("a long READ");
	link.timeout = 18; /* 1 s: a busy machine makes few */
	link.retry_cnt = 7;
	side_fill(&b, 0, LONG, 1, 0);
	pair_create(&a, 0, &b, 0, NULL);
	pair_connect(&a, 0, &link, &b, 0, &link);
	EXPECT(side_post_send(&a, 0, &read, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "status");
	EXPECT(side_check(&a, 0, LONG, 1, 0) == -1, "bytes");
	after = timeouts(&a);
	EXPECT(after - before < LONG / PART / 4, "%lu timeouts", after - before);
	pair_destroy(&a, 0, &b, 0);
}

int main(int argc, char **argv)
{
	side_work = read_timeouts;
	two_hosts_open(argc, argv);
	time_limit(300);
	crowd("rate 100mbit burst 9kb limit 60kb");
	two_hosts_start(&a, 0, "");
	two_hosts_start(&b, 1, "");
	long_read();
	crowd("rate 10mbit burst 9kb limit 9kb"); /* room for two packets */
	all_arrive("WRITE", &b, &a, IBV_WR_RDMA_WRITE);
	all_arrive("READ", &a, &b, IBV_WR_RDMA_READ);
	side_stop(&a);
	side_stop(&b);
	return summary();
}
