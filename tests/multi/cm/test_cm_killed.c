/* SPDX-License-Identifier: MIT */
/*
 * A peer is killed in each state of a connection: who survives hears of it, its other connections
 * go on, and what the peer had bound is free at once.
 */
#include <errno.h>
#include <signal.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/sandbox.h"

static struct party here = {.here = true}, bystander, victim;
static struct sockaddr_in here_at, victim_at;
static uint32_t here_listener;

/* Stopped, it answers no more, and dies without a word. */
static void stop_victim(void)
{
	NEED(kill(victim.process.pid, SIGSTOP) == 0);
}

static uint32_t answered(void)
{
	uint32_t id = party_request(&here, &victim_at, NULL, 0), other;

	other = party_hear(&victim, CM_CONNECT_REQUEST).id;
	EXPECT(party_tell(&victim, DO_ACCEPT, other) == 0, "not accepted");
	(void)party_hear(&here, CM_CONNECT_RESPONSE);
	return id;
}

static uint32_t requested(void)
{
	(void)party_request(&victim, &here_at, NULL, 0);
	return party_hear(&here, CM_CONNECT_REQUEST).id;
}

/* --- how far it comes before the victim dies. Return: the id here ---------------------------- */

static uint32_t asks_a_stopped_one(void)
{
	stop_victim();
	return party_request(&here, &victim_at, NULL, 0);
}

static uint32_t asks(void)
{
	uint32_t id = party_request(&here, &victim_at, NULL, 0);

	(void)party_hear(&victim, CM_CONNECT_REQUEST);
	return id;
}

static uint32_t is_answered(void)
{
	return answered();
}

static uint32_t is_ready(void)
{
	uint32_t id;

	id = answered();
	stop_victim();
	EXPECT(party_tell(&here, DO_READY, id) == 0, "not ready");
	return id;
}

static uint32_t is_connected(void)
{
	return parties_connect(&here, &victim, &victim_at).active;
}

static uint32_t leaves(void)
{
	uint32_t id = is_connected();

	stop_victim();
	EXPECT(party_tell(&here, DO_DISCONNECT, id) == 0, "not disconnected");
	return id;
}

static uint32_t is_left(void)
{
	struct link l = parties_connect(&here, &victim, &victim_at);

	EXPECT(party_tell(&victim, DO_DISCONNECT, l.passive) == 0, "not disconnected");
	(void)party_hear(&here, CM_DISCONNECTED);
	stop_victim();
	EXPECT(party_tell(&here, DO_DISCONNECT, l.active) == 0, "not disconnected");
	return l.active;
}

static uint32_t is_asked(void)
{
	return requested();
}

static uint32_t accepts(void)
{
	uint32_t id = requested();

	stop_victim();
	EXPECT(party_tell(&here, DO_ACCEPT, id) == 0, "not accepted");
	return id;
}

static uint32_t has_accepted(void)
{
	return parties_connect(&victim, &here, &here_at).passive;
}

/* A request for datagrams is not answered. */
static uint32_t asks_for_datagrams(void)
{
	struct order o = {
		.what = DO_LISTEN, .uid = 1, .ps = RDMA_PS_UDP, .at = cm_address("127.0.0.1", 0)};
	struct outcome out = party_do(&victim, &o);

	o = (struct order){.what = DO_REQUEST, .uid = 1, .ps = RDMA_PS_UDP, .at = out.at};
	out = party_do(&here, &o);
	(void)party_hear(&victim, CM_CONNECT_REQUEST);
	return out.id;
}

#define NOTHING UINT32_MAX

static const struct {
	const char *name;
	uint32_t (*come)(void);
	uint32_t hears;
} rows[] = {
	{"REQ sent to a stopped process", asks_a_stopped_one, CM_REJECTED},
	{"REQ sent", asks, CM_REJECTED},
	{"REP received", is_answered, CM_REJECTED},
	{"RTU sent to a stopped process", is_ready, CM_DISCONNECTED},
	{"established", is_connected, CM_DISCONNECTED},
	{"DREQ sent to a stopped process", leaves, CM_DISCONNECTED},
	{"DREQ received, DREP sent", is_left, CM_TIMEWAIT_EXIT},
	{"REQ received", is_asked, NOTHING},
	{"REP sent to a stopped process", accepts, CM_REJECTED},
	{"established, passive", has_accepted, CM_DISCONNECTED},
	{"SIDR_REQ sent", asks_for_datagrams, CM_UNREACHABLE},
};

