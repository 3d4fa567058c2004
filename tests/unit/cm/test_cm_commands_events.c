/* SPDX-License-Identifier: MIT */
/*
 * Events and the descriptor that they come by: their order, when it is readable, what becomes of
 * events of an id that moves or ends, what copies of the descriptor are worth, and that no other
 * file of the program's is touched in its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm/cm.h"
#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/sanitized.h"
#include "lib/unit.h"
#include "lib/wait.h"

#define EVENTS 5

/* An id with an event that waits: its address is resolved. */
static uint32_t resolved(int fd, uint64_t uid)
{
	const struct sockaddr_in own = cm_address("127.0.0.1", 7174);
	uint32_t id;

	assert_int_equal(cm_create(fd, uid, RDMA_PS_TCP, &id), 0);
	assert_int_equal(cm_resolve(fd, id, &own), 0);
	return id;
}

static int fetch_nothing(int fd)
{
	struct rdma_ucm_event_resp event;

	return cm_next(fd, &event);
}

/* --- order and readiness -------------------------------------------------------------------- */

TEST(in_order)
{
	int fd = channel(0);
	uint32_t ids[EVENTS];

	for (uint64_t i = 0; i < EVENTS; i++)
		ids[i] = resolved(fd, 100 + i);
	assert_int_equal(cm_resolve_route(fd, ids[2]), 0);
	for (uint64_t i = 0; i < EVENTS; i++) {
		struct rdma_ucm_event_resp event = heard(fd, CM_ADDR_RESOLVED);

		assert_int_equal(event.id, ids[i]);
		assert_int_equal(event.uid, 100 + i);
		assert_int_equal(event.status, 0);
	}
	assert_int_equal(heard(fd, CM_ROUTE_RESOLVED).id, ids[2]);
	close(fd);
}

TEST(ready_while_events_wait)
{
	int fd = channel(0);

	assert_false(cm_pending(fd));
	for (int i = 0; i < EVENTS; i++)
		(void)resolved(fd, 1);
	for (int i = 0; i < EVENTS; i++) {
		assert_true(cm_pending(fd));
		(void)heard(fd, CM_ADDR_RESOLVED);
	}
	assert_false(cm_pending(fd));
	close(fd);
}

static int epoll_of(int fd, uint32_t events)
{
	struct epoll_event e = {.events = events};
	int ep = epoll_create1(EPOLL_CLOEXEC);

	assert_true(ep >= 0);
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
	return ep;
}

static int wakes(int ep)
{
	struct epoll_event e;

	return epoll_wait(ep, &e, 1, 0);
}

TEST(epoll_level)
{
	int fd = channel(0), ep = epoll_of(fd, EPOLLIN);

	assert_int_equal(wakes(ep), 0);
	(void)resolved(fd, 1);
	assert_int_equal(wakes(ep), 1);
	assert_int_equal(wakes(ep), 1);
	(void)heard(fd, CM_ADDR_RESOLVED);
	assert_int_equal(wakes(ep), 0);
	close(ep);
	close(fd);
}

/* Each event wakes who waits for an edge, fetched or not. */
TEST(epoll_edge)
{
	int fd = channel(0), ep = epoll_of(fd, EPOLLIN | EPOLLET);

	for (int i = 0; i < EVENTS; i++) {
		(void)resolved(fd, 1);
		assert_int_equal(wakes(ep), 1);
		assert_int_equal(wakes(ep), 0);
	}
	for (int i = 0; i < EVENTS; i++)
		(void)heard(fd, CM_ADDR_RESOLVED);
	(void)resolved(fd, 1);
	assert_int_equal(wakes(ep), 1);
	close(ep);
	close(fd);
}

/* Also more than a socket's queue takes. */
TEST(many_wait)
{
	int fd = channel(O_NONBLOCK);

	for (int i = 0; i < 3000; i++)
		(void)resolved(fd, 1);
	for (int i = 0; i < 3000; i++)
		(void)heard(fd, CM_ADDR_RESOLVED);
	assert_false(cm_pending(fd));
	assert_int_equal(fetch_nothing(fd), -EAGAIN);
	close(fd);
}

