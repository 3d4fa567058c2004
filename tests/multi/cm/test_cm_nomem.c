/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of every command fails in its turn: the command says ENOMEM, nobody hears of it,
 * and it can be given again. A command that is carried out all the same has its event.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cm_fixture.h"
#include "lib/cm_command.h"
#include "lib/expect.h"
#include "lib/fail_alloc.h"
#include "lib/sandbox.h"
#include "lib/wait.h"

#define MOST	200u /* allocations of one command */
#define NOTHING UINT32_MAX

static int client, server;
static struct sockaddr_in at; /* of the listener */
static uint32_t id, passive;

/* Who asks the host for its addresses without memory finds none. */
static bool finds_none(int error)
{
	return error == -ENODEV;
}

static struct rdma_ucm_event_resp next(int fd, enum cm_kind kind)
{
	struct rdma_ucm_event_resp e = {0};
	int ret = cm_expect(fd, SOON, kind, &e);

	EXPECT(ret == 0, "event %d wanted: %d, event %u", kind, ret, e.event);
	return e;
}

/* --- what comes before the command ------------------------------------------------------------ */

static void open_both(uint16_t ps)
{
	uint32_t listener;

	client = cm_open(O_CLOEXEC);
	server = cm_open(O_CLOEXEC);
	NEED(client >= 0 && server >= 0);
	at = cm_address("127.0.0.1", 0);
	NEED(cm_create(server, 1, ps, &listener) == 0 && cm_bind(server, listener, &at) == 0);
	at = cm_source(server, listener);
	NEED(cm_listen(server, listener, 0) == 0);
	NEED(cm_create(client, 2, ps, &id) == 0);
}

static void idle(void)
{
	open_both(RDMA_PS_TCP);
}

static void resolved(void)
{
	idle();
	NEED(cm_resolve(client, id, &at) == 0);
	(void)next(client, CM_ADDR_RESOLVED);
}

static void routed(void)
{
	resolved();
	NEED(cm_resolve_route(client, id) == 0);
	(void)next(client, CM_ROUTE_RESOLVED);
}

static void requested(void)
{
	routed();
	NEED(cm_connect(client, id, "", 0) == 0);
	passive = next(server, CM_CONNECT_REQUEST).id;
}

static void answered(void)
{
	requested();
	NEED(cm_accept(server, passive, 3, "", 0) == 0);
	(void)next(client, CM_CONNECT_RESPONSE);
}

static void established(void)
{
	answered();
	NEED(cm_ready(client, id) == 0);
	(void)next(server, CM_ESTABLISHED);
}

/* It has a device. */
static void of_datagrams(void)
{
	open_both(RDMA_PS_UDP);
	NEED(cm_resolve(client, id, &at) == 0);
	(void)next(client, CM_ADDR_RESOLVED);
}

/* --- commands --------------------------------------------------------------------------------- */

static int create(void)
{
	return cm_create(client, 4, RDMA_PS_TCP, &(uint32_t){0});
}

static int bind_it(void)
{
	const struct sockaddr_in own = cm_address("127.0.0.1", 0);

	return cm_bind(client, id, &own);
}

static int resolve(void)
{
	return cm_resolve(client, id, &at);
}

static int route(void)
{
	return cm_resolve_route(client, id);
}

static int take_path(void)
{
	static const struct ib_path_rec_data path;

	return cm_option(client, id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path));
}

static int listen_at_any(void)
{
	return cm_listen(client, id, 0);
}

static int request(void)
{
	return cm_connect(client, id, "", 0);
}

static int accept_it(void)
{
	return cm_accept(server, passive, 3, "", 0);
}

static int refuse(void)
{
	return cm_reject(server, passive, 0, "", 0);
}

static int be_ready(void)
{
	return cm_ready(client, id);
}

static int leave(void)
{
	return cm_disconnect(client, id);
}

static int join(void)
{
	const struct sockaddr_in group = cm_address("239.1.1.1", 0);
	struct rdma_ucm_create_id_resp answer;
	struct rdma_ucm_join_mcast c = {
		.response = (uintptr_t)&answer, .id = id, .addr_size = sizeof(group)};

	memcpy(&c.addr, &group, sizeof(group));
	return cm_do(client, RDMA_USER_CM_CMD_JOIN_MCAST, &c, sizeof(c), sizeof(answer));
}

