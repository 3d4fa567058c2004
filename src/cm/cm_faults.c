/* SPDX-License-Identifier: MIT */
#include "cm/cm_faults.h"

#include <stdlib.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "cm/cm_address.h"
#include "cm/cm_lock.h"
#include "cm/conn.h"
#include "device/device.h"
#include "net/count.h"
#include "observe/overtaken.h"
#include "segment/fault_rules.h"

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

static struct av_faults_verdict decide(const struct av_net_path *path,
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
static bool keep(const struct av_net_path *path, const struct av_cm_message *m,
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

static void let_go(void)
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

	let_go();
	av_cm_lock();
	next = av_overtaken_next(&kept);
	av_cm_unlock();
	return next;
}

void av_cm_faults_arrived(const struct av_net_path *path, const struct av_cm_message *m)
{
	struct av_faults_verdict v = decide(path, m);
	bool waits = false;

	if (v.lost)
		return;
	av_cm_lock();
	if (v.delay_ns || v.after)
		waits = keep(path, m, &v);
	else
		av_overtaken_pass(&kept);
	av_cm_unlock();
	if (!waits)
		come(path, m, v.times);
	let_go();
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
