/* SPDX-License-Identifier: MIT */
#include "cm_commands_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "cm/cm.h"
#include "cm/cm_address.h"
#include "copy/copy.h"
#include "device/device.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "registry/tables.h"
#include "transport/transport.h"

#define ACTIVE	1
#define LISTENS 2
#define PASSIVE 3

static ssize_t put(int fd, const void *bytes, size_t count)
{
	uint32_t number;

	assert_true(av_cm_is_channel(fd, &number));
	return av_cm_write(fd, number, bytes, count);
}

/* cmocka puts its own handler in the place of that of av_copy(), for each test. */
static struct sigaction our_segv;

int commands_setup(void **state)
{
	cm_put = put;
	if (av_copy_init() || sigaction(SIGSEGV, NULL, &our_segv))
		return -1;
	return own_directory_join(state);
}

int commands_teardown(void **state)
{
	const struct timespec nap = {.tv_nsec = 10000000};

	for (int i = 0; i < 2000 && av_thread_own(); i++)
		nanosleep(&nap, NULL);
	return own_directory_leave(state);
}

int channel(int flags)
{
	int fd = av_cm_open(O_RDWR | O_CLOEXEC | flags);

	sigaction(SIGSEGV, &our_segv, NULL);
	assert_true(fd >= 0);
	return fd;
}

struct rdma_ucm_event_resp heard(int fd, enum cm_kind kind)
{
	struct rdma_ucm_event_resp event;
	int ret = cm_expect(fd, SOON, kind, &event);

	if (ret)
		print_message("event %d wanted, %u heard\n", kind, event.event);
	assert_int_equal(ret, 0);
	return event;
}

struct sockaddr_in device_address(uint16_t port)
{
	struct sockaddr_in at = cm_address("0.0.0.0", port);
	struct av_cm_where where;

	assert_true(av_cm_where_any(false, &where));
	memcpy(&at.sin_addr, where.gid + 12, sizeof(at.sin_addr));
	if (av_cm_is_any(where.gid))
		skip();
	return at;
}

/* @commands: not what the module's thread may record at any moment */
static struct av_flight_record newest(bool commands)
{
	const struct av_flight_file *file = av_flight_own();
	struct av_flight_record r;
	uint64_t next;

	assert_non_null(file);
	next = av_flight_next(file);
	do
		assert_true(next > 0 && av_flight_read(file, --next, &r));
	while (commands && (r.error == ECONNREFUSED || r.error == ETIMEDOUT));
	av_flight_own_end();
	return r;
}

struct av_flight_record last_record(void)
{
	return newest(false);
}

struct av_flight_record last_refusal(void)
{
	return newest(true);
}

void ends_open(struct ends *e)
{
	struct sockaddr_in any = device_address(0);

	*e = (struct ends){.active_fd = channel(0), .passive_fd = channel(0)};
	assert_int_equal(cm_create(e->passive_fd, LISTENS, RDMA_PS_TCP, &e->listener), 0);
	assert_int_equal(cm_bind(e->passive_fd, e->listener, &any), 0);
	e->at = cm_source(e->passive_fd, e->listener);
	assert_int_equal(cm_listen(e->passive_fd, e->listener, 0), 0);
	assert_int_equal(cm_create(e->active_fd, ACTIVE, RDMA_PS_TCP, &e->active), 0);
}

void ends_close(struct ends *e)
{
	assert_int_equal(close(e->active_fd), 0);
	assert_int_equal(close(e->passive_fd), 0);
}

int end_attr(struct end x, uint32_t state, struct ib_uverbs_qp_attr *attr)
{
	struct rdma_ucm_init_qp_attr c = {
		.response = (uintptr_t)attr, .id = x.id, .qp_state = state};

	memset(attr, 0, sizeof(*attr));
	return cm_do(x.fd, RDMA_USER_CM_CMD_INIT_QP_ATTR, &c, sizeof(c), sizeof(*attr));
}

/* --- one step to each stage ------------------------------------------------------------ */

