/* SPDX-License-Identifier: MIT */
/*
 * The address of a connection, or its interface, goes away under traffic and comes back. In time:
 * the requests under way complete, and every byte is right. Later: they end with
 * IBV_WC_RETRY_EXC_ERR, and a new connection of the same processes works. Who had the address hears
 * of both changes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/expect.h"
#include "lib/request.h"
#include "lib/two_hosts.h"

#define PATIENCE 60000u /* ms */
#define MESSAGES 4
#define BYTES	 20000u
#define SLOT	 0x10000u
#define SOURCES	 0u
#define TARGETS	 0x200000u
#define AWAY_MS	 1200u /* more than one timer, much less than all of them */

static struct side side[2];

enum fate { RETURNS_IN_TIME, RETURNS_LATE, RETURNS_TO_NONE /* its last user has gone */ };

#define ADDRESS(verb, n) "ip addr " verb " 192.0.2." #n "/24 dev v"
#define GID		 IBV_EVENT_GID_CHANGE

static const struct change {
	const char *name, *away, *back;
	int host;
	enum ibv_event_type at_loss[2], at_return[2]; /* that are heard there; equal: one */
} changes[] = {
	{"the requester's address",
	 ADDRESS("del", 1) "0",
	 ADDRESS("add", 1) "0",
	 0,
	 {GID, GID},
	 {GID, GID}},
	{"the responder's address",
	 ADDRESS("del", 2) "1",
	 ADDRESS("add", 2) "1",
	 1,
	 {GID, GID},
	 {GID, GID}},
	{"the requester's interface",
	 "ip link set v0 down",
	 "ip link set v0 up",
	 0,
	 {IBV_EVENT_PORT_ERR, GID},
	 {IBV_EVENT_PORT_ACTIVE, GID}},
	{"the responder's interface",
	 "ip link set v1 down",
	 "ip link set v1 up",
	 1,
	 {IBV_EVENT_PORT_ERR, GID},
	 {IBV_EVENT_PORT_ACTIVE, GID}},
};

static const char *const fates[] = {
	[RETURNS_IN_TIME] = "in time",
	[RETURNS_LATE] = "late",
	[RETURNS_TO_NONE] = "when its last user has gone",
};

/* --- changes ---------------------------------------------------------------------- */

static void expect_event(const struct change *c, enum ibv_event_type type)
{
	struct node_event e = side_async(&side[c->host], PATIENCE);

	EXPECT(e.any && e.type == type, "%s instead of %s",
	       e.any ? ibv_event_type_str(e.type) : "nothing", ibv_event_type_str(type));
}

static void make(const struct change *c, const char *command, const enum ibv_event_type heard[2])
{
	two_hosts_be(c->host);
	NEED(system(command) == 0);
	two_hosts_be(0);
	expect_event(c, heard[0]);
	if (heard[1] != heard[0])
		expect_event(c, heard[1]);
}

/* --- messages --------------------------------------------------------------------- */

static const enum ibv_wr_opcode ops[MESSAGES] = {SEND, WRITE, READ, WRITI};

static uint64_t at(uint64_t area, int slot)
{
	return area + (uint64_t)slot * SLOT;
}

static void post(int from, uint64_t seed)
{
	struct side *a = &side[from], *b = &side[!from];
	struct node_send list[MESSAGES] = {0};

	for (int i = 0; i < MESSAGES; i++) {
		bool back = ops[i] == READ;

		side_fill(back ? b : a, at(SOURCES, i), BYTES, seed + (uint64_t)i, 0);
		side_fill(back ? a : b, at(TARGETS, i), BYTES, 1, 0);
		if (request_receives(ops[i]))
			side_recv_one(b, 0, (uint64_t)i, at(TARGETS, i), BYTES);
		list[i] = (struct node_send){
			.wr_id = (uint64_t)i,
			.opcode = ops[i],
			.flags = IBV_SEND_SIGNALED,
			.num_sge = 1,
			.sge = {side_sge(a, KEY_FULL, at(back ? TARGETS : SOURCES, i), BYTES)},
			.remote_addr = b->info.base[KEY_FULL] + at(back ? SOURCES : TARGETS, i),
			.rkey = b->info.key[KEY_FULL],
		};
	}
	EXPECT(side_post_send(a, 0, list, MESSAGES).ret == 0, "post_send");
}

