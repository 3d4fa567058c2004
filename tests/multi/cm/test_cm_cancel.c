/* SPDX-License-Identifier: MIT */
/*
 * Threads are cancelled in open(2) and write(2) of the connection manager's device. Both are points
 * where that may happen, as with the kernel's: where nothing has begun, and where a thread waits
 * for an event. It takes nothing with it: no lock, and no channel or port number beyond its
 * close().
 *
 * What is kept would have the next thread wait for ever, or fork(): time_limit() ends that.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm_fixture.h"
#include "lib/cancellable.h"
#include "lib/cm_command.h"
#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/wait.h"

#define ROUNDS (TEST_SANITIZED ? 50u : 200u)

static int fd; /* the channel that threads use */
static uint32_t id;
static struct sockaddr_in at;

static int open_channel(int flags)
{
	int channel = cm_open(O_CLOEXEC | flags);

	NEED(channel >= 0);
	return channel;
}

static uint32_t create(int channel)
{
	uint32_t number;

	NEED(cm_create(channel, 1, RDMA_PS_TCP, &number) == 0);
	return number;
}

/* --- what a thread does ----------------------------------------------------------------------- */

/* What has begun is done: the number is closed by nothing that a thread is cancelled in. */
static void do_open(void)
{
	int channel = cm_open(O_CLOEXEC);

	if (channel >= 0)
		(void)syscall(SYS_close, channel);
}

static void do_create(void)
{
	uint32_t number;

	(void)!cm_create(fd, 1, RDMA_PS_TCP, &number);
}

static void do_bind(void)
{
	(void)!cm_bind(fd, id, &at);
}

static void do_resolve(void)
{
	(void)!cm_resolve(fd, id, &at);
}

static void do_listen(void)
{
	(void)!cm_listen(fd, id, 0);
}

static void do_connect(void)
{
	struct rdma_ucm_event_resp e;

	(void)!cm_resolve_route(fd, id);
	while (cm_pending(fd))
		(void)!cm_next(fd, &e);
	(void)!cm_connect(fd, id, "", 0);
}

static void do_destroy(void)
{
	(void)!cm_destroy(fd, id);
}

static void do_fetch(void)
{
	struct rdma_ucm_event_resp e;

	(void)!cm_next(fd, &e);
}

/* Each as far as it comes: many of these commands fail. */
static void do_all(void)
{
	do_open();
	(void)!cm_create(fd, 1, RDMA_PS_TCP, &id);
	do_bind();
	do_listen();
	do_destroy();
	(void)!cm_create(fd, 1, RDMA_PS_TCP, &id);
	do_resolve();
	do_connect();
	do_destroy();
}

static const struct {
	const char *name;
	void (*act)(void);
} rows[] = {
	{"open", do_open},	 {"create", do_create},	     {"bind", do_bind},
	{"resolve", do_resolve}, {"listen", do_listen},	     {"connect", do_connect},
	{"destroy", do_destroy}, {"get an event", do_fetch},
};

/* --- cancelling ------------------------------------------------------------------------------- */

static void *open_another(void *unused)
{
	int channel = open_channel(0);

	(void)create(channel);
	close(channel);
	return NULL;
}

/* For others, and for a child. */
static void expect_usable(void)
{
	pthread_t thread;
	int status;
	pid_t child;

	NEED(pthread_create(&thread, NULL, open_another, NULL) == 0);
	NEED(pthread_join(thread, NULL) == 0);
	child = fork();
	if (child == 0)
		_exit(0);
	EXPECT(waitpid(child, &status, 0) == child && status == 0, "child: %#x", status);
}

static void act(void *f)
{
	(*(void (*const *)(void))f)();
}

/* As the first thing that the process does with the device, too. */
static void cancel_before(void (*const *f)(void))
{
	EXPECT(!outlives_cancellation(act, (void *)(uintptr_t)f), "it is no cancellation point");
	expect_usable();
}

static _Atomic unsigned int turns;

