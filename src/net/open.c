/* SPDX-License-Identifier: MIT */
#include "net/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>

#include "base/real_calls.h"
#include "base/thread.h"
#include "observe/flight.h"
#include "registry/tables.h"
#include "wire/address.h"

/* Which addresses and groups this process receives for, from the first user to the last. */

/* Held while anything is opened or closed. Its holder may wait for the receiver. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Hold it to the end of the block, uncancelled, and keep errno. */
#define CHANGING        \
	AV_UNCANCELLED; \
	AV_ERRNO_KEPT;  \
	AV_LOCKED(&mutex)

static unsigned int openings;	   /* addresses that are open, and those who hold the rest */
static unsigned int polled;	   /* users of addresses whose packets pollers take */
static struct av_endpoint *passed; /* by which packets are passed on; NULL: it could not be had */

_Atomic bool av_net_is_open;

/* --- endpoints ------------------------------------------------------------------- */

/* The mutex guards changes. Rows up to @end are in use or NULL: a forked child reads them alone. */
static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct av_endpoint *table[AV_ENDPOINTS];
static unsigned int end;
static _Atomic unsigned int version = 1;

/* False: too many */
static bool add_endpoint(struct av_endpoint *e)
{
	unsigned int i = 0;

	AV_LOCKED(&table_mutex);
	while (i < end && table[i])
		i++;
	if (i < AV_ENDPOINTS) {
		table[i] = e;
		end = i < end ? end : i + 1;
		atomic_fetch_add(&version, 1);
	}
	return i < AV_ENDPOINTS;
}

/* Threads that have found it may still use it: see av_endpoint_find(). */
static void remove_endpoint(struct av_endpoint *e)
{
	AV_LOCKED(&table_mutex);
	for (unsigned int i = 0; i < end; i++)
		if (table[i] == e)
			table[i] = NULL;
	while (end > 0 && !table[end - 1])
		end--;
	atomic_fetch_add(&version, 1);
}

struct av_endpoint *av_endpoint_find(enum av_endpoint_kind kind, const uint8_t address[16],
				     uint32_t ifindex)
{
	AV_LOCKED(&table_mutex);
	for (unsigned int i = 0; i < end; i++)
		if (table[i] && table[i]->kind == kind &&
		    (ifindex == 0 || table[i]->ifindex == ifindex) &&
		    memcmp(table[i]->address, address, sizeof(table[i]->address)) == 0)
			return table[i];
	return NULL;
}

static unsigned int all_endpoints(struct av_endpoint *all[AV_ENDPOINTS])
{
	unsigned int n = 0;

	AV_LOCKED(&table_mutex);
	for (unsigned int i = 0; i < end; i++)
		if (table[i])
			all[n++] = table[i];
	return n;
}

bool av_endpoint_refresh(struct av_endpoint *all[AV_ENDPOINTS], unsigned int *count,
			 unsigned int *known)
{
	unsigned int current = atomic_load(&version);

	if (*known == current)
		return false;
	*count = all_endpoints(all);
	*known = current;
	return true;
}

