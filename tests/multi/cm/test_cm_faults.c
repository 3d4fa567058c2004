/* SPDX-License-Identifier: MIT */
/*
 * Faults on demand at messages of the connection manager. Where each message is lost once, a
 * connection comes about, is refused or ends all the same; where all are lost, both sides hear
 * what docs/CM.md says. The rules are set by the tool, as a user would, while the programs run.
 */
#include <errno.h>
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
	{"drop first 2 message any", SERVER, connected, 2 * REPEAT_MS},
	{"delay 300ms first 1 message req", SERVER, connected_before, REPEAT_MS},
	{"drop message mra", CLIENT, connected_slowly, SLOW_MS},
	{"delay 300ms message rep", CLIENT, connected, LATE_MS},
	{"delay 300ms message rtu", SERVER, connected, LATE_MS},
	{"delay 300ms message dreq", SERVER, connected, LATE_MS},
	{"delay 300ms message drep", CLIENT, connected, LATE_MS},
	{"duplicate 3 message any", SERVER, connected_before, 0},
	{"duplicate 3 message any", CLIENT, connected_before, 0},
	{"reorder message any", SERVER, connected_before, 0},
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

/* --- all are lost --------------------------------------------------------------------------- */

/* How far both sides come, and what each hears then; NOTHING: the other one says so. */
enum { NOTHING = -1 };

static const struct silence {
	const char *rules;
	enum side side;
	enum { UNASKED, UNANSWERED, NOT_READY, NOT_ENDED } stage;
	int active, active_status, passive, passive_status;
} silences[] = {
	{"drop message req", SERVER, UNASKED, CM_UNREACHABLE, -ETIMEDOUT, NOTHING, 0},
	{"drop message rep", CLIENT, UNANSWERED, CM_REJECTED, 4, CM_UNREACHABLE, -ETIMEDOUT},
	{"drop message rtu", SERVER, NOT_READY, CM_DISCONNECTED, 0, CM_UNREACHABLE, -ETIMEDOUT},
	{"drop message dreq", SERVER, NOT_ENDED, CM_DISCONNECTED, -ETIMEDOUT, NOTHING, 0},
	{"drop message drep", CLIENT, NOT_ENDED, CM_DISCONNECTED, -ETIMEDOUT, CM_DISCONNECTED, 0},
};

#define SILENCES COUNT_OF(silences)

/* A pair of processes for each: they wait for 30 s together. */
static struct party clients[SILENCES], servers[SILENCES];

static void set_all_rules(void)
{
	char text[100 * SILENCES];
	size_t end = 0;

	for (unsigned int i = 0; i < SILENCES; i++) {
		const struct silence *s = &silences[i];
		const struct party *p = s->side == CLIENT ? &clients[i] : &servers[i];

		end += (size_t)snprintf(text + end, sizeof(text) - end, "%s pid %d;", s->rules,
					p->process.pid);
	}
	if (tool_run(ANYVERBS_TOOL, "faults", "-d", "any0", "set", text, NULL) != 0)
		DIE("anyverbs faults set '%s'", text);
}

/* As far as it goes. */
static void come_to(const struct silence *s, struct party *active, struct party *passive)
{
	struct sockaddr_in there;
	struct link l;

	(void)party_listen(passive, &there);
	l.active = party_request(active, &there, NULL, 0);
	if (s->stage == UNASKED)
		return;
	l.passive = party_hear(passive, CM_CONNECT_REQUEST).id;
	if (s->stage == UNANSWERED) { /* the passive side is the first to give up */
		accepted_late(passive, l.passive);
		return;
	}
	EXPECT(party_tell(passive, DO_ACCEPT, l.passive) == 0, "not accepted");
	(void)party_hear(active, CM_CONNECT_RESPONSE);
	EXPECT(party_tell(active, DO_READY, l.active) == 0, "not ready");
	if (s->stage == NOT_READY)
		return;
	(void)party_hear(passive, CM_ESTABLISHED);
	EXPECT(party_tell(active, DO_DISCONNECT, l.active) == 0, "not disconnected");
	if (s->passive == NOTHING)
		return;
	(void)party_hear(passive, CM_DISCONNECTED);
	EXPECT(party_tell(passive, DO_DISCONNECT, l.passive) == 0, "not disconnected");
}

static void expect_heard(struct party *p, const char *who, int event, int status)
{
	struct outcome out = party_end(p);

	EXPECT(out.ret == 0 && (int)out.event.event == event && (int)out.event.status == status,
	       "the %s hears event %u with status %d: %d", who, out.event.event,
	       (int)out.event.status, out.ret);
}

static void begin_to_hear(struct party *p)
{
	const struct order o = {.what = DO_HEAR_ANY};

	party_begin(p, &o);
}

/* A server whose answer is there, at a client whose program takes its time. */
static struct party slow_client, patient_server;

static uint32_t begin_to_be_slow(void)
{
	struct sockaddr_in there;
	uint32_t id;

	party_start(&slow_client);
	party_start(&patient_server);
	(void)party_listen(&patient_server, &there);
	id = party_request(&slow_client, &there, NULL, 0);
	EXPECT(party_tell(&patient_server, DO_ACCEPT,
			  party_hear(&patient_server, CM_CONNECT_REQUEST).id) == 0,
	       "not accepted");
	(void)party_hear(&slow_client, CM_CONNECT_RESPONSE);
	begin_to_hear(&patient_server);
	return id;
}

static void be_ready_at_last(uint32_t id)
{
	row("nothing is lost, and the client takes longer than a lost message");
	EXPECT(party_tell(&slow_client, DO_READY, id) == 0, "not ready");
	expect_heard(&patient_server, "server", CM_ESTABLISHED, 0);
	party_stop(&slow_client);
	party_stop(&patient_server);
}

/* The server of "drep" has heard of the end before. */
static bool hears(const struct silence *s)
{
	return s->passive != NOTHING && s->stage != NOT_ENDED;
}

static void all_lost(void)
{
	uint32_t slow = begin_to_be_slow();

	for (unsigned int i = 0; i < SILENCES; i++) {
		party_start(&clients[i]);
		party_start(&servers[i]);
	}
	set_all_rules();
	for (unsigned int i = 0; i < SILENCES; i++)
		come_to(&silences[i], &clients[i], &servers[i]);
	for (unsigned int i = 0; i < SILENCES; i++) {
		begin_to_hear(&clients[i]);
		if (hears(&silences[i]))
			begin_to_hear(&servers[i]);
	}
	for (unsigned int i = 0; i < SILENCES; i++) {
		const struct silence *s = &silences[i];

		row("%s, at the %s", s->rules, s->side == SERVER ? "server" : "client");
		expect_heard(&clients[i], "client", s->active, s->active_status);
		if (hears(s))
			expect_heard(&servers[i], "server", s->passive, s->passive_status);
	}
	be_ready_at_last(slow);
	clear_rules();
	for (unsigned int i = 0; i < SILENCES; i++) {
		party_stop(&clients[i]);
		party_stop(&servers[i]);
	}
}

int main(int argc, char **argv)
{
	parties_main(argc, argv);
	time_limit(200);
	sandbox_enter();
	party_start(&client);
	party_start(&server);
	listen_at_both();
	for (unsigned int i = 0; i < COUNT_OF(rows); i++)
		strikes(&rows[i]);
	party_stop(&client);
	party_stop(&server);
	all_lost();
	row("nothing is left");
	EXPECT(WAIT_UNTIL(sandbox_entries() == 0, SOON), "%u entries", sandbox_entries());
	sandbox_leave();
	return summary();
}
