/* SPDX-License-Identifier: MIT */
/* Numbers of connections: the process, a tag and an index, each in its bits. */
#include "base/lock.h"
#include "cm/id.h"
#include "lib/own_directory.h"
#include "lib/unit.h"

#define TAGS 16u

static struct av_cm_conn
	*conns[AV_CM_COMM_MAX]; /* by index; a tag is missing once in 10^1800 runs */

static void their_bits(void **state)
{
	static const struct av_cm_route route;
	static struct av_cm_id id;
	struct av_cm_conn *c;
	uint32_t seen = 0;

	av_cm_lock();
	for (uint32_t i = 1; i < AV_CM_COMM_MAX; i++) {
		c = av_cm_conn_new(&id, AV_CM_ENDED, &route, NULL);
		assert_non_null(c);
		assert_int_equal(c->comm >> AV_CM_COMM_BITS, AV_REF_SLOT(av_lock_self));
		assert_null(conns[c->comm % AV_CM_COMM_MAX]);
		conns[c->comm % AV_CM_COMM_MAX] = c;
		seen |= 1u << c->comm / AV_CM_COMM_MAX % TAGS;
	}
	assert_int_equal(seen, (1u << TAGS) - 1);
	assert_null(conns[0]);
	assert_null(av_cm_conn_new(&id, AV_CM_ENDED, &route, NULL));
	for (uint32_t i = 1; i < AV_CM_COMM_MAX; i++)
		av_cm_conn_abandon(conns[i]);
	av_cm_conns_look(0);
	assert_false(av_cm_conns_there());
	av_cm_unlock();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(their_bits)};

	return cmocka_run_group_tests(tests, own_directory_join, own_directory_leave);
}
