/* SPDX-License-Identifier: MIT */
#include "cm/cm.h"

#include "base/thread.h"
#include "copy/copy.h"
#include "segment/pages.h"
#include "transport/transport.h"
#include "transport/wire_qp.h"
#include "wire/address.h"

struct attended {
	uint8_t address[16];
	uint64_t netns; /* of the thread that wanted it */
	bool open;	/* else it has moved, and is not there yet */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static struct attended attended[AV_GID_MAX];
static unsigned int attended_count;
static bool all; /* those that come, too */

/* --- messages at an address ------------------------------------------------------------ */

/* Whoever sends holds the lock. */
static void await_senders(void)
{
	av_cm_lock();
	av_cm_unlock();
}

static void leave_alone(struct attended *a)
{
	if (a->open)
		av_net_close(a->address, false, await_senders);
	a->open = false;
}

/* One that the host has no more is left alone. While there is room it is not: it may come back. */
static void drop_foreign_address(void)
{
	unsigned int i = 0;

	while (i < attended_count && av_cm_is_own(attended[i].address))
		i++;
	if (i == attended_count)
		return;
	leave_alone(&attended[i]);
	attended[i] = attended[--attended_count];
}

static struct attended *find_attended(const uint8_t address[16])
{
	for (unsigned int i = 0; i < attended_count; i++)
		if (memcmp(attended[i].address, address, 16) == 0)
			return &attended[i];
	return NULL;
}

static int open_one(struct attended *a)
{
	int ret = a->open ? 0 : av_net_open(a->address, false);

	a->open = ret == 0;
	return ret;
}

/* Return: 0 or -errno */
static int attend(const uint8_t address[16])
{
	struct attended *a = find_attended(address);
	int ret;

	if (a)
		return open_one(a);
	if (attended_count == AV_GID_MAX)
		drop_foreign_address();
	if (attended_count == AV_GID_MAX)
		return -ENOSPC;
	a = &attended[attended_count];
	*a = (struct attended){.netns = av_netns_of_thread()};
	memcpy(a->address, address, sizeof(a->address));
	ret = open_one(a);
	attended_count += ret == 0;
	return ret;
}

/* An interface that is made anew needs another socket. Its address may come a moment later. */
static void attend_moved(void)
{
	uint64_t netns = av_netns_of_thread();

	for (unsigned int i = 0; i < attended_count; i++) {
		struct attended *a = &attended[i];

		if (a->netns != netns)
			continue;
		if (a->open && av_net_has_moved(a->address))
			leave_alone(a);
		(void)!open_one(a);
	}
}

/* Return: 0 or -errno */
static int attend_one(const uint8_t address[16])
{
	int ret;

	if (!av_wire_is_allowed())
		return -EOPNOTSUPP;
	pthread_mutex_lock(&mutex);
	ret = attend(address);
	pthread_mutex_unlock(&mutex);
	if (ret)
		av_net_warn(address, ret);
	return ret;
}

/* --- at all addresses ------------------------------------------------------------------ */

static void attend_devices(void)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int count, rows;
	struct av_device *const *devices = av_devices(&count);

	for (unsigned int d = 0; d < count && av_wire_is_allowed(); d++) {
		rows = av_port_gids(devices[d], gids);
		for (unsigned int i = 0; i < rows; i++)
			if (av_gid_there(gids, rows, i) && gids[i].type == IBV_GID_TYPE_ROCE_V2)
				(void)!attend_one(gids[i].gid.raw);
	}
}

/* Those that come meanwhile are not missed: they are news. */
int av_cm_attend(const uint8_t *address)
{
	if (address)
		return attend_one(address);
	pthread_mutex_lock(&mutex);
	all = true;
	pthread_mutex_unlock(&mutex);
	attend_devices();
	return 0;
}

/*
 * The host has changed: attend what has come, if all are, and what has come to another interface.
 * An address stays at its old one while a queue pair uses it. Context: the thread, not locked
 */
static void cm_attend_new(void)
{
	bool wanted;

	pthread_mutex_lock(&mutex);
	attend_moved();
	wanted = all;
	pthread_mutex_unlock(&mutex);
	if (wanted)
		attend_devices();
}

/* --- at none any more ------------------------------------------------------------------ */

