/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/lock.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "net/address.h"
#include "registry/directory.h"
#include "registry/tables.h"

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
static void (*_Atomic wake)(void);

void av_backlog_wake_by(void (*f)(void))
{
	atomic_store(&wake, f);
}

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

static size_t backlog_entry_bytes(const struct waiting *w)
{
	return sizeof(*w) + w->cut.count;
}

static void append_backlog(uint32_t owner, const struct av_gro_split *cut)
{
	size_t bytes = sizeof(struct waiting) + cut->count;
	unsigned int i = find_backlog_line(owner);
	void (*f)(void) = atomic_load(&wake);
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
		f();
}

/* The first one goes. An empty line is nobody's. */
static void remove_first(unsigned int i)
{
	struct waiting *w = STAILQ_FIRST(&lines[i].line);

	STAILQ_REMOVE_HEAD(&lines[i].line, entry);
	if (STAILQ_EMPTY(&lines[i].line))
		lines[i].owner = 0;
	atomic_fetch_sub(&waiting_bytes, backlog_entry_bytes(w));
	free(w);
}

/*
 * av_misrouted_pass(), but what does not fit waits for backlog_again(), and what comes behind it
 * waits, too. What waits for long is lost, and so is what there is no memory for.
 */
static void backlog_pass(const struct av_own_fd *own, uint32_t owner,
			 const struct av_gro_split *cut)
{
	if (find_backlog_line(owner) < OWNERS || av_misrouted_pass(own, owner, cut) == -EAGAIN)
		append_backlog(owner, cut);
}

static void move_up(unsigned int i, const struct av_own_fd *own, uint64_t now_ns)
{
	while (lines[i].owner) {
		const struct waiting *w = STAILQ_FIRST(&lines[i].line);

		if (now_ns < w->until_ns &&
		    av_misrouted_pass(own, lines[i].owner, &w->cut) == -EAGAIN)
			return;
		remove_first(i);
	}
}

/* Pass on what waits, as far as it fits. */
static void backlog_again(const struct av_own_fd *own)
{
	uint64_t now_ns = av_now_ns();

	for (unsigned int i = 0; i < OWNERS; i++)
		move_up(i, own, now_ns);
}

void av_backlog_drop(void)
{
	for (unsigned int i = 0; i < OWNERS; i++)
		while (lines[i].owner)
			remove_first(i);
}

/* It may be half changed: it is left behind. */
void av_backlog_forked(void)
{
	memset(lines, 0, sizeof(lines));
	atomic_store(&waiting_bytes, 0);
}

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define DATAGRAMS      16    /* taken at once, */
#define CATCH_UP       64    /* times: a flood ends nobody's wait */
#define DATAGRAM_BYTES 65536 /* each joined of several */
#define CONTROL_BYTES  256
#define V6_FLOWINFO    11
#define GROUP_QPN      0xffffffu
#define SHOWN	       64 /* to captures at once */

struct buffers {
	struct mmsghdr head[DATAGRAMS];
	struct iovec io[DATAGRAMS];
	union av_net_name from[DATAGRAMS];
	_Alignas(struct cmsghdr) uint8_t control[DATAGRAMS][CONTROL_BYTES];
	struct av_endpoint *endpoint[AV_ENDPOINTS];
	struct pollfd poll[AV_ENDPOINTS]; /* of each endpoint */
	unsigned int endpoints, version;
	const struct av_own_fd *passed; /* by which packets are passed on; NULL: it cannot be */
	uint8_t data[DATAGRAMS][DATAGRAM_BYTES];
};

static const struct av_net_receiver *_Atomic receiver;
static const struct av_net_manager *_Atomic manager;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of who receives; guards @buffers */
static struct buffers *buffers;
static _Atomic unsigned int polled;
static _Atomic uint64_t looked_ns; /* when av_net_poll() looked last */

_Atomic uint64_t av_net_counter[AV_NET_COUNTS];

uint64_t av_net_counted(enum av_net_count what)
{
	return atomic_load_explicit(&av_net_counter[what], memory_order_relaxed);
}

void av_net_receive_by(const struct av_net_receiver *r)
{
	receiver = r;
}

void av_net_manage_by(const struct av_net_manager *m)
{
	manager = m;
}

