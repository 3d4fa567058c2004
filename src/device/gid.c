/* SPDX-License-Identifier: MIT */
/* GIDs from the host's addresses. Each address has a rank, and the table is sorted by rank. */
#include "device/gid.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/real_calls.h"
#include "wire/address.h"

#define UNIVERSAL_LOCAL (0x02ull << 56) /* a bit of an EUI-64 */

/* In table order. Addresses from RANK_LOOPBACK on are used only if no rank before has any. */
enum rank {
	RANK_GLOBAL,
	RANK_LINK_LOCAL,
	RANK_LOOPBACK,
	RANK_ON_LOOPBACK, /* any other address of a loopback interface */
	RANK_NONE,
};

/* All network namespaces have "lo" with number 1, even before it is up and has an address. */
static const struct av_gid last_resort = {
	.gid.raw = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1},
	.ifindex = AV_LOOPBACK_IFINDEX,
	.ifname = "lo",
};

/* An address that is unspecified, or of a group, has none: RFC 4291, 2.7; RFC 1112, 4. */
static enum rank rank_of(const struct av_host_addr *a)
{
	bool v4 = av_net_is_v4(a->addr);
	struct in6_addr v6;

	memcpy(&v6, a->addr, sizeof(v6));
	if (!a->up || IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_MULTICAST(&v6) ||
	    (v4 && (a->addr[12] == 0 || (a->addr[12] & 0xf0) == 0xe0)))
		return RANK_NONE;
	if (v4 ? a->addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(&v6))
		return RANK_LOOPBACK;
	if (a->loopback)
		return RANK_ON_LOOPBACK;
	return IN6_IS_ADDR_LINKLOCAL(&v6) ? RANK_LINK_LOCAL : RANK_GLOBAL;
}

/*
 * The sorting criteria as one number, which is unique: rank (3 bits), interface (32), family (1;
 * one interface usually has both loopback addresses), position among the addresses (28). In paired
 * tables the family comes before the interface.
 */
static uint64_t sort_key(const struct av_host_addr *a, size_t position, bool paired)
{
	uint64_t rank = rank_of(a), is_v6 = !av_net_is_v4(a->addr), ifindex = a->ifindex;

	return rank << 61 | (paired ? is_v6 << 60 | ifindex << 28 : ifindex << 29 | is_v6 << 28) |
	       (uint64_t)position;
}

/* The address with the smallest key >= *key; *key becomes its key. NULL if there is none. */
static const struct av_host_addr *next_addr(const struct av_host_addr *addrs, size_t count,
					    bool paired, uint64_t *key)
{
	const struct av_host_addr *best = NULL;
	uint64_t best_key = UINT64_MAX, k;

	for (size_t i = 0; i < count; i++) {
		k = sort_key(&addrs[i], i, paired);
		if (k < *key || k >= best_key)
			continue;
		best_key = k;
		best = &addrs[i];
	}
	*key = best_key;
	return best;
}

struct making {
	const struct av_gid_form *form;
	struct av_gid *rows;
	unsigned int count;
};

static bool has_gid_row(const struct making *m, const union ibv_gid *gid)
{
	for (unsigned int i = 0; i < m->count; i++)
		if (!memcmp(m->rows[i].gid.raw, gid->raw, sizeof(gid->raw)))
			return true;
	return false;
}

static void append_gid_row(struct making *m, const struct av_gid *row, enum ibv_gid_type type)
{
	if (m->count == m->form->max)
		return;
	m->rows[m->count] = *row;
	m->rows[m->count++].type = type;
}

/* The row or rows of an address that is not in the table yet. */
static void append_address(struct making *m, const struct av_gid *row)
{
	if (has_gid_row(m, &row->gid))
		return;
	if (m->form->paired)
		append_gid_row(m, row, IBV_GID_TYPE_ROCE_V1);
	append_gid_row(m, row, IBV_GID_TYPE_ROCE_V2);
}

static void fill_row(const struct av_host_addr *a, struct av_gid *row)
{
	memset(row, 0, sizeof(*row));
	memcpy(row->gid.raw, a->addr, sizeof(row->gid.raw));
	row->ifindex = a->ifindex;
	memcpy(row->ifname, a->ifname, sizeof(row->ifname));
}

/*
 * The link-local address of the interface of @first. If it has none, the GUID makes one as it would
 * make an interface's: with the universal/local bit inverted (RFC 4291, appendix A).
 */