static void *act_for_ever(void *unused)
{
	for (;; pthread_testcancel()) {
		int before;

		do_all();
		atomic_fetch_add(&turns, 1);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
		EXPECT(before == PTHREAD_CANCEL_ENABLE, "cancellation was left off");
	}
	return NULL;
}

static void cancel_within(void)
{
	for (unsigned int i = 0; i < ROUNDS && failures() == 0; i++) {
		unsigned int before = atomic_load(&turns);
		pthread_t thread = start_cancellable(act_for_ever, NULL);
		void *result;

		while (atomic_load(&turns) == before) /* it has got through once */
			sched_yield();
		let_go_on(i * 7 % 300);
		pthread_cancel(thread);
		NEED(pthread_join(thread, &result) == 0);
		EXPECT(result == PTHREAD_CANCELED, "it ended by itself");
		expect_usable();
	}
}

/* --- waiting ---------------------------------------------------------------------------------- */

static _Atomic pid_t waiter;

static void *wait_for_ever(void *unused)
{
	struct rdma_ucm_event_resp e;

	atomic_store(&waiter, (pid_t)syscall(SYS_gettid));
	return (void *)(intptr_t)cm_next(fd, &e);
}

static void cancel_waiter(unsigned int round)
{
	pthread_t thread;
	void *result;

	atomic_store(&waiter, 0);
	thread = start_cancellable(wait_for_ever, NULL);
	if (round % 2)
		let_go_on(round * 7 % 300);
	else
		NEED(WAIT_UNTIL(task_sleeps(atomic_load(&waiter)), SOON));
	pthread_cancel(thread);
	NEED(pthread_join(thread, &result) == 0);
	EXPECT(result == PTHREAD_CANCELED, "its wait was not cancelled");
}

/* The port number of a channel that was closed is free. */
static void expect_free(const struct sockaddr_in *port)
{
	int channel = open_channel(0);
	uint32_t number = create(channel);

	EXPECT(WAIT_UNTIL(cm_bind(channel, number, port) == 0, SOON),
	       "the channel goes on behind its close()");
	close(channel);
}

static void cancel_waiting(void)
{
	for (unsigned int i = 0; i < ROUNDS && failures() == 0; i++) {
		struct sockaddr_in any = cm_address("127.0.0.1", 0), port;
		uint32_t listener;

		fd = open_channel(0);
		listener = create(fd);
		NEED(cm_bind(fd, listener, &any) == 0);
		port = cm_source(fd, listener);
		NEED(cm_listen(fd, listener, 0) == 0);
		cancel_waiter(i);
		cancel_waiter(i + 1);
		close(fd);
		expect_free(&port);
	}
}

static void *wait_protected(void *unused)
{
	struct rdma_ucm_event_resp e;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	atomic_store(&waiter, (pid_t)syscall(SYS_gettid));
	return (void *)(intptr_t)cm_next(fd, &e);
}

/* Whose program keeps it from being cancelled gets its event. */
static void protect_waiter(void)
{
	pthread_t thread;
	void *result;

	fd = open_channel(0);
	id = create(fd);
	atomic_store(&waiter, 0);
	thread = start_cancellable(wait_protected, NULL);
	NEED(WAIT_UNTIL(task_sleeps(atomic_load(&waiter)), SOON));
	pthread_cancel(thread);
	NEED(cm_resolve(fd, id, &at) == 0);
	NEED(pthread_join(thread, &result) == 0);
	EXPECT(result == NULL, "result %p", result);
	close(fd);
}

int main(void)
{
	sandbox_begin(120);
	at = cm_address("127.0.0.1", 7174);
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		row("cancelled before: %s", rows[i].name);
		if (i == 1) {
			fd = open_channel(O_NONBLOCK);
			id = create(fd);
		}
		cancel_before(&rows[i].act);
	}
	row("cancelled at any moment");
	cancel_within();
	close(fd);
	row("cancelled while they wait");
	cancel_waiting();
	row("not to be cancelled");
	protect_waiter();
	return cm_end();
}
