/* SPDX-License-Identifier: MIT */
/*
 * Addresses of a host that come and go while a program listens at all of them: other hosts reach it
 * at each that there is. So do interfaces that are made anew, with the same addresses; and channels
 * that are opened anew, while the last one ends.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define PORT		7174
#define REOPENED	20u
#define INVALID_SERVICE 8 /* the reason of a REJ */

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

/* --- link-local addresses --------------------------------------------------------------------- */

/* A second one, between w0 here and w1 there. */
static void lay_cable(void)
{
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	char command[200];

	NEED(here >= 0);
	snprintf(command, sizeof(command),
		 "ip link add w1 type veth peer name w0 netns /proc/%d/fd/%d && "
		 "ip addr add fe80::77/64 dev w1 nodad && ip link set w1 up",
		 (int)getpid(), here);
	two_hosts_be(1);
	NEED(system(command) == 0);
	two_hosts_be(0);
	NEED(system("ip addr add fe80::76/64 dev w0 nodad && ip link set w0 up") == 0);
	close(here);
}

static void cut_cable(void)
{
	two_hosts_be(1);
	NEED(system("ip link del w1") == 0);
	two_hosts_be(0);
}

/* Nobody listens there by IPv6. Whoever gets the request says so. */
static void expect_an_answer(int fd, const char *when)
{
	const struct sockaddr_in6 to = {.sin6_family = AF_INET6,
					.sin6_port = htons(PORT),
					.sin6_addr = {{{0xfe, 0x80, [15] = 0x77}}},
					.sin6_scope_id = if_nametoindex("w0")};
	struct rdma_ucm_resolve_addr c = {.dst_size = sizeof(to)};
	struct rdma_ucm_event_resp e = {0};

	row("%s", when);
	memcpy(&c.dst_addr, &to, sizeof(to));
	NEED(cm_create(fd, 1, RDMA_PS_TCP, &c.id) == 0);
	NEED(cm_do(fd, RDMA_USER_CM_CMD_RESOLVE_ADDR, &c, sizeof(c), 0) == 0);
	NEED(cm_expect(fd, SOON, CM_ADDR_RESOLVED, &e) == 0);
	NEED(cm_resolve_route(fd, c.id) == 0);
	NEED(cm_expect(fd, SOON, CM_ROUTE_RESOLVED, &e) == 0);
	EXPECT(cm_connect(fd, c.id, "", 0) == 0, "no request");
	EXPECT(cm_expect(fd, SOON, CM_REJECTED, &e) == 0 && e.status == INVALID_SERVICE,
	       "event %u, status %d", e.event, (int)e.status);
	NEED(cm_destroy(fd, c.id) >= 0);
}

static void interface_made_anew(void)
{
	int fd = cm_open(O_CLOEXEC);

	NEED(fd >= 0);
	lay_cable();
	expect_an_answer(fd, "a link-local address");
	cut_cable();
	lay_cable();
	expect_an_answer(fd, "the same at another interface");
	cut_cable();
	close(fd);
}

static void reopened(void)
{
	const struct order o = {.what = DO_LISTEN, .uid = 1, .at = cm_address("0.0.0.0", PORT)};

	for (unsigned int i = 0; i < REOPENED; i++) {
		EXPECT(party_tell(&server, DO_CLOSE, 0) == 0, "not closed");
		EXPECT(party_tell(&server, DO_OPEN, 0) == 0, "not opened");
		if (!EXPECT(WAIT_UNTIL(party_do(&server, &o).ret == 0, SOON), "the port is taken"))
			return;
		reach("192.0.2.2");
	}
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
	interface_made_anew();
	many_come_and_go();
	reopened();
	party_stop(&client);
	party_stop(&server);
	return summary();
}
