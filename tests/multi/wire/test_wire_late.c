/* SPDX-License-Identifier: MIT */
/*
 * A receiver on another host that posts its receive requests late, one after the other: every
 * message arrives, and its sender repeats no more than the packet that was refused.
 */
#include <stdio.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/probe.h"
#include "lib/request.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define PATIENCE 60000u /* ms */
#define MESSAGES 16u	/* as many as a queue of the usual size holds */
#define MTU	 1024u
#define SLOT	 0x4000u
#define TARGETS	 0x400000u
#define COUNTERS "/sys/class/infiniband/any0/ports/1/"

static const struct {
	enum ibv_wr_opcode op;
	uint32_t bytes;
	unsigned int early; /* receive requests that are there before the messages */
} rows[] = {
	{SEND, 8, MESSAGES},
	{SEND, 8, 0},
	{SEND, 8, 1},
	{SEND, 8, 5},
	{SEND, 4 * MTU + 1, 0},
	{SEND, 4 * MTU + 1, 6},
	{IBV_WR_RDMA_WRITE_WITH_IMM, 8, 0},
	{IBV_WR_RDMA_WRITE_WITH_IMM, 4 * MTU + 1, 5},
};

enum { SENT, REFUSED, COUNTED };
static const char *const file[COUNTED] = {
	[SENT] = "counters/port_xmit_packets",
	[REFUSED] = "hw_counters/rnr_nak_retry_err",
};

static struct side a, b;

/* In the other process. */
static uint64_t read_counter(struct node *n, const struct side_job *job)
{
	char path[128];

	(void)n;
	snprintf(path, sizeof(path), COUNTERS "%s", file[job->arg[0]]);
	return sysfs_number(path);
}

static uint64_t counter(uint64_t which)
{
	side_begin(&a, &(struct side_job){{which}});
	return side_end(&a);
}

static uint64_t seed_of(unsigned int message)
{
	return 9000 + message;
}

static uint64_t target_of(unsigned int message)
{
	return TARGETS + (uint64_t)message * SLOT;
}

static void send_all(enum ibv_wr_opcode op, uint32_t bytes)
{
	struct node_send s[MESSAGES];

	for (unsigned int i = 0; i < MESSAGES; i++) {
		side_fill(&a, (uint64_t)i * SLOT, bytes, seed_of(i), 0);
		s[i] = (struct node_send){
			.wr_id = i,
			.opcode = op,
			.flags = IBV_SEND_SIGNALED,
			.num_sge = 1,
			.sge = {side_sge(&a, KEY_FULL, (uint64_t)i * SLOT, bytes)},
			.remote_addr = b.info.base[KEY_FULL] + target_of(i),
			.rkey = b.info.key[KEY_FULL],
		};
	}
	EXPECT(side_post_send(&a, 0, s, MESSAGES).ret == 0, "post_send");
}

/* Wait until so many RNR NAKs have come: the receive request is late. */
static void await_refusals(uint64_t count)
{
	uint64_t refused = 0;

	(void)WAIT_UNTIL((refused = counter(REFUSED)) >= count, PATIENCE);
	EXPECT(refused >= count, "%lu RNR NAKs", refused);
}

static void receive_all(uint32_t bytes, unsigned int posted, uint64_t refused)
{
	struct ibv_wc wc;

	for (unsigned int i = 0; i < MESSAGES; i++) {
		if (i >= posted) {
			await_refusals(++refused);
			side_recv_one(&b, 0, i, target_of(i), bytes);
		}
		EXPECT(side_poll(&b, 1, 1, PATIENCE, &wc) == 1 && wc.status == IBV_WC_SUCCESS &&
			       wc.wr_id == i,
		       "receive %u", i);
		EXPECT(side_check(&b, target_of(i), bytes, seed_of(i), 0) == -1, "message %u", i);
	}
	side_expect_sent(&a, MESSAGES, PATIENCE, IBV_WC_SUCCESS);
}

static void run(enum ibv_wr_opcode op, uint32_t bytes, unsigned int early)
{
	uint64_t sent = counter(SENT), refused = counter(REFUSED);
	uint64_t packets = (uint64_t)MESSAGES * ((bytes + MTU - 1) / MTU);

	for (unsigned int i = 0; i < early; i++)
		side_recv_one(&b, 0, i, target_of(i), bytes);
	send_all(op, bytes);
	receive_all(bytes, early, refused);
	sent = counter(SENT) - sent;
	refused = counter(REFUSED) - refused;
	EXPECT(sent == packets + refused, "%lu packets, %lu RNR NAKs", sent, refused);
	EXPECT(early < MESSAGES || refused == 0, "%lu RNR NAKs", refused);
}

int main(int argc, char **argv)
{
	struct node_link link = link_default();

	side_work = read_counter;
	two_hosts_open(argc, argv);
	link.mtu = IBV_MTU_1024;
	link.timeout = 22; /* 17 s: nothing is lost, however busy the machine is */
	link.rnr_retry = 7;
	link.min_rnr_timer = 31; /* 0.5 s: the receiver's word ends it before */
	two_hosts_start(&a, 0, "");
	two_hosts_start(&b, 1, "");
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("%s of %u bytes, %u receive requests", probe_name(rows[i].op), rows[i].bytes,
		    rows[i].early);
		pair_create(&a, 0, &b, 0, NULL);
		pair_connect(&a, 0, &link, &b, 0, &link);
		run(rows[i].op, rows[i].bytes, rows[i].early);
		pair_destroy(&a, 0, &b, 0);
	}
	side_stop(&b);
	side_stop(&a);
	return summary();
}
