/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <netinet/udp.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "base/real_calls.h"
#include "observe/flight.h"
#include "registry/tables.h"
#include "wire/address.h"

#define RECEIVE_BUFFER (8u << 20) /* as much as the system's limit permits */
/* The kernel doubles it, and counts packets twice: at 1 Gb/s, what waits leaves within 2 ms. */
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
	{IPPROTO_IP, IP_TOS, AV_NET_USUAL_CLASS, true},
	{IPPROTO_IP, IP_TTL, AV_NET_USUAL_HOPS, true},
	{IPPROTO_IP, IP_MULTICAST_ALL, 0, false},
};

/* The kernel's rdma_rxe sends no UDP checksum. */
static const struct option v6_options[] = {
	{IPPROTO_IPV6, IPV6_V6ONLY, 1, true},
	{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO, true},
	{IPPROTO_IPV6, IPV6_RECVTCLASS, 1, true},
	{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1, true},
	{IPPROTO_IPV6, IPV6_TCLASS, AV_NET_USUAL_CLASS, true},
	{IPPROTO_IPV6, IPV6_UNICAST_HOPS, AV_NET_USUAL_HOPS, true},
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

static int make_udp_socket(struct av_endpoint *e)
{
	bool v4 = av_net_is_v4(e->address);
	int fd = av_raw_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       0),
	    ret;

	if (!av_own_fd_keep(&e->socket, fd))
		return -errno;
	ret = set_options(e->socket.fd, v4, e->ifindex, e->kind == AV_ENDPOINT_GROUP);
	if (ret)
		av_own_fd_close(&e->socket);
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

/* Return: 0 or -errno */
static int bind_udp_socket(const struct av_endpoint *e)
{
	int fd = av_own_fd(&e->socket);
	union av_net_name name;
	socklen_t bytes = av_net_name(&name, e->address, e->ifindex);

	if (fd < 0 || av_raw_bind(fd, &name.any, bytes))
		return -errno;
	return e->kind == AV_ENDPOINT_GROUP ? join_multicast_socket(fd, e->address, e->ifindex) : 0;
}

/*
 * Has nobody port AV_ROCE_PORT of that address, not even this user? Tries a socket that does not
 * share it. Return: 0 or -errno: -EADDRINUSE: somebody has
 */
static int net_socket_alone(const uint8_t address[16], uint32_t ifindex)
{
	union av_net_name name;
	socklen_t bytes = av_net_name(&name, address, ifindex);
	int fd AV_CLOSED = av_raw_socket(name.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 || av_raw_bind(fd, &name.any, bytes) ? -errno : 0;
}

/* A number of the socket's network namespace; 0: the kernel is too old to tell */
static uint64_t net_socket_namespace(const struct av_own_fd *own)
{
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);

	if (av_raw_getsockopt(av_own_fd(own), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes))
		return 0;
	return cookie;
}

/* In front of the datagrams. Both processes have the same build (registry/directory.h). */
struct header {
	struct av_net_path path;
	uint32_t segment;
};

static int bind_misrouted_socket(const struct av_own_fd *own)
{
	int fd = av_own_fd(own);
	struct sockaddr_un a;

	if (!av_process_socket(&a, av_lock_self))
		return -ENAMETOOLONG;
	av_process_socket_remove(av_lock_self);
	return fchmod(fd, 0600) || av_raw_bind(fd, (struct sockaddr *)&a, sizeof(a)) ? -errno : 0;
}

/* Return: 0 or -errno, as av_net_pass(). Never blocks */
static int pass_datagrams(const struct av_own_fd *own, uint32_t owner,
			  const struct av_gro_split *cut)
{
	struct header h = {.path = cut->path, .segment = (uint32_t)cut->segment};
	struct iovec io[] = {{&h, sizeof(h)}, {(void *)(uintptr_t)cut->bytes, cut->count}};
	struct sockaddr_un a;
	struct msghdr m = {
		.msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = io, .msg_iovlen = 2};

	if (av_own_fd(own) < 0 || !av_process_socket(&a, owner))
		return -ENOTCONN;
	return av_raw_sendmsg(own->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int av_net_pass(uint32_t proc, const struct av_net_path *path, uint8_t *packet, size_t bytes)
{
	static const uint8_t none[16];
	const struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_PASSED, none, 0);
	struct av_gro_split cut = {.path = *path, .bytes = packet, .count = bytes};
	AV_ERRNO_KEPT;

	cut.path.source_port = AV_ROCE_PORT;
	cut.path.identification = 0;
	bytes -= AV_ICRC_BYTES;
	av_icrc_put(packet + bytes, av_icrc_of(&cut.path, packet, bytes));
	return e ? pass_datagrams(&e->socket, proc, &cut) : -ENOTCONN;
}

/* Return: false: too short */
static bool misrouted_get(struct av_gro_split *cut, const uint8_t *from, size_t bytes)
{
	struct header h;

	if (bytes < sizeof(h))
		return false;
	memcpy(&h, from, sizeof(h));
	*cut = (struct av_gro_split){.path = h.path,
				     .bytes = from + sizeof(h),
				     .count = bytes - sizeof(h),
				     .segment = h.segment};
	return true;
}

/* --- what the kernel tells -------------------------------------------------------- */

static int load_cmsg_int(const struct cmsghdr *c)
{
	int value = 0;

	if (c->cmsg_len >= CMSG_LEN(sizeof(value)))
		memcpy(&value, CMSG_DATA(c), sizeof(value));
	else if (c->cmsg_len >= CMSG_LEN(1))
		value = *CMSG_DATA(c); /* IP_TOS is one byte */
	return value;
}

static bool tells(const struct cmsghdr *c, int level, int type)
{
	return c->cmsg_level == level && c->cmsg_type == type;
}

static void take_note(struct av_gro_split *cut, const struct cmsghdr *c)
{
	int value = load_cmsg_int(c);

	if (tells(c, IPPROTO_IP, IP_TOS) || tells(c, IPPROTO_IPV6, IPV6_TCLASS))
		cut->path.traffic_class = (uint8_t)value;
	else if (tells(c, IPPROTO_IP, IP_TTL) || tells(c, IPPROTO_IPV6, IPV6_HOPLIMIT))
		cut->path.hop_limit = (uint8_t)value;
	else if (tells(c, IPPROTO_IPV6, V6_FLOWINFO))
		cut->path.flow_label = ntohl((uint32_t)value) & 0xfffff;
	else if (tells(c, SOL_UDP, UDP_GRO) && value > 0)
		cut->segment = (size_t)value;
}

bool av_datagram_get(struct av_gro_split *cut, const struct av_endpoint *e, struct mmsghdr *got)
{
	struct msghdr *m = &got->msg_hdr;

	if (e->kind == AV_ENDPOINT_PASSED)
		return misrouted_get(cut, m->msg_iov->iov_base, got->msg_len);
	*cut = (struct av_gro_split){.bytes = m->msg_iov->iov_base, .count = got->msg_len};
	memcpy(cut->path.dst, e->address, sizeof(cut->path.dst));
	cut->path.source_port = av_net_gid(m->msg_name, cut->path.src);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		take_note(cut, c);
	return cut->path.hop_limit > 0;
}

/* --- the backlog ------------------------------------------------------------------ */

#define OWNERS	   16
#define BYTES_MOST (2u << 20)
#define LONGEST_NS (10000ull * 1000000) /* its sender has said it again by then, or given up */

struct waiting {
	STAILQ_ENTRY(waiting) entry;
	uint64_t until_ns;
	struct av_gro_split cut; /* of @bytes */
	uint8_t bytes[];
};

STAILQ_HEAD(line, waiting);

static struct {
	uint32_t owner; /* 0: nobody's */
	struct line line;
} lines[OWNERS];
static _Atomic size_t waiting_bytes;

bool av_backlog_waits(void)
{
	return atomic_load_explicit(&waiting_bytes, memory_order_relaxed) > 0;
}

/* Return: OWNERS: there is none */
static unsigned int find_backlog_line(uint32_t owner)
{
	unsigned int i = 0;

	while (i < OWNERS && lines[i].owner != owner)
		i++;
	return i;
}

static void append_backlog(uint32_t owner, const struct av_gro_split *cut)
{
	size_t bytes = sizeof(struct waiting) + cut->count;
	unsigned int i = find_backlog_line(owner);
	struct waiting *w;

	if (i == OWNERS)
		i = find_backlog_line(0);
	if (i == OWNERS || atomic_load(&waiting_bytes) + bytes > BYTES_MOST)
		return;
	w = malloc(bytes);
	if (!w)
		return;
	w->until_ns = av_now_ns() + LONGEST_NS;
	w->cut = *cut;
	w->cut.bytes = w->bytes;
	memcpy(w->bytes, cut->bytes, cut->count);
	if (lines[i].owner == 0)
		STAILQ_INIT(&lines[i].line);
	lines[i].owner = owner;
	STAILQ_INSERT_TAIL(&lines[i].line, w, entry);
	if (atomic_fetch_add(&waiting_bytes, bytes) == 0)
		av_inbound_wake();
}

/* The first one goes. An empty line is nobody's. */
static void remove_first(unsigned int i)
{
	struct waiting *w = STAILQ_FIRST(&lines[i].line);

	STAILQ_REMOVE_HEAD(&lines[i].line, entry);
	if (STAILQ_EMPTY(&lines[i].line))
		lines[i].owner = 0;
	atomic_fetch_sub(&waiting_bytes, sizeof(*w) + w->cut.count);
	free(w);
}

void av_misrouted_forward(const struct av_own_fd *own, uint32_t owner,
			  const struct av_gro_split *cut, bool waits)
{
	if ((waits && find_backlog_line(owner) < OWNERS) ||
	    (pass_datagrams(own, owner, cut) == -EAGAIN && waits))
		append_backlog(owner, cut);
}

void av_backlog_again(const struct av_own_fd *own)
{
	uint64_t now_ns = av_now_ns();

	for (unsigned int i = 0; i < OWNERS; i++)
		while (lines[i].owner) {
			const struct waiting *w = STAILQ_FIRST(&lines[i].line);

			if (now_ns < w->until_ns &&
			    pass_datagrams(own, lines[i].owner, &w->cut) == -EAGAIN)
				break;
			remove_first(i);
		}
}

/* The backlog may be half changed: it is left behind. */
void av_socket_forked(void)
{
	memset(lines, 0, sizeof(lines));
	atomic_store(&waiting_bytes, 0);
}

/* --- steering --------------------------------------------------------------------- */

#define QPN_WORD 4    /* in the BTH, where the payload of the datagram begins: wire/packet.h */
#define FAR	 255u /* the longest conditional jump */

unsigned int av_steer_runs(const uint32_t *place, unsigned int blocks, struct av_steer_run *run)
{
	unsigned int runs = 0;

	for (unsigned int i = 0; i < blocks; i++) {
		if (place[i] == AV_REUSEPORT_NOBODY ||
		    (runs > 0 && run[runs - 1].place == place[i]))
			continue;
		if (runs == AV_STEER_RUNS - 1) {
			run[runs++] = (struct av_steer_run){i, AV_REUSEPORT_NOBODY};
			break;
		}
		run[runs] = (struct av_steer_run){runs > 0 ? i : 0, place[i]};
		runs++;
	}
	if (runs == 0)
		run[runs++] = (struct av_steer_run){0, AV_REUSEPORT_NOBODY};
	return runs;
}

/* Instructions for a search among so many runs. */
static unsigned int search_size(unsigned int runs)
{
	unsigned int left;

	if (runs == 1)
		return 1;
	left = search_size(runs / 2);
	return 1 + (left > FAR) + left + search_size(runs - runs / 2);
}

/* The lower half follows, then the upper one. Return: behind what was written */
static struct sock_filter *put_search(const struct av_steer_run *run, unsigned int runs,
				      struct sock_filter *to)
{
	unsigned int half = runs / 2, left;
	uint32_t middle;

	if (runs == 1) {
		*to++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, run->place);
		return to;
	}
	left = search_size(half);
	middle = run[half].first << AV_QPN_BLOCK_BITS;
	if (left > FAR) {
		*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, middle, 0, 1);
		*to++ = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, left);
	} else {
		*to++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, middle,
						     (uint8_t)left, 0);
	}
	to = put_search(run, half, to);
	return put_search(run + half, runs - half, to);
}