static int tell(void)
{
	return cm_write_event(client, id, CM_USER, 0, 0);
}

static const struct command {
	const char *name;
	void (*come)(void);
	int (*run)(void);
	uint32_t hears;
	int *who; /* hears */
} commands[] = {
	{"create", idle, create, NOTHING, NULL},
	{"bind", idle, bind_it, NOTHING, NULL},
	{"resolve an address", idle, resolve, CM_ADDR_RESOLVED, &client},
	{"resolve a route", resolved, route, CM_ROUTE_RESOLVED, &client},
	{"a path of the program's", resolved, take_path, CM_ROUTE_RESOLVED, &client},
	{"listen", idle, listen_at_any, NOTHING, NULL},
	{"connect", routed, request, CM_CONNECT_REQUEST, &server},
	{"accept", requested, accept_it, CM_CONNECT_RESPONSE, &client},
	{"reject", requested, refuse, CM_REJECTED, &client},
	{"be ready", answered, be_ready, CM_ESTABLISHED, &server},
	{"disconnect", established, leave, CM_DISCONNECTED, &server},
	{"join", of_datagrams, join, CM_MULTICAST_JOIN, &client},
	{"an event of its own", idle, tell, CM_USER, &client},
};

static void expect_heard(const struct command *c, bool failed)
{
	struct rdma_ucm_event_resp e = {0};
	int ret = cm_expect(*c->who, SOON, c->hears, &e);

	if (ret == -EPROTO && failed && c->hears == CM_ADDR_RESOLVED && e.event == CM_ADDR_ERROR &&
	    finds_none((int)e.status))
		return;
	EXPECT(ret == 0, "event %u wanted: %d, event %u", c->hears, ret, e.event);
}

/* Return: true: an allocation failed */
static bool attempt(const struct command *c, enum fail_alloc how, unsigned int nth)
{
	bool failed;
	int ret;

	row("%s, allocation %u%s", c->name, nth, how == FAIL_ONWARDS ? " onwards" : "");
	c->come();
	fail_alloc_begin(how, nth);
	ret = c->run();
	failed = fail_alloc_end();
	if (ret) {
		EXPECT(failed && (ret == -ENOMEM || finds_none(ret)), "returned %d", ret);
		EXPECT(!cm_pending(client) && !cm_pending(server), "an event");
		EXPECT(c->run() == 0, "not carried out then");
	}
	if (c->hears != NOTHING)
		expect_heard(c, failed);
	close(client);
	close(server);
	return failed;
}

static void each_command(enum fail_alloc how)
{
	for (unsigned int i = 0; i < COUNT_OF(commands); i++) {
		unsigned int nth = 1;

		while (nth <= MOST && attempt(&commands[i], how, nth))
			nth++;
		EXPECT(nth <= MOST, "more allocations than %u", MOST);
	}
}

/* The first channel of a process, and another one. */
static void each_channel(const char *which, enum fail_alloc how)
{
	bool failed = true;

	for (unsigned int nth = 1; nth <= MOST && failed; nth++) {
		int fd;

		row("open the %s channel, allocation %u%s", which, nth,
		    how == FAIL_ONWARDS ? " onwards" : "");
		fail_alloc_begin(how, nth);
		fd = cm_open(O_CLOEXEC);
		failed = fail_alloc_end();
		EXPECT(failed || fd >= 0, "returned %d", fd);
		if (fd < 0)
			fd = cm_open(O_CLOEXEC);
		EXPECT(fd >= 0, "not opened then: %d", fd);
		close(fd);
		EXPECT(*which == 's' || WAIT_UNTIL(sandbox_entries() == 0, SOON), "%u entries",
		       sandbox_entries());
	}
	EXPECT(!failed, "more allocations than %u", MOST);
}

int main(void)
{
	int keeper;

	sandbox_begin(240);
	for (int how = FAIL_ONCE; how <= FAIL_ONWARDS; how++)
		each_channel("first", (enum fail_alloc)how);
	keeper = cm_open(O_CLOEXEC);
	for (int how = FAIL_ONCE; how <= FAIL_ONWARDS; how++) {
		each_channel("second", (enum fail_alloc)how);
		each_command((enum fail_alloc)how);
	}
	close(keeper);
	return cm_end();
}