static void append_link_local(struct making *m, const struct av_host_addr *addrs, size_t count,
			      const struct av_gid *first)
{
	struct av_gid row;

	for (size_t i = 0; i < count; i++) {
		if (rank_of(&addrs[i]) != RANK_LINK_LOCAL || addrs[i].ifindex != first->ifindex)
			continue;
		fill_row(&addrs[i], &row);
		append_address(m, &row);
		return;
	}
	av_gid_from_guid(m->form->guid ^ UNIVERSAL_LOCAL, &row);
	row.ifindex = first->ifindex;
	memcpy(row.ifname, first->ifname, sizeof(row.ifname));
	append_address(m, &row);
}

unsigned int av_gid_table(const struct av_host_addr *addrs, size_t count,
			  const struct av_gid_form *form, struct av_gid *gids)
{
	struct making m = {.form = form, .rows = gids, .count = form->empty};
	enum rank end = RANK_NONE; /* the first rank without rows */
	const struct av_host_addr *a;
	struct av_gid row;
	uint64_t key = 0;

	memset(gids, 0, form->empty * sizeof(gids[0]));
	a = next_addr(addrs, count, form->paired, &key);
	if (a && rank_of(a) < RANK_NONE)
		fill_row(a, &row);
	else
		row = last_resort;
	if (form->paired)
		append_link_local(&m, addrs, count, &row);
	append_address(&m, &row);
	for (; a && m.count < form->max; a = next_addr(addrs, count, form->paired, &key)) {
		if (rank_of(a) < RANK_LOOPBACK)
			end = RANK_LOOPBACK;
		if (rank_of(a) >= end)
			break;
		fill_row(a, &row);
		append_address(&m, &row);
		key++;
	}
	return m.count;
}

enum av_link av_gid_link(const struct av_host_addr *addrs, size_t count)
{
	enum av_link link = AV_LINK_NONE;

	for (size_t i = 0; i < count; i++) {
		enum rank rank = rank_of(&addrs[i]);

		if (rank < RANK_LOOPBACK)
			return AV_LINK_NETWORK;
		if (rank != RANK_NONE)
			link = AV_LINK_LOOPBACK;
	}
	return link;
}

static bool same_row(const struct av_gid *a, const struct av_gid *b)
{
	return a->ifindex == b->ifindex && a->type == b->type && !strcmp(a->ifname, b->ifname) &&
	       !memcmp(a->gid.raw, b->gid.raw, sizeof(a->gid.raw));
}

static bool has_row(const struct av_gid *rows, unsigned int count, const struct av_gid *row)
{
	for (unsigned int i = 0; i < count; i++)
		if (same_row(&rows[i], row))
			return true;
	return false;
}

static struct av_gid *empty_row(struct av_gid *table, unsigned int max)
{
	for (unsigned int i = 0; i < max; i++)
		if (av_gid_is_empty(&table[i]))
			return &table[i];
	return NULL;
}

static bool merge(struct av_gid *table, unsigned int max, const struct av_gid *fresh,
		  unsigned int count)
{
	bool changed = false;
	struct av_gid *row;

	for (unsigned int i = 0; i < max; i++) {
		if (av_gid_is_empty(&table[i]) || has_row(fresh, count, &table[i]))
			continue;
		memset(&table[i], 0, sizeof(table[i]));
		changed = true;
	}
	for (unsigned int i = 0; i < count; i++) {
		if (has_row(table, max, &fresh[i]) || !(row = empty_row(table, max)))
			continue;
		*row = fresh[i];
		changed = true;
	}
	return changed;
}

bool av_gid_merge(struct av_gid *table, const struct av_gid_form *form, const struct av_gid *fresh,
		  unsigned int count)
{
	unsigned int end = form->empty + (form->paired ? AV_GID_FIXED : 0), fixed = 0;
	bool changed = false;

	for (; fixed < end && fixed < count; fixed++) {
		if (same_row(&table[fixed], &fresh[fixed]))
			continue;
		table[fixed] = fresh[fixed];
		changed = true;
	}
	return merge(table + fixed, form->max - fixed, fresh + fixed, count - fixed) || changed;
}

/*
 * An address may have a label instead of its interface's name: by convention the name, a colon and
 * any text. The interface's own entry in the list (family AF_PACKET) has the number.
 */
