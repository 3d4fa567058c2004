/* SPDX-License-Identifier: MIT */
/*
 * What the counters of both ports say of packets that are lost or come twice. Source: the kernel's
 * drivers mlx5 and rxe, whose names these are.
 */
#include <stdio.h>
#include <string.h>

#include "lib/expect.h"
#include "lib/odp_sysfs.h"
#include "lib/probe.h"
#include "lib/request.h"
#include "lib/two_hosts.h"

#define PATIENCE 60000u	 /* ms */
#define BYTES	 4500u	 /* five packets */
#define LONG	 196608u /* 192 of them */
#define FROM	 0x1000u
#define TO	 0x100000u
#define PORT	 "/sys/class/infiniband/any0/ports/1/"

enum { NAKS, IMPLIED, TIMEOUTS, SENT, AHEAD, TWICE, MARKED, TELLS, TOLD, DAMAGED, COUNTERS };

static const struct {
	const char *file, *alias; /* another name of the same */
} counters[COUNTERS] = {
	[NAKS] = {"hw_counters/packet_seq_err", "hw_counters/rcvd_seq_err"},
	[IMPLIED] = {"hw_counters/implied_nak_seq_err", NULL},
	[TIMEOUTS] = {"hw_counters/local_ack_timeout_err", "hw_counters/completer_retry_err"},
	[SENT] = {"counters/port_xmit_packets", "hw_counters/sent_pkts"},
	[AHEAD] = {"hw_counters/out_of_sequence", "hw_counters/out_of_seq_request"},
	[TWICE] = {"hw_counters/duplicate_request", NULL},
	[MARKED] = {"hw_counters/np_ecn_marked_roce_packets", NULL},
	[TELLS] = {"hw_counters/np_cnp_sent", NULL},
	[TOLD] = {"hw_counters/rp_cnp_handled", NULL},
	[DAMAGED] = {"hw_counters/rx_icrc_encapsulated", NULL},
};

/* Requests from a to b, without the packet of last(). What is not named is 0. */
static const struct {
	enum ibv_wr_opcode op;
	uint32_t bytes;
	const char *rules_a, *rules_b; /* for packets that arrive there */
	uint64_t at_a[COUNTERS], at_b[COUNTERS];
} rows[] = {
	{WRITE, BYTES, "", "", {[SENT] = 5}, {0}},
	{READ, BYTES, "", "", {[SENT] = 1}, {[SENT] = 5}},
	{FAA, 8, "", "", {[SENT] = 1}, {[SENT] = 1}},
	/* The third to the fifth come ahead of the second. One NAK, then four packets once more. */
	{WRITE, BYTES, "", "drop nth 2", {[NAKS] = 1, [SENT] = 9}, {[AHEAD] = 3}},
	{SEND, BYTES, "", "drop nth 4", {[NAKS] = 1, [SENT] = 7}, {[AHEAD] = 1}},
	/* Nothing is behind the last. All come once more: no acknowledgement was asked for. */
	{WRITE, BYTES, "", "drop nth 5", {[TIMEOUTS] = 1, [SENT] = 10}, {[TWICE] = 4}},
	{SEND, 8, "", "drop nth 1", {[TIMEOUTS] = 1, [SENT] = 2}, {0}},
	{READ, BYTES, "", "drop nth 1", {[TIMEOUTS] = 1, [SENT] = 2}, {[SENT] = 5}},
	/* The acknowledgement is lost. */
	{WRITE, BYTES, "drop nth 1", "", {[TIMEOUTS] = 1, [SENT] = 10}, {[TWICE] = 5}},
	{SEND, 8, "drop nth 1", "", {[TIMEOUTS] = 1, [SENT] = 2}, {[TWICE] = 1}},
	/* An answer is lost. */
	{READ, BYTES, "drop nth 1", "", {[IMPLIED] = 1, [SENT] = 2}, {[TWICE] = 1, [SENT] = 5}},
	{READ, BYTES, "drop nth 5", "", {[TIMEOUTS] = 1, [SENT] = 2}, {[TWICE] = 1, [SENT] = 5}},
	/* Answers are asked for in parts; the next one shows what is missing at the end of one. */
	{READ, LONG, "drop nth 128", "", {[IMPLIED] = 1, [SENT] = 4}, {[TWICE] = 3, [SENT] = 192}},
	{FAA, 8, "drop nth 1", "", {[TIMEOUTS] = 1, [SENT] = 2}, {[TWICE] = 1, [SENT] = 1}},
	/* What comes twice. */
	{WRITE, BYTES, "", "duplicate nth 3", {[SENT] = 5}, {[TWICE] = 1}},
	{FAA, 8, "", "duplicate 3 nth 1", {[SENT] = 1}, {[TWICE] = 3, [SENT] = 1}},
	{READ, BYTES, "duplicate nth 2", "", {[SENT] = 1}, {[SENT] = 5}},
	/* Congestion, there and back. */
	{WRITE, BYTES, "", "mark nth 2", {[SENT] = 5, [TOLD] = 1}, {[MARKED] = 1, [TELLS] = 1}},
	{READ,
	 BYTES,
	 "mark nth 5",
	 "",
	 {[SENT] = 1, [MARKED] = 1, [TELLS] = 1},
	 {[SENT] = 5, [TOLD] = 1}},
	/* Damaged is lost. What was dropped before cannot be. */
	{READ,
	 BYTES,
	 "corrupt nth 2",
	 "",
	 {[IMPLIED] = 1, [SENT] = 2, [DAMAGED] = 1},
	 {[TWICE] = 1, [SENT] = 5}},
	{WRITE, BYTES, "", "drop nth 2; corrupt nth 2", {[NAKS] = 1, [SENT] = 9}, {[AHEAD] = 3}},
	{WRITE, BYTES, "", "corrupt nth 2", {[NAKS] = 1, [SENT] = 9}, {[AHEAD] = 3, [DAMAGED] = 1}},
};