/* --- waiting --------------------------------------------------------------------------------- */

TEST(no_waiting)
{
	int at_open = channel(O_NONBLOCK), later = channel(0);

	assert_int_equal(fetch_nothing(at_open), -EAGAIN);
	assert_int_equal(fcntl(later, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(fetch_nothing(later), -EAGAIN);
	(void)resolved(later, 1);
	(void)heard(later, CM_ADDR_RESOLVED);
	assert_int_equal(fetch_nothing(later), -EAGAIN);
	close(at_open);
	close(later);
}

static _Atomic pid_t waiter;
static _Atomic unsigned int signals;
static _Atomic bool waited;

static void count_signal(int number)
{
	atomic_fetch_add(&signals, 1);
}

static void *wait_for_one(void *arg)
{
	intptr_t ret;

	atomic_store(&waiter, (pid_t)syscall(SYS_gettid));
	ret = fetch_nothing(*(int *)arg);
	atomic_store(&waited, true);
	return (void *)ret;
}

/* It may sleep for another reason than the event: then it sleeps again. */
static bool sleeps_and_is_told(pthread_t thread, unsigned int times)
{
	if (task_sleeps(atomic_load(&waiter)) && !atomic_load(&waited))
		assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	return atomic_load(&waited) || atomic_load(&signals) >= times;
}

static pthread_t begin_to_wait(int *fd)
{
	pthread_t thread;

	atomic_store(&signals, 0);
	atomic_store(&waiter, 0);
	atomic_store(&waited, false);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_one, fd), 0);
	return thread;
}

/* A thread that waits gets signals. @flags: of their handler. Return: what its wait has given */
static int interrupted(int flags)
{
	struct sigaction sa = {.sa_handler = count_signal, .sa_flags = flags};
	const bool restarts = flags & SA_RESTART;
	int fd = channel(0);
	pthread_t thread;
	void *ret;

	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	thread = begin_to_wait(&fd);
	assert_true(WAIT_UNTIL(sleeps_and_is_told(thread, restarts ? 50 : UINT32_MAX), SOON));
	assert_int_equal(atomic_load(&waited), !restarts);
	if (restarts)
		(void)resolved(fd, 1);
	assert_int_equal(pthread_join(thread, &ret), 0);
	close(fd);
	return (int)(intptr_t)ret;
}

TEST(signals_interrupt)
{
	if (UNDER_TSAN)
		skip(); /* it keeps signals back while a call waits */
	assert_int_equal(interrupted(0), -EINTR);
	assert_int_equal(interrupted(SA_RESTART), 0);
}

/* Another thread's event wakes who waits. */
TEST(woken)
{
	int fd = channel(0);
	pthread_t thread = begin_to_wait(&fd);
	void *ret;

	assert_true(WAIT_UNTIL(task_sleeps(atomic_load(&waiter)), SOON));
	(void)resolved(fd, 1);
	assert_int_equal(pthread_join(thread, &ret), 0);
	assert_int_equal((intptr_t)ret, 0);
	close(fd);
}

/* --- ids that end or move --------------------------------------------------------------- */

TEST(destroyed_with_events)
{
	int fd = channel(O_NONBLOCK);
	uint32_t first = resolved(fd, 1), second = resolved(fd, 2), third;

	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).id, first);
	assert_int_equal(cm_destroy(fd, first), 1);
	assert_int_equal(cm_destroy(fd, second), 0);
	assert_false(cm_pending(fd));
	assert_int_equal(fetch_nothing(fd), -EAGAIN);
	third = resolved(fd, 3);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).id, third);
	close(fd);
}

/* The events of others stay. */
TEST(destroyed_among_others)
{
	int fd = channel(O_NONBLOCK);
	uint32_t ids[EVENTS];

	for (uint64_t i = 0; i < EVENTS; i++)
		ids[i] = resolved(fd, i + 1);
	assert_int_equal(cm_destroy(fd, ids[0]), 0);
	assert_int_equal(cm_destroy(fd, ids[2]), 0);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).id, ids[1]);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).id, ids[3]);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).id, ids[4]);
	assert_false(cm_pending(fd));
	close(fd);
}

