/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand at messages of the connection manager: each kind of fault, and each kind of
 * message, strikes once. The rules are set by the tool, as a user would, while the programs run.
 * unit.cm.test_cm_link_* lose, double, delay and reorder each message of each exchange.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/on_the_wire.h"
#include "lib/sandbox.h"
#include "lib/tool.h"
#include "lib/wait.h"

#define REPEAT_MS 95   /* a message is repeated after 100 ms, and not sooner */
#define AGAIN_MS  4290 /* one that asks another host for datagrams, which may be a kernel */
#define LATE_MS	  295  /* one that is delayed by 300 ms comes no sooner */
#define SLOW_MS	  1000

enum side { CLIENT, SERVER };

static struct party client, server;
static struct sockaddr_in at, ud_at;

/* --- rules ---------------------------------------------------------------------------------- */

static void set_rules(const char *rules, enum side side)
{
	char text[200];
	int pid = (side == CLIENT ? &client : &server)->process.pid;

	snprintf(text, sizeof(text), "%s pid %d", rules, pid);
	if (tool_run(ANYVERBS_TOOL, "faults", "-d", "any0", "set", text, NULL) != 0)
		DIE("anyverbs faults set '%s'", text);
}

static void clear_rules(void)
{
	if (tool_run(ANYVERBS_TOOL, "faults", "-d", "any0", "clear", NULL) != 0)
		DIE("anyverbs faults clear");
}

/* --- what is done --------------------------------------------------------------------------- */

static void listen_at_both(void)
{
	struct order o = {
		.what = DO_LISTEN, .uid = 1, .ps = RDMA_PS_UDP, .at = cm_address("127.0.0.1", 0)};

	(void)party_listen(&server, &at);
	ud_at = party_do(&server, &o).at;
}

/*
 * Without a connection, nobody knows that a request has been there before: one that was repeated
 * while the server had no core, and comes behind the answer, would be one of the next row.
 */
static void listen_elsewhere(void)
{
	EXPECT(party_tell(&server, DO_CLOSE, 0) == 0, "not closed");
	EXPECT(party_tell(&server, DO_OPEN, 0) == 0, "not opened");
	listen_at_both();
}

static void destroyed(struct link l)
{
	EXPECT(party_tell(&client, DO_DESTROY, l.active) == 0, "not destroyed");
	EXPECT(party_tell(&server, DO_DESTROY, l.passive) == 0, "not destroyed");
}

static void connected(void)
{
	parties_part(&client, &server, parties_connect(&client, &server, &at));
}

static struct link requested(const struct sockaddr_in *service, uint16_t ps)
{
	const struct order o = {.what = DO_REQUEST, .uid = 1, .at = *service, .ps = ps};
	struct link l;

	l.active = party_do(&client, &o).id;
	l.passive = party_hear(&server, CM_CONNECT_REQUEST).id;
	return l;
}

/* What was late comes when the connection is over, and is no new one. */
static void connected_before(void)
{
	connected();
	usleep(2 * LATE_MS * 1000);
	connected();
}

/* The request comes again meanwhile, and is answered by MRA. */
static void accepted_late(struct party *passive, uint32_t id)
{
	usleep(SLOW_MS * 1000);
	EXPECT(party_tell(passive, DO_ACCEPT, id) == 0, "not accepted");
}

static void connected_slowly(void)
{
	struct link l = requested(&at, 0);

	accepted_late(&server, l.passive);
	(void)party_hear(&client, CM_CONNECT_RESPONSE);
	EXPECT(party_tell(&client, DO_READY, l.active) == 0, "not ready");
	(void)party_hear(&server, CM_ESTABLISHED);
	parties_part(&client, &server, l);
}

/* Who does not hear of the refusal asks again. */
static void refused(void)
{
	struct order o = {.what = DO_REJECT, .number = 28};
	struct link l = requested(&at, 0), again;

	o.id = l.passive;
	EXPECT(party_do(&server, &o).ret == 0, "not refused");
	again.passive = o.id = party_hear(&server, CM_CONNECT_REQUEST).id;
	EXPECT(party_do(&server, &o).ret == 0, "not refused");
	EXPECT(party_hear(&client, CM_REJECTED).status == 28, "another reason");
	EXPECT(party_tell(&server, DO_DESTROY, again.passive) == 0, "not destroyed");
	destroyed(l);
	listen_elsewhere();
}

static void asked(void)
{
	struct link l = requested(&ud_at, RDMA_PS_UDP);

	EXPECT(party_tell(&server, DO_ACCEPT, l.passive) == 0, "not accepted");
	(void)party_hear(&client, CM_ESTABLISHED);
	destroyed(l);
	listen_elsewhere();
}

static const struct row {
	const char *rules;
	enum side side; /* that the message comes to */
	void (*done)(void);
	unsigned int least_ms; /* that it takes: else nothing has struck */
} rows[] = {
	{"drop first 1 message req", SERVER, connected, REPEAT_MS},
	{"drop first 1 message rep", CLIENT, connected, REPEAT_MS},
	{"drop first 1 message rtu", SERVER, connected, REPEAT_MS},
	{"drop first 1 message dreq", SERVER, connected, REPEAT_MS},
	{"drop first 1 message drep", CLIENT, connected, REPEAT_MS},
	{"drop first 1 message rej", CLIENT, refused, REPEAT_MS},
	{"drop first 1 message sidr-req", SERVER, asked, REPEAT_MS},
	{"drop first 1 message sidr-rep", CLIENT, asked, REPEAT_MS},
	{"corrupt first 1 message req", SERVER, connected, REPEAT_MS},
	{"delay 300ms first 1 message req", SERVER, connected_before, REPEAT_MS},
	{"drop message mra", CLIENT, connected_slowly, SLOW_MS},
	{"delay 300ms message rep", CLIENT, connected, LATE_MS},
	{"duplicate 3 message any", SERVER, connected_before, 0},
	{"reorder message any", CLIENT, connected_before, 0},
	{"drop message lap", SERVER, connected, 0}, /* nobody sends one */
};

static unsigned int least_ms(const struct row *r)
{
	return r->done == asked && on_the_wire() ? AGAIN_MS : r->least_ms;
}

static void strikes(const struct row *r)
{
	uint64_t begin;

	row("%s, at the %s", r->rules, r->side == SERVER ? "server" : "client");
	set_rules(r->rules, r->side);
	begin = wait_clock_ms();
	r->done();
	EXPECT(wait_clock_ms() - begin >= least_ms(r), "in %llu ms: nothing has struck",
	       (unsigned long long)(wait_clock_ms() - begin));
	clear_rules();
}

int main(int argc, char **argv)
{
	parties_main(argc, argv);
	sandbox_begin(200);
	party_start(&client);
	party_start(&server);
	listen_at_both();
	for (unsigned int i = 0; i < COUNT_OF(rows); i++)
		strikes(&rows[i]);
	party_stop(&client);
	party_stop(&server);
	return cm_end();
}
