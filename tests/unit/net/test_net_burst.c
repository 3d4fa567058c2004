/* SPDX-License-Identifier: MIT */
/* What is sent for which sequence of packets, seen by a plain socket. */
#include "net_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "net/socket.h"
#include "registry/capture_table.h"
#include "wire/packet.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define QPN	0x123456
#define ALL_MAX 200
#define HEADERS 12

static struct av_net_path path = {.traffic_class = 0x26, .hop_limit = 33};
static int far_end;
static uint32_t ref;

/* One send, as it arrived. */
struct sent {
	uint8_t bytes[65536];
	size_t n;
	size_t segment;
	int tos, ttl;
};

static void receive(struct sent *s)
{
	_Alignas(struct cmsghdr) char control[256];
	struct iovec io = {s->bytes, sizeof(s->bytes)};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(far_end, &m, 0);

	assert_true(n >= 0);
	s->n = s->segment = (size_t)n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		int value = 0;

		memcpy(&value, CMSG_DATA(c), c->cmsg_type == IP_TOS ? 1 : sizeof(value));
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO)
			s->segment = (size_t)value;
		else if (c->cmsg_type == IP_TOS)
			s->tos = value;
		else if (c->cmsg_type == IP_TTL)
			s->ttl = value;
	}
}

static size_t packet_bytes(uint32_t payload)
{
	return HEADERS + payload + av_packet_padding(payload) + AV_ICRC_BYTES;
}

/* Packet @psn at @at, which is number @index of its send. */
static void assert_packet(const uint8_t *at, uint32_t qpn, uint32_t psn, uint32_t payload,
			  uint16_t index)
{
	size_t n = packet_bytes(payload) - AV_ICRC_BYTES;
	struct av_net_path icrc = {.source_port = AV_ROCE_PORT, .identification = index};
	uint8_t expected[AV_ICRC_BYTES];
	struct av_packet p;

	assert_int_equal(av_packet_get(&p, at, n), AV_PACKET_OK);
	assert_int_equal(p.dest_qpn, qpn);
	assert_int_equal(p.psn, psn);
	assert_int_equal(p.payload_bytes, payload);
	for (uint32_t i = 0; i < payload; i++)
		assert_int_equal(p.payload[i], (uint8_t)(psn + i));
	for (size_t i = HEADERS + payload; i < n; i++)
		assert_int_equal(at[i], 0);
	memcpy(icrc.src, path.src, sizeof(icrc.src));
	memcpy(icrc.dst, path.dst, sizeof(icrc.dst));
	av_icrc_put(expected, av_icrc_of(&icrc, at, n));
	assert_memory_equal(at + n, expected, sizeof(expected));
}

/* The next send has @packets of the burst, of which @psn is the first. */
static void assert_send(const uint32_t *payload, unsigned int psn, unsigned int packets)
{
	static struct sent s;
	size_t at = 0;

	receive(&s);
	for (unsigned int i = 0; i < packets; i++) {
		assert_packet(s.bytes + at, QPN, psn + i, payload[psn + i], (uint16_t)i);
		at += packet_bytes(payload[psn + i]);
	}
	assert_int_equal(s.n, at);
	assert_int_equal(s.segment, packet_bytes(payload[psn]));
	assert_int_equal(s.tos, path.traffic_class);
	assert_int_equal(s.ttl, path.hop_limit);
}

static const struct {
	uint32_t payload[8], packets;
	uint32_t sends[8]; /* packets of each */
} sequence[] = {
	{{0}, 1, {1}},
	{{1}, 1, {1}},
	{{4096}, 1, {1}},
	{{64, 64, 64}, 3, {3}},
	{{64, 64, 5}, 3, {3}},
	{{64, 5, 64}, 3, {2, 1}},
	{{64, 5, 5}, 3, {2, 1}},
	{{5, 64, 64}, 3, {1, 2}},
	{{64, 63, 62, 61}, 4, {4}}, /* equal with their padding */
	{{64, 60, 56, 52}, 4, {2, 2}},
	{{0, 0, 0, 4, 0}, 5, {3, 2}},
	{{4096, 4096, 4096, 1024, 4096}, 5, {4, 1}},
};