TEST(moved)
{
	int from = channel(O_NONBLOCK), to = channel(O_NONBLOCK);
	uint32_t id = resolved(from, 1);

	assert_int_equal(heard(from, CM_ADDR_RESOLVED).id, id);
	assert_int_equal(cm_resolve_route(from, id), 0);
	assert_int_equal(cm_migrate(to, id, from), 1);
	assert_false(cm_pending(from));
	assert_int_equal(fetch_nothing(from), -EAGAIN);
	assert_int_equal(heard(to, CM_ROUTE_RESOLVED).id, id);
	assert_int_equal(cm_destroy(from, id), -EINVAL);
	assert_int_equal(cm_destroy(to, id), 2);
	close(from);
	close(to);
}

/* Moved to where it is: nothing changes. */
TEST(moved_nowhere)
{
	int fd = channel(O_NONBLOCK);
	uint32_t id = resolved(fd, 1);

	assert_int_equal(cm_migrate(fd, id, fd), 0);
	assert_int_equal(heard(fd, CM_ADDR_RESOLVED).id, id);
	assert_int_equal(cm_migrate(fd, id, fd), 1);
	close(fd);
}

/* Who listens takes the requests along that nobody has heard of. */
TEST(moved_with_requests)
{
	int to = channel(0);
	struct rdma_ucm_event_resp event;
	struct ends e;

	ends_open(&e);
	(void)ends_come_to(&e, REQUESTING);
	assert_true(WAIT_UNTIL(cm_pending(e.passive_fd), SOON));
	assert_int_equal(cm_migrate(to, e.listener, e.passive_fd), 0);
	assert_int_equal(close(e.passive_fd), 0);
	event = heard(to, CM_CONNECT_REQUEST);
	assert_int_equal(cm_accept(to, event.id, 7, "", 0), 0);
	(void)heard(e.active_fd, CM_CONNECT_RESPONSE);
	e.passive_fd = to;
	ends_close(&e);
}

/* Requests that nobody has heard of end with who listens. */
TEST(listener_ends)
{
	struct ends e;

	ends_open(&e);
	(void)ends_come_to(&e, REQUESTING);
	assert_true(WAIT_UNTIL(cm_pending(e.passive_fd), SOON));
	assert_int_equal(cm_destroy(e.passive_fd, e.listener), 0);
	assert_false(cm_pending(e.passive_fd));
	assert_int_equal(heard(e.active_fd, CM_REJECTED).status, 28);
	ends_close(&e);
}

/* A request that nobody has fetched has no number, whichever a program tries. */
TEST(not_fetched)
{
	struct ends e;
	uint32_t id;

	ends_open(&e);
	(void)ends_come_to(&e, REQUESTING);
	assert_true(WAIT_UNTIL(cm_pending(e.passive_fd), SOON));
	for (uint32_t number = 0; number <= UINT16_MAX; number++)
		if (number != e.listener)
			assert_true(cm_destroy(e.passive_fd, number) < 0);
	id = heard(e.passive_fd, CM_CONNECT_REQUEST).id;
	assert_int_equal(cm_destroy(e.passive_fd, id), 0);
	assert_int_equal(cm_destroy(e.passive_fd, e.listener), 1);
	ends_close(&e);
}

/* A request that is there already is no part of the backlog any more when it is fetched. */
TEST(backlog)
{
	struct ends e;
	uint32_t small;
	struct sockaddr_in at = cm_address("127.0.0.1", 0);

	ends_open(&e);
	assert_int_equal(cm_create(e.passive_fd, 8, RDMA_PS_TCP, &small), 0);
	assert_int_equal(cm_bind(e.passive_fd, small, &at), 0);
	assert_int_equal(cm_listen(e.passive_fd, small, 1), 0);
	e.at = cm_source(e.passive_fd, small);
	(void)ends_come_to(&e, REQUESTING);
	assert_true(WAIT_UNTIL(cm_pending(e.passive_fd), SOON));

	assert_int_equal(cm_create(e.active_fd, 2, RDMA_PS_TCP, &e.active), 0);
	(void)ends_come_to(&e, REQUESTING);
	assert_int_equal(heard(e.active_fd, CM_REJECTED).status, 28);

	(void)heard(e.passive_fd, CM_CONNECT_REQUEST);
	assert_int_equal(cm_create(e.active_fd, 3, RDMA_PS_TCP, &e.active), 0);
	(void)ends_come_to(&e, REQUESTED);
	ends_close(&e);
}

