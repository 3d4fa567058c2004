/* SPDX-License-Identifier: MIT */
/*
 * A device that goes under ids at each stage: who hears of it, how often, and what they have left.
 * Rules: Linux, drivers/infiniband/core/cma.c: cma_process_remove(); ucma.c: ucma_event_handler()
 */
#include <errno.h>

#include "cm/cm.h"
#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/unit.h"
#include "lib/wait.h"

#define OTHER 17 /* of an id that the fixture does not know */

/* How often the ids of both ends hear of it, beside the listener, who hears of it once. */
static const struct row {
	enum stage stage;
	const char *name;
	unsigned int active, passive;
} rows[] = {
	{IDLE, "idle: has no device", 0, 0},
	{BOUND, "bound", 1, 0},
	{RESOLVED, "address resolved", 1, 0},
	{ROUTED, "route resolved", 1, 0},
	{REQUESTED, "REQ received, not accepted: nobody knows whom to tell", 1, 0},
	{ACCEPTED, "REP sent", 1, 1},
	{ANSWERED, "REP received", 1, 1},
	{CONNECTED, "RTU sent", 1, 1},
	{ESTABLISHED, "established", 1, 1},
	{LEAVING, "DREQ sent", 1, 1},
	{LEFT, "DREQ received", 1, 1},
	{DISCONNECTED, "DREP received", 1, 1},
	{REMOVED, "gone before", 0, 1}, /* the passive end has not fetched it yet */
};

/* Fetch all that there is. Return: how many were of that kind */
static unsigned int fetch(int fd, uint32_t kind)
{
	struct rdma_ucm_event_resp e;
	unsigned int count = 0;

	while (cm_pending(fd)) {
		assert_int_equal(cm_next(fd, &e), 0);
		count += e.event == kind;
	}
	return count;
}

TEST(each_stage)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *r = &rows[i];
		unsigned int active, passive;
		struct ends e;

		ends_open(&e);
		(void)ends_come_to(&e, r->stage);
		device_fails();
		active = fetch(e.active_fd, CM_DEVICE_REMOVAL);
		passive = fetch(e.passive_fd, CM_DEVICE_REMOVAL);
		if (active != r->active || passive != r->passive + 1)
			print_message("%s: %u and %u events\n", r->name, active, passive);
		assert_int_equal(active, r->active);
		assert_int_equal(passive, r->passive + 1);
		ends_close(&e);
	}
}

/* A request that waits when the device goes is still told of, and cannot be accepted. */
TEST(waiting_request)
{
	struct rdma_ucm_event_resp event;
	struct ends e;

	ends_open(&e);
	(void)ends_come_to(&e, REQUESTING);
	assert_true(WAIT_UNTIL(cm_pending(e.passive_fd), SOON));
	device_fails();
	event = heard(e.passive_fd, CM_CONNECT_REQUEST);
	assert_int_equal(cm_accept(e.passive_fd, event.id, OTHER, "", 0), -ENXIO);
	assert_int_equal(cm_destroy(e.passive_fd, event.id), 0);
	ends_close(&e);
}

/*
 * Whoever listens at all addresses goes on, and so does who is bound to the device afterwards, even
 * if this process is called again for the same failure.
 */
TEST(goes_on)
{
	struct sockaddr_in any = cm_address("0.0.0.0", 0), at;
	struct av_seg *seg = device_open();
	struct ends e;
	uint32_t all, again;

	ends_open(&e);
	assert_int_equal(cm_create(e.passive_fd, OTHER, RDMA_PS_TCP, &all), 0);
	assert_int_equal(cm_bind(e.passive_fd, all, &any), 0);
	assert_int_equal(cm_listen(e.passive_fd, all, 0), 0);
	at = cm_source(e.passive_fd, all);
	at.sin_addr = e.at.sin_addr;
	device_fail(seg);
	assert_int_equal(fetch(e.passive_fd, CM_DEVICE_REMOVAL), 1);
	assert_int_equal(cm_create(e.passive_fd, OTHER, RDMA_PS_TCP, &again), 0);
	assert_int_equal(cm_bind(e.passive_fd, again, &e.at), 0); /* the port is free, too */
	e.at = at;
	(void)ends_come_to(&e, ESTABLISHED);
	av_cm_device_called(seg);
	assert_int_equal(fetch(e.passive_fd, CM_DEVICE_REMOVAL), 0);
	ends_close(&e);
	av_seg_close(seg);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
