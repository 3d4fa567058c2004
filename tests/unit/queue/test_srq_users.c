/* SPDX-License-Identifier: MIT */
/* Which queue pairs receive from a shared receive queue, as a report of a segment sees them. */
#include "base/compiler.h"
#include "lib/unit.h"
#include "queue/objects.h"
#include "unit/memory/seg_fixture.h"

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

TEST_WITH(a_shared_receive_queue_has_its_queue_pairs, set_up, close_fake)
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
	return run_cases(NULL, NULL);
}
