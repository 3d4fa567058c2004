/* SPDX-License-Identifier: MIT */
/*
 * Many connections at once, and many one after the other: none gets lost, and none leaves anything
 * behind. With a number as argument, so many one after the other.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/wait.h"
#include "registry/tables.h"

#define AT_ONCE 2000u
#define WAITING 1000u /* requests to a process that is stopped; fewer than its backlog */
#define CYCLES	1000u
#define WARM_UP 200u

/*
 * Bytes that a process may have more than before: the tables of ids and of connections have a
 * pointer for each number that was ever given.
 */
#define GROWTH(count) (32768u + (count)*2 * sizeof(void *))

static struct party client = {.here = true}, server;
static struct sockaddr_in at;
static uint32_t ids[AT_ONCE];

static unsigned int ports(void)
{
	struct av_cm_port p;
	uint32_t place = 0;
	unsigned int n = 0;

	while (av_cm_port_next(&place, &p))
		n++;
	return n;
}

static void begin_to_serve(enum what what, uint32_t connections)
{
	const struct order o = {.what = what, .number = connections};

	party_begin(&server, &o);
}

static void expect_served(void)
{
	EXPECT(party_end(&server).ret == 0, "the server has failed");
}

static void end_all(unsigned int count)
{
	begin_to_serve(DO_SERVE, count);
	for (unsigned int i = 0; i < count; i++)
		EXPECT(party_tell(&client, DO_DISCONNECT, ids[i]) == 0, "not disconnected");
	for (unsigned int i = 0; i < count; i++)
		(void)party_hear(&client, CM_DISCONNECTED);
	for (unsigned int i = 0; i < count; i++)
		EXPECT(party_tell(&client, DO_DESTROY, ids[i]) == 0, "not destroyed");
	expect_served();
}

static void at_once(void)
{
	row("%u connections at once", AT_ONCE);
	begin_to_serve(DO_SERVE_ALL, AT_ONCE);
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		ids[i] = party_request(&client, &at, NULL, 0);
		EXPECT(party_hear(&client, CM_CONNECT_RESPONSE).id == ids[i], "of another id");
		EXPECT(party_tell(&client, DO_READY, ids[i]) == 0, "not ready");
	}
	expect_served();
	end_all(AT_ONCE);
}

/* What its socket does not take waits for it. */
static void while_stopped(void)
{
	row("%u requests while the server is stopped", WAITING);
	begin_to_serve(DO_SERVE_ALL, WAITING);
	NEED(kill(server.process.pid, SIGSTOP) == 0);
	for (unsigned int i = 0; i < WAITING; i++)
		ids[i] = party_request(&client, &at, NULL, 0);
	NEED(kill(server.process.pid, SIGCONT) == 0);
	for (unsigned int i = 0; i < WAITING; i++) {
		uint32_t id = party_hear(&client, CM_CONNECT_RESPONSE).id;

		EXPECT(party_tell(&client, DO_READY, id) == 0, "not ready");
	}
	expect_served();
	end_all(WAITING);
}

/* --- one after the other ------------------------------------------------------------------- */

static void cycle(void)
{
	uint32_t id = party_request(&client, &at, NULL, 0);

	(void)party_hear(&client, CM_CONNECT_RESPONSE);
	EXPECT(party_tell(&client, DO_READY, id) == 0, "not ready");
	EXPECT(party_tell(&client, DO_DISCONNECT, id) == 0, "not disconnected");
	(void)party_hear(&client, CM_DISCONNECTED);
	EXPECT(party_tell(&client, DO_DESTROY, id) == 0, "not destroyed");
}

static void cycles(unsigned int count)
{
	begin_to_serve(DO_SERVE, count);
	for (unsigned int i = 0; i < count; i++)
		cycle();
	expect_served();
}

static struct held held_by(struct party *p)
{
	const struct order o = {.what = DO_MEASURE};

	return party_do(p, &o).held;
}

static bool is_as_before(struct party *p, const struct held *before, unsigned int count)
{
	struct held now = held_by(p);

	return now.descriptors <= before->descriptors && now.bytes <= before->bytes + GROWTH(count);
}

static void expect_as_before(struct party *p, const char *who, const struct held *before,
			     unsigned int count)
{
	bool same = WAIT_UNTIL(is_as_before(p, before, count), SOON);
	struct held now = held_by(p);

	EXPECT(same, "%s: %u descriptors, %llu bytes; before: %u, %llu", who, now.descriptors,
	       (unsigned long long)now.bytes, before->descriptors,
	       (unsigned long long)before->bytes);
}

static void one_after_the_other(unsigned int count)
{
	struct held here, there;
	unsigned int bound;

	row("%u connections, one after the other", count);
	cycles(WARM_UP);
	here = held_by(&client);
	there = held_by(&server);
	bound = ports();
	cycles(count);
	expect_as_before(&client, "client", &here, count);
	expect_as_before(&server, "server", &there, count);
	EXPECT(ports() == bound, "%u ports, %u before", ports(), bound);
}

int main(int argc, char **argv)
{
	unsigned int count;

	parties_main(argc, argv);
	count = argc > 1 ? (unsigned int)atoi(argv[1]) : CYCLES;
	sandbox_begin(120 + count / 50);
	party_start(&client);
	party_start(&server);
	(void)party_listen(&server, &at);
	at_once();
	while_stopped();
	one_after_the_other(count);
	party_stop(&server);
	party_stop(&client);
	return cm_end();
}
