/* SPDX-License-Identifier: MIT */
/* Sending: packets of a burst are collected, and the kernel cuts them apart. */
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdlib.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "net/socket.h"
#include "observe/flight.h"
#include "registry/capture_table.h"
#include "wire/address.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define SEND_BYTES   65000 /* of one send: with all headers, an IP packet has 65,535 at most */
#define SEND_PACKETS 64	   /* of one UDP_SEGMENT send: what every kernel takes */
#define KEPT	     8	   /* bursts that are kept for the next ones */

struct av_net_burst {
	struct av_net_path path;
	const char *device; /* borrowed */
	struct av_endpoint *from;
	union av_net_name to;
	socklen_t to_bytes;
	int err; /* of the first send that failed */

	unsigned int packets; /* in @data, the open one included */
	uint32_t qpn;	      /* of all of them */
	size_t segment;	      /* bytes of each but the last, */
	size_t bytes;	      /* and of all together */
	size_t last;	      /* of the last */
	size_t control_bytes; /* of what each send tells of the path, if it is unusual */
	_Alignas(struct cmsghdr) char control[4 * CMSG_SPACE(sizeof(int))];
	uint8_t data[SEND_BYTES];
};

/* --- keeping ---------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards these */
static struct av_net_burst *kept[KEPT];
static unsigned int kept_count;

static struct av_net_burst *alloc_burst(void)
{
	struct av_net_burst *b;

	pthread_mutex_lock(&mutex);
	b = kept_count > 0 ? kept[--kept_count] : NULL;
	pthread_mutex_unlock(&mutex);
	return b ? b : malloc(sizeof(*b));
}

static void recycle_burst(struct av_net_burst *b)
{
	pthread_mutex_lock(&mutex);
	if (kept_count < KEPT) {
		kept[kept_count++] = b;
		b = NULL;
	}
	pthread_mutex_unlock(&mutex);
	free(b);
}

/* --- what the kernel is told ------------------------------------------------------ */

static void add_control(struct av_net_burst *b, int level, int type, const void *value, size_t n)
{
	struct cmsghdr *c = (struct cmsghdr *)(b->control + b->control_bytes);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(c), value, n);
	b->control_bytes += CMSG_SPACE(n);
}

/*
 * Nothing is told of a usual path: that takes 4 % of a short message's time, and sendto(2) does
 * without a struct msghdr. The socket's hop limit does not hold for groups.
 */
static void set_burst_address(struct av_net_burst *b)
{
	bool v4 = av_net_is_v4(b->path.src);
	int tos = b->path.traffic_class, hops = b->path.hop_limit;

	memset(b->control, 0, sizeof(b->control));
	b->control_bytes = 0;
	if (tos != AV_NET_USUAL_CLASS || hops != AV_NET_USUAL_HOPS ||
	    av_net_is_group(b->path.dst)) {
		add_control(b, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &tos,
			    sizeof(tos));
		add_control(b, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, &hops,
			    sizeof(hops));
	}
	b->to_bytes = av_net_name(&b->to, b->path.dst, b->from->ifindex);
	if (!v4)
		b->to.v6.sin6_flowinfo = htonl(b->path.flow_label & 0xfffff);
}

struct av_net_burst *av_net_burst(const struct av_net_path *path, const char *device)
{
	struct av_endpoint *from = av_endpoint_find(AV_ENDPOINT_ADDRESS, path->src, 0);
	struct av_net_burst *b = from ? alloc_burst() : NULL;

	if (!b)
		return NULL;
	b->path = *path;
	b->path.source_port = AV_ROCE_PORT;
	b->path.identification = 0;
	if (!path->hop_limit) /* the kernel refuses it */
		b->path.hop_limit = av_net_is_group(path->dst) ? 1 : AV_NET_USUAL_HOPS;
	b->device = device;
	b->from = from;
	b->err = 0;
	b->packets = 0;
	b->bytes = 0;
	set_burst_address(b);
	return b;
}

/* --- sending ---------------------------------------------------------------------- */

/* Into the last of @bytes. */
static void put_icrc(const struct av_net_path *path, uint8_t *packet, size_t bytes)
{
	bytes -= AV_ICRC_BYTES;
	av_icrc_put(packet + bytes, av_icrc_of(path, packet, bytes));
}

/* Of several that are sent together, the kernel numbers the identifications from 0. */
static void put_icrcs(struct av_net_burst *b)
{
	uint8_t *packet = b->data;
	unsigned int last = b->packets - 1;

	for (unsigned int i = 0; i <= last; i++, packet += b->segment) {
		b->path.identification = (uint16_t)i;
		put_icrc(&b->path, packet, i < last ? b->segment : b->last);
	}
	b->path.identification = 0;
}

/* Show captures what the kernel has taken. Segments that it cuts are numbered from 0. */
static __attribute__((noinline)) void show(const struct av_net_burst *b, const uint8_t *from,
					   size_t bytes, size_t segment, uint64_t time_ns)
{
	struct av_net_datagram datagram[SEND_PACKETS];
	struct av_net_seen seen = {
		.path = &b->path, .device = b->device, .time_ns = time_ns, .datagram = datagram};

	for (size_t at = 0; at < bytes; at += segment) {
		size_t rest = bytes - at;

		datagram[seen.count] = (struct av_net_datagram){
			.bytes = from + at,
			.count = rest < segment ? rest : segment,
			.identification = (uint16_t)seen.count,
		};
		seen.count++;
	}
	av_inbound_seen(&seen);
}