/* --- copies of the descriptor ----------------------------------------------------------- */

/* When the last copy is closed, the peer hears of it, and the port is free. */
TEST(copies)
{
	struct ends e;
	uint32_t id;
	int copy, other = channel(0);

	ends_open(&e);
	(void)ends_come_to(&e, ESTABLISHED);
	copy = fcntl(e.passive_fd, F_DUPFD_CLOEXEC, 0);
	assert_true(copy >= 0);
	assert_int_equal(close(e.passive_fd), 0);
	assert_int_equal(cm_source(copy, e.listener).sin_port, e.at.sin_port);
	assert_int_equal(cm_create(other, 1, RDMA_PS_TCP, &id), 0);
	assert_int_equal(cm_bind(other, id, &e.at), -EADDRINUSE);
	assert_false(cm_pending(e.active_fd));
	e.passive_fd = copy;
	assert_int_equal(close(copy), 0);
	(void)heard(e.active_fd, CM_DISCONNECTED);
	assert_int_equal(cm_bind(other, id, &e.at), 0);
	close(other);
	close(e.active_fd);
}

/* The same with events that nobody has fetched. */
TEST(closed_with_events)
{
	struct ends e;

	ends_open(&e);
	(void)ends_come_to(&e, ESTABLISHED);
	(void)resolved(e.passive_fd, 1);
	assert_int_equal(close(e.passive_fd), 0);
	(void)heard(e.active_fd, CM_DISCONNECTED);
	close(e.active_fd);
}

/* --- other files at the same numbers ---------------------------------------------------- */

#define MINE "the program's"

/* A file of the program's, with bytes that wait, and its other end. */
struct mine {
	int fd, other;
};

static struct mine mine_open(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(send(pair[1], MINE, sizeof(MINE), 0), sizeof(MINE));
	return (struct mine){pair[0], pair[1]};
}