/* Until the program accepts, it hears nothing of the end: then its accept fails, or is refused. */
static void expect_no_acceptance(uint32_t id)
{
	int ret = party_tell(&here, DO_ACCEPT, id);

	if (EXPECT(ret == 0 || ret == -EINVAL, "accept: %d", ret) && ret == 0)
		(void)party_hear(&here, CM_REJECTED);
}

/* The dead one's port is free for another process. */
static void expect_free_port(void)
{
	struct party heir = {.here = false};
	const struct order o = {.what = DO_LISTEN, .uid = 1, .at = victim_at};
	struct outcome out;

	party_start(&heir);
	out = party_do(&heir, &o);
	EXPECT(out.ret == 0, "the port is not free: %d", out.ret);
	party_stop(&heir);
}

static void each_state(void)
{
	for (unsigned int i = 0; i < COUNT_OF(rows); i++) {
		struct link others;
		uint32_t id;

		row("killed: %s", rows[i].name);
		party_start(&victim);
		(void)party_listen(&victim, &victim_at);
		others = parties_connect(&bystander, &here, &here_at);
		id = rows[i].come();
		spawn_kill(&victim.process);
		if (rows[i].hears == NOTHING)
			expect_no_acceptance(id);
		else
			EXPECT(party_hear(&here, rows[i].hears).id == id, "of another id");
		expect_free_port();
		parties_part(&bystander, &here, others);
		EXPECT(party_tell(&here, DO_DESTROY, id) == 0, "not destroyed");
	}
}

/* Who answers a request for datagrams has no connection: it hears nothing of the end. */
static void with_datagrams(const char *when, bool answered)
{
	struct order o = {
		.what = DO_LISTEN, .uid = 1, .ps = RDMA_PS_UDP, .at = cm_address("127.0.0.1", 0)};
	struct outcome service = party_do(&here, &o);
	struct link later;
	uint32_t id;

	row("killed %s its request for datagrams is answered", when);
	party_start(&victim);
	o = (struct order){.what = DO_REQUEST, .uid = 1, .ps = RDMA_PS_UDP, .at = service.at};
	(void)party_do(&victim, &o);
	id = party_hear(&here, CM_CONNECT_REQUEST).id;
	if (answered) {
		EXPECT(party_tell(&here, DO_ACCEPT, id) == 0, "not accepted");
		(void)party_hear(&victim, CM_ESTABLISHED);
	}
	later = parties_connect(&victim, &here, &here_at);
	spawn_kill(&victim.process);
	EXPECT(party_hear(&here, CM_DISCONNECTED).id == later.passive, "of another id");
	EXPECT(answered || party_tell(&here, DO_ACCEPT, id) == 0, "not accepted");
	EXPECT(party_tell(&here, DO_DESTROY, later.passive) == 0, "not destroyed");
	EXPECT(party_tell(&here, DO_DESTROY, id) == 0, "not destroyed");
	EXPECT(party_tell(&here, DO_DESTROY, service.id) == 0, "not destroyed");
}

/* One process has many connections: each of them ends. */
static void with_many(void)
{
	enum { MANY = 100 };
	struct link others = parties_connect(&bystander, &here, &here_at);

	row("killed with %d connections", MANY);
	party_start(&victim);
	for (int i = 0; i < MANY; i++)
		(void)parties_connect(&victim, &here, &here_at);
	spawn_kill(&victim.process);
	for (int i = 0; i < MANY; i++)
		EXPECT(party_tell(&here, DO_DESTROY, party_hear(&here, CM_DISCONNECTED).id) == 0,
		       "not destroyed");
	parties_part(&bystander, &here, others);
}

int main(int argc, char **argv)
{
	parties_main(argc, argv);
	sandbox_begin(240);
	party_start(&here);
	party_start(&bystander);
	here_listener = party_listen(&here, &here_at);
	each_state();
	with_datagrams("before", false);
	with_datagrams("after", true);
	with_many();
	EXPECT(party_tell(&here, DO_DESTROY, here_listener) == 0, "not destroyed");
	party_stop(&bystander);
	party_stop(&here);
	return cm_end();
}
