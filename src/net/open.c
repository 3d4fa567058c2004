/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/lock.h"
#include "base/real_calls.h"
#include "base/thread.h"
#include "base/wait.h"
#include "net/address.h"
#include "net/net.h"
#include "observe/flight.h"
#include "registry/tables.h"

#define TRUST_MS  1	  /* how long whoever takes packets is trusted to take the next ones */
#define SILENT_NS 200000u /* who has not looked for so long spins on something else */
#define DISTRUST  4096u	  /* times that packets are waited for, when trust was misplaced */
#define FULL_MS	  1	  /* until a process that has no room for a message may have some */
#define BLIND_MS  20 /* while the program has closed the pair, or lowered its limit of numbers */

/* Owned by the thread. */
struct listening {
	unsigned int run;
	struct av_own_fd woken;
	struct pollfd poll[1 + AV_ENDPOINTS];
};

static struct {
	bool running;
	struct av_thread *thread;
	struct av_waker waker;
	_Atomic unsigned int run; /* the thread ends when this is no longer its own */
} listener = {.waker = AV_WAKER_NONE};

/* While somebody else takes the packets, they wake nobody. */
static void poll_listener(struct listening *l, bool others_take)
{
	int woken = av_own_fd(&l->woken), timeout = others_take ? TRUST_MS : -1;
	nfds_t n = 1;

	l->poll[0] = (struct pollfd){.fd = woken, .events = POLLIN};
	if (!others_take)
		n += av_endpoint_poll(l->poll + 1);
	if (woken < 0 && !others_take)
		timeout = BLIND_MS;
	if (av_backlog_waits())
		timeout = FULL_MS;
	if (av_raw_poll(l->poll, n, timeout) < 0)
		(void)av_raw_poll(NULL, 0, BLIND_MS);
	else if (l->poll[0].revents)
		av_waker_drain(&l->woken);
}

static bool is_listener_replaced(const struct listening *l)
{
	return atomic_load(&listener.run) != l->run;
}

/*
 * @wait: for who is taking them. Asked again and again instead, it could not finish on one core
 * with this thread. Return: false: others are taking them
 */
static bool drain_inbound(const struct listening *l, bool wait, bool *any)
{
	unsigned int taken;
	bool drained, mine;

	*any = false;
	do {
		mine = av_inbound_take(wait, &taken, &drained);
		*any |= taken > 0;
	} while (!drained && !is_listener_replaced(l));
	return mine;
}

static bool nobody_looks(void)
{
	return av_now_ns() - av_inbound_looked_ns() > SILENT_NS;
}

/*
 * A program may poll its CQ once, and then spin on memory that packets write to: what comes while
 * it is trusted waits. That is noticed once, and not again for a while: DISTRUST times, this thread
 * waits for who is taking packets at the moment, and then looks itself.
 */
static void *listen_main(void *arg)
{
	struct listening *l = arg;
	unsigned int polled = av_inbound_polled(), now, distrust = 0;
	bool others_take = false, any;

	while (!is_listener_replaced(l)) {
		bool silent, mine;

		poll_listener(l, others_take && distrust == 0);
		silent = others_take && nobody_looks();
		mine = drain_inbound(l, distrust > 0, &any);
		if (distrust > 0)
			distrust--;
		else if (silent && mine && any)
			distrust = DISTRUST;
		now = av_inbound_polled();
		others_take = !mine || now != polled;
		polled = now;
	}
	av_own_fd_close(&l->woken);
	free(l);
	return NULL;
}

int av_listen_begin(void)
{
	struct listening *l;
	int ret = -ENOMEM;

	if (listener.running)
		return 0;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->woken = AV_OWN_FD_NONE;
	l->run = atomic_load(&listener.run);
	if (av_waker_begin(&listener.waker, &l->woken))
		ret = -av_thread_start(&listener.thread, "anyverbs-net", listen_main, l);
	listener.running = ret == 0;
	if (ret == 0)
		return 0;
	av_own_fd_close(&l->woken);
	av_waker_end(&listener.waker);
	free(l);
	return ret;
}

/* There are other endpoints: it looks again. */
static void listen_changed(void)
{
	(void)av_waker_wake(&listener.waker);
}

