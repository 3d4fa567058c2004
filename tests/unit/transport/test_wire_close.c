/* SPDX-License-Identifier: MIT */
/* The state of a queue pair on the wire ends under both of its rights, or stays until it can. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "registry/directory.h"
#include "queue/qp.h"
#include "transport/wire.h"
#include "transport/wire_qp.h"
#include "lib/own_directory.h"
#include "unit/memory/fake_seg.h"

#define INDEX  1u
#define LIVING 1000001u /* a process that is none */

static struct fake_seg f;
static struct av_qp_end end;

static bool is_alive(uint32_t owner)
{
	return true;
}

static int set_up(void **state)
{
	fake_open(&f, 1);
	fake_tables(&f);
	f.seg.own = true;
	end = (struct av_qp_end){&f.seg, av_qp_at(&f.seg, INDEX)};
	end.qp->index = INDEX;
	atomic_store(&end.qp->qpn, 77);
	return 0;
}

static int tear_down(void **state)
{
	fake_close(&f);
	return 0;
}

static struct av_wire *put(void)
{
	struct av_wire *w = av_wire_new(&end, 0);

	assert_non_null(w);
	assert_int_equal(av_wire_keep(&end, w), 0);
	end.qp->wire = 1;
	return w;
}

static void none(void **state)
{
	assert_int_equal(av_wire_close(&end), 0);
	put();
	assert_int_equal(av_wire_close(&end), 0);
	assert_null(av_wire_at(&f.seg, INDEX));
	assert_int_equal(end.qp->wire, 0);
	assert_int_equal(av_wire_close(&end), 0);
}

/* Somebody is stopped within the queue pair: who comes next has to try again. */
static void another_has_a_right(void **state)
{
	struct av_lock *const rights[] = {&end.qp->exec, &end.qp->resp};

	for (size_t i = 0; i < AV_ARRAY_SIZE(rights); i++) {
		struct av_wire *w = put();

		atomic_store(&rights[i]->owner, LIVING);
		assert_int_equal(av_wire_close(&end), EBUSY);
		assert_ptr_equal(av_wire_at(&f.seg, INDEX), w);
		assert_int_equal(end.qp->wire, 1);
		assert_int_equal(atomic_exchange(&rights[i]->owner, 0), LIVING);
		assert_int_equal(av_wire_close(&end), 0);
		assert_null(av_wire_at(&f.seg, INDEX));
		assert_int_equal(end.qp->wire, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_has_a_right, set_up, tear_down),
	};

	int ret = own_directory_join(NULL);

	av_lock_owner_alive = is_alive;
	if (ret == 0)
		ret = cmocka_run_group_tests(tests, NULL, NULL);
	(void)own_directory_leave(NULL);
	return ret;
}