TEST(as_few_sends_as_can_be)
{
	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(sequence); i++) {
		unsigned int psn = 0;

		assert_int_equal(send_burst(&path, QPN, sequence[i].payload, sequence[i].packets),
				 0);
		for (unsigned int s = 0; psn < sequence[i].packets; s++) {
			assert_send(sequence[i].payload, psn, sequence[i].sends[s]);
			psn += sequence[i].sends[s];
		}
	}
}

/* No send has more than 64 packets, or 65,000 bytes. */
static const struct {
	uint32_t payload, packets;
} long_burst[] = {{0, 200}, {100, 130}, {999, 65}, {1024, 70}, {4096, 20}};

TEST(long_bursts)
{
	uint32_t payload[ALL_MAX];

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(long_burst); i++) {
		unsigned int most = (unsigned int)(65000 / packet_bytes(long_burst[i].payload));
		unsigned int packets = long_burst[i].packets;

		most = most < 64 ? most : 64;
		for (unsigned int psn = 0; psn < packets; psn++)
			payload[psn] = long_burst[i].payload;
		assert_int_equal(send_burst(&path, QPN, payload, packets), 0);
		for (unsigned int psn = 0; psn < packets; psn += most)
			assert_send(payload, psn, packets - psn < most ? packets - psn : most);
	}
}

/* Their receiver's kernel looks at the first packet only. */
TEST(one_queue_pair_at_a_time)
{
	static const uint32_t qpn[] = {7, 7, 8, 7};
	static struct sent s;
	struct av_net_burst *b = av_net_burst(&path, "any0");

	(void)state;
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(qpn); i++) {
		struct av_packet p = send_only(qpn[i], i, 0);

		(void)av_net_put(b, &p);
	}
	assert_int_equal(av_net_send(b), 0);
	receive(&s);
	assert_int_equal(s.n, 2 * packet_bytes(0));
	assert_packet(s.bytes, 7, 0, 0, 0);
	receive(&s);
	assert_packet(s.bytes, 8, 2, 0, 0);
	receive(&s);
	assert_packet(s.bytes, 7, 3, 0, 0);
}

