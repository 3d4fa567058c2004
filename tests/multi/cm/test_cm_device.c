/* SPDX-License-Identifier: MIT */
/*
 * What happens to the device and to the interface of ids, in each state that they can be in: who
 * hears of it, and how often. Also beside threads that make and destroy ids, while another one
 * waits for events.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "cm_fixture.h"
#include "lib/expect.h"
#include "lib/node.h"
#include "lib/tool.h"
#include "lib/two_hosts.h"
#include "lib/wait.h"

#define OWN	   "192.0.2.1"
#define KINDS	   (CM_TIMEWAIT_EXIT + 1)
#define THREADS	   3
#define ROUNDS	   10u
#define IDS	   (1u << 20) /* that the threads may make */
#define FIRST_PORT 7174

static struct party server;
static struct sockaddr_in server_at;
static int fd; /* the channel here */

static void run(const char *command)
{
	if (system(command) != 0)
		DIE("%s", command);
}

static int open_channel(void)
{
	int channel = cm_open(O_CLOEXEC);

	NEED(channel >= 0);
	return channel;
}

static void hear(enum cm_kind kind)
{
	struct rdma_ucm_event_resp e;
	int ret = cm_expect(fd, SOON, kind, &e);

	if (ret)
		DIE("event %d wanted: %d, event %u", kind, ret, e.event);
}

/* --- ids in each state ------------------------------------------------------------------- */

static void bind_to(uint32_t id, const char *address)
{
	const struct sockaddr_in at = cm_address(address, 0);

	NEED(cm_bind(fd, id, &at) == 0);
}

static void idle(uint32_t id)
{
}

static void bound(uint32_t id)
{
	bind_to(id, OWN);
}

static void bound_to_loopback(uint32_t id)
{
	bind_to(id, "127.0.0.1");
}

static void listens(uint32_t id)
{
	bound(id);
	NEED(cm_listen(fd, id, 0) == 0);
}

static void listens_at_all(uint32_t id)
{
	bind_to(id, "0.0.0.0");
	NEED(cm_listen(fd, id, 0) == 0);
}

static void resolved(uint32_t id)
{
	NEED(cm_resolve(fd, id, &server_at) == 0);
	hear(CM_ADDR_RESOLVED);
}

static void bound_and_resolved(uint32_t id)
{
	bound(id);
	resolved(id);
}

static void routed(uint32_t id)
{
	resolved(id);
	NEED(cm_resolve_route(fd, id) == 0);
	hear(CM_ROUTE_RESOLVED);
}

/* Return: the server's id */
static uint32_t request(uint32_t id)
{
	routed(id);
	NEED(cm_connect(fd, id, "", 0) == 0);
	return party_hear(&server, CM_CONNECT_REQUEST).id;
}

static void requests(uint32_t id)
{
	(void)request(id);
}

static void answered(uint32_t id)
{
	EXPECT(party_tell(&server, DO_ACCEPT, request(id)) == 0, "not accepted");
	hear(CM_CONNECT_RESPONSE);
}

static void connected(uint32_t id)
{
	answered(id);
	NEED(cm_ready(fd, id) == 0);
	(void)party_hear(&server, CM_ESTABLISHED);
}

static void refused(uint32_t id)
{
	EXPECT(party_tell(&server, DO_REJECT, request(id)) == 0, "not refused");
	hear(CM_REJECTED);
}

static const struct state {
	const char *name;
	void (*come_to)(uint32_t id);
	bool has_device;
	enum cm_kind server_hears; /* of the end; CM_TIMEWAIT_EXIT: nothing */
} states[] = {
	{"idle", idle, false, CM_TIMEWAIT_EXIT},
	{"bound", bound, true, CM_TIMEWAIT_EXIT},
	{"bound to loopback", bound_to_loopback, false, CM_TIMEWAIT_EXIT},
	{"listens", listens, true, CM_TIMEWAIT_EXIT},
	{"listens at all addresses", listens_at_all, false, CM_TIMEWAIT_EXIT},
	{"resolved", resolved, true, CM_TIMEWAIT_EXIT},
	{"bound and resolved", bound_and_resolved, true, CM_TIMEWAIT_EXIT},
	{"routed", routed, true, CM_TIMEWAIT_EXIT},
	{"requests", requests, true, CM_TIMEWAIT_EXIT},
	{"answered", answered, true, CM_REJECTED},
	{"connected", connected, true, CM_DISCONNECTED},
	{"refused", refused, true, CM_TIMEWAIT_EXIT},
};
#define STATES COUNT_OF(states)

static uint32_t ids[STATES];
static unsigned int count[STATES][KINDS]; /* events heard; an id's uid is its state + 1 */

static void make_all(void)
{
	memset(count, 0, sizeof(count));
	for (size_t i = 0; i < STATES; i++) {
		row("%s", states[i].name);
		NEED(cm_create(fd, i + 1, RDMA_PS_TCP, &ids[i]) == 0);
		states[i].come_to(ids[i]);
	}
}

static void destroy_all(void)
{
	for (size_t i = 0; i < STATES; i++)
		EXPECT(cm_destroy(fd, ids[i]) >= 0, "%s: cannot be destroyed", states[i].name);
}

