/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/real_calls.h"
#include "net/address.h"
#include "net/net.h"

/* The mutex guards changes. Rows up to @end are in use or NULL: a forked child reads them alone. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct av_endpoint *table[AV_ENDPOINTS];
static unsigned int end;
static _Atomic unsigned int version;

bool av_endpoint_add(struct av_endpoint *e)
{
	unsigned int i = 0;

	pthread_mutex_lock(&mutex);
	while (i < end && table[i])
		i++;
	if (i < AV_ENDPOINTS) {
		table[i] = e;
		end = i < end ? end : i + 1;
		atomic_fetch_add(&version, 1);
	}
	pthread_mutex_unlock(&mutex);
	return i < AV_ENDPOINTS;
}

void av_endpoint_remove(struct av_endpoint *e)
{
	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < end; i++)
		if (table[i] == e)
			table[i] = NULL;
	while (end > 0 && !table[end - 1])
		end--;
	atomic_fetch_add(&version, 1);
	pthread_mutex_unlock(&mutex);
}

static bool is_it(const struct av_endpoint *e, enum av_endpoint_kind kind,
		  const uint8_t address[16], uint32_t ifindex)
{
	return e && e->kind == kind && (ifindex == 0 || e->ifindex == ifindex) &&
	       memcmp(e->address, address, sizeof(e->address)) == 0;
}

struct av_endpoint *av_endpoint_find(enum av_endpoint_kind kind, const uint8_t address[16],
				     uint32_t ifindex)
{
	struct av_endpoint *found = NULL;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; !found && i < end; i++)
		if (is_it(table[i], kind, address, ifindex))
			found = table[i];
	pthread_mutex_unlock(&mutex);
	return found;
}

unsigned int av_endpoint_version(void)
{
	return atomic_load(&version);
}

unsigned int av_endpoint_all(struct av_endpoint *all[AV_ENDPOINTS])
{
	unsigned int n = 0;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < end; i++)
		if (table[i])
			all[n++] = table[i];
	pthread_mutex_unlock(&mutex);
	return n;
}

unsigned int av_endpoint_poll(struct pollfd all[AV_ENDPOINTS])
{
	unsigned int n = 0;

	pthread_mutex_lock(&mutex);
	for (unsigned int i = 0; i < end; i++) {
		int fd = table[i] ? av_own_fd(&table[i]->socket) : -1;

		if (fd >= 0)
			all[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	pthread_mutex_unlock(&mutex);
	return n;
}

void av_endpoint_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	for (unsigned int i = 0; i < AV_ENDPOINTS; i++) {
		if (table[i])
			av_own_fd_close(&table[i]->socket);
		table[i] = NULL;
	}
	end = 0;
	atomic_fetch_add(&version, 1);
}

#define QUESTIONS 8 /* that are open. More at once: the oldest is forgotten */

/*
 * As long as an acknowledgement, in a version of the transport that there is not: dropped by all.
 * rdma_rxe of Linux 6.1 does not survive datagrams that are shorter than a BTH.
 */
static const uint8_t bytes_of_question[20] = {[0] = 0x11, [1] = 0x0f};

struct question {
	struct av_own_fd socket;
	uint8_t src[16], dst[16];
	int known; /* why there is no answer, -errno; 0: nothing has been heard */
};

static pthread_mutex_t question_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct question question[QUESTIONS];
static unsigned int used, next;

/* NULL: it was not asked. */
static struct question *find_route_probe(const struct av_net_path *path)
{
	for (unsigned int i = 0; i < used; i++)
		if (memcmp(question[i].src, path->src, 16) == 0 &&
		    memcmp(question[i].dst, path->dst, 16) == 0)
			return &question[i];
	return NULL;
}

static struct question *claim_route_probe(const struct av_net_path *path)
{
	struct question *q = find_route_probe(path);

	if (q)
		return q;
	if (used < QUESTIONS) {
		question[used].socket = AV_OWN_FD_NONE;
		return &question[used++];
	}
	next = (next + 1) % QUESTIONS;
	return &question[next];
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

/* What routers say, and that nobody has the address, is told only on request: ip(7). */
static void hear_all(int fd, bool v4)
{
	const int yes = 1;

	(void)av_raw_setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVERR : IPV6_RECVERR,
				&yes, sizeof(yes));
}

static void start_route_probe(struct question *q, const struct av_net_path *path)
{
	bool v4 = av_net_is_v4(path->src);
	int fd = av_raw_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       0);

	memcpy(q->src, path->src, sizeof(q->src));
	memcpy(q->dst, path->dst, sizeof(q->dst));
	q->known = 0;
	if (!av_own_fd_keep(&q->socket, fd))
		return;
	hear_all(q->socket.fd, v4);
	q->known = connect_it(q->socket.fd, q);
}

void av_net_icmp_watch(const struct av_net_path *path)
{
	int saved = errno;
	struct question *q;

	pthread_mutex_lock(&question_mutex);
	q = claim_route_probe(path);
	av_own_fd_close(&q->socket);
	start_route_probe(q, path);
	pthread_mutex_unlock(&question_mutex);
	errno = saved;
}

static int read_route_probe(const struct question *q)
{
	socklen_t bytes = sizeof(int);
	int fd, err = 0;

	if (q->known)
		return q->known;
	fd = av_own_fd(&q->socket);
	if (fd < 0 || av_raw_getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &bytes))
		return 0;
	return -err;
}

int av_net_icmp_error(const struct av_net_path *path)
{
	int saved = errno, ret = 0;
	struct question *q;

	pthread_mutex_lock(&question_mutex);
	q = find_route_probe(path);
	if (q) {
		ret = read_route_probe(q);
		q->known = ret; /* to others with the same path, too */
		av_own_fd_close(&q->socket);
	}
	pthread_mutex_unlock(&question_mutex);
	errno = saved;
	return ret;
}

static void close_route_probes(void)
{
	for (unsigned int i = 0; i < used; i++)
		av_own_fd_close(&question[i].socket);
	used = 0;
}

void av_net_icmp_end(void)
{
	pthread_mutex_lock(&question_mutex);
	close_route_probes();
	pthread_mutex_unlock(&question_mutex);
}

void av_net_icmp_forked(void)
{
	pthread_mutex_init(&question_mutex, NULL);
	close_route_probes();
}