/* @segment: where to cut; 0: nowhere. Return: 0 or -errno */
static int send_burst_bytes(struct av_net_burst *b, const uint8_t *from, size_t bytes,
			    size_t segment)
{
	struct iovec io = {(void *)(uintptr_t)from, bytes};
	struct msghdr m = {.msg_name = &b->to,
			   .msg_namelen = b->to_bytes,
			   .msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = b->control};
	uint16_t cut = (uint16_t)segment;
	uint64_t time_ns = av_unlikely(av_capture_is_on()) ? av_now_real_ns() : 0;
	ssize_t n = -1;
	int fd;

	if (cut)
		add_control(b, SOL_UDP, UDP_SEGMENT, &cut, sizeof(cut));
	m.msg_controllen = b->control_bytes;
	b->control_bytes -= cut ? CMSG_SPACE(sizeof(cut)) : 0;
	fd = av_own_fd_use(&b->from->socket, &b->from->looked);
	if (fd >= 0) {
		n = m.msg_controllen ? av_raw_sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL)
				     : av_raw_sendto(fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
						     &b->to.any, b->to_bytes);
		av_own_fd_done();
	}
	if (n < 0)
		return -errno;
	if (av_unlikely(time_ns))
		show(b, from, bytes, cut ? segment : bytes, time_ns);
	return 0;
}

static void record_burst_result(struct av_net_burst *b, int err, unsigned int packets)
{
	if (err == -EMSGSIZE)
		av_warn_once("packets of %zu B are larger than the MTU of the way to another host, "
			     "and are lost; ANYVERBS_DEVICES=any0:mtu=1024 is for an MTU of 1500",
			     b->segment);
	if (err == 0)
		av_net_count(AV_NET_OUT, packets);
	else if (b->err == 0)
		b->err = err;
}

/* Each has identification 0 then. Return: of the first that failed, -errno */
static int send_singly(struct av_net_burst *b)
{
	int err = 0;

	for (size_t at = 0; at < b->bytes; at += b->segment) {
		size_t rest = b->bytes - at, bytes = rest < b->segment ? rest : b->segment;
		int ret;

		put_icrc(&b->path, b->data + at, bytes);
		ret = send_burst_bytes(b, b->data + at, bytes, 0);
		record_burst_result(b, ret, 1);
		err = err ? err : ret;
	}
	return err;
}

static void flush_burst(struct av_net_burst *b)
{
	bool cut = b->packets > 1;
	AV_ERRNO_KEPT;
	int err;

	if (b->packets == 0)
		return;
	if (cut && atomic_load_explicit(&b->from->single, memory_order_relaxed)) {
		(void)send_singly(b);
	} else {
		put_icrcs(b);
		err = send_burst_bytes(b, b->data, b->bytes, cut ? b->segment : 0);
		/* A kernel or interface cannot cut; or a segment exceeds the MTU. */
		cut &= err == -EINVAL || err == -EIO || err == -EOPNOTSUPP;
		if (!cut)
			record_burst_result(b, err, b->packets);
		else if (send_singly(b) == 0)
			atomic_store_explicit(&b->from->single, true, memory_order_relaxed);
	}
	b->packets = 0;
	b->bytes = 0;
}

/* poll(2): less than half of the buffer waits. A send needs less than all of it: two more fit. */
bool av_net_has_room(const struct av_net_path *path)
{
	struct av_endpoint *from = av_endpoint_find(AV_ENDPOINT_ADDRESS, path->src, 0);
	struct pollfd p = {.fd = from ? from->socket.fd : -1, .events = POLLOUT};
	AV_ERRNO_KEPT;

	return p.fd < 0 || av_raw_poll(&p, 1, 0) != 0;
}

uint32_t av_net_full_send(uint32_t bytes)
{
	uint32_t fit = (uint32_t)(SEND_BYTES / (bytes + AV_PACKET_HEADERS_MAX + AV_ICRC_BYTES));

	return fit < SEND_PACKETS ? fit : SEND_PACKETS;
}

uint32_t av_net_room(uint32_t bytes)
{
	return 2 * av_net_full_send(bytes);
}

/* --- collecting ------------------------------------------------------------------- */

/* A shorter packet ends a send. The receiver's kernel hands all to the owner of the first's QP. */
static bool fits_in_burst(const struct av_net_burst *b, size_t bytes, uint32_t qpn)
{
	return b->packets > 0 && b->packets < SEND_PACKETS && b->qpn == qpn &&
	       b->last == b->segment && bytes <= b->segment && b->bytes + bytes <= SEND_BYTES;
}

static size_t packet_bytes(const struct av_packet *p)
{
	return av_packet_header_bytes(p->opcode) + p->payload_bytes + av_packet_behind(p) +
	       av_packet_padding(p->payload_bytes) + AV_ICRC_BYTES;
}

