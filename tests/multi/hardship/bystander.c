/* SPDX-License-Identifier: MIT */
#include "hardship/bystander.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hardship/stopwatch.h"
#include "lib/expect.h"
#include "lib/side.h"

#define PATIENCE_MS 20000u
#define PAUSE_US    200u /* between turns: the cores are for the others */
#define MB	    ((uint64_t)1 << 20)
#define TARGET_AT   MB /* in the partner's arena: what is written, */
#define COUNTER_AT  (3 * MB)
#define INBOX_AT    (5 * MB) /* what is sent */
#define BACK_AT	    (2 * MB) /* here: what is read back, */
#define OLD_AT	    (4 * MB) /* what an atomic found */

static const char *const words[BYSTANDERS] = {"--mover", "--opener"};

static struct side here, partner;

/* --- turns -------------------------------------------------------------------------- */

static uint32_t bytes_of(uint64_t turn)
{
	static const uint32_t sizes[] = {8, 64, 4096, 65536, 300000};

	return sizes[turn % COUNT_OF(sizes)];
}

/* One request that must succeed, as a step. */
static void carry_out(const char *name, enum ibv_wr_opcode op, uint64_t local_at,
		      uint64_t remote_at, uint32_t bytes)
{
	struct node_send s = {.opcode = op,
			      .flags = IBV_SEND_SIGNALED,
			      .remote_addr = partner.info.base[KEY_FULL] + remote_at,
			      .rkey = partner.info.key[KEY_FULL],
			      .compare_add = 1,
			      .num_sge = 1,
			      .sge = {side_sge(&here, KEY_FULL, local_at, bytes)}};
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int n;

	step_begin(name);
	node_post_send(here.node, 0, &s, 1);
	n = node_poll(here.node, 0, 1, PATIENCE_MS, &wc);
	step_end();
	EXPECT(n == 1 && wc.status == IBV_WC_SUCCESS, "%s: %s", name,
	       n == 1 ? ibv_wc_status_str(wc.status) : "no completion");
}

static void expect_pattern(const char *name, struct side *s, uint64_t at, uint64_t turn)
{
	int64_t wrong = side_check(s, at, bytes_of(turn), turn, 0);

	EXPECT(wrong < 0, "%s %lu: wrong from byte %ld on", name, turn, (long)wrong);
}

static void send_and_receive(uint64_t turn)
{
	struct ibv_wc wc;

	side_recv_one(&partner, 0, turn, INBOX_AT, bytes_of(turn));
	carry_out("SEND", IBV_WR_SEND, 0, 0, bytes_of(turn));
	step_begin("receive");
	EXPECT(side_poll(&partner, 1, 1, PATIENCE_MS, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
	       "SEND %lu does not arrive", turn);
	step_end();
	expect_pattern("SEND", &partner, INBOX_AT, turn);
}

static void move(uint64_t turn)
{
	side_fill(&here, 0, bytes_of(turn), turn, 0);
	carry_out("WRITE", IBV_WR_RDMA_WRITE, 0, TARGET_AT, bytes_of(turn));
	carry_out("READ", IBV_WR_RDMA_READ, BACK_AT, TARGET_AT, bytes_of(turn));
	expect_pattern("WRITE or READ", &here, BACK_AT, turn);
	carry_out("atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, OLD_AT, COUNTER_AT, 8);
	EXPECT(side_peek(&here, OLD_AT) == turn, "atomic %lu found %lu", turn,
	       side_peek(&here, OLD_AT));
	send_and_receive(turn);
}

/*
 * On the wire, a process that dies takes along the packets that it has not looked at, and a few
 * that were passed to it by mistake. A step has time to repeat them.
 */
static struct node_link link_of_bystander(void)
{
	struct node_link link = link_default();

	if (on_the_wire()) {
		link.timeout = 13; /* 34 ms */
		link.retry_cnt = 7;
	}
	return link;
}

static void connect_both(void)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_of_bystander();

	step_begin("create queue pairs");
	pair_create(&here, 0, &partner, 0, &spec);
	step_end();
	step_begin("connect");
	pair_connect(&here, 0, &link, &partner, 0, &link);
	step_end();
}

static void open_and_close(uint64_t turn)
{
	struct ibv_context *ctx;

	step_begin("open");
	ctx = node_open_device();
	step_end();
	step_begin("register");
	side_open(&here, ctx);
	step_end();
	connect_both();
	side_fill(&here, 0, bytes_of(turn), turn, 0);
	carry_out("WRITE", IBV_WR_RDMA_WRITE, 0, TARGET_AT, bytes_of(turn));
	expect_pattern("WRITE", &partner, TARGET_AT, turn);
	step_begin("destroy queue pairs");
	pair_destroy(&here, 0, &partner, 0);
	step_end();
	step_begin("deregister");
	side_stop(&here);
	step_end();
	step_begin("close");
	EXPECT(ibv_close_device(ctx) == 0, "ibv_close_device");
	step_end();
}

/* --- its life ----------------------------------------------------------------------- */

static void work_until_told(int sock, void (*turn)(uint64_t))
{
	struct stopwatch_report report;
	char c = 0;

	stopwatch_start(partner.pid);
	spawn_send(sock, &c, 1);
	for (uint64_t i = 0; !spawn_pending(sock); i++) {
		turn(i);
		usleep(PAUSE_US);
	}
	(void)spawn_receive_any(sock, &c, 1);
	report = stopwatch_stop();
	spawn_send(sock, &report, sizeof(report));
	(void)spawn_receive_any(sock, &c, 1); /* the contexts stay until then */
}

void bystander_main(int argc, char **argv)
{
	int sock = spawn_role(argc, argv, words[BYSTANDER_MOVER]);

	if (sock >= 0) {
		side_start(&partner);
		side_open(&here, NULL);
		connect_both();
		work_until_told(sock, move);
		pair_destroy(&here, 0, &partner, 0);
		side_stop(&here);
	} else if ((sock = spawn_role(argc, argv, words[BYSTANDER_OPENER])) >= 0) {
		side_start(&partner);
		work_until_told(sock, open_and_close);
	} else {
		return;
	}
	side_stop(&partner);
	exit(failures() ? 1 : 0);
}

/* --- orders ------------------------------------------------------------------------- */

void bystander_start(struct spawned *s, enum bystander which)
{
	char c;

	spawn_self(s, words[which]);
	spawn_receive(s->sock, &c, 1);
}

uint64_t bystander_stop(struct spawned *s, enum bystander which)
{
	struct stopwatch_report r;
	char c = 0;

	spawn_send(s->sock, &c, 1);
	spawn_receive(s->sock, &r, sizeof(r));
	printf("  %s: %lu steps, longest %.1f ms (%s; control late by %.1f ms then, %.1f ms at "
	       "worst), %lu excused\n",
	       words[which] + 2, r.steps, (double)r.longest_ns / 1e6, r.longest,
	       (double)r.control_then_ns / 1e6, (double)r.control_ns / 1e6, r.excused);
	return r.too_long;
}

void bystander_end(struct spawned *s)
{
	char c = 0;

	spawn_send(s->sock, &c, 1);
	spawn_wait(s);
}
