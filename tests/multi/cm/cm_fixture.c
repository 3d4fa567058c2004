/* SPDX-License-Identifier: MIT */
#include "cm_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/expect.h"
#include "lib/sandbox.h"
#include "lib/wait.h"

#define ROLE "--party"

static int fd = -1; /* this process's channel */
static int orders;  /* where they come from */

/* --- what a process does ------------------------------------------------------------------ */

static uint16_t ps_of(const struct order *o)
{
	return o->ps ? o->ps : RDMA_PS_TCP;
}

static int listen_at(const struct order *o, struct outcome *out)
{
	int ret = cm_create(fd, o->uid, ps_of(o), &out->id);

	if (ret == 0)
		ret = cm_bind(fd, out->id, &o->at);
	if (ret == 0)
		ret = cm_listen(fd, out->id, o->number);
	out->at = cm_source(fd, out->id);
	return ret;
}

static int find_route(const struct order *o, struct outcome *out)
{
	int ret = cm_create(fd, o->uid, ps_of(o), &out->id);

	if (ret == 0)
		ret = cm_resolve(fd, out->id, &o->at);
	if (ret == 0)
		ret = cm_expect(fd, SOON, CM_ADDR_RESOLVED, &out->event);
	if (ret == 0)
		ret = cm_resolve_route(fd, out->id);
	if (ret == 0)
		ret = cm_expect(fd, SOON, CM_ROUTE_RESOLVED, &out->event);
	return ret;
}

static int request(const struct order *o, struct outcome *out)
{
	int ret = find_route(o, out);

	return ret ? ret : cm_connect(fd, out->id, o->data, o->bytes);
}

static void stop_serving(uint32_t id)
{
	NEED(cm_destroy(fd, id) >= 0);
}

/* One event of a server. Return: 1: a connection is there; -1: one has ended; 0 */
static int serve_one(void)
{
	struct rdma_ucm_event_resp e;

	NEED(cm_next(fd, &e) == 0);
	switch (e.event) {
	case CM_CONNECT_REQUEST:
		if (cm_accept(fd, e.id, 1, "", 0))
			stop_serving(e.id); /* the peer has gone meanwhile */
		return 0;
	case CM_ESTABLISHED:
		return 1;
	case CM_DISCONNECTED:
		NEED(cm_disconnect(fd, e.id) == 0);
		stop_serving(e.id);
		return -1;
	case CM_REJECTED:
	case CM_UNREACHABLE:
		stop_serving(e.id);
		return -1;
	default:
		fail_at(__FILE__, __LINE__, "a server hears event %u", e.event);
		return 0;
	}
}

/* Return: false: the next order is there */
static bool await_event(void)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = orders, .events = POLLIN}};

	NEED(TEMP_FAILURE_RETRY(poll(p, 2, -1)) > 0);
	return p[0].revents;
}

static int serve(uint32_t number, int what)
{
	while (number && await_event())
		number -= serve_one() == what;
	return 0;
}

static struct held measure(void)
{
	struct held held = {.descriptors = open_descriptors()};

#if !TEST_SANITIZED
	held.bytes = mallinfo2().uordblks;
#endif
	return held;
}

/* Whether a connection's wait for late packets is over before it is destroyed, time decides. */
static int hear(uint32_t kind, struct rdma_ucm_event_resp *event)
{
	int ret;

	do
		ret = cm_expect(fd, SOON, kind, event);
	while (ret == -EPROTO && event->event == CM_TIMEWAIT_EXIT);
	return ret;
}

static int hear_any(struct rdma_ucm_event_resp *event)
{
	int ret;

	do
		ret = cm_expect(fd, FAR_SOON, CM_TIMEWAIT_EXIT, event);
	while (ret == 0);
	return ret == -EPROTO ? 0 : ret;
}

static int carry_out(const struct order *o, struct outcome *out)
{
	int ret;

	switch (o->what) {
	case DO_OPEN:
		fd = cm_open(O_CLOEXEC);
		return fd < 0 ? fd : 0;
	case DO_CLOSE:
		return close(fd) ? -errno : 0;
	case DO_LISTEN:
		return listen_at(o, out);
	case DO_ROUTE:
		return find_route(o, out);
	case DO_CONNECT:
		return cm_connect(fd, o->id, o->data, o->bytes);
	case DO_REQUEST:
		return request(o, out);
	case DO_ACCEPT:
		return cm_accept(fd, o->id, o->uid, o->data, o->bytes);
	case DO_READY:
		return cm_ready(fd, o->id);
	case DO_REJECT:
		return cm_reject(fd, o->id, (uint8_t)o->number, o->data, o->bytes);
	case DO_DISCONNECT:
		return cm_disconnect(fd, o->id);
	case DO_DESTROY:
		ret = cm_destroy(fd, o->id);
		return ret < 0 ? ret : 0;
	case DO_HEAR:
		return hear(o->number, &out->event);
	case DO_HEAR_ANY:
		return hear_any(&out->event);
	case DO_SERVE:
		return serve(o->number, -1);
	case DO_SERVE_ALL:
		return serve(o->number, 1);
	case DO_MEASURE:
		out->held = measure();
		return 0;
	}
	return -ENOSYS;
}

