/* SPDX-License-Identifier: MIT */
/* What the end of a send request leaves: a completion or none, and with which opcode. */
#include <string.h>

#include "base/compiler.h"
#include "base/newer_verbs.h"
#include "lib/unit.h"
#include "queue/cq.h"
#include "queue/qp.h"
#include "unit/memory/seg_fixture.h"

#define CQ	 1u
#define CQ_AT	 (1ul << 28)
#define SQ_AT	 (1ul << 29)
#define ENTRIES	 4u
#define QPN	 0x123u
#define WR_ID	 0x1122334455667788ul
#define BYTES	 77u
#define SIGNALED IBV_SEND_SIGNALED

static struct av_cq_shared *cq;
static struct av_qp_ref end;

static int set_up(void **state)
{
	fake_open(&fake, 1);
	fake_tables(&fake);
	cq = av_cq_at(&fake.seg, CQ);
	cq->capacity = ENTRIES;
	cq->mask[0] = ENTRIES - 1;
	cq->ring[0] = CQ_AT;
	atomic_store(&cq->id, 1);
	end = (struct av_qp_ref){.seg = &fake.seg, .qp = av_qp_at(&fake.seg, 1)};
	end.qp->type = IBV_QPT_RC;
	end.qp->index = 1;
	end.qp->send_cq = CQ;
	end.qp->sq_ring = SQ_AT;
	end.qp->sq_mask = ENTRIES - 1;
	end.qp->sq_stride = 128;
	atomic_store(&end.qp->qpn, QPN);
	return 0;
}

/* The next request ends. Return: its completion, which is polled, or NULL */
static const struct av_cqe *complete(uint32_t opcode, uint32_t flags, enum ibv_wc_status status)
{
	uint32_t number = end.qp->sq_next;
	struct av_sq_wqe *wqe = av_sq_slot(&end, number);
	const struct av_cqe *e;

	wqe->wr_id = WR_ID;
	wqe->opcode = opcode;
	wqe->flags = flags;
	wqe->bytes = BYTES;
	av_lock_acquire_plain(&end.qp->req_lock, AV_RANK_REQUESTER);
	assert_int_equal(av_sq_complete(&end, wqe, status), 0);
	av_lock_release(&end.qp->req_lock);
	assert_int_equal(end.qp->sq_next, number + 1);
	e = av_cq_peek(&fake.seg, cq);
	if (!e)
		return NULL;
	assert_true(e->wr_id == WR_ID);
	assert_int_equal(e->status, status);
	assert_int_equal(e->byte_len, BYTES);
	assert_int_equal(e->qpn, QPN);
	assert_int_equal(e->queue, 1);
	assert_int_equal(e->wqe, number);
	av_cq_take(cq);
	return e;
}

static const struct {
	enum ibv_wc_status status;
	uint32_t flags, sig_all;
	bool there;
} rows[] = {
	{IBV_WC_SUCCESS, 0, 0, false},
	{IBV_WC_SUCCESS, SIGNALED, 0, true},
	{IBV_WC_SUCCESS, 0, 1, true},
	{IBV_WC_SUCCESS, SIGNALED, 1, true},
	{IBV_WC_SUCCESS, IBV_SEND_FENCE, 0, false},
	{IBV_WC_LOC_PROT_ERR, 0, 0, true},
	{IBV_WC_WR_FLUSH_ERR, 0, 0, true},
	{IBV_WC_WR_FLUSH_ERR, SIGNALED, 1, true},
};

TEST_WITH(success_is_told_if_it_is_asked_for, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(rows); i++) {
		end.qp->sig_all = rows[i].sig_all;
		if ((complete(IBV_WR_SEND, rows[i].flags, rows[i].status) != NULL) != rows[i].there)
			fail_msg("row %zu", i);
	}
}

static const struct {
	uint32_t request;
	uint16_t completion;
} opcodes[] = {
	{IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
	{IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
	{IBV_WR_SEND, IBV_WC_SEND},
	{IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
	{IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
	{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_COMP_SWAP},
	{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD},
	{IBV_WR_LOCAL_INV, IBV_WC_LOCAL_INV},
	{IBV_WR_BIND_MW, IBV_WC_BIND_MW},
	{IBV_WR_SEND_WITH_INV, IBV_WC_SEND},
	{AV_WR_FLUSH, AV_WC_FLUSH},
	{AV_WR_ATOMIC_WRITE, AV_WC_ATOMIC_WRITE},
	{AV_WR_UMR_FILL, AV_WC_UMR},
	{AV_WR_UMR_INVALIDATE, AV_WC_UMR},
	{AV_WR_UMR_INVALIDATE + 1, IBV_WC_SEND}, /* of a ring that somebody has damaged */
	{UINT32_MAX, IBV_WC_SEND},
};

TEST_WITH(each_opcode_has_that_of_its_completion, set_up, close_fake)
{
	for (size_t i = 0; i < AV_ARRAY_SIZE(opcodes); i++) {
		const struct av_cqe *e = complete(opcodes[i].request, SIGNALED, 0);

		if (!e || e->opcode != opcodes[i].completion)
			fail_msg("opcode %u", opcodes[i].request);
	}
}

int main(void)
{
	return run_cases(NULL, NULL);
}
