/* SPDX-License-Identifier: MIT */
/*
 * Addresses of a host that come and go while a program listens at all of them: other hosts reach it
 * at each that there is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define PORT 7174

static struct party client = {.here = true}, server;

static void change(const char *verb, const char *address)
{
	char command[100];

	snprintf(command, sizeof(command), "ip addr %s %s/24 dev v1", verb, address);
	two_hosts_be(1);
	NEED(system(command) == 0);
	two_hosts_be(0);
}

static void reach(const char *address)
{
	const struct sockaddr_in at = cm_address(address, PORT);

	row("connected to %s", address);
	parties_part(&client, &server, parties_connect(&client, &server, &at));
}

/* More than a host has at once: those that are gone make room. */
static void many_come_and_go(void)
{
	char address[20];

	for (int i = 0; i < 70; i++) {
		snprintf(address, sizeof(address), "192.0.2.%d", 100 + i);
		change("add", address);
		reach(address);
		change("del", address);
	}
	reach("192.0.2.2");
}

int main(int argc, char **argv)
{
	struct order o = {.what = DO_LISTEN, .uid = 1, .at = cm_address("0.0.0.0", PORT)};

	parties_main(argc, argv);
	two_hosts_open(argc, argv);
	time_limit(100);
	two_hosts_live(1);
	party_start(&server);
	two_hosts_live(0);
	party_start(&client);
	EXPECT(party_do(&server, &o).ret == 0, "no listener");
	reach("192.0.2.2");
	change("add", "192.0.2.50");
	reach("192.0.2.50");
	change("add", "192.0.2.51");
	change("del", "192.0.2.50");
	reach("192.0.2.51");
	change("add", "192.0.2.50");
	reach("192.0.2.50");
	many_come_and_go();
	party_stop(&client);
	party_stop(&server);
	return summary();
}
