/* SPDX-License-Identifier: MIT */
#include "cm/cm.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/lock.h"
#include "base/thread.h"
#include "cm/channel.h"
#include "cm/cm_address.h"
#include "cm/cm_attend.h"
#include "cm/cm_lock.h"
#include "cm/cm_mad.h"
#include "cm/conn.h"
#include "cm/id.h"
#include "copy/copy.h"
#include "device/port.h"
#include "net/net.h"
#include "observe/diagnosis.h"
#include "registry/directory.h"
#include "segment/segment_view.h"

static int cm_begin(void);

static void cm_end(void);

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

bool av_cm_is_channel(int fd, uint32_t *number)
{
	return av_cm_channel_is(fd, number);
}

/* --- a device that is gone --------------------------------------------------------------- */

/* A failure, and of which device. */
struct failure {
	const char *device;
	size_t name_bytes;
	uint32_t number; /* of av_dir_failures() */
};

static void remove_before(struct av_cm_id *id, void *arg)
{
	const struct failure *f = arg;

	if ((int32_t)(f->number - id->where.since.failures) > 0 &&
	    strncmp(id->where.dev->ibv.name, f->device, f->name_bytes) == 0)
		av_cm_id_remove(id);
}

void av_cm_device_called(struct av_seg *seg)
{
	struct failure f = {.device = seg->head->device,
			    .name_bytes = sizeof(seg->head->device),
			    .number = atomic_load(&seg->head->fatal)};

	if (!f.number)
		return;
	av_cm_lock();
	av_cm_ids_each(remove_before, &f);
	av_cm_unlock();
}

/* --- an interface with another address --------------------------------------------------- */

static bool is_known(const uint8_t hardware[AV_HARDWARE_BYTES])
{
	static const uint8_t unknown[AV_HARDWARE_BYTES];

	return memcmp(hardware, unknown, AV_HARDWARE_BYTES) != 0;
}

/* @arg: the network namespace of this thread */
static void compare(struct av_cm_id *id, void *arg)
{
	struct av_cm_since *since = &id->where.since;
	uint8_t now[AV_HARDWARE_BYTES];
	bool known = is_known(since->hardware);

	if (since->netns != *(uint64_t *)arg)
		return;
	av_cm_host_hardware(since->netns, id->where.ifindex, now);
	if (!is_known(now) || memcmp(since->hardware, now, AV_HARDWARE_BYTES) == 0)
		return;
	memcpy(since->hardware, now, AV_HARDWARE_BYTES);
	if (known)
		av_cm_id_heard(id, AV_CM_EVENT_ADDR_CHANGE, 0, NULL);
}

/*
 * Ids whose interface has another hardware address than they know hear RDMA_CM_EVENT_ADDR_CHANGE.
 * Only those of this thread's network namespace. Context: locked; asks the host
 */
static void cm_device_look(void)
{
	uint64_t netns = av_netns_of_thread();

	av_cm_ids_each(compare, &netns);
}

static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER; /* serialises cm_begin() */
static bool running;					 /* the thread; guarded by the lock */
static unsigned int channels;				 /* of this process; likewise */

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
	av_cm_attend_forked();
	av_cm_host_forked();
	av_cm_faults_forked();
}

static const struct av_fork_handlers fork_handlers = {.mutex = &av_cm_mutex,
						      .child = reset_cm_in_child};

/* --- the thread ------------------------------------------------------------------------ */

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
	av_cm_host_end();
	av_cm_attend_end();
	av_cm_faults_end();
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

	pthread_mutex_lock(&life);
	av_cm_lock();
	running = needed = is_needed();
	av_cm_unlock();
	if (!needed)
		leave_others();
	pthread_mutex_unlock(&life);
	return !needed;
}

static void follow_host(void)
{
	av_cm_attend_new();
	av_cm_lock();
	cm_device_look();
	av_cm_unlock();
}

void av_cm_look(void)
{
	uint64_t kept;

	reap();
	if (av_cm_host_has_changed())
		follow_host();
	kept = av_cm_faults_look();
	av_cm_lock();
	av_cm_wake(kept);
	av_cm_wake(av_cm_conns_look(av_now_ns()));
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

	if (ret == 0)
		av_cm_mads_begin(av_cm_faults_arrived);
	return ret;
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

/* Count a channel, and the thread with the first one. Return: 0 or -errno */
static int start_cm_thread(void)
{
	struct av_thread *thread;
	int ret;

	av_cm_alarm_begin();
	av_cm_lock();
	running = true;
	channels = 1;
	av_cm_unlock();
	ret = -av_thread_start(&thread, "anyverbs-cm", thread_main, NULL);
	if (ret == 0) {
		av_thread_leave(thread);
		return 0;
	}
	av_cm_lock();
	running = false;
	channels = 0;
	av_cm_unlock();
	return ret;
}

static bool is_running(void)
{
	bool ret;

	av_cm_lock();
	ret = running;
	channels += ret;
	av_cm_unlock();
	return ret;
}

/*
 * One more or one less channel: joins the directory, holds the socket for messages of other
 * processes, and runs the thread. Context: not locked. Return: 0 or -errno
 */
static int cm_begin(void)
{
	int ret = 0;

	pthread_mutex_lock(&life);
	if (!is_running()) {
		ret = join_others();
		if (ret == 0) {
			ret = start_cm_thread();
			if (ret)
				leave_others();
		}
	}
	pthread_mutex_unlock(&life);
	return ret;
}

static void cm_end(void)
{
	av_cm_lock();
	channels--;
	av_cm_wake(0);
	av_cm_unlock();
}

void av_cm_exit(void)
{
	if (!av_cm_exit_lock())
		return;
	av_cm_conns_exit();
	av_cm_unlock();
}