/* It ends, and is not within the receiver afterwards. Context: not within the receiver */
static void listen_end(void)
{
	if (!listener.running)
		return;
	atomic_fetch_add(&listener.run, 1);
	if (av_waker_wake(&listener.waker))
		av_thread_join(listener.thread);
	else
		av_thread_leave(listener.thread); /* it ends when a packet comes, or in a moment */
	/* Whoever receives may wake it. */
	av_inbound_pause();
	av_waker_end(&listener.waker);
	av_inbound_resume();
	listener.running = false;
}

/* In a forked child, which has no such thread. */
static void listen_forked(void)
{
	av_waker_forked(&listener.waker);
	atomic_fetch_add(&listener.run, 1);
	listener.running = false;
}

/* Which addresses and groups this process receives for, from the first user to the last. */

/* Held while anything is opened or closed. Its holder may wait for the receiver. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int openings; /* addresses that are open, and those who hold the rest */
static unsigned int polled;   /* users of addresses whose packets pollers take */
static struct av_endpoint *_Atomic passed; /* NULL before it ends: the receiver uses it */

_Atomic bool av_net_is_open;

/* --- fork() ----------------------------------------------------------------------- */

/* Endpoints stay where they are: who sends may hold one, in a thread that is not here. */
void av_net_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	openings = polled = 0;
	passed = NULL;
	atomic_store(&av_net_is_open, false);
	av_inbound_forked();
	av_burst_forked();
	av_net_icmp_forked();
	listen_forked();
	av_backlog_forked();
	av_endpoint_forked();
}

static const struct av_fork_handlers fork_handlers = {.child = av_net_forked};

/* --- one endpoint ----------------------------------------------------------------- */

void av_net_warn(const uint8_t address[16], int err)
{
	char text[INET6_ADDRSTRLEN] = "?";
	bool v4 = av_net_is_v4(address);

	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address + 12 : address, text, sizeof(text));
	if (err == -EADDRINUSE)
		av_warn_once("UDP port %u of %s is taken, by the kernel's rdma_rxe, another user's "
			     "anyverbs or one with another ANYVERBS_DIR: no packets to and from "
			     "other hosts",
			     AV_ROCE_PORT, text);
	else if (err == -EBUSY)
		av_warn_once("a process of this user is stopped within a change of the directory: "
			     "no packets to and from other hosts at %s, until the queue pair is "
			     "reset",
			     text);
	else
		av_log(AV_LOG_INFO, "cannot receive at %s port %u: %s", text, AV_ROCE_PORT,
		       strerrordesc_np(-err));
}

static int make_socket(struct av_endpoint *e)
{
	return e->kind == AV_ENDPOINT_PASSED ? av_misrouted_socket(&e->socket)
					     : av_net_socket(&e->socket, e->address, e->ifindex,
							     e->kind == AV_ENDPOINT_GROUP);
}

/* From now on, packets come. */
static int give_name(struct av_endpoint *e)
{
	switch (e->kind) {
	case AV_ENDPOINT_PASSED:
		return av_misrouted_begin(&e->socket);
	case AV_ENDPOINT_GROUP:
		return av_net_socket_bind(&e->socket, e->address, e->ifindex, true);
	case AV_ENDPOINT_ADDRESS:
		break;
	}
	return av_group_enter(e);
}

/* Found before it has a name: a forked child closes it, too. Return: 0 or -errno */
static int open_endpoint(struct av_endpoint *e)
{
	int ret = make_socket(e);

	if (ret)
		return ret;
	ret = av_endpoint_add(e) ? give_name(e) : -ENOSPC;
	if (ret) {
		av_inbound_pause();
		av_endpoint_remove(e);
		av_own_fd_close(&e->socket);
		av_inbound_resume();
	}
	return ret;
}

/* Return: NULL: no memory, or @err says why it could not begin */
static struct av_endpoint *new_endpoint(enum av_endpoint_kind kind, const uint8_t address[16],
					uint32_t ifindex, int *err)
{
	struct av_endpoint *e = calloc(1, sizeof(*e));

	*err = -ENOMEM;
	if (!e)
		return NULL;
	e->kind = kind;
	e->ifindex = ifindex;
	e->users = 1;
	e->group = -1;
	memcpy(e->address, address, sizeof(e->address));
	*err = open_endpoint(e);
	if (*err == 0)
		return e;
	free(e);
	return NULL;
}

