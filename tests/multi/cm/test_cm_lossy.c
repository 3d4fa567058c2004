/* SPDX-License-Identifier: MIT */
/*
 * Connections between two hosts whose cable loses, doubles, delays and spoils packets: each comes
 * about or ends with an event. SEED in the environment chooses which packets.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cm_fixture.h"
#include "lib/cable.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define CONNECTIONS 100u
#define REOPENED    20u

static struct party client = {.here = true}, server;
static struct sockaddr_in at;
static uint32_t ids[CONNECTIONS];

/* --- the cable ------------------------------------------------------------------------------ */

static const struct trouble {
	const char *name;
	unsigned int lost, doubled, late, spoiled; /* of 100 packets */
} troubles[] = {
	{"no trouble", 0, 0, 0, 0},
	{"every other packet doubled", 0, 50, 0, 0},
	{"every other packet late", 0, 0, 50, 0},
	{"20 % spoiled", 0, 0, 0, 20},
	{"30 % lost", 30, 0, 0, 0},
	{"30 % lost, 10 % doubled, late and spoiled each", 30, 10, 10, 10},
};

static _Atomic(const struct trouble *) trouble = &troubles[0];
static unsigned int chance;
static _Atomic unsigned int happened;

/* A packet that is late arrives behind the next one, or when there has been none for a while. */
static struct {
	int to; /* -1: none */
	size_t bytes;
	uint8_t frame[CABLE_FRAME_MAX];
} late = {.to = -1};

static bool happens(unsigned int percent)
{
	bool it_does = (unsigned int)rand_r(&chance) % 100 < percent;

	atomic_fetch_add(&happened, it_does);
	return it_does;
}

static bool is_roce(const uint8_t *frame, size_t bytes)
{
	return bytes > 42 && frame[12] == 8 && frame[13] == 0 && frame[23] == 17 &&
	       (frame[36] << 8 | frame[37]) == 4791;
}

static void put_late(void)
{
	if (late.to >= 0)
		cable_put(late.to, late.frame, late.bytes);
	late.to = -1;
}

static void put_late_later(int to, const uint8_t *frame, size_t bytes)
{
	put_late();
	late.to = to;
	late.bytes = bytes;
	memcpy(late.frame, frame, bytes);
}

static void put_spoiled(int to, const uint8_t *frame, size_t bytes)
{
	uint8_t spoiled[CABLE_FRAME_MAX];
	size_t where = 42 + (size_t)rand_r(&chance) % (bytes - 42);

	memcpy(spoiled, frame, bytes);
	spoiled[where] ^= 1u << (unsigned int)rand_r(&chance) % 8;
	spoiled[40] = spoiled[41] = 0; /* of UDP: no checksum */
	cable_put(to, spoiled, bytes);
}

static void carry(int from, const uint8_t *frame, size_t bytes)
{
	const struct trouble *t = atomic_load(&trouble);
	int to = !from;

	if (from < 0) {
		put_late();
	} else if (!is_roce(frame, bytes)) {
		cable_put(to, frame, bytes);
	} else if (happens(t->late)) {
		put_late_later(to, frame, bytes);
	} else if (happens(t->spoiled)) {
		put_spoiled(to, frame, bytes);
	} else if (!happens(t->lost)) {
		cable_put(to, frame, bytes);
		if (happens(t->doubled))
			cable_put(to, frame, bytes);
		put_late();
	}
}

/* --- connections ---------------------------------------------------------------------------- */

static struct rdma_ucm_event_resp next_event(const char *what)
{
	const struct order o = {.what = DO_HEAR_ANY};
	struct outcome out = party_do(&client, &o);

	if (out.ret)
		DIE("no event: %s", what);
	return out.event;
}

static unsigned int slot_of(uint32_t id)
{
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		if (ids[i] == id)
			return i;
	DIE("an event of id %u, which there is not", id);
}