unsigned int av_steer_program(const struct av_steer_run *run, unsigned int runs,
			      struct sock_filter *program)
{
	struct sock_filter *to = program;

	*to++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, QPN_WORD);
	*to++ = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, AV_QPN_INDEX(~0u));
	to = put_search(run, runs, to);
	return (unsigned int)(to - program);
}

#define REPAIR_NS    10000000u	  /* between two looks for why packets are misrouted */
#define DYING_NS     200000000u	  /* until the kernel has closed what a dead process had open */
#define DYING_MS     5		  /* between two looks for that */
#define IMPATIENT_NS 10000000000u /* it has been waited for in vain */

/* Guarded by the change lock: too much for a thread's stack. */
static uint32_t place[AV_QPN_BLOCKS];
static struct av_steer_run run[AV_STEER_RUNS];
static struct sock_filter program[AV_STEER_MAX];

/* Within a change. With one socket there is nothing to tell. Who refuses is asked again. */
static void attach_steer_program(const struct av_endpoint *e, int group)
{
	struct sock_fprog prog = {.filter = program};
	int fd = av_own_fd(&e->socket), ret = 0;

	if (av_reuseport_members(group) > 1) {
		av_reuseport_places(group, place);
		prog.len = (unsigned short)av_steer_program(
			run, av_steer_runs(place, AV_QPN_BLOCKS, run), program);
		ret = av_raw_setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog,
					sizeof(prog));
	}
	if (ret == 0)
		av_reuseport_tell(group);
}