/* Nothing was read from it, nor written to it. */
static bool is_untouched(const struct mine *m)
{
	char text[2 * sizeof(MINE)];

	return recv(m->fd, text, sizeof(text), MSG_DONTWAIT) == sizeof(MINE) &&
	       recv(m->other, text, sizeof(text), MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void mine_close(const struct mine *m)
{
	assert_true(is_untouched(m));
	close(m->fd);
	close(m->other);
}

/* By number: ThreadSanitizer would report who looks at what was there. */
static void replace(int fd, const struct mine *m)
{
	assert_int_equal(syscall(SYS_dup3, m->fd, fd, O_CLOEXEC), fd);
}

/* A file takes the number while a thread waits there; a copy stays. Return: what the wait gives */
static int replaced_while_it_waits(void)
{
	int fd = channel(0), copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	const struct mine mine = mine_open();
	pthread_t thread = begin_to_wait(&fd);
	void *ret;

	assert_true(WAIT_UNTIL(task_sleeps(atomic_load(&waiter)), SOON));
	replace(fd, &mine);
	(void)resolved(copy, 1);
	assert_int_equal(pthread_join(thread, &ret), 0);
	mine_close(&mine);
	close(fd);

	assert_int_equal(fcntl(copy, F_SETFL, O_NONBLOCK), 0);
	if (ret)
		(void)heard(copy, CM_ADDR_RESOLVED);
	assert_int_equal(fetch_nothing(copy), -EAGAIN);
	assert_false(cm_pending(copy));
	close(copy);
	return (int)(intptr_t)ret;
}

/* Who waits gets the channel's event. The thread may have slept before it came to its wait. */
TEST(replaced_meanwhile)
{
	int ret = -EBADF;

	for (int i = 0; i < 100 && ret == -EBADF; i++)
		ret = replaced_while_it_waits();
	assert_int_equal(ret, 0);
}

static int meant; /* the channel that was at a command's number when the command came */

static ssize_t put_late(int fd, const void *bytes, size_t count)
{
	uint32_t number;

	assert_true(av_cm_is_channel(meant, &number));
	return av_cm_write(fd, number, bytes, count);
}

static int fetch(int fd, uint32_t id)
{
	return fetch_nothing(fd);
}

/* Commands that look at their descriptor, which is another file already. */
static const struct late {
	int (*command)(int fd, uint32_t id);
	int ret;
} late[] = {
	{fetch, -EBADF},
	{cm_destroy, 0},
};

TEST(replaced_before)
{
	ssize_t (*const in_time)(int fd, const void *bytes, size_t count) = cm_put;

	for (size_t i = 0; i < sizeof(late) / sizeof(*late); i++) {
		const struct mine mine = mine_open();
		uint32_t id;
		int ret;

		meant = channel(O_NONBLOCK);
		id = resolved(meant, 1);
		cm_put = put_late;
		ret = late[i].command(mine.fd, id);
		cm_put = in_time;
		assert_int_equal(ret, late[i].ret);
		mine_close(&mine);
		if (ret)
			(void)heard(meant, CM_ADDR_RESOLVED);
		assert_int_equal(fetch_nothing(meant), -EAGAIN);
		assert_false(cm_pending(meant));
		close(meant);
	}
}

#define HIGH 512 /* the library's numbers are above */

/* Return: was there one? */
static bool replace_the_librarys(const struct mine *m)
{
	bool found = false;

	for (int fd = HIGH; fd < 2 * FD_SETSIZE; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			replace(fd, m);
			found = true;
		}
	return found;
}

/* The library's end of a channel is another file: nobody can be told of events. */
static int without_the_librarys_end(void)
{
	const struct mine mine = mine_open();
	int fd = channel(0), ret;

	if (!replace_the_librarys(&mine))
		return 1;
	(void)resolved(fd, 1);
	ret = fetch_nothing(fd);
	close(fd);
	return ret != -EBADF || !is_untouched(&mine);
}

/* --- children --------------------------------------------------------------------------- */

static int status_of(pid_t child)
{
	int status;

	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* In a child, whose library is not needed afterwards. */
TEST(librarys_end_replaced)
{
	pid_t child;

	if (UNDER_TSAN)
		skip(); /* it does not go on in such a child */
	child = fork();
	if (child == 0)
		_exit(without_the_librarys_end());
	assert_int_equal(status_of(child), 0);
}

/* The ids are the parent's; what the child closes is its own copy. */
TEST(forked_child)
{
	struct ends e;
	pid_t child;

	ends_open(&e);
	(void)ends_come_to(&e, REQUESTING);
	child = fork();
	if (child == 0) {
		int ret = cm_destroy(e.active_fd, e.active);

		if (ret == -EACCES)
			ret = fetch_nothing(e.passive_fd);
		close(e.active_fd);
		_exit(-ret);
	}
	assert_int_equal(status_of(child), EACCES);
	(void)heard(e.passive_fd, CM_CONNECT_REQUEST);
	ends_close(&e);
}

/* A child has channels of its own. */
TEST(childs_own)
{
	struct ends e;
	pid_t child;

	if (UNDER_TSAN)
		skip(); /* it does not go on in such a child */
	ends_open(&e);
	child = fork();
	if (child == 0) {
		int fd = channel(0);

		(void)resolved(fd, 4);
		_exit(heard(fd, CM_ADDR_RESOLVED).uid == 4 ? 0 : 1);
	}
	assert_int_equal(status_of(child), 0);
	(void)ends_come_to(&e, ESTABLISHED);
	ends_close(&e);
}

/* It has the parent's memory, and is another process. */
TEST(vforked_child)
{
	static volatile int ret;
	struct ends e;
	pid_t child;

	if (UNDER_TSAN)
		skip(); /* it does not go on in such a child */
	ends_open(&e);
	child = vfork();
	if (child == 0) {
		ret = cm_destroy(e.active_fd, e.active);
		_exit(0);
	}
	assert_int_equal(status_of(child), 0);
	assert_int_equal(ret, -EACCES);
	(void)ends_come_to(&e, ESTABLISHED);
	ends_close(&e);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