/* Each connection has one event. Return: how many came about */
static unsigned int come_about(bool there[CONNECTIONS])
{
	unsigned int count = 0;

	memset(there, 0, CONNECTIONS);
	for (unsigned int i = 0; i < CONNECTIONS; i++) {
		struct rdma_ucm_event_resp e = next_event("not connected");
		bool answered = e.event == CM_CONNECT_RESPONSE;

		EXPECT(answered || e.event == CM_UNREACHABLE || e.event == CM_REJECTED, "event %u",
		       e.event);
		if (answered)
			EXPECT(party_tell(&client, DO_READY, e.id) == 0, "not ready");
		there[slot_of(e.id)] = answered;
		count += answered;
	}
	return count;
}

static void all_end(const bool there[CONNECTIONS], unsigned int count)
{
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		if (there[i])
			EXPECT(party_tell(&client, DO_DISCONNECT, ids[i]) == 0, "not disconnected");
	while (count) {
		struct rdma_ucm_event_resp e = next_event("not disconnected");

		EXPECT(e.event == CM_DISCONNECTED, "event %u", e.event);
		count--;
	}
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		EXPECT(party_tell(&client, DO_DESTROY, ids[i]) == 0, "not destroyed");
}

static void request_all(void)
{
	const struct order o = {.what = DO_ROUTE, .uid = 1, .at = at};

	for (unsigned int i = 0; i < CONNECTIONS; i++) {
		struct outcome out = party_do(&client, &o);

		EXPECT(out.ret == 0, "no route: %d", out.ret);
		ids[i] = out.id;
	}
	for (unsigned int i = 0; i < CONNECTIONS; i++)
		EXPECT(party_tell(&client, DO_CONNECT, ids[i]) == 0, "not requested");
}

/* The server hears of all ends, or ends by itself what the client has given up. */
static void each_ends(const struct trouble *t)
{
	struct order o = {.what = DO_SERVE, .number = UINT32_MAX};
	bool there[CONNECTIONS];
	unsigned int count;

	row("%s", t->name);
	atomic_store(&trouble, t);
	atomic_store(&happened, 0);
	party_begin(&server, &o);
	request_all();
	count = come_about(there);
	EXPECT(count >= CONNECTIONS - (t->lost + t->spoiled) / 4, "only %u have come about", count);
	all_end(there, count);
	o = (struct order){.what = DO_LEAVE};
	party_begin(&server, &o);
	EXPECT(party_end(&server).ret == 0, "not served");
	EXPECT(party_end(&server).ret == 0, "not left");
	EXPECT(t == troubles || atomic_load(&happened) > CONNECTIONS / 10, "only %u packets",
	       atomic_load(&happened));
}

/* A channel that is opened while the last one ends hears other hosts, too. */
static void reopened(void)
{
	const struct order o = {.what = DO_LISTEN, .uid = 1, .at = at};

	row("a listener's channel is closed and another opened, again and again");
	atomic_store(&trouble, &troubles[0]);
	for (unsigned int i = 0; i < REOPENED; i++) {
		struct link l;

		EXPECT(party_tell(&server, DO_CLOSE, 0) == 0, "not closed");
		EXPECT(party_tell(&server, DO_OPEN, 0) == 0, "not opened");
		if (!EXPECT(WAIT_UNTIL(party_do(&server, &o).ret == 0, SOON), "the port is taken"))
			return;
		l = parties_connect(&client, &server, &at);
		parties_part(&client, &server, l);
	}
}

int main(int argc, char **argv)
{
	const char *seed = getenv("SEED");
	struct order o = {.what = DO_LISTEN, .uid = 1, .at = cm_address("192.0.2.2", 7174)};

	parties_main(argc, argv);
	chance = seed ? (unsigned int)atoi(seed) : 1;
	two_hosts_cable = cable_lay;
	two_hosts_open(argc, argv);
	time_limit(300);
	cable_carry(carry);
	two_hosts_live(1);
	party_start(&server);
	two_hosts_live(0);
	party_start(&client);
	EXPECT(party_do(&server, &o).ret == 0, "no listener");
	at = o.at;
	for (unsigned int i = 0; i < COUNT_OF(troubles); i++)
		each_ends(&troubles[i]);
	reopened();
	party_stop(&client);
	party_stop(&server);
	cable_end();
	row("nothing is left");
	EXPECT(WAIT_UNTIL(sandbox_entries() == 0, SOON), "%u entries", sandbox_entries());
	sandbox_leave();
	return summary();
}
