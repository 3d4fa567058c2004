/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/raw_socket.h"
#include "net/address.h"
#include "registry/reuseport.h"

#define RECEIVE_BUFFER (8u << 20) /* as much as the system's limit permits */
/*
 * The kernel doubles it, and packets take twice their length: what waits for an interface of 1 Gb/s
 * does so for 2 ms at most.
 */
#define SEND_BUFFER (256u << 10)

/* Newer than the headers of some systems. */
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
/* <linux/in6.h> has these, which does not go together with <netinet/in.h>. */
#define V6_FLOWINFO	 11
#define V6_FLOWINFO_SEND 33

/* --- interfaces ------------------------------------------------------------------- */

static bool is_address(const struct ifaddrs *i, const uint8_t address[16])
{
	union av_net_name name;
	uint8_t gid[16];

	if (!i->ifa_addr ||
	    (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
		return false;
	memcpy(&name, i->ifa_addr,
	       i->ifa_addr->sa_family == AF_INET ? sizeof(name.v4) : sizeof(name.v6));
	(void)av_net_gid(&name, gid);
	return memcmp(gid, address, sizeof(gid)) == 0;
}

/* The whole of 127.0.0.0/8 is the loopback interface's, which names one address of it. */
int av_net_interface(const uint8_t address[16], uint32_t *ifindex)
{
	bool loopback = av_net_is_v4(address) && address[12] == 127;
	struct ifaddrs *all;
	int err;

	if (getifaddrs(&all))
		return -errno;
	*ifindex = 0;
	errno = EADDRNOTAVAIL; /* if_nametoindex() says otherwise */
	for (const struct ifaddrs *i = all; i && !*ifindex; i = i->ifa_next)
		if (is_address(i, address) || (loopback && i->ifa_flags & IFF_LOOPBACK))
			*ifindex = if_nametoindex(i->ifa_name);
	err = errno;
	freeifaddrs(all);
	return *ifindex ? 0 : -err;
}

/* --- options ---------------------------------------------------------------------- */

struct option {
	int level, name, value;
	bool wanted; /* it does not work without; else it is slower, or tells less */
};

static const struct option both_options[] = {
	{SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER, false},
	{SOL_SOCKET, SO_SNDBUF, SEND_BUFFER, false},
	{IPPROTO_UDP, UDP_GRO, 1, false},
};

/* DF, so that the identification is 0: the ICRC covers it. */
static const struct option v4_options[] = {
	{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO, true},
	{IPPROTO_IP, IP_RECVTOS, 1, true},
	{IPPROTO_IP, IP_RECVTTL, 1, true},
	{IPPROTO_IP, IP_MULTICAST_ALL, 0, false},
};

/* The kernel's rdma_rxe sends no UDP checksum. */
static const struct option v6_options[] = {
	{IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
	{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, true},
	{IPPROTO_IPV6, IPV6_RECVTCLASS, 1, true},
	{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, true},
	{IPPROTO_IPV6, V6_FLOWINFO, 1, false},
	{IPPROTO_IPV6, V6_FLOWINFO_SEND, 1, false},
	{IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, false},
	{IPPROTO_UDP, UDP_NO_CHECK6_RX, 1, false},
};

static int set_all(int fd, const struct option *o, size_t n)
{
	for (; n > 0; n--, o++)
		if (av_raw_setsockopt(fd, o->level, o->name, &o->value, sizeof(o->value)) &&
		    o->wanted)
			return -errno;
	return 0;
}

/* What is sent to groups leaves by that interface, and comes back to this host's members. */
static int send_to_groups(int fd, bool v4, uint32_t ifindex)
{
	struct ip_mreqn by = {.imr_ifindex = (int)ifindex};
	int ret = v4 ? av_raw_setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by))
		     : av_raw_setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &by.imr_ifindex,
					 sizeof(by.imr_ifindex));

	return ret ? -errno : 0;
}

/*
 * All processes of one user share an address (SO_REUSEPORT), and each packet goes to one of them.
 * The name of a group is shared among users, too (SO_REUSEADDR). Each socket of a group gets a copy
 * of each packet, whichever of the two options it has: tried with IPv4 and IPv6 on Linux 6.18.
 */
