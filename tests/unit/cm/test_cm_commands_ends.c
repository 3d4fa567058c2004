/* SPDX-License-Identifier: MIT */
/*
 * What both ends hear when a connection comes about and when it ends, by whom and whenever. Rules:
 * Linux, drivers/infiniband/core/cma.c, cma_ib_handler(), and cm.c, cm_destroy_id().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm/conn.h"
#include "cm_commands_fixture.h"

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

static void destroyed_before_rtu(void **state)
{
	refused_late(ACCEPTED, true);
	refused_late(ACCEPTED, false);
	refused_late(ANSWERED, true);
	refused_late(ANSWERED, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(destroyed_before_rtu),
	};

	return cmocka_run_group_tests_name("ends of connections", tests, commands_setup,
					   commands_teardown);
}