static struct side a, b;

/* In the other process. */
static uint64_t read_counter(struct node *n, const struct side_job *job)
{
	char path[128];
	uint64_t value;

	(void)n;
	snprintf(path, sizeof(path), PORT "%s", counters[job->arg[0]].file);
	value = sysfs_number(path);
	if (counters[job->arg[0]].alias) {
		snprintf(path, sizeof(path), PORT "%s", counters[job->arg[0]].alias);
		EXPECT(sysfs_number(path) == value, "%s", path);
	}
	return value;
}

static void read_all(struct side *s, uint64_t value[COUNTERS])
{
	for (uint64_t i = 0; i < COUNTERS; i++) {
		side_begin(s, &(struct side_job){{i}});
		value[i] = side_end(s);
	}
}

/* Devices go on counting where those of the row before have ended. */
static void expect_counted(struct side *s, const char *name, const uint64_t before[COUNTERS],
			   const uint64_t want[COUNTERS])
{
	uint64_t now[COUNTERS];

	read_all(s, now);
	for (uint64_t i = 0; i < COUNTERS; i++)
		EXPECT(now[i] - before[i] == want[i], "%s: %s: %lu, not %lu", name,
		       counters[i].file, now[i] - before[i], want[i]);
}

static void request(enum ibv_wr_opcode op, uint32_t bytes)
{
	struct node_send s = {
		.opcode = op,
		.flags = IBV_SEND_SIGNALED,
		.num_sge = 1,
		.sge = {side_sge(&a, KEY_FULL, FROM, bytes)},
		.remote_addr = b.info.base[KEY_FULL] + TO,
		.rkey = b.info.key[KEY_FULL],
	};
	struct ibv_wc wc[1];

	if (op == SEND)
		side_recv_one(&b, 0, 0, TO, bytes);
	EXPECT(side_post_send(&a, 0, &s, 1).ret == 0, "post_send");
	EXPECT(side_poll(&a, 0, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS, "status");
	if (op == SEND)
		EXPECT(side_poll(&b, 1, 1, PATIENCE, wc) == 1 && wc[0].status == IBV_WC_SUCCESS,
		       "receive");
}

/* One packet there. When it has been answered, all before it have been counted. */
static void last(void)
{
	request(WRITE, 8);
}

int main(int argc, char **argv)
{
	struct node_link link = link_default();

	side_work = read_counter;
	two_hosts_open(argc, argv);
	link.mtu = IBV_MTU_1024;
	link.retry_cnt = 7;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		uint64_t at_a[COUNTERS], before_a[COUNTERS], before_b[COUNTERS];

		/* Longer than a busy machine lets an answer wait: 2 s, or 17 s if none is lost. */
		link.timeout = rows[i].at_a[TIMEOUTS] ? 19 : 22;
		row("%s of %u bytes; here %s, there %s", probe_name(rows[i].op), rows[i].bytes,
		    rows[i].rules_a, rows[i].rules_b);
		two_hosts_start(&a, 0, rows[i].rules_a);
		two_hosts_start(&b, 1, rows[i].rules_b);
		pair_create(&a, 0, &b, 0, NULL);
		pair_connect(&a, 0, &link, &b, 0, &link);
		read_all(&a, before_a);
		read_all(&b, before_b);
		request(rows[i].op, rows[i].bytes);
		last();
		memcpy(at_a, rows[i].at_a, sizeof(at_a));
		at_a[SENT]++;
		expect_counted(&a, "a", before_a, at_a);
		expect_counted(&b, "b", before_b, rows[i].at_b);
		pair_destroy(&a, 0, &b, 0);
		side_stop(&b);
		side_stop(&a);
	}
	return summary();
}