/* --- parties ------------------------------------------------------------------------------ */

void parties_main(int argc, char **argv)
{
	struct order o;

	orders = spawn_role(argc, argv, ROLE);
	if (orders < 0)
		return;
	fcntl(orders, F_SETFD, FD_CLOEXEC);
	while (spawn_receive_any(orders, &o, sizeof(o)) == sizeof(o)) {
		struct outcome out = {0};

		out.ret = carry_out(&o, &out);
		spawn_send(orders, &out, sizeof(out));
	}
	exit(failures() ? 1 : 0);
}

void party_start(struct party *p)
{
	const struct order o = {.what = DO_OPEN};

	if (!p->here)
		spawn_self(&p->process, ROLE);
	NEED(party_do(p, &o).ret == 0);
}

void party_stop(struct party *p)
{
	EXPECT(party_tell(p, DO_CLOSE, 0) == 0, "the channel cannot be closed");
	if (p->here)
		return;
	shutdown(p->process.sock, SHUT_WR);
	spawn_wait(&p->process);
}

void party_begin(struct party *p, const struct order *o)
{
	spawn_send(p->process.sock, o, sizeof(*o));
}

struct outcome party_end(struct party *p)
{
	struct outcome out;

	spawn_receive(p->process.sock, &out, sizeof(out));
	return out;
}

struct outcome party_do(struct party *p, const struct order *o)
{
	struct outcome out = {0};

	if (p->here) {
		out.ret = carry_out(o, &out);
		return out;
	}
	party_begin(p, o);
	return party_end(p);
}

int party_tell(struct party *p, enum what what, uint32_t id)
{
	const struct order o = {.what = what, .id = id, .uid = 1};

	return party_do(p, &o).ret;
}

uint32_t party_listen(struct party *p, struct sockaddr_in *at)
{
	const struct order o = {.what = DO_LISTEN, .uid = 1, .at = cm_address("127.0.0.1", 0)};
	struct outcome out = party_do(p, &o);

	if (out.ret)
		DIE("cannot listen: %d", out.ret);
	*at = out.at;
	return out.id;
}

uint32_t party_request(struct party *p, const struct sockaddr_in *at, const void *data,
		       uint32_t bytes)
{
	struct order o = {.what = DO_REQUEST, .uid = 1, .at = *at, .bytes = bytes};
	struct outcome out;

	if (bytes)
		memcpy(o.data, data, bytes);
	out = party_do(p, &o);
	if (out.ret)
		DIE("cannot request: %d, event %u", out.ret, out.event.event);
	return out.id;
}

struct rdma_ucm_event_resp party_hear(struct party *p, enum cm_kind kind)
{
	const struct order o = {.what = DO_HEAR, .number = kind};
	struct outcome out = party_do(p, &o);

	EXPECT(out.ret == 0, "event %d wanted: %d, event %u with status %d", kind, out.ret,
	       out.event.event, (int)out.event.status);
	return out.event;
}

/* --- connections -------------------------------------------------------------------------- */

struct link parties_connect(struct party *active, struct party *passive,
			    const struct sockaddr_in *at)
{
	struct link l = {.active = party_request(active, at, NULL, 0)};

	l.passive = party_hear(passive, CM_CONNECT_REQUEST).id;
	EXPECT(party_tell(passive, DO_ACCEPT, l.passive) == 0, "cannot accept");
	(void)party_hear(active, CM_CONNECT_RESPONSE);
	EXPECT(party_tell(active, DO_READY, l.active) == 0, "cannot be ready");
	(void)party_hear(passive, CM_ESTABLISHED);
	return l;
}

void parties_part(struct party *active, struct party *passive, struct link l)
{
	EXPECT(party_tell(active, DO_DISCONNECT, l.active) == 0, "cannot disconnect");
	(void)party_hear(passive, CM_DISCONNECTED);
	EXPECT(party_tell(passive, DO_DISCONNECT, l.passive) == 0, "cannot disconnect");
	(void)party_hear(active, CM_DISCONNECTED);
	EXPECT(party_tell(active, DO_DESTROY, l.active) == 0, "cannot destroy");
	EXPECT(party_tell(passive, DO_DESTROY, l.passive) == 0, "cannot destroy");
}

int cm_end(void)
{
	row("nothing is left");
	EXPECT(WAIT_UNTIL(sandbox_entries() == 0, SOON), "%u entries", sandbox_entries());
	return sandbox_end();
}
