/* SPDX-License-Identifier: MIT */
/*
 * Threads that share a channel, that have one each, and that move an id while it hears: each event
 * is fetched once.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cm_fixture.h"
#include "lib/cm_command.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/wait.h"

#define THREADS 4
#define EACH	(TEST_SANITIZED ? 50u : 200u)
#define IDS	65536u

static int open_channel(int flags)
{
	int fd = cm_open(O_CLOEXEC | flags);

	NEED(fd >= 0);
	return fd;
}

static void start(pthread_t *t, void *(*run)(void *), void *arg)
{
	NEED(pthread_create(t, NULL, run, arg) == 0);
}

static void join_all(pthread_t threads[THREADS])
{
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_join(threads[i], NULL) == 0);
}

static uint32_t listen_any(int fd, struct sockaddr_in *at)
{
	uint32_t id;

	*at = cm_address("127.0.0.1", 0);
	NEED(cm_create(fd, 1, RDMA_PS_TCP, &id) == 0);
	NEED(cm_bind(fd, id, at) == 0);
	*at = cm_source(fd, id);
	NEED(cm_listen(fd, id, 0) == 0);
	return id;
}

/* --- one channel ------------------------------------------------------------------------------ */

static struct {
	int fd;
	_Atomic unsigned int left, of_id[IDS];
} shared;

/* The event's id goes on as its thread finds it. */
static void *fetch(void *unused)
{
	struct rdma_ucm_event_resp e;

	while (atomic_load(&shared.left)) {
		int ret = cm_next(shared.fd, &e);

		if (ret == -EAGAIN) {
			wait_moment();
			continue;
		}
		NEED(ret == 0);
		atomic_fetch_add(&shared.of_id[e.id], 1);
		if (e.event == CM_ADDR_RESOLVED)
			NEED(cm_resolve_route(shared.fd, e.id) == 0);
		else
			NEED(e.event == CM_ROUTE_RESOLVED && cm_destroy(shared.fd, e.id) == 2);
		atomic_fetch_sub(&shared.left, 1);
	}
	return NULL;
}

static void *resolve(void *unused)
{
	const struct sockaddr_in to = cm_address("127.0.0.1", 7174);
	uint32_t id;

	for (unsigned int i = 0; i < EACH; i++) {
		NEED(cm_create(shared.fd, 1, RDMA_PS_TCP, &id) == 0);
		NEED(cm_resolve(shared.fd, id, &to) == 0);
	}
	return NULL;
}

static void one_channel(void)
{
	pthread_t fetchers[THREADS], resolvers[THREADS];
	unsigned int twice = 0, other = 0;

	row("%d threads fetch the events that %d cause", THREADS, THREADS);
	shared.fd = open_channel(O_NONBLOCK);
	atomic_store(&shared.left, 2 * THREADS * EACH);
	for (int i = 0; i < THREADS; i++) {
		start(&fetchers[i], fetch, NULL);
		start(&resolvers[i], resolve, NULL);
	}
	join_all(resolvers);
	join_all(fetchers);
	for (unsigned int id = 0; id < IDS; id++) {
		unsigned int heard = atomic_load(&shared.of_id[id]);

		twice += heard == 2;
		other += heard != 0 && heard != 2;
	}
	EXPECT(twice == THREADS * EACH && other == 0, "%u ids heard both, %u not", twice, other);
	EXPECT(!cm_pending(shared.fd), "there is another event");
	close(shared.fd);
}

/* --- a channel each --------------------------------------------------------------------------- */

static void expect_next(int fd, enum cm_kind kind, struct rdma_ucm_event_resp *e)
{
	int ret = cm_expect(fd, SOON, kind, e);

	if (ret)
		DIE("event %d wanted: %d, event %u", kind, ret, e->event);
}

static uint32_t request(int fd, const struct sockaddr_in *at)
{
	struct rdma_ucm_event_resp e;
	uint32_t id;

	NEED(cm_create(fd, 1, RDMA_PS_TCP, &id) == 0);
	NEED(cm_resolve(fd, id, at) == 0);
	expect_next(fd, CM_ADDR_RESOLVED, &e);
	NEED(cm_resolve_route(fd, id) == 0);
	expect_next(fd, CM_ROUTE_RESOLVED, &e);
	NEED(cm_connect(fd, id, "", 0) == 0);
	return id;
}

