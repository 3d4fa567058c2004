/* SPDX-License-Identifier: MIT */
/* Which queue pairs receive from a shared receive queue, as a report of a segment sees them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/compiler.h"
#include "queue/qp.h"
#include "unit/memory/fake_seg.h"

static struct fake_seg fake;

/* Those without a number do not exist. */
static const struct {
	uint32_t index, qpn, rq;
	bool srq;
} qps[] = {
	{1, 0x101, 1, true},
	{2, 0x102, 1, false}, /* its own receive queue has the number of that shared one */
	{3, 0x103, 2, true},
	{4, 0, 1, true},
	{5, 0x105, 1, true},
	{AV_OBJ_CHUNK - 1, 0x106, 3, true},
};

static const struct {
	uint32_t srq;
	uint32_t users[3]; /* ends at 0 */
} rows[] = {
	{1, {0x101, 0x105}},
	{2, {0x103}},
	{3, {0x106}},
	{4, {0}},
};

static int set_up(void **state)
{
	fake_open(&fake, 1);
	fake_tables(&fake);
	for (size_t i = 0; i < AV_ARRAY_SIZE(qps); i++) {
		struct av_qp_shared *qp = av_qp_at(&fake.seg, qps[i].index);

		qp->rq = qps[i].rq;
		qp->srq = qps[i].srq;
		atomic_store(&qp->qpn, qps[i].qpn);
	}
	return 0;
}

static int tear_down(void **state)
{
	fake_close(&fake);
	return 0;
}

static void a_shared_receive_queue_has_its_queue_pairs(void **state)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		const struct av_srq_info srq = {.number = rows[i].srq, .seg = &fake.seg};
		uint32_t at = 0;

		for (size_t n = 0; n == 0 || rows[i].users[n - 1]; n++)
			assert_int_equal(av_srq_qp(&srq, &at), rows[i].users[n]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_shared_receive_queue_has_its_queue_pairs, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