unsigned int av_endpoint_poll(struct pollfd all[AV_ENDPOINTS])
{
	unsigned int n = 0;

	AV_LOCKED(&table_mutex);
	for (unsigned int i = 0; i < end; i++) {
		int fd = table[i] ? av_own_fd(&table[i]->socket) : -1;

		if (fd >= 0)
			all[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	return n;
}

/* --- fork() ----------------------------------------------------------------------- */

/* Endpoints stay where they are: a sending thread of the parent may hold one. */
static void reset_net_in_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	openings = polled = 0;
	passed = NULL;
	atomic_store(&av_net_is_open, false);
	av_inbound_forked();
	av_burst_forked();
	av_socket_forked();
	pthread_mutex_init(&table_mutex, NULL);
	for (unsigned int i = 0; i < AV_ENDPOINTS; i++) {
		if (table[i])
			av_own_fd_close(&table[i]->socket);
		table[i] = NULL;
	}
	end = 0;
	atomic_fetch_add(&version, 1);
}

static const struct av_fork_handlers fork_handlers = {.child = reset_net_in_child};

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

/* Found before it has a name: a forked child closes it, too. Return: 0 or -errno */
static int open_endpoint(struct av_endpoint *e)
{
	int ret = av_socket_make(e);

	if (ret)
		return ret;
	ret = add_endpoint(e) ? av_socket_bind(e) : -ENOSPC;
	if (ret) {
		av_inbound_pause();
		remove_endpoint(e);
		av_own_fd_close(&e->socket);
		av_inbound_resume();
	}
	return ret;
}

/* @made: out. Return: 0 or -errno */
static int new_endpoint(enum av_endpoint_kind kind, const uint8_t address[16], uint32_t ifindex,
			struct av_endpoint **made)
{
	struct av_endpoint *e = calloc(1, sizeof(*e));
	int ret;

	if (!e)
		return -ENOMEM;
	e->kind = kind;
	e->ifindex = ifindex;
	e->users = 1;
	e->group = -1;
	memcpy(e->address, address, sizeof(e->address));
	ret = open_endpoint(e);
	if (ret == 0)
		*made = e;
	else
		free(e);
	return ret;
}

static void close_endpoint(struct av_endpoint *e)
{
	av_inbound_pause();
	remove_endpoint(e);
	av_socket_close(e);
	av_inbound_resume();
	free(e);
	av_inbound_wake();
}

/* One more user of it. @ifindex: of the address. Return: 0 or -errno */
static int acquire_endpoint(enum av_endpoint_kind kind, const uint8_t address[16], uint32_t ifindex)
{
	struct av_endpoint *e = av_endpoint_find(kind, address, ifindex);

	if (!e)
		return new_endpoint(kind, address, ifindex, &e);
	e->users++;
	return 0;
}

/* Return: true: it had this user, and no longer has any */
static bool unuse(struct av_endpoint *e)
{
	return e && --e->users == 0;
}

/* --- interfaces ------------------------------------------------------------------- */

/*
 * The interface that has an address, in this thread's network namespace. The whole of 127.0.0.0/8
 * is the loopback interface's, which names one address of it. Return: 0. -EADDRNOTAVAIL: no
 * interface has it; -EMFILE, -ENFILE, -ENOMEM; ...
 */
static int find_interface(const uint8_t address[16], uint32_t *ifindex)
{
	bool loopback = av_net_is_v4(address) && address[12] == 127;
	struct ifaddrs *all;
	uint8_t gid[16];
	int err;

	if (getifaddrs(&all))
		return -errno;
	*ifindex = 0;
	errno = EADDRNOTAVAIL; /* if_nametoindex() says otherwise */
	for (const struct ifaddrs *i = all; i && !*ifindex; i = i->ifa_next)
		if ((loopback && i->ifa_flags & IFF_LOOPBACK) ||
		    (av_net_gid_of(i->ifa_addr, gid) && memcmp(gid, address, sizeof(gid)) == 0))
			*ifindex = if_nametoindex(i->ifa_name);
	err = errno;
	freeifaddrs(all);
	return *ifindex ? 0 : -err;
}

/* --- addresses -------------------------------------------------------------------- */

/* Without it, misrouted packets are lost. */
static void begin_passing(void)
{
	static const uint8_t none[16];
	int err = new_endpoint(AV_ENDPOINT_PASSED, none, 0, &passed);

	if (err == 0)
		av_inbound_wake();
	else
		av_log(AV_LOG_INFO, "no socket for packets that are passed on: %s",
		       strerrordesc_np(-err));
}

/* What is there from the first opening to the last. Return: 0 or -errno */
static int begin_all(void)
{
	int ret = -av_fork_register(AV_FORK_NET, &fork_handlers);

	av_own_fd_guard();
	if (ret == 0)
		ret = av_inbound_begin();
	if (ret == 0)
		begin_passing();
	return ret;
}

static void end_all(void)
{
	struct av_endpoint *e = passed;

	av_inbound_end();
	av_net_icmp_end();
	passed = NULL;
	if (e)
		close_endpoint(e);
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
	int ret = e ? 0 : find_interface(address, &ifindex);

	if (ret == 0)
		ret = begin_opening();
	if (ret)
		return ret;
	ret = acquire_endpoint(AV_ENDPOINT_ADDRESS, address, ifindex);
	if (ret == 0 && !e)
		av_inbound_wake();
	else
		end_opening();
	return ret;
}

static void count_polled(int users)
{
	polled += (unsigned int)users;
	atomic_store(&av_net_is_open, polled > 0);
}

int av_net_open(const uint8_t address[16], bool polls)
{
	CHANGING;
	int ret = open_net_address(address);

	if (ret == 0 && polls)
		count_polled(1);
	return ret;
}

void av_net_close(const uint8_t address[16], bool polls, void (*quiet)(void))
{
	CHANGING;
	struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_ADDRESS, address, 0);

	if (e && polls)
		count_polled(-1);
	if (!unuse(e))
		return;
	if (quiet) { /* nobody finds it any more, and who has found it ends what it does there */
		remove_endpoint(e);
		pthread_mutex_unlock(&mutex);
		quiet();
		pthread_mutex_lock(&mutex);
	}
	close_endpoint(e);
	end_opening();
}

bool av_net_has_moved(const uint8_t address[16])
{
	CHANGING;
	const struct av_endpoint *e = av_endpoint_find(AV_ENDPOINT_ADDRESS, address, 0);
	uint32_t ifindex;

	return e && find_interface(address, &ifindex) == 0 && ifindex != e->ifindex;
}

int av_net_hold(void)
{
	CHANGING;
	return begin_opening();
}

void av_net_release(void)
{
	CHANGING;
	end_opening();
}

int av_net_own(const uint8_t address[16], uint32_t qpn)
{
	struct av_endpoint *e[AV_ENDPOINTS];

	if (av_reuseport_owner(qpn) == av_lock_self)
		return 0;
	CHANGING;
	return av_group_own(qpn, e, all_endpoints(e));
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

/* A bound socket receives no groups: each group has its own, shared by an interface's addresses. */
int av_net_join(const uint8_t address[16], const uint8_t group[16])
{
	CHANGING;
	uint32_t ifindex = interface_of(address, group);
	int ret = ifindex ? acquire_endpoint(AV_ENDPOINT_GROUP, group, ifindex) : -EADDRNOTAVAIL;

	if (ret == 0)
		av_inbound_wake();
	return ret;
}

void av_net_leave(const uint8_t address[16], const uint8_t group[16])
{
	CHANGING;
	uint32_t ifindex = interface_of(address, group);
	struct av_endpoint *e =
		ifindex ? av_endpoint_find(AV_ENDPOINT_GROUP, group, ifindex) : NULL;

	if (unuse(e))
		close_endpoint(e);
}