static void close_endpoint(struct av_endpoint *e)
{
	av_inbound_pause();
	av_endpoint_remove(e);
	if (e->kind == AV_ENDPOINT_ADDRESS)
		av_group_leave(e);
	else
		av_own_fd_close(&e->socket);
	av_inbound_resume();
	free(e);
	listen_changed();
}

/* One more user of it. @ifindex: of the address. Return: 0 or -errno */
static int acquire_endpoint(enum av_endpoint_kind kind, const uint8_t address[16], uint32_t ifindex)
{
	struct av_endpoint *e = av_endpoint_find(kind, address, ifindex);
	int ret;

	if (e) {
		e->users++;
		return 0;
	}
	(void)new_endpoint(kind, address, ifindex, &ret);
	return ret;
}

/* Return: true: it had this user, and no longer has any */
static bool unuse(struct av_endpoint *e)
{
	return e && --e->users == 0;
}

/* --- addresses -------------------------------------------------------------------- */

/* Without it, misrouted packets are lost. */
static void begin_passing(void)
{
	static const uint8_t none[16];
	int err;

	passed = new_endpoint(AV_ENDPOINT_PASSED, none, 0, &err);
	if (passed)
		listen_changed();
	else
		av_log(AV_LOG_INFO, "no socket for packets that are passed on: %s",
		       strerrordesc_np(-err));
}

/* What is there from the first opening to the last. Return: 0 or -errno */
static int begin_all(void)
{
	int ret = -av_fork_register(AV_FORK_NET, &fork_handlers);

	if (ret == 0)
		ret = av_inbound_prepare();
	av_backlog_wake_by(listen_changed);
	if (ret == 0)
		ret = av_listen_begin();
	if (ret == 0)
		begin_passing();
	return ret;
}

static void end_all(void)
{
	struct av_endpoint *e = passed;

	listen_end();
	av_net_icmp_end();
	if (e) {
		av_misrouted_end();
		passed = NULL;
		close_endpoint(e);
	}
	av_inbound_pause();
	av_backlog_drop();
	av_inbound_resume();
}

/* Return: 0 or -errno: then there is one opening less again */
static int begin_opening(void)
{
	int ret = openings == 0 ? begin_all() : 0;

	openings += ret == 0;
	return ret;
}

static void end_opening(void)
{
	if (--openings == 0)
		end_all();
}

static int open_net_address(const uint8_t address[16])
{
	struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_ADDRESS, address, 0);
	uint32_t ifindex = e ? e->ifindex : 0;
	int ret = e ? 0 : av_net_interface(address, &ifindex);

	if (ret == 0)
		ret = begin_opening();
	if (ret)
		return ret;
	ret = acquire_endpoint(AV_ENDPOINT_ADDRESS, address, ifindex);
	if (ret == 0 && !e)
		listen_changed();
	else
		end_opening();
	return ret;
}

static void count_polled(int users)
{
	polled += (unsigned int)users;
	atomic_store(&av_net_is_open, polled > 0);
}

/* @users: for whom pollers take its packets */
static int open_for(const uint8_t address[16], int users)
{
	AV_UNCANCELLED;
	int saved = errno, ret;

	pthread_mutex_lock(&mutex);
	ret = open_net_address(address);
	if (ret == 0)
		count_polled(users);
	pthread_mutex_unlock(&mutex);
	errno = saved;
	return ret;
}

/* Nobody finds it any more; who has found it ends what it does there with it. */
static void hide(struct av_endpoint *e, void (*quiet)(void))
{
	av_endpoint_remove(e);
	pthread_mutex_unlock(&mutex);
	quiet();
	pthread_mutex_lock(&mutex);
}

/* @quiet: NULL: nobody sends from there */
static void close_for(const uint8_t address[16], int users, void (*quiet)(void))
{
	AV_UNCANCELLED;
	struct av_endpoint *e;
	int saved = errno;

	pthread_mutex_lock(&mutex);
	e = av_endpoint_find(AV_ENDPOINT_ADDRESS, address, 0);
	if (e)
		count_polled(-users);
	if (unuse(e)) {
		if (quiet)
			hide(e, quiet);
		close_endpoint(e);
		end_opening();
	}
	pthread_mutex_unlock(&mutex);
	errno = saved;
}

