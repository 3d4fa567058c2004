/* SPDX-License-Identifier: MIT */
#include "cm/cm_attend.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "cm/cm_address.h"
#include "cm/cm_lock.h"
#include "cm/conn.h"
#include "device/device.h"
#include "device/port.h"
#include "net/address.h"
#include "net/net.h"
#include "observe/diagnosis.h"
#include "segment/observers.h"
#include "transport/wire_faults.h"

/* The rules of a device. Used by who receives alone. */
struct rules {
	SLIST_ENTRY(rules) entry;
	const struct av_device *dev;
	struct av_faults faults;
};

static SLIST_HEAD(, rules) all_rules = SLIST_HEAD_INITIALIZER(all_rules);

struct message {
	struct av_late late;
	struct av_net_path path;
	struct av_cm_message m;
};

static struct av_overtaken kept; /* messages; guarded by the lock */

/* --- deciding -------------------------------------------------------------------------- */

/* Return: NULL: there are none, or no memory */
static struct rules *rules_of(const struct av_device *dev)
{
	struct rules *r;

	if (!av_faults_there(dev->ibv.name))
		return NULL;
	SLIST_FOREACH(r, &all_rules, entry)
		if (r->dev == dev)
			break;
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return NULL;
		r->dev = dev;
		av_faults_init(&r->faults);
		SLIST_INSERT_HEAD(&all_rules, r, entry);
	}
	av_faults_refresh(&r->faults, dev->ibv.name);
	return r;
}

static struct av_faults_verdict judge_cm_arrival(const struct av_net_path *path,
						 const struct av_cm_message *m)
{
	struct av_faults_occasion o = {
		.kind = AV_FAULTS_MESSAGE, .now_ns = av_now_ns(), .attribute = m->attribute};
	struct av_faults_verdict v = {.times = 1};
	struct av_cm_where where;
	struct rules *r = NULL;

	if (av_cm_where_gid(path->src, &where))
		r = rules_of(where.dev);
	if (r)
		v = av_faults_arrival(&r->faults, r->dev->ibv.name, &o, 0);
	if (v.damaged)
		av_net_count(AV_NET_BAD_CRC, 1);
	return v;
}

/* --- waiting --------------------------------------------------------------------------- */

/* Return: false: it does not wait. Context: locked */
static bool defer_cm_message(const struct av_net_path *path, const struct av_cm_message *m,
			     const struct av_faults_verdict *v)
{
	struct message *k = av_overtaken_add(&kept, sizeof(*k), v, av_now_ns());

	if (!k)
		return false;
	k->path = *path;
	k->m = *m;
	av_cm_wake(k->late.until_ns);
	return true;
}

static void come(const struct av_net_path *path, const struct av_cm_message *m, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		av_cm_arrived(path, m);
}

static void deliver_deferred_cm(void)
{
	uint64_t now_ns = av_now_ns();
	struct message *k;

	do {
		av_cm_lock();
		k = av_overtaken_take(&kept, now_ns);
		av_cm_unlock();
		if (k)
			come(&k->path, &k->m, k->late.times);
		free(k);
	} while (k);
}

uint64_t av_cm_faults_look(void)
{
	uint64_t next;

	deliver_deferred_cm();
	av_cm_lock();
	next = av_overtaken_next(&kept);
	av_cm_unlock();
	return next;
}

void av_cm_faults_arrived(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_faults_verdict v = judge_cm_arrival(path, m);
	bool waits = false;

	if (v.lost)
		return;
	av_cm_lock();
	if (v.delay_ns || v.after)
		waits = defer_cm_message(path, m, &v);
	else
		av_overtaken_pass(&kept);
	av_cm_unlock();
	if (!waits)
		come(path, m, v.times);
	deliver_deferred_cm();
}

/* --- the end --------------------------------------------------------------------------- */

void av_cm_faults_end(void)
{
	void *k;

	av_cm_lock();
	while ((k = av_overtaken_take(&kept, UINT64_MAX)))
		free(k);
	av_cm_unlock();
}

void av_cm_faults_forked(void)
{
	SLIST_INIT(&all_rules);
	kept = (struct av_overtaken){0};
}

struct attended {
	uint8_t address[16];
	uint64_t netns; /* of the thread that wanted it */
	bool open;	/* else it has moved, and is not there yet */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static struct attended attended[AV_GID_MAX];
static unsigned int attended_count;
static bool all; /* those that come, too */

/* --- one ------------------------------------------------------------------------------- */

/* Whoever sends holds the lock. */
static void await_senders(void)
{
	av_cm_lock();
	av_cm_unlock();
}

static void leave_alone(struct attended *a)
{
	if (a->open)
		av_net_leave_alone(a->address, await_senders);
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

/* Return: 0 or -errno */
static int open_one(struct attended *a)
{
	int ret = a->open ? 0 : av_net_attend(a->address);

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

int av_cm_attend(const uint8_t address[16])
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

/* --- all ------------------------------------------------------------------------------- */

static void attend_rows(const struct av_device *dev)
{
	struct av_gid gids[AV_GID_MAX];
	unsigned int rows = av_port_gids(dev, gids);

	for (unsigned int i = 0; i < rows; i++)
		if (av_gid_there(gids, rows, i) && gids[i].type == IBV_GID_TYPE_ROCE_V2)
			(void)!av_cm_attend(gids[i].gid.raw);
}

static void attend_devices(void)
{
	unsigned int count;
	struct av_device *const *devices = av_devices(&count);

	for (unsigned int i = 0; i < count && av_wire_is_allowed(); i++)
		attend_rows(devices[i]);
}

/* Those that come meanwhile are not missed: they are news. */
void av_cm_attend_all(void)
{
	pthread_mutex_lock(&mutex);
	all = true;
	pthread_mutex_unlock(&mutex);
	attend_devices();
}

void av_cm_attend_new(void)
{
	bool wanted;

	pthread_mutex_lock(&mutex);
	attend_moved();
	wanted = all;
	pthread_mutex_unlock(&mutex);
	if (wanted)
		attend_devices();
}

/* --- none ------------------------------------------------------------------------------ */

void av_cm_attend_end(void)
{
	pthread_mutex_lock(&mutex);
	all = false;
	while (attended_count)
		leave_alone(&attended[--attended_count]);
	pthread_mutex_unlock(&mutex);
}

void av_cm_attend_forked(void)
{
	pthread_mutex_init(&mutex, NULL);
	all = false;
	attended_count = 0;
}
