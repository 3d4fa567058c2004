/* SPDX-License-Identifier: MIT */
/*
 * What UDP itself allows between two hosts, with nothing on top: wire.py sets the wire against it.
 *
 *     udp_limit serve ADDRESS           end A, until the other end has what it wants
 *     udp_limit lat ADDRESS             one way of 8 bytes, in us; both ends spin
 *     udp_limit acked_lat ADDRESS       the same, and each is acknowledged before it is answered
 *     udp_limit bw ADDRESS PACKET       10^9 bytes/s of packets with so many bytes each, which the
 *                                       kernel cuts and joins (UDP_SEGMENT, UDP_GRO)
 *     udp_limit icrc_bw ADDRESS PACKET  the same, and each has an ICRC, and is copied to its place
 *
 * What a reliable connection cannot do without is in acked_lat and icrc_bw, and nothing else. No
 * more is under way than a receive buffer of the default size takes, so that little is lost.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "wire/packet.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define PORT	    18520
#define SEND_BYTES  62000u
#define WINDOW	    3u /* sends under way */
#define RUN_NS	    1000000000u
#define ROUND_TRIPS 20000
#define TRIES	    50
#define LOST_NS	    100000000u
#define IDLE_NS	    10000000000u /* nobody asks any more */

#define ICRC_BYTES 4u

enum order { PING = 1, ACKED_PING, ACK, DATA, CHECKED_DATA, END };

/* What begins a packet, or several that are joined: of @packet bytes each, ICRC included. */
struct head {
	uint32_t order, packet;
};

static uint8_t bytes[1 << 16], place[1 << 16];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int open_socket(const char *address, bool serve)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || inet_pton(AF_INET, address, &name.sin_addr) != 1)
		die("socket");
	if (setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)))
		die("UDP_GRO");
	if (serve ? bind(fd, (struct sockaddr *)&name, sizeof(name))
		  : connect(fd, (struct sockaddr *)&name, sizeof(name)))
		die(address);
	return fd;
}

/* Spins. Return: bytes; 0: nothing has come in time */
static size_t receive(int fd, struct sockaddr_in *from, uint64_t patience_ns)
{
	socklen_t size = sizeof(*from);
	uint64_t until = now_ns() + patience_ns;
	ssize_t n;

	do
		n = recvfrom(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)from,
			     &size);
	while (n < 0 && (errno == EAGAIN || errno == ECONNREFUSED) && now_ns() < until);
	if (n < 0 && errno != EAGAIN && errno != ECONNREFUSED) /* the server is about to begin */
		die("recvfrom");
	return n < 0 ? 0 : (size_t)n;
}

/* --- what each packet of a reliable connection costs ------------------------------- */

/* All addresses take the same time. */
static const struct av_net_path path = {.src = {[10] = 0xff, 0xff}, .dst = {[10] = 0xff, 0xff}};

static void put_icrcs(uint8_t *data, size_t count, size_t packet)
{
	for (size_t at = 0; at < count; at += packet) {
		uint32_t icrc = av_icrc_of(&path, data + at, packet - ICRC_BYTES);

		memcpy(data + at + packet - ICRC_BYTES, &icrc, sizeof(icrc));
	}
}

static void check_and_copy(size_t count, size_t packet)
{
	for (size_t at = 0; at + packet <= count; at += packet) {
		struct av_net_path its = path;
		size_t covered = packet - ICRC_BYTES;
		uint32_t icrc;

		memcpy(&icrc, bytes + at + covered, sizeof(icrc));
		if (!av_icrc_fits(&its, bytes + at, covered, icrc))
			die("ICRC");
		memcpy(place + at, bytes + at, covered);
	}
}

/* --- both ends -------------------------------------------------------------------- */

static void answer(int fd, const struct sockaddr_in *to, uint64_t n)
{
	if (sendto(fd, &n, sizeof(n), 0, (const struct sockaddr *)to, sizeof(*to)) < 0)
		die("sendto");
}