/* Each has the identification of a packet that is sent alone. It is known from then on. */
TEST(a_kernel_that_cannot_cut)
{
	static const uint32_t payload[] = {64, 64, 64, 7};
	struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_ADDRESS, path.src, 0);
	static struct sent s;
	int on = 1;

	(void)state;
	assert_int_equal(setsockopt(e->socket.fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
	for (unsigned int times = 0; times < 2; times++) {
		assert_int_equal(send_burst(&path, QPN, payload, AV_ARRAY_SIZE(payload)), 0);
		for (unsigned int i = 0; i < AV_ARRAY_SIZE(payload); i++) {
			receive(&s);
			assert_int_equal(s.n, packet_bytes(payload[i]));
			assert_packet(s.bytes, QPN, i, payload[i], 0);
		}
		assert_true(atomic_load(&e->single));
	}
	on = 0;
	assert_int_equal(setsockopt(e->socket.fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
	atomic_store(&e->single, false);
}

/* Those of an RDMA WRITE are one send, for its middle and last packets have fillers. */
TEST(fillers)
{
	static const uint8_t opcode[] = {0x06, 0x07, 0x07, 0x08};
	enum { PAYLOAD = 256, BYTES = HEADERS + 16 + PAYLOAD + AV_ICRC_BYTES };
	struct av_net_burst *b = av_net_burst(&path, "any0");
	static struct sent s;

	(void)state;
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(opcode); i++) {
		struct av_packet p = send_only(QPN, i, PAYLOAD);

		p.opcode = opcode[i];
		p.filler = i ? 16 : 0;
		assert_int_equal(av_net_begins_send(b, &p), i == 0);
		memset(av_net_put(b, &p), 0xee, PAYLOAD);
	}
	assert_int_equal(av_net_send(b), 0);
	receive(&s);
	assert_int_equal(s.n, AV_ARRAY_SIZE(opcode) * BYTES);
	assert_int_equal(s.segment, BYTES);
	for (unsigned int i = 0; i < AV_ARRAY_SIZE(opcode); i++) {
		struct av_net_path icrc = {.source_port = AV_ROCE_PORT,
					   .identification = (uint16_t)i};
		const uint8_t *at = s.bytes + (size_t)i * BYTES;
		struct av_packet p;

		memcpy(icrc.src, path.src, sizeof(icrc.src));
		memcpy(icrc.dst, path.dst, sizeof(icrc.dst));
		assert_int_equal(av_packet_get(&p, at, BYTES - AV_ICRC_BYTES), AV_PACKET_OK);
		assert_int_equal(p.psn, i);
		assert_int_equal(p.payload_bytes, PAYLOAD);
		assert_int_equal(p.filler, i ? 16 : 0);
		assert_int_equal(av_icrc_get(at + BYTES - AV_ICRC_BYTES),
				 av_icrc_of(&icrc, at, BYTES - AV_ICRC_BYTES));
	}
}

/* As if it had not been put, whatever it was: what follows is sent as it would have been. */
TEST(taken_back)
{
	static const uint32_t payload[] = {64, 64, 9};
	static const struct {
		unsigned int at;    /* before which packet, */
		uint32_t payload;   /* and which; */
		unsigned int count; /* so many of them */
	} once[] = {{0, 64, 1}, {0, 5, 1}, {1, 64, 1}, {1, 5, 1},
		    {2, 64, 1}, {2, 9, 1}, {0, 64, 3}, {1, 64, 20}};

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(once); i++) {
		struct av_net_burst *b = av_net_burst(&path, "any0");

		for (unsigned int psn = 0; psn < AV_ARRAY_SIZE(payload); psn++) {
			struct av_packet p = send_only(QPN, 99, once[i].payload);

			for (unsigned int n = 0; psn == once[i].at && n < once[i].count; n++)
				memset(av_net_put(b, &p), 0xee, once[i].payload);
			if (psn == once[i].at)
				av_net_take_back(b, once[i].count);
			put_one(b, QPN, psn, payload[psn]);
		}
		assert_int_equal(av_net_send(b), 0);
		assert_send(payload, 0, AV_ARRAY_SIZE(payload));
	}
}

static void assert_shown(unsigned int i, const struct sent *s, size_t at, size_t n, unsigned int id)
{
	assert_string_equal(shown[i].device, "any0");
	assert_int_equal(shown[i].path.source_port, AV_ROCE_PORT);
	assert_int_equal(shown[i].datagram.identification, id);
	assert_int_equal(shown[i].datagram.count, n);
	assert_memory_equal(shown[i].bytes, s->bytes + at, n);
	assert_memory_equal(shown[i].path.src, path.src, 16);
	assert_memory_equal(shown[i].path.dst, path.dst, 16);
	assert_int_equal(shown[i].path.traffic_class, s->tos);
	assert_int_equal(shown[i].path.hop_limit, s->ttl);
}

/* The socket's traffic class and hop limit are no other path's. */
TEST(usual_and_unusual_paths)
{
	static const struct {
		uint8_t traffic_class, hop_limit, hops;
	} each[] = {
		{AV_NET_USUAL_CLASS, AV_NET_USUAL_HOPS, AV_NET_USUAL_HOPS},
		{AV_NET_USUAL_CLASS, 64, 64},
		{AV_NET_USUAL_CLASS, 0, AV_NET_USUAL_HOPS},
		{0, AV_NET_USUAL_HOPS, AV_NET_USUAL_HOPS},
		{0, 1, 1},
		{0xfe, 254, 254},
		{AV_NET_USUAL_CLASS, AV_NET_USUAL_HOPS, AV_NET_USUAL_HOPS},
	};
	static const uint32_t payload[] = {64, 64, 5};
	const struct av_net_path before = path;

	(void)state;
	for (size_t i = 0; i < AV_ARRAY_SIZE(each); i++)
		for (unsigned int packets = 1; packets <= AV_ARRAY_SIZE(payload); packets++) {
			path.traffic_class = each[i].traffic_class;
			path.hop_limit = each[i].hop_limit;
			assert_int_equal(send_burst(&path, QPN, payload, packets), 0);
			path.hop_limit = each[i].hops;
			assert_send(payload, 0, packets);
		}
	path = before;
}

/* Each that was sent, as it was; also without a hop limit, which is the socket's then. */
TEST(captures_see_what_is_sent)
{
	static const uint32_t payload[] = {64, 64, 64, 7};
	struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_ADDRESS, path.src, 0);
	const uint64_t before_ns = av_now_real_ns();
	const uint8_t hop_limit = path.hop_limit;
	unsigned int capture = begin_capture();
	static struct sent s;

	(void)state;
	assert_int_equal(send_burst(&path, QPN, payload, AV_ARRAY_SIZE(payload)), 0);
	receive(&s);
	assert_int_equal(atomic_load(&shown_count), AV_ARRAY_SIZE(payload));
	for (unsigned int i = 0, at = 0; i < AV_ARRAY_SIZE(payload); i++) {
		assert_shown(i, &s, at, packet_bytes(payload[i]), i);
		assert_in_range(shown[i].time_ns, before_ns, av_now_real_ns());
		at += (unsigned int)packet_bytes(payload[i]);
	}
	path.hop_limit = 0;
	atomic_store(&e->single, true);
	assert_int_equal(send_burst(&path, QPN, payload, 2), 0);
	atomic_store(&e->single, false);
	path.hop_limit = hop_limit;
	for (unsigned int i = 4; i < 6; i++) {
		receive(&s);
		assert_int_equal(s.ttl, AV_NET_USUAL_HOPS);
		assert_shown(i, &s, 0, packet_bytes(64), 0);
	}
	assert_int_equal(atomic_load(&shown_count), 6);
	av_capture_end(capture);
	assert_int_equal(send_burst(&path, QPN, payload, 1), 0);
	receive(&s);
	assert_int_equal(atomic_load(&shown_count), 6);
}