/* The kernel writes to what it is given: have it as before. */
static void arm(unsigned int i)
{
	buffers->io[i] = (struct iovec){buffers->data[i], DATAGRAM_BYTES};
	buffers->head[i].msg_hdr = (struct msghdr){
		.msg_name = &buffers->from[i],
		.msg_namelen = sizeof(buffers->from[i]),
		.msg_iov = &buffers->io[i],
		.msg_iovlen = 1,
		.msg_control = buffers->control[i],
		.msg_controllen = sizeof(buffers->control[i]),
	};
}

/* The pages of buffers that are never filled are never there. Context: @mutex is held. */
static int make_buffers(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *p;

	if (buffers)
		return 0;
	p = av_mmap(NULL, sizeof(*buffers), PROT_READ | PROT_WRITE, flags, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	buffers = p;
	buffers->version = av_endpoint_version() - 1;
	for (unsigned int i = 0; i < DATAGRAMS; i++)
		arm(i);
	return 0;
}

int av_inbound_prepare(void)
{
	int ret;

	pthread_mutex_lock(&mutex);
	ret = make_buffers();
	pthread_mutex_unlock(&mutex);
	return ret;
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

static void take_note(struct av_gro_split *cut, const struct cmsghdr *c)
{
	int value = load_cmsg_int(c);

	switch (c->cmsg_level) {
	case SOL_UDP:
		if (c->cmsg_type == UDP_GRO && value > 0)
			cut->segment = (size_t)value;
		break;
	case IPPROTO_IP:
		if (c->cmsg_type == IP_TOS)
			cut->path.traffic_class = (uint8_t)value;
		else if (c->cmsg_type == IP_TTL)
			cut->path.hop_limit = (uint8_t)value;
		break;
	case IPPROTO_IPV6:
		if (c->cmsg_type == IPV6_TCLASS)
			cut->path.traffic_class = (uint8_t)value;
		else if (c->cmsg_type == IPV6_HOPLIMIT)
			cut->path.hop_limit = (uint8_t)value;
		else if (c->cmsg_type == V6_FLOWINFO)
			cut->path.flow_label = ntohl((uint32_t)value) & 0xfffff;
		break;
	}
}

/* Datagram @i, which came by @e. Return: false: it is nothing that a process passes on */
static bool parse_datagram(struct av_gro_split *cut, const struct av_endpoint *e, unsigned int i)
{
	struct msghdr *m = &buffers->head[i].msg_hdr;

	if (e->kind == AV_ENDPOINT_PASSED)
		return av_misrouted_get(cut, buffers->data[i], buffers->head[i].msg_len);
	*cut = (struct av_gro_split){.bytes = buffers->data[i], .count = buffers->head[i].msg_len};
	memcpy(cut->path.dst, e->address, sizeof(cut->path.dst));
	cut->path.source_port = av_net_gid(&buffers->from[i], cut->path.src);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		take_note(cut, c);
	return true;
}

/* --- who gets it ------------------------------------------------------------------ */

static bool is_management(const struct av_net_packet *p)
{
	return p->packet.dest_qpn == AV_NET_MANAGEMENT_QPN;
}

/* The process that owns a packet's queue pair, which it finds; 0: there is none. */
static uint32_t owner_of(struct av_net_packet *p)
{
	if (is_management(p))
		return manager ? manager->owner(p) : 0;
	p->qp = av_dir_qpn_find(p->packet.dest_qpn);
	return p->qp.ref ? av_dir_context_owner(p->qp.ref) : 0;
}

/* Datagrams of a flow that came together, and how. */
struct arrival {
	struct av_endpoint *by;
	struct av_group_look look;
	struct av_gro_split all;
	uint32_t owner; /* of those that are to be passed on; 0: there are none */
	bool waits;	/* they wait until there is room for them */
	struct av_gro_split misrouted;
};

static void forward_misrouted(struct arrival *a)
{
	if (a->owner && buffers->passed && a->waits)
		backlog_pass(buffers->passed, a->owner, &a->misrouted);
	else if (a->owner && buffers->passed)
		(void)av_misrouted_pass(buffers->passed, a->owner, &a->misrouted);
	a->owner = 0;
}

/*
 * Those of one kind that follow one another and have the same owner are passed on together.
 * @begin: of @a. The kernel is not told whose datagrams of management are.
 */
static void is_misrouted(struct arrival *a, uint32_t owner, const struct av_net_packet *p,
			 size_t begin)
{
	av_net_count(AV_NET_MISROUTED, 1);
	if (a->owner != owner || a->waits != is_management(p) ||
	    a->misrouted.bytes + a->misrouted.count != a->all.bytes + begin) {
		forward_misrouted(a);
		a->owner = owner;
		a->waits = is_management(p);
		a->misrouted = a->all;
		a->misrouted.bytes += begin;
	}
	a->misrouted.count = (size_t)(a->all.bytes + a->all.at - a->misrouted.bytes);
	if (!is_management(p))
		av_group_misrouted(a->by, owner, p->packet.dest_qpn, begin == 0 ? &a->look : NULL);
}

/* Messages of the connection manager pass between processes even where no address can be had. */
static bool is_packet_expected(const struct arrival *a, const struct av_net_packet *p)
{
	return a->by->kind != AV_ENDPOINT_PASSED || is_management(p) ||
	       av_endpoint_find(AV_ENDPOINT_ADDRESS, p->path.dst, 0);
}

/* @begin: where in @a it begins */
static void hand_over(struct arrival *a, struct av_net_packet *p, size_t begin)
{
	bool to_group = av_net_is_group(p->path.dst);
	uint32_t owner = to_group ? 0 : owner_of(p);

	if (!is_packet_expected(a, p))
		av_net_count(AV_NET_NOBODY, 1);
	else if (owner == av_lock_self && is_management(p))
		manager->packet(p);
	else if (to_group ? p->packet.dest_qpn == GROUP_QPN : owner == av_lock_self)
		receiver->packet(p);
	else if (owner && a->by->kind == AV_ENDPOINT_ADDRESS)
		is_misrouted(a, owner, p, begin);
	else
		av_net_count(AV_NET_NOBODY, 1);
}

static void drop_faulty_packet(const struct av_net_packet *p, enum av_net_count fault)
{
	av_net_count(fault, 1);
	if (fault == AV_NET_BAD_CRC)
		receiver->damaged(p->packet.dest_qpn);
}

static void hand_over_all(struct arrival *a)
{
	enum av_net_count fault;
	struct av_net_packet p;
	size_t begin = 0;

	while (av_gro_next(&a->all, &p, &fault)) {
		av_net_count(AV_NET_IN, 1);
		if (fault == AV_NET_COUNTS)
			hand_over(a, &p, begin);
		else
			drop_faulty_packet(&p, fault);
		begin = a->all.at;
	}
	forward_misrouted(a);
}

/* --- captures --------------------------------------------------------------------- */

/* Who else owns its queue pair gets it, and shows it to captures. */
static bool is_passed_on(const struct arrival *a, struct av_net_packet *p, bool is_packet)
{
	uint32_t owner = is_packet && a->by->kind == AV_ENDPOINT_ADDRESS ? owner_of(p) : 0;

	return owner && owner != av_lock_self;
}

static bool is_nobodys(struct av_net_packet *p)
{
	return av_net_is_group(p->path.dst) ? p->packet.dest_qpn != GROUP_QPN : !owner_of(p);
}

/*
 * Show captures all that has come, before it is handed over: answers come behind. It is taken apart
 * for that alone.
 */
static __attribute__((noinline)) void show_all(const struct arrival *a)
{
	struct av_net_datagram datagram[SHOWN];
	struct av_gro_split cut = a->all;
	struct av_net_seen seen = {
		.path = &cut.path, .time_ns = av_now_real_ns(), .datagram = datagram};
	enum av_net_count fault;
	struct av_net_packet p;
	size_t begin = 0;

	for (; av_gro_next(&cut, &p, &fault); begin = cut.at) {
		bool is_packet = fault == AV_NET_COUNTS;

		if (is_passed_on(a, &p, is_packet))
			continue;
		datagram[seen.count++] = (struct av_net_datagram){
			.bytes = cut.bytes + begin,
			.count = cut.at - begin,
			.identification = is_packet ? p.path.identification : 0,
			.unknown_queue = is_packet && is_nobodys(&p),
			.damaged = fault == AV_NET_BAD_CRC,
		};
		if (seen.count == SHOWN) {
			av_inbound_seen(&seen);
			seen.count = 0;
		}
	}
	if (seen.count)
		av_inbound_seen(&seen);
}

void av_inbound_seen(const struct av_net_seen *seen)
{
	receiver->seen(seen);
}

/* --- taking ----------------------------------------------------------------------- */

/* Return: how many have come; DATAGRAMS: there may be more */
static unsigned int take_from(struct av_endpoint *e)
{
	struct arrival a = {.by = e};
	int fd = av_own_fd(&e->socket), n;

	if (fd < 0) {
		av_group_lost(e);
		return 0;
	}
	a.look = av_group_look(e);
	n = recvmmsg(fd, buffers->head, DATAGRAMS, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		bool is_sound = parse_datagram(&a.all, e, (unsigned int)i);

		arm((unsigned int)i);
		if (!is_sound)
			continue;
		if (av_unlikely(av_capture_is_on()))
			show_all(&a);
		hand_over_all(&a);
	}
	if (n < DATAGRAMS)
		av_group_drained(e, &a.look);
	return n > 0 ? (unsigned int)n : 0;
}

static void look_at_endpoints(void)
{
	unsigned int version = av_endpoint_version();

	if (buffers->version == version)
		return;
	buffers->endpoints = av_endpoint_all(buffers->endpoint);
	buffers->passed = NULL;
	for (unsigned int i = 0; i < buffers->endpoints; i++) {
		const struct av_endpoint *e = buffers->endpoint[i];

		buffers->poll[i] = (struct pollfd){.fd = e->socket.fd, .events = POLLIN};
		if (e->kind == AV_ENDPOINT_PASSED)
			buffers->passed = &e->socket;
	}
	buffers->version = version;
}

/*
 * One look at all sockets costs less than one at each. If the limit of descriptors is lower than
 * their numbers by now, poll(2) takes none.
 */
static bool any_ready(void)
{
	int n = av_raw_poll(buffers->poll, buffers->endpoints, 0);

	for (unsigned int i = 0; n < 0 && i < buffers->endpoints; i++)
		buffers->poll[i].revents = POLLIN;
	return n != 0;
}

/* Return: datagrams that came */
static unsigned int take_all(bool *drained)
{
	unsigned int sum = 0, n;

	*drained = true;
	look_at_endpoints();
	if (buffers->passed && av_backlog_waits())
		backlog_again(buffers->passed);
	if (!any_ready())
		return 0;
	for (unsigned int i = 0; i < buffers->endpoints; i++) {
		if (!buffers->poll[i].revents)
			continue;
		n = take_from(buffers->endpoint[i]);
		sum += n;
		*drained &= n < DATAGRAMS;
	}
	if (sum > 0)
		receiver->settled();
	return sum;
}

bool av_inbound_take(bool wait, unsigned int *taken, bool *drained)
{
	AV_UNCANCELLED;

	*taken = 0;
	*drained = true;
	if (wait ? pthread_mutex_lock(&mutex) : pthread_mutex_trylock(&mutex))
		return false;
	if (buffers)
		*taken = take_all(drained);
	pthread_mutex_unlock(&mutex);
	return true;
}

bool av_net_poll(void)
{
	AV_UNCANCELLED;
	unsigned int taken = 0;
	int saved = errno;
	bool drained;

	if (pthread_mutex_trylock(&mutex))
		return false;
	if (buffers)
		taken = take_all(&drained);
	pthread_mutex_unlock(&mutex);
	atomic_store_explicit(&looked_ns, av_now_ns(), memory_order_relaxed);
	if (taken)
		atomic_fetch_add_explicit(&polled, 1, memory_order_relaxed);
	errno = saved;
	return taken > 0;
}

bool av_net_catch_up(void)
{
	int saved = errno;
	bool drained = false, mine = true;
	unsigned int taken;

	for (unsigned int i = 0; i < CATCH_UP && mine && !drained; i++)
		mine = av_inbound_take(false, &taken, &drained);
	errno = saved;
	return mine;
}

bool av_net_in_turn(void (*f)(void *arg), void *arg, bool wait)
{
	AV_UNCANCELLED;

	if (wait ? pthread_mutex_lock(&mutex) : pthread_mutex_trylock(&mutex))
		return false;
	f(arg);
	if (receiver)
		receiver->settled();
	pthread_mutex_unlock(&mutex);
	return true;
}

unsigned int av_inbound_polled(void)
{
	return atomic_load_explicit(&polled, memory_order_relaxed);
}

uint64_t av_inbound_looked_ns(void)
{
	return atomic_load_explicit(&looked_ns, memory_order_relaxed);
}

void av_inbound_pause(void)
{
	pthread_mutex_lock(&mutex);
}

void av_inbound_resume(void)
{
	pthread_mutex_unlock(&mutex);
}

/* A thread that is not here may have held it. */
void av_inbound_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	if (receiver && receiver->forked)
		receiver->forked();
}
