/* SPDX-License-Identifier: MIT */
/*
 * What both ends hear when a connection comes about and when it ends, by whom and whenever. Rules:
 * Linux, drivers/infiniband/core/cma.c, cma_ib_handler(), and cm.c, cm_destroy_id().
 */
#include <stdbool.h>
#include <unistd.h>

#include "cm/id.h"
#include "cm_commands_fixture.h"
#include "lib/unit.h"

/* librdmacm makes private_data NULL of the length 0. */
static void heard_bare(int fd, enum cm_kind kind)
{
	const struct rdma_ucm_event_resp event = heard(fd, kind);

	assert_int_equal(event.status, 0);
	assert_int_equal(event.param.conn.private_data_len, 0);
}

TEST(without_private_data)
{
	struct ends e;

	ends_open(&e);
	(void)ends_come_to(&e, CONNECTED);
	heard_bare(e.passive_fd, CM_ESTABLISHED);
	assert_int_equal(cm_disconnect(e.active_fd, e.active), 0);
	heard_bare(e.passive_fd, CM_DISCONNECTED);
	assert_int_equal(cm_disconnect(e.passive_fd, e.passive), 0);
	heard_bare(e.active_fd, CM_DISCONNECTED);
	ends_close(&e);
}

/* Counts of tries have 3 bits in messages, in which 7 is the most: rdma_connect(3). */
TEST(many_tries)
{
	struct rdma_ucm_connect c;
	struct rdma_ucm_accept a;
	struct rdma_ucm_event_resp event;

	for (uint8_t tries = 0; tries < 17; tries++) {
		const struct rdma_ucm_conn_param p = {
			.retry_count = tries, .rnr_retry_count = tries, .valid = 1};
		uint8_t heard_of = tries < 7 ? tries : 7;
		struct ends e;

		ends_open(&e);
		c = (struct rdma_ucm_connect){.id = ends_come_to(&e, ROUTED).id, .conn_param = p};
		assert_int_equal(cm_do(e.active_fd, RDMA_USER_CM_CMD_CONNECT, &c, sizeof(c), 0), 0);
		event = heard(e.passive_fd, CM_CONNECT_REQUEST);
		assert_int_equal(event.param.conn.retry_count, heard_of);
		assert_int_equal(event.param.conn.rnr_retry_count, heard_of);
		a = (struct rdma_ucm_accept){.id = event.id, .conn_param = p};
		assert_int_equal(cm_do(e.passive_fd, RDMA_USER_CM_CMD_ACCEPT, &a, sizeof(a), 0), 0);
		event = heard(e.active_fd, CM_CONNECT_RESPONSE);
		assert_int_equal(event.param.conn.rnr_retry_count, heard_of);
		ends_close(&e);
	}
}

/* The passive end is destroyed before it has heard RTU: by a command, or with its channel. */
static void refused_late(enum stage stage, bool by_command)
{
	struct ends e;

	ends_open(&e);
	(void)ends_come_to(&e, stage);
	if (by_command)
		assert_true(cm_destroy(e.passive_fd, e.passive) >= 0);
	else
		assert_int_equal(close(e.passive_fd), 0);
	if (stage == ACCEPTED)
		(void)heard(e.active_fd, CM_CONNECT_RESPONSE);
	assert_int_equal(heard(e.active_fd, CM_REJECTED).status, AV_CM_CONSUMER);
	assert_int_equal(close(e.active_fd), 0);
	if (by_command)
		assert_int_equal(close(e.passive_fd), 0);
}

TEST(destroyed_before_rtu)
{
	refused_late(ACCEPTED, true);
	refused_late(ACCEPTED, false);
	refused_late(ANSWERED, true);
	refused_late(ANSWERED, false);
}

int main(void)
{
	return run_cases(commands_setup, commands_teardown);
}