/*
 * Within a change. First in the table, then the kernel's: who dies in between was the last. The
 * first of this directory must be the first of all: else the kernel would mix its packets with
 * those of strangers' processes of the same user.
 */
static int join_reuseport_group(struct av_endpoint *e)
{
	int group = av_reuseport_join(net_socket_namespace(&e->socket), e->address), ret = 0;

	if (group < 0)
		return group;
	if (av_reuseport_members(group) == 1)
		ret = net_socket_alone(e->address, e->ifindex);
	if (ret == 0)
		ret = bind_udp_socket(e);
	if (ret) {
		av_reuseport_leave(group);
		return ret;
	}
	attach_steer_program(e, group);
	e->group = group;
	return 0;
}

/* A dead process's socket may still be open. Beside a living one, not every queue pair waits. */
static int enter_group(struct av_endpoint *e)
{
	static uint64_t impatient_until; /* guarded by the mutex of net/open.c */
	uint64_t now = av_now_ns(), until = now < impatient_until ? now : now + DYING_NS;
	int ret;

	for (;;) {
		ret = av_dir_change_begin();
		if (ret)
			return ret;
		ret = join_reuseport_group(e);
		av_dir_change_end();
		if (ret != -EADDRINUSE || av_now_ns() >= until)
			break;
		(void)av_raw_poll(NULL, 0, DYING_MS); /* a handler of the program's may end it */
	}
	if (ret == -EADDRINUSE)
		impatient_until = av_now_ns() + IMPATIENT_NS;
	return ret;
}