/* Fetch what there is. Return: have all that have a device heard that so often? */
static bool have_heard(enum cm_kind kind, unsigned int times)
{
	struct rdma_ucm_event_resp e;

	while (cm_pending(fd)) {
		NEED(cm_next(fd, &e) == 0 && e.uid - 1 < STATES && e.event < KINDS);
		count[e.uid - 1][e.event]++;
	}
	for (size_t i = 0; i < STATES; i++)
		if (states[i].has_device && count[i][kind] < times)
			return false;
	return true;
}

static void expect_heard(enum cm_kind kind, unsigned int times)
{
	(void)WAIT_UNTIL(have_heard(kind, times), SOON);
	for (size_t i = 0; i < STATES; i++)
		EXPECT(count[i][kind] == (states[i].has_device ? times : 0),
		       "%s: %u events of kind %d", states[i].name, count[i][kind], kind);
}

/*
 * What the server hears of the end of all, in any order. Where it was slow to refuse, it may have
 * been asked again meanwhile: a request like any other, which nobody answers.
 */
static void expect_server_hears(void)
{
	unsigned int wanted[KINDS] = {0};
	const struct order o = {.what = DO_HEAR_ANY};

	for (size_t i = 0; i < STATES; i++)
		wanted[states[i].server_hears]++;
	wanted[CM_TIMEWAIT_EXIT] = 0;
	for (unsigned int left = wanted[CM_REJECTED] + wanted[CM_DISCONNECTED]; left; left--) {
		struct outcome out;

		while ((out = party_do(&server, &o)).ret == 0 &&
		       out.event.event == CM_CONNECT_REQUEST)
			(void)party_tell(&server, DO_DESTROY, out.event.id);
		if (!EXPECT(out.ret == 0 && wanted[out.event.event], "the server: %d, event %u",
			    out.ret, out.event.event))
			return;
		wanted[out.event.event]--;
		(void)party_tell(&server, DO_DESTROY, out.event.id);
	}
}

/* --- the interface ----------------------------------------------------------------------- */

#define HARDWARE(n) "ip link set dev v0 address 02:00:00:00:00:0" #n

/* What must not be heard of would be heard before the next. */
static const struct change {
	const char *name, *command;
	bool is_heard;
} changes[] = {
	{"another hardware address", HARDWARE(1), true},
	{"another MTU", "ip link set dev v0 mtu 1500", false},
	{"one more address of IP", "ip addr add 192.0.2.77/24 dev v0", false},
	{"down and up", "ip link set v0 down && ip link set v0 up", false},
	{"another interface", "ip link add w0 type veth peer name w1", false},
	{"its hardware address", "ip link set dev w0 address 02:00:00:00:00:09", false},
	{"the same hardware address", HARDWARE(1), false},
	{"the next hardware address", HARDWARE(2), true},
	{"the first one again", HARDWARE(1), true},
};

static void interface_changes(void)
{
	unsigned int times = 0;

	make_all();
	for (size_t i = 0; i < COUNT_OF(changes); i++) {
		row("%s", changes[i].name);
		run(changes[i].command);
		times += changes[i].is_heard;
		expect_heard(CM_ADDR_CHANGE, times);
	}
	destroy_all();
	expect_server_hears();
}

/* --- the device -------------------------------------------------------------------------- */

static const struct loss {
	const char *name, *words[4];
} losses[] = {
	{"the device fails", {"event", "any0", "device-fatal", NULL}},
	{"the device is reset", {"reset", "-d", "any0", "--force"}},
};

static void lose_device(const struct loss *l)
{
	NEED(tool_run(ANYVERBS_TOOL, l->words[0], l->words[1], l->words[2], l->words[3], NULL) ==
	     0);
}

static void commands_fail(void)
{
	for (size_t i = 0; i < STATES; i++) {
		int ret = cm_disconnect(fd, ids[i]);

		EXPECT(ret == (states[i].has_device ? -ENXIO : -EINVAL), "%s: %d", states[i].name,
		       ret);
	}
}

static void device_goes(const struct loss *l)
{
	struct ibv_context *ctx = node_open_device();

	make_all();
	row("%s", l->name);
	lose_device(l);
	expect_heard(CM_DEVICE_REMOVAL, 1);
	commands_fail();
	expect_server_hears();
	destroy_all();

	row("%s, and is there again", l->name);
	make_all();
	expect_heard(CM_DEVICE_REMOVAL, 0);
	destroy_all();
	expect_server_hears();
	NEED(ibv_close_device(ctx) == 0);
}

/* --- beside threads ---------------------------------------------------------------------- */

static struct ibv_context *open_one;

static void open_it(void)
{
	open_one = node_open_device();
}

static void close_it(void)
{
	NEED(ibv_close_device(open_one) == 0);
}

static void fail_it(unsigned int unused)
{
	lose_device(&losses[0]);
}

static void nothing(void)
{
}

static void readdress(unsigned int round)
{
	run(round & 1 ? HARDWARE(1) : HARDWARE(2));
}

