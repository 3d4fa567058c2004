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
#include "segment/fault_rules.h"

#define KEPT_MAX 64
#define KEPT_NS	 1000000u /* how long a message waits for others */

/* The rules of a device. Used by who receives alone. */
struct rules {
	SLIST_ENTRY(rules) entry;
	const struct av_device *dev;
	struct av_faults faults;
};

static SLIST_HEAD(, rules) all_rules = SLIST_HEAD_INITIALIZER(all_rules);

/* A message that waits. Guarded by the lock. */
struct kept {
	STAILQ_ENTRY(kept) entry;
	struct av_net_path path;
	struct av_cm_message m;
	uint32_t times;	   /* that it comes */
	uint32_t left;	   /* messages that go before it; UINT32_MAX: time alone counts */
	uint64_t until_ns; /* it goes on without them */
};

static STAILQ_HEAD(, kept) kept = STAILQ_HEAD_INITIALIZER(kept);
static unsigned int kept_count;

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

/* Without memory, or with too many that wait already, it does not wait. */
static bool keep(const struct av_net_path *path, const struct av_cm_message *m,
		 const struct av_faults_verdict *v)
{
	struct kept *k = kept_count < KEPT_MAX ? malloc(sizeof(*k)) : NULL;

	if (!k)
		return false;
	k->path = *path;
	k->m = *m;
	k->times = v->times;
	k->left = v->delay_ns ? UINT32_MAX : v->after;
	k->until_ns = av_now_ns() + (v->delay_ns ? v->delay_ns : KEPT_NS);
	STAILQ_INSERT_TAIL(&kept, k, entry);
	kept_count++;
	av_cm_wake(k->until_ns);
	return true;
}

static void overtake(void)
{
	struct kept *k;

	STAILQ_FOREACH(k, &kept, entry)
		if (k->left != UINT32_MAX)
			k->left -= k->left > 0;
}

static struct kept *next_to_go(uint64_t now_ns)
{
	struct kept *k;

	STAILQ_FOREACH(k, &kept, entry)
		if (k->left == 0 || k->until_ns <= now_ns)
			break;
	if (k) {
		STAILQ_REMOVE(&kept, k, kept, entry);
		kept_count--;
	}
	return k;
}

static void come(const struct av_net_path *path, const struct av_cm_message *m, uint32_t times)
{
	for (uint32_t i = 0; i < times; i++)
		av_cm_arrived(path, m);
}

static void let_go(void)
{
	uint64_t now_ns = av_now_ns();
	struct kept *k;

	do {
		av_cm_lock();
		k = next_to_go(now_ns);
		av_cm_unlock();
		if (k)
			come(&k->path, &k->m, k->times);
		free(k);
	} while (k);
}

uint64_t av_cm_faults_look(void)
{
	uint64_t next = UINT64_MAX;
	const struct kept *k;

	let_go();
	av_cm_lock();
	STAILQ_FOREACH(k, &kept, entry)
		if (k->until_ns < next)
			next = k->until_ns;
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
		overtake();
	av_cm_unlock();
	if (!waits)
		come(path, m, v.times);
	let_go();
}

/* --- the end --------------------------------------------------------------------------- */

void av_cm_faults_end(void)
{
	struct kept *k;

	av_cm_lock();
	while ((k = next_to_go(UINT64_MAX)))
		free(k);
	av_cm_unlock();
}

void av_cm_faults_forked(void)
{
	SLIST_INIT(&all_rules);
	STAILQ_INIT(&kept);
	kept_count = 0;
}
