/* SPDX-License-Identifier: MIT */
/* A shared receive queue in a segment of its own, and taking from it. */
#ifndef AV_TESTS_SRQ_FIXTURE_H
#define AV_TESTS_SRQ_FIXTURE_H

#include "queue/rq.h"
#include "unit/memory/fake_heap.h"

#define CAPACITY 8u
#define A	 0x123u /* queue pairs */
#define B	 0x456u

static struct fake_heap heap;
static struct av_seg *const seg = &heap.fake.seg;
static struct av_rq_shared *rq;
static uint32_t rq_index;

static inline int set_up(void **state)
{
	const struct av_rq_request request = {.capacity = CAPACITY, .max_sge = 1, .pd = 1, .id = 1};

	fake_heap_open(&heap);
	rq_index = av_rq_init(seg, &request);
	rq = rq_index ? av_rq_at(seg, rq_index) : NULL;
	return rq ? 0 : -1;
}

static inline int tear_down(void **state)
{
	av_rq_fini(seg, rq_index);
	fake_heap_close(&heap);
	return 0;
}

static inline int post_one(uint64_t wr_id)
{
	struct ibv_recv_wr wr = {.wr_id = wr_id}, *bad;

	return av_rq_post(seg, rq, NULL, &wr, &bad);
}

/* Return: its number; 0: there is none */
static inline uint64_t take(uint32_t qpn, uint32_t *receiving)
{
	const struct av_rq_wqe *wqe = av_rq_take(seg, rq, qpn, receiving);

	return wqe ? wqe->wr_id : 0;
}

#endif
