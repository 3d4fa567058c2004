/* SPDX-License-Identifier: MIT */
/*
 * The program closes the number of the library's socket, or puts a connection of its own there,
 * while one thread sends packets by it, another polls, and packets arrive. Nothing of ours leaves
 * by that connection, and nothing that waits in it is taken.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/probe.h"
#include "lib/two_hosts.h"

#define ROUNDS	  (TEST_SANITIZED ? 50 : 200)
#define PATIENCE  20000u /* ms */
#define BYTES	  64u
#define FROM	  0x1000u
#define TO	  0x100000u
#define WAITING	  1000 /* bytes in the program's connection */
#define ROCE_PORT 4791
#define NUMBERS	  4096

static struct side a, b;

static const char *const ways[] = {"dup2", "dup3", "close, then dup3 by number",
				   "close_range, then dup3 by number"};

/* Put @theirs at @number. By number, the library does not hear of it: but of what came before. */
static void replace(unsigned int way, int theirs, int number)
{
	switch (way) {
	case 0:
		dup2(theirs, number);
		return;
	case 1:
		dup3(theirs, number, O_CLOEXEC);
		return;
	case 2:
		close(number);
		break;
	default:
		close_range((unsigned int)number, (unsigned int)number, 0);
		break;
	}
	syscall(SYS_dup3, theirs, number, O_CLOEXEC);
}

static int number_of_socket(void)
{
	for (int fd = 0; fd < NUMBERS; fd++) {
		struct sockaddr_in name = {0};
		socklen_t bytes = sizeof(name);

		if (getsockname(fd, (struct sockaddr *)&name, &bytes) == 0 &&
		    name.sin_family == AF_INET && ntohs(name.sin_port) == ROCE_PORT)
			return fd;
	}
	DIE("there is no socket");
}

/* A connection of TCP, whose sends and receives would ignore all that is said about addresses. */
static void connect_program(int end[2])
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(name);
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	NEED(bind(listening, (struct sockaddr *)&name, bytes) == 0 && listen(listening, 1) == 0);
	NEED(getsockname(listening, (struct sockaddr *)&name, &bytes) == 0);
	end[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(connect(end[0], (struct sockaddr *)&name, bytes) == 0);
	end[1] = accept(listening, NULL, NULL);
	NEED(end[1] >= 0);
	close(listening);
}

static struct node *node;
static _Atomic bool enough;
static _Atomic unsigned int written;

/* Unreliable WRITEs, of which it does not matter which are lost. */
static void *keep_writing(void *arg)
{
	const struct node_send *write = arg;
	struct ibv_wc wc;

	while (!atomic_load(&enough)) {
		NEED(node_post_send(node, 0, write, 1).ret == 0);
		NEED(node_poll(node, 0, 1, PATIENCE, &wc) == 1);
		atomic_fetch_add(&written, 1);
	}
	return NULL;
}

static void *keep_polling(void *arg)
{
	struct ibv_wc wc;

	(void)arg;
	while (!atomic_load(&enough))
		(void)ibv_poll_cq(node->cq[1], 1, &wc);
	return NULL;
}

/* The socket is in use again. */
static void await_writes(void)
{
	unsigned int before = atomic_load(&written);

	while (atomic_load(&written) - before < 2)
		sched_yield();
}

static int readable(int fd)
{
	int bytes = -1;

	NEED(ioctl(fd, FIONREAD, &bytes) == 0);
	return bytes;
}

/* Return: bytes that have gone astray, in either direction, and the way's number above; 0: none */
static uint64_t race(int number, const int end[2])
{
	static const uint8_t waiting[WAITING];
	int ours = fcntl(number, F_DUPFD_CLOEXEC, 0);
	uint64_t astray = 0;

	NEED(write(end[1], waiting, WAITING) == WAITING);
	for (unsigned int i = 0; astray == 0 && i < ROUNDS; i++) {
		unsigned int way = i % COUNT_OF(ways);

		replace(way, end[0], number);
		dup2(ours, number); /* and it is ours again */
		await_writes();
		astray = (uint64_t)(readable(end[1]) + WAITING - readable(end[0]));
		if (astray)
			astray |= (uint64_t)way << 32;
	}
	close(ours);
	return astray;
}

/* Job of both: write on and on; one of them, meanwhile, loses its socket again and again. */
static uint64_t work(struct node *n, const struct side_job *job)
{
	struct node_send write = {
		.opcode = IBV_WR_RDMA_WRITE,
		.flags = IBV_SEND_SIGNALED,
		.remote_addr = job->arg[0],
		.rkey = (uint32_t)job->arg[1],
		.num_sge = 1,
		.sge = {{n->info.base[KEY_FULL] + FROM, BYTES, n->info.lkey[KEY_FULL]}}};
	pthread_t writer, poller;
	uint64_t astray = 0;
	int end[2];

	node = n;
	if (job->arg[2]) {
		connect_program(end);
		NEED(pthread_create(&poller, NULL, keep_polling, NULL) == 0);
		NEED(pthread_create(&writer, NULL, keep_writing, &write) == 0);
		astray = race(number_of_socket(), end);
		atomic_store(&enough, true);
		pthread_join(writer, NULL);
		pthread_join(poller, NULL);
		return astray;
	}
	for (unsigned int i = 0; i < ROUNDS * 10; i++) {
		struct ibv_wc wc;

		NEED(node_post_send(n, 0, &write, 1).ret == 0);
		NEED(node_poll(n, 0, 1, PATIENCE, &wc) == 1);
	}
	return 0;
}

static void begin(struct side *s, const struct side *to, bool loses)
{
	side_begin(s, &(struct side_job){
			      {to->info.base[KEY_FULL] + TO, to->info.key[KEY_FULL], loses}});
}

int main(int argc, char **argv)
{
	struct node_qp_spec spec = spec_default();
	struct node_link link = link_default();
	uint64_t astray;

#ifdef __SANITIZE_THREAD__
	printf("skipped: ThreadSanitizer reports a file that is closed in use\n");
	return 77;
#endif
	side_work = work;
	two_hosts_open(argc, argv);
	two_hosts_start(&a, 0, "");
	two_hosts_start(&b, 1, "");
	spec.type = IBV_QPT_UC;
	pair_create(&a, 0, &b, 0, &spec);
	pair_connect(&a, 0, &link, &b, 0, &link);
	row("taken away in use");
	begin(&b, &a, false);
	begin(&a, &b, true);
	astray = side_end(&a);
	EXPECT(astray == 0, "%s: %u bytes have gone astray", ways[astray >> 32 & 3],
	       (unsigned int)astray);
	EXPECT(side_end(&b) == 0, "the other host");
	pair_destroy(&a, 0, &b, 0);
	pair_create(&a, 0, &b, 0, NULL);
	link.timeout = 20; /* 4 s: the other host may wait for a core */
	link.retry_cnt = 7;
	pair_connect(&a, 0, &link, &b, 0, &link);
	EXPECT_PROBE(&a, &b, 0, IBV_WR_RDMA_WRITE, b.info.base[KEY_FULL], b.info.key[KEY_FULL],
		     BYTES, IBV_WC_SUCCESS);
	side_stop(&b);
	side_stop(&a);
	return summary();
}