/* The answer to what has come together says how much it was. */
static void serve(int fd)
{
	struct sockaddr_in from;
	struct head head;
	size_t n;

	while ((n = receive(fd, &from, IDLE_NS))) {
		memcpy(&head, bytes, sizeof(head));
		if (head.order == END)
			return;
		if (head.order == ACK)
			continue;
		if (head.order == CHECKED_DATA)
			check_and_copy(n, head.packet);
		if (head.order == ACKED_PING)
			answer(fd, &from, n);
		answer(fd, &from, n);
	}
}

static void ask(int fd, enum order order, size_t n)
{
	const struct head head = {order, 0};

	if (send(fd, &head, n, 0) != (ssize_t)n && errno != ECONNREFUSED)
		die("send");
}

static double latency(int fd, enum order order)
{
	struct sockaddr_in from;
	uint64_t begin = now_ns();
	size_t wanted = order == ACKED_PING ? 2 * sizeof(uint64_t) : sizeof(uint64_t), n;

	for (int i = 0; i < ROUND_TRIPS; i++) {
		if (order == ACKED_PING) /* shorter: no kernel joins a longer one to it */
			ask(fd, ACK, sizeof(uint32_t));
		ask(fd, order, sizeof(struct head));
		for (size_t come = 0; come < wanted; come += n) {
			n = receive(fd, &from, IDLE_NS); /* the other end may have no core */
			if (n == 0)
				die("no answer");
		}
	}
	return (double)(now_ns() - begin) / (2e3 * ROUND_TRIPS);
}

static double bandwidth(int fd, enum order order, unsigned int packet)
{
	uint64_t sent = 0, answered = 0, lost = 0, n, begin = now_ns(),
		 whole = SEND_BYTES / packet * packet;
	const struct head head = {order, packet};
	static uint8_t data[SEND_BYTES];
	struct sockaddr_in from;
	int segment = (int)packet;

	if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)))
		die("UDP_SEGMENT");
	memcpy(data, &head, sizeof(head));
	while (now_ns() - begin < RUN_NS) {
		for (; sent + whole <= answered + lost + WINDOW * whole; sent += whole) {
			if (order == CHECKED_DATA)
				put_icrcs(data, whole, packet);
			if (send(fd, data, whole, 0) != (ssize_t)whole)
				die("send");
		}
		if (receive(fd, &from, LOST_NS)) {
			memcpy(&n, bytes, sizeof(n));
			answered += n;
		} else {
			lost = sent - answered;
		}
	}
	return (double)answered / (double)(now_ns() - begin);
}

/* Return: false: it is not known what to measure */
static bool measure(int fd, const char *what, const char *packet)
{
	double value;

	if (!strcmp(what, "lat") && !packet)
		value = latency(fd, PING);
	else if (!strcmp(what, "acked_lat") && !packet)
		value = latency(fd, ACKED_PING);
	else if (!strcmp(what, "bw") && packet)
		value = bandwidth(fd, DATA, (unsigned int)atoi(packet));
	else if (!strcmp(what, "icrc_bw") && packet)
		value = bandwidth(fd, CHECKED_DATA, (unsigned int)atoi(packet));
	else
		return false;
	printf("%.3f\n", value);
	return true;
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";
	struct sockaddr_in from;
	int tries = 0;
	int fd = argc > 2 ? open_socket(argv[2], !strcmp(what, "serve")) : -1;

	if (!strcmp(what, "serve")) {
		serve(fd);
		return 0;
	}
	if (fd < 0)
		return 2;
	do /* until the other end is there */
		ask(fd, PING, sizeof(struct head));
	while (!receive(fd, &from, LOST_NS) && ++tries < TRIES);
	while (tries-- > 0) /* late answers are none to what is asked next */
		(void)receive(fd, &from, LOST_NS);
	if (!measure(fd, what, argc == 4 ? argv[3] : NULL))
		return 2;
	ask(fd, END, sizeof(struct head));
	return 0;
}
