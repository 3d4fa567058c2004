/* SPDX-License-Identifier: MIT */
/*
 * What UDP itself allows between two hosts, with nothing on top: wire.py sets the wire against it.
 *
 *     udp_limit serve ADDRESS           end A, until the other end has what it wants
 *     udp_limit lat ADDRESS             one way of 8 bytes, in us; both ends spin
 *     udp_limit bw ADDRESS PACKET       10^9 bytes/s of packets with so many bytes each, which the
 *                                       kernel cuts and joins (UDP_SEGMENT, UDP_GRO)
 *
 * No more is under way than a receive buffer of the default size takes, so that little is lost.
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

enum order { PING = 1, DATA, END };

static uint8_t bytes[1 << 16];

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

/* The answer to what has come together says how much it was. */
static void serve(int fd)
{
	struct sockaddr_in from;
	uint64_t n;

	while ((n = receive(fd, &from, IDLE_NS)) && bytes[0] != END)
		if (sendto(fd, &n, sizeof(n), 0, (struct sockaddr *)&from, sizeof(from)) < 0)
			die("sendto");
}

static void ask(int fd, enum order order)
{
	uint8_t word[8] = {order};

	if (send(fd, word, sizeof(word), 0) != sizeof(word) && errno != ECONNREFUSED)
		die("send");
}

static double latency(int fd)
{
	struct sockaddr_in from;
	uint64_t begin = now_ns();

	for (int i = 0; i < ROUND_TRIPS; i++) {
		ask(fd, PING);
		if (!receive(fd, &from, LOST_NS))
			die("no answer");
	}
	return (double)(now_ns() - begin) / (2e3 * ROUND_TRIPS);
}

static double bandwidth(int fd, unsigned int packet)
{
	uint64_t sent = 0, answered = 0, lost = 0, n, begin = now_ns(),
		 whole = SEND_BYTES / packet * packet;
	static uint8_t data[SEND_BYTES] = {DATA};
	struct sockaddr_in from;
	int segment = (int)packet;

	if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)))
		die("UDP_SEGMENT");
	while (now_ns() - begin < RUN_NS) {
		for (; sent + whole <= answered + lost + WINDOW * whole; sent += whole)
			if (send(fd, data, whole, 0) != (ssize_t)whole)
				die("send");
		if (receive(fd, &from, LOST_NS)) {
			memcpy(&n, bytes, sizeof(n));
			answered += n;
		} else {
			lost = sent - answered;
		}
	}
	return (double)answered / (double)(now_ns() - begin);
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
		ask(fd, PING);
	while (!receive(fd, &from, LOST_NS) && ++tries < TRIES);
	if (!strcmp(what, "lat"))
		printf("%.3f\n", latency(fd));
	else if (!strcmp(what, "bw") && argc == 4)
		printf("%.3f\n", bandwidth(fd, (unsigned int)atoi(argv[3])));
	else
		return 2;
	ask(fd, END);
	return 0;
}