/* The last who can tells the kernel. Packets between that and the close are lost, as elsewhere. */
static void leave_group(struct av_endpoint *e)
{
	bool changing = av_dir_change_soon();
	int group = e->group;

	if (changing && group >= 0) {
		av_reuseport_leave(group);
		attach_steer_program(e, group);
	} else if (group >= 0) {
		av_reuseport_gone(group);
	}
	av_own_fd_close(&e->socket);
	if (changing)
		av_dir_change_end();
}

/* --- sockets of all kinds ----------------------------------------------------------- */

int av_socket_make(struct av_endpoint *e)
{
	int fd;

	if (e->kind != AV_ENDPOINT_PASSED)
		return make_udp_socket(e);
	fd = av_raw_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return av_own_fd_keep(&e->socket, fd) ? 0 : -errno;
}

int av_socket_bind(struct av_endpoint *e)
{
	switch (e->kind) {
	case AV_ENDPOINT_PASSED:
		return bind_misrouted_socket(&e->socket);
	case AV_ENDPOINT_GROUP:
		return bind_udp_socket(e);
	case AV_ENDPOINT_ADDRESS:
		break;
	}
	return enter_group(e);
}

void av_socket_close(struct av_endpoint *e)
{
	if (e->kind == AV_ENDPOINT_ADDRESS) {
		leave_group(e);
		return;
	}
	if (e->kind == AV_ENDPOINT_PASSED) {
		av_process_socket_remove(av_lock_self);
		for (unsigned int i = 0; i < OWNERS; i++)
			while (lines[i].owner)
				remove_first(i);
	}
	av_own_fd_close(&e->socket);
}

