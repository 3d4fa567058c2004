/* SPDX-License-Identifier: MIT */
/*
 * Events that a program writes itself, to wake who waits at the channel: what they bring, and whose
 * they are. Rules: rdma_write_cm_event(3), of rdma-core 60 and later.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "cm_commands_fixture.h"
#include "lib/own_directory.h"
#include "lib/unit.h"

#define UID 0x1122334455667788ull
#define ARG 0x8877665544332211ull

static uint32_t new_id(int fd, uint16_t ps)
{
	uint32_t id;

	assert_int_equal(cm_create(fd, UID, ps, &id), 0);
	return id;
}

/* Status and argument are the program's, of connections and of datagrams. */
TEST(what_it_brings)
{
	static const uint16_t spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP};

	for (size_t i = 0; i < sizeof(spaces) / sizeof(*spaces); i++)
		for (uint32_t kind = CM_USER; kind <= CM_INTERNAL; kind++) {
			int fd = channel(0);
			uint32_t id = new_id(fd, spaces[i]);
			struct rdma_ucm_event_resp event;

			assert_int_equal(cm_write_event(fd, id, kind, (uint32_t)-7, ARG), 0);
			event = heard(fd, (enum cm_kind)kind);
			assert_int_equal(event.uid, UID);
			assert_int_equal(event.id, id);
			assert_int_equal(event.status, (uint32_t)-7);
			assert_int_equal(cm_argument(&event), ARG);
			assert_int_equal(cm_destroy(fd, id), 1);
			close(fd);
		}
}

/* What only the device may say is not written. */
TEST(other_kinds)
{
	int fd = channel(0);
	uint32_t id = new_id(fd, RDMA_PS_TCP);

	for (uint32_t kind = 0; kind < CM_USER; kind++)
		assert_int_equal(cm_write_event(fd, id, kind, 0, ARG), -EINVAL);
	assert_int_equal(cm_write_event(fd, id, CM_INTERNAL + 1, 0, ARG), -EINVAL);
	assert_int_equal(cm_write_event(fd, id, UINT32_MAX, 0, ARG), -EINVAL);
	assert_false(cm_pending(fd));
	close(fd);
}

TEST(in_order)
{
	const struct sockaddr_in own = cm_address("127.0.0.1", 7174);
	struct rdma_ucm_event_resp event;
	int fd = channel(0);
	uint32_t id = new_id(fd, RDMA_PS_TCP);

	assert_int_equal(cm_write_event(fd, id, CM_USER, 0, 1), 0);
	assert_int_equal(cm_resolve(fd, id, &own), 0);
	assert_int_equal(cm_write_event(fd, id, CM_USER, 0, 2), 0);
	event = heard(fd, CM_USER);
	assert_int_equal(cm_argument(&event), 1);
	(void)heard(fd, CM_ADDR_RESOLVED);
	event = heard(fd, CM_USER);
	assert_int_equal(cm_argument(&event), 2);
	close(fd);
}

static void *wait_for_event(void *channel)
{
	struct rdma_ucm_event_resp event = {0};

	return cm_next(*(int *)channel, &event) == 0 && event.event == CM_USER ? channel : NULL;
}

/* In whichever order both come to it. */
TEST(wakes_who_waits)
{
	int fd = channel(0);
	uint32_t id = new_id(fd, RDMA_PS_TCP);
	void *woken = NULL;
	pthread_t waiter;

	assert_int_equal(pthread_create(&waiter, NULL, wait_for_event, &fd), 0);
	usleep(1000);
	assert_int_equal(cm_write_event(fd, id, CM_USER, 0, 0), 0);
	assert_int_equal(pthread_join(waiter, &woken), 0);
	assert_ptr_equal(woken, &fd);
	close(fd);
}

/* Nobody would know whose it is: the id has no name of the program's yet. */
TEST(not_accepted)
{
	struct ends e;
	struct end x;

	ends_open(&e);
	x = ends_come_to(&e, REQUESTED);
	assert_int_equal(cm_write_event(x.fd, x.id, CM_USER, 0, ARG), -EINVAL);
	assert_int_equal(cm_accept(x.fd, x.id, UID, "", 0), 0);
	assert_int_equal(cm_write_event(x.fd, x.id, CM_USER, 0, ARG), 0);
	assert_int_equal(heard(x.fd, CM_USER).uid, UID);
	ends_close(&e);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