/* Context: not locked */
static void cm_attend_end(void)
{
	AV_LOCKED(&mutex);
	all = false;
	while (attended_count)
		leave_alone(&attended[--attended_count]);
}

static void cm_attend_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	all = false;
	attended_count = 0;
}

/* --- the host's changes --------------------------------------------------------------------- */

static struct av_watch_fd host = {.socket.fd = -1};
static _Atomic bool news;
static uint64_t host_netns; /* network namespace; 0: none, for want of netlink */

/* The interface that was asked last in that namespace. Guarded by the lock. */
static struct {
	uint32_t ifindex; /* 0: none since the host has changed */
	uint8_t hardware[AV_HARDWARE_BYTES];
} asked;

/* In the watcher's thread, which opens no sockets: the other one does what follows. */
static void handle_port_change(struct av_watch_fd *w)
{
	if (!av_port_watch_heard(w->socket.fd))
		return;
	atomic_store(&news, true);
	av_cm_lock();
	asked.ifindex = 0;
	av_cm_wake(0);
	av_cm_unlock();
}

void av_cm_host_begin(void)
{
	asked.ifindex = 0;
	host_netns = 0;
	host.ready = handle_port_change;
	if (av_port_watch_open(&host.socket)) {
		host_netns = av_netns_of_thread();
		av_watch_begin(&host);
	}
}

static void host_forked(void)
{
	av_own_fd_close(&host.socket);
	atomic_store(&news, false);
}

static void host_end(void)
{
	av_watch_end(&host);
	host_forked();
}

static void host_hardware(uint64_t netns, uint32_t ifindex, uint8_t address[AV_HARDWARE_BYTES])
{
	if (netns != host_netns) {
		av_gid_interface_hardware(ifindex, address);
		return;
	}
	if (asked.ifindex != ifindex)
		av_gid_interface_hardware(ifindex, asked.hardware);
	asked.ifindex = ifindex;
	memcpy(address, asked.hardware, AV_HARDWARE_BYTES);
}

void av_cm_since(struct av_cm_where *where)
{
	where->since.failures = av_dir_failures();
	where->since.netns = av_netns_of_thread();
	host_hardware(where->since.netns, where->ifindex, where->since.hardware);
}

/* --- an interface with another address --------------------------------------------------- */

static bool is_known(const uint8_t hardware[AV_HARDWARE_BYTES])
{
	static const uint8_t unknown[AV_HARDWARE_BYTES];

	return memcmp(hardware, unknown, AV_HARDWARE_BYTES) != 0;
}

/*
 * Append RDMA_CM_EVENT_ADDR_CHANGE if the id's interface has another hardware address than it
 * knows. @arg: this thread's network namespace, which is the interface's. Context: asks the host
 */
static void compare(uint32_t number, void *object, void *arg)
{
	struct av_cm_id *id = object;
	struct av_cm_since *since = &id->where.since;
	uint8_t now[AV_HARDWARE_BYTES];
	bool known = is_known(since->hardware);

	if (!id->where.dev || since->netns != *(uint64_t *)arg)
		return;
	host_hardware(since->netns, id->where.ifindex, now);
	if (!is_known(now) || memcmp(since->hardware, now, AV_HARDWARE_BYTES) == 0)
		return;
	memcpy(since->hardware, now, AV_HARDWARE_BYTES);
	if (known)
		av_cm_id_heard(id, AV_CM_EVENT_ADDR_CHANGE, 0, NULL);
}

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; /* guards whether the thread runs */
static bool running;					 /* the thread */
static unsigned int channels;				 /* of this process; guarded by the lock */

/* The thread is not here, and channels, ids and connections are the parent's. */
static void reset_cm_in_child(void)
{
	pthread_mutex_init(&life, NULL);
	av_exit_mutex_forked(&av_cm_mutex);
	running = false;
	channels = 0;
	av_cm_channels_forked();
	av_cm_ids_forked();
	av_cm_conns_forked();
	cm_attend_forked();
	host_forked();
	av_cm_mads_forked();
}

static const struct av_fork_handlers fork_handlers = {.mutex = &av_cm_mutex,
						      .child = reset_cm_in_child};

/* --- the thread ------------------------------------------------------------------------ */

/* One channel less. Context: not locked */
static void cm_end(void)
{
	av_cm_lock();
	channels--;
	av_cm_wake(0);
	av_cm_unlock();
}

