/* SPDX-License-Identifier: MIT */
/* The checks of "anyverbs doctor" of the network: within this host, and to others. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "device/port.h"
#include "doctor.h"
#include "wire/address.h"

#define ARRIVES_MS 2000 /* a packet of this host to itself; it may wait for a core */

/* What may be done with UDP port 4791 of an address. */
enum port { FREE, SHARED, TAKEN, CLOSED };

/* @other_port: any port. Return: descriptor; -1, errno says why */
static int bound(const union av_net_name *address, bool shared, bool other_port)
{
	union av_net_name name = *address;
	bool v4 = name.any.sa_family == AF_INET;
	int fd = socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = shared;

	av_net_set_port(&name, other_port ? 0 : AV_ROCE_PORT);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0 &&
	    bind(fd, &name.any, v4 ? sizeof(name.v4) : sizeof(name.v6)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Does a packet of this host come to the socket @to? */
static bool arrives(int to, const union av_net_name *address)
{
	struct pollfd p = {.fd = to, .events = POLLIN};
	int from = bound(address, false, true);
	union av_net_name name;
	socklen_t bytes = sizeof(name);
	bool came = true; /* without a way to try */

	if (from >= 0 && getsockname(to, &name.any, &bytes) == 0)
		came = sendto(from, "", 1, 0, &name.any, bytes) == 1 &&
		       poll(&p, 1, ARRIVES_MS) == 1;
	if (from >= 0)
		close(from);
	return came;
}

static enum port look_at(const union av_net_name *address)
{
	int fd = bound(address, false, false);
	enum port found = FREE;

	if (fd >= 0 && !arrives(fd, address))
		found = CLOSED;
	if (fd < 0 && errno == EADDRINUSE) {
		fd = bound(address, true, false);
		found = fd >= 0 ? SHARED : TAKEN;
	}
	if (fd >= 0)
		close(fd);
	return found;
}

/* IPv6 addresses of one link, and those of interfaces that are down, say no more than others. */
static bool is_looked_at(const struct ifaddrs *i)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	return i->ifa_addr->sa_family == AF_INET ||
	       (i->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr));
}

/* The worst of all addresses. @where: out, the first of those */
static enum port worst(char *where, socklen_t size)
{
	enum port found = FREE;
	struct ifaddrs *all;

	snprintf(where, size, "all addresses");
	if (getifaddrs(&all))
		return found;
	for (const struct ifaddrs *i = all; i && found != CLOSED; i = i->ifa_next) {
		union av_net_name name;
		bool v4;
		enum port port;

		if (!is_looked_at(i))
			continue;
		v4 = i->ifa_addr->sa_family == AF_INET;
		memcpy(&name, i->ifa_addr, v4 ? sizeof(name.v4) : sizeof(name.v6));
		port = look_at(&name);
		if (port <= found)
			continue;
		found = port;
		inet_ntop(name.any.sa_family,
			  v4 ? (void *)&name.v4.sin_addr : (void *)&name.v6.sin6_addr, where, size);
	}
	freeifaddrs(all);
	return found;
}

static void look_port(struct av_finding *f)
{
	static const struct {
		const char *value;
		enum av_verdict verdict;
		const char *consequence, *advice;
	} of[] = {
		[FREE] = {"free", AV_VERDICT_OK,
			  "Programs can exchange packets of RoCEv2 with other hosts.", ""},
		[SHARED] =
			{"used by programs of this user", AV_VERDICT_OK,
			 "Programs with the same folder of shared files share the port. Those with "
			 "another one (ANYVERBS_DIR) do without packets meanwhile.",
			 ""},
		[TAKEN] = {"taken", AV_VERDICT_LIMITED,
			   "No packets to and from other hosts. On this host the device works.",
			   "Unload rdma_rxe, or end the other user's programs: "
			   "ss -ulnp 'sport = 4791' lists them."},
		[CLOSED] = {"a packet of this host itself does not arrive", AV_VERDICT_LIMITED,
			    "A firewall drops the packets of other hosts, too.",
			    "Let UDP port 4791 through, in both directions."},
	};
	char where[INET6_ADDRSTRLEN];
	enum port port = worst(where, sizeof(where));

	av_finding_value(f, "%s: %s", where, of[port].value);
	av_finding_set(f, of[port].verdict, of[port].consequence, of[port].advice);
}

/* A new network namespace has it down. */
static void look_loopback(struct av_finding *f)
{
	bool up = av_gid_interface_up(if_nametoindex("lo"));

	av_finding_value(f, "%s", up ? "up" : "down");
	if (up)
		av_finding_set(f, AV_VERDICT_OK,
			       "A client reaches the server of its host at localhost.", "");
	else
		av_finding_set(f, AV_VERDICT_LIMITED,
			       "Nobody reaches localhost, over which most programs tell each other "
			       "their queue pairs.",
			       "ip link set lo up");
}

const struct doctor_check doctor_checks_network[] = {
	{"loopback", "Loopback interface", 0, look_loopback},
	{"port", "UDP port 4791", 0, look_port},
	{NULL, NULL, 0, NULL},
};
