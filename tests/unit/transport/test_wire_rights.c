/* SPDX-License-Identifier: MIT */
/*
 * The responder's right of a queue pair on the wire that somebody else has: the state ends under
 * it, or stays until it can; and sending does not wait for long.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/own_directory.h"
#include "lib/unit.h"
#include "queue/qp.h"
#include "registry/directory.h"
#include "transport/outcome.h"
#include "transport/transport.h"
#include "transport/wire_qp.h"
#include "unit/memory/fake_seg.h"
#include "wire/packet.h"

#define INDEX  1u
#define LIVING 1000001u /* a process that is none */
#define LIMIT  60	/* s */

static struct fake_seg f;
static struct av_qp_ref end;

static bool is_alive(uint32_t owner)
{
	return true;
}

static int set_up(void **state)
{
	fake_open(&f, 1);
	fake_tables(&f);
	f.seg.own = true;
	end = (struct av_qp_ref){&f.seg, av_qp_at(&f.seg, INDEX)};
	end.qp->index = INDEX;
	atomic_store(&end.qp->qpn, 77);
	return 0;
}

static int tear_down(void **state)
{
	struct av_table *wires = atomic_load(&f.seg.wires);

	if (wires)
		av_table_fini(wires);
	free(wires);
	fake_close(&f);
	return 0;
}

static struct av_wire *put(void)
{
	struct av_wire *w = calloc(1, sizeof(*w));
	struct av_table *wires = atomic_load(&f.seg.wires);

	if (!wires)
		wires = calloc(1, sizeof(*wires));
	assert_non_null(w);
	assert_non_null(wires);
	atomic_store(&f.seg.wires, wires);
	w->qpn = atomic_load(&end.qp->qpn);
	w->service = av_service_of(end.qp->type);
	assert_int_equal(av_table_set(wires, INDEX, w), 0);
	end.qp->wire = 1;
	return w;
}

TEST_WITH(none, set_up, tear_down)
{
	assert_int_equal(av_wire_close(&end), 0);
	put();
	assert_int_equal(av_wire_close(&end), 0);
	assert_null(av_wire_at(&f.seg, INDEX));
	assert_int_equal(end.qp->wire, 0);
	assert_int_equal(av_wire_close(&end), 0);
}

/* Somebody is stopped within the queue pair: who comes next has to try again. */
TEST_WITH(another_has_the_right, set_up, tear_down)
{
	struct av_wire *w = put();

	atomic_store(&end.qp->resp_lock.owner, LIVING);
	assert_int_equal(av_wire_close(&end), EBUSY);
	assert_ptr_equal(av_wire_at(&f.seg, INDEX), w);
	assert_int_equal(end.qp->wire, 1);
	assert_int_equal(atomic_exchange(&end.qp->resp_lock.owner, 0), LIVING);
	assert_int_equal(av_wire_close(&end), 0);
	assert_null(av_wire_at(&f.seg, INDEX));
	assert_int_equal(end.qp->wire, 0);
}

/* A step of a move to the wire is taken later: the peer waits to hear of it. */
TEST_WITH(a_move_is_taken_later, set_up, tear_down)
{
	const struct {
		enum av_to_wire step, then;
	} rows[] = {
		{AV_TO_WIRE_WANTED, AV_TO_WIRE_WAITS},
		{AV_TO_WIRE_ASKED, AV_TO_WIRE_CANNOT}, /* it has no address */
	};

	for (size_t k = 0; k < AV_ARRAY_SIZE(rows); k++) {
		atomic_store(&end.qp->to_wire, rows[k].step);
		atomic_store(&end.qp->resp_lock.owner, LIVING);
		assert_false(av_wire_move(&end));
		assert_int_equal(atomic_load(&end.qp->to_wire), rows[k].step);
		assert_int_equal(atomic_exchange(&end.qp->resp_lock.owner, 0), LIVING);
		assert_true(av_wire_move(&end));
		assert_int_equal(atomic_load(&end.qp->to_wire), rows[k].then);
	}
}

/* What is owed is sent along if the responder is free soon. Else the end of the batch does it. */
TEST_WITH(sending_does_not_wait, set_up, tear_down)
{
	struct av_wire *w = put();

	w->route.window = av_window_join(w->route.path.dst);
	assert_non_null(w->route.window);
	atomic_store(&end.qp->sq_tail, 1);
	atomic_store(&w->ack_pending, true);
	atomic_store(&end.qp->resp_lock.owner, LIVING);
	av_lock_acquire_plain(&end.qp->req_lock, AV_RANK_REQUESTER);
	alarm(LIMIT);
	(void)av_wire_step(&end, false);
	alarm(0);
	assert_true(atomic_load(&w->ack_pending));
	assert_int_equal(atomic_exchange(&end.qp->resp_lock.owner, 0), LIVING);
	(void)av_wire_step(&end, false);
	assert_false(atomic_load(&w->ack_pending));
	av_lock_release(&end.qp->req_lock);
	assert_int_equal(av_wire_close(&end), 0);
}

/* The longest message has half of all PSNs. It is under way until it is acknowledged. */
TEST_WITH(longest_message, set_up, tear_down)
{
	const uint32_t packets = AV_WIRE_MESSAGE_MAX / 256, first = 0xfffffc;
	struct av_wire *w = put();

	w->request = calloc(1, sizeof(*w->request));
	assert_non_null(w->request);
	w->request[0].first = w->sent = first;
	w->begun_end = 1;
	av_lock_acquire_plain(&end.qp->req_lock, AV_RANK_REQUESTER);
	assert_false(av_wire_is_under_way(&end));
	w->sent = AV_PSN_AFTER(first, 1);
	assert_true(av_wire_is_under_way(&end));
	w->sent = AV_PSN_AFTER(first, packets);
	assert_true(av_wire_is_under_way(&end));
	av_lock_release(&end.qp->req_lock);
	assert_int_equal(av_wire_close(&end), 0);
}

static int join(void **state)
{
	int ret = own_directory_join(state);

	av_lock_owner_alive = is_alive;
	return ret;
}

int main(void)
{
	return run_cases(join, own_directory_leave);
}