/* Channels that the program has closed end, with their ids. */
static void reap(void)
{
	struct av_cm_channel *c;
	struct av_cm_id *id;

	for (;;) {
		av_cm_lock();
		c = av_cm_channel_closed();
		while (c && (id = TAILQ_FIRST(&c->ids)))
			av_cm_id_destroy(id);
		av_cm_unlock();
		if (!c)
			return;
		av_cm_channel_end(c);
		cm_end();
	}
}

static void leave_others(void)
{
	host_end();
	cm_attend_end();
	av_cm_mads_end();
	av_net_release();
	av_dir_leave();
}

static bool is_needed(void)
{
	return channels > 0 || av_cm_conns_there();
}

/* Return: false: nobody seems to need the thread any more */
static bool sleep_cm_thread(void)
{
	bool needed;

	av_cm_lock();
	av_cm_sleep();
	needed = is_needed();
	av_cm_unlock();
	return needed;
}

/* What the next one begins is not to end with this one. Return: false: it is needed after all */
static bool stop_idle_cm(void)
{
	bool needed;

	AV_LOCKED(&life);
	av_cm_lock();
	running = needed = is_needed();
	av_cm_unlock();
	if (!needed)
		leave_others();
	return !needed;
}

static void follow_host(void)
{
	uint64_t netns = av_netns_of_thread();

	cm_attend_new();
	av_cm_lock();
	av_cm_ids_each(compare, &netns);
	av_cm_unlock();
}

void av_cm_look(void)
{
	uint64_t now_ns;

	reap();
	if (atomic_exchange(&news, false))
		follow_host();
	now_ns = av_now_ns();
	av_cm_mads_look(now_ns);
	av_cm_lock();
	av_cm_conns_look(now_ns);
	av_cm_unlock();
}

static void *thread_main(void *arg)
{
	while (sleep_cm_thread() || !stop_idle_cm())
		av_cm_look();
	return NULL;
}

/* --- begin and end --------------------------------------------------------------------- */

int av_cm_prepare(void)
{
	int ret = -av_fork_register(AV_FORK_CM, &fork_handlers);

	if (ret)
		return ret;
	av_net_receive_by(&av_wire_receiver);
	av_net_manage_by(&av_cm_manager);
	return 0;
}

/* Return: 0 or -errno */
static int join_others(void)
{
	int ret = av_cm_prepare();

	if (ret == 0)
		ret = av_copy_init();
	if (ret == 0)
		ret = av_dir_join(av_totals_of_context);
	if (ret)
		return ret;
	av_diag_begin();
	ret = av_net_hold();
	if (ret)
		av_dir_leave();
	else
		av_cm_host_begin();
	return ret;
}

/* Return: 0 or -errno */
static int start_cm_thread(void)
{
	struct av_thread *thread;
	int ret;

	av_cm_alarm_begin(); /* first: others' threads may wake it */
	ret = join_others();
	if (ret)
		return ret;
	ret = -av_thread_start(&thread, "anyverbs-cm", thread_main, NULL);
	running = ret == 0;
	if (ret == 0)
		av_thread_leave(thread);
	else
		leave_others();
	return ret;
}

/*
 * One more channel. The first joins the directory, holds the socket for other processes' messages,
 * and runs the thread. Context: not locked. Return: 0 or -errno
 */
static int cm_begin(void)
{
	int ret;

	pthread_mutex_lock(&life);
	av_cm_lock();
	channels++;
	av_cm_unlock();
	ret = running ? 0 : start_cm_thread();
	pthread_mutex_unlock(&life);
	if (ret)
		cm_end();
	return ret;
}

/* Return: the program's descriptor, or -errno */
static int open_channel(int flags)
{
	AV_UNCANCELLED;
	int fd = cm_begin();

	if (fd)
		return fd;
	fd = av_cm_channel_new(flags);
	if (fd < 0)
		cm_end();
	return fd;
}

int av_cm_open(int flags)
{
	int saved = errno, fd = open_channel(flags);

	errno = fd < 0 ? -fd : saved;
	return fd < 0 ? -1 : fd;
}

void av_cm_exit(void)
{
	if (!av_exit_lock(&av_cm_mutex))
		return;
	av_cm_conns_exit();
	av_cm_unlock();
}