static void bind_active(struct ends *e)
{
	struct sockaddr_in any = device_address(0);

	assert_int_equal(cm_bind(e->active_fd, e->active, &any), 0);
}

static void resolve(struct ends *e)
{
	assert_int_equal(cm_resolve(e->active_fd, e->active, &e->at), 0);
	assert_int_equal(heard(e->active_fd, CM_ADDR_RESOLVED).status, 0);
}

static void route(struct ends *e)
{
	assert_int_equal(cm_resolve_route(e->active_fd, e->active), 0);
	assert_int_equal(heard(e->active_fd, CM_ROUTE_RESOLVED).status, 0);
}

static void request(struct ends *e)
{
	assert_int_equal(cm_connect(e->active_fd, e->active, "", 0), 0);
}

static void be_requested(struct ends *e)
{
	e->passive = heard(e->passive_fd, CM_CONNECT_REQUEST).id;
}

static void accept_it(struct ends *e)
{
	assert_int_equal(cm_accept(e->passive_fd, e->passive, PASSIVE, "", 0), 0);
}

static void be_answered(struct ends *e)
{
	assert_int_equal(heard(e->active_fd, CM_CONNECT_RESPONSE).uid, ACTIVE);
}

static void be_ready(struct ends *e)
{
	assert_int_equal(cm_ready(e->active_fd, e->active), 0);
}

static void be_established(struct ends *e)
{
	assert_int_equal(heard(e->passive_fd, CM_ESTABLISHED).uid, PASSIVE);
}

static void leave(struct ends *e)
{
	assert_int_equal(cm_disconnect(e->active_fd, e->active), 0);
}

static void be_left(struct ends *e)
{
	assert_int_equal(heard(e->passive_fd, CM_DISCONNECTED).uid, PASSIVE);
}

static void part(struct ends *e)
{
	assert_int_equal(cm_disconnect(e->passive_fd, e->passive), 0);
	assert_int_equal(heard(e->active_fd, CM_DISCONNECTED).uid, ACTIVE);
}

struct av_seg *device_open(void)
{
	unsigned int count;
	struct av_seg *seg = av_device_open(av_devices(&count)[0], 0);

	assert_non_null(seg);
	return seg;
}

void device_fail(struct av_seg *seg)
{
	assert_false(av_context_fatal(seg)); /* there is no doorbell */
	av_cm_device_called(seg);
}

void device_fails(void)
{
	struct av_seg *seg = device_open();

	device_fail(seg);
	av_seg_close(seg);
}

static void lose_device(struct ends *e)
{
	device_fails();
	assert_int_equal(heard(e->active_fd, CM_DEVICE_REMOVAL).uid, ACTIVE);
}

/* --- stages ---------------------------------------------------------------------------- */

/* How a stage is come to from the one that it begins at. */
static const struct {
	void (*step)(struct ends *e);
	enum stage from;
	bool passive;
} steps[STAGES] = {
	[BOUND] = {bind_active, IDLE, false},
	[RESOLVED] = {resolve, IDLE, false},
	[ROUTED] = {route, RESOLVED, false},
	[LISTENING] = {NULL, IDLE, true},
	[REQUESTING] = {request, ROUTED, false},
	[REQUESTED] = {be_requested, REQUESTING, true},
	[ACCEPTED] = {accept_it, REQUESTED, true},
	[ANSWERED] = {be_answered, ACCEPTED, false},
	[CONNECTED] = {be_ready, ANSWERED, false},
	[ESTABLISHED] = {be_established, CONNECTED, true},
	[LEAVING] = {leave, ESTABLISHED, false},
	[LEFT] = {be_left, LEAVING, true},
	[DISCONNECTED] = {part, LEFT, false},
	[REMOVED] = {lose_device, CONNECTED, false},
};

struct end ends_come_to(struct ends *e, enum stage stage)
{
	if (stage != IDLE)
		(void)ends_come_to(e, steps[stage].from);
	if (steps[stage].step)
		steps[stage].step(e);
	if (!steps[stage].passive)
		return (struct end){e->active_fd, e->active};
	return (struct end){e->passive_fd, e->passive ? e->passive : e->listener};
}