static void connect_once(int client, int server, const struct sockaddr_in *at)
{
	uint32_t active = request(client, at), passive;
	struct rdma_ucm_event_resp e;

	expect_next(server, CM_CONNECT_REQUEST, &e);
	passive = e.id;
	NEED(cm_accept(server, passive, 1, "", 0) == 0);
	expect_next(client, CM_CONNECT_RESPONSE, &e);
	NEED(cm_ready(client, active) == 0);
	expect_next(server, CM_ESTABLISHED, &e);
	NEED(cm_disconnect(client, active) == 0);
	expect_next(server, CM_DISCONNECTED, &e);
	NEED(cm_destroy(client, active) >= 0 && cm_destroy(server, passive) >= 0);
}

/* Each closes its channels and opens others, now and then. */
static void *connect_itself(void *unused)
{
	for (unsigned int i = 0; i < EACH / 10; i++) {
		int client = open_channel(0), server = open_channel(0);
		struct sockaddr_in at;

		(void)listen_any(server, &at);
		for (int k = 0; k < 10; k++)
			connect_once(client, server, &at);
		close(client);
		close(server);
	}
	return NULL;
}

static void channels(void)
{
	pthread_t threads[THREADS];

	row("%d threads with channels of their own", THREADS);
	for (int i = 0; i < THREADS; i++)
		start(&threads[i], connect_itself, NULL);
	join_all(threads);
}

/* --- an id that moves ------------------------------------------------------------------- */

static struct {
	int from, to;
	struct sockaddr_in at;
	_Atomic bool done;
} moving;

static void *request_on_and_on(void *unused)
{
	int fd = open_channel(0);

	for (unsigned int i = 0; i < EACH; i++) {
		struct rdma_ucm_event_resp e;
		uint32_t id = request(fd, &moving.at);

		expect_next(fd, CM_REJECTED, &e);
		NEED(e.id == id && cm_destroy(fd, id) >= 0);
	}
	close(fd);
	return NULL;
}

/* Requests are refused where they are heard, or where they have been moved to. */
static void *refuse(void *arg)
{
	const int *fd = arg;
	struct rdma_ucm_event_resp e;

	while (!atomic_load(&moving.done)) {
		struct pollfd p = {.fd = *fd, .events = POLLIN};

		if (poll(&p, 1, 1) <= 0 || cm_next(*fd, &e))
			continue;
		NEED(e.event == CM_CONNECT_REQUEST);
		NEED(cm_reject(*fd, e.id, 0, "", 0) == 0 && cm_destroy(*fd, e.id) >= 0);
	}
	return NULL;
}

static void *move(void *arg)
{
	const uint32_t *listener = arg;

	while (!atomic_load(&moving.done)) {
		NEED(cm_migrate(moving.to, *listener, moving.from) >= 0);
		NEED(cm_migrate(moving.from, *listener, moving.to) >= 0);
		wait_moment();
	}
	return NULL;
}

static void moves(void)
{
	pthread_t requester[THREADS], refusers[2], mover;
	uint32_t listener;

	row("a listener moves to and fro while requests come");
	moving.from = open_channel(O_NONBLOCK);
	moving.to = open_channel(O_NONBLOCK);
	listener = listen_any(moving.from, &moving.at);
	start(&mover, move, &listener);
	start(&refusers[0], refuse, &moving.from);
	start(&refusers[1], refuse, &moving.to);
	for (int i = 0; i < THREADS; i++)
		start(&requester[i], request_on_and_on, NULL);
	join_all(requester);
	atomic_store(&moving.done, true);
	NEED(pthread_join(mover, NULL) == 0 && pthread_join(refusers[0], NULL) == 0 &&
	     pthread_join(refusers[1], NULL) == 0);
	close(moving.from);
	close(moving.to);
}

int main(void)
{
	sandbox_begin(120);
	one_channel();
	channels();
	moves();
	return cm_end();
}
