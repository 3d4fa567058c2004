/* SPDX-License-Identifier: MIT */
#include "stat_cm.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <rdma/rdma_user_cm.h>

#include "device/port.h"
#include "registry/tables.h"

static const char *space_name(uint16_t ps)
{
	switch (ps) {
	case RDMA_PS_TCP:
		return "TCP";
	case RDMA_PS_UDP:
		return "UDP";
	case RDMA_PS_IPOIB:
		return "IPoIB";
	default:
		return "IB";
	}
}

static const char *state_name(const struct av_cm_port *p)
{
	return p->listens ? "listens" : "bound";
}

static void write_address(const struct av_cm_port *p, char text[INET6_ADDRSTRLEN])
{
	if (!inet_ntop(p->v6 ? AF_INET6 : AF_INET, p->v6 ? p->address : p->address + 12, text,
		       INET6_ADDRSTRLEN))
		text[0] = '\0';
}

static bool is_of(const struct av_cm_port *p, const struct av_gid *gids, unsigned int count)
{
	if (av_cm_is_any(p->address))
		return true;
	for (unsigned int i = 0; i < count; i++)
		if (memcmp(gids[i].gid.raw, p->address, sizeof(p->address)) == 0)
			return true;
	return false;
}

/* Ports of this network namespace. */
static void each(const struct av_device *dev, void (*f)(const struct av_cm_port *p, void *arg),
		 void *arg)
{
	uint64_t netns = av_netns_of_thread();
	struct av_gid gids[AV_GID_MAX];
	unsigned int count = av_port_gids(dev, gids);
	struct av_cm_port p;

	for (uint32_t at = 0; av_cm_port_next(&at, &p);)
		if (p.netns == netns && is_of(&p, gids, count))
			f(&p, arg);
}

static void print_one(const struct av_cm_port *p, void *arg)
{
	char address[INET6_ADDRSTRLEN];

	(void)arg;
	write_address(p, address);
	printf("  %7" PRId32 "  %-5s  %-39s  %5u  %s\n", p->pid, space_name(p->ps), address,
	       p->port, state_name(p));
}

void av_stat_cm_print(const struct av_device *dev)
{
	printf("%s\n  %7s  %-5s  %-39s  %5s  %s\n", dev->ibv.name, "PID", "SPACE", "ADDRESS",
	       "PORT", "STATE");
	each(dev, print_one, NULL);
}

static void append_one(const struct av_cm_port *p, void *arg)
{
	char address[INET6_ADDRSTRLEN];

	write_address(p, address);
	(void)json_array_append_new(arg, json_pack("{s:i, s:s, s:s, s:i, s:s}", "pid", (int)p->pid,
						   "space", space_name(p->ps), "address", address,
						   "port", (int)p->port, "state", state_name(p)));
}

json_t *av_stat_cm_json(const struct av_device *dev)
{
	json_t *ports = json_array();

	if (!ports)
		return NULL;
	each(dev, append_one, ports);
	return json_pack("{s:s, s:o}", "device", dev->ibv.name, "ports", ports);
}