void av_group_lost(struct av_endpoint *e)
{
	int group = e->group;

	if (group < 0)
		return;
	e->group = -1;
	av_reuseport_gone(group);
	av_warn_once("the program has closed sockets of this library: no packets from other hosts");
}

int av_group_own(uint32_t qpn, struct av_endpoint *const *e, unsigned int count)
{
	int ret = av_dir_change_begin();

	if (ret)
		return ret;
	ret = av_reuseport_own(av_lock_self, qpn) ? 0 : -ENOSPC;
	for (unsigned int i = 0; i < count; i++) {
		int group = e[i]->group;

		if (group >= 0 && !av_reuseport_told(group))
			attach_steer_program(e[i], group);
	}
	av_dir_change_end();
	return ret;
}

/* --- packets that are misrouted ------------------------------------------------------- */

void av_group_look(struct av_endpoint *e)
{
	int group = e->group;

	e->told = group < 0 ? 0 : av_reuseport_told(group);
	e->sure = e->told != 0 && e->told == e->drained;
}

/*
 * A process has died, or was about to tell the kernel; or has numbers that it could not tell of.
 * The kernel gave this process the packet of who has that place in its array: so the place is this
 * process's. Every such lesson puts one process right for good: none loses its right place.
 */
static void repair(const struct av_endpoint *e, int group, uint32_t owner, uint32_t qpn, bool first)
{
	uint32_t index;

	av_reuseport_sweep(group);
	if (av_reuseport_own(owner, qpn) && first && e->sure &&
	    e->told == av_reuseport_told(group) &&
	    (index = av_reuseport_place(group, owner)) != AV_REUSEPORT_NOBODY)
		av_reuseport_learn(group, index);
	if (!av_reuseport_told(group))
		attach_steer_program(e, group);
}

void av_group_misrouted(struct av_endpoint *e, uint32_t owner, uint32_t qpn, bool first)
{
	uint64_t now = av_now_coarse_ns();
	int group = e->group;

	if (group < 0 || now < e->repair_after || !av_dir_change_soon())
		return;
	e->repair_after = now + REPAIR_NS;
	repair(e, group, owner, qpn, first);
	av_dir_change_end();
}