bool av_net_begins_send(const struct av_net_burst *b, const struct av_packet *p)
{
	return !b || !fits_in_burst(b, packet_bytes(p), p->dest_qpn);
}

uint8_t *av_net_put(struct av_net_burst *b, const struct av_packet *p)
{
	size_t bytes = packet_bytes(p);
	uint8_t *payload;

	if (!fits_in_burst(b, bytes, p->dest_qpn)) {
		flush_burst(b);
		b->segment = bytes;
		b->qpn = p->dest_qpn;
	}
	payload = b->data + b->bytes;
	payload += av_packet_put_headers(p, payload);
	(void)av_packet_put_behind(p, payload + p->payload_bytes);
	b->last = bytes;
	b->bytes += bytes;
	b->packets++;
	return payload;
}

void av_net_ask(struct av_net_burst *b)
{
	av_packet_ask(b->data + b->bytes - b->last);
}

void av_net_take_back(struct av_net_burst *b, uint32_t count)
{
	b->packets -= count;
	b->bytes = b->packets * b->segment; /* all but the last are as long as the first */
	b->last = b->segment;
}

int av_net_send(struct av_net_burst *b)
{
	int err;

	flush_burst(b);
	atomic_store_explicit(&av_net_in_vain, 0, memory_order_relaxed); /* an answer may come */
	err = b->err;
	recycle_burst(b);
	return err;
}

/* --- why a peer does not answer -------------------------------------------------- */

#define QUESTIONS 8u /* that are open */

/*
 * As long as an acknowledgement, of a transport version that nobody has: dropped by all. rdma_rxe
 * of Linux 6.1 does not survive datagrams shorter than a BTH.
 */
static const uint8_t bytes_of_question[20] = {[0] = 0x11, [1] = 0x0f};

struct question {
	struct av_own_fd socket; /* zeros: none */
	uint8_t src[16], dst[16];
	int known; /* why there is no answer, -errno; 0: nothing has been heard */
};

static pthread_mutex_t question_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct question question[QUESTIONS];

/* Of this path, or of another, which it is then to replace. */
static struct question *question_of(const struct av_net_path *path)
{
	return &question[(path->src[15] ^ path->dst[15]) % QUESTIONS];
}

/* From any port of the address that the queue pair has, by its interface. */
static int connect_it(int fd, const struct question *q)
{
	const struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_ADDRESS, q->src, 0);
	uint32_t ifindex = e ? e->ifindex : 0;
	union av_net_name from, to;
	socklen_t bytes = av_net_name(&from, q->src, ifindex);

	av_net_set_port(&from, 0);
	(void)av_net_name(&to, q->dst, ifindex);
	if (av_raw_bind(fd, &from.any, bytes) || av_raw_connect(fd, &to.any, bytes) ||
	    av_raw_send(fd, bytes_of_question, sizeof(bytes_of_question),
			MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

static void start_route_probe(struct question *q, const struct av_net_path *path)
{
	bool v4 = av_net_is_v4(path->src);
	int fd = av_raw_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       0);
	const int yes = 1;

	memcpy(q->src, path->src, sizeof(q->src));
	memcpy(q->dst, path->dst, sizeof(q->dst));
	q->known = 0;
	if (!av_own_fd_keep(&q->socket, fd))
		return;
	/* What routers say, and that nobody has the address, is told only on request: ip(7). */
	(void)av_raw_setsockopt(q->socket.fd, v4 ? IPPROTO_IP : IPPROTO_IPV6,
				v4 ? IP_RECVERR : IPV6_RECVERR, &yes, sizeof(yes));
	q->known = connect_it(q->socket.fd, q);
}

void av_net_icmp_probe(const struct av_net_path *path)
{
	AV_ERRNO_KEPT;
	AV_LOCKED(&question_mutex);
	struct question *q = question_of(path);

	av_own_fd_close(&q->socket);
	start_route_probe(q, path);
}

int av_net_icmp_error(const struct av_net_path *path)
{
	AV_ERRNO_KEPT;
	AV_LOCKED(&question_mutex);
	struct question *q = question_of(path);
	socklen_t bytes = sizeof(int);
	int fd, err = 0;

	if (memcmp(q->src, path->src, 16) != 0 || memcmp(q->dst, path->dst, 16) != 0)
		return 0;
	fd = q->known ? -1 : av_own_fd(&q->socket);
	if (fd >= 0 && av_raw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes) == 0)
		q->known = -err; /* to others with the same path, too */
	av_own_fd_close(&q->socket);
	return q->known;
}

void av_net_icmp_end(void)
{
	AV_LOCKED(&question_mutex);
	for (unsigned int i = 0; i < QUESTIONS; i++) {
		av_own_fd_close(&question[i].socket);
		question[i] = (struct question){.socket = AV_OWN_FD_NONE};
	}
}

/* Whoever was in here is not in the child: what is kept may be half a list. */
void av_burst_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	kept_count = 0;
	pthread_mutex_init(&question_mutex, NULL);
	av_net_icmp_end();
}
