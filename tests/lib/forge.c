/* SPDX-License-Identifier: MIT */
#include "lib/forge.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/expect.h"
#include "lib/pattern.h"
#include "wire/packet.h"

#define BYTES 9000
#define ROOM  (16 << 20)
#define SEED  77u

const union ibv_gid forge_gid = {.raw = {[10] = 0xff, 0xff, 192, 0, 2, 1}};
const union ibv_gid forge_group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};

static int sockets[2]; /* at the address that is host 0's, and at another one */

static int open_socket(const char *address)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(AV_ROCE_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), always = IP_PMTUDISC_DO;
	int room = ROOM;

	NEED(fd >= 0 && inet_pton(AF_INET, address, &a.sin_addr) == 1);
	NEED(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &always, sizeof(always)) == 0);
	/* For what comes while a busy machine has no core for us. Only root may have it. */
	(void)!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	NEED(bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	return fd;
}

void forge_open(void)
{
	NEED(system("ip addr add 192.0.2.9/24 dev v0") == 0);
	NEED(system("ip route add 239.0.0.0/8 dev v0") == 0);
	sockets[0] = open_socket("192.0.2.1");
	sockets[1] = open_socket("192.0.2.9");
}

/* @dst: IPv4. Return: bytes */
static size_t make(uint8_t *to, const struct av_packet *p, enum harm harm, const uint8_t dst[4])
{
	struct av_net_path path = {
		.src = {[10] = 0xff, 0xff, 192, 0, 2, harm == SOURCE ? 9 : 1},
		.dst = {[10] = 0xff, 0xff, dst[0], dst[1], dst[2], dst[3]},
		.source_port = AV_ROCE_PORT,
	};
	size_t n = av_packet_put_headers(p, to);

	NEED(n > 0 && n + p->payload_bytes + 8 <= BYTES);
	pattern_fill(to + n, p->payload_bytes, SEED, 0);
	n += p->payload_bytes + av_packet_padding(p->payload_bytes);
	to[1] |= harm == VERSION;
	av_icrc_put(to + n, av_icrc_of(&path, to, n) ^ (harm == ICRC));
	return n + AV_ICRC_BYTES;
}

static void send_to(const uint8_t dst[4], struct av_packet *p, enum harm harm)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(AV_ROCE_PORT)};
	uint8_t bytes[BYTES] = {0};
	size_t n;

	p->pkey = harm == PKEY ? 0xfffe : 0xffff;
	p->migrated = harm != MIGRATION;
	p->psn &= AV_PSN_MASK;
	n = make(bytes, p, harm, dst);
	memcpy(&to.sin_addr, dst, sizeof(to.sin_addr));
	NEED(sendto(sockets[harm == SOURCE], bytes, n, 0, (struct sockaddr *)&to, sizeof(to)) ==
	     (ssize_t)n);
}

void forge_send(uint32_t qpn, struct av_packet p, enum harm harm)
{
	p.dest_qpn = harm == QPN ? qpn ^ 1 : qpn;
	send_to((const uint8_t[]){192, 0, 2, 2}, &p, harm);
}

void forge_send_to_group(struct av_packet p)
{
	p.dest_qpn = 0xffffff;
	send_to(forge_group.raw + 12, &p, NONE);
}

bool forge_receive(struct av_packet *p, int ms)
{
	struct pollfd poll_fd = {.fd = sockets[0], .events = POLLIN};
	static uint8_t bytes[BYTES];
	enum av_packet_error found;
	ssize_t n;

	do {
		if (poll(&poll_fd, 1, ms) != 1)
			return false;
		n = recv(sockets[0], bytes, sizeof(bytes), 0);
		NEED(n > AV_ICRC_BYTES);
		found = av_packet_get(p, bytes, (size_t)n - AV_ICRC_BYTES);
	} while (found == AV_PACKET_VERSION); /* it asks why nobody answers */
	NEED(found == AV_PACKET_OK);
	return true;
}