static void expect_done(int from, uint64_t seed)
{
	struct ibv_wc wc[MESSAGES];
	int receives = 0, n;

	side_expect_sent(&side[from], MESSAGES, PATIENCE, IBV_WC_SUCCESS);
	for (int i = 0; i < MESSAGES; i++) {
		receives += request_receives(ops[i]);
		EXPECT(side_check(&side[ops[i] == READ ? from : !from], at(TARGETS, i), BYTES,
				  seed + (uint64_t)i, 0) == -1,
		       "request %d: bytes", i);
	}
	n = side_poll(&side[!from], 1, receives, PATIENCE, wc);
	EXPECT(n == receives, "%d receives", n);
	for (int i = 0; i < n; i++)
		EXPECT(wc[i].status == IBV_WC_SUCCESS, "receive %d: %s", i,
		       ibv_wc_status_str(wc[i].status));
}

/* Both ways. */
static void exchange(uint64_t seed)
{
	for (int from = 0; from < 2; from++) {
		post(from, seed + 100 * (uint64_t)from);
		expect_done(from, seed + 100 * (uint64_t)from);
	}
}

/* --- rows ------------------------------------------------------------------------- */

/* 1 s, 8 s: a neighbour that did not answer is asked for again after a second. */
static void connect_patiently(void)
{
	struct node_link l = link_default();

	l.timeout = 18;
	l.retry_cnt = l.rnr_retry = 7;
	pair_create(&side[0], 0, &side[1], 0, NULL);
	pair_connect(&side[0], 0, &l, &side[1], 0, &l);
}

static void returns_in_time(const struct change *c)
{
	struct ibv_wc wc[1];

	connect_patiently();
	exchange(1000);
	make(c, c->away, c->at_loss);
	post(0, 2000);
	EXPECT(side_poll(&side[0], 0, 1, AWAY_MS, wc) == 0, "done without a way there");
	make(c, c->back, c->at_return);
	expect_done(0, 2000);
	exchange(3000);
	pair_destroy(&side[0], 0, &side[1], 0);
}

static void returns_late(const struct change *c, bool to_none)
{
	connect_patiently();
	exchange(1000);
	side_set_patience(&side[0], 0, 12, 2); /* 17 ms, 50 ms */
	make(c, c->away, c->at_loss);
	post(0, 2000);
	side_expect_sent(&side[0], MESSAGES, PATIENCE, IBV_WC_RETRY_EXC_ERR);
	EXPECT(side_state(&side[0], 0) == IBV_QPS_ERR && side_state(&side[1], 0) == IBV_QPS_RTS,
	       "states %d and %d", side_state(&side[0], 0), side_state(&side[1], 0));
	if (to_none)
		pair_destroy(&side[0], 0, &side[1], 0);
	make(c, c->back, c->at_return);
	if (!to_none)
		pair_destroy(&side[0], 0, &side[1], 0);
	connect_patiently();
	exchange(3000);
	pair_destroy(&side[0], 0, &side[1], 0);
}

static void change_one(const struct change *c, enum fate fate)
{
	row("%s returns %s", c->name, fates[fate]);
	for (int i = 0; i < 2; i++)
		two_hosts_start(&side[i], i, "");
	if (fate == RETURNS_IN_TIME)
		returns_in_time(c);
	else
		returns_late(c, fate == RETURNS_TO_NONE);
	for (int i = 0; i < 2; i++)
		side_stop(&side[i]);
}

/* No address of IPv6, which would come a moment after the interface, as another change. */
static void have_one_address(int host)
{
	char command[100];

	snprintf(command, sizeof(command),
		 "ip link set v%d addrgenmode none && ip -6 addr flush dev v%d", host, host);
	two_hosts_be(host);
	NEED(system(command) == 0);
	two_hosts_be(0);
}

int main(int argc, char **argv)
{
	two_hosts_open(argc, argv);
	have_one_address(0);
	have_one_address(1);
	time_limit(200);
	for (size_t i = 0; i < COUNT_OF(changes); i++)
		for (int fate = RETURNS_IN_TIME; fate <= RETURNS_TO_NONE; fate++)
			change_one(&changes[i], (enum fate)fate);
	return summary();
}