static int set_options(int fd, bool v4, uint32_t ifindex, bool group)
{
	const struct option share = {SOL_SOCKET, group ? SO_REUSEADDR : SO_REUSEPORT, 1, true};
	int ret = set_all(fd, &share, 1);

	if (ret == 0)
		ret = set_all(fd, both_options, AV_ARRAY_SIZE(both_options));
	if (ret == 0)
		ret = v4 ? set_all(fd, v4_options, AV_ARRAY_SIZE(v4_options))
			 : set_all(fd, v6_options, AV_ARRAY_SIZE(v6_options));
	return ret == 0 && !group ? send_to_groups(fd, v4, ifindex) : ret;
}

int av_net_socket(struct av_own_fd *own, const uint8_t address[16], uint32_t ifindex, bool group)
{
	bool v4 = av_net_is_v4(address);
	int fd = av_raw_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       0),
	    ret;

	if (!av_own_fd_keep(own, fd))
		return -errno;
	ret = set_options(own->fd, v4, ifindex, group);
	if (ret)
		av_own_fd_close(own);
	return ret;
}

/* --- names ------------------------------------------------------------------------ */

static int join_multicast_socket(int fd, const uint8_t group[16], uint32_t ifindex)
{
	struct ip_mreqn v4 = {.imr_ifindex = (int)ifindex};
	struct ipv6_mreq v6 = {.ipv6mr_interface = ifindex};
	int ret;

	memcpy(&v4.imr_multiaddr, group + 12, 4);
	memcpy(&v6.ipv6mr_multiaddr, group, 16);
	ret = av_net_is_v4(group)
		      ? av_raw_setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &v4, sizeof(v4))
		      : av_raw_setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &v6, sizeof(v6));
	return ret ? -errno : 0;
}

int av_net_socket_bind(const struct av_own_fd *own, const uint8_t address[16], uint32_t ifindex,
		       bool group)
{
	int fd = av_own_fd(own);
	union av_net_name name;
	socklen_t bytes = av_net_name(&name, address, ifindex);

	if (fd < 0 || av_raw_bind(fd, &name.any, bytes))
		return -errno;
	return group ? join_multicast_socket(fd, address, ifindex) : 0;
}

int av_net_socket_alone(const uint8_t address[16], uint32_t ifindex)
{
	union av_net_name name;
	socklen_t bytes = av_net_name(&name, address, ifindex);
	int fd = av_raw_socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -errno;
	ret = av_raw_bind(fd, &name.any, bytes) ? -errno : 0;
	close(fd);
	return ret;
}

uint64_t av_net_socket_namespace(const struct av_own_fd *own)
{
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	if (av_raw_getsockopt(av_own_fd(own), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes))
		return 0;
	return cookie;
}

/* In front of the datagrams. Both processes have the same build (registry/folder.h). */
struct header {
	struct av_net_path path;
	uint16_t source_port, congested;
	uint32_t segment;
};

int av_astray_socket(struct av_own_fd *own)
{
	int fd = av_raw_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return av_own_fd_keep(own, fd) ? 0 : -errno;
}

int av_astray_begin(const struct av_own_fd *own)
{
	int fd = av_own_fd(own);
	struct sockaddr_un a;

	if (!av_process_socket(&a, av_lock_self))
		return -ENAMETOOLONG;
	av_process_socket_remove(av_lock_self);
	return fchmod(fd, 0600) || av_raw_bind(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
}

void av_astray_end(void)
{
	av_process_socket_remove(av_lock_self);
}

int av_astray_pass(const struct av_own_fd *own, uint32_t owner, const struct av_cut *cut)
{
	struct header h = {.path = cut->path,
			   .source_port = cut->source_port,
			   .congested = cut->congested,
			   .segment = (uint32_t)cut->segment};
	struct iovec io[] = {{&h, sizeof(h)}, {(void *)(uintptr_t)cut->bytes, cut->count}};
	struct sockaddr_un a;
	struct msghdr m = {
		.msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = io, .msg_iovlen = 2};

	if (av_own_fd(own) < 0 || !av_process_socket(&a, owner))
		return -ENOTCONN;
	return av_raw_sendmsg(own->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

bool av_astray_get(struct av_cut *cut, const uint8_t *from, size_t bytes)
{
	struct header h;

	if (bytes < sizeof(h))
		return false;
	memcpy(&h, from, sizeof(h));
	*cut = (struct av_cut){.path = h.path,
			       .source_port = h.source_port,
			       .congested = h.congested != 0,
			       .bytes = from + sizeof(h),
			       .count = bytes - sizeof(h),
			       .segment = h.segment};
	return true;
}