int av_net_open(const uint8_t address[16])
{
	return open_for(address, 1);
}

void av_net_close(const uint8_t address[16])
{
	close_for(address, 1, NULL);
}

int av_net_attend(const uint8_t address[16])
{
	return open_for(address, 0);
}

void av_net_leave_alone(const uint8_t address[16], void (*quiet)(void))
{
	close_for(address, 0, quiet);
}

bool av_net_has_moved(const uint8_t address[16])
{
	AV_UNCANCELLED;
	const struct av_endpoint *e;
	int saved = errno;
	uint32_t ifindex;
	bool moved;

	pthread_mutex_lock(&mutex);
	e = av_endpoint_find(AV_ENDPOINT_ADDRESS, address, 0);
	moved = e && av_net_interface(address, &ifindex) == 0 && ifindex != e->ifindex;
	pthread_mutex_unlock(&mutex);
	errno = saved;
	return moved;
}

int av_net_hold(void)
{
	AV_UNCANCELLED;
	int saved = errno, ret;

	pthread_mutex_lock(&mutex);
	ret = begin_opening();
	pthread_mutex_unlock(&mutex);
	errno = saved;
	return ret;
}

void av_net_release(void)
{
	AV_UNCANCELLED;
	int saved = errno;

	pthread_mutex_lock(&mutex);
	end_opening();
	pthread_mutex_unlock(&mutex);
	errno = saved;
}

int av_net_pass(uint32_t proc, const struct av_net_path *path, uint8_t *packet, size_t bytes)
{
	struct av_gro_split cut = {.path = *path, .bytes = packet, .count = bytes};
	const struct av_endpoint *e = passed;
	int saved = errno, ret;

	cut.path.source_port = AV_ROCE_PORT;
	av_burst_put_icrc(&cut.path, packet, bytes, 0);
	ret = e ? av_misrouted_pass(&e->socket, proc, &cut) : -ENOTCONN;
	errno = saved;
	return ret;
}

/* Whatever the address: a block of numbers belongs to its process at all of them. */
int av_net_own(const uint8_t address[16], uint32_t qpn)
{
	AV_UNCANCELLED;
	struct av_endpoint *e[AV_ENDPOINTS];
	int saved = errno, ret;

	if (av_reuseport_owner(qpn) == av_lock_self)
		return 0;
	pthread_mutex_lock(&mutex);
	ret = av_group_own(qpn, e, av_endpoint_all(e));
	pthread_mutex_unlock(&mutex);
	errno = saved;
	return ret;
}

/* --- groups ----------------------------------------------------------------------- */

/* The interface by which @address receives for @group; 0: it does not */
static uint32_t interface_of(const uint8_t address[16], const uint8_t group[16])
{
	const struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_ADDRESS, address, 0);

	return e && av_net_is_group(group) && av_net_is_v4(group) == av_net_is_v4(address)
		       ? e->ifindex
		       : 0;
}

/*
 * A socket that is bound to an address receives nothing for a group, so each group has its own. Two
 * addresses of one interface share it: the packet comes once.
 */
int av_net_join(const uint8_t address[16], const uint8_t group[16])
{
	AV_UNCANCELLED;
	int saved = errno, ret;
	uint32_t ifindex;

	pthread_mutex_lock(&mutex);
	ifindex = interface_of(address, group);
	ret = ifindex ? acquire_endpoint(AV_ENDPOINT_GROUP, group, ifindex) : -EADDRNOTAVAIL;
	if (ret == 0)
		listen_changed();
	pthread_mutex_unlock(&mutex);
	errno = saved;
	return ret;
}

void av_net_leave(const uint8_t address[16], const uint8_t group[16])
{
	AV_UNCANCELLED;
	struct av_endpoint *e;
	int saved = errno;
	uint32_t ifindex;

	pthread_mutex_lock(&mutex);
	ifindex = interface_of(address, group);
	e = ifindex ? av_endpoint_find(AV_ENDPOINT_GROUP, group, ifindex) : NULL;
	if (unuse(e))
		close_endpoint(e);
	pthread_mutex_unlock(&mutex);
	errno = saved;
}