TEST(an_empty_burst)
{
	uint64_t before = av_net_counted(AV_NET_OUT);

	(void)state;
	assert_int_equal(av_net_send(av_net_burst(&path, "any0")), 0);
	assert_int_equal(av_net_counted(AV_NET_OUT), before);
}

/* 240.0.0.0/4 leads nowhere. */
TEST(why_it_was_refused)
{
	struct av_net_path nowhere = path;
	const uint32_t payload = 4;
	unsigned int capture;

	(void)state;
	memcpy(nowhere.dst + 12, (const uint8_t[]){255, 255, 255, 255}, 4);
	capture = begin_capture();
	assert_int_equal(send_burst(&nowhere, QPN, &payload, 1), -EACCES);
	av_capture_end(capture);
	assert_int_equal(atomic_load(&shown_count), 0);
	own_address(nowhere.src, 2);
	assert_null(av_net_burst(&nowhere, "any0"));
}

/* Neither what is refused while packets are put, nor at the end, is told by errno. */
TEST(errno_is_the_programs)
{
	struct av_net_path nowhere = path;
	struct av_net_burst *b;

	(void)state;
	memcpy(nowhere.dst + 12, (const uint8_t[]){255, 255, 255, 255}, 4);
	b = av_net_burst(&nowhere, "any0");
	assert_non_null(b);
	errno = 4711;
	for (unsigned int i = 0; i < 3; i++) { /* each ends the send of the one before */
		put_one(b, QPN + i, i, 4);
		assert_int_equal(errno, 4711);
	}
	assert_int_equal(av_net_send(b), -EACCES);
	assert_int_equal(errno, 4711);
}

static int begin(void **state)
{
	const int on = 1;

	if (make_folder(state))
		return -1;
	ref = enter();
	own_address(path.src, 0);
	own_address(path.dst, 1);
	assert_int_equal(av_net_open(path.src, true), 0);
	far_end = plain_socket(path.dst, AV_ROCE_PORT);
	return setsockopt(far_end, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) ||
	       setsockopt(far_end, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)) ||
	       setsockopt(far_end, IPPROTO_IP, IP_RECVTTL, &on, sizeof(on));
}

static int end(void **state)
{
	close(far_end);
	av_net_close(path.src, true, NULL);
	leave(ref);
	return remove_folder(state);
}

int main(void)
{
	return run_cases(begin, end);
}