static void read_interface(const struct ifaddrs *list, const struct ifaddrs *ifa,
			   struct av_host_addr *a)
{
	size_t len = strcspn(ifa->ifa_name, ":");
	struct sockaddr_ll link;

	if (len >= sizeof(a->ifname))
		len = sizeof(a->ifname) - 1;
	memcpy(a->ifname, ifa->ifa_name, len);
	a->ifname[len] = '\0';
	for (; list; list = list->ifa_next) {
		if (!list->ifa_addr || list->ifa_addr->sa_family != AF_PACKET ||
		    strcmp(list->ifa_name, a->ifname))
			continue;
		memcpy(&link, list->ifa_addr, sizeof(link));
		a->ifindex = (uint32_t)link.sll_ifindex;
		return;
	}
	a->ifindex = if_nametoindex(a->ifname);
}

/* Fill @addrs, which has as much room as @list is long. Return: number of addresses. */
static size_t read_list(const struct ifaddrs *list, struct av_host_addr *addrs)
{
	size_t count = 0;

	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
		struct av_host_addr *a = &addrs[count];

		if (!av_net_gid_of(ifa->ifa_addr, a->addr))
			continue;
		read_interface(list, ifa, a);
		a->up = ifa->ifa_flags & IFF_UP;
		a->loopback = ifa->ifa_flags & IFF_LOOPBACK;
		count++;
	}
	return count;
}

void av_gid_from_host(struct av_host_gids *host, const struct av_gid_form *form)
{
	struct av_host_addr *addrs = NULL;
	struct ifaddrs *list = NULL;
	size_t room = 0, count = 0;
	AV_ERRNO_KEPT;
	bool nomem = false;

	if (getifaddrs(&list)) {
		list = NULL;
		nomem = errno == ENOMEM || errno == ENOBUFS;
	}
	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next)
		room++;
	if (room)
		addrs = calloc(room, sizeof(*addrs));
	if (addrs)
		count = read_list(list, addrs);
	nomem = nomem || (room && !addrs);
	host->count = nomem ? 0 : av_gid_table(addrs, count, form, host->row);
	host->link = av_gid_link(addrs, count);
	free(addrs);
	freeifaddrs(list);
}

/* A request of netdevice(7). Return: false: there is no such interface, or the query failed */
static bool ask_interface(uint32_t ifindex, unsigned long request, struct ifreq *req)
{
	AV_ERRNO_KEPT;
	int fd AV_CLOSED = av_raw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && if_indextoname(ifindex, req->ifr_name) && ioctl(fd, request, req) == 0;
}

bool av_gid_interface_up(uint32_t ifindex)
{
	struct ifreq req = {0};

	return ask_interface(ifindex, SIOCGIFFLAGS, &req) && (req.ifr_flags & IFF_UP);
}

void av_gid_interface_hardware(uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES])
{
	struct ifreq req = {0};

	static_assert(sizeof(req.ifr_hwaddr.sa_data) == AV_HARDWARE_BYTES, "all that it says");
	memset(address, 0, AV_HARDWARE_BYTES);
	if (ask_interface(ifindex, SIOCGIFHWADDR, &req))
		memcpy(address, req.ifr_hwaddr.sa_data, AV_HARDWARE_BYTES);
}

void av_gid_from_guid(uint64_t guid, struct av_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	gid->gid.global.subnet_prefix = htobe64(0xfe80ull << 48);
	gid->gid.global.interface_id = htobe64(guid);
	gid->type = IBV_GID_TYPE_IB;
}

enum ibv_mtu av_mtu_of_rows(const struct av_gid *rows, unsigned int count)
{
	AV_ERRNO_KEPT;
	int fd AV_CLOSED = av_raw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t least = UINT32_MAX;

	for (unsigned int i = 0; fd >= 0 && i < count; i++) {
		struct ifreq req = {0};

		_Static_assert(sizeof(req.ifr_name) == sizeof(rows->ifname), "both end with a NUL");
		memcpy(req.ifr_name, rows[i].ifname, sizeof(req.ifr_name));
		if (ioctl(fd, SIOCGIFMTU, &req) == 0 && (uint32_t)req.ifr_mtu < least)
			least = (uint32_t)req.ifr_mtu;
	}
	return av_mtu_within(least);
}