static const struct strike {
	const char *name;
	enum cm_kind kind;
	void (*begin)(void), (*strike)(unsigned int round), (*end)(void);
} strikes[] = {
	{"the device fails beside threads", CM_DEVICE_REMOVAL, open_it, fail_it, close_it},
	{"the interface changes beside threads", CM_ADDR_CHANGE, nothing, readdress, nothing},
};

static struct {
	const struct strike *strike;
	_Atomic bool done;
	_Atomic uint64_t last_uid, stop_uid;
	_Atomic uint32_t heard[IDS], struck[IDS]; /* by uid: all events, those of the strike */
	uint32_t reported[IDS];			  /* as its end says; by whoever has ended it */
} threads;

/* Waits for each event until the last one. */
static void *fetch(void *unused)
{
	struct rdma_ucm_event_resp e;

	do {
		NEED(cm_next(fd, &e) == 0 && e.uid < IDS);
		atomic_fetch_add(&threads.heard[e.uid], 1);
		if (e.event == threads.strike->kind)
			atomic_fetch_add(&threads.struck[e.uid], 1);
	} while (e.uid != atomic_load(&threads.stop_uid));
	return NULL;
}

static uint32_t new_id(uint64_t *uid)
{
	uint32_t id;

	*uid = atomic_fetch_add(&threads.last_uid, 1) + 1;
	NEED(*uid < IDS);
	NEED(cm_create(fd, *uid, RDMA_PS_TCP, &id) == 0);
	return id;
}

static void end_id(uint32_t id, uint64_t uid)
{
	int ret = cm_destroy(fd, id);

	NEED(ret >= 0);
	threads.reported[uid] = (uint32_t)ret;
}

static void *make_and_destroy(void *unused)
{
	while (!atomic_load(&threads.done)) {
		uint64_t uid;
		uint32_t id = new_id(&uid);
		int ret;

		bound(id);
		ret = cm_resolve(fd, id, &server_at);
		NEED(ret == 0 || (ret == -ENXIO && threads.strike->kind == CM_DEVICE_REMOVAL));
		wait_moment();
		end_id(id, uid);
	}
	return NULL;
}

static void strike_once(unsigned int round)
{
	const struct strike *s = threads.strike;
	uint64_t uid;
	uint32_t id = new_id(&uid);

	bound(id);
	s->begin();
	s->strike(round);
	EXPECT(WAIT_UNTIL(atomic_load(&threads.struck[uid]), SOON), "round %u: not heard", round);
	s->end();
	end_id(id, uid);
	EXPECT(atomic_load(&threads.struck[uid]) == 1, "round %u: heard %u times", round,
	       atomic_load(&threads.struck[uid]));
}

/* The waiting thread ends with the event of an id that is made for that. */
static void stop_fetching(pthread_t fetcher)
{
	uint64_t uid;
	uint32_t id = new_id(&uid);

	atomic_store(&threads.stop_uid, uid);
	NEED(cm_resolve(fd, id, &server_at) == 0);
	NEED(pthread_join(fetcher, NULL) == 0);
	end_id(id, uid);
}

static void beside_threads(const struct strike *s)
{
	pthread_t makers[THREADS], fetcher;

	row("%s", s->name);
	memset(&threads, 0, sizeof(threads));
	threads.strike = s;
	NEED(pthread_create(&fetcher, NULL, fetch, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_create(&makers[i], NULL, make_and_destroy, NULL) == 0);
	for (unsigned int i = 0; i < ROUNDS; i++)
		strike_once(i);
	atomic_store(&threads.done, true);
	for (int i = 0; i < THREADS; i++)
		NEED(pthread_join(makers[i], NULL) == 0);
	stop_fetching(fetcher);
	for (uint64_t uid = 1; uid <= atomic_load(&threads.last_uid); uid++) {
		EXPECT(atomic_load(&threads.heard[uid]) == threads.reported[uid],
		       "%u events fetched, %u counted", atomic_load(&threads.heard[uid]),
		       threads.reported[uid]);
		if (s->kind == CM_DEVICE_REMOVAL)
			EXPECT(atomic_load(&threads.struck[uid]) <= 1, "gone %u times",
			       atomic_load(&threads.struck[uid]));
	}
}

int main(int argc, char **argv)
{
	struct order o = {.what = DO_LISTEN, .uid = 1, .at = cm_address("192.0.2.2", FIRST_PORT)};
	struct ibv_context *kept; /* so that no port is made beside threads that look at it */

	parties_main(argc, argv);
	two_hosts_open(argc, argv);
	time_limit(200);
	two_hosts_live(1);
	party_start(&server);
	EXPECT(party_do(&server, &o).ret == 0, "no listener");
	server_at = o.at;
	two_hosts_live(0);
	kept = node_open_device();
	fd = open_channel();
	interface_changes();
	for (size_t i = 0; i < COUNT_OF(losses); i++)
		device_goes(&losses[i]);
	for (size_t i = 0; i < COUNT_OF(strikes); i++)
		beside_threads(&strikes[i]);
	close(fd);
	NEED(ibv_close_device(kept) == 0);
	party_stop(&server);
	return summary();
}
